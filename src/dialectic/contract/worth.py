"""Responses about what each model brought to the final documents. Pure.

Only what is still there counts: no model is asked, and none is ranked by opinion.
"""

from __future__ import annotations

from datetime import date
from uuid import UUID

from pydantic import Field

from dialectic.contract.base import Dollars, ResponseBody
from dialectic.contract.claims import ClaimsState
from dialectic.contract.provenance import Method, Place, Versions


class Brought(ResponseBody):
    """What the work of a seat or a model came to."""

    points: int = Field(description="Points that no other thesis has.")
    kept: int = Field(description="Those of them that the final document says.")
    objections: int
    objections_taken: int = Field(description="Objections that an editor took.")
    overruled: int = Field(description="Refusals of its that a person overruled.")
    omissions: int = Field(description="Points that its documents read and do not have.")
    calls: int
    charged: Dollars
    charged_play: Dollars = Field(description="In play money, of offline models.")
    minutes: float = Field(description="How long its documents took to write.")
    kept_per_dollar: float | None = Field(description="Null if nothing was charged.")
    kept_per_minute: float | None


class SeatWorth(Brought):
    """What a seat brought to the final document of an iteration."""

    seat: int
    model: str
    lost_without: list[Place] = Field(
        description="What the final document would lack without it: its kept points, at most 50."
    )


class SessionWorth(ResponseBody):
    """What each seat brought to the final document of an iteration."""

    session_id: UUID
    iteration: int
    state: ClaimsState = Field(description="Ask again in a while if it is `computing`.")
    method: Method
    versions: Versions
    of: Place | None = Field(description="The document it is judged by; null if none exists yet.")
    seats: list[SeatWorth]


class ModelWorth(Brought):
    """What a model brought, over several sessions."""

    model: str
    sessions: int


class ModelsWorth(ResponseBody):
    """What each model brought to your sessions. It advises; nothing is decided by it."""

    since: date | None
    method: Method
    sessions: int = Field(description="How many sessions have a final document and were read.")
    waiting: int = Field(description="Sessions that are being computed: ask again in a while.")
    left_out: int = Field(description="Older sessions that were not read.")
    models: list[ModelWorth] = Field(description="Those that kept most points first.")
