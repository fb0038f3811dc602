"""The option `--server`, which every command has, before or behind its name. Knows no settings.

Options that are given with nothing in them, as by a variable of a script that is not set.

What is not given has a default; what is given empty was meant to be something, and a default in its
place could ask other models, or go on for longer, than its user has paid attention to.
"""

from __future__ import annotations

from typing import Any

import click
from click.core import ParameterSource

KEPT = "dialectic.server"
REMOTE = "dialectic.is_remote"


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


def keep_remote(*, is_remote: bool) -> None:
    """Remember whether a server does the work of this command, by its option or by a setting."""
    context = click.get_current_context(silent=True)
    if context is not None:
        context.meta[REMOTE] = is_remote


def is_remote() -> bool:
    """Say whether a server does the work of this command, as far as that is known."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(REMOTE, find_server_option()))


def take_server_option(command: click.Command) -> None:
    """Let a command, or each of a group's, take the option behind its name too."""
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            take_server_option(inner)
    elif not any(one.name == "server" for one in command.params):
        command.params.append(
            click.Option(["--server"], expose_value=False, callback=keep_server_option, hidden=True)
        )


# What may be nothing: no server means this machine.
MAY_BE_EMPTY = frozenset({"server"})


class Filled(click.ParamType[Any]):
    """A text or a path that is not empty where it is given."""

    def __init__(self, inner: click.ParamType[Any]) -> None:
        self._inner = inner
        self.name = inner.name

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> object:
        if value == "" and _is_given(param, ctx):
            self.fail("it is empty. Give a value, or leave the option out.", param, ctx)
        return self._inner.convert(value, param, ctx)


def _is_given(param: click.Parameter | None, ctx: click.Context | None) -> bool:
    if ctx is None or param is None or param.name is None:
        return True
    return ctx.get_parameter_source(param.name) is ParameterSource.COMMANDLINE


def refuse_empty_options(command: click.Command) -> None:
    """Let a command, or each of a group's, refuse options that are given with nothing in them."""
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            refuse_empty_options(inner)
        return
    for option in command.params:
        takes_words = isinstance(option.type, click.types.StringParamType | click.Path)
        if isinstance(option, click.Option) and takes_words and option.name not in MAY_BE_EMPTY:
            option.type = Filled(option.type)
