"""PgQueuer behind one door: its names are given here, never found in the environment."""

from __future__ import annotations

import asyncpg
from pgqueuer.adapters.drivers.asyncpg import AsyncpgDriver
from pgqueuer.adapters.persistence import qb
from pgqueuer.adapters.persistence.queries import Queries
from pgqueuer.domain.settings import DBSettings, Durability
from pgqueuer.domain.types import Channel

QUEUE_SCHEMA = "queue"
ENTRYPOINT = "job"

SETTINGS = DBSettings(
    prefix="",
    db_schema=QUEUE_SCHEMA,
    channel=Channel("ch_pgqueuer"),
    function="fn_pgqueuer_changed",
    statistics_table="pgqueuer_statistics",
    queue_status_type="pgqueuer_status",
    queue_table="pgqueuer",
    queue_table_log="pgqueuer_log",
    trigger="tg_pgqueuer_changed",
    schedules_table="pgqueuer_schedules",
    durability=Durability.durable,
    widen_id=True,
)


def open_queries(connection: asyncpg.Connection[asyncpg.Record]) -> Queries:
    """Open PgQueuer's operations over one connection of its own."""
    return Queries(
        AsyncpgDriver(connection),
        qbe=qb.QueryBuilderEnvironment(SETTINGS),
        qbq=qb.QueryQueueBuilder(SETTINGS),
        qbs=qb.QuerySchedulerBuilder(SETTINGS),
    )
