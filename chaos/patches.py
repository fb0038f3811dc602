"""What a sabotage changes in a process that is started for it. Patches take hold when called.

Imports of the product stand in the patches, so that one that is broken spoils no other.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any


def replace_part(text: str, old: str, new: str) -> str:
    """Replace a part of a text that is there."""
    if old not in text:
        raise LookupError(f"this sabotage has lost its place: {old!r}")
    return text.replace(old, new)


def put(owner: object, name: str, value: object) -> None:
    """Replace a part of the product that is there."""
    assert hasattr(owner, name), name
    setattr(owner, name, value)


def remove_fence() -> None:
    """Let whoever has lost a job write all the same."""
    from dialectic.db.tables import jobs
    from dialectic.db.tables.jobs import SQL

    SQL["complete"] = replace_part(
        SQL["complete"],
        "attempt_count = $2 and status::text = 'processing'",
        "$2::integer is not null",
    )

    async def pay_nothing(*_: object) -> None:
        """Money has a fence of its own: a hold that was given up cannot be settled."""

    from dialectic.pipeline import save

    put(save, "settle", pay_nothing)

    async def find_none_taken(*_: object) -> list[object]:
        """Who learns that a job was taken away drops it, as a rule before it writes."""
        return []

    put(jobs, "list_taken", find_none_taken)


def write_half() -> None:
    """Keep half of each file."""
    from dialectic.storage.disk import DiskStore

    write = DiskStore.write

    async def write_half(self: DiskStore, key: str, data: bytes) -> None:
        await write(self, key, data[: len(data) // 2])

    put(DiskStore, "write", write_half)


def listen_once() -> None:
    """Never listen again after a connection was lost."""
    from dialectic.worker.worker import Worker

    async def listen(self: Worker) -> None:
        await self._listen_once()
        await self._stopping.wait()

    put(Worker, "_listen", listen)


def fail_when_late() -> None:
    """Fail a periodic task in a way that it does not declare if it took longer than a second."""
    import asyncio

    from dialectic.worker import maintenance

    @contextlib.contextmanager
    def impatient(_connection: object, _patience_s: float) -> Iterator[None]:
        clock = asyncio.get_running_loop().time
        begun_s = clock()
        yield
        if clock() > begun_s + 1.0:
            raise AttributeError("late")

    put(maintenance, "given_up_in_time", impatient)


def unpack_whole() -> None:
    """Unpack and read each piece of a response as a whole."""
    from dialectic.core import sse
    from dialectic.providers import content_encoding

    put(content_encoding, "SLICE_BYTES", 1 << 30)
    put(sse, "SKIPPED_LINES_MAX", 10**12)


def commit_each_statement() -> None:
    """Commit each statement of a migration by itself."""
    import asyncpg

    execute = asyncpg.Connection.execute

    @contextlib.asynccontextmanager
    async def no_transaction(_connection: object) -> AsyncIterator[None]:
        yield

    async def execute_singly(self: Any, query: str, *arguments: Any, **options: Any) -> str:
        if query.startswith("lock table"):  # which only a transaction may do
            return ""
        query = query.replace("set local ", "set ")  # which lasts no longer than a transaction
        if arguments or "$$" in query:
            return await execute(self, query, *arguments, **options)
        for statement in query.split(";\n"):
            if statement.strip():
                await execute(self, statement, **options)
        return ""

    put(asyncpg.Connection, "transaction", no_transaction)
    put(asyncpg.Connection, "execute", execute_singly)


def lock_nothing() -> None:
    """Take a lock that someone else holds."""
    import os

    from dialectic.postgres import embedded, place

    def take_without_asking(path: Path, _mode: int) -> int:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    put(place, "try_lock", take_without_asking)
    put(embedded, "try_lock", take_without_asking)


def resume_nothing() -> None:
    """Resume and start nothing."""
    from dialectic.app import sessions

    async def leave_as_it_is(*_: object, **__: object) -> None:
        return

    put(sessions, "resume", leave_as_it_is)
    put(sessions, "generate", leave_as_it_is)


def tear_turns() -> None:
    """Commit what a turn wrote, and only then, in a second commit, that its job has ended."""
    from dialectic.db.tables import jobs
    from dialectic.pipeline import run, save

    save_turn, complete = save.save_turn, jobs.complete
    ends: dict[Any, Any] = {}

    async def complete_later(_connection: object, job: Any, **end: Any) -> None:
        ends[job.key] = end

    async def save_in_two(engine: Any, job: Any, *rest: Any) -> None:
        await save_turn(engine, job, *rest)
        await engine.db.transact(job.tenant_id, lambda c: complete(c, job, **ends[job.key]))

    put(jobs, "complete", complete_later)
    put(run, "save_turn", save_in_two)


def date_documents() -> None:
    """Write the time into every document."""
    import time

    from dialectic.core.documents.front_matter import render_document
    from dialectic.pipeline import write

    def render_with_time(*given: Any) -> str:
        return f"{render_document(*given)}\n{time.time_ns()}\n"

    put(write, "render_document", render_with_time)


def forget_ids() -> None:
    """Begin a stream at its end, whatever was seen before."""
    from dialectic.events.stream import Follower

    async def begin_now(self: Follower, channel: Any) -> None:
        self.seq = channel.seq

    put(Follower, "_find_start", begin_now)


def tell_again() -> None:
    """Tell the last event that was seen once more."""
    from dialectic.events.stream import Follower

    find_start = Follower._find_start

    async def begin_earlier(self: Follower, channel: Any) -> Any:
        state = await find_start(self, channel)
        self.seq = max(0, self.seq - 1)
        return state

    put(Follower, "_find_start", begin_earlier)
