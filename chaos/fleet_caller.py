"""Someone who works over HTTP with several servers, and goes to another when one does not answer.

Each change has a name, so that it is done once however often it is asked for. Events are followed
across servers by the id of the last one that was seen.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import io
import json
import zipfile
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from random import Random
from types import TracebackType
from typing import Any
from uuid import uuid4

import httpx2

from chaos.fleet_site import Site
from chaos.lab import Stuck
from chaos.resume import TIMED
from dialectic.contract.events import (
    CHANGES,
    ContributionReceived,
    Event,
    StageEnded,
    StateReset,
    parse_event,
)
from dialectic.core.sse import EventParser
from dialectic.core.stream_position import FROM_THE_START

PAUSE_S = 0.2
TIMEOUT_S = 120.0
EXPORTS_AT_ONCE = 4
TRIES_MAX = 200


@dataclass(frozen=True, slots=True)
class Export:
    """The files of an export by path, and what its manifest says wrongly."""

    files: dict[str, str]
    faults: list[str]


@dataclass(slots=True)
class Caller:
    """A user with a token."""

    site: Site
    token: str
    rng: Random
    # Requests whose server died, or was dead.
    lost: int = 0
    # Requests that a server left without an answer.
    unanswered: list[str] = field(default_factory=list)
    client: httpx2.AsyncClient = field(init=False)
    _exporting: asyncio.Semaphore = field(
        default_factory=lambda: asyncio.Semaphore(EXPORTS_AT_ONCE)
    )

    async def __aenter__(self) -> Caller:
        headers = {"Authorization": f"Bearer {self.token}"}
        self.client = httpx2.AsyncClient(headers=headers, timeout=TIMEOUT_S, trust_env=False)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.client.aclose()

    def choose_url(self) -> str:
        return f"{self.rng.choice(self.site.list_urls())}/api/v1"

    async def post(self, path: str, wish: dict[str, Any]) -> dict[str, Any]:
        """Ask for a change, once, of whichever server answers."""
        answer = await self._ask("POST", path, json=wish, headers={"Idempotency-Key": str(uuid4())})
        made: dict[str, Any] = answer.json()
        return made

    async def export(self, project_id: str) -> Export:
        """Take a project away and look whether its manifest tells the truth."""
        async with self._exporting:
            answer = await self._ask("GET", f"/projects/{project_id}/export")
        return read_export(answer.content)

    async def _ask(self, method: str, path: str, **rest: Any) -> httpx2.Response:
        for _ in range(TRIES_MAX):
            try:
                answer = await self.client.request(method, f"{self.choose_url()}{path}", **rest)
            except httpx2.TimeoutException as error:
                self.unanswered.append(f"{method} {path}: {type(error).__name__}")
            except httpx2.TransportError:
                self.lost += 1
            else:
                if answer.is_success:
                    return answer
                if answer.status_code not in (409, 503):
                    raise Stuck(f"{method} {path}: {answer.status_code} {answer.text[:300]}")
            await asyncio.sleep(PAUSE_S)
        raise Stuck(f"{method} {path}: nobody answers")


def read_export(data: bytes) -> Export:
    """Read the manifest of an archive. One file tells of times, and counts by its path alone."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        manifest = json.loads(archive.read("manifest.json"))
        files = {entry["path"]: entry["sha256"] for entry in manifest["files"]}
        faults = [
            f"{path} has other bytes"
            for path, sha256 in files.items()
            if hashlib.sha256(archive.read(path)).hexdigest() != sha256
        ]
    return Export(
        {path: "" if path.endswith(TIMED) else sha for path, sha in files.items()}, faults
    )


@dataclass(slots=True)
class Follower:
    """Follows all events until every session has ended."""

    caller: Caller
    open: set[str]
    last_stage: str
    count: int = 0
    received: int = 0
    lines: int = 0
    faults: list[str] = field(default_factory=list)
    _last_id: str = FROM_THE_START
    _last_seq: int = 0
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def follow(self) -> None:
        """Read events, from another server whenever a line is lost."""
        while self.open:
            with contextlib.suppress(httpx2.TransportError):
                async for event in self._read_line():
                    await self._take(event)
                    if not self.open:
                        return
            await asyncio.sleep(PAUSE_S)

    async def wait_for(self, received: int) -> None:
        """Wait until so many contributions have been told of."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.received >= received)

    async def _read_line(self) -> AsyncIterator[Event | StateReset]:
        headers = {"Last-Event-ID": self._last_id}
        url = f"{self.caller.choose_url()}/events"
        async with self.caller.client.stream("GET", url, headers=headers) as answer:
            if answer.status_code != 200:
                return
            self.lines += 1
            parser = EventParser()
            async for piece in answer.aiter_bytes():
                for frame in parser.feed(piece):
                    self._last_id = frame.id or self._last_id
                    yield parse_event(frame)
                self._last_id = parser.last_id or self._last_id

    async def _take(self, event: Event | StateReset) -> None:
        if isinstance(event, StateReset):
            self.faults.append(f"a state instead of events: {event.reason}")
            return
        if event.type in CHANGES:  # they have the number of the last event, and may repeat
            return
        if event.id <= self._last_seq:
            self.faults.append(f"event {event.id} came after {self._last_seq}")
        self._last_seq = event.id
        self.count += 1
        match event.data:
            case ContributionReceived():
                self.received += 1
            case StageEnded(stage_slug=self.last_stage):
                session_id = str(event.session_id)
                if session_id not in self.open:
                    self.faults.append(f"the end of {session_id} was told again")
                self.open.discard(session_id)
            case _:
                pass
        async with self._changed:
            self._changed.notify_all()
