"""Chores: what a worker does at intervals, apart from its jobs. Knows no job.

What asks the database has a connection of its own, and opens a new one when it is lost: a full
pool never keeps it waiting.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

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
from dialectic.engine import Engine
from dialectic.errors import DialecticError
from dialectic.publishing.deletion import delete_left_behind
from dialectic.publishing.publish import publish_left_behind

logger = logging.getLogger(__name__)

RECONNECT_FIRST_S = 0.05
RECONNECT_MAX_S = 1.0
PRUNE_INTERVAL_S = 600.0
PRUNE_NEXT_S = 1.0

Look = Callable[[Connection], Awaitable[None]]


async def repeat(address: Address, look: Look, *, interval_s: float, patience_s: float) -> None:
    """Do something at an interval, for as long as we live.

    A server that is silent for longer than patience has it is hung up on: the line may be dead, and
    another one would not be. After a failure it is soon tried again, since a lease may depend on
    it; but what goes on failing is not tried without a rest.
    """
    delays = iterate_delays(RECONNECT_FIRST_S, RECONNECT_MAX_S)
    while True:
        with contextlib.suppress(*CONNECTION_LOST, asyncpg.PostgresError):
            connection = await connect(address, WORKER_ROLE)
            try:
                while not connection.is_closed():
                    with given_up_in_time(connection, patience_s):
                        await look(connection)
                    delays = iterate_delays(RECONNECT_FIRST_S, RECONNECT_MAX_S)
                    await asyncio.sleep(interval_s)
            except (*CONNECTION_LOST, asyncpg.PostgresError, DialecticError) as error:
                logger.warning("interrupted: %s", error)
            finally:
                connection.terminate()
        await asyncio.sleep(min(next(delays), interval_s))


async def publish(engine: Engine, *, interval_s: float) -> None:
    """Carry files to storage that others left, and take out those of deleted projects.

    Storage may hang, and only this waits.
    """
    while True:
        for finish in (publish_left_behind, delete_left_behind):
            try:
                await finish(engine)
            except (DialecticError, asyncpg.PostgresError) as error:
                logger.warning("files wait in the database: %s", error)
        await asyncio.sleep(interval_s)


async def prune(engine: Engine) -> None:
    """Remove old events from time to time; some at once, and the next soon if there were any."""
    settings = engine.settings
    while True:
        count = 0
        try:
            count = await notifications.prune(
                engine.db, kept_days=settings.events_kept_days, kept_max=settings.events_kept_max
            )
        except (DialecticError, asyncpg.PostgresError) as error:
            logger.warning("old events stay: %s", error)
        await asyncio.sleep(PRUNE_NEXT_S if count else PRUNE_INTERVAL_S)
