"""Audit the ledger: session costs, wallet history, and invariants.

Read-only. A tenant sees its own ledger; the database owner sees all of them.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeAlias
from uuid import UUID

from dialectic.db.pool import Connection, Database
from dialectic.db.queries import build_row, get_row, list_rows, load_queries
from dialectic.db.tables.lists import list_transactions

SQL = load_queries("ledger")
BREACHES_MAX = 50
VERIFY_TIMEOUT_S = 600.0
# Longer than it takes until the sweeper gives up an unresolved reservation.
PENDING_MAX_S = 2_400.0


@dataclass(frozen=True, slots=True)
class Transfer:
    """One row of the journal, from its wallet's point of view."""

    id: int
    created_at: datetime
    transaction_type: str
    is_play: bool
    amount_credits: int
    # The change of the balance; zero if the operator paid.
    change_credits: int
    balance_after_credits: int
    notes: str | None
    # The call it was for, if any.
    purpose: str | None
    model_name: str | None
    session_id: UUID | None
    stage_slug: str | None


async def list_history(connection: Connection, wallet_id: UUID, *, limit: int) -> list[Transfer]:
    """List the journal of a wallet, newest first."""
    rows = await list_transactions(connection, wallet_id, before=None, limit=limit)
    return [build_row(Transfer, row) for row in rows]


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one kind of call to one seat's model in one stage of a session."""

    stage_slug: str | None
    model_name: str
    seat: int | None
    purpose: str
    is_play: bool
    # Answered calls, their tokens, and what was paid for them.
    calls: int
    input_tokens: int
    output_tokens: int
    charged_credits: int
    # Costs charged to no wallet: beyond the reservation, and of lost responses.
    overrun_credits: int
    lost_calls: int
    lost_credits: int
    # Reserved for running calls.
    held_credits: int


async def report_costs(connection: Connection, session_id: UUID) -> list[Cost]:
    """Report what a session has spent by stage, model and purpose, in the order of its work."""
    return await list_rows(connection, Cost, SQL["report_costs"], session_id)


@dataclass(frozen=True, slots=True)
class Breach:
    """A violated invariant: its name, where, and the figures."""

    invariant: str
    place: str
    detail: str


CHECKS = (
    SQL["verify_limits"],
    SQL["verify_balances"],
    SQL["verify_accounts"],
    SQL["verify_usages"],
    SQL["verify_extras"],
    SQL["verify_answers"],
    SQL["verify_spending"],
    SQL["verify_guards"],
    SQL["verify_replay"],
)
CHECKS_AT_ONCE = 2

Check: TypeAlias = tuple[str, tuple[Any, ...]]
"""A statement and its arguments, apart from the row limit."""


async def verify(connection: Connection, *, pending_max_s: float = PENDING_MAX_S) -> list[Breach]:
    """Check the ledger's invariants; list violations, at most a screenful of each kind.

    Each invariant is checked in one snapshot, so work may continue meanwhile.
    """
    checks = _list_checks(pending_max_s)
    return [breach for check in checks for breach in await _carry_out(connection, check)]


async def verify_tenant(db: Database, tenant_id: UUID) -> list[Breach]:
    """Check the ledger of one tenant, two invariants at a time."""
    lanes = asyncio.Semaphore(CHECKS_AT_ONCE)

    async def carry_out(check: Check) -> list[Breach]:
        async with lanes:
            return await db.transact(tenant_id, partial(_carry_out, check=check))

    found = await asyncio.gather(*map(carry_out, _list_checks(PENDING_MAX_S)))
    return [breach for each in found for breach in each]


def _list_checks(pending_max_s: float) -> list[Check]:
    age = timedelta(seconds=pending_max_s)
    return [*((check, ()) for check in CHECKS), (SQL["verify_pending"], (age,))]


async def _carry_out(connection: Connection, check: Check) -> list[Breach]:
    statement, arguments = check
    await connection.execute(SQL["be_patient"])
    rows = await connection.fetch(statement, BREACHES_MAX, *arguments, timeout=VERIFY_TIMEOUT_S)
    return [build_row(Breach, row) for row in rows]


@dataclass(frozen=True, slots=True)
class Size:
    """The number of rows to check."""

    wallets: int
    holds: int
    transfers: int

    def add(self, other: Size) -> Size:
        """Add two counts."""
        return Size(
            self.wallets + other.wallets,
            self.holds + other.holds,
            self.transfers + other.transfers,
        )


async def count_all(connection: Connection) -> Size:
    """Count the rows of the ledger."""
    return await get_row(connection, Size, SQL["count_all"])
