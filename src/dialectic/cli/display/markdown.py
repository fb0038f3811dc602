"""Shows Markdown to people: rendered and paged at a terminal, unchanged in a pipe or a file."""

from __future__ import annotations

import asyncio
import io
import re
import shutil
import signal
import sys

import click

from dialectic.cli.terminal import handling_signals, printable

WIDTH_MAX = 100
# A path in brackets behind each name would make the page unreadable; the file has them.
_LINK_TO_FILE = re.compile(r"(?<!!)\[((?:[^\[\]\\]|\\.)+)\]\((?!https?:)[^()\s]*\)")


async def show_markdown(text: str) -> None:
    """Print a text; at a terminal render it, and page it if it is longer than the screen."""
    if not sys.stdout.isatty():
        click.echo(text, nl=not text.endswith("\n"))
        return
    size = shutil.get_terminal_size()
    rendered = render(text, size.columns)
    if rendered.count("\n") < size.lines:
        click.echo(rendered, nl=False)
        return
    await _page(rendered)


def render(text: str, columns: int) -> str:
    """Render Markdown for a terminal of some columns, without control characters of its own."""
    from rich.console import Console  # imported only if needed
    from rich.markdown import Markdown

    written = io.StringIO()
    console = Console(
        file=written,
        width=min(columns, WIDTH_MAX),
        force_terminal=True,
        highlight=False,
        legacy_windows=False,
    )
    plain = _LINK_TO_FILE.sub(r"\1", printable(text))
    console.print(Markdown(plain, hyperlinks=False))
    return written.getvalue()


async def _page(text: str) -> None:
    """Page a text with the user's pager; ^C belongs to the pager."""
    task = asyncio.current_task()
    assert task is not None, "a command runs in a task"

    def leave(number: signal.Signals) -> None:
        if number is not signal.SIGINT:
            task.cancel()

    with handling_signals(leave):
        await asyncio.to_thread(click.echo_via_pager, text)
