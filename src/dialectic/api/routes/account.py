"""HTTP routes of the caller's account: identity, wallet, costs, models, processes."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request, Response

from dialectic.api.dependencies import (
    Reading,
    RequestContext,
    WriteRequest,
    Writing,
    allow,
    allow_act,
)
from dialectic.api.pagination import Listing, list_whole
from dialectic.api.routes.sessions import SessionId
from dialectic.api.routes.tokens import find_session_cookie
from dialectic.app import accounts, endpoints, installed, preflight, profile, wallet
from dialectic.app.transaction import Transaction as Tx
from dialectic.contract.accounts import (
    Cost,
    Me,
    Preferences,
    PreferencesChange,
    Spending,
    TopUpRequest,
    Transaction,
    Wallet,
    WalletChange,
)
from dialectic.contract.base import ModelName, Page, Slug
from dialectic.contract.chats import SystemPrompt
from dialectic.contract.models import (
    Model,
    ModelTest,
    ProcessDetail,
    ProcessOutline,
    ProcessSummary,
)
from dialectic.core.access import Scope, build_csrf_token
from dialectic.core.models.model import MODELS_PER_SESSION_MAX
from dialectic.core.money.price import parse_usd
from dialectic.db.pool import Connection
from dialectic.db.tables import lists
from dialectic.processes.loader import load_named

router = APIRouter(tags=["account"])
# The number of seats of the standard process.
SEATS_USUAL = 3
SPENDING_DAYS_MAX = 366
Managing = Annotated[WriteRequest, Depends(allow_act(Scope.ADMIN))]


@router.get("/me")
async def get_me(request: Request, context: Reading) -> Me:
    """Show your user, your account, the scopes of your token, and how you want the pages."""
    cookie = find_session_cookie(request)
    csrf_token = None if cookie is None else build_csrf_token(cookie)
    return await context.run(profile.load_me, context.caller, csrf_token)


@router.patch("/me/preferences", response_model=Preferences)
async def change_preferences(body: PreferencesChange, write: Writing) -> Response:
    """Change how you want the pages: theme, keys, messages, councils."""
    return await write.answer(profile.change_preferences, body)


@router.get("/wallet")
async def get_wallet(context: Reading) -> Wallet:
    """Show your wallet's balance."""
    return await context.run(wallet.get)


@router.post("/wallet/topups", status_code=201, response_model=Wallet)
async def top_up_wallet(body: TopUpRequest, write: Managing) -> Response:
    """Add money to your wallet. Real money is added by the owner of the installation only."""
    if not body.is_play:
        await accounts.require_owner(write.engine.db, write.caller)

    async def top_up(tx: Tx) -> Wallet:
        amount_credits = parse_usd(body.amount)
        await wallet.top_up(tx, amount_credits, is_play=body.is_play, note=body.note)
        return await wallet.get(tx)

    return await write.answer(top_up)


@router.patch("/wallet", response_model=Wallet)
async def change_wallet(body: WalletChange, write: Managing) -> Response:
    """Change what limits your wallet. Only the owner of the installation may."""
    await accounts.require_owner(write.engine.db, write.caller)
    return await write.answer(wallet.change, body)


@router.get("/wallet/transactions")
async def list_transactions(listing: Listing) -> Page[Transaction]:
    """List your wallet's transactions, newest first."""
    wallet_id = listing.context.account.wallet_id

    async def fetch(connection: Connection, before: int | None, limit: int) -> lists.Rows:
        return await lists.list_transactions(connection, wallet_id, before=before, limit=limit)

    return await listing.numbered_page("wallet", fetch, Transaction.model_validate)


@router.get("/wallet/spending")
async def list_spending(
    context: Reading,
    days: Annotated[int, Query(ge=1, le=SPENDING_DAYS_MAX, description="Today and before.")] = 30,
) -> Page[Spending]:
    """List what your wallet paid in the latest days, by day and model, newest first."""
    return list_whole(await context.run(wallet.list_spending, days))


@router.get("/sessions/{session_id}/costs")
async def list_costs(session_id: SessionId, context: Reading) -> Page[Cost]:
    """List a session's costs so far, by stage, model and purpose."""
    return list_whole(await context.run(wallet.list_costs, session_id))


@router.get("/models")
async def list_models(context: Reading) -> Page[Model]:
    """List the known models, their prices, and what is missing to use them; yours too."""
    return list_whole(await context.run(endpoints.list_models))


@router.post("/models/{name:path}/test")
async def test_model(
    name: Annotated[ModelName, Path(description="The name of a model, with its provider.")],
    context: Annotated[RequestContext, Depends(allow(Scope.SPEND))],
) -> ModelTest:
    """Ask a model one short question, to see that it answers. No wallet is charged.

    A model that has answered is not asked again for ten minutes. `cost_max` is the most that its
    provider may charge for the question.
    """
    return await preflight.test(context, name)


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


@router.get("/processes/{name}/outline")
async def outline_process(
    name: Annotated[Slug, Path(description="The name of a process.")],
    context: Reading,
    seats: Annotated[int, Query(ge=1, le=MODELS_PER_SESSION_MAX)] = SEATS_USUAL,
) -> ProcessOutline:
    """Show what a process does with a number of seats: stages, steps, calls and prompts."""
    process = load_named(name, own=context.engine.settings.own_processes)
    return installed.outline_process(process, seats=seats)
