"""What this PostgreSQL itself can do: commits, a notice, and a queue of two statements."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import asyncpg

from bench.child import Options, serve, stopping_event, wait_for_go

WARM_UP = 20
CLAIM = """
    update raw_jobs set status = 'taken' where id in (
      select id from raw_jobs where status = 'new' order by id limit $1 for update skip locked)
    returning id
"""
ACKNOWLEDGE = """
    update raw_jobs set status = 'done', done_at = clock_timestamp() where id = any ($1)
"""


async def prepare(options: Options) -> None:
    """Make one row to update, and a table that serves as a queue."""
    connection = await asyncpg.connect(options["url"])
    await connection.execute("""
        create table counter (id integer primary key, n bigint not null);
        insert into counter values (1, 0);
        create table raw_jobs (
          id bigint generated always as identity primary key,
          status text not null default 'new',
          done_at timestamptz
        );
        create index raw_jobs_new on raw_jobs (id) where status = 'new';
    """)
    await connection.close()


async def two_commits(options: Options) -> dict[str, list[float]]:
    """Time two updates of one row, each in a transaction of its own."""
    connection = await asyncpg.connect(options["url"])
    update = await connection.prepare("update counter set n = n + 1 where id = 1")
    pairs_ms = []
    for _ in range(WARM_UP + options["jobs"]):
        started = time.perf_counter()
        await update.fetch()
        await update.fetch()
        pairs_ms.append((time.perf_counter() - started) * 1000)
    await connection.close()
    return {"pair_ms": pairs_ms[WARM_UP:]}


async def commit_and_notify(options: Options) -> dict[str, list[float]]:
    """Time from the start of a commit that notifies until a listener has heard of it."""
    speaker = await asyncpg.connect(options["url"])
    listener = await asyncpg.connect(options["url"])
    heard: asyncio.Queue[float] = asyncio.Queue()
    await listener.add_listener("bench", lambda *_: heard.put_nowait(time.perf_counter()))
    samples_ms = []
    for _ in range(WARM_UP + options["jobs"]):
        started = time.perf_counter()
        async with speaker.transaction():
            await speaker.execute("update counter set n = n + 1 where id = 1")
            await speaker.execute("select pg_notify('bench', '')")
        samples_ms.append((await heard.get() - started) * 1000)
    await speaker.close()
    await listener.close()
    return {"woken_ms": samples_ms[WARM_UP:]}


async def fill(options: Options) -> None:
    """Put jobs into the queue."""
    connection = await asyncpg.connect(options["url"])
    await connection.execute(
        "insert into raw_jobs (status) select 'new' from generate_series(1, $1)", options["jobs"]
    )
    await connection.close()


async def work(options: Options) -> None:
    """Claim and acknowledge until nothing is left: a batch at a time, or one job at a time."""
    pool = await asyncpg.create_pool(options["url"], min_size=10, max_size=10)
    batch_jobs = options["batch_jobs"]
    await asyncio.to_thread(wait_for_go)

    async def loop() -> None:
        while rows := await pool.fetch(CLAIM, batch_jobs):
            await pool.execute(ACKNOWLEDGE, [row["id"] for row in rows])

    await asyncio.gather(*(loop() for _ in range(1 if batch_jobs > 1 else 10)))
    await stopping_event().wait()
    await pool.close()


ACTIONS: dict[str, Any] = {
    "prepare": prepare,
    "two_commits": two_commits,
    "commit_and_notify": commit_and_notify,
    "fill": fill,
    "work": work,
}

if __name__ == "__main__":
    serve(ACTIONS)
