"""Jobs that begin to wait for another one at the moment at which that one ends."""

from __future__ import annotations

from uuid import UUID

from chaos.bare_jobs import (
    bind,
    build_end,
    build_payload,
    claim_jobs,
    count_messages,
    draw_id,
    insert_jobs,
    make_session,
)
from chaos.gate import Gate
from chaos.lab import Lab
from dialectic.db.tables.jobs import SQL

WAITERS = 8


async def race_waiters(lab: Lab, gate: Gate, count: int) -> None:
    """Let jobs begin to wait for another one at the moment at which that one ends."""
    session_id = await make_session(lab, count * WAITERS)
    ends = {draw_id(lab.rng): lab.rng.random() < 0.7 for _ in range(count)}
    await insert_jobs(lab, 0, list(ends), [session_id] * count, [None] * count)
    await claim_jobs(lab, list(ends))
    waiters: dict[UUID, bool] = {}
    group: list[str] = []
    for job_id, ends_well in ends.items():
        made = [draw_id(lab.rng) for _ in range(WAITERS)]
        waiters |= dict.fromkeys(made, ends_well)
        statements = [build_waiter(lab, session_id, job_id, waiter) for waiter in made]
        end = build_end(session_id, job_id, ends_well=ends_well)
        statements.insert(lab.rng.randrange(WAITERS), end)
        if len(group) + len(statements) > gate.width:
            await gate.race(group)
            group = []
        group += statements
    await gate.race(group)
    await _check_waiters(lab, waiters)


def build_waiter(lab: Lab, session_id: UUID, prerequisite_id: UUID, waiter_id: UUID) -> str:
    """Build the statement that makes a job which waits for another."""
    names = (lab.account.tenant_id, waiter_id, session_id, None, prerequisite_id, None)
    place = ("thesis", 1, build_payload(), "waiting_for_prerequisite", None)
    return bind(SQL["insert_job"], *names, *place, 0, 1, 0, 0, "{}")


async def _check_waiters(lab: Lab, waiters: dict[UUID, bool]) -> None:
    rows = await lab.fetch(
        "select j.id, j.status::text from dialectic.dialectic_generation_jobs j"
        " where j.prerequisite_job_id is not null"
    )
    status = {row["id"]: row["status"] for row in rows}
    sent = await count_messages(lab)
    lab.report.note("waiters", len(waiters))
    lab.report.expect_none(
        "waiters that were not told",
        [
            f"{waiter} is {status.get(waiter)}"
            for waiter, ends_well in waiters.items()
            if status.get(waiter) != ("pending" if ends_well else "failed")
        ],
    )
    lab.report.expect_none(
        "waiters not sent exactly once",
        [waiter for waiter, ends_well in waiters.items() if sent.get(waiter, 0) != int(ends_well)],
    )
