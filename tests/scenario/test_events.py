"""`GET /events` on real sockets: resumed, refused, cut off, dropped when slow, ended in order."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

import pytest
from starlette.requests import Request

from chaos.event_clients import Frame, Line
from chaos.event_server import build_app, serving
from dialectic.api.event_stream import Pace
from dialectic.api.server import Running, open_server
from dialectic.core.stream_position import format_id
from dialectic.db.pool import WORKER_ROLE, Address, Connection, Database
from dialectic.db.tables import notifications, records
from dialectic.db.tables.records import Account
from dialectic.events.hub import Hub
from dialectic.postgres import embedded
from tests.database.job_table import database_of_a_module
from tests.sample_events import News
from tests.scenario import api_in_process
from tests.scenario.api_in_process import ApiUser
from tests.waiting import PATIENCE_S

# An id that nothing has.
NOBODY = UUID(int=404)


@dataclass(slots=True)
class ApiServer:
    """A server on a port, with a session of the one who calls."""

    inner: api_in_process.Api
    running: Running
    user: ApiUser
    session_id: UUID
    lines: list[Line] = field(default_factory=list)

    @property
    def hub(self) -> Hub:
        return self.inner.hub

    @property
    def port(self) -> int:
        return int(self.running.url.rpartition(":")[2])

    async def tell(self, *words: str, size_bytes: int = 0) -> None:
        async def work(connection: Connection) -> None:
            for word in words:
                news = News(session_id=self.session_id, word=word, ballast="x" * size_bytes)
                await records.record_event(connection, news)

        await self.inner.engine.db.transact(self.user.account.tenant_id, work)

    async def call(
        self, query: str = "", last_id: str | None = None, own: socket.socket | None = None
    ) -> Line:
        headers = {"Authorization": f"Bearer {self.user.token}"}
        headers |= {} if last_id is None else {"Last-Event-ID": last_id}
        line = await Line(self.port, f"/api/v1/events{query}", headers).open(own)
        self.lines.append(line)
        return line

    def of(self, user: ApiUser, session_id: str) -> ApiServer:
        """The same server, for another user and their session."""
        return ApiServer(self.inner, self.running, user, UUID(session_id), self.lines)


@contextlib.asynccontextmanager
async def open_door(
    inner: api_in_process.Api, user: ApiUser, session_id: str
) -> AsyncIterator[ApiServer]:
    async with open_server(inner.app, inner.hub, host="127.0.0.1", port=0) as running:
        opened = ApiServer(inner, running, user, UUID(session_id))
        try:
            yield opened
        finally:
            for line in opened.lines:
                line.close()
                with contextlib.suppress(OSError):
                    await line.writer.wait_closed()


def open_narrow() -> socket.socket:
    """A socket with a small buffer, which is not read."""
    narrow = socket.socket()
    narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    narrow.setblocking(False)
    return narrow


async def read(line: Line, count: int) -> list[Frame]:
    """The next events, a number of them."""
    found: list[Frame] = []
    async with asyncio.timeout(PATIENCE_S):
        while len(found) < count and (frames := await line.read()) is not None:
            found += frames
    return found


async def read_words(line: Line, count: int) -> list[str]:
    return [frame.data["data"]["word"] for frame in await read(line, count)]


async def read_to_the_end(line: Line) -> list[Frame]:
    return await read(line, 1_000_000)


@pytest.fixture(scope="module")
def shared(server: embedded.Server, template: str) -> Iterator[Address]:
    with database_of_a_module(server, template) as made:
        yield made


@pytest.fixture
async def api_server(shared: Address, tmp_path: Path) -> AsyncIterator[ApiServer]:
    async with api_in_process.open_api(shared, tmp_path) as inner:
        session = await inner.anna.make_session()
        async with open_door(inner, inner.anna, session["id"]) as opened:
            yield opened


async def test_a_stream_is_resumed_from_the_last_event_seen(api_server: ApiServer) -> None:
    line = await api_server.call()
    assert line.status == 200
    assert line.head["content-type"].startswith("text/event-stream")
    assert line.head["cache-control"] == "no-store"
    assert line.head["x-accel-buffering"] == "no"
    await api_server.tell("one", "two")
    first, second = await read(line, 2)
    assert first.kind == "news"
    assert first.data["session_id"] == str(api_server.session_id)
    assert first.data["data"]["word"] == "one"
    line.close()

    await api_server.tell("three")
    assert await read_words(await api_server.call(last_id=first.event_id), 2) == ["two", "three"]
    assert await read_words(await api_server.call(f"?after={second.event_id}"), 1) == ["three"]
    whole = f"?after=0&session={api_server.session_id}"
    assert await read_words(await api_server.call(whole), 3) == ["one", "two", "three"]


async def test_a_huge_event_comes_whole_and_the_stream_goes_on_behind_it(
    api_server: ApiServer,
) -> None:
    await api_server.tell("before")
    await api_server.tell("huge", size_bytes=6_000_000)
    await api_server.tell("after")
    line = await api_server.call("?after=0")
    first, huge, *_ = await read(line, 2)
    assert huge.data["data"]["ballast"] == "x" * 6_000_000
    line.close()  # perhaps in the middle of the third
    assert await read_words(await api_server.call(last_id=huge.event_id), 1) == ["after"]
    assert await read_words(await api_server.call(last_id=first.event_id), 2) == ["huge", "after"]


async def test_who_hears_nothing_comes_back_to_where_it_began(api_server: ApiServer) -> None:
    await api_server.tell("before")
    line = await api_server.call()
    assert await line.read() == []  # when to come back, and where this is
    line.close()
    await api_server.tell("meanwhile")
    assert await read_words(await api_server.call(last_id=line.last_id), 1) == ["meanwhile"]


@pytest.mark.parametrize("last_id", ["garbled", format_id(NOBODY, 1)])
async def test_an_id_that_is_not_known_is_answered_with_the_state(
    api_server: ApiServer, last_id: str
) -> None:
    line = await api_server.call(last_id=last_id)
    [state] = await read(line, 1)
    assert (state.kind, state.data["reset"], state.data["reason"]) == ("state", True, "unknown")
    [session] = state.data["sessions"]
    assert session["id"] == str(api_server.session_id)
    assert session["status"] == "pending_thesis"
    await api_server.tell("next")
    assert await read_words(line, 1) == ["next"]


async def test_the_id_of_another_tenant_is_not_known_and_shows_nothing_of_theirs(
    api_server: ApiServer,
) -> None:
    ben = api_server.inner.ben
    theirs = api_server.of(ben, (await ben.make_session())["id"])
    # Both have an event of that number.
    await theirs.tell("before")
    assert await read_words(await theirs.call("?after=0"), 1) == ["before"]
    await api_server.tell("ours")
    [ours] = await read(await api_server.call("?after=0"), 1)
    line = await theirs.call(last_id=ours.event_id)
    [state] = await read(line, 1)
    assert (state.kind, state.data["reason"]) == ("state", "unknown")
    assert [one["id"] for one in state.data["sessions"]] == [str(theirs.session_id)]
    await api_server.tell("more of ours")
    await theirs.tell("theirs")
    assert await read_words(line, 1) == ["theirs"]
    assert (await theirs.call(f"?session={api_server.session_id}")).status == 404


async def test_what_is_not_kept_any_more_is_answered_with_the_state(
    api_server: ApiServer, shared: Address
) -> None:
    line = await api_server.call()
    await api_server.tell("one", "two", "three")
    first, *_ = await read(line, 3)
    line.close()
    async with asyncio.timeout(PATIENCE_S):
        while api_server.hub.count_streams():
            await api_server.inner.engine.db.fetch("select 1")
    async with Database.open(shared, WORKER_ROLE, size=1) as db:
        assert await notifications.prune(db, kept_days=1, kept_max=1) >= 2
    line = await api_server.call(last_id=first.event_id)
    [state] = await read(line, 1)
    assert (state.kind, state.data["reset"], state.data["reason"]) == ("state", True, "too_old")
    assert [one["id"] for one in state.data["sessions"]] == [str(api_server.session_id)]
    await api_server.tell("four")
    assert await read_words(line, 1) == ["four"]


@pytest.mark.parametrize(("session", "status"), [(str(NOBODY), 404), ("x", 422)])
async def test_a_session_that_is_not_there_is_refused(
    api_server: ApiServer, session: str, status: int
) -> None:
    assert (await api_server.call(f"?session={session}")).status == status


async def test_more_streams_than_a_tenant_may_have_are_refused_until_one_is_closed(
    api_server: ApiServer,
) -> None:
    api_server.hub.streams_max = 2
    first, _ = await api_server.call(), await api_server.call()
    refused = await api_server.call()
    assert (refused.status, refused.head["retry-after"]) == (429, "2")
    assert b"too_many_streams" in await refused.reader.read()
    ben = api_server.inner.ben
    theirs = api_server.of(ben, str(api_server.session_id))
    assert (await theirs.call()).status == 200

    first.close()
    async with asyncio.timeout(PATIENCE_S):
        while (await api_server.call()).status == 429:
            pass


async def test_who_does_not_read_is_dropped_and_resumes(api_server: ApiServer) -> None:
    api_server.hub.queue_max = 5
    line = await api_server.call(own=open_narrow())
    quick = await api_server.call()
    words: list[str] = []
    while api_server.hub.count_streams() == 2:
        words.append(str(len(words)))
        await api_server.tell(words[-1], size_bytes=300_000)
        assert await read_words(quick, 1) == words[-1:]
        assert len(words) < 100, "it is never dropped"

    seen = [frame.data["data"]["word"] for frame in await read_to_the_end(line)]
    assert seen == words[: len(seen)]
    assert len(seen) < len(words)
    back = await api_server.call(last_id=line.last_id)
    assert seen + await read_words(back, len(words) - len(seen)) == words


async def test_who_does_not_read_what_it_missed_is_dropped_too(api_server: ApiServer) -> None:
    async def find_caller(_request: Request) -> Account:
        return api_server.user.account

    engine, hub = api_server.inner.engine, api_server.hub
    hub.tail_bytes_max = 0
    strict = build_app(engine, hub, find_caller, Pace(send_max_s=0.2, end_max_s=0.2), page=1)
    await api_server.tell(*(str(n) for n in range(30)), size_bytes=300_000)
    async with serving(strict, hub) as port:
        line = await Line(port, "/events?after=0").open(open_narrow())
        api_server.lines.append(line)
        first = await read(line, 1)  # so it follows
        async with asyncio.timeout(PATIENCE_S):
            while hub.count_streams():
                await engine.db.fetch("select 1")
        seen = [*first, *await read_to_the_end(line)]
        assert 0 < len(seen) < 30
        rest = await read(await api_server.call(last_id=line.last_id), 30 - len(seen))
    assert [frame.data["data"]["word"] for frame in [*seen, *rest]] == [str(n) for n in range(30)]


async def test_streams_end_with_their_server_and_go_on_with_the_next(
    api_server: ApiServer, shared: Address, tmp_path: Path
) -> None:
    line = await api_server.call()
    await api_server.tell("one")
    assert await read_words(line, 1) == ["one"]
    api_server.hub.close_streams()
    assert await read_to_the_end(line) == []
    await api_server.tell("two")

    async with (
        api_in_process.open_api(shared, tmp_path) as inner,
        open_door(inner, api_server.user, str(api_server.session_id)) as other,
    ):
        assert await read_words(await other.call(last_id=line.last_id), 1) == ["two"]
