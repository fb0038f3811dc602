"""A person's changes of a session's seats: other models, a seat dropped or replaced.

Each action is one transaction. Work that is saved stays; `core.seats` decides who sits where.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import asyncpg

from dialectic.app.stages import describe_occupant
from dialectic.app.transaction import Transaction
from dialectic.contract.events import SeatChanged
from dialectic.contract.sessions import Seat
from dialectic.core.models.model import parse_model_list
from dialectic.core.process.definition import Process
from dialectic.core.seats import (
    Seating,
    change_seats,
    check_seat,
    drop_seat,
    find_angle,
    replace_seat,
)
from dialectic.core.session_state import BETWEEN_STAGES, Phase
from dialectic.db.tables import jobs, records
from dialectic.db.tables.records import SQL
from dialectic.errors import Conflict, Remedy, RemedyAction
from dialectic.pipeline.load import load_session_context
from dialectic.pipeline.own_models import load_card


def read_seating(session: asyncpg.Record) -> Seating:
    """Take the seats from a session's row."""
    return Seating(tuple(session["model_names"]), tuple(sorted(session["dropped_seats"])))


def list_seats(session: asyncpg.Record, process: Process) -> list[Seat]:
    """List a session's seats, those that left included."""
    now = read_seating(session)
    found = []
    for seat, model in enumerate(now.models, start=1):
        angle = find_angle(process.file, now.models, seat)
        found.append(
            Seat(
                seat=seat,
                model=model,
                angle=None if angle is None else angle.name,
                is_lead=seat == session["lead_model_index"],
                has_left=seat in now.dropped,
            )
        )
    return found


async def change_models(tx: Transaction, session: asyncpg.Record, wanted: Sequence[str]) -> None:
    """Seat other models for the stages to come; the session is locked."""
    now, models = read_seating(session), parse_model_list(",".join(wanted))
    if models == [now.models[seat - 1] for seat in now.active]:
        return
    if session["phase"] not in BETWEEN_STAGES:
        raise Conflict(
            f"The models of session {session['id']} cannot change while a stage runs. Replace or "
            "drop a single seat, or wait until the stage has ended.",
            reason="stage_running",
            remedy=Remedy(RemedyAction.REPLACE_SEAT, session_id=str(session["id"])),
        )
    has_begun = await tx.connection.fetchval(SQL["has_stage_runs"], session["id"])
    later = change_seats(now, models) if has_begun else Seating(tuple(models))
    await _save(tx, session, later)
    # Raises if the process has nothing to do for one of the seats.
    await load_session_context(tx.engine, tx.connection, session["id"], session["iteration_count"])


async def drop(tx: Transaction, session_id: UUID, seat: int) -> list[str]:
    """Go on without a seat; a stage that failed because of it goes on. Idempotent.

    Returns the stages that run again.
    """
    session = await _lock(tx, session_id)
    now = read_seating(session)
    if seat in now.dropped:
        return []
    model = check_seat(now, seat)
    later = drop_seat(now, seat)
    iteration, has_failed = session["iteration_count"], session["phase"] == Phase.FAILED
    if has_failed:
        await reopen(tx, session)
    await tx.connection.execute(SQL["drop_seat"], session_id, iteration, seat)
    await _tell(tx, session, seat, model, "dropped", later)
    if not has_failed:
        return []
    stages = await jobs.rerun_failed(tx.connection, session_id, iteration, without=later.dropped)
    await tx.connection.execute(SQL["settle_stages"], session_id, iteration)
    return stages


async def replace(tx: Transaction, session_id: UUID, seat: int, model: str) -> list[str]:
    """Give a seat another model, for the work that it has not completed.

    The same model brings a seat back that has left. Returns the stages that run again.
    """
    session = await _lock(tx, session_id)
    now = read_seating(session)
    check_seat(now, seat)
    (name,) = parse_model_list(model)
    later = replace_seat(now, seat, name)
    if later == now and session["phase"] != Phase.FAILED:
        return []
    iteration, connection = session["iteration_count"], tx.connection
    if session["phase"] == Phase.FAILED:
        await reopen(tx, session)
    model_ids = await _save(tx, session, later)
    await connection.execute(SQL["rejoin_stages"], session_id, iteration, seat)
    occupant = describe_occupant(later.models, list(map(str, model_ids)), seat)
    await jobs.reseat(connection, session_id, iteration, seat, occupant)
    await _tell(tx, session, seat, name, "replaced", later)
    if session["phase"] == Phase.FAILED:
        return await jobs.rerun_failed(connection, session_id, iteration, without=later.dropped)
    runs = await connection.fetch(SQL["list_stage_runs"], session_id)
    stages = [
        run["stage_slug"]
        for run in runs
        if run["iteration_number"] == iteration and run["completed_at"] is None
    ]
    return await jobs.rerun_seat(connection, session_id, iteration, seat, stages)


async def bring_back(tx: Transaction, session: asyncpg.Record, seat: int) -> None:
    """Let a seat that has left take part again, with its model; the session is locked."""
    now = read_seating(session)
    if seat not in now.dropped:
        return
    later = replace_seat(now, seat, now.models[seat - 1])
    await _save(tx, session, later)
    iteration = session["iteration_count"]
    await tx.connection.execute(SQL["rejoin_stages"], session["id"], iteration, seat)
    await _tell(tx, session, seat, now.models[seat - 1], "replaced", later)


async def seat_again(tx: Transaction, session: asyncpg.Record, seat: int) -> None:
    """Give the waiting jobs of a seat the model that it has now; the session is locked."""
    ids = list(map(str, session["selected_model_ids"]))
    occupant = describe_occupant(session["model_names"], ids, seat)
    await jobs.reseat(tx.connection, session["id"], session["iteration_count"], seat, occupant)


async def _lock(tx: Transaction, session_id: UUID) -> asyncpg.Record:
    await tx.connection.execute(SQL["hold_session"], session_id)
    session = await records.load_session(tx.connection, session_id)
    if session["phase"] == Phase.CANCELLED:
        raise Conflict(
            f"Session {session_id} is cancelled and cannot be continued. Start a new one.",
            reason="session_cancelled",
            remedy=Remedy(RemedyAction.START_SESSION),
        )
    return session


async def reopen(tx: Transaction, session: asyncpg.Record) -> None:
    """Open the failed stage of a session and the stages after it again."""
    place = (session["id"], session["iteration_count"], session["current_stage_slug"])
    await tx.connection.execute(SQL["reopen_stages"], *place)
    await tx.connection.execute(SQL["mark_generating"], session["id"])


async def _save(tx: Transaction, session: asyncpg.Record, seating: Seating) -> list[UUID]:
    """Write a session's seats; a model must be known here. Return the ids of the models."""
    connection, tenant_id, model_ids = tx.connection, tx.account.tenant_id, list[UUID]()
    before = dict(zip(session["model_names"], session["selected_model_ids"], strict=True))
    for seat, name in enumerate(seating.models, start=1):
        if name in before and seat not in seating.active:
            model_ids.append(before[name])  # it has left: it may be unknown by now
        else:
            card = await load_card(tx.engine, tenant_id, name, connection)
            model_ids.append(await records.upsert_model(connection, tenant_id, card))
    lead = seating.choose_lead(min(session["lead_model_index"], len(seating.models)))
    dropped = list(seating.dropped)
    await connection.execute(SQL["change_seats"], session["id"], model_ids, dropped, lead)
    return model_ids


async def _tell(
    tx: Transaction, session: asyncpg.Record, seat: int, model: str, change: str, later: Seating
) -> None:
    event = SeatChanged(
        session_id=session["id"],
        stage_slug=session["current_stage_slug"],
        iteration_number=session["iteration_count"],
        seat=seat,
        model_name=model,
        change=change,
        remaining=len(later.active),
    )
    await records.record_event(tx.connection, event)
    tx.publish(session["project_id"])
