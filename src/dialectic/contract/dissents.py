"""Requests and responses about what the documents of a stage do not agree on. Pure."""

from __future__ import annotations

from enum import StrEnum
from uuid import UUID

from pydantic import Field

from dialectic.contract.base import RequestBody, ResponseBody
from dialectic.contract.claims import ClaimsState
from dialectic.contract.feedback import RULING_CHARS_MAX, Ruling
from dialectic.contract.provenance import Method, Place, Versions
from dialectic.core.points import Answer, DissentKind, Obedience


class DissentStatus(StrEnum):
    """Where a dissent stands."""

    OPEN = "open"
    RULED = "ruled"
    # A later stage says only one of its positions.
    SETTLED = "settled"


class DissentPosition(ResponseBody):
    """What some documents say about the subject."""

    id: UUID
    says: str
    seats: list[int] = Field(description="Who says it. Models are never told.")
    answer: Answer | None = Field(
        default=None, description="Of a `split`: whether these seats took or refused the objection."
    )
    places: list[Place]


class Dissent(ResponseBody):
    """A subject on which documents of one stage differ."""

    id: UUID
    iteration: int
    stage: str
    kind: DissentKind
    subject: str
    weight: float = Field(description="From 0 to 1: the worth of its words, and how even it is.")
    status: DissentStatus
    positions: list[DissentPosition]
    ruling: Ruling | None = Field(default=None, description="What a person decided.")
    obeyed: Obedience | None = Field(
        default=None, description="Whether the newest document follows the ruling; null before."
    )


class Dissents(ResponseBody):
    """What the documents of an iteration do not agree on, the weightiest first."""

    session_id: UUID
    iteration: int
    state: ClaimsState = Field(description="Ask again in a while if it is `computing`.")
    method: Method
    versions: Versions
    dissents: list[Dissent]
    left_out: int = Field(default=0, description="How many lighter ones are not listed.")


class DissentRulingRequest(RequestBody):
    """A decision about a dissent: for one of its positions, or in your own words."""

    position_id: UUID | None = None
    text: str = Field(default="", max_length=RULING_CHARS_MAX)
    replaces: UUID | None = Field(
        default=None, description="The ruling of another user that this one replaces."
    )
