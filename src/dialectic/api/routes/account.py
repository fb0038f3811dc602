"""HTTP routes of the caller's account: identity, wallet, costs, models, processes."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from dialectic.api.dependencies import Reading
from dialectic.api.pagination import Listing, list_whole
from dialectic.api.routes.sessions import SessionId
from dialectic.app import accounts, endpoints, installed, wallet
from dialectic.contract.accounts import (
    Cost,
    Me,
    Model,
    ProcessDetail,
    ProcessSummary,
    Tenant,
    Transaction,
    Wallet,
)
from dialectic.contract.base import Page, Slug
from dialectic.contract.chats import SystemPrompt
from dialectic.db.pool import Connection
from dialectic.db.tables import lists
from dialectic.processes.loader import load_named

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
    return await context.run(wallet.get)


@router.get("/wallet/transactions")
async def list_transactions(listing: Listing) -> Page[Transaction]:
    """List your wallet's transactions, newest first."""
    wallet_id = listing.context.account.wallet_id

    async def fetch(connection: Connection, before: int | None, limit: int) -> lists.Rows:
        return await lists.list_transactions(connection, wallet_id, before=before, limit=limit)

    return await listing.numbered_page("wallet", fetch, Transaction.model_validate)


@router.get("/sessions/{session_id}/costs")
async def list_costs(session_id: SessionId, context: Reading) -> Page[Cost]:
    """List a session's costs so far, by stage, model and purpose."""
    return list_whole(await context.run(wallet.list_costs, session_id))


@router.get("/models")
async def list_models(context: Reading) -> Page[Model]:
    """List the known models, their prices, and what is missing to use them; yours too."""
    return list_whole(await context.run(endpoints.list_models))


@router.get("/processes")
async def list_processes(context: Reading) -> Page[ProcessSummary]:
    """List the processes that a session can run."""
    return list_whole(installed.list_processes(context.engine.settings.own_processes))


@router.get("/system-prompts")
async def list_system_prompts(listing: Listing) -> Page[SystemPrompt]:
    """List the system prompts that a chat can use, newest first."""
    return await listing.page(
        "system-prompts", lists.list_system_prompts, SystemPrompt.model_validate
    )


@router.get("/processes/{name}")
async def get_process(
    name: Annotated[Slug, Path(description="The name of a process.")], context: Reading
) -> ProcessDetail:
    """Show a process: its stages, steps and prompts."""
    own = context.engine.settings.own_processes
    process = load_named(name, own=own)
    return installed.describe_process(process, is_shipped=not (own / name).is_dir())
