"""What each seat brought to a session, and each model to all sessions of a tenant.

Read from the coverage of iterations, which is computed once and kept, and from what calls cost.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from datetime import date
from uuid import UUID

from dialectic.app import dissents, provenance
from dialectic.app.lineage import Scene, load_scene
from dialectic.app.provenance import WAIT_S
from dialectic.app.transaction import Tenant, Transaction
from dialectic.contract.claims import ClaimsState
from dialectic.contract.dissents import Dissents
from dialectic.contract.worth import ModelsWorth, SeatWorth, SessionWorth
from dialectic.core.points import Answer
from dialectic.db.tables import provenance as table
from dialectic.provenance import METHOD
from dialectic.provenance.worth import SeatCost, build_models, build_seat, tally_seats

# The newest sessions are read; older ones are only counted.
SESSIONS_MAX = 100


async def weigh_session(
    tenant: Tenant, session_id: UUID, iteration: int | None = None, *, wait_s: float | None = WAIT_S
) -> SessionWorth:
    """Say what each seat brought to the final document of an iteration."""
    scene, costs = await tenant.run(_load, session_id, iteration)
    context = scene.context
    blank = SessionWorth(
        session_id=session_id,
        iteration=context.iteration,
        state=ClaimsState.NONE,
        method=METHOD,
        versions=scene.versions_known,
        of=None,
        seats=[],
    )
    if not scene.list_theses():
        return blank
    compute = functools.partial(provenance.cover, tenant, session_id, context.iteration)
    name = session_id, context.iteration, "coverage"
    coverage = await provenance.share(tenant, name, compute, wait_s)
    known = await dissents.list_dissents(
        tenant, session_id, context.iteration, shows_all=True, wait_s=wait_s
    )
    if coverage is None or known.state is ClaimsState.COMPUTING:
        return blank.model_copy(update={"state": ClaimsState.COMPUTING})
    authors = {one.first_id: one.model_index for one in scene.versions}
    tallies = tally_seats(coverage, authors, _list_overruled(known))
    models = {one.model_index: one.model_name for one in scene.versions if not one.is_by_user}
    seats = [
        build_seat(models[seat], tally, SeatCost(seat=seat, **costs.get(seat, {})))
        for seat, tally in tallies.items()
    ]
    return blank.model_copy(update={"state": ClaimsState.READY, "of": coverage.of, "seats": seats})


async def weigh_models(
    tenant: Tenant, since: date | None = None, *, wait_s: float | None = WAIT_S
) -> ModelsWorth:
    """Say what each model brought to the newest sessions of a tenant."""
    ids, total = await tenant.run(_list_sessions, since)
    read: list[list[SeatWorth]] = []
    waiting, wait = 0, wait_s
    for session_id in ids:
        found = await weigh_session(tenant, session_id, wait_s=wait)
        if found.state is ClaimsState.COMPUTING:
            # One that takes long is enough; those that are kept answer at once.
            waiting, wait = waiting + 1, min(wait or 0.0, 0.05)
        elif found.of is not None:
            read.append(found.seats)
    return ModelsWorth(
        since=since,
        method=METHOD,
        sessions=len(read),
        waiting=waiting,
        left_out=total - len(ids),
        models=build_models(read),
    )


async def _load(
    tx: Transaction, session_id: UUID, iteration: int | None
) -> tuple[Scene, dict[int, dict[str, int]]]:
    scene = await load_scene(tx, session_id, iteration)
    number = scene.context.iteration
    return scene, await table.list_seat_costs(tx.connection, session_id, number)


async def _list_sessions(tx: Transaction, since: date | None) -> tuple[list[UUID], int]:
    return await table.list_sessions_since(tx.connection, since, SESSIONS_MAX)


def _list_overruled(known: Dissents) -> Iterator[int]:
    """List the seats that refused an objection which a person then upheld."""
    for one in known.dissents:
        upheld = None if one.ruling is None else one.ruling.position_id
        for position in one.positions:
            if upheld not in (None, position.id) and position.answer is Answer.REFUSED:
                yield from position.seats
