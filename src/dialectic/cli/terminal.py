"""What the subcommands share: signals, event loop, logs, and safe terminal output.

Logs are text for people or JSON lines for programs; both without keys.

Every JSON line carries the ids of its context. The message of an exception may hold user data, so
JSON logs only its type and place.

Signals are ^C, a supervisor's SIGTERM, and a closed terminal.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
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
from typing import Any, TextIO, TypeVar

import click

from dialectic.cli.options import find_server_option, keep_remote
from dialectic.core.access import Secret
from dialectic.errors import UsageError
from dialectic.settings import Settings
from dialectic.telemetry import list_hidden, list_ids

Handle = Callable[[signal.Signals], None]

_current: ContextVar[Handle | None] = ContextVar("current", default=None)


@contextmanager
def handling_signals(handle: Handle) -> Iterator[None]:
    """Handle signals with a callback; restore the previous handlers afterwards."""
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
        # `nohup` set SIGHUP to be ignored.
        if number is signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
            continue
        if handle is None:
            loop.remove_signal_handler(number)
        else:
            loop.add_signal_handler(number, handle, number)


class Discreet(logging.Formatter):
    """Removes keys from logs: libraries log server responses, which may repeat a key."""

    def __init__(self, keys: list[Secret]) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._keys = keys

    def format(self, record: logging.LogRecord) -> str:
        return self.redact(super().format(record))

    def redact(self, line: str) -> str:
        """Redact every key in a line."""
        for key in (*self._keys, *list_hidden()):
            line = key.redact(line)
        return line


class JsonLines(Discreet):
    """Writes a record as one JSON object; a JSON message becomes part of it."""

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
    """List the places in an exception's traceback, outermost first."""
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
    """Run a subcommand's coroutine on the fastest available event loop.

    Every stop signal ends the command cleanly, as ^C does, so that no server it started outlives
    it. Before and after, ^C may end the process at once.
    """
    import uvloop

    async def run_until() -> T:
        task = asyncio.current_task()
        assert task is not None

        def leave(_number: signal.Signals) -> None:
            task.cancel()

        with handling_signals(leave):
            return await main

    ends_at_once = signal.getsignal(signal.SIGINT) is signal.SIG_DFL
    if ends_at_once:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(run_until())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    finally:
        if ends_at_once:
            signal.signal(signal.SIGINT, signal.SIG_DFL)


def load_settings(*, knows_server: bool = False, is_server: bool = False) -> Settings:
    """Load the settings and set up logging; servers log JSON by default.

    A local-only command rejects a server setting: it would act on the wrong machine.
    """
    settings = Settings.load()
    if (named := find_server_option()) is not None:
        settings = replace(settings, server=named)
    keep_remote(is_remote=bool(settings.server))
    if settings.server and not knows_server:
        raise UsageError(
            f"This command works only on this machine, not on the server at {settings.server}. "
            'Run it there, or add --server "" to run it here.',
            reason="local_only",
            subject="--server",
        )
    handler = _LogHandler(sys.stderr)
    is_json = settings.log_format == "json" or (is_server and settings.log_format == "auto")
    handler.setFormatter((JsonLines if is_json else Discreet)(settings.secrets))
    logging.basicConfig(level=settings.log_level, handlers=[handler])
    # Both log a lost connection repeatedly, with tracebacks; the worker logs it once.
    for name in ("pgqueuer", "asyncpg"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return settings


def echo_json(value: Any) -> None:
    """Print one JSON value: a response by its fields, times and ids as text."""

    def plain(thing: object) -> object:
        if (dump := getattr(thing, "model_dump", None)) is not None:  # of pydantic
            return dump()
        return thing.isoformat() if isinstance(thing, datetime) else str(thing)

    click.echo(json.dumps(value, ensure_ascii=False, default=plain))


def echo_lines(lines: Iterable[str]) -> None:
    """Print lines for people; on a terminal, wrapped between words."""
    shown = printable("\n".join(lines))
    click.echo(wrap(shown, shutil.get_terminal_size().columns) if sys.stdout.isatty() else shown)


def printable(text: str) -> str:
    """Replace terminal control characters, except line breaks and tabs."""
    return "".join(" " if unicodedata.category(c) == "Cc" and c not in "\n\t" else c for c in text)


def show_time(moment: datetime) -> str:
    """Format a time in the local time zone."""
    return f"{moment.astimezone():%Y-%m-%d %H:%M}"


def count(number: int, noun: str) -> str:
    """Format a number and its noun, with a plural s unless the number is one."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


@contextmanager
def dropping_output() -> Iterator[None]:
    """Drop the rest of the output if its reader has closed the pipe: it wanted no more."""
    try:
        yield
    except BrokenPipeError:
        drop_output(1)


def drop_output(*numbers: int) -> None:
    """Send what is still buffered for these descriptors nowhere, or the exit would fail on it."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in numbers:
        os.dup2(nowhere, number)
    os.close(nowhere)


# What prints messages while a live view owns the terminal: others would tear it.
_voices: list[Callable[[str], None]] = []


@contextmanager
def speaking_through(voice: Callable[[str], None]) -> Iterator[None]:
    """Let all messages and log lines be printed by a live view."""
    _voices.append(voice)
    try:
        yield
    finally:
        _voices.remove(voice)


class _LogHandler(logging.StreamHandler[TextIO]):
    """Writes log lines to a stream, or above a live view."""

    def emit(self, record: logging.LogRecord) -> None:
        if _voices:
            _voices[-1](self.format(record))
        else:
            super().emit(record)


def say(text: str, *, wraps: bool = True) -> None:
    """Print a message to stderr, if it is open; a path stays on one line without `wraps`."""
    with contextlib.suppress(OSError):
        shown = printable(text)
        if _voices:
            _voices[-1](shown)
            return
        if wraps and sys.stderr.isatty():
            shown = wrap(shown, shutil.get_terminal_size().columns)
        click.echo(shown, err=True)


def has_person() -> bool:
    """Tell whether a person can see a question and answer it."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def prompt(question: str, *, default: str | None = None, hidden: bool = False) -> str:
    """Read a line outside the event loop; a hidden one is not shown while it is typed."""
    with _interruptible():
        found = click.prompt(
            printable(question),
            default=default,
            show_default=bool(default),
            hide_input=hidden,
            err=True,
        )
    return str(found).strip()


def confirm(question: str) -> bool:
    """Ask a yes-or-no question outside the event loop; no is the default."""
    with _interruptible():
        return click.confirm(printable(question), err=True)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let ^C raise, so that a terminal that hides its input is restored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


async def ask_yes(question: str) -> bool:
    """Ask a question that only `y` or `yes` affirms."""
    return (await ask(question)).lower() in ("y", "yes")


async def ask(question: str) -> str:
    """Read the answer to a question from the terminal; "" at its end."""
    return (await read_terminal_line(question)).strip()


def wrap(text: str, width: int) -> str:
    """Wrap lines between words at the terminal's width, with an indent."""
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


async def read_terminal_line(prompt: str) -> str:
    """Read a line from the terminal so that ^C still ends the command at once.

    A thread that reads could not be stopped. At a terminal, a readable input has a whole line.
    """
    click.echo(printable(prompt), err=True, nl=False)
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[str] = loop.create_future()

    def read() -> None:
        loop.remove_reader(sys.stdin.fileno())
        if not answer.done():
            answer.set_result(sys.stdin.readline())

    loop.add_reader(sys.stdin.fileno(), read)
    try:
        return await answer
    except asyncio.CancelledError:
        click.echo(err=True)  # leave the prompt's line
        raise
    finally:
        loop.remove_reader(sys.stdin.fileno())
