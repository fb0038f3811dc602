"""The simulator as an ASGI application: requests in, responses out, and access to the log.

Thin: `service` answers the calls. This module only handles HTTP: it reads requests, sends bytes at
their times, and ends connections; and it notices when a client disconnects.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, MutableMapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import parse_qsl

from dialectic_simulator.framing import End, Frame, Response, encode_json, join_frames
from dialectic_simulator.log import build_report
from dialectic_simulator.routes import Target, find_target
from dialectic_simulator.script import Script
from dialectic_simulator.service import BODY_BYTES_MAX, Clock, Desk, Gates, Incoming, Progress

# Where the server stores the connection, so that a fault can reset it.
TRANSPORT = "transport"

Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
Receive = Callable[[], Awaitable[Message]]


class App:
    """An ASGI application."""

    def __init__(
        self, script: Script, *, clock: Clock = time.monotonic, wall_clock: Clock = time.time
    ) -> None:
        self.desk = Desk(script, clock=clock, wall_clock=wall_clock)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http", "only HTTP is served"
        incoming = await _read_incoming(scope, receive)
        if incoming is None:
            return
        line = Line(send, scope["state"][TRANSPORT], self.desk.gates)
        told = self._find_told(incoming) or self._resolve_target(incoming)
        if isinstance(told, Target):
            await self._serve(told, incoming, line, receive)
        else:
            await line.play(told, Progress(), lambda: None)

    def _find_told(self, incoming: Incoming) -> Response | None:
        """Find the response to a request that only reads the log."""
        log = self.desk.log
        match incoming.method, incoming.path:
            case "GET", "/log":
                return _tell({"calls": [call.as_json() for call in log.calls]})
            case "POST", "/log/clear":
                log.clear()
                return _tell({"calls": []})
            case "GET", "/report":
                return _tell(build_report(log.calls).as_json())
            case "GET", "/plants":
                return _tell(self.desk.describe_plants())
            case _:
                return None

    def _resolve_target(self, incoming: Incoming) -> Target | Response:
        """Find the target of a call; if it has none, say what exists."""
        target = find_target(incoming.method, incoming.path, incoming.headers)
        if target is None:
            return _complain(f"{incoming.method} {incoming.path} was not found.")
        names = self.desk.script.endpoint_names
        if target.endpoint not in names:
            known = ", ".join(names)
            return _complain(f"Endpoint {target.endpoint!r} was not found. Known: {known}.")
        return target

    async def _serve(
        self, target: Target, incoming: Incoming, line: Line, receive: Receive
    ) -> None:
        """Answer one call, until the client disconnects."""
        visit = self.desk.open_visit(target, incoming)
        progress = Progress()

        async def answer() -> None:
            response = await self.desk.answer(visit)
            close = partial(self.desk.close_visit, visit, progress, response.finish)
            await line.play(response, progress, close)

        try:
            await _run_while_connected(answer(), receive)
        finally:
            self.desk.close_visit(visit, progress, hung_up=True)


async def _run_while_connected(work: Coroutine[Any, Any, None], receive: Receive) -> None:
    """Run a coroutine until it ends or the client disconnects."""
    working = asyncio.ensure_future(work)
    hanging_up = asyncio.ensure_future(_wait_for_disconnect(receive))
    try:
        await asyncio.wait({working, hanging_up}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
            # The server also reports an end that we caused ourselves in this way.
            await hanging_up
    finally:
        working.cancel()
        hanging_up.cancel()
        await asyncio.gather(working, hanging_up, return_exceptions=True)


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _read_incoming(scope: Message, receive: Receive) -> Incoming | None:
    """Read a whole request; None if the client disconnected. Drop a body that is far too long."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        if len(body) <= BODY_BYTES_MAX:
            body += message.get("body", b"")
        if not message.get("more_body", False):
            break
    return Incoming(
        method=scope["method"],
        path=scope["path"],
        headers={
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        },
        query=dict(parse_qsl(scope["query_string"].decode("latin-1"))),
        body=bytes(body),
    )


def _tell(value: Mapping[str, object]) -> Response:
    return Response(frames=(Frame(encode_json(value)),))


def _complain(words: str) -> Response:
    told = encode_json({"error": {"message": words, "type": "not_found"}})
    return Response(status=404, frames=(Frame(told),))


@dataclass(frozen=True, slots=True)
class Line:
    """The connection on which a response is sent."""

    send: Send
    transport: asyncio.Transport
    gates: Gates

    async def play(
        self, response: Response, progress: Progress, on_end: Callable[[], None]
    ) -> None:
        """Send a response. A hanging one never returns: the client has to disconnect.

        The end is recorded just before the client can notice it, so that a client that has its
        answer finds it in the log.
        """
        await self.gates.pass_through(*response.gates)
        late = response.late_gate
        started_s = asyncio.get_running_loop().time()
        # With a gate in the middle, send every frame by itself, so that the gate is not skipped.
        frames = join_frames(response.frames) if late is None else response.frames
        for left, frame in zip(reversed(range(len(frames))), frames, strict=True):
            if late is not None and progress.tokens >= response.late_gate_tokens:
                await self.gates.pass_through(late)
            await _sleep_until(started_s + frame.at_s)
            if progress.status is None:
                await self._begin(response, progress)
            progress.tokens += frame.tokens
            if left == 0 and response.end is End.DONE:
                progress.is_complete = True
                on_end()
            await self.send({"type": "http.response.body", "body": frame.data, "more_body": True})
        await self._end(response, on_end)

    async def _begin(self, response: Response, progress: Progress) -> None:
        headers = {"content-type": response.content_type, **response.headers}
        encoded = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
        progress.status = response.status
        await self.send(
            {"type": "http.response.start", "status": response.status, "headers": encoded}
        )

    async def _end(self, response: Response, on_end: Callable[[], None]) -> None:
        match response.end:
            case End.DONE:
                await self.send({"type": "http.response.body", "body": b"", "more_body": False})
            case End.CLOSE:
                on_end()
                self.transport.close()
            case End.RESET:
                on_end()
                _reset(self.transport)
            case End.HANG:
                await asyncio.Event().wait()


async def _sleep_until(at_s: float) -> None:
    left_s = at_s - asyncio.get_running_loop().time()
    if left_s > 0:
        await asyncio.sleep(left_s)


def _reset(transport: asyncio.Transport) -> None:
    """Close a connection with a reset (RST) instead of an orderly end."""
    held: socket.socket = transport.get_extra_info("socket")
    held.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
