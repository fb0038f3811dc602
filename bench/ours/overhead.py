"""What a job costs beside the answer of its model."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Sequence
from typing import Any

import asyncpg

from bench.child import Options
from bench.ours.engine import create_sessions, open_engine, working
from dialectic.app import sessions
from dialectic.app.transaction import Tenant
from dialectic.core.job import Job
from dialectic.db.pool import APP_ROLE, WORKER_ROLE, Database
from dialectic.db.tables import jobs
from dialectic.db.tables.records import open_account
from dialectic.engine import Engine, Failpoints
from dialectic.pipeline.run import run_job
from dialectic.worker.worker import Worker


class Stopwatch(Failpoints):
    """Notes when a job comes to each of the named points of its life."""

    def __init__(self) -> None:
        super().__init__(armed={})
        self.at: dict[str, float] = {}

    def reach(self, point: str) -> None:
        self.at[point] = time.perf_counter()


class ClockedDatabase(Database):
    """Notes when a claim begins."""

    claim_at = 0.0

    async def fetch(
        self, query: str, *arguments: Any, patience_s: float | None = None
    ) -> list[asyncpg.Record]:
        if query == jobs.SQL["claim"]:
            type(self).claim_at = time.perf_counter()
        return await super().fetch(query, *arguments, patience_s=patience_s)


async def overhead(options: Options) -> dict[str, list[float]]:
    """Time whole turns by an offline model, one at a time, without the model's own time."""
    clock = Stopwatch()
    rows: list[dict[str, float]] = []
    finished = asyncio.Event()

    async def timed(engine: Engine, job: Job) -> None:
        await run_job(engine, job)
        at = clock.at | {"claim": ClockedDatabase.claim_at, "end": time.perf_counter()}
        rows.append(at)
        finished.set()

    async with (
        open_engine(options, APP_ROLE) as desk,
        open_engine(options, WORKER_ROLE, failpoints=clock, kind=ClockedDatabase) as engine,
    ):
        account = await open_account(desk.db, "overhead")
        count = options["warm_up"] + options["jobs"] * 2
        made = await create_sessions(desk, account, count=count, models=1)
        alone, backlog = made[: -options["jobs"]], made[-options["jobs"] :]
        submitted_ms = []
        async with working(Worker(engine, concurrency=1, run_job=timed)):
            for session_id in alone:
                finished.clear()
                submitted = time.perf_counter()
                await Tenant(desk, account).run(sessions.generate, session_id)
                await finished.wait()
                submitted_ms.append((rows[-1]["after_commit"] - submitted) * 1000)
        for session_id in backlog:
            await Tenant(desk, account).run(sessions.generate, session_id)
        async with working(Worker(engine, concurrency=1, run_job=timed)):
            while len(rows) < count:
                finished.clear()
                await finished.wait()
    apart = rows[options["warm_up"] : len(alone)]
    provider_ms = [(row["after_reply"] - row["before_send"]) * 1000 for row in apart]
    queued = rows[len(alone) :]
    answering_s = sum(row["after_reply"] - row["before_send"] for row in queued)
    wall_s = queued[-1]["end"] - queued[0]["claim"] - answering_s
    return {
        "claim_to_done_ms": [
            (row["after_commit"] - row["claim"]) * 1000 - spent
            for row, spent in zip(apart, provider_ms, strict=True)
        ],
        "submit_to_done_ms": [
            total - spent
            for total, spent in zip(submitted_ms[options["warm_up"] :], provider_ms, strict=True)
        ],
        "backlog_ms": [wall_s * 1000 / len(queued)],
        **{f"{name}_ms": [value] for name, value in _split(apart).items()},
    }


def _split(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    """Compute where a turn's time goes, in medians of milliseconds."""
    phases = {
        "claim": ("claim", "after_claim"),
        "gather": ("after_claim", "before_send"),
        "provider": ("before_send", "after_reply"),
        "write": ("after_reply", "before_commit"),
        "commit": ("before_commit", "after_commit"),
        "files": ("after_commit", "after_files"),
        "mark": ("after_files", "end"),
    }
    return {
        name: statistics.median((row[end] - row[begin]) * 1000 for row in rows)
        for name, (begin, end) in phases.items()
    }
