"""`GET /events` on real sockets: resumed, refused, cut off, dropped when slow, ended in order."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from chaos.event_clients import Frame, Line
from chaos.event_server import build_app, build_caller, open_plain_engine, serving
from dialectic.api.events import PACE, Pace
from dialectic.domain.ask import Ask
from dialectic.domain.event import format_id
from dialectic.engine import Engine
from dialectic.notify.hub import Hub, open_hub
from dialectic.process_files import load_process
from dialectic.projects import create_session
from dialectic.store import records
from dialectic.store.database import Address, Connection
from dialectic.store.records import Account, open_account
from tests.waiting import PATIENCE_S

# An id that nothing has.
NOBODY = UUID(int=404)


@dataclass(slots=True)
class House:
    """A server of events with a session of the one who calls."""

    engine: Engine
    account: Account
    session_id: Any
    port: int = 0
    pace: Pace = PACE
    hub: Hub = field(init=False)
    lines: list[Line] = field(default_factory=list)

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[House]:
        async with open_hub(self.engine.address) as self.hub:
            app = build_app(self.engine, self.hub, await build_caller(self.engine), self.pace)
            async with serving(app, self.hub, self.port) as self.port:
                try:
                    yield self
                finally:
                    for line in self.lines:
                        line.close()
                        with contextlib.suppress(OSError):
                            await line.writer.wait_closed()

    async def tell(self, *words: str, size_bytes: int = 0) -> None:
        async def work(connection: Connection) -> None:
            for word in words:
                data = {"word": word, "ballast": "x" * size_bytes}
                await records.announce(connection, self.session_id, "news", data)

        await self.engine.db.transact(self.account.tenant_id, work)

    async def call(self, query: str = "", last_id: str | None = None) -> Line:
        headers = {} if last_id is None else {"Last-Event-ID": last_id}
        return await self.open_line(Line(self.port, f"/events{query}", headers))

    async def open_line(self, line: Line, own: socket.socket | None = None) -> Line:
        self.lines.append(await line.open(own))
        return line


async def read(line: Line, count: int) -> list[Frame]:
    """The next so many events."""
    found: list[Frame] = []
    async with asyncio.timeout(PATIENCE_S):
        while len(found) < count and (frames := await line.read()) is not None:
            found += frames
    return found


async def read_words(line: Line, count: int) -> list[str]:
    return [frame.data["data"]["word"] for frame in await read(line, count)]


async def read_to_the_end(line: Line) -> list[Frame]:
    return await read(line, 1_000_000)


@pytest.fixture
async def house(address: Address, tmp_path: Path) -> AsyncIterator[House]:
    async with open_plain_engine(address, tmp_path) as engine:
        account = await open_account(engine.db, "local")
        process = load_process("standard")
        ask = Ask(prompt="A hall.", models=["offline/architect"] * 2, process=process)
        begun = await create_session(engine, account, ask)
        async with House(engine, account, begun.session_id).open() as opened:
            yield opened


async def test_a_stream_is_resumed_from_the_last_event_seen(house: House) -> None:
    line = await house.call()
    assert line.status == 200
    assert line.head["content-type"].startswith("text/event-stream")
    assert line.head["cache-control"] == "no-store"
    assert line.head["x-accel-buffering"] == "no"
    await house.tell("one", "two")
    first, second = await read(line, 2)
    assert first.kind == "news"
    assert first.data["session_id"] == str(house.session_id)
    assert first.data["data"]["word"] == "one"
    line.close()

    await house.tell("three")
    assert await read_words(await house.call(last_id=first.event_id), 2) == ["two", "three"]
    assert await read_words(await house.call(f"?after={second.event_id}"), 1) == ["three"]
    whole = f"?after=0&session={house.session_id}"
    assert await read_words(await house.call(whole), 3) == ["one", "two", "three"]


async def test_who_hears_nothing_comes_back_to_where_it_began(house: House) -> None:
    await house.tell("before")
    line = await house.call()
    assert await line.read() == []  # when to come back, and where this is
    line.close()
    await house.tell("meanwhile")
    assert await read_words(await house.call(last_id=line.last_id), 1) == ["meanwhile"]


@pytest.mark.parametrize("last_id", ["garbled", format_id(NOBODY, 1)])
async def test_an_id_that_is_not_known_is_answered_with_the_state(
    house: House, last_id: str
) -> None:
    line = await house.call(last_id=last_id)
    [state] = await read(line, 1)
    assert (state.kind, state.data["reset"], state.data["reason"]) == ("state", True, "unknown")
    [session] = state.data["sessions"]
    assert session["id"] == str(house.session_id)
    assert session["status"] == "pending_thesis"
    await house.tell("next")
    assert await read_words(line, 1) == ["next"]


@pytest.mark.parametrize(("session", "status"), [(str(NOBODY), 404), ("x", 400)])
async def test_a_session_that_is_not_there_is_refused(
    house: House, session: str, status: int
) -> None:
    assert (await house.call(f"?session={session}")).status == status


async def test_more_streams_than_a_tenant_may_have_are_refused_until_one_is_closed(
    house: House,
) -> None:
    house.hub.streams_max = 2
    first, _ = await house.call(), await house.call()
    refused = await house.call()
    assert refused.status == 429
    assert b"too_many_streams" in await refused.reader.read()

    first.close()
    async with asyncio.timeout(PATIENCE_S):
        while (await house.call()).status == 429:
            pass


async def test_who_does_not_read_is_dropped_and_resumes(house: House) -> None:
    house.hub.queue_max = 5
    narrow = socket.socket()
    narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    narrow.setblocking(False)
    line = await house.open_line(Line(house.port), narrow)
    quick = await house.call()
    words: list[str] = []
    while house.hub.count_streams() == 2:
        words.append(str(len(words)))
        await house.tell(words[-1], size_bytes=300_000)
        assert await read_words(quick, 1) == words[-1:]
        assert len(words) < 100, "it is never dropped"

    seen = [frame.data["data"]["word"] for frame in await read_to_the_end(line)]
    assert seen == words[: len(seen)]
    assert len(seen) < len(words)
    back = await house.call(last_id=line.last_id)
    assert seen + await read_words(back, len(words) - len(seen)) == words


async def test_who_does_not_read_what_it_missed_is_dropped_too(house: House) -> None:
    pace = Pace(send_max_s=0.2, end_max_s=0.2, page=1)
    strict = House(house.engine, house.account, house.session_id, pace=pace)
    await house.tell(*(str(n) for n in range(30)), size_bytes=300_000)
    narrow = socket.socket()
    narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    narrow.setblocking(False)
    async with strict.open():
        strict.hub.tail_bytes_max = 0
        line = await strict.open_line(Line(strict.port, "/events?after=0"), narrow)
        first = await read(line, 1)  # so it follows
        async with asyncio.timeout(PATIENCE_S):
            while strict.hub.count_streams():
                await house.engine.db.fetch("select 1")
        seen = [*first, *await read_to_the_end(line)]
    assert 0 < len(seen) < 30
    rest = await read(await house.call(last_id=line.last_id), 30 - len(seen))
    assert [frame.data["data"]["word"] for frame in [*seen, *rest]] == [str(n) for n in range(30)]


async def test_streams_end_with_their_server_and_go_on_with_the_next(house: House) -> None:
    line = await house.call()
    await house.tell("one")
    assert await read_words(line, 1) == ["one"]
    house.hub.close_streams()
    assert await read_to_the_end(line) == []
    await house.tell("two")

    other = House(house.engine, house.account, house.session_id)
    async with other.open():
        assert await read_words(await other.call(last_id=line.last_id), 1) == ["two"]
