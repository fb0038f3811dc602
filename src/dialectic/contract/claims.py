"""Responses about the claims of theses: who criticised each of them, and what became of it. Pure.

That a critic or a document says the same is found by comparing texts. It is never said that
something is true.
"""

from __future__ import annotations

from enum import StrEnum
from uuid import UUID

from pydantic import Field

from dialectic.contract.base import ResponseBody
from dialectic.contract.feedback import Ruling
from dialectic.contract.provenance import Method, Versions
from dialectic.core.points import Status, Verdict


class ClaimsState(StrEnum):
    """Whether the claims are known."""

    NONE = "none"
    COMPUTING = "computing"
    READY = "ready"


class ClaimCritic(ResponseBody):
    """A critique that takes up a claim."""

    seat: int | None
    document_id: UUID
    block_id: str | None = Field(description="The block of the document in its HTML.")
    verdict: Verdict = Field(description="What the critic wants, as far as its words tell.")
    note: str = Field(description="What the critic says about it.")
    better: str = Field(description="What the critic would say instead; empty if it does not say.")


class ClaimFate(ResponseBody):
    """What the final documents of a stage made of a claim."""

    stage: str
    fate: Status
    document_ids: list[UUID] = Field(description="The documents that say it, the lead's first.")
    block_id: str | None
    text: str = Field(description="The words of the first of them; of a refused claim the reason.")
    job_id: UUID | None = Field(description="The job that wrote the first of them.")


class Claim(ResponseBody):
    """A point of a thesis; one that several theses share is listed once."""

    id: UUID
    seat: int | None
    stage: str
    document_id: UUID
    block_id: str | None
    start: int
    end: int
    text: str
    is_lone: bool = Field(description="Whether only one thesis has it.")
    critics: list[ClaimCritic]
    fates: list[ClaimFate] = Field(description="By stage, in order.")
    final: Status = Field(description="What became of it in the document that counts.")
    is_contested: bool = Field(description="Whether a critic wants it changed or dropped.")
    ruling: Ruling | None = Field(default=None, description="What a person decided about it.")


class SeatClaims(ResponseBody):
    """How many claims of a seat came to what."""

    seat: int
    made: int
    kept: int
    changed: int
    refused: int
    dropped: int
    pending: int


class Claims(ResponseBody):
    """The claims of an iteration's theses."""

    session_id: UUID
    iteration: int
    state: ClaimsState = Field(description="Ask again in a while if it is `computing`.")
    method: Method
    versions: Versions
    claims: list[Claim]
    coverage: list[SeatClaims]
