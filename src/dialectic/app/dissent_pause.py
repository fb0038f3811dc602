"""Let sessions that pause on dissent go on, or wait for a person, after each of their stages.

A worker calls this. Until it is decided, the phase of such a session stays `generating`, so those
who follow it go on following. Deciding twice changes nothing.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from uuid import UUID

from dialectic.app import dissents
from dialectic.app.sessions import lock
from dialectic.app.stages import begin_at
from dialectic.app.transaction import Tenant, Transaction
from dialectic.contract.dissents import Dissents, DissentStatus
from dialectic.core.session_state import Phase
from dialectic.db.queries import list_rows
from dialectic.db.tables.provenance import SQL
from dialectic.db.tables.records import Account
from dialectic.engine import Engine
from dialectic.errors import DialecticError
from dialectic.pipeline.load import load_session_context

logger = logging.getLogger(__name__)

# A lighter dissent is told, but no session waits for it.
WEIGHT_MIN = 0.5
AT_ONCE = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Unjudged:
    """A session whose newest stage is complete, and was not yet searched for dissent."""

    tenant_id: UUID
    session_id: UUID
    iteration_number: int
    stage_slug: str
    user_id: UUID
    wallet_id: UUID


async def decide_all(engine: Engine) -> int:
    """Decide for all sessions that wait for it; return how many."""
    rows = await list_rows(engine.db, Unjudged, SQL["list_unjudged"], AT_ONCE)
    for one in rows:
        try:
            await decide(Tenant(engine, Account(one.tenant_id, one.user_id, one.wallet_id)), one)
        except DialecticError as error:
            logger.warning("could not decide whether a session pauses: %s", error.code)
    return len(rows)


async def decide(tenant: Tenant, one: Unjudged) -> None:
    """Start the next stage, or let the session wait if the last one left dissent."""
    known = await dissents.list_dissents(
        tenant, one.session_id, one.iteration_number, shows_all=True, wait_s=None
    )
    if count_open(known, one.stage_slug):
        await tenant.run(_wait, one)
    else:
        await tenant.run(_go_on, one)


def count_open(known: Dissents, stage: str | None = None) -> int:
    """Count the open dissents that a session waits for: of one stage, or of all."""
    return sum(
        one.status is DissentStatus.OPEN and one.weight >= WEIGHT_MIN and stage in (None, one.stage)
        for one in known.dissents
    )


async def _is_still_unjudged(tx: Transaction, one: Unjudged) -> bool:
    """Lock the session, and see that nothing has happened meanwhile."""
    session = await lock(tx, one.session_id)
    now = session["phase"], session["current_stage_slug"], session["iteration_count"]
    return now == (Phase.GENERATING, one.stage_slug, one.iteration_number)


async def _wait(tx: Transaction, one: Unjudged) -> None:
    if await _is_still_unjudged(tx, one):
        await tx.connection.execute(
            SQL["wait_after_stage"], one.session_id, one.iteration_number, one.stage_slug
        )


async def _go_on(tx: Transaction, one: Unjudged) -> None:
    if not await _is_still_unjudged(tx, one):
        return
    number = one.iteration_number
    context = await load_session_context(tx.engine, tx.connection, one.session_id, number)
    following = context.process.find_next(one.stage_slug)
    assert following is not None, "the last stage of a process is not judged"
    session = await lock(tx, one.session_id)
    until = session["until_stage_slug"]
    await begin_at(tx, one.session_id, following, until=until, iteration=number)
    tx.publish(session["project_id"])
