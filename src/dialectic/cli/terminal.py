"""What the subcommands share: an event loop, logs, and text that is safe to show."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import shutil
import signal
import sys
import textwrap
import unicodedata
from collections.abc import Coroutine, Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar

import click

from dialectic.cli.logs import Discreet, JsonLines
from dialectic.cli.server_option import find_server_option
from dialectic.cli.signals import handling_signals
from dialectic.errors import UsageError
from dialectic.settings import Settings

T = TypeVar("T")
WIDTH_MIN = 40


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


def load_settings(*, knows_server: bool = False, is_server: bool = False) -> Settings:
    """Load the settings and let logging follow them; servers log JSON unless told otherwise.

    A command that has no form for a server elsewhere refuses one: it would act on this machine
    while another was meant.
    """
    settings = Settings.load()
    if (named := find_server_option()) is not None:
        settings = replace(settings, server=named)
    if settings.server and not knows_server:
        raise UsageError(
            f"This command acts on this machine alone, not on the server at {settings.server}. "
            'Run it there, or say --server "" to act here.'
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
