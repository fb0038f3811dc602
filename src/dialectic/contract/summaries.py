"""What short commands show: a session in a list, a wallet, and the kinds of object. Pure.

Each class of a contract takes a while to import, so these few have a module of their own.
"""

from __future__ import annotations

import enum
from datetime import datetime
from typing import Annotated
from uuid import UUID

from pydantic import Field, computed_field

from dialectic.contract.base import Column, Dollars, ResponseBody, show_dollars
from dialectic.core.session_state import SessionState

STATUS_TEXT = "The status in words, for people."
# Passages that a search returns.
PASSAGES_DEFAULT, PASSAGES_MAX = 10, 100


class Kind(enum.StrEnum):
    """The kinds of object that can be found by an id prefix."""

    PROJECT = "project"
    SESSION = "session"
    CONTRIBUTION = "contribution"
    CHUNK = "chunk"
    CHAT = "chat"


class SessionSummary(ResponseBody):
    """A session in a list."""

    id: UUID
    project_id: UUID
    project_name: str
    status: str = Field(examples=["generating_thesis"])
    current_stage: Annotated[str, Column("current_stage_slug")]
    iteration: Annotated[int, Column("iteration_count")]
    until: Annotated[str, Column("until_stage_slug")]
    model_count: int
    created_at: datetime

    @property
    def state(self) -> SessionState:
        """The stage and the phase that the status shows."""
        return SessionState.parse(self.status, self.current_stage)

    @computed_field(description=STATUS_TEXT, examples=["waiting for you after thesis"])  # type: ignore[prop-decorator]
    @property
    def status_text(self) -> str:
        return self.state.describe(self.until)


class Money(ResponseBody):
    """A wallet's balance of one kind of money."""

    balance: Dollars
    held: Dollars = Field(description="Reserved for calls in flight.")
    available: Dollars

    @classmethod
    def of(cls, balance_credits: int, held_credits: int) -> Money:
        """Build it from the credits of a wallet."""
        available = show_dollars(balance_credits - held_credits)
        balance, held = show_dollars(balance_credits), show_dollars(held_credits)
        return cls(balance=balance, held=held, available=available)


class Wallet(ResponseBody):
    """A wallet. Real money and play money are separate."""

    id: UUID
    user_id: UUID | None = Field(description="The owner; null if the wallet is the tenant's.")
    is_count_only: bool = Field(
        description="The wallet only counts spending and never blocks a call."
    )
    money: Money
    play_money: Money
