"""Wallets: balances, deposits, and the budget of a session. Knows no calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

import asyncpg

from dialectic.core.money.price import Funds
from dialectic.db.pool import Connection, Database, read_rule
from dialectic.db.queries import find_row, load_queries
from dialectic.errors import Conflict, NotFound, Remedy, RemedyAction
from dialectic.ledger.holds import DONE_OTHERWISE, MISSING, name_session

SQL = load_queries("ledger")


@dataclass(frozen=True, slots=True)
class Wallet:
    """A wallet: real money, and play money apart from it."""

    id: UUID
    user_id: UUID | None
    balance_credits: int
    held_credits: int
    play_balance_credits: int
    play_held_credits: int
    # Unlimited: it records spending, but never rejects a call.
    is_count_only: bool

    @property
    def available_credits(self) -> int:
        return self.balance_credits - self.held_credits

    @property
    def play_available_credits(self) -> int:
        return self.play_balance_credits - self.play_held_credits


async def open_wallet(connection: Connection, user_id: UUID | None) -> UUID:
    """Open the wallet of a user, or of the whole tenant; it starts with play money only."""
    wallet_id: UUID = await _ask(connection, SQL["open_wallet"], user_id)
    return wallet_id


async def load_wallet(connection: Connection, wallet_id: UUID) -> Wallet:
    """Load a wallet."""
    found = await find_row(connection, Wallet, SQL["load_wallet"], wallet_id)
    if found is None:
        raise NotFound(f"Wallet {wallet_id} was not found.")
    return found


async def load_funds(
    db: Database, tenant_id: UUID, wallet_id: UUID, session_id: UUID | None, *, is_play: bool
) -> Funds:
    """Load the available funds as a hint; `holds.reserve` makes the binding decision."""
    rows = await db.fetch(SQL["load_funds"], tenant_id, wallet_id, session_id, is_play)
    if not rows:
        raise NotFound(f"Wallet {wallet_id} was not found.")
    return Funds(**dict(rows[0]), is_play=is_play, session=name_session(session_id))


async def watch_funds(connection: Connection, session_id: UUID, *, is_play: bool) -> Funds:
    """Load and lock the funds of a session until the transaction ends.

    Call it last: only statements that take no lock may follow.
    """
    rows = await connection.fetch(SQL["watch_funds"], session_id, is_play)
    if not rows:
        raise NotFound(
            f"Session {session_id} was not found.", reason="session_exists", subject=str(session_id)
        )
    return Funds(**dict(rows[0]), is_play=is_play, session=name_session(session_id))


@dataclass(frozen=True, slots=True, kw_only=True)
class Deposit:
    """A deposit into a wallet."""

    # The caller's idempotency key: a retry deposits nothing twice.
    key: str
    amount_credits: int
    is_play: bool = False
    user_id: UUID | None = None
    note: str | None = None


async def top_up(connection: Connection, wallet_id: UUID, deposit: Deposit) -> int:
    """Deposit the owner's payment; return the new balance."""
    return await _fund(connection, wallet_id, "top_up", deposit)


async def grant(connection: Connection, wallet_id: UUID, deposit: Deposit) -> int:
    """Deposit a grant from the operator; return the new balance."""
    return await _fund(connection, wallet_id, "grant", deposit)


async def _fund(connection: Connection, wallet_id: UUID, kind: str, deposit: Deposit) -> int:
    balance: int = await _ask(
        connection,
        SQL["fund_wallet"],
        wallet_id,
        deposit.is_play,
        kind,
        deposit.amount_credits,
        deposit.key,
        deposit.user_id,
        deposit.note,
    )
    return balance


async def set_unlimited(connection: Connection, wallet_id: UUID, *, is_unlimited: bool) -> None:
    """Remove a wallet's limit, or restore it if the wallet covers its reservations."""
    try:
        await _ask(connection, SQL["set_count_only"], wallet_id, is_unlimited)
    except asyncpg.CheckViolationError as error:
        raise Conflict(
            "The wallet cannot have a limit now: it holds less than is spent and reserved. "
            "Add the missing amount first.",
            reason="wallet_overdrawn",
            remedy=Remedy(RemedyAction.TOP_UP),
        ) from error


async def set_limit(
    connection: Connection, wallet_id: UUID, amount_credits: int, *, key: str, user_id: UUID
) -> None:
    """Let a wallet spend this much from now on; a retry with the same key does nothing."""
    await _ask(connection, SQL["limit_wallet"], wallet_id, amount_credits, key, user_id)


async def set_budget(connection: Connection, session_id: UUID, budget_credits: int | None) -> None:
    """Set a session's spending limit for each kind of money, or remove it."""
    try:
        await _ask(connection, SQL["set_budget"], session_id, budget_credits)
    except asyncpg.CheckViolationError as error:
        raise Conflict(
            f"The budget of session {session_id} cannot be that low: more is spent or reserved "
            "already.",
            reason="budget_spent",
            subject="budget",
            remedy=Remedy(RemedyAction.SHOW_COSTS, session_id=str(session_id)),
        ) from error


async def _ask(connection: Connection, statement: str, *arguments: Any) -> Any:
    try:
        return await connection.fetchval(statement, *arguments)
    except asyncpg.PostgresError as error:
        if error.sqlstate == MISSING:
            raise NotFound(f"{str(error).capitalize()}.", reason=read_rule(error)) from error
        if error.sqlstate == DONE_OTHERWISE:
            raise Conflict(
                f"The deposit failed: {error} credits.", reason=read_rule(error)
            ) from error
        raise
