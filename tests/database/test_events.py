"""A follower of events misses none and gets none twice, however late they commit."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, field
from uuid import UUID, uuid4

import asyncpg
import pytest

from dialectic.contract.events import StateReset
from dialectic.core.stream_position import FROM_THE_START, format_id
from dialectic.core.strict_json import Json
from dialectic.db.pool import APP_ROLE, WORKER_ROLE, Address, Connection, Database
from dialectic.db.tables import notifications, records
from dialectic.db.tables.records import Account
from dialectic.errors import NotFound, TooManyStreams
from dialectic.events.frames import EventFrame
from dialectic.events.hub import Hub, open_hub
from dialectic.events.stream import Follower
from tests.database.connections import connected
from tests.database.tenant_rows import Tenant, become, insert_tenant
from tests.sample_events import News, get_word
from tests.waiting import PATIENCE_S

SESSION_TABLE = "dialectic_sessions"


@dataclass(slots=True)
class Reader:
    """A client that follows, and what it was told; it may be cut off and come back."""

    hub: Hub
    db: Database
    account: Account
    session_id: UUID | None = None
    page: int = notifications.PAGE
    words: list[str] = field(default_factory=list)
    states: list[tuple[int, StateReset]] = field(default_factory=list)
    seqs: list[int] = field(default_factory=list)
    _told: AsyncGenerator[list[EventFrame], None] = field(init=False)

    @contextlib.asynccontextmanager
    async def following(self, after: str | None = None) -> AsyncIterator[Reader]:
        follower = Follower(
            hub=self.hub,
            db=self.db,
            account=self.account,
            after=after,
            session_id=self.session_id,
            page=self.page,
        )
        async with contextlib.aclosing(follower.follow()) as self._told:
            await self.hear()
            yield self

    async def hear(self) -> None:
        async with asyncio.timeout(PATIENCE_S):
            frames = await anext(self._told)
        for frame in frames:
            event = frame.parse()
            if isinstance(event, StateReset):
                self.states.append((frame.seq, event))
            else:
                self.words.append(get_word(event.data))
                self.seqs.append(event.id)

    async def hear_until(self, count: int) -> list[str]:
        while len(self.words) < count:
            await self.hear()
        return self.words


@dataclass(slots=True)
class TwoTenants:
    """Two tenants without any events yet, and a hub."""

    address: Address
    db: Database
    hub: Hub
    ours: Tenant
    theirs: Tenant

    def reader(
        self,
        tenant: Tenant | None = None,
        *,
        user_id: UUID | None = None,
        session_id: UUID | None = None,
    ) -> Reader:
        tenant = tenant or self.ours
        user_id = user_id or UUID(tenant.row_id("users"))
        return Reader(self.hub, self.db, Account(tenant.id, user_id, user_id), session_id)

    def session(self, nth: int = 1) -> UUID:
        return UUID(self.ours.row_id(SESSION_TABLE, nth))

    def after(self, seq: int, tenant: Tenant | None = None) -> str:
        return format_id((tenant or self.ours).id, seq)

    async def tell(self, *words: str, nth: int = 1) -> None:
        async def work(connection: Connection) -> None:
            for word in words:
                await announce(connection, word, self.session(nth))

        await self.db.transact(self.ours.id, work)

    async def send(self, word: str, user_id: UUID) -> None:
        async with connected(self.address, "postgres") as connection:
            await connection.execute(
                "select dialectic.create_notification_for_user($1, $2, 'mail', $3, 'Title')",
                self.ours.id,
                user_id,
                {"word": word},
            )


async def announce(connection: Connection, word: str, session_id: UUID) -> None:
    await records.record_event(connection, News(session_id=session_id, word=word))


@pytest.fixture(scope="module")
def address(module_address: Address) -> Address:
    return module_address


@pytest.fixture
async def two_tenants(
    address: Address, admin: asyncpg.Connection[asyncpg.Record]
) -> AsyncIterator[TwoTenants]:
    ours, theirs = (Tenant(f"{name} {uuid4()}") for name in ("ours", "theirs"))
    for tenant in (ours, theirs):
        await insert_tenant(admin, tenant)
    await admin.execute("delete from notifications")
    async with Database.open(address, APP_ROLE, size=4) as db, open_hub(address) as hub:
        yield TwoTenants(address, db, hub, ours, theirs)


async def test_who_follows_is_told_what_happens_from_now_on(two_tenants: TwoTenants) -> None:
    await two_tenants.tell("before")
    async with two_tenants.reader().following() as reader:
        await two_tenants.tell("one", "two")
        assert await reader.hear_until(2) == ["one", "two"]


async def test_an_event_that_commits_late_reaches_who_has_seen_a_higher_one(
    two_tenants: TwoTenants,
) -> None:
    reader = two_tenants.reader()
    async with (
        connected(two_tenants.address, WORKER_ROLE) as slow,
        connected(two_tenants.address, WORKER_ROLE) as quick,
        reader.following(),
    ):
        for connection, word in ((slow, "written first"), (quick, "committed first")):
            await connection.execute("begin")
            await become(connection, two_tenants.ours)
            await announce(connection, word, two_tenants.session())
        await quick.execute("commit")
        assert await reader.hear_until(1) == ["committed first"]
        await slow.execute("commit")
        assert await reader.hear_until(2) == ["committed first", "written first"]
    # And to who was away meanwhile and comes back with that higher one.
    async with two_tenants.reader().following(two_tenants.after(reader.seqs[0])) as back:
        assert await back.hear_until(1) == ["written first"]


async def test_what_was_missed_is_joined_to_what_happens(two_tenants: TwoTenants) -> None:
    await two_tenants.tell(*"abcd")
    async with two_tenants.reader().following(two_tenants.after(2)) as reader:
        await two_tenants.tell("e")
        assert await reader.hear_until(3) == ["c", "d", "e"]
        assert reader.seqs == [3, 4, 5]


async def test_what_was_missed_long_ago_is_read_page_by_page(two_tenants: TwoTenants) -> None:
    two_tenants.hub.tail_max = 3
    reader = two_tenants.reader()
    reader.page = 4
    words = [str(n) for n in range(1, 31)]
    await two_tenants.tell(*words)
    async with reader.following(FROM_THE_START):
        await two_tenants.tell("31")
        assert await reader.hear_until(31) == [*words, "31"]
        assert reader.seqs == list(range(1, 32))


async def test_clients_cut_off_anywhere_among_writers_end_up_with_the_same_sequence(
    two_tenants: TwoTenants,
) -> None:
    two_tenants.hub.tail_max = 10
    writers, chance = 60, random.Random(7)

    async def write(n: int) -> None:
        async def work(connection: Connection) -> None:
            await announce(connection, str(n), two_tenants.session())
            for _ in range(n % 5):  # some take longer between their writing and their commit
                await connection.fetchval("select 1")

        await two_tenants.db.transact(two_tenants.ours.id, work)

    async def follow() -> Reader:
        reader = two_tenants.reader()
        while len(reader.words) < writers:
            last = reader.seqs[-1] if reader.seqs else 0
            async with reader.following(two_tenants.after(last)):
                for _ in range(chance.randrange(1, 6)):
                    if len(reader.words) < writers:
                        await reader.hear()
                # What was on its way when the line was cut did not arrive.
                keep = chance.randrange(len(reader.words) // 2, len(reader.words) + 1)
                if len(reader.words) < writers:
                    del reader.words[keep:], reader.seqs[keep:]
        return reader

    readers = [asyncio.create_task(follow()) for _ in range(4)]
    await asyncio.gather(*(write(n) for n in range(writers)))
    first, *others = [await reader for reader in readers]

    assert first.seqs == list(range(1, writers + 1))
    assert sorted(first.words) == sorted(str(n) for n in range(writers))
    assert all(other.words == first.words for other in others)


@pytest.mark.parametrize("given", ["", "x", "1", "-1", "00000000.1", "9" * 40, "ours.1"])
async def test_an_id_that_makes_no_sense_is_answered_with_the_state(
    two_tenants: TwoTenants, given: str
) -> None:
    await two_tenants.tell("before")
    async with two_tenants.reader().following(given) as reader:
        [(seq, state)] = reader.states
        assert (seq, state.reason) == (1, "unknown")
        assert {session.id for session in state.sessions} == {
            two_tenants.session(nth) for nth in (1, 2)
        }
        await two_tenants.tell("after")
        assert await reader.hear_until(1) == ["after"]


async def test_the_id_of_another_tenant_shows_nothing_of_theirs_and_skips_nothing_of_ours(
    two_tenants: TwoTenants,
) -> None:
    await two_tenants.tell("ours")
    async with two_tenants.reader(two_tenants.theirs).following(two_tenants.after(1)) as reader:
        [(_, state)] = reader.states
        assert state.reason == "unknown"
        ours = {two_tenants.session(nth) for nth in (1, 2)}
        assert not ours & {session.id for session in state.sessions}
        assert reader.words == []


async def test_an_id_from_the_future_is_not_known(two_tenants: TwoTenants) -> None:
    await two_tenants.tell("one")
    async with two_tenants.reader().following(two_tenants.after(2)) as reader:
        assert [state.reason for _, state in reader.states] == ["unknown"]


async def test_what_is_too_old_is_answered_with_the_state_and_the_rest_is_still_there(
    two_tenants: TwoTenants, admin: asyncpg.Connection[asyncpg.Record]
) -> None:
    await two_tenants.tell("one", "two", "three")
    async with Database.open(two_tenants.address, WORKER_ROLE, size=1) as db:
        assert await notifications.prune(db, kept_days=1, kept_max=1) == 2
        assert await notifications.prune(db, kept_days=1, kept_max=1) == 0
    async with two_tenants.reader().following(two_tenants.after(1)) as reader:
        assert [(seq, state.reason) for seq, state in reader.states] == [(3, "too_old")]
    for after in (two_tenants.after(2), FROM_THE_START):
        async with two_tenants.reader().following(after) as reader:
            assert await reader.hear_until(1) == ["three"]
            assert reader.states == []


async def test_old_events_are_deleted_even_if_unread_and_messages_stay_until_read(
    two_tenants: TwoTenants, admin: asyncpg.Connection[asyncpg.Record]
) -> None:
    user_id = UUID(two_tenants.ours.row_id("users"))
    await two_tenants.tell("old")
    await two_tenants.send("unread", user_id)
    await two_tenants.send("read", user_id)
    await admin.execute("update notifications set created_at = now() - interval '2 days'")
    await two_tenants.tell("young")

    async def read_the_second(connection: Connection) -> None:
        newest, _ = await notifications.list_notifications(connection, user_id)
        await notifications.mark_read(connection, user_id, newest["id"])

    await two_tenants.db.transact(two_tenants.ours.id, read_the_second)
    async with Database.open(two_tenants.address, WORKER_ROLE, size=1) as db:
        assert await notifications.prune(db, kept_days=1, kept_max=1000) == 2
    left = await admin.fetch("select data ->> 'word' as word from notifications order by seq")
    assert [row["word"] for row in left] == ["unread", "young"]
    async with two_tenants.reader().following(two_tenants.after(0)) as reader:
        assert [state.reason for _, state in reader.states] == ["too_old"]


async def test_a_flood_of_unread_events_is_numbered_part_by_part(
    two_tenants: TwoTenants, admin: asyncpg.Connection[asyncpg.Record]
) -> None:
    # The server plans by what it knew before the flood: that every tenant has one event.
    await admin.execute(
        "insert into notifications (tenant_id, type)"
        " select gen_random_uuid(), 'news' from generate_series(1, 3000) n"
    )
    await admin.execute("analyze notifications")
    count = 5_100
    await admin.execute(
        "insert into notifications (tenant_id, session_id, type, data, is_internal_event)"
        " select $1, $2, 'news', jsonb_build_object('word', n::text), true"
        " from generate_series(1, $3) n",
        two_tenants.ours.id,
        two_tenants.session(),
        count,
    )
    async with two_tenants.reader().following(FROM_THE_START) as reader:
        assert await reader.hear_until(count) == [str(n) for n in range(1, count + 1)]


async def test_one_who_follows_a_session_hears_of_that_one_alone(two_tenants: TwoTenants) -> None:
    async with two_tenants.reader(session_id=two_tenants.session(2)).following(
        two_tenants.after(0)
    ) as reader:
        await two_tenants.tell("first session")
        await two_tenants.tell("second session", nth=2)
        assert await reader.hear_until(1) == ["second session"]


async def test_a_follower_without_events_is_still_moved_on(two_tenants: TwoTenants) -> None:
    reader = two_tenants.reader(session_id=two_tenants.session(2))
    follower = Follower(
        hub=two_tenants.hub,
        db=two_tenants.db,
        account=reader.account,
        session_id=reader.session_id,
        heartbeat_s=0.01,
    )
    async with contextlib.aclosing(follower.follow()) as told, asyncio.timeout(PATIENCE_S):
        assert (await anext(told), follower.seq) == ([], 0)
        await two_tenants.tell("of another session")
        while follower.seq == 0:
            assert await anext(told) == []
    assert follower.seq == 1


async def test_a_session_of_someone_else_is_not_there(two_tenants: TwoTenants) -> None:
    with pytest.raises(NotFound):
        async with two_tenants.reader(
            two_tenants.theirs, session_id=two_tenants.session()
        ).following():
            pass


async def test_a_message_reaches_its_person_and_no_colleague(two_tenants: TwoTenants) -> None:
    mine, other = (UUID(two_tenants.ours.row_id("users", n)) for n in (1, 2))
    async with (
        two_tenants.reader(user_id=mine).following() as reader,
        two_tenants.reader(user_id=other).following() as colleague,
    ):
        await two_tenants.send("for me", mine)
        await two_tenants.tell("for all")
        assert await reader.hear_until(2) == ["for me", "for all"]
        assert await colleague.hear_until(1) == ["for all"]


async def test_messages_are_listed_page_by_page_and_marked_as_read_by_their_person(
    two_tenants: TwoTenants,
) -> None:
    mine, other = (UUID(two_tenants.ours.row_id("users", n)) for n in (1, 2))
    for word in "abc":
        await two_tenants.send(word, mine)
    await two_tenants.tell("internal")

    async def work(connection: Connection) -> None:
        def words(rows: list[Json]) -> list[str]:
            return [row["data"]["word"] for row in rows]

        first = await notifications.list_notifications(connection, mine, limit=2)
        assert words(first) == ["c", "b"]
        last_id = first[-1]["id"]
        rest = await notifications.list_notifications(connection, mine, before_id=last_id)
        assert words(rest) == ["a"]
        assert await notifications.list_notifications(connection, other) == []
        for _ in range(2):
            await notifications.mark_read(connection, mine, last_id)
        unread = await notifications.list_notifications(connection, mine, unread_only=True)
        assert words(unread) == ["c", "a"]
        with pytest.raises(NotFound):
            await notifications.mark_read(connection, other, last_id)

    await two_tenants.db.transact(two_tenants.ours.id, work)


async def test_a_tenant_has_a_number_of_places_and_each_is_free_again(
    two_tenants: TwoTenants,
) -> None:
    two_tenants.hub.streams_max = 2
    async with two_tenants.reader().following(), two_tenants.reader(two_tenants.theirs).following():
        async with two_tenants.reader().following():
            with pytest.raises(TooManyStreams):
                async with two_tenants.reader().following():
                    pass
        async with two_tenants.reader().following():
            assert two_tenants.hub.count_streams() == 3
    assert two_tenants.hub.count_streams() == 0


async def test_a_hub_that_lost_its_connection_tells_what_happened_meanwhile(
    two_tenants: TwoTenants, admin: asyncpg.Connection[asyncpg.Record]
) -> None:
    async with two_tenants.reader().following() as reader:
        cut_off = await admin.fetch(
            "select pg_terminate_backend(pid) from pg_stat_activity where usename = $1"
            " and datname = current_database()",
            APP_ROLE,
        )
        assert cut_off
        await two_tenants.tell("meanwhile")
        assert await reader.hear_until(1) == ["meanwhile"]


async def test_a_hub_does_not_wait_for_a_server_that_has_frozen(
    two_tenants: TwoTenants, admin: asyncpg.Connection[asyncpg.Record]
) -> None:
    reader = two_tenants.reader()
    # Another role, by which its connection is found among ours.
    async with open_hub(two_tenants.address, role=WORKER_ROLE) as reader.hub:
        reader.hub.look_max_s = 0.5
        async with reader.following():
            pid = await admin.fetchval(
                "select pid from pg_stat_activity"
                " where datname = current_database() and usename = $1",
                WORKER_ROLE,
            )
            os.kill(pid, signal.SIGSTOP)
            try:
                await two_tenants.tell("meanwhile")
                assert await reader.hear_until(1) == ["meanwhile"]
            finally:
                os.kill(pid, signal.SIGCONT)


async def test_without_any_hint_events_are_still_delivered(
    two_tenants: TwoTenants, admin: asyncpg.Connection[asyncpg.Record]
) -> None:
    async with two_tenants.reader().following() as reader:
        await admin.execute(
            "insert into notifications (tenant_id, session_id, type, data, is_internal_event)"
            """ values ($1, $2, 'news', '{"word": "unheard"}', true)""",
            two_tenants.ours.id,
            two_tenants.session(),
        )
        assert await reader.hear_until(1) == ["unheard"]


async def test_hints_are_few_however_many_events_there_are(two_tenants: TwoTenants) -> None:
    heard: list[object] = []
    async with connected(two_tenants.address, APP_ROLE) as listener:
        await listener.add_listener("dialectic_news", lambda *_: heard.append(1))
        await two_tenants.tell(*(str(n) for n in range(200)))
        await two_tenants.tell("the last")
        await listener.fetchval("select 1")
    assert 1 <= len(heard) <= 2


async def test_at_the_end_of_a_process_every_stream_ends(two_tenants: TwoTenants) -> None:
    reader = two_tenants.reader()
    async with reader.following():
        two_tenants.hub.close_streams()
        with pytest.raises(StopAsyncIteration):
            await reader.hear()


async def test_two_hubs_tell_the_same_in_the_same_order(two_tenants: TwoTenants) -> None:
    words = [str(n) for n in range(20)]
    async with open_hub(two_tenants.address) as other, two_tenants.reader().following() as first:
        second = two_tenants.reader()
        second.hub = other
        async with second.following():
            for word in words:
                await two_tenants.tell(word)
            assert await first.hear_until(20) == await second.hear_until(20) == words
            assert first.seqs == second.seqs
        # What the one hub has told, the other may not have read yet: it is no unknown number.
        await two_tenants.tell("more")
        await first.hear_until(21)
        async with second.following(two_tenants.after(first.seqs[-1])):
            assert second.states == []
            await two_tenants.tell("and more")
            assert (await second.hear_until(21))[-1] == "and more"
