"""Endpoints that only one test knows, asked and told about as a worker does."""

from __future__ import annotations

import itertools
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import Any

from dialectic.core.job import Job
from dialectic.core.models.endpoint import Endpoint, WireFormat
from dialectic.db.pool import Database
from dialectic.limits import admission
from dialectic.limits.admission import HealthCache, Outcome, Permit, Report
from tests.database.job_table import JobTable

ANSWERED = Report(Outcome.ANSWERED, used_tokens=0)
FAILED = Report(Outcome.FAILED, used_tokens=0, message="It is down.")
QUOTA = Report(Outcome.QUOTA, used_tokens=0, message="No money.")

_numbers = itertools.count(1)


def build_endpoint(**limits: Any) -> Endpoint:
    """Build an endpoint under a name of its own."""
    return Endpoint(
        name=f"endpoint-{next(_numbers)}",
        kind=WireFormat.OPENAI,
        base_url="http://127.0.0.1:9/v1",
        **limits,
    )


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the database answers to a request for a permit."""

    verdict: str
    wait_s: float
    closed_s: float
    is_calm: bool
    failure: str | None

    @property
    def may_go(self) -> bool:
        return self.verdict == "go"


async def ask(db: Database, endpoint: Endpoint, job: Job, tokens: int = 0) -> Verdict:
    """Ask for a call, and hear the verdict without waiting for anything."""
    (row,) = await db.fetch(
        admission.SQL["admit"],
        endpoint.name,
        job.tenant_id,
        job.id,
        job.attempt,
        endpoint.requests_per_minute,
        endpoint.tokens_per_minute,
        endpoint.max_concurrency,
        tokens,
        timedelta(seconds=admission.PATIENCE_S),
        0,
    )
    return Verdict(row["verdict"], row["wait_s"], row["closed_s"], row["is_calm"], row["failure"])


@dataclass(slots=True)
class Caller:
    """One worker that calls one endpoint, with jobs that are being processed."""

    job_table: JobTable
    endpoint: Endpoint
    jobs: list[Job] = field(default_factory=list)

    @classmethod
    async def open(cls, job_table: JobTable, *, jobs: int = 1, **limits: Any) -> Caller:
        ids = await job_table.insert_all([{}] * jobs)
        return cls(job_table, build_endpoint(**limits), await job_table.take_all(ids))

    async def ask(self, nth: int = 0, *, tokens: int = 0) -> Verdict:
        return await ask(self.job_table.db, self.endpoint, self.jobs[nth], tokens)

    async def tell(self, told: Report, nth: int = 0, *, tokens: int = 0) -> None:
        permit = Permit(self.endpoint, self.jobs[nth], tokens, is_awaited=True)
        await admission.report(self.job_table.db, HealthCache(), permit, told)

    async def tell_often(self, told: Report, count: int) -> None:
        for _ in range(count):
            await self.tell(told)

    async def describe(self) -> dict[str, Any]:
        """What a person is told of the endpoint."""
        rows = await admission.list_endpoints(self.job_table.db)
        return next(asdict(row) for row in rows if row.endpoint == self.endpoint.name)
