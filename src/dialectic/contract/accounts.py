"""Requests and responses about users, tokens, organisations, wallets, models, processes. Pure."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, TypeAlias
from uuid import UUID

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from dialectic.contract.base import (
    Column,
    Dollars,
    Name,
    RequestBody,
    ResponseBody,
)
from dialectic.contract.summaries import Money as Money
from dialectic.contract.summaries import Wallet as Wallet
from dialectic.core.access import LIFE_DAYS, LIFE_DAYS_MAX, Role, Scope
from dialectic.core.strict_json import Json


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


class Me(ResponseBody):
    """Who the token acts for."""

    user_id: UUID
    tenant_id: UUID
    wallet_id: UUID
    scopes: list[str]
    token_expires_at: datetime | None
    tenants: list[Tenant]


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


class _Model(ResponseBody):
    name: str
    state: str = Field(examples=["usable"])
    is_usable: bool
    note: str
    origin: str


class KnownModel(_Model):
    """A model, its prices, and whether this server can call it."""

    facts_of: date | None = Field(description="The date of the facts, unless they are declared.")
    context_window_tokens: int
    max_input_tokens: int
    max_output_tokens: int
    input_usd_per_million: Annotated[Decimal, Column("input_credits_per_token")]
    output_usd_per_million: Annotated[Decimal, Column("output_credits_per_token")]
    tokenizer: str
    is_reasoning: bool
    supports_system_prompt: bool


class ListedModel(_Model):
    """A model that an endpoint lists, but that is not configured."""

    config: str = Field(description="The section of config.toml that configures it.")


Model: TypeAlias = KnownModel | ListedModel


class ProcessSummary(ResponseBody):
    """A process in a list."""

    name: str
    title: str
    description: str
    domains: list[str]
    stages: list[str]
    is_shipped: bool = Field(description="Shipped with Dialectic; false if the server added it.")
    problem: str | None = Field(description="Why it cannot be used.")


class ProcessDetail(ProcessSummary):
    """A process with its definition and prompts."""

    content_hash: str
    definition: Json
