"""What the subcommands share: an event loop, logs, and text that is safe to show."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import signal
import sys
import unicodedata
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NoReturn, TypeVar

import click

from dialectic.accounts import load_owner
from dialectic.cli.signals import handling_signals
from dialectic.domain.secret import Secret
from dialectic.engine import Engine, open_engine
from dialectic.errors import ExitCode
from dialectic.providers.catalog import build_catalog
from dialectic.settings import Settings
from dialectic.store.records import Account

T = TypeVar("T")


def run_async(main: Coroutine[Any, Any, T]) -> T:
    """Run a subcommand's coroutine on the quickest event loop there is.

    Whatever asks the command to leave makes it leave in order, as ^C does: a server that it
    started does not outlive it.
    """
    import uvloop

    async def attend() -> T:
        task = asyncio.current_task()
        assert task is not None

        def leave(_number: signal.Signals) -> None:
            task.cancel()

        with handling_signals(leave):
            return await main

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            return runner.run(attend())
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None


class Discreet(logging.Formatter):
    """Writes logs without keys: libraries log what servers say, and those may repeat a key."""

    def __init__(self, keys: list[Secret]) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._keys = keys

    def format(self, record: logging.LogRecord) -> str:
        return self.redact(super().format(record))

    def redact(self, line: str) -> str:
        """Take every key out of a line."""
        for key in self._keys:
            line = key.redact(line)
        return line


def load_settings() -> Settings:
    """Load the settings and let logging follow them."""
    settings = Settings.load()
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Discreet(settings.secrets))
    logging.basicConfig(level=settings.log_level, handlers=[handler])
    # Both report a lost connection many times over, with tracebacks; the worker says it once.
    for name in ("pgqueuer", "asyncpg"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return settings


@dataclass(frozen=True, slots=True)
class Desk:
    """An engine and the account of the person at this terminal."""

    engine: Engine
    account: Account


Act = Callable[[Desk], Awaitable[ExitCode]]


@asynccontextmanager
async def open_desk(settings: Settings) -> AsyncIterator[Desk]:
    """Open the engine for the local user, whose account is made at the first start."""
    async with open_engine(settings, build_catalog(settings)) as engine:
        yield Desk(engine, await load_owner(engine.db))


def act_at_desk(act: Act) -> NoReturn:
    """Do something at a desk, and leave with the code it gives."""

    async def main() -> ExitCode:
        async with open_desk(load_settings()) as desk:
            return await act(desk)

    sys.exit(run_async(main()))


def echo_json(value: Any) -> None:
    """Print one JSON value; times and ids as text."""

    def plain(thing: object) -> str:
        return thing.isoformat() if isinstance(thing, datetime) else str(thing)

    click.echo(json.dumps(value, ensure_ascii=False, default=plain))


def printable(text: str) -> str:
    """Blank out what could command a terminal: control characters but line ends and tabs."""
    return "".join(" " if unicodedata.category(c) == "Cc" and c not in "\n\t" else c for c in text)


def count(number: int, noun: str) -> str:
    """Put a number before a noun, which takes an s unless there is one."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def say(text: str) -> None:
    """Tell the person at the terminal something that is not a document, if anyone is there."""
    with contextlib.suppress(OSError):
        click.echo(printable(text), err=True)
