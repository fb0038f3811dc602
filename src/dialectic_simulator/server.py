"""The simulator on a port: started, held, shut down at once. The only module that knows uvicorn."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, cast

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from dialectic.core.models.model import VOCABULARIES
from dialectic.errors import ConfigurationError
from dialectic.net import bind
from dialectic.tokens.encodings import load_encoding
from dialectic_simulator.app import TRANSPORT, App
from dialectic_simulator.conversation import WireName
from dialectic_simulator.log import CallLog, Report, build_report
from dialectic_simulator.routes import build_base_path
from dialectic_simulator.script import DEFAULT_ENDPOINT, Facts, Script, build_script, load_script
from dialectic_simulator.service import Clock

LOOPBACK = "127.0.0.1"
KEEP_ALIVE_S = 60


class Simulator:
    """A running simulator."""

    def __init__(self, app: App, host: str, port: int) -> None:
        self._desk = app.desk
        self.host, self.port = host, port

    @property
    def script(self) -> Script:
        return self._desk.script

    @property
    def log(self) -> CallLog:
        return self._desk.log

    def list_models(self) -> dict[str, Facts]:
        """List the models that the simulator offers."""
        return self._desk.list_models()

    def url(self, path: str = "") -> str:
        """Build the URL of a path, such as `/log`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}{path}"

    def base_url(self, wire: str, endpoint: str | None = None) -> str:
        """Build the base URL for a client of this wire."""
        name = endpoint or DEFAULT_ENDPOINT
        self._check_name(name, self.script.endpoint_names)
        return self.url(build_base_path(WireName(wire), name))

    def hold(self, gate: str = DEFAULT_ENDPOINT) -> None:
        """Hold back answers: of an endpoint, by name, or of calls whose rule names the gate."""
        self._check_name(gate, self._list_gates())
        self._desk.gates.hold(gate)

    def release(self, gate: str = DEFAULT_ENDPOINT) -> None:
        """Release the held answers, and those to come."""
        self._check_name(gate, self._list_gates())
        self._desk.gates.release(gate)

    def _list_gates(self) -> list[str]:
        named = [manner.gate for _, manner in self.script.manners if manner.gate is not None]
        return [*self.script.endpoint_names, *named]

    def _check_name(self, name: str, known: list[str]) -> None:
        if name not in known:
            raise ConfigurationError(
                f"The script has no {name!r}. It has: {', '.join(sorted(set(known)))}.",
                reason="no_script",
                subject=name,
            )

    def reset(self) -> None:
        """Reset: no calls were made, all limits are fresh, all gates are open."""
        self._desk.reset()

    def report(self) -> Report:
        """Sum up tokens and dollars by model."""
        return build_report(self.log.calls)

    async def wait_arrived(self, count: int) -> None:
        """Wait until a number of calls have arrived, whether they are answered or not."""
        await self.log.wait_until(lambda log: len(log) >= count)

    async def wait_ended(self, count: int) -> None:
        """Wait until a number of calls have ended."""
        await self.log.wait_until(lambda log: len(log) - len(log.open_calls) >= count)


@contextlib.asynccontextmanager
async def open_simulator(
    script: Script | Mapping[str, Any] | Path | str | None = None,
    *,
    host: str = LOOPBACK,
    port: int = 0,
    clock: Clock = time.monotonic,
) -> AsyncIterator[Simulator]:
    """Open a running simulator; port 0 lets the system choose one.

    At exit it closes all connections at once and does not wait for endless streams.
    """
    app = App(as_script(script), clock=clock)
    await asyncio.to_thread(_warm_vocabularies, app.desk.script)
    with contextlib.closing(bind(host, port)) as listening:
        server = _build_server(app)
        await server.startup(sockets=[listening])
        try:
            yield Simulator(app, host, listening.getsockname()[1])
        finally:
            await _close(server)


def as_script(script: Script | Mapping[str, Any] | Path | str | None) -> Script:
    """Build a script from any of its forms; a string is the path of a file."""
    if isinstance(script, Script):
        return script
    if isinstance(script, str | Path):
        return load_script(Path(script))
    return build_script(script or {})


def _warm_vocabularies(script: Script) -> None:
    """Load what the first answer would have to wait for; half a second, once per process."""
    used = {facts.tokenizer for facts in script.models.values()}
    used.add(script.get_facts("").tokenizer)
    for name in used.intersection(VOCABULARIES):
        load_encoding(name)


class _Protocol(H11Protocol):
    """An HTTP protocol that shows the application its connection."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast("asyncio.Transport", transport))
        self.app_state = {**self.app_state, TRANSPORT: transport}


def _build_server(app: App) -> uvicorn.Server:
    config = uvicorn.Config(
        app,
        http=_Protocol,
        interface="asgi3",
        loop="none",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        workers=1,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=KEEP_ALIVE_S,
    )
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    return server


async def _close(server: uvicorn.Server) -> None:
    """Close at once: uvicorn would wait for streams that hang on purpose."""
    for listener in server.servers:
        listener.close()
    for connection in list(server.server_state.connections):
        connection.transport.abort()
    if tasks := list(server.server_state.tasks):
        await asyncio.wait(tasks)
    for listener in server.servers:
        await listener.wait_closed()
