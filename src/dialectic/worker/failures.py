"""Fates: writes what becomes of a job whose attempt met an error. Knows no lease and no queue.

What is decided stands in `pipeline.interpret`; here it becomes the last write of the attempt, with
what the provider sent kept beside the error, and news of it for those who follow the session.
"""

from __future__ import annotations

import json
import logging
import math
import random
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, assert_never

import asyncpg

from dialectic.core.job import Job
from dialectic.core.text import clean_text
from dialectic.db.pool import Connection, Database
from dialectic.db.tables import jobs, records
from dialectic.engine import Engine
from dialectic.errors import (
    DialecticError,
    Fate,
    LeaseLost,
    ProviderError,
    Remedy,
    RemedyAction,
)
from dialectic.pipeline.interpret import Fail, Pause, Postpone, Retry, decide_fate
from dialectic.pipeline.reserve import is_funded_now, release_unsent

logger = logging.getLogger(__name__)

RAW_MAX_CHARS = 16_000
TEXT_MAX_CHARS = 8_000

WriteEnd = Callable[[Connection, Job], Awaitable[None]]


async def record_failure(engine: Engine, job: Job, error: DialecticError) -> None:
    """Write what becomes of a job that met an error we know, and of the money set aside for it."""
    if error.fate is Fate.DROP:
        logger.info("job %s: %s", job.id, error.message)
        return
    fate = decide_fate(job, error, jitter=random.Random())  # noqa: S311  jitter is no secret
    code, message, raw = error.code, clean_text(error.message)[0], build_raw(error)
    remedy = build_remedy(job, error)

    async def write(connection: Connection, job: Job) -> None:
        match fate:
            case Retry(delay_s, counts):
                await jobs.retry(
                    connection,
                    job,
                    code=code,
                    message=message,
                    delay_s=delay_s,
                    counts=counts,
                    raw=raw,
                )
                kind = "contribution_generation_retrying"
                # It helps itself.
                await _announce(connection, job, kind, {"code": code, "message": message})
            case Postpone(delay_s, is_in_trouble):
                await jobs.postpone(
                    connection, job, code=code, delay_s=delay_s, is_in_trouble=is_in_trouble
                )
            case Pause():
                await _pause(connection, engine, job, error)
                return
            case Fail(retries_used_up):
                await jobs.fail(
                    connection,
                    job,
                    code=code,
                    message=message,
                    retries_used_up=retries_used_up,
                    raw=raw,
                    remedy=remedy,
                )
            case unreachable:
                assert_never(unreachable)
        await release_unsent(connection, engine, job, error)

    await record_end(engine.db, job, write)


async def _pause(connection: Connection, engine: Engine, job: Job, error: DialecticError) -> None:
    """Let a job wait for a person; or not at all, if what it lacks was put in a moment ago.

    Whoever puts money in resumes what waits for it, and has not seen this job waiting.
    """
    code, message = error.code, clean_text(error.message)[0]
    await jobs.hold_lease(connection, job)
    await release_unsent(connection, engine, job, error)
    if await is_funded_now(connection, engine, job, error):
        await jobs.postpone(connection, job, code=code, delay_s=0.0, is_in_trouble=False)
        return
    raw, remedy = build_raw(error), build_remedy(job, error)
    await jobs.pause(connection, job, code=code, message=message, raw=raw, remedy=remedy)
    told = {"code": code, "message": message, "remedy": remedy}
    await _announce(connection, job, "contribution_generation_paused", told)


async def fail_on_bug(db: Database, job: Job, error: Exception) -> None:
    """End a job that met an error nobody knows. What it says may hold anything, and is not kept."""
    where = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(where.filename).name}:{where.lineno}"
    message = f"{type(error).__name__} at {place}. This is a fault of the program."

    async def write(connection: Connection, job: Job) -> None:
        await jobs.fail(connection, job, code="internal", message=message)

    await record_end(db, job, write)


async def record_end(db: Database, job: Job, write: WriteEnd) -> None:
    """Write an attempt's end. If that is impossible the lease runs out, which ends it too."""
    try:
        await db.transact(job.tenant_id, lambda c: write(c, job))
    except LeaseLost:
        logger.info("job %s was taken over", job.id)
    except (DialecticError, asyncpg.PostgresError) as error:
        logger.warning("the end of job %s could not be written: %s", job.id, error)


def build_remedy(job: Job, error: DialecticError) -> jobs.Raw | None:
    """Build what helps a job, as it is kept with its error; a paused one can be resumed."""
    remedy = error.remedy
    if remedy is None and error.fate is Fate.PAUSE:
        remedy = Remedy(RemedyAction.RESUME)
    if remedy is not None and remedy.action is RemedyAction.TRY_AGAIN:
        remedy = Remedy(RemedyAction.RETRY)  # a job has no request that could be sent again
    return None if remedy is None else remedy.for_session(job.session_id).as_dict()


def build_raw(error: DialecticError) -> jobs.Raw | None:
    """Build the record that is kept of what a provider sent with an error: whole, or its start.

    With it stands what had been said until then: it is no document, but it was paid for.
    """
    if not isinstance(error, ProviderError):
        return None
    remains = error.remains
    said = {"text": remains.partial_text[:TEXT_MAX_CHARS]} if remains.partial_text else {}
    if remains.raw is None and not said:
        return None
    raw: jobs.Raw = _make_storable({**(remains.raw or {}), **said})
    text = json.dumps(raw, ensure_ascii=False, default=str)
    return raw if len(text) <= RAW_MAX_CHARS else {"cut": text[:RAW_MAX_CHARS]}


def _make_storable(value: Any) -> Any:
    """Take out of a JSON value what the database cannot hold."""
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


async def _announce(connection: Connection, job: Job, kind: str, error: dict[str, Any]) -> None:
    data = {
        "sessionId": str(job.session_id),
        "stageSlug": job.stage_slug,
        "iterationNumber": job.iteration_number,
        "job_id": str(job.id),
        "error": {"remedy": None, **error},
    }
    await records.record_event(connection, job.session_id, kind, data)
