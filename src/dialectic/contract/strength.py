"""Responses about what a document rests on. Pure.

Computed from what is stored, so no document can say more of itself than there is.
"""

from __future__ import annotations

from typing import Literal
from uuid import UUID

from pydantic import Field

from dialectic.contract.base import ResponseBody

MissingReason = Literal["failed", "dropped", "not_read"]
NoteCode = Literal[
    "single_model",
    "missing_seat",
    "uncriticised",
    "self_criticised",
    "shortened",
    "cut_off",
    "reduced",
    "stale",
    "open_dissent",
    "broken_ruling",
]


class MissingSeat(ResponseBody):
    """A seat that was asked and whose work is not, or not all, in the document."""

    seat: int
    model: str
    stages: list[str] = Field(description="The stages that lack its work; empty if all do.")
    reason: MissingReason


class StrengthNote(ResponseBody):
    """Something that makes a document weaker than it could be."""

    code: NoteCode
    text: str


class Strength(ResponseBody):
    """What a document rests on."""

    contribution_id: UUID
    version_id: UUID
    iteration: int
    seats_asked: int
    seats: list[int] = Field(description="The seats whose work is in the document.")
    models: list[str] = Field(description="Their models, each once.")
    is_single_model: bool = Field(description="Whether it rests on one model alone.")
    missing: list[MissingSeat]
    theses: int
    critiques: int
    critiques_per_thesis: float | None = Field(description="Null without theses.")
    uncriticised: list[UUID] = Field(
        description="The theses without a critique, where others have one."
    )
    self_criticised: list[UUID] = Field(
        description="The theses that only their own model has criticised."
    )
    documents: int = Field(description="How many documents it descends from, itself included.")
    shortened: int = Field(description="How many of these were written from shortened texts.")
    shortened_share: float = Field(description="The share of their inputs that was left out.")
    cut_off: list[UUID] = Field(description="Those of them that are incomplete.")
    reduced: list[str] = Field(description="What a smaller process left out.")
    is_stale: bool
    open_dissents: int | None = Field(description="Null while it is being computed.")
    broken_rulings: int | None = Field(description="Null while it is being computed.")
    notes: list[StrengthNote] = Field(description="Empty if there is nothing to be said.")
    summary: str = Field(description="The notes in one line for people; empty without notes.")
