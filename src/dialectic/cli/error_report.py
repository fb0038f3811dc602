"""Reports errors at the terminal: the message, its code, and the command that helps.

With `--json` one JSON object instead. Knows which server the command line means, not what went on.
"""

from __future__ import annotations

import contextlib
import json
from typing import Any

import click

from dialectic.cli.json_option import speaks_json
from dialectic.cli.options import find_server_option, is_remote
from dialectic.cli.remedies import describe_remedy, render_command
from dialectic.cli.terminal import printable, say
from dialectic.errors import DialecticError, Remedy, read_remedy


def report_error(error: DialecticError) -> None:
    """Tell the person or the program that called what went wrong, and what helps."""
    if speaks_json():
        shown = json.dumps({"error": describe_error(error)}, ensure_ascii=False)
        with contextlib.suppress(OSError):
            click.echo(shown, err=True)
        return
    say(f"dialectic: {mark(error.message, error.code)}")
    say_remedy(error.remedy)


def describe_error(error: DialecticError) -> dict[str, Any]:
    """Describe an error to a program."""
    remedy = error.remedy
    command = None
    if remedy is not None:
        command = render_command(
            remedy, named_server=find_server_option() or "", is_remote=is_remote()
        )
    return {
        "code": error.code,
        "reason": error.reason,
        "message": error.message,
        "remedy": None if remedy is None else remedy.as_dict(),
        "command": command,
        "exit_code": int(error.exit_code),
    }


def mark(message: str, code: str) -> str:
    """Put the code that scripts go by behind a message."""
    return f"{message} [{code}]"


def say_remedy(remedy: Remedy | None) -> None:
    """Advise the command that helps, on a line of its own that is never broken."""
    if (line := advise(remedy)) is not None:
        with contextlib.suppress(OSError):
            click.echo(printable(f"  {line}"), err=True)


def advise(remedy: Remedy | None) -> str | None:
    """Write the line that advises a remedy as it is typed here; None if nothing is to be typed."""
    return describe_remedy(remedy, named_server=find_server_option() or "", is_remote=is_remote())


def advise_stored(entry: dict[str, Any]) -> str | None:
    """Write the line that advises the remedy of an error that a job has kept."""
    return advise(read_remedy(entry.get("remedy")))
