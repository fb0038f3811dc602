"""The caller's account over HTTP: who they are, their money, the models and processes they have."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Path
from pydantic import BaseModel, Field

from dialectic.api.dependencies import Reading, RequestContext
from dialectic.api.fields import Dollars, Slug, View, show_dollars
from dialectic.api.pagination import Listing, Paging, list_numbered, list_whole
from dialectic.api.routes.sessions import SessionId
from dialectic.app import accounts
from dialectic.core.process.definition import Process
from dialectic.db.pool import Connection
from dialectic.db.tables import lists, records
from dialectic.errors import InvalidProcess
from dialectic.ledger import audit, wallets
from dialectic.processes.loader import Listed, load_named
from dialectic.processes.loader import list_processes as find_processes
from dialectic.providers.model_list import build_listing, describe_row, load_cached_models

router = APIRouter(tags=["account"])


class TenantView(View):
    """An account that the caller belongs to: their own, or an organisation's."""

    id: UUID
    name: str
    kind: str
    role: str


class MeView(View):
    """Who the token acts for."""

    user_id: UUID
    tenant_id: UUID
    wallet_id: UUID
    scopes: list[str]
    token_expires_at: datetime | None
    tenants: list[TenantView]


class MoneyView(View):
    """What a wallet holds of one kind of money."""

    balance: Dollars
    held: Dollars = Field(description="Set aside for calls in flight.")
    available: Dollars


class WalletView(View):
    """A wallet: real money, and play money apart from it."""

    id: UUID
    user_id: UUID | None = Field(description="Whose it is; null if it is the tenant's.")
    is_count_only: bool = Field(description="It only counts: nothing is refused for want of money.")
    money: MoneyView
    play_money: MoneyView


class TransactionView(View):
    """One transfer, as the wallet saw it."""

    id: int
    type: str = Field(examples=["usage"])
    is_play: bool
    amount: Dollars
    change: Dollars = Field(description="What it did to the balance.")
    balance_after: Dollars
    notes: str | None
    purpose: str | None
    model: str | None
    session_id: UUID | None
    stage: str | None
    created_at: datetime


class CostView(View):
    """What calls of one kind to one model came to, in one stage."""

    stage: str | None
    model: str
    purpose: str
    is_play: bool
    calls: int
    input_tokens: int
    output_tokens: int
    charged: Dollars
    held: Dollars


class ModelView(BaseModel, extra="allow"):
    """A model, what it costs, and whether it can be asked here."""

    name: str
    state: str = Field(examples=["usable"])
    is_usable: bool
    note: str
    origin: str


class ProcessLine(View):
    """A process that has a name."""

    name: str
    title: str
    description: str
    domains: list[str]
    stages: list[str]
    is_shipped: bool = Field(description="It comes with the program; else it is the server's own.")
    problem: str | None = Field(description="Why it cannot be used.")


class ProcessView(ProcessLine):
    """A process as it was written, with its prompts."""

    content_hash: str
    definition: dict[str, Any]


@router.get("/me")
async def get_me(context: Reading) -> MeView:
    """Say who you are here, and what your token allows."""
    caller, account = context.visitor.caller, context.account
    tenants = await accounts.list_tenants(context.engine.db, caller)
    return MeView(
        user_id=account.user_id,
        tenant_id=account.tenant_id,
        wallet_id=account.wallet_id,
        scopes=sorted(caller.scopes),
        token_expires_at=caller.expires_at,
        tenants=[TenantView.model_validate(one) for one in tenants],
    )


@router.get("/wallet")
async def get_wallet(context: Reading) -> WalletView:
    """Say what your wallet holds."""
    found = await context.transact(lambda c: wallets.load_wallet(c, context.account.wallet_id))
    return WalletView(
        id=found.id,
        user_id=found.user_id,
        is_count_only=found.is_count_only,
        money=_build_money(found.balance_credits, found.held_credits, found.available_credits),
        play_money=_build_money(
            found.play_balance_credits, found.play_held_credits, found.play_available_credits
        ),
    )


def _build_money(balance: int, held: int, available: int) -> MoneyView:
    return MoneyView(
        balance=show_dollars(balance), held=show_dollars(held), available=show_dollars(available)
    )


@router.get("/wallet/transactions")
async def list_transactions(context: Reading, paging: Paging) -> Listing[TransactionView]:
    """List what happened to your wallet, the newest first."""
    wallet_id = context.account.wallet_id

    async def fetch(connection: Connection, before: int | None, limit: int) -> lists.Rows:
        return await lists.list_transactions(connection, wallet_id, before=before, limit=limit)

    return await list_numbered(context, "wallet", paging, fetch, _build_transaction)


def _build_transaction(row: dict[str, Any]) -> TransactionView:
    same = ("id", "is_play", "notes", "purpose", "session_id", "created_at")
    return TransactionView(
        **{key: row[key] for key in same},
        type=row["transaction_type"],
        amount=show_dollars(row["amount_credits"]),
        change=show_dollars(row["change_credits"]),
        balance_after=show_dollars(row["balance_after_credits"]),
        model=row["model_name"],
        stage=row["stage_slug"],
    )


@router.get("/sessions/{session_id}/costs")
async def list_costs(session_id: SessionId, context: Reading) -> Listing[CostView]:
    """Say what a session has cost so far, by stage, model and purpose."""

    async def work(connection: Connection) -> list[audit.Cost]:
        await records.load_session(connection, session_id)
        return await audit.report_costs(connection, session_id)

    return list_whole([_build_cost(cost) for cost in await context.transact(work)])


def _build_cost(cost: audit.Cost) -> CostView:
    same = ("purpose", "is_play", "calls", "input_tokens", "output_tokens")
    return CostView(
        **{name: getattr(cost, name) for name in same},
        stage=cost.stage_slug,
        model=cost.model_name,
        charged=show_dollars(cost.charged_credits),
        held=show_dollars(cost.held_credits),
    )


@router.get("/models")
async def list_models(context: Reading) -> Listing[ModelView]:
    """List the models that are known, what they cost, and what is missing to use them."""
    engine = context.engine
    rows = build_listing(engine.catalog, load_cached_models(engine.settings.home))
    return list_whole([ModelView(**describe_row(row)) for row in rows])


@router.get("/processes")
async def list_processes(context: Reading) -> Listing[ProcessLine]:
    """List the processes that sessions can follow."""
    listed = find_processes(context.engine.settings.own_processes)
    return list_whole([_describe(one) for one in listed])


def _describe(one: Listed) -> ProcessLine:
    if isinstance(one.found, InvalidProcess):
        return ProcessLine(
            name=one.name,
            title="",
            description="",
            domains=[],
            stages=[],
            is_shipped=one.folder is None,
            problem=one.found.message,
        )
    return ProcessLine(**_columns(one.found), is_shipped=one.folder is None)


def _columns(process: Process) -> dict[str, Any]:
    return {
        "name": process.name,
        "title": process.file.title,
        "description": process.file.description,
        "domains": list(process.file.domains),
        "stages": [stage.slug for stage in process.order],
        "problem": None,
    }


@router.get("/processes/{name}")
async def get_process(
    name: Annotated[Slug, Path(description="The name of a process.")], context: Reading
) -> ProcessView:
    """Look at a process: its stages, steps and prompts."""
    return _build_process(context, name)


def _build_process(context: RequestContext, name: str) -> ProcessView:
    own = context.engine.settings.own_processes
    process = load_named(name, own=own)
    return ProcessView(
        **_columns(process),
        is_shipped=not (own / name).is_dir(),
        content_hash=process.content_hash,
        definition=process.as_definition(),
    )
