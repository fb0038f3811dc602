"""HTTP routes of the caller's account: identity, wallet, costs, models, processes."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path

from dialectic.api.dependencies import Reading
from dialectic.api.pagination import Listing, list_whole
from dialectic.api.routes.sessions import SessionId
from dialectic.app import accounts
from dialectic.contract.accounts import (
    Cost,
    Me,
    Model,
    Money,
    ProcessDetail,
    ProcessSummary,
    Tenant,
    Transaction,
    Wallet,
)
from dialectic.contract.base import Page, Slug, show_dollars
from dialectic.core.process.definition import Process
from dialectic.db.pool import Connection
from dialectic.db.tables import lists, records
from dialectic.errors import InvalidProcess
from dialectic.ledger import audit, wallets
from dialectic.processes.loader import Listed, load_named
from dialectic.processes.loader import list_processes as find_processes
from dialectic.providers.model_list import build_listing, describe_row, load_cached_models

router = APIRouter(tags=["account"])


@router.get("/me")
async def get_me(context: Reading) -> Me:
    """Show your user, your tenant and the scopes of your token."""
    caller, account = context.caller, context.account
    tenants = await accounts.list_tenants(context.engine.db, caller)
    return Me(
        user_id=account.user_id,
        tenant_id=account.tenant_id,
        wallet_id=account.wallet_id,
        scopes=sorted(caller.scopes),
        token_expires_at=caller.expires_at,
        tenants=[Tenant.model_validate(one) for one in tenants],
    )


@router.get("/wallet")
async def get_wallet(context: Reading) -> Wallet:
    """Show your wallet's balance."""
    found = await context.transact(lambda c: wallets.load_wallet(c, context.account.wallet_id))
    return Wallet(
        id=found.id,
        user_id=found.user_id,
        is_count_only=found.is_count_only,
        money=_build_money(found.balance_credits, found.held_credits, found.available_credits),
        play_money=_build_money(
            found.play_balance_credits, found.play_held_credits, found.play_available_credits
        ),
    )


def _build_money(balance: int, held: int, available: int) -> Money:
    return Money(
        balance=show_dollars(balance), held=show_dollars(held), available=show_dollars(available)
    )


@router.get("/wallet/transactions")
async def list_transactions(listing: Listing) -> Page[Transaction]:
    """List your wallet's transactions, newest first."""
    wallet_id = listing.context.account.wallet_id

    async def fetch(connection: Connection, before: int | None, limit: int) -> lists.Rows:
        return await lists.list_transactions(connection, wallet_id, before=before, limit=limit)

    return await listing.numbered_page("wallet", fetch, _build_transaction)


def _build_transaction(row: dict[str, Any]) -> Transaction:
    same = ("id", "is_play", "notes", "purpose", "session_id", "created_at")
    return Transaction(
        **{key: row[key] for key in same},
        type=row["transaction_type"],
        amount=show_dollars(row["amount_credits"]),
        change=show_dollars(row["change_credits"]),
        balance_after=show_dollars(row["balance_after_credits"]),
        model=row["model_name"],
        stage=row["stage_slug"],
    )


@router.get("/sessions/{session_id}/costs")
async def list_costs(session_id: SessionId, context: Reading) -> Page[Cost]:
    """List a session's costs so far, by stage, model and purpose."""

    async def work(connection: Connection) -> list[audit.Cost]:
        await records.load_session(connection, session_id)
        return await audit.report_costs(connection, session_id)

    return list_whole(map(_build_cost, await context.transact(work)))


def _build_cost(cost: audit.Cost) -> Cost:
    same = ("purpose", "is_play", "calls", "input_tokens", "output_tokens")
    return Cost(
        **{name: getattr(cost, name) for name in same},
        stage=cost.stage_slug,
        model=cost.model_name,
        charged=show_dollars(cost.charged_credits),
        held=show_dollars(cost.held_credits),
    )


@router.get("/models")
async def list_models(context: Reading) -> Page[Model]:
    """List the known models, their prices, and what is missing to use them."""
    engine = context.engine
    rows = build_listing(engine.catalog, load_cached_models(engine.settings.home))
    return list_whole(Model.model_validate(describe_row(row)) for row in rows)


@router.get("/processes")
async def list_processes(context: Reading) -> Page[ProcessSummary]:
    """List the processes that a session can run."""
    listed = find_processes(context.engine.settings.own_processes)
    return list_whole(map(_describe, listed))


def _describe(one: Listed) -> ProcessSummary:
    if isinstance(one.found, InvalidProcess):
        return ProcessSummary(
            name=one.name,
            title="",
            description="",
            domains=[],
            stages=[],
            is_shipped=one.folder is None,
            problem=one.found.message,
        )
    return ProcessSummary(**_columns(one.found), is_shipped=one.folder is None)


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
) -> ProcessDetail:
    """Show a process: its stages, steps and prompts."""
    own = context.engine.settings.own_processes
    process = load_named(name, own=own)
    return ProcessDetail(
        **_columns(process),
        is_shipped=not (own / name).is_dir(),
        content_hash=process.content_hash,
        definition=process.as_definition(),
    )
