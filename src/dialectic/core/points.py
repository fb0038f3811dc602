"""The words for where points come from and what became of them. Pure.

A link says that two texts say the same, never that something is true.
"""

from __future__ import annotations

import enum


class SourceKind(enum.StrEnum):
    """What a text is."""

    CONTRIBUTION = "contribution"
    REQUEST = "request"
    RESOURCE = "resource"
    FEEDBACK = "feedback"
    RULING = "ruling"
    # A version that a person wrote.
    PERSON = "person"


class Relation(enum.StrEnum):
    """How a point differs from what it says the same as."""

    VERBATIM = "verbatim"
    CHANGED = "changed"
    ROUNDED = "rounded"
    MERGED = "merged"
    REWORDED = "reworded"
    NEW = "new"


class Status(enum.StrEnum):
    """What became of a point."""

    KEPT = "kept"
    CHANGED = "changed"
    REFUSED = "refused"
    DROPPED = "dropped"
    PENDING = "pending"


class Answer(enum.StrEnum):
    """What the editors did with an objection."""

    TAKEN = "taken"
    # The document says it, although no editor says that it was taken.
    KEPT = "kept"
    REFUSED = "refused"
    # Refused with hardly a word of reason.
    REFUSED_EMPTILY = "refused_emptily"
    UNANSWERED = "unanswered"
    PENDING = "pending"


class Met(enum.StrEnum):
    """How a requirement is covered."""

    BY_ID = "by_id"
    BY_WORDS = "by_words"
    NOT = "not"


class DissentKind(enum.StrEnum):
    """How documents differ."""

    FIGURE = "figure"
    POLARITY = "polarity"
    CHOICE = "choice"
    SPLIT = "split"
    DECLARED = "declared"


class Verdict(enum.StrEnum):
    """What a critic wants done with a claim, or a person rules."""

    KEEP = "keep"
    CHANGE = "change"
    DROP = "drop"
    # Of a critic: its words do not tell.
    UNCLEAR = "unclear"


class Obedience(enum.StrEnum):
    """Whether a document follows a ruling, as far as its words tell."""

    KEPT = "kept"
    BROKEN = "broken"
    UNCLEAR = "unclear"
