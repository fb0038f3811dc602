"""What must be true of a laboratory once its dust has settled. Reads only.

Each promise is a query that finds what breaks it. Jobs that have children write nothing themselves.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import asyncpg

from chaos.crew import Crew
from chaos.lab import Lab
from chaos.verdict import Report, quantile
from dialectic.storage.keys import ID_NAME

DEFAULT_LEASE_S = 6.0
RECOVERY_MAX_S = 12.0
# A short lease shrinks the limit, but not the time that a machine loses which is busy killing.
BUSY_S = 5.0

WRITERS = """
  (select j.* from dialectic.dialectic_generation_jobs j where not exists (
     select from dialectic.dialectic_generation_jobs c
     where c.tenant_id = j.tenant_id and c.parent_job_id = j.id))
"""

UNFINISHED = """
  select format('job %s is %s (%s), attempt %s of %s', j.id, j.status, j.status_reason,
    j.attempt_count, coalesce(j.worker, 'nobody'))
  from dialectic.dialectic_generation_jobs j where j.status <> 'completed' order by j.id
"""
STAGES_OPEN = """
  select format('session %s: %s, %s of %s units', r.session_id, r.status, r.finished_units,
    r.planned_units)
  from dialectic.dialectic_stage_runs r
  where r.status <> 'complete' or r.finished_units <> r.planned_units
"""
NOT_ONE_CONTRIBUTION = f"""
  select format('job %s has %s contributions', j.id, count(c.id))
  from {WRITERS} j
  left join dialectic.dialectic_contributions c on c.tenant_id = j.tenant_id and c.job_id = j.id
  where j.status = 'completed'
  group by j.id having count(c.id) <> 1
"""
NOT_THE_SAME_DOCUMENT = """
  select format('%s and %s', min(c.id::text), max(c.id::text))
  from dialectic.dialectic_contributions c
  group by c.session_id, c.storage_path having count(*) > 1
  union all
  select format('%s has %s answers of call %s', c.session_id, count(*), c.provider_request_id)
  from dialectic.dialectic_contributions c
  group by c.session_id, c.provider_request_id having count(*) > 1
"""
HALF_A_TURN = f"""
  select format('job %s is %s, its result names %s, its contribution is %s', j.id, j.status,
    j.results ->> 'contribution_id', c.id)
  from {WRITERS} j
  full join dialectic.dialectic_contributions c on c.tenant_id = j.tenant_id and c.job_id = j.id
  where (j.status = 'completed') is distinct from (c.id is not null)
    or c.id is not null and c.id::text is distinct from j.results ->> 'contribution_id'
"""
NOT_TOLD_ONCE = """
  select format('contribution %s was told %s times', c.id, count(n.id))
  from dialectic.dialectic_contributions c
  left join dialectic.notifications n on n.tenant_id = c.tenant_id
    and n.type = 'dialectic_contribution_received'
    and n.data -> 'contribution' ->> 'id' = c.id::text
  group by c.id having count(n.id) <> 1
  union all
  select format('the end of session %s was told %s times', r.session_id, count(n.id))
  from dialectic.dialectic_stage_runs r
  left join dialectic.notifications n on n.tenant_id = r.tenant_id and n.session_id = r.session_id
    and n.type = 'contribution_generation_complete' and n.data ->> 'stageSlug' = r.stage_slug
  group by r.session_id, r.stage_slug having count(n.id) <> 1
  union all
  select format('the beginning of session %s was told %s times', r.session_id, count(n.id))
  from dialectic.dialectic_stage_runs r
  left join dialectic.notifications n on n.tenant_id = r.tenant_id and n.session_id = r.session_id
    and n.type = 'contribution_generation_started' and n.data ->> 'stageSlug' = r.stage_slug
  where r.started_at is not null
  group by r.session_id, r.stage_slug having count(n.id) <> 1
  union all
  select format('the user of session %s has %s messages that it is %s', s.id, count(n.id), s.phase)
  from dialectic.dialectic_sessions s
  left join dialectic.notifications n on n.tenant_id = s.tenant_id and n.session_id = s.id
    and n.user_id = s.user_id and n.type in ('session_done', 'session_waits_for_you')
    and not n.is_internal_event and n.resolved_at is null
  where s.phase in ('stage_complete', 'iteration_complete')
  group by s.id, s.phase having count(n.id) <> 1
"""
NOT_ENDED_ONCE = """
  select format('job %s ended %s times', m.job_id, count(*)) from chaos.moves m
  where m.to_status in ('completed', 'failed', 'retry_loop_failed', 'cancelled')
    and m.from_status is distinct from m.to_status
  group by m.job_id having count(*) <> 1
"""
# Who held the job when it ended, and whose call wrote the answer that was kept.
STALE_ANSWERS = """
  select format('job %s: held by %s, answered by call %s', c.job_id, m.worker,
    c.provider_request_id)
  from dialectic.dialectic_contributions c
  cross join lateral (
    select m.worker from chaos.moves m
    where m.job_id = c.job_id and m.to_status = 'processing' order by m.n desc limit 1
  ) m
  where split_part(c.provider_request_id, '-', 1) <> m.worker
"""
LOST_WITHOUT_RECORD = """
  select format('job %s lost %s leases and has %s errors that say so', j.id, j.lost_count, e.told)
  from dialectic.dialectic_generation_jobs j
  cross join lateral (
    select count(*) as told from jsonb_array_elements(j.error_details) e
    where e ->> 'code' = 'worker_lost'
  ) e
  where j.lost_count <> e.told
"""
FILES = """
  select f.tenant_id, f.path, f.sha256, f.written_at from dialectic.dialectic_files f
"""
DOCUMENTS = """
  select c.tenant_id || '/' || c.storage_path as key, c.content
  from dialectic.dialectic_contributions c
"""
TAKEN_OVER = """
  select m.worker, extract(epoch from m.at)::float8 as claimed_at,
    extract(epoch from later.at)::float8 as claimed_again_at
  from chaos.moves m
  join chaos.moves later
    on later.job_id = m.job_id and later.is_claim and later.attempt = m.attempt + 1
  where m.is_claim and later.from_status = 'processing'
"""


async def check_everything(lab: Lab, crew: Crew, report: Report) -> None:
    """Check all that must be true after any fault. All work must have been given time to end."""

    async def find(query: str) -> list[str]:
        return [str(row[0]) for row in await lab.fetch(query)]

    report.note("jobs", await lab.count_jobs())
    report.expect_none("jobs lost or unfinished", await find(UNFINISHED))
    report.expect_none("stages without their end", await find(STAGES_OPEN))
    report.expect_none("jobs without exactly one contribution", await find(NOT_ONE_CONTRIBUTION))
    report.expect_none("duplicate contributions", await find(NOT_THE_SAME_DOCUMENT))
    report.expect_none("turns saved by half", await find(HALF_A_TURN))
    report.expect_none("news not told exactly once", await find(NOT_TOLD_ONCE))
    report.expect_none("jobs that did not end exactly once", await find(NOT_ENDED_ONCE))
    report.expect_none("answers by another than the holder", await find(STALE_ANSWERS))
    report.expect_none("lost leases without a record", await find(LOST_WITHOUT_RECORD))
    report.expect("messages left in the queue", await lab.fetchval(COUNT_MESSAGES), 0)
    await check_files(lab, report)
    await check_calls(lab, report)
    crew.bury_the_dead()
    report.expect_none("faults in the workers' logs", [*crew.faults])


COUNT_MESSAGES = "select count(*) from queue.pgqueuer"


async def check_files(lab: Lab, report: Report) -> None:
    """Every row's file is in storage with the row's bytes, and nothing else is there."""
    rows = await lab.fetch(FILES)
    storage = lab.home / "storage"
    wrong, stray = await asyncio.to_thread(compare_files, storage, rows)
    report.note("files", len(rows))
    report.expect_none("files that differ from their rows", wrong)
    report.expect_none("files that no row knows", stray)
    documents = await lab.fetch(DOCUMENTS)
    torn = await asyncio.to_thread(find_torn, storage, documents)
    report.expect_none("documents that differ from their contributions", torn)


def compare_files(storage: Path, rows: Sequence[asyncpg.Record]) -> tuple[list[str], list[str]]:
    wrong = []
    known = set()
    for row in rows:
        key = f"{row['tenant_id']}/{row['path']}"
        known.add(key)
        path = storage / key
        if row["written_at"] is None:
            wrong.append(f"{key} waits in the database")
        elif not path.is_file():
            wrong.append(f"{key} is missing")
        elif hashlib.sha256(path.read_bytes()).hexdigest() != row["sha256"]:
            wrong.append(f"{key} has other bytes")
    found = {str(p.relative_to(storage)) for p in storage.rglob("*") if p.is_file()}
    return wrong, sorted(found - known - {ID_NAME})


def find_torn(storage: Path, documents: Sequence[asyncpg.Record]) -> list[str]:
    """Find documents in storage that do not hold the text of their contribution."""
    torn = []
    for row in documents:
        path = storage / row["key"]
        text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
        if row["content"].strip() not in text:
            torn.append(row["key"])
    return torn


async def check_calls(lab: Lab, report: Report) -> None:
    """Nobody was asked more often than jobs and lost attempts explain."""
    calls = read_calls(lab.calls_file)
    rows = await lab.fetch(
        f"select j.session_id, count(*) + sum(j.lost_count) as allowed from {WRITERS} j group by 1"
    )
    allowed = {row["session_id"]: int(row["allowed"]) for row in rows}
    per_session = Counter(lab.orders.get(order) for order in calls.values())
    report.note("calls", f"{len(calls)} for {await lab.count_jobs()} jobs")
    report.expect_none(
        "sessions with unexplained calls",
        [
            f"session {session_id}: {count} calls, {allowed.get(session_id, 0)} explained"
            for session_id, count in per_session.items()
            if session_id is None or count > allowed.get(session_id, 0)
        ],
    )


def read_calls(path: Path) -> dict[str, int]:
    """Read the record of calls: the order each was made for, by its mark."""
    if not path.exists():
        return {}
    lines = (line.split() for line in path.read_text().splitlines())
    return {mark: int(order) for mark, order in lines}


async def measure_recovery(lab: Lab, crew: Crew) -> dict[str, list[float]]:
    """Measure, by dead worker, how long after its death each of its jobs was claimed again."""
    recovered: dict[str, list[float]] = {}
    for row in await lab.fetch(TAKEN_OVER):
        died_at = crew.died_at.get(row["worker"])
        if died_at is not None and row["claimed_at"] <= died_at:
            recovered.setdefault(row["worker"], []).append(row["claimed_again_at"] - died_at)
    return recovered


def report_recovery(
    report: Report, label: str, recovered_s: Sequence[float], lease_s: float
) -> None:
    """Promise that jobs are claimed again in time, which is counted in leases."""
    limit_s = RECOVERY_MAX_S * lease_s / DEFAULT_LEASE_S
    p50, p99 = quantile(recovered_s, 0.5), quantile(recovered_s, 0.99)
    report.note(
        f"recovery with {label}",
        f"{len(recovered_s)} jobs, p50 {p50:.2f} s = {p50 / lease_s:.2f} leases, "
        f"p99 {p99:.2f} s = {p99 / lease_s:.2f} leases, max {max(recovered_s, default=0):.2f} s",
    )
    room_s = 0.0 if lease_s >= DEFAULT_LEASE_S else BUSY_S
    report.expect_at_most(f"recovery p99, {label}", round(p99, 2), round(limit_s + room_s, 2), " s")
