"""Which moves a session's state can make: the database decides, whichever code writes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from uuid import UUID

import asyncpg
import pytest

from dialectic.app import sessions
from dialectic.app.transaction import Tenant
from dialectic.core.session_state import Phase, SessionState
from dialectic.db.pool import APP_ROLE, Address
from dialectic.db.tables.records import Account
from dialectic.engine import Engine
from tests.database.connections import undone
from tests.database.job_table import STAGE, AdminConnection, JobTable, start_stage

ILLEGAL_MOVE = "DJ001"
LATER_STAGE = "antithesis"
AT_REST = frozenset(Phase) - {Phase.GENERATING, Phase.PAUSED}
PAUSABLE = frozenset(Phase) - {Phase.PAUSED, Phase.CANCELLED}


@dataclass(frozen=True, slots=True)
class Place:
    """A phase, with the phase that a pause keeps, and a stage."""

    phase: Phase
    kept: Phase | None = None
    stage: str = STAGE

    @property
    def work(self) -> Phase:
        return self.kept or self.phase


PLACES = [
    *(Place(phase) for phase in Phase if phase is not Phase.PAUSED),
    *(Place(Phase.PAUSED, kept) for kept in Phase if kept in PAUSABLE),
]
# What a session's life needs, written a second time on purpose.
MOVES = {
    (Phase.PENDING, Phase.GENERATING),
    (Phase.GENERATING, Phase.STAGE_COMPLETE),
    (Phase.GENERATING, Phase.PENDING),
    (Phase.GENERATING, Phase.ITERATION_COMPLETE),
    (Phase.GENERATING, Phase.FAILED),
    (Phase.STAGE_COMPLETE, Phase.PENDING),
    (Phase.ITERATION_COMPLETE, Phase.PENDING),
    (Phase.FAILED, Phase.GENERATING),
    *((phase, Phase.CANCELLED) for phase in PAUSABLE),
}


def is_allowed(start: Place, end: Place) -> bool:
    """Decide a move by the rules: a pause keeps the phase, and cancelling ends a pause."""
    if end.phase is not Phase.CANCELLED and (start.kept is None) != (end.kept is None):
        return start.work is end.work
    return start.work is end.work or (start.work, end.work) in MOVES


@pytest.fixture(scope="module")
def address(module_address: Address) -> Address:
    return module_address


async def move(connection: AdminConnection, session_id: UUID, place: Place) -> None:
    await connection.execute(
        "update dialectic_sessions set phase = $2::text::dialectic_session_phase,"
        " phase_before_pause = $3::text::dialectic_session_phase, current_stage_slug = $4"
        " where id = $1",
        session_id,
        place.phase,
        place.kept,
        place.stage,
    )


async def force(admin: AdminConnection, session_id: UUID, place: Place) -> None:
    """Put a session into a state past all triggers."""
    await admin.execute("set local session_replication_role = replica")
    await move(admin, session_id, place)
    await admin.execute("set local session_replication_role = origin")


async def find_refusal(
    admin: AdminConnection, job_table: JobTable, start: Place, end: Place
) -> asyncpg.PostgresError | None:
    """Try a move as the application's role; return the database's refusal."""
    async with undone(admin):
        await force(admin, job_table.session_id, start)
        await become_app(admin, job_table.account)
        try:
            await move(admin, job_table.session_id, end)
        except asyncpg.PostgresError as error:
            return error
    return None


async def become_app(admin: AdminConnection, account: Account) -> None:
    await admin.execute(f"set local role {APP_ROLE}")
    await admin.fetch("select set_config('dialectic.tenant', $1, true)", str(account.tenant_id))


async def test_the_program_and_the_database_know_the_same_phases(admin: AdminConnection) -> None:
    rows = await admin.fetch(
        "select unnest(enum_range(null::dialectic_session_phase))::text as name"
    )
    assert [row["name"] for row in rows] == list(Phase)


async def test_the_table_of_moves_holds_what_a_sessions_life_needs_and_no_more(
    admin: AdminConnection,
) -> None:
    rows = await admin.fetch("select from_phase, to_phase from dialectic_session_moves")
    assert {(Phase(row[0]), Phase(row[1])) for row in rows} == MOVES


async def test_of_all_pairs_of_states_exactly_the_legal_moves_are_allowed(
    job_table: JobTable, admin: AdminConnection
) -> None:
    for start in PLACES:
        for end in PLACES:
            refusal = await find_refusal(admin, job_table, start, end)
            assert (refusal is None) == is_allowed(start, end), (start, end, refusal)
            assert refusal is None or refusal.sqlstate == ILLEGAL_MOVE, (start, end, refusal)


async def test_the_stage_changes_only_while_it_is_generated_or_before_the_next_one_starts(
    job_table: JobTable, admin: AdminConnection
) -> None:
    for start in PLACES:
        for end in PLACES:
            later = Place(end.phase, end.kept, LATER_STAGE)
            refusal = await find_refusal(admin, job_table, start, later)
            may_change = Phase.GENERATING is start.work or Phase.PENDING is end.work
            assert (refusal is None) == (is_allowed(start, end) and may_change), (start, end)


async def test_a_session_is_at_a_stage_of_its_own_process(
    job_table: JobTable, admin: AdminConnection
) -> None:
    generating = Place(Phase.GENERATING)
    refusal = await find_refusal(
        admin, job_table, generating, Place(Phase.GENERATING, None, "unheard-of")
    )
    assert isinstance(refusal, asyncpg.ForeignKeyViolationError)


async def test_a_pause_keeps_a_phase_that_can_be_resumed(
    job_table: JobTable, admin: AdminConnection
) -> None:
    for kept in (None, Phase.PAUSED, Phase.CANCELLED):
        refusal = await find_refusal(
            admin, job_table, Place(Phase.PENDING), Place(Phase.PAUSED, kept)
        )
        assert refusal is not None, kept
        assert refusal.sqlstate in (ILLEGAL_MOVE, asyncpg.CheckViolationError.sqlstate), kept


async def test_a_session_that_is_inserted_is_at_rest(
    job_table: JobTable, admin: AdminConnection
) -> None:
    copy = (
        "insert into dialectic_sessions select (jsonb_populate_record(s, $2)).*"
        " from dialectic_sessions s where s.id = $1"
    )
    for nth, phase in enumerate(Phase):
        kept = Phase.PENDING if phase is Phase.PAUSED else None
        changes = json.dumps(
            {"id": str(UUID(int=nth << 96)), "phase": phase, "phase_before_pause": kept}
        )
        async with undone(admin):
            if phase in AT_REST:
                await admin.execute(copy, job_table.session_id, changes)
            else:
                with pytest.raises(asyncpg.PostgresError) as refused:
                    await admin.execute(copy, job_table.session_id, changes)
                assert refused.value.sqlstate == ILLEGAL_MOVE


async def test_the_program_cannot_rewrite_the_table_of_moves(
    job_table: JobTable, engine: Engine
) -> None:
    for db in (job_table.db, engine.db):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await db.fetch("delete from dialectic_session_moves")


async def test_a_cancelled_session_was_paused_a_moment_before_and_stays_cancelled(
    job_table: JobTable, engine: Engine, admin: AdminConnection
) -> None:
    await start_stage(engine, job_table.account, job_table.session_id, planned_units=1)
    tenant = Tenant(engine, job_table.account)
    await tenant.run(sessions.pause, job_table.session_id)
    await tenant.run(sessions.cancel, job_table.session_id)
    row = await admin.fetchrow(
        "select * from dialectic_sessions where id = $1", job_table.session_id
    )
    assert row is not None
    assert (SessionState.from_row(row), row["phase_before_pause"]) == (
        SessionState(STAGE, Phase.CANCELLED),
        None,
    )
    assert not await tenant.run(sessions.cancel, job_table.session_id)
