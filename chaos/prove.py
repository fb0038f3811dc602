"""See that a breach would be seen: break the product on purpose, and expect the experiment's no.

First each experiment runs with the product sabotaged and must report the breach that follows from
it. Then a laboratory in which all went well is falsified, one thing at a time, and the check that
stands for that thing must find it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from chaos import (
    barrier,
    events,
    failpoints,
    fleet,
    hostile,
    kills,
    migration,
    money,
    postgres,
    resume,
    sabotage,
    start,
    starved,
    tenants,
    zombie,
)
from chaos.checks import check_everything
from chaos.crew import open_crew
from chaos.experiments import conduct
from chaos.lab import Lab, open_lab
from chaos.verdict import Report
from chaos.worker import append_line

# The experiment, its size, what is broken, and the promise that must be reported as breached.
PROOFS: tuple[tuple[str, Any, str, str], ...] = (
    ("barrier", barrier.SMALL, "unlocked_parent", "lost wake-ups"),
    ("barrier", barrier.SMALL, "noted_twice", "double wake-ups"),
    ("barrier", barrier.SMALL, "sent_twice", "parents not sent exactly once per step"),
    ("barrier", barrier.SMALL, "unlocked_prerequisite", "waiters that were not told"),
    ("money", money.SMALL, "open_purse", "rounds in which not exactly 3 passed"),
    ("money", money.SMALL, "no_budget", "rounds in which not exactly 3 passed"),
    ("money", money.SABOTAGED, "paid_twice", "orders of events that broke the books"),
    ("money", money.SABOTAGED, "prices_of_today", "orders of events that broke the books"),
    ("money", money.SABOTAGED, "kept_for_ever", "breaches that the audit found"),
    (
        "money",
        money.SABOTAGED_CALLS,
        "taken_for_unsent",
        "calls that arrived, and holds posted or lost",
    ),
    ("tenants", tenants.SMALL, "open_rows", "rows of another tenant that were seen"),
    ("tenants", tenants.SMALL, "forgotten_names", "requests that were not done exactly once"),
    ("kills", kills.SABOTAGED, "no_sweep", "jobs lost or unfinished"),
    ("kills", kills.SABOTAGED, "half_files", "files that differ from their rows"),
    ("failpoints", failpoints.SABOTAGED, "forgotten_files", "files that differ from their rows"),
    ("zombie", zombie.SABOTAGED, "no_fence", "answers by another than the holder"),
    ("starved", starved.SABOTAGED, "impatient", "workers that ended by themselves"),
    ("hostile", hostile.SABOTAGED, "whole_bodies", "longest turn of the server's loop"),
    ("postgres", postgres.SABOTAGED, "deaf", "jobs lost or unfinished"),
    ("migration", migration.SABOTAGED, "torn_migrations", "next migrations that did not complete"),
    ("start", start.SABOTAGED, "no_locks", "commands that failed beside a killed one"),
    ("start", start.SABOTAGED, "resume_nothing", "sessions that were not brought to their end"),
    ("resume", resume.SABOTAGED, "torn_turns", "saved calls that were repeated"),
    ("resume", resume.SABOTAGED, "dated_documents", "files that differ from an undisturbed run"),
    ("events", events.SABOTAGED, "numbered_when_written", "clients that missed an event"),
    ("events", events.SABOTAGED, "forgotten_ids", "clients that missed an event"),
    (
        "events",
        events.SABOTAGED,
        "told_again",
        "clients that were told one twice, or one that never was",
    ),
    ("fleet", fleet.SABOTAGED, "dated_documents", "manifests that differ from an undisturbed run"),
)


async def prove(names: Sequence[str], *, seed: int) -> list[Report]:
    """Sabotage these experiments; return one report each on whether the breach was seen."""
    reports = []
    for name, size, what, promise in PROOFS:
        if name in names:
            broken = sabotage.load(what)
            report = Report(f"{name}, {what}", seed)
            report.note("broken", broken.meaning)
            seen = await conduct(name, size, seed=seed, sabotage=broken, is_quiet=True)
            for check in seen.checks:
                if not check.held:
                    report.note(f"seen: {check.name}", check.seen)
            report.expect(promise, "breached" if promise in seen.breaches else "held", "breached")
            report.say("noticed" if report.held else "NOT NOTICED")
            reports.append(report.finish())
    if "kills" in names:
        reports.append(await falsify(seed=seed))
    return reports


# -- falsifications of a sound laboratory ---------------------------------------------------------

Falsify = Callable[[Lab], Awaitable[object]]
A_CONTRIBUTION = "(select min(c.id::text)::uuid from dialectic.dialectic_contributions c)"


async def _flip_a_byte(lab: Lab) -> None:
    path = _find_file(lab)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


async def _remove_a_file(lab: Lab) -> None:
    _find_file(lab).unlink()


async def _leave_a_file(lab: Lab) -> None:
    path = _find_file(lab)
    (path.parent / "stray.md").write_text("nobody knows me")


async def _call_once_more(lab: Lab) -> None:
    append_line(lab.calls_file, "w99-1 1")


def _find_file(lab: Lab) -> Path:
    return min(path for path in (lab.home / "storage").rglob("*.md") if "thesis" in path.name)


def _sql(*statements: str) -> Falsify:
    async def falsify(lab: Lab) -> None:
        for statement in statements:
            await lab.execute(statement)

    return falsify


JOBS = "dialectic.dialectic_generation_jobs"
UNGUARDED = "set session_replication_role = replica"
GUARDED = "reset session_replication_role"
FALSIFICATIONS: dict[str, tuple[Falsify, str]] = {
    "a job is open again": (
        _sql(
            UNGUARDED,
            f"update {JOBS} set status = 'pending', completed_at = null"
            f" where id = (select min(id::text)::uuid from {JOBS})",
            GUARDED,
        ),
        "jobs lost or unfinished",
    ),
    "a stage counts too little": (
        _sql("update dialectic.dialectic_stage_runs set finished_units = finished_units - 1"),
        "stages without their end",
    ),
    "a contribution is gone": (
        _sql(
            UNGUARDED,
            f"delete from dialectic.dialectic_contributions where id = {A_CONTRIBUTION}",
            GUARDED,
        ),
        "jobs without exactly one contribution",
    ),
    "a contribution is there twice": (
        _sql(
            "drop index dialectic.one_contribution_per_job",
            "drop index dialectic.one_chunk_per_turn",
            "alter table dialectic.dialectic_contributions"
            " drop constraint dialectic_contributions_tenant_id_storage_path_key",
            UNGUARDED,
            "create temporary table twin as select * from dialectic.dialectic_contributions"
            f" where id = {A_CONTRIBUTION}",
            "update twin set id = gen_random_uuid()",
            "insert into dialectic.dialectic_contributions select * from twin",
            GUARDED,
        ),
        "duplicate contributions",
    ),
    "a job's result names another contribution": (
        _sql(
            UNGUARDED,
            f"""update {JOBS} set results = '{{"contribution_id": "none"}}'""",
            GUARDED,
        ),
        "turns saved by half",
    ),
    "an event is told again": (
        _sql(
            "insert into dialectic.notifications (tenant_id, user_id, session_id, type, data)"
            " select tenant_id, user_id, session_id, type, data from dialectic.notifications"
            " where type = 'dialectic_contribution_received' limit 1"
        ),
        "news not told exactly once",
    ),
    "a job ended twice": (
        _sql(
            "insert into chaos.moves"
            " (job_id, from_status, to_status, attempt, dispatch, step, is_claim)"
            " select job_id, from_status, to_status, attempt, dispatch, step, false"
            " from chaos.moves where to_status = 'completed' limit 1"
        ),
        "jobs that did not end exactly once",
    ),
    "another worker's answer was kept": (
        _sql(
            "update dialectic.dialectic_contributions set provider_request_id = 'w77-1'"
            f" where id = {A_CONTRIBUTION}"
        ),
        "answers by another than the holder",
    ),
    "a lost lease was not recorded": (
        _sql(UNGUARDED, f"update {JOBS} set lost_count = lost_count + 1", GUARDED),
        "lost leases without a record",
    ),
    "a message is left": (
        _sql(
            "insert into queue.pgqueuer (priority, entrypoint, payload, status)"
            " values (0, 'job', '', 'queued')"
        ),
        "messages left in the queue",
    ),
    "a byte of a file is another": (_flip_a_byte, "files that differ from their rows"),
    "a file is gone": (_remove_a_file, "files that differ from their rows"),
    "a file waits": (
        _sql("update dialectic.dialectic_files set content = '', written_at = null"),
        "files that differ from their rows",
    ),
    "a stray file": (_leave_a_file, "files that no row knows"),
    "a contribution's text is another": (
        _sql("update dialectic.dialectic_contributions set content = 'something else'"),
        "documents that differ from their contributions",
    ),
    "one call more": (_call_once_more, "sessions with unexplained calls"),
}


async def falsify(*, seed: int) -> Report:
    """Falsify a sound laboratory in every way, each time anew, and expect the check's no."""
    report = Report("falsified", seed)
    for what, (work, promise) in FALSIFICATIONS.items():
        seen = Report("falsified", seed, is_quiet=True)
        async with open_lab(seen) as lab, open_crew(lab) as crew:
            crew.hire()
            await lab.order(models_times=1)
            await lab.wait_until_idle()
            await crew.stop()
            await check_everything(lab, crew, seen)
            if not seen.held:
                report.expect_none("breaches before anything was falsified", seen.breaches)
            seen.checks.clear()
            await work(lab)
            await check_everything(lab, crew, seen)
        verdict = "breached" if promise in seen.breaches else "held"
        report.expect(f"{promise}, when {what}", verdict, "breached")
    report.say("every falsification was noticed" if report.held else "NOT ALL NOTICED")
    return report.finish()
