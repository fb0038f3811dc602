"""The simulator as an ASGI application: requests in, responses out, and access to the log.

Thin: `service` answers the calls. This module only handles HTTP and client disconnects.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from functools import partial
from typing import Any
from urllib.parse import parse_qsl

from dialectic_simulator.framing import Frame, Response, encode_json
from dialectic_simulator.log import build_report
from dialectic_simulator.responder import Line, Message, Progress, Receive, Send
from dialectic_simulator.routes import Target, find_target
from dialectic_simulator.script import Script
from dialectic_simulator.service import BODY_BYTES_MAX, Clock, Desk, Incoming

# Where the server stores the connection, so that a fault can reset it.
TRANSPORT = "transport"


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
                return _tell(build_report(log.calls))
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


def _tell(value: dict[str, Any]) -> Response:
    return Response(frames=(Frame(encode_json(value)),))


def _complain(words: str) -> Response:
    told = encode_json({"error": {"message": words, "type": "not_found"}})
    return Response(status=404, frames=(Frame(told),))
