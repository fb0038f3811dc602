"""Looks at the books: what was spent on what, what happened to a wallet, and whether all is right.

Changes nothing. Under a tenant it sees that tenant's books, as the database's owner those of all.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeAlias
from uuid import UUID

from dialectic.db.pool import Connection, Database
from dialectic.db.queries import load_queries

SQL = load_queries("ledger")
BREACHES_MAX = 50
VERIFY_TIMEOUT_S = 600.0
# Longer than it takes until a hold that nobody resolves is given up.
PENDING_MAX_S = 2_400.0


@dataclass(frozen=True, slots=True)
class Transfer:
    """One row of the journal, as its wallet saw it."""

    id: int
    created_at: datetime
    transaction_type: str
    is_play: bool
    amount_credits: int
    # What it did to the balance: nothing, if others bore it.
    change_credits: int
    balance_after_credits: int
    notes: str | None
    # The call it was for, if it was for one.
    purpose: str | None
    model_name: str | None
    session_id: UUID | None
    stage_slug: str | None


async def list_history(connection: Connection, wallet_id: UUID, *, limit: int) -> list[Transfer]:
    """List what happened to a wallet, the newest first."""
    rows = await connection.fetch(SQL["list_history"], wallet_id, limit)
    return [Transfer(**dict(row)) for row in rows]


@dataclass(frozen=True, slots=True)
class Cost:
    """What calls of one kind to one model came to, in one stage of a session."""

    stage_slug: str | None
    model_name: str
    purpose: str
    is_play: bool
    # Calls that were answered, their tokens, and what was paid for them.
    calls: int
    input_tokens: int
    output_tokens: int
    charged_credits: int
    # What nobody was charged for: beyond what was held, and of answers that were lost.
    overrun_credits: int
    lost_calls: int
    lost_credits: int
    # Set aside for calls in flight.
    held_credits: int


async def report_costs(connection: Connection, session_id: UUID) -> list[Cost]:
    """Report what a session has spent, by stage, model and purpose, in the order of its work."""
    rows = await connection.fetch(SQL["report_costs"], session_id)
    return [Cost(**dict(row)) for row in rows]


@dataclass(frozen=True, slots=True)
class Breach:
    """Something that must not be: which invariant, where, and the figures."""

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
"""A statement, with what it is told beside how much to list."""


async def verify(connection: Connection, *, pending_max_s: float = PENDING_MAX_S) -> list[Breach]:
    """Check that the books are right; list what is not, at most a screenful of each kind.

    Each invariant is looked at in one moment, so work may go on meanwhile.
    """
    checks = _list_checks(pending_max_s)
    return [breach for check in checks for breach in await _carry_out(connection, check)]


async def verify_tenant(db: Database, tenant_id: UUID) -> list[Breach]:
    """Check the books of one tenant, two invariants at a time."""
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
    return [Breach(**dict(row)) for row in rows]


@dataclass(frozen=True, slots=True)
class Size:
    """How much there is to check."""

    wallets: int
    holds: int
    transfers: int

    def add(self, other: Size) -> Size:
        """Count two together."""
        return Size(
            self.wallets + other.wallets,
            self.holds + other.holds,
            self.transfers + other.transfers,
        )


async def count_all(connection: Connection) -> Size:
    """Count the rows of the books."""
    row = await connection.fetchrow(SQL["count_all"])
    assert row is not None
    return Size(**dict(row))
