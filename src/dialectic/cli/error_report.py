"""Reports errors on the terminal: the message, its code, and the command that helps.

With `--json` it prints one JSON object instead. Only this module maps remedies to commands.
"""

from __future__ import annotations

import contextlib
import json
from typing import Any

import click

from dialectic.cli.options import find_server_option, is_remote, speaks_json
from dialectic.cli.terminal import printable, say
from dialectic.errors import DialecticError, Remedy, RemedyAction


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


SESSION_CHARS = 8
COMMANDS = {
    RemedyAction.RESUME: "resume {session}",
    RemedyAction.APPROVE_SPEND: "resume {session} --approve-spend",
    RemedyAction.RAISE_BUDGET: "resume {session} --budget USD",
    RemedyAction.RETRY: "retry {session}",
    RemedyAction.START_NEXT: "next {session}",
    RemedyAction.ITERATE: "iterate {session}",
    RemedyAction.WATCH: "watch {session}",
    RemedyAction.DROP_SEAT: "seat drop {session} {seat}",
    RemedyAction.REPLACE_SEAT: "seat replace {session} {seat} MODEL",
    RemedyAction.START_SESSION: 'run "…"',
    RemedyAction.SHOW_COSTS: "wallet costs {session}",
    RemedyAction.QUOTE_RUN: 'run "…" --dry-run',
    RemedyAction.CHOOSE_MODEL: "models list",
    RemedyAction.CHOOSE_DEFAULTS: 'init --models "{model}"',
    RemedyAction.ADD_ENDPOINT: "endpoint add {endpoint} --url URL --model M,window=N,output=N",
    RemedyAction.LIST_ENDPOINTS: "endpoint list",
    RemedyAction.LIST_SESSIONS: "status",
    RemedyAction.LIST_CONTRIBUTIONS: "list {session}",
    RemedyAction.LIST_JOBS: "status {session}",
    RemedyAction.LIST_CHATS: "chat --list",
    RemedyAction.LIST_NOTIFICATIONS: "notifications",
}
# Other commands that help, after the first.
ALTERNATIVES = {
    RemedyAction.CHOOSE_DEFAULTS: ('run "…" --models "{model}"', "models list"),
}
# These need the machine with the database: for a server, its operator runs them.
OPERATOR_COMMANDS = {
    RemedyAction.TOP_UP: "wallet topup {amount}",
    RemedyAction.LIST_USERS: "user list",
    RemedyAction.LIST_TOKENS: "user list {user}",
    RemedyAction.LIST_ORGANIZATIONS: "org list --as {user}",
    RemedyAction.CREATE_TOKEN: "user token {user}",
    RemedyAction.ADD_USER: "user add {user} --token",
    RemedyAction.CHECK_SETUP: "doctor",
    RemedyAction.MIGRATE_DATABASE: "db migrate",
}


def render_command(
    remedy: Remedy, *, named_server: str = "", is_remote: bool = False
) -> str | None:
    """Write a remedy as a command line; None if it has no command.

    `named_server` is the server of this command line; the remedy repeats it. `is_remote` means that
    a server runs the command, by option or by setting.
    """
    action = remedy.action
    if action is RemedyAction.TRY_AGAIN:
        return None
    if action is RemedyAction.CONFIGURE:
        return f"export {remedy.setting}=…"
    names = _list_names(remedy)
    if action in OPERATOR_COMMANDS:
        words = OPERATOR_COMMANDS[action].format(**names)
        return f"dialectic {words}{_list_options(remedy, is_remote=is_remote)}"
    server = f"--server {named_server} " if named_server else ""
    return f"dialectic {server}{COMMANDS[action].format(**names)}"


def _list_names(remedy: Remedy) -> dict[str, str]:
    return {
        "session": (remedy.session_id or "SESSION")[:SESSION_CHARS],
        "seat": "N" if remedy.seat is None else str(remedy.seat),
        "user": remedy.user or "NAME",
        "amount": "--play 1000" if remedy.is_play else "20",
        "model": remedy.model or "MODEL",
        "endpoint": remedy.endpoint or "NAME",
    }


def _list_options(remedy: Remedy, *, is_remote: bool) -> str:
    if remedy.action is RemedyAction.CREATE_TOKEN and remedy.scope:
        return f" --scope {remedy.scope}"
    return " --as NAME" if remedy.action is RemedyAction.TOP_UP and is_remote else ""


def describe_remedy(
    remedy: Remedy | None, *, named_server: str = "", is_remote: bool = False
) -> str | None:
    """Build the advice of a remedy, with who runs it; None if it has no command.

    Where several commands help, each has its line.
    """
    if remedy is None:
        return None
    command = render_command(remedy, named_server=named_server, is_remote=is_remote)
    if command is None:
        return None
    is_operators = remedy.action in OPERATOR_COMMANDS or remedy.action is RemedyAction.CONFIGURE
    who = "on the server" if is_remote and is_operators else "try"
    others = (words.format(**_list_names(remedy)) for words in ALTERNATIVES.get(remedy.action, ()))
    return "\n".join([f"{who}: {command}", *(f"   or: dialectic {words}" for words in others)])
