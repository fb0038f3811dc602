"""Events are numbered when they are first read, so that a reader of number k never misses one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from uuid import UUID

import asyncpg
import pytest

from dialectic.db.pool import APP_ROLE, WORKER_ROLE, Address, Connection, Database, connect
from dialectic.db.tables import notifications, records
from tests.database.tenant_rows import Tenant, become, insert_tenant
from tests.sample_events import News, get_word
from tests.waiting import until_someone_waits

OURS, THEIRS = Tenant("ours"), Tenant("theirs")
OUR_SESSION, OTHER_SESSION = (UUID(OURS.row_id("dialectic_sessions", n)) for n in (1, 2))


@pytest.fixture
async def quiet(address: Address, admin: asyncpg.Connection[asyncpg.Record]) -> Address:
    """Two tenants without any events yet."""
    for tenant in (OURS, THEIRS):
        await insert_tenant(admin, tenant)
    await admin.execute("delete from notifications")
    return address


Open = Callable[[str], Awaitable[Connection]]


@pytest.fixture
async def begin(quiet: Address) -> AsyncIterator[Open]:
    """Opens a connection of a role with a transaction of ours begun on it."""
    async with AsyncExitStack() as stack:

        async def open_one(role: str) -> Connection:
            connection = await connect(quiet, role)
            stack.push_async_callback(connection.close)
            await connection.execute("begin")
            await become(connection, OURS)
            return connection

        yield open_one


async def tell(connection: Connection, word: str, session_id: UUID = OUR_SESSION) -> None:
    await records.record_event(connection, News(session_id=session_id, word=word))


async def read(
    db: Database, *, after: int = 0, session_id: UUID | None = None, limit: int = 500
) -> list[tuple[int, str]]:
    """The numbers and words that a client of ours is given."""

    async def work(connection: Connection) -> list[tuple[int, str]]:
        return await read_here(connection, after=after, session_id=session_id, limit=limit)

    return await db.transact(OURS.id, work)


async def read_here(
    connection: Connection, *, after: int = 0, session_id: UUID | None = None, limit: int = 500
) -> list[tuple[int, str]]:
    page = await notifications.read_events(
        connection, after_seq=after, session_id=session_id, limit=limit
    )
    return [(event.seq, get_word(event.data)) for event in page.events]


async def test_news_that_commits_late_is_never_skipped(quiet: Address, begin: Open) -> None:
    slow, quick = await begin(WORKER_ROLE), await begin(WORKER_ROLE)
    await tell(slow, "written first")
    await tell(quick, "committed first")
    await quick.execute("commit")
    async with Database.open(quiet, APP_ROLE, size=1) as db:
        assert await read(db) == [(1, "committed first")]
        await slow.execute("commit")
        assert await read(db, after=1) == [(2, "written first")]
        assert await read(db) == [(1, "committed first"), (2, "written first")]


async def test_news_that_is_rolled_back_leaves_no_gap(quiet: Address, begin: Open) -> None:
    doomed, kept = await begin(WORKER_ROLE), await begin(WORKER_ROLE)
    await tell(doomed, "never")
    await tell(kept, "one")
    await doomed.execute("rollback")
    await kept.execute("commit")
    async with Database.open(quiet, APP_ROLE, size=1) as db:
        assert await read(db) == [(1, "one")]


async def test_news_of_one_commit_keeps_its_order(quiet: Address, begin: Open) -> None:
    writer = await begin(WORKER_ROLE)
    words = [str(n) for n in range(50)]
    for word in words:
        await tell(writer, word)
    await writer.execute("commit")
    async with Database.open(quiet, APP_ROLE, size=1) as db:
        assert await read(db) == list(enumerate(words, start=1))


async def test_a_page_ends_at_its_limit_and_the_next_one_goes_on(
    quiet: Address, begin: Open
) -> None:
    writer = await begin(WORKER_ROLE)
    for n in range(1, 6):
        await tell(writer, str(n))
    await writer.execute("commit")
    async with Database.open(quiet, APP_ROLE, size=1) as db:
        assert await read(db, limit=3) == [(1, "1"), (2, "2"), (3, "3")]
        assert await read(db, after=3, limit=3) == [(4, "4"), (5, "5")]
        assert await read(db, after=5, limit=3) == []


async def test_two_readers_at_once_never_number_twice(quiet: Address, begin: Open) -> None:
    writer = await begin(WORKER_ROLE)
    await tell(writer, "one")
    await tell(writer, "two")
    await writer.execute("commit")
    first, second = await begin(APP_ROLE), await begin(APP_ROLE)
    expected = [(1, "one"), (2, "two")]
    assert await read_here(first) == expected
    waiting = asyncio.create_task(read_here(second))
    await until_someone_waits(first)
    await first.execute("commit")
    assert await waiting == expected


async def test_a_number_once_given_is_not_given_again_by_a_reader_who_saw_more(
    quiet: Address, begin: Open
) -> None:
    slow, quick = await begin(WORKER_ROLE), await begin(WORKER_ROLE)
    await tell(slow, "written first")
    await tell(quick, "committed first")
    await quick.execute("commit")
    first, second = await begin(APP_ROLE), await begin(APP_ROLE)
    assert await read_here(first) == [(1, "committed first")]
    await slow.execute("commit")
    waiting = asyncio.create_task(read_here(second))
    await until_someone_waits(first)
    await first.execute("commit")
    assert await waiting == [(1, "committed first"), (2, "written first")]


async def test_a_reader_who_gives_up_leaves_the_numbers_to_the_next(
    quiet: Address, begin: Open
) -> None:
    writer = await begin(WORKER_ROLE)
    await tell(writer, "one")
    await writer.execute("commit")
    first, second = await begin(APP_ROLE), await begin(APP_ROLE)
    assert await read_here(first) == [(1, "one")]
    waiting = asyncio.create_task(read_here(second))
    await until_someone_waits(first)
    await first.execute("rollback")
    assert await waiting == [(1, "one")]


async def test_writers_never_wait_for_a_reader(quiet: Address, begin: Open) -> None:
    writer, reader = await begin(WORKER_ROLE), await begin(APP_ROLE)
    await tell(writer, "one")
    await writer.execute("commit")
    assert await read_here(reader) == [(1, "one")]
    other = await begin(WORKER_ROLE)
    await other.execute("set local lock_timeout = '1ms'")
    await tell(other, "two")
    await other.execute("commit")


async def test_news_of_other_sessions_is_left_out(quiet: Address, begin: Open) -> None:
    writer = await begin(WORKER_ROLE)
    await tell(writer, "ours")
    await tell(writer, "other", OTHER_SESSION)
    await tell(writer, "ours again")
    await writer.execute("commit")
    async with Database.open(quiet, APP_ROLE, size=1) as db:
        assert await read(db, session_id=OUR_SESSION) == [(1, "ours"), (3, "ours again")]
        assert await read(db, session_id=OTHER_SESSION) == [(2, "other")]
        assert [seq for seq, _ in await read(db)] == [1, 2, 3]


async def test_each_tenant_has_numbers_of_its_own(quiet: Address, begin: Open) -> None:
    writer = await begin(WORKER_ROLE)
    await become(writer, THEIRS)
    theirs = UUID(THEIRS.row_id("dialectic_sessions"))
    for word in ("theirs", "theirs again"):
        await tell(writer, word, theirs)
    await become(writer, OURS)
    await tell(writer, "ours")
    await writer.execute("commit")
    async with Database.open(quiet, APP_ROLE, size=1) as db:
        assert await read(db) == [(1, "ours")]
        assert await read(db, session_id=theirs) == []


WRITERS = 200


async def test_among_two_hundred_writers_readers_see_all_exactly_once_in_order(
    quiet: Address,
) -> None:
    async with (
        Database.open(quiet, WORKER_ROLE, size=12) as writing,
        Database.open(quiet, APP_ROLE, size=2) as reading,
    ):

        async def write(n: int) -> None:
            async def work(connection: Connection) -> None:
                await tell(connection, str(n))
                for _ in range(n % 5):  # some take longer between their writing and their commit
                    await connection.fetchval("select 1")

            await writing.transact(OURS.id, work)

        async def follow() -> list[tuple[int, str]]:
            seen: list[tuple[int, str]] = []
            while len(seen) < WRITERS:
                seen += await read(reading, after=seen[-1][0] if seen else 0, limit=7)
            return seen

        readers = [asyncio.create_task(follow()) for _ in range(2)]
        await asyncio.gather(*(write(n) for n in range(WRITERS)))
        first, second = [await reader for reader in readers]
    assert first == second
    assert [seq for seq, _ in first] == list(range(1, WRITERS + 1))
    assert sorted(word for _, word in first) == sorted(str(n) for n in range(WRITERS))
