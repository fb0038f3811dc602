"""Reservations: reserve money before a call, settle it once with the response.

Only the functions in sql/functions/ledger.sql move money. `reserve` runs in a short transaction of
its own, the last before the request is sent. `settle`, `void` and `lose` may run anywhere in a
larger transaction: the contended wallet row is locked only at its commit. Knows no pipeline.
"""

from __future__ import annotations

import enum
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any, NoReturn
from uuid import UUID

import asyncpg

from dialectic.core.models.messages import Actual
from dialectic.core.money.price import (
    Funds,
    Rates,
    advise_top_up,
    build_funds_error,
    format_credits,
)
from dialectic.db.pool import Connection, Database, read_rule
from dialectic.db.queries import find_row, get_row, list_rows, load_queries
from dialectic.errors import Conflict, FundsError, LeaseLost, NotFound, Remedy, RemedyAction

logger = logging.getLogger(__name__)

SQL = load_queries("ledger")
SWEEP_LIMIT = 500
# Longer than any call and its lease: a reservation without a job expires after this.
GIVE_UP_AFTER_S = 1_900.0

# The errors of the SQL functions, by SQLSTATE.
NO_FUNDS, OVER_BUDGET, MISSING, DONE_OTHERWISE, ATTEMPT_OVER, NOT_UNASKED = (
    f"DJ10{number}" for number in range(1, 7)
)


class Purpose(enum.StrEnum):
    """What a reservation is for."""

    CALL = "call"
    EMBEDDING = "embedding"
    COMPRESSION = "compression"
    CHAT = "chat"
    TRIAL = "trial"
    LOOK = "look"


class HoldState(enum.StrEnum):
    """The outcome of a reservation."""

    PENDING = "pending"
    POSTED = "posted"
    VOIDED = "voided"
    LOST = "lost"


def derive_hold_key(job_id: UUID, *, attempt: int, turn: int, again: int = 0) -> str:
    """Derive the idempotency key of a job's call: repeating the call finds the same reservation.

    `again` counts shortened versions of a prompt that was rejected as too long.
    """
    return f"{job_id}:{attempt}:{turn}" + (f":{again}" if again else "")


def derive_side_key(job_id: UUID, *, attempt: int, what: str) -> str:
    """Derive the idempotency key for a job's costs other than calls to the model."""
    return f"{job_id}:{attempt}:{what}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewHold:
    """A request to reserve money for one call."""

    key: str
    wallet_id: UUID
    is_play: bool
    purpose: Purpose
    model_name: str
    amount_credits: int
    # The current prices: they apply to this call even if they change later.
    rates: Rates
    counted_input_tokens: int
    output_cap_tokens: int
    session_id: UUID | None = None
    stage_slug: str | None = None
    job_id: UUID | None = None
    # The fencing token; the reservation is rejected if the job's attempt is over.
    attempt: int | None = None


@dataclass(frozen=True, slots=True)
class Hold:
    """Money that is or was reserved for one call, as its row."""

    hold_key: str
    wallet_id: UUID
    is_play: bool
    purpose: Purpose
    model_name: str
    amount_credits: int
    input_credits_per_token: Decimal
    output_credits_per_token: Decimal
    counted_input_tokens: int
    output_cap_tokens: int
    state: HoldState
    # Once resolved: what the call cost, and how much of it the wallet paid.
    cost_credits: int | None
    charged_credits: int | None
    flags: tuple[str, ...]
    answer_id: UUID | None

    @property
    def key(self) -> str:
        return self.hold_key

    @property
    def rates(self) -> Rates:
        return Rates(self.input_credits_per_token, self.output_credits_per_token)

    @property
    def overrun_credits(self) -> int:
        """The cost beyond the reservation, which the operator pays."""
        if self.state is not HoldState.POSTED:
            return 0
        return (self.cost_credits or 0) - (self.charged_credits or 0)


# -- a call ----------------------------------------------------------------------------------------


async def reserve(connection: Connection, new: NewHold) -> Hold:
    """Reserve money, or raise if too little is available; repeating it finds the same reservation.

    After an error the transaction cannot be used any more.
    """
    try:
        return await get_row(connection, Hold, SQL["reserve"], *_bind(new), None)
    except asyncpg.PostgresError as error:
        _refuse(error, new)


async def reserve_for(db: Database, tenant_id: UUID, new: NewHold) -> Hold:
    """Do the same for any tenant, in its own transaction and one round trip."""
    try:
        return await _reserve_for(db, tenant_id, new, None)
    except asyncpg.PostgresError as error:
        _refuse(error, new)


async def reserve_unasked(
    db: Database, tenant_id: UUID, new: NewHold, fraction: Decimal
) -> Hold | None:
    """Do the same if enough is available without an approval; otherwise reserve nothing."""
    try:
        return await _reserve_for(db, tenant_id, new, fraction)
    except asyncpg.PostgresError as error:
        if error.sqlstate in (NO_FUNDS, OVER_BUDGET, NOT_UNASKED):
            return None
        _refuse(error, new)


async def _reserve_for(
    db: Database, tenant_id: UUID, new: NewHold, fraction: Decimal | None
) -> Hold:
    return await get_row(db, Hold, SQL["reserve_for"], tenant_id, fraction, *_bind(new))


def _bind(new: NewHold) -> tuple[Any, ...]:
    return (
        new.key,
        new.wallet_id,
        new.is_play,
        new.purpose,
        new.model_name,
        new.session_id,
        new.stage_slug,
        new.job_id,
        new.attempt,
        new.amount_credits,
        new.rates.input,
        new.rates.output,
        new.counted_input_tokens,
        new.output_cap_tokens,
    )


async def settle(
    connection: Connection,
    key: str,
    actual: Actual,
    answer_id: UUID | None,
    *,
    request_id: str | None = None,
) -> Hold:
    """Pay for a call by the tokens it used; idempotent.

    The wallet pays at most the reserved amount, at commit. Without a response the call is marked
    as unfinished.
    """
    try:
        hold = await get_row(
            connection,
            Hold,
            SQL["settle"],
            key,
            actual.input_tokens,
            actual.output_tokens,
            actual.source,
            actual.is_doubted,
            actual.reported,
            list(actual.flags),
            answer_id,
            request_id,
        )
    except asyncpg.PostgresError as error:
        _refuse(error)
    if hold.overrun_credits:
        logger.warning(
            "hold %s of %s was too small by %s: the provider counted more tokens",
            key,
            hold.model_name,
            format_credits(hold.overrun_credits, is_play=hold.is_play),
        )
    return hold


async def void(connection: Connection, key: str) -> Hold:
    """Release the money of a call that was rejected or never sent."""
    try:
        return await get_row(connection, Hold, SQL["void"], key)
    except asyncpg.PostgresError as error:
        _refuse(error)


async def lose(connection: Connection, key: str) -> Hold:
    """Release the money of a call whose response was lost, and record its cost as a loss."""
    try:
        return await get_row(connection, Hold, SQL["lose"], key)
    except asyncpg.PostgresError as error:
        _refuse(error)


async def load_hold(connection: Connection, key: str) -> Hold:
    """Load a reservation."""
    found = await find_hold(connection, key)
    if found is None:
        raise NotFound(f"Reservation {key} was not found.", reason="hold_exists", subject=key)
    return found


async def find_hold(connection: Connection, key: str) -> Hold | None:
    """Find a reservation, if it exists."""
    return await find_row(connection, Hold, SQL["load_hold"], key)


async def list_open(connection: Connection, job_id: UUID, attempt: int) -> list[Hold]:
    """List the unresolved reservations of an attempt."""
    return await list_rows(connection, Hold, SQL["list_open_holds"], job_id, attempt)


async def give_up_earlier(connection: Connection, job_id: UUID, attempt: int) -> None:
    """Resolve the open reservations of earlier attempts: their responses will never arrive.

    The sweeper does the same later; this frees the money for a retry at once.
    """
    for row in await connection.fetch(SQL["list_left_holds"], job_id, attempt):
        await lose(connection, row["hold_key"])


async def sweep_lost(connection: Connection, *, age_s: float = GIVE_UP_AFTER_S) -> int:
    """Expire the reservations of finished attempts, for all tenants; in its own transaction.

    Reservations without a job expire at this age. Returns how many expired.
    """
    count: int = await connection.fetchval(SQL["sweep"], timedelta(seconds=age_s), SWEEP_LIMIT)
    return count


def _refuse(error: asyncpg.PostgresError, new: NewHold | None = None) -> NoReturn:
    """Translate the SQL functions' errors into ours; re-raise all others."""
    code = error.sqlstate
    if new is not None and code == NO_FUNDS:
        raise build_shortage(new, json.loads(error.detail or "{}")) from error
    if new is not None and code == OVER_BUDGET:
        raise build_overspending(new, json.loads(error.detail or "{}")) from error
    if code == MISSING:
        raise NotFound(f"Nothing was paid: {error}.", reason=read_rule(error)) from error
    if code == DONE_OTHERWISE:
        raise Conflict(f"Nothing was paid: {error}.", reason=read_rule(error)) from error
    if code == ATTEMPT_OVER:
        raise LeaseLost(f"The call was not sent: {error}.", reason=read_rule(error)) from error
    raise error


def name_session(session_id: UUID | None) -> str | None:
    """Write a session id for a remedy."""
    return None if session_id is None else str(session_id)


def build_shortage(new: NewHold, wallet: Mapping[str, int]) -> FundsError:
    """Say how much the wallet lacks; if running calls reserve it, that it may become available."""
    balance, held = wallet["balance"], wallet["held"]
    needed = new.amount_credits

    def show(amount_credits: int) -> str:
        return format_credits(amount_credits, is_play=new.is_play)

    return FundsError(
        f"One call of {new.model_name} may cost {show(needed)}, and {show(balance - held)} is "
        f"available: the wallet holds {show(balance)}, of which {show(held)} is reserved for "
        f"running calls. The call was not sent. {advise_top_up(is_play=new.is_play)}",
        reason="wallet",
        remedy=Remedy(RemedyAction.TOP_UP, is_play=new.is_play),
        is_held_by_others=needed <= balance,
        needed_credits=needed,
        left_credits=balance - held,
        is_play=new.is_play,
    )


def build_overspending(new: NewHold, session: Mapping[str, int]) -> FundsError:
    """Say what is left of a budget."""
    budget, spent, held = session["budget"], session["spent"], session["held"]
    funds = Funds(
        None,
        budget,
        budget - spent - held,
        budget_held_credits=held,
        is_play=new.is_play,
        session=name_session(new.session_id),
    )
    return build_funds_error(funds, new.amount_credits)
