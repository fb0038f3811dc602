"""Requests and responses about what people said: feedback and ratings. Pure."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated
from uuid import UUID

from pydantic import Field

from dialectic.contract.base import Author, Column, RequestBody, ResponseBody
from dialectic.contract.contributions import RATING_MAX, RATING_MIN


class FeedbackKind(StrEnum):
    """What an entry is about, and whether it has words or a number."""

    STAGE = "stage"
    RESPONSE = "response"
    RATING = "rating"
    RULING = "ruling"


class RulingVerdict(StrEnum):
    """What a person decides about a claim or a dissent."""

    KEEP = "keep"
    CHANGE = "change"
    DROP = "drop"
    # Only the words of the person count.
    OWN = "own"


class FeedbackAction(StrEnum):
    """What the caller may do with an entry."""

    CHANGE = "change"
    REMOVE = "remove"


class Feedback(ResponseBody):
    """What a user said about a stage or a contribution, or a rating."""

    id: UUID
    session_id: UUID
    stage: Annotated[str, Column("stage_slug")]
    iteration: Annotated[int, Column("iteration_number")]
    kind: Annotated[FeedbackKind, Column("feedback_type")]
    contribution_id: Annotated[UUID | None, Column("target_contribution_id")] = Field(
        description="The first version of the contribution that it is about."
    )
    text: Annotated[str, Column("content")]
    rating: int | None
    by: Author
    subject_id: UUID | None = Field(description="The claim or dissent that a ruling decides.")
    subject: str | None = Field(description="What is said there.")
    verdict: RulingVerdict | None
    withdrawn_at: datetime | None = Field(description="Since when a ruling no longer counts.")
    allowed: list[FeedbackAction] = Field(description="What you may do with it.")
    created_at: datetime
    updated_at: datetime | None = Field(description="Null if it was never changed.")


class FeedbackChange(RequestBody):
    """A new text for feedback, or a new number for a rating."""

    text: str | None = Field(default=None, min_length=1)
    rating: int | None = Field(default=None, ge=RATING_MIN, le=RATING_MAX, strict=True)


RULING_CHARS_MAX = 10_000


class RulingRequest(RequestBody):
    """A decision about a claim, which every later prompt has until it is withdrawn."""

    verdict: RulingVerdict
    text: str = Field(
        default="",
        max_length=RULING_CHARS_MAX,
        description="What holds instead, for `change` and `own`; else what to add.",
    )
    replaces: UUID | None = Field(
        default=None, description="The ruling of another user that this one replaces."
    )


class Ruling(ResponseBody):
    """A decision about a claim or a dissent."""

    id: UUID
    subject_id: UUID
    subject: str = Field(description="What is said there.")
    verdict: RulingVerdict
    position_id: UUID | None = Field(description="The position of a dissent that it is for.")
    upheld: str | None = Field(description="The words that it is for.")
    rejected: list[str] | None = Field(description="The words that it is against.")
    text: Annotated[str, Column("content")]
    stage: Annotated[str, Column("stage_slug")] = Field(
        description="Every prompt of the stages after it has the ruling, also in later iterations."
    )
    iteration: Annotated[int, Column("iteration_number")]
    by: Author
    created_at: datetime
