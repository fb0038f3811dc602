"""Reports errors on the terminal: the message, its code, and the command that helps.

With `--json` it prints one JSON object instead.
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
from dialectic.errors import DialecticError, Remedy


def report_error(error: DialecticError) -> None:
    """Print an error and its remedy, for a person or a program."""
    if speaks_json():
        shown = json.dumps({"error": describe_error(error)}, ensure_ascii=False)
        with contextlib.suppress(OSError):
            click.echo(shown, err=True)
        return
    say(f"dialectic: {mark(error.message, error.code)}")
    say_remedy(error.remedy)


def describe_error(error: DialecticError) -> dict[str, Any]:
    """Build the JSON object of an error."""
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
    """Append the error code, which scripts rely on, to a message."""
    return f"{message} [{code}]"


def say_remedy(remedy: Remedy | None) -> None:
    """Print the command that helps on its own line, never wrapped."""
    if (line := advise(remedy)) is not None:
        with contextlib.suppress(OSError):
            click.echo(printable(f"  {line}"), err=True)


def advise(remedy: Remedy | None) -> str | None:
    """Build the advice line of a remedy; None if it has no command."""
    return describe_remedy(remedy, named_server=find_server_option() or "", is_remote=is_remote())
