"""Record the failure of an attempt: retry, postpone, pause or fail its job.

`pipeline.interpret` decides which; this module makes it the last write of the attempt, with the
provider's response and an event for the clients that follow the session.
"""

from __future__ import annotations

import json
import logging
import math
import random
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, assert_never

import asyncpg

from dialectic.contract.events import EventError, JobPaused, JobRetrying
from dialectic.core.job import Job
from dialectic.core.money.price import Shortage
from dialectic.core.strict_json import Json
from dialectic.core.text import clean_text
from dialectic.db.pool import Connection, Database
from dialectic.db.tables import jobs, records
from dialectic.db.tables.jobs import AttemptError, AwaitedFunds
from dialectic.engine import Engine
from dialectic.errors import (
    DatabaseFull,
    DialecticError,
    Fate,
    FundsError,
    LeaseLost,
    ProviderError,
    ProviderFiltered,
    Remedy,
    RemedyAction,
)
from dialectic.pipeline.interpret import Fail, Pause, Postpone, Retry, decide_fate
from dialectic.pipeline.pending import fill_without_seat
from dialectic.pipeline.reserve import judge_shortage, release_unsent

logger = logging.getLogger(__name__)

RAW_MAX_CHARS = 16_000
TEXT_MAX_CHARS = 8_000

E = TypeVar("E", JobRetrying, JobPaused)
WriteEnd = Callable[[Connection, Job], Awaitable[None]]


async def record_failure(engine: Engine, job: Job, error: DialecticError) -> bool:
    """Record a known error: the job's next state, and what happens to its reservations.

    Returns whether it could be recorded.
    """
    if error.fate is Fate.DROP:
        logger.info("job %s: %s", job.id, error.message)
        return True
    fate = decide_fate(
        job,
        error,
        jitter=random.Random(),  # noqa: S311  jitter needs no secret
        unreachable_max_s=engine.settings.retry_unreachable_s,
    )
    message = clean_text(error.message)[0]
    remedy = build_remedy(job, error, has_failed=isinstance(fate, Fail))
    figures = error.figures if isinstance(error, FundsError) else None
    entry = AttemptError(error.code, message, build_raw(error), remedy, figures)

    async def write(connection: Connection, job: Job) -> None:
        match fate:
            case Retry(delay_s, counts):
                await jobs.retry(connection, job, entry, delay_s=delay_s, counts=counts)
                # The job retries by itself, so the event has no remedy.
                event = _build_event(job, JobRetrying, replace(entry, remedy=None))
                told = event.model_copy(update={"retry_in_s": round(delay_s, 1)})
                await records.record_event(connection, told)
            case Postpone(delay_s, is_in_trouble):
                await jobs.postpone(
                    connection, job, code=error.code, delay_s=delay_s, is_in_trouble=is_in_trouble
                )
            case Pause():
                await _pause(connection, engine, job, error, entry)
                return
            case Fail(retries_used_up):
                await jobs.fail(connection, job, entry, retries_used_up=retries_used_up)
                await fill_without_seat(engine, connection, job)
            case unreachable:
                assert_never(unreachable)
        await release_unsent(connection, engine, job, error)

    # A full database was waited for already.
    patience_s = 0.0 if isinstance(error, DatabaseFull) else None
    return await record_end(engine.db, job, write, patience_s=patience_s)


async def _pause(
    connection: Connection, engine: Engine, job: Job, error: DialecticError, entry: AttemptError
) -> None:
    """Pause a job until a person acts; let it wait if other calls hold the money that it needs.

    A deposit and the end of another call wake the jobs that wait for money, but they cannot see
    this job before the commit. So the funds are checked here, while they cannot change.
    """
    await jobs.hold_lease(connection, job)
    await release_unsent(connection, engine, job, error)
    match await judge_shortage(connection, engine, job, error):
        case Shortage.OVER:
            await jobs.postpone(connection, job, code=error.code, delay_s=0.0, is_in_trouble=False)
        case Shortage.HELD:
            await jobs.await_funds(connection, job, _build_awaited(error))
        case Shortage.LASTING:
            await jobs.pause(connection, job, entry)
            await records.record_event(connection, _build_event(job, JobPaused, entry))
        case unreachable:
            assert_never(unreachable)


def _build_awaited(error: DialecticError) -> AwaitedFunds:
    assert isinstance(error, FundsError), "only a lack of money is held by others"
    return AwaitedFunds(
        code=error.code,
        credits=error.awaited_credits or 0,
        is_play=error.is_play,
        figures=error.figures,
    )


async def fail_on_bug(db: Database, job: Job, error: Exception) -> None:
    """Fail a job after an unknown error. Its message may contain secrets, so it is not stored."""
    where = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(where.filename).name}:{where.lineno}"
    message = f"{type(error).__name__} at {place}. This is a bug in Dialectic."

    async def write(connection: Connection, job: Job) -> None:
        await jobs.fail(connection, job, AttemptError("internal", message))

    await record_end(db, job, write)


async def record_end(
    db: Database, job: Job, write: WriteEnd, *, patience_s: float | None = None
) -> bool:
    """Record the end of an attempt. If that fails, the lease expires, which ends it too."""
    try:
        await db.transact(job.tenant_id, lambda c: write(c, job), patience_s=patience_s)
    except LeaseLost:
        logger.info("another worker has taken over job %s", job.id)
    except (DialecticError, asyncpg.PostgresError) as error:
        logger.warning("could not record the end of job %s: %s", job.id, error)
        return False
    return True


def build_remedy(job: Job, error: DialecticError, *, has_failed: bool = False) -> Json | None:
    """Build the remedy that is stored with a job's error; a paused job can be resumed.

    A model that fails for good can be replaced. One that refuses the task may be dispensable.
    """
    remedy = error.remedy
    if remedy is None and has_failed and isinstance(error, ProviderError):
        is_refusal = isinstance(error, ProviderFiltered)
        action = RemedyAction.DROP_SEAT if is_refusal else RemedyAction.REPLACE_SEAT
        remedy = Remedy(action, seat=job.payload_json.get("model_index"))
    if remedy is None and error.fate is Fate.PAUSE:
        remedy = Remedy(RemedyAction.RESUME)
    if remedy is not None and remedy.action is RemedyAction.TRY_AGAIN:
        remedy = Remedy(RemedyAction.RETRY)  # the client cannot resend a job's request
    return None if remedy is None else remedy.for_session(job.session_id).as_dict()


def build_raw(error: DialecticError) -> Json | None:
    """Build the stored record of a provider's error response, cut if it is too long.

    It includes the partial text: that is not a document, but it was charged.
    """
    if not isinstance(error, ProviderError):
        return None
    remains = error.remains
    said = {"text": remains.partial_text[:TEXT_MAX_CHARS]} if remains.partial_text else {}
    if remains.raw is None and not said:
        return None
    raw: Json = _make_storable({**(remains.raw or {}), **said})
    text = json.dumps(raw, ensure_ascii=False, default=str)
    return raw if len(text) <= RAW_MAX_CHARS else {"cut": text[:RAW_MAX_CHARS]}


def _make_storable(value: Any) -> Any:
    """Remove from a JSON value what PostgreSQL cannot store."""
    match value:
        case str():
            return clean_text(value)[0]
        case dict():
            return {clean_text(str(key))[0]: _make_storable(item) for key, item in value.items()}
        case list() | tuple():
            return [_make_storable(item) for item in value]
        case float() if not math.isfinite(value):
            return str(value)
        case _:
            return value


def _build_event(job: Job, kind: type[E], error: AttemptError) -> E:
    return kind(
        session_id=job.session_id,
        stage_slug=job.stage_slug,
        iteration_number=job.iteration_number,
        job_id=job.id,
        error=EventError.model_validate(error, from_attributes=True),
    )
