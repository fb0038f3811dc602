"""What asks a command to leave: ^C, a supervisor's SIGTERM, a terminal that is closed.

The form of logs: text for people, lines of JSON for programs; both without keys.

Every line of JSON carries the ids of what was being done. What libraries and errors say may hold
what users wrote: of an exception JSON tells its kind and its place, and leaves its words out.

What the subcommands share: an event loop, logs, and text that is safe to show.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import shutil
import signal
import sys
import textwrap
import traceback
import unicodedata
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import click

from dialectic.cli.options import find_server_option, keep_remote
from dialectic.core.access import Secret
from dialectic.errors import UsageError
from dialectic.settings import Settings
from dialectic.telemetry import list_ids

Handle = Callable[[signal.Signals], None]

_current: ContextVar[Handle | None] = ContextVar("current", default=None)


@contextmanager
def handling_signals(handle: Handle) -> Iterator[None]:
    """Call back instead of dying; afterwards whoever was called before is called again."""
    token = _current.set(handle)
    _install(handle)
    try:
        yield
    finally:
        _current.reset(token)
        _install(_current.get())


def _install(handle: Handle | None) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # `nohup` has asked for the terminal's end to be ignored.
        if number is signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
            continue
        if handle is None:
            loop.remove_signal_handler(number)
        else:
            loop.add_signal_handler(number, handle, number)


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


class JsonLines(Discreet):
    """Writes a record as one JSON object; what is JSON already becomes part of it."""

    def format(self, record: logging.LogRecord) -> str:
        found: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            **list_ids(),
        }
        message = record.getMessage()
        said = _find_object(message)
        found |= {"message": message} if said is None else said
        if record.exc_info:
            kind, _, trace = record.exc_info
            found |= {"error": kind.__name__ if kind else "", "places": list_places(trace)}
        return self.redact(json.dumps(found, ensure_ascii=False))


def list_places(trace: TracebackType | None) -> list[str]:
    """List where an exception came by, outermost first."""
    return [f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in traceback.extract_tb(trace)]


def _find_object(message: str) -> dict[str, Any] | None:
    if not message.startswith("{"):
        return None
    try:
        found = json.loads(message)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


T = TypeVar("T")
WIDTH_MIN = 40


def run_async(main: Coroutine[Any, Any, T]) -> T:
    """Run a subcommand's coroutine on the quickest event loop there is.

    Whatever asks the command to leave makes it leave in order, as ^C does: a server that it
    started does not outlive it.
    """
    import uvloop

    async def run_until() -> T:
        task = asyncio.current_task()
        assert task is not None

        def leave(_number: signal.Signals) -> None:
            task.cancel()

        with handling_signals(leave):
            return await main

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            return runner.run(run_until())
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None


def load_settings(*, knows_server: bool = False, is_server: bool = False) -> Settings:
    """Load the settings and let logging follow them; servers log JSON unless told otherwise.

    A command that has no form for a server elsewhere refuses one: it would act on this machine
    while another was meant.
    """
    settings = Settings.load()
    if (named := find_server_option()) is not None:
        settings = replace(settings, server=named)
    keep_remote(is_remote=bool(settings.server))
    if settings.server and not knows_server:
        raise UsageError(
            f"This command acts on this machine alone, not on the server at {settings.server}. "
            'Run it there, or say --server "" to act here.',
            reason="local_only",
            subject="--server",
        )
    handler = logging.StreamHandler(sys.stderr)
    is_json = settings.log_format == "json" or (is_server and settings.log_format == "auto")
    handler.setFormatter((JsonLines if is_json else Discreet)(settings.secrets))
    logging.basicConfig(level=settings.log_level, handlers=[handler])
    # Both report a lost connection many times over, with tracebacks; the worker says it once.
    for name in ("pgqueuer", "asyncpg"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return settings


def echo_json(value: Any) -> None:
    """Print one JSON value; times and ids as text."""

    def plain(thing: object) -> str:
        return thing.isoformat() if isinstance(thing, datetime) else str(thing)

    click.echo(json.dumps(value, ensure_ascii=False, default=plain))


def echo_lines(lines: Iterable[str]) -> None:
    """Print lines for people; in a terminal, broken between words."""
    shown = printable("\n".join(lines))
    click.echo(wrap(shown, shutil.get_terminal_size().columns) if sys.stdout.isatty() else shown)


def printable(text: str) -> str:
    """Blank out what could command a terminal: control characters but line ends and tabs."""
    return "".join(" " if unicodedata.category(c) == "Cc" and c not in "\n\t" else c for c in text)


def show_time(moment: datetime) -> str:
    """Show a moment as the clock on this person's wall has it."""
    return f"{moment.astimezone():%Y-%m-%d %H:%M}"


def count(number: int, noun: str) -> str:
    """Put a number before a noun, which takes an s unless there is one."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def say(text: str) -> None:
    """Tell the person at the terminal something that is not a document, if anyone is there."""
    with contextlib.suppress(OSError):
        shown = printable(text)
        if sys.stderr.isatty():
            shown = wrap(shown, shutil.get_terminal_size().columns)
        click.echo(shown, err=True)


def wrap(text: str, width: int) -> str:
    """Break lines between words where a terminal would break them anywhere; below, indented."""
    return "\n".join(
        textwrap.fill(
            line,
            max(width, WIDTH_MIN),
            subsequent_indent=" " * (len(line) - len(line.lstrip(" "))),
            break_long_words=False,
            break_on_hyphens=False,
            drop_whitespace=True,
            replace_whitespace=False,
        )
        if len(line) > width
        else line
        for line in text.split("\n")
    )
