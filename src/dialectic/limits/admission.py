"""Rate limits of endpoints, shared by all workers: a permit before a call, a report after it.

The rates, concurrency slots, back-off and circuit breaker are rows and functions in PostgreSQL (see
sql/functions/limits.sql); this module calls them. It knows nothing of prompts, and only the id of
a job. A healthy endpoint without limits costs no round trip: this process caches its state for a
moment and reports successes with the next request for a permit.
"""

from __future__ import annotations

import asyncio
import enum
import logging
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol
from uuid import UUID

import asyncpg

from dialectic.core.models.endpoint import Endpoint
from dialectic.core.models.messages import Usage
from dialectic.db.pool import Connection, Database
from dialectic.db.queries import list_rows, load_queries
from dialectic.errors import (
    CircuitOpen,
    ContextWindowError,
    DialecticError,
    EndpointBusy,
    ProviderAuth,
    ProviderError,
    ProviderMalformed,
    ProviderQuota,
    ProviderThrottled,
    ProviderTransient,
    StreamTruncated,
)

logger = logging.getLogger(__name__)

SQL = load_queries("limits")

# How long a call waits for its permit in place; for a longer wait the job is rescheduled.
PATIENCE_S = 2.0
# How long an endpoint seen healthy is assumed to be healthy.
CALM_S = 1.0
RETRY_AFTER_MAX_S = 3600.0
MESSAGE_MAX_CHARS = 500


@dataclass(slots=True)
class HealthCache:
    """What this process knows of endpoints without limits."""

    until: dict[str, float] = field(default_factory=dict)
    # Successful calls that are not reported yet.
    answered: Counter[str] = field(default_factory=Counter)

    def lasts(self, name: str) -> bool:
        return time.monotonic() < self.until.get(name, 0.0)

    def note(self, name: str, *, is_calm: bool) -> None:
        self.until[name] = time.monotonic() + CALM_S if is_calm else 0.0


class Caller(Protocol):
    """The origin of a call: an attempt of a job, or a question in a chat.

    A job keeps its slot for its whole attempt; a chat needs a free slot, and keeps none.
    """

    @property
    def tenant_id(self) -> UUID: ...
    @property
    def id(self) -> UUID: ...
    @property
    def attempt(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Permit:
    """A permit to make one call."""

    endpoint: Endpoint
    job: Caller
    # The tokens reserved for it: its input and its longest possible output.
    tokens: int
    # Whether the database needs a report even after a success.
    is_awaited: bool


class Outcome(enum.StrEnum):
    """The result of a call, as far as the endpoint is concerned."""

    ANSWERED = "answered"
    FAILED = "failed"
    THROTTLED = "throttled"
    QUOTA = "quota"
    KEY = "key"
    # The call was not made: return its reserved tokens.
    UNUSED = "unused"


@dataclass(frozen=True, slots=True)
class Report:
    """The report of a finished call."""

    outcome: Outcome
    # The tokens it cost; None if unknown.
    used_tokens: int | None
    message: str | None = None
    retry_after_s: float | None = None


UNUSED = Report(Outcome.UNUSED, 0)


def is_limited(endpoint: Endpoint) -> bool:
    """Say whether any limit is set for an endpoint."""
    limits = (endpoint.max_concurrency, endpoint.requests_per_minute, endpoint.tokens_per_minute)
    return any(limit is not None for limit in limits)


def build_report(usage: Usage) -> Report:
    """Build the report of an answered call."""
    return Report(Outcome.ANSWERED, usage.input_tokens + usage.output_tokens)


def build_failure(error: ProviderError | ContextWindowError) -> Report:
    """Build the report of a failed call. A rejected request means a healthy endpoint."""
    match error:
        case ProviderThrottled():
            outcome = Outcome.THROTTLED
        case ProviderQuota():
            outcome = Outcome.QUOTA
        case ProviderAuth():
            outcome = Outcome.KEY
        case ProviderTransient() | ProviderMalformed() | StreamTruncated():
            outcome = Outcome.FAILED
        case _:
            outcome = Outcome.ANSWERED
    used: int | None = 0
    retry_after_s = None
    if isinstance(error, ProviderError):
        retry_after_s = error.retry_after_s
        if error.remains.reported_usage is not None:
            used = sum(error.remains.reported_usage)
        elif error.remains.was_sent:
            used = None
    return Report(outcome, used, error.message[:MESSAGE_MAX_CHARS], retry_after_s)


async def admit(
    db: Database, calm: HealthCache, endpoint: Endpoint, job: Caller, *, tokens: int = 0
) -> Permit:
    """Wait for a permit, or raise if the wait would be too long.

    Raises `EndpointBusy` when the limits are reached, `CircuitOpen` when calls are blocked, and
    `ProviderQuota` when the account has no credit and the operator must act.
    """
    limited = is_limited(endpoint)
    key = endpoint.state_key
    if not limited and calm.lasts(key):
        return Permit(endpoint, job, tokens, is_awaited=False)
    (row,) = await db.fetch(
        SQL["admit"],
        key,
        job.tenant_id,
        job.id,
        job.attempt,
        endpoint.requests_per_minute,
        endpoint.tokens_per_minute,
        endpoint.max_concurrency,
        tokens,
        timedelta(seconds=PATIENCE_S),
        calm.answered.pop(key, 0),
    )
    calm.note(key, is_calm=row["is_calm"])
    if row["verdict"] != "go":
        raise _build_refusal(endpoint, row)
    await asyncio.sleep(row["wait_s"])
    return Permit(endpoint, job, tokens, is_awaited=limited or not row["is_calm"])


def _build_refusal(endpoint: Endpoint, row: asyncpg.Record) -> DialecticError:
    wait_s, closed_s = row["wait_s"], row["closed_s"]
    match row["verdict"]:
        case "quota":
            return ProviderQuota(
                f"The {endpoint.name} account has had no credit since "
                f"{row['failing_since']:%Y-%m-%d %H:%M} UTC: {row['failure']} "
                "The request was not sent. Add credit to the account.",
                reason="nothing_sent",
                subject=endpoint.name,
            )
        case "open":
            return CircuitOpen(
                f"The endpoint {endpoint.name} has been failing since "
                f"{row['failing_since']:%Y-%m-%d %H:%M} UTC; the last error was: "
                f"{row['failure']} The request was not sent; one call will probe the endpoint.",
                wait_s=wait_s,
                closed_s=closed_s,
                subject=endpoint.name,
            )
        case _:
            return EndpointBusy(
                f"The limits set for {endpoint.name} are reached; this call can start in "
                f"{wait_s:.0f} s.",
                wait_s=wait_s,
                closed_s=closed_s,
                subject=endpoint.name,
            )


async def report(db: Database, calm: HealthCache, permit: Permit, result: Report) -> None:
    """Report the result of a call. A lost report only makes the rates a little less accurate."""
    endpoint, job = permit.endpoint, permit.job
    key = endpoint.state_key
    if result.outcome in (Outcome.ANSWERED, Outcome.UNUSED) and not permit.is_awaited:
        calm.answered[key] += result.outcome is Outcome.ANSWERED
        return
    unused = 0 if result.used_tokens is None else permit.tokens - result.used_tokens
    try:
        (row,) = await db.fetch(
            SQL["report"],
            key,
            job.tenant_id,
            job.id,
            job.attempt,
            result.outcome,
            result.message,
            _build_wait(result.retry_after_s),
            endpoint.requests_per_minute,
            endpoint.tokens_per_minute,
            unused,
            calm.answered.pop(key, 0),
            patience_s=0.0,
        )
    except (DialecticError, asyncpg.PostgresError) as error:
        logger.info("could not report a call to %s: %s", endpoint.name, error)
        return
    calm.note(key, is_calm=row["is_calm"])


def _build_wait(seconds: float | None) -> timedelta | None:
    """Build the back-off that an endpoint asks for; none if the value is invalid."""
    if seconds is None or not seconds > 0:  # also true for NaN
        return None
    return timedelta(seconds=min(seconds, RETRY_AFTER_MAX_S))


async def allow_probes(connection: Connection, session_id: UUID) -> None:
    """Allow calls to endpoints without credit again, because a user resumed a session."""
    await connection.execute(SQL["allow_probes"], session_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointState:
    """What all workers together know of an endpoint."""

    endpoint: str
    # "closed" while calls pass; then the error that opened it, and when it is probed.
    circuit: str
    reason: str | None
    message: str | None
    opened_at: datetime | None
    probe_in_s: float | None
    probe_at: datetime | None = None
    # The wait that the endpoint asked for, and its reduced rate.
    closed_s: float
    closed_until: datetime | None = None
    rate_per_minute: float | None
    key_refused_at: datetime | None
    key_message: str | None


async def list_endpoints(source: Connection | Database) -> list[EndpointState]:
    """List the state of all endpoints that have limits or ever failed."""
    return await list_rows(source, EndpointState, SQL["list_endpoints"])
