"""Requests and responses about users, tokens, organisations and wallets. Pure."""

from __future__ import annotations

from datetime import date, datetime
from typing import Annotated, Literal, Self
from uuid import UUID

from pydantic import Field, StringConstraints, model_validator
from pydantic.json_schema import SkipJsonSchema

from dialectic.contract.base import (
    Column,
    Dollars,
    DollarsInput,
    Line,
    ModelName,
    Name,
    RequestBody,
    ResponseBody,
    Slug,
)
from dialectic.contract.summaries import Money as Money
from dialectic.contract.summaries import Wallet as Wallet
from dialectic.core.access import LIFE_DAYS, LIFE_DAYS_MAX, Role, Scope

# A language tag, as browsers read it.
LANGUAGE = r"^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8}){0,3}$"
COUNCIL_MODELS_MAX = 60


class TokenRequest(RequestBody):
    """Creates a token."""

    name: Name = Field(examples=["laptop"])
    scopes: list[Scope] | None = Field(
        default=None, min_length=1, description="All of yours if absent."
    )
    life_days: int = Field(default=LIFE_DAYS, ge=1, le=LIFE_DAYS_MAX)


class Token(ResponseBody):
    """A token, without its secret."""

    id: UUID
    user_name: str
    name: str
    scopes: list[Scope]
    created_at: datetime
    expires_at: datetime
    last_used_at: datetime | None


class IssuedToken(ResponseBody):
    """A new token. Its secret is shown only this once."""

    id: UUID
    name: str
    scopes: list[Scope]
    expires_at: datetime
    token: str = Field(examples=["dlk_…"])


class BrowserLogin(ResponseBody):
    """A browser login: sets the cookie. Pages also send `X-CSRF-Token`."""

    csrf_token: str
    expires_at: datetime


class SwitchRequest(RequestBody):
    """The tenant to switch to."""

    tenant_id: UUID


class OrganizationRequest(RequestBody):
    """Creates an organisation."""

    name: Name = Field(examples=["Bakers"])


class Organization(ResponseBody):
    """The new organisation."""

    id: UUID


class MemberRequest(RequestBody):
    """Adds a user to the tenant, or changes their role."""

    name: Name = Field(examples=["bob"])
    role: Role = Role.MEMBER


class Member(ResponseBody):
    """A user in the tenant."""

    user_id: UUID
    name: str
    role: Role
    created_at: datetime


class Tenant(ResponseBody):
    """An account that the caller belongs to: their own, or an organisation's."""

    id: UUID
    name: str
    kind: str
    role: str


class Told(RequestBody):
    """How a person is told of one kind of message."""

    page: bool = True
    desktop: bool = False
    sound: bool = False


class Council(RequestBody):
    """A choice of models under a name, for new sessions."""

    name: Name = Field(examples=["Three small ones"])
    models: list[ModelName] = Field(min_length=1, max_length=COUNCIL_MODELS_MAX)


class PreferencesChange(RequestBody):
    """The preferences to change; absent ones stay, and null restores the default."""

    display_name: Line | None = Field(default=None, description="How pages call you.")
    theme: Literal["system", "light", "dark"] | None = None
    text_size: Literal["small", "normal", "large", "larger"] | None = None
    motion: Literal["system", "less"] | None = None
    keys: bool | None = Field(default=None, description="Whether single keys act on pages.")
    language: Annotated[str, StringConstraints(pattern=LANGUAGE)] | None = Field(
        default=None, description="Of dates and numbers; the browser's by default."
    )
    notifications: dict[Slug, Told] | None = Field(
        default=None, max_length=30, description="How you are told, by the type of message."
    )
    councils: list[Council] | None = Field(default=None, max_length=50)


class Preferences(ResponseBody):
    """How a person wants the pages of this account."""

    display_name: str = ""
    theme: str = "system"
    text_size: str = "normal"
    motion: str = "system"
    keys: bool = True
    language: str | None = None
    notifications: dict[str, Told] = Field(default_factory=dict)
    councils: list[Council] = Field(default_factory=list)


class Me(ResponseBody):
    """Who the token acts for, and what every page shows."""

    user_id: UUID
    name: str
    display_name: str
    tenant_id: UUID
    wallet_id: UUID
    scopes: list[str]
    token_expires_at: datetime | None
    tenants: list[Tenant]
    wallet: Wallet
    preferences: Preferences
    unread: int = Field(description="How many messages to you are unread.")
    cursor: str = Field(description="Where a stream of events continues after this response.")
    csrf_token: str | None = Field(
        description="What a page of this browser session sends as `X-CSRF-Token`; null without one."
    )


NOTE_CHARS_MAX = 500


class TopUpRequest(RequestBody):
    """Adds money to the wallet."""

    amount: DollarsInput
    is_play: bool = Field(default=False, strict=True, description="Play money, for offline models.")
    note: Annotated[str, StringConstraints(max_length=NOTE_CHARS_MAX)] = Field(
        default="", description="A note for the transaction."
    )


class WalletChange(RequestBody):
    """What limits the wallet; absent fields stay as they are."""

    is_count_only: bool | None = Field(
        default=None, strict=True, description="Whether it only counts and never blocks a call."
    )
    limit: DollarsInput | None = Field(
        default=None, description="Spend at most this much from now on."
    )

    @model_validator(mode="after")
    def _has_one_limit(self) -> Self:
        if self.is_count_only and self.limit is not None:
            msg = "a wallet that only counts has no limit: give one of the two"
            raise ValueError(msg)
        return self


class Transaction(ResponseBody):
    """One transaction of the wallet."""

    id: int
    type: Annotated[str, Column("transaction_type")] = Field(examples=["usage"])
    is_play: bool
    amount: Annotated[Dollars, Column("amount_credits")]
    change: Annotated[Dollars, Column("change_credits")] = Field(
        description="The change of the balance."
    )
    balance_after: Annotated[Dollars, Column("balance_after_credits")]
    notes: str | None
    purpose: str | None
    model: Annotated[str | None, Column("model_name")]
    session_id: UUID | None
    stage: Annotated[str | None, Column("stage_slug")]
    created_at: datetime


class Spending(ResponseBody):
    """What the wallet paid for the calls of one model on one day."""

    day: date = Field(description="In UTC.")
    model: Annotated[str | None, Column("model_name")]
    is_play: bool
    calls: int
    charged: Annotated[Dollars, Column("charged_credits")]


class Cost(ResponseBody):
    """The cost of the calls of one kind to one seat's model in one stage."""

    stage: Annotated[str | None, Column("stage_slug")]
    model: Annotated[str, Column("model_name")]
    seat: int | None = Field(default=None, description="The number of the seat, from 1.")
    purpose: str
    is_play: bool
    calls: int
    input_tokens: int
    output_tokens: int
    charged: Annotated[Dollars, Column("charged_credits")]
    held: Annotated[Dollars, Column("held_credits")]
    # Costs charged to no wallet: beyond the reservation, and of lost responses. Only the operator
    # sees them: the API does not send them.
    overrun: SkipJsonSchema[Annotated[Dollars, Column("overrun_credits")]] = Field(
        default="0", exclude=True
    )
    lost_calls: SkipJsonSchema[int] = Field(default=0, exclude=True)
    lost: SkipJsonSchema[Annotated[Dollars, Column("lost_credits")]] = Field(
        default="0", exclude=True
    )
