"""The board: everything that a session page shows, read in one snapshot.

Reads only. `board_parts` builds the parts, `board_money` what concerns money and needs; the stream
of events tells changes with the same parts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

import asyncpg

from dialectic.app.board_money import build_money, build_needs, collect_facts
from dialectic.app.board_parts import (
    build_documents,
    build_feedback,
    build_jobs,
    build_plan,
    build_session,
    build_stages,
)
from dialectic.app.session_quotes import load_basis
from dialectic.app.transaction import Tenant, Transaction
from dialectic.contract.board import Board, BoardDocument
from dialectic.core.money.quote import SessionForecast
from dialectic.core.needs import decide_block, decide_needs
from dialectic.core.process.definition import Process
from dialectic.core.session_state import Phase
from dialectic.core.stream_position import format_id
from dialectic.core.strict_json import Json
from dialectic.db.pool import Connection
from dialectic.db.tables import board, records
from dialectic.db.tables.board import Charge, JobRow, Moment, RunningCall, SessionExtras
from dialectic.engine import Engine
from dialectic.errors import DialecticError, NotFound
from dialectic.pipeline.load import load_pinned


@dataclass(frozen=True, slots=True)
class Scene:
    """A session and one of its iterations, as rows of one snapshot."""

    session: asyncpg.Record
    extras: SessionExtras
    process: Process
    iteration: int
    stages: list[Json]
    jobs: list[JobRow]
    documents: list[asyncpg.Record]
    feedback: list[asyncpg.Record]
    charges: list[Charge]
    plan: list[Json]
    # None if a model of the session is unknown by now.
    forecast: SessionForecast | None
    # What running calls say of themselves, by job.
    told: Mapping[UUID, RunningCall] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Excerpt:
    """What is enough of a scene to tell which of its jobs and documents changed."""

    job_ids: Collection[UUID]
    document_ids: Collection[UUID]


async def load_board(
    tenant: Tenant,
    session_id: UUID,
    *,
    iteration: int | None = None,
    plans: bool = False,
    drafts: bool = False,
) -> Board:
    """Load the board of a session's current iteration, or of an earlier one.

    With plan jobs and with the documents of intermediate steps if they are wanted.
    """
    engine, account = tenant.engine, tenant.account

    async def work(connection: Connection) -> tuple[Moment, Scene]:
        moment = await board.read_moment(connection)
        scene = await load_scene(engine, connection, account.tenant_id, session_id, iteration)
        return moment, scene

    moment, scene = await engine.db.read(account.tenant_id, work)
    return build_board(
        scene,
        cursor=format_id(account.tenant_id, moment.seq, moment.horizon),
        user_id=account.user_id,
        plans=plans,
        drafts=drafts,
    )


async def read_cursor(tx: Transaction) -> str:
    """Read where the event stream continues after what is read from now on."""
    moment = await board.read_moment(tx.connection)
    return format_id(tx.account.tenant_id, moment.seq, moment.horizon)


async def load_scene(
    engine: Engine,
    connection: Connection,
    tenant_id: UUID,
    session_id: UUID,
    iteration: int | None = None,
    *,
    only: Excerpt | None = None,
    with_plan: bool = True,
) -> Scene:
    """Load the rows of one iteration of a session, in a few statements.

    An excerpt has all jobs, which stages are counted by, but only the named documents, the charges
    of what is named, and no forecast.
    """
    session = await records.load_session(connection, session_id)
    number = iteration or session["iteration_count"]
    if number > session["iteration_count"]:
        raise NotFound(
            f"Session {session_id} has no iteration {number}. Its last one is "
            f"{session['iteration_count']}.",
            reason="no_iteration",
            subject=str(number),
            limit=session["iteration_count"],
        )
    named = None if only is None else only.document_ids
    documents = await board.list_documents(connection, session_id, number, named)
    charged = None if only is None else {*only.job_ids, *_list_writers(documents)}
    return Scene(
        session=session,
        extras=await board.load_extras(connection, session_id),
        process=await load_pinned(engine, connection, session["process_template_id"]),
        iteration=number,
        stages=await board.list_stages(connection, session_id, number),
        jobs=await board.list_jobs(connection, session_id, number),
        documents=documents,
        feedback=await board.list_feedback(connection, session_id, number),
        charges=await board.list_charges(connection, session_id, charged),
        plan=await board.list_plan(connection, session_id, number) if with_plan else [],
        forecast=None if only else await _forecast(engine, connection, tenant_id, session),
        told=await board.list_running(connection, session_id),
    )


def _list_writers(documents: Iterable[asyncpg.Record]) -> set[UUID]:
    """List the jobs that wrote documents."""
    return {row["job_id"] for row in documents if row["job_id"] is not None}


async def load_documents(
    engine: Engine, connection: Connection, session_id: UUID, ids: Sequence[UUID]
) -> list[BoardDocument]:
    """Load some documents as a board shows them, in their newest versions and of any iteration."""
    try:
        session = await records.load_session(connection, session_id)
    except NotFound:  # deleted since the event
        return []
    found: list[BoardDocument] = []
    process = await load_pinned(engine, connection, session["process_template_id"])
    for iteration in range(1, session["iteration_count"] + 1):
        rows = await board.list_documents(connection, session_id, iteration, ids)
        if rows:
            scene = Scene(
                session=session,
                extras=await board.load_extras(connection, session_id),
                process=process,
                iteration=iteration,
                stages=[],
                jobs=[],
                documents=rows,
                feedback=await board.list_feedback(connection, session_id, iteration),
                charges=await board.list_charges(connection, session_id, _list_writers(rows)),
                plan=[],
                forecast=None,
            )
            found += build_documents(scene, drafts=True)
    return found


async def _forecast(
    engine: Engine, connection: Connection, tenant_id: UUID, session: asyncpg.Record
) -> SessionForecast | None:
    """Estimate the rest of a session; None if it has none, or if a model is unknown by now."""
    if session["phase"] == Phase.CANCELLED:
        return None
    try:
        return (await load_basis(engine, connection, tenant_id, session["id"])).forecast()
    except DialecticError:
        return None


def build_board(
    scene: Scene, *, cursor: str, user_id: UUID | None, plans: bool = False, drafts: bool = False
) -> Board:
    """Build the board of a scene, as one user sees it."""
    facts = collect_facts(scene)
    needs = decide_needs(facts)
    money = build_money(scene)
    return Board(
        cursor=cursor,
        session=build_session(scene, decide_block(facts, needs)),
        stages=build_stages(scene),
        jobs=build_jobs(scene, plans=plans),
        documents=build_documents(scene, user_id=user_id, drafts=drafts),
        feedback=build_feedback(scene),
        money=money,
        needs=build_needs(scene, needs),
        plan=build_plan(scene),
    )
