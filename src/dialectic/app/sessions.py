"""A person's actions on a session: generate, advance, iterate, retry, pause, resume, cancel, show.

Each action is one transaction. This module creates jobs; a trigger sends them to the workers, which
run them. `projects` creates sessions; `contributions` acts on single contributions.
"""

from __future__ import annotations

from uuid import UUID

import asyncpg

from dialectic.app import feedback
from dialectic.app.feedback import Comment, Rating
from dialectic.app.lookup import get_detail as get_detail
from dialectic.app.lookup import list_stages
from dialectic.app.seats import change_models, list_seats
from dialectic.app.stages import begin_at, begin_stages
from dialectic.app.transaction import Transaction
from dialectic.contract.events import SessionCancelled, SessionPaused, SessionResumed
from dialectic.contract.notifications import NotificationType
from dialectic.contract.sessions import Session, SessionChange, SubmitRequest
from dialectic.core.money.price import parse_usd
from dialectic.core.session_state import Phase, SessionState, show_status
from dialectic.db.pool import Connection
from dialectic.db.tables import jobs, notifications, records
from dialectic.db.tables.records import SQL
from dialectic.errors import Conflict, Remedy, RemedyAction
from dialectic.ledger import wallets
from dialectic.limits import admission
from dialectic.pipeline.load import load_pinned, load_session_context


async def generate(tx: Transaction, session_id: UUID) -> list[UUID]:
    """Start the session's current stage, with one plan job per model. Idempotent.

    On autopilot the stages after it are created too, and wait for their inputs.
    """
    session = await lock(tx, session_id)
    refuse_standing(session)
    tx.publish(session["project_id"])
    return await begin_stages(tx, session)


async def submit(tx: Transaction, session_id: UUID, body: SubmitRequest) -> str:
    """Save a person's feedback on the completed stage and start the next one; return it."""
    stage = (await lock(tx, session_id))["current_stage_slug"]
    said: list[Comment | Rating] = []
    for number, one in enumerate(body.responses):
        ids = [tx.derive_id(f"{kind} {number}") for kind in ("response", "rating")]
        if one.text.strip():
            said.append(Comment(stage, one.text, one.contribution_id, ids[0]))
        if one.rating is not None:
            said.append(Rating(one.contribution_id, one.rating, ids[1]))
    if body.feedback.strip():
        said.append(Comment(stage, body.feedback, None, tx.derive_id("feedback")))
    if said:
        await feedback.save(tx, session_id, said)
    return await start_next(tx, session_id)


async def start_next(tx: Transaction, session_id: UUID) -> str:
    """Start the stage after the completed one; return its slug."""
    session = await lock(tx, session_id)
    refuse_standing(session)
    state = SessionState.from_row(session)
    if state.phase is Phase.ITERATION_COMPLETE:
        raise Conflict(
            f"Session {session_id} has completed its last stage.",
            reason="process_ended",
            remedy=Remedy(RemedyAction.ITERATE, session_id=str(session_id)),
        )
    if state.phase is not Phase.STAGE_COMPLETE:
        raise Conflict(
            f"Session {session_id} is {state.status}. The next stage can start when stage "
            f"{state.stage!r} is complete.",
            reason="stage_incomplete",
            remedy=_choose_remedy(session_id, state.phase),
        )
    context = await load_session_context(
        tx.engine, tx.connection, session_id, session["iteration_count"]
    )
    following = context.process.find_next(state.stage)
    assert following is not None, "the last stage ends an iteration"
    until = session["until_stage_slug"]
    if context.process.position(until) < context.process.position(following.slug):
        until = following.slug
    iteration = session["iteration_count"]
    await begin_at(tx, session_id, following, until=until, iteration=iteration)
    tx.publish(session["project_id"])
    return following.slug


async def iterate(tx: Transaction, session_id: UUID) -> int:
    """Start the next iteration, with the final documents and all feedback; return its number."""
    session = await lock(tx, session_id)
    refuse_standing(session)
    state = SessionState.from_row(session)
    if state.phase not in (Phase.STAGE_COMPLETE, Phase.ITERATION_COMPLETE):
        raise Conflict(
            f"Session {session_id} is {state.status}. The next iteration can start when this one "
            f"has ended.",
            reason="iteration_incomplete",
            remedy=_choose_remedy(session_id, state.phase),
        )
    iteration: int = session["iteration_count"] + 1
    context = await load_session_context(tx.engine, tx.connection, session_id, iteration)
    first, until = context.process.order[0], session["until_stage_slug"]
    await begin_at(tx, session_id, first, until=until, iteration=iteration)
    tx.publish(session["project_id"])
    return iteration


async def retry(tx: Transaction, session_id: UUID) -> list[str]:
    """Retry the failed jobs and those that depend on them; return the stages."""
    connection = tx.connection
    session = await lock(tx, session_id)
    refuse_standing(session)
    iteration, state = session["iteration_count"], SessionState.from_row(session)
    if state.phase is not Phase.FAILED:
        raise Conflict(
            f"Session {session_id} is {state.status}: nothing failed, nothing to retry.",
            reason="nothing_failed",
        )
    await connection.execute(SQL["reopen_stages"], session_id, iteration, state.stage)
    await connection.execute(SQL["mark_generating"], session_id)
    failed = await connection.fetch(SQL["bring_back_failed"], session_id, iteration)
    left = [seat for seat in session["dropped_seats"] if seat not in {r["seat"] for r in failed}]
    return await jobs.rerun_failed(connection, session_id, iteration, without=left)


async def lock(tx: Transaction, session_id: UUID) -> asyncpg.Record:
    """Lock a session and its jobs until the end of the transaction, and load it.

    The first statement of every action that moves jobs: no worker commits in the session meanwhile.
    """
    await tx.connection.execute(SQL["hold_session"], session_id)
    return await records.load_session(tx.connection, session_id)


def refuse_cancelled(session: asyncpg.Record) -> None:
    """Raise if a session is cancelled."""
    if session["phase"] == Phase.CANCELLED:
        raise Conflict(
            f"Session {session['id']} is cancelled and cannot be continued. Start a new one.",
            reason="session_cancelled",
            remedy=Remedy(RemedyAction.START_SESSION),
        )


def refuse_standing(session: asyncpg.Record) -> None:
    """Raise if a session is cancelled or paused."""
    refuse_cancelled(session)
    if session["phase"] == Phase.PAUSED:
        raise Conflict(
            f"Session {session['id']} is paused. Resume it first.",
            reason="session_paused",
            remedy=Remedy(RemedyAction.RESUME, session_id=str(session["id"])),
        )


def _choose_remedy(session_id: UUID, phase: Phase) -> Remedy:
    actions = {Phase.FAILED: RemedyAction.RETRY, Phase.PENDING: RemedyAction.RESUME}
    return Remedy(actions.get(phase, RemedyAction.WATCH), session_id=str(session_id))


# -- pause, resume, cancel ------------------------------------------------------------------------


async def pause(tx: Transaction, session_id: UUID) -> bool:
    """Pause a session: running jobs finish their turn, and no further job starts.

    Returns False if it was already paused, possibly by an earlier try of this request.
    """
    connection = tx.connection
    session = await lock(tx, session_id)
    if session["phase"] == Phase.PAUSED:
        return False
    refuse_cancelled(session)
    await _refuse_finished(connection, session, "paused")
    await connection.fetchval(SQL["pause_session"], session_id)
    await jobs.pause_session(connection, session_id)
    await records.record_event(connection, SessionPaused(session_id=session_id))
    return True


async def resume(
    tx: Transaction,
    session_id: UUID,
    *,
    approves_spend: bool = False,
    budget_credits: int | None = None,
    full_answers_only: bool | None = None,
    stage: str | None = None,
) -> None:
    """Resume everything that is paused, or the calls of one stage. Idempotent.

    `approves_spend` approves the calls that exceed the automatic spending limit. A new budget
    applies to the whole session, including what it has already spent. `full_answers_only`, if
    given, changes whether further calls wait for money or accept shorter answers.
    """
    connection = tx.connection
    session = await lock(tx, session_id)
    refuse_cancelled(session)
    if full_answers_only is not None:
        await connection.execute(SQL["set_full_answers_only"], session_id, full_answers_only)
    if stage is not None:
        await _check_stage(tx, session, stage)
        refuse_standing(session)
    if await connection.fetchval(SQL["resume_session"], session_id):
        await records.record_event(connection, SessionResumed(session_id=session_id))
    await admission.allow_probes(connection, session_id)
    await jobs.resume_session(connection, session_id, approves_spend=approves_spend, stage=stage)
    if budget_credits is not None:  # lock the wallet last, in the same order as a worker
        await wallets.set_budget(connection, session_id, budget_credits)
        # Also resume jobs that have paused since, because of the old budget.
        await jobs.resume_session(
            connection, session_id, approves_spend=approves_spend, stage=stage
        )


async def _check_stage(tx: Transaction, session: asyncpg.Record, stage: str) -> None:
    """Raise if the session's process has no such stage."""
    process = await load_pinned(tx.engine, tx.connection, session["process_template_id"])
    process.load_stage(stage)


async def cancel(tx: Transaction, session_id: UUID) -> bool:
    """Cancel a session for good; its documents stay. Returns False if it was already cancelled."""
    connection = tx.connection
    session = await lock(tx, session_id)
    if session["phase"] == Phase.CANCELLED:
        return False
    await _refuse_finished(connection, session, "cancelled")
    await connection.fetchval(SQL["cancel_session"], session_id)
    await jobs.cancel_session(connection, session_id)
    await connection.execute(SQL["cancel_stage_runs"], session_id)
    await records.record_event(connection, SessionCancelled(session_id=session_id))
    await notifications.notify(connection, _build_stopped(session, tx.account.user_id))
    return True


def _build_stopped(session: asyncpg.Record, actor_id: UUID) -> notifications.NewNotification:
    """Build the message that a session was cancelled; the person who did it knows that."""
    return notifications.NewNotification(
        session_id=session["id"],
        type=NotificationType.SESSION_STOPPED,
        title=f"{session['project_name']} was cancelled",
        message=(
            f"The session was cancelled in stage {session['current_stage_slug']}. Its documents "
            "are kept. Start another session to go on."
        ),
        remedy=Remedy(RemedyAction.LIST_CONTRIBUTIONS),
        data={"stageSlug": session["current_stage_slug"]},
        is_read=session["user_id"] == actor_id,
    )


async def _refuse_finished(connection: Connection, session: asyncpg.Record, word: str) -> None:
    """Raise if a session has ended and has no work left."""
    state = SessionState.from_row(session)
    is_complete = state.is_complete(session["until_stage_slug"])
    if not is_complete and state.phase is not Phase.FAILED:
        return
    if await connection.fetchval(SQL["session_has_open_jobs"], session["id"]):
        return
    end = "is complete" if is_complete else "has failed"
    raise Conflict(
        f"Session {session['id']} {end}, so it cannot be {word}.",
        reason="session_complete" if is_complete else "session_failed",
    )


async def change(tx: Transaction, session_id: UUID, wanted: SessionChange) -> Session:
    """Change a session's settings; its models only while no stage runs."""
    connection = tx.connection
    session = await lock(tx, session_id)
    refuse_cancelled(session)
    if wanted.models is not None:
        await change_models(tx, session, wanted.models)
    await connection.execute(
        SQL["change_session"],
        session_id,
        wanted.continue_until_complete,
        wanted.max_output_tokens,
        wanted.is_taken_away("max_output_tokens"),
        wanted.full_answers_only,
        wanted.wait_for_all,
    )
    if "budget" in wanted.model_fields_set:
        budget = None if wanted.budget is None else parse_usd(wanted.budget)
        await wallets.set_budget(connection, session_id, budget)
    return await get(tx, session_id)


async def get(tx: Transaction, session_id: UUID) -> Session:
    """Load a session with the progress of its stages."""
    row = await records.load_session(tx.connection, session_id)
    stages = await list_stages(tx.connection, session_id)
    process = await load_pinned(tx.engine, tx.connection, row["process_template_id"])
    seats = list_seats(row, process)
    return Session.model_validate({**show_status(row), "stages": stages, "seats": seats})
