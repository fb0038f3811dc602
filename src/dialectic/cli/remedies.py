"""Maps remedies to the commands that a user types. Pure.

This is the only such mapping.
"""

from __future__ import annotations

from dialectic.errors import Remedy, RemedyAction

SESSION_CHARS = 8
COMMANDS = {
    RemedyAction.RESUME: "resume {session}",
    RemedyAction.APPROVE_SPEND: "resume {session} --approve-spend",
    RemedyAction.RAISE_BUDGET: "resume {session} --budget USD",
    RemedyAction.RETRY: "retry {session}",
    RemedyAction.ITERATE: "iterate {session}",
    RemedyAction.WATCH: "watch {session}",
    RemedyAction.START_SESSION: 'run "…"',
    RemedyAction.SHOW_COSTS: "wallet costs {session}",
    RemedyAction.QUOTE_RUN: 'run "…" --dry-run',
    RemedyAction.CHOOSE_MODEL: "models list",
    RemedyAction.LIST_SESSIONS: "status",
    RemedyAction.LIST_CONTRIBUTIONS: "list {session}",
    RemedyAction.LIST_JOBS: "status {session}",
    RemedyAction.LIST_CHATS: "chat --list",
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
    names = {
        "session": (remedy.session_id or "SESSION")[:SESSION_CHARS],
        "user": remedy.user or "NAME",
        "amount": "--play 1000" if remedy.is_play else "20",
    }
    if action in OPERATOR_COMMANDS:
        words = OPERATOR_COMMANDS[action].format(**names)
        return f"dialectic {words}{_list_options(remedy, is_remote=is_remote)}"
    server = f"--server {named_server} " if named_server else ""
    return f"dialectic {server}{COMMANDS[action].format(**names)}"


def _list_options(remedy: Remedy, *, is_remote: bool) -> str:
    if remedy.action is RemedyAction.CREATE_TOKEN and remedy.scope:
        return f" --scope {remedy.scope}"
    return " --as NAME" if remedy.action is RemedyAction.TOP_UP and is_remote else ""


def describe_remedy(
    remedy: Remedy | None, *, named_server: str = "", is_remote: bool = False
) -> str | None:
    """Build the advice line of a remedy, with who runs it; None if it has no command."""
    if remedy is None:
        return None
    command = render_command(remedy, named_server=named_server, is_remote=is_remote)
    if command is None:
        return None
    is_operators = remedy.action in OPERATOR_COMMANDS or remedy.action is RemedyAction.CONFIGURE
    who = "on the server" if is_remote and is_operators else "try"
    return f"{who}: {command}"
