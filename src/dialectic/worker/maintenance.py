"""Run a worker's periodic tasks.

`repeat` gives its task a dedicated connection and reconnects when that is lost, so a full pool
never delays the task.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from collections.abc import Awaitable, Callable
from uuid import UUID

import asyncpg

from dialectic.core.backoff import iterate_delays
from dialectic.db.pool import (
    CONNECTION_LOST,
    WORKER_ROLE,
    Address,
    Connection,
    connect,
    given_up_in_time,
)
from dialectic.db.tables import notifications
from dialectic.db.tables.provenance import SQL
from dialectic.engine import Engine, Outage
from dialectic.errors import DialecticError
from dialectic.publishing.publish import delete_left_behind, publish_left_behind

logger = logging.getLogger(__name__)

PRUNE_INTERVAL_S = 600.0
PRUNE_NEXT_S = 1.0

# How long to wait before each further try to connect.
iterate_reconnects = functools.partial(iterate_delays, 0.05, 1.0)

Look = Callable[[Connection], Awaitable[None]]


async def repeat(address: Address, look: Look, *, interval_s: float, patience_s: float) -> None:
    """Run a task at an interval until cancelled.

    If the server does not answer within `patience_s`, drop the connection, which may be dead, and
    open a new one. Retry soon after a failure, because a lease may depend on it, with a growing
    back-off for repeated failures.
    """
    delays, outage = iterate_reconnects(), Outage()
    while True:
        with contextlib.suppress(*CONNECTION_LOST, asyncpg.PostgresError):
            connection = await connect(address, WORKER_ROLE)
            try:
                while not connection.is_closed():
                    with given_up_in_time(connection, patience_s):
                        await look(connection)
                    delays = iterate_reconnects()
                    outage.ends()
                    await asyncio.sleep(interval_s)
            except (*CONNECTION_LOST, asyncpg.PostgresError, DialecticError) as error:
                if outage.begins(error):
                    logger.warning("a periodic task failed and will be retried: %s", error)
            finally:
                connection.terminate()
        await asyncio.sleep(min(next(delays), interval_s))


async def _write_reports(engine: Engine, tenant_id: UUID, project_id: UUID) -> None:
    from dialectic.app.report_files import write_reports  # only the end of a stage needs it

    await write_reports(engine, tenant_id, project_id)


async def publish(engine: Engine, *, interval_s: float) -> None:
    """Copy pending files to storage, and remove the files of deleted projects.

    A separate loop: if storage hangs, only this loop waits.
    """
    outages: dict[Callable[[Engine], Awaitable[int]], Outage] = {
        functools.partial(publish_left_behind, prepare=_write_reports): Outage(),
        delete_left_behind: Outage(),
    }
    while True:
        for finish, outage in outages.items():
            try:
                await finish(engine)
                outage.ends()
            except (DialecticError, asyncpg.PostgresError) as error:
                if outage.begins(error):
                    logger.warning("could not copy pending files to storage: %s", error)
        await asyncio.sleep(interval_s)


async def judge(engine: Engine, *, interval_s: float) -> None:
    """Let sessions that pause on dissent go on, or wait for a person."""
    outage = Outage()
    while True:
        try:
            if (await engine.db.fetch(SQL["has_unjudged"]))[0][0]:
                from dialectic.app.dissent_pause import decide_all  # few sessions need it

                await decide_all(engine)
            outage.ends()
        except (DialecticError, asyncpg.PostgresError) as error:
            if outage.begins(error):
                logger.warning("could not look for dissent: %s", error)
        await asyncio.sleep(interval_s)


async def prune(engine: Engine) -> None:
    """Delete old events in batches; the next batch follows soon if this one was not empty."""
    settings = engine.settings
    while True:
        count = 0
        try:
            count = await notifications.prune(
                engine.db, kept_days=settings.events_kept_days, kept_max=settings.events_kept_max
            )
        except (DialecticError, asyncpg.PostgresError) as error:
            logger.warning("could not delete old events: %s", error)
        await asyncio.sleep(PRUNE_NEXT_S if count else PRUNE_INTERVAL_S)
