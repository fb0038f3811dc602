"""The option `--server`, which every command has, before or behind its name. Knows no settings."""

from __future__ import annotations

import re

import click

KEPT = "dialectic.server"


def keep_server_option(context: click.Context, _parameter: object, url: str | None) -> None:
    """Keep the server that an option names, wherever on the line it stands."""
    if url is not None:
        context.meta[KEPT] = url


def find_server_option() -> str | None:
    """Find the server that the command line names; "" means this machine."""
    context = click.get_current_context(silent=True)
    named: str | None = None if context is None else context.meta.get(KEPT)
    return named


def name_command(words: str) -> str:
    """Name a command as it is typed here: with the server, if this command line has named one."""
    server = find_server_option()
    return f"dialectic --server {server} {words}" if server else f"dialectic {words}"


def name_commands(text: str) -> str:
    """Name the commands about a session in a message that was written elsewhere as typed here."""
    return re.sub(r"`dialectic ((?:resume|retry|status|watch) )", f"`{name_command('')}\\1", text)


def take_server_option(command: click.Command) -> None:
    """Let a command, or each of a group's, take the option behind its name too."""
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            take_server_option(inner)
    elif not any(one.name == "server" for one in command.params):
        command.params.append(
            click.Option(["--server"], expose_value=False, callback=keep_server_option, hidden=True)
        )
