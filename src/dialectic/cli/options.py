"""Options of every command: `--server`, `--json` for errors too, and the check for empty ones.

An empty option usually comes from an unset shell variable.

It is rejected: a default in its place could call other models, or spend more, than the user meant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import click
from click.core import ParameterSource

KEPT = "dialectic.server"
REMOTE = "dialectic.is_remote"


def keep_server_option(context: click.Context, _parameter: object, url: str | None) -> None:
    """Store the server option, before or after the command."""
    if url is not None:
        context.meta[KEPT] = url


def find_server_option() -> str | None:
    """Return the server of the command line; "" means this machine."""
    context = click.get_current_context(silent=True)
    named: str | None = None if context is None else context.meta.get(KEPT)
    return named


def name_command(words: str) -> str:
    """Write a command as the user must type it, with `--server` if this command line has it."""
    server = find_server_option()
    return f"dialectic --server {server} {words}" if server else f"dialectic {words}"


def keep_remote(*, is_remote: bool) -> None:
    """Store whether a server runs this command, by option or by setting."""
    context = click.get_current_context(silent=True)
    if context is not None:
        context.meta[REMOTE] = is_remote


def is_remote() -> bool:
    """Return whether a server runs this command, as far as known."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(REMOTE, find_server_option()))


def take_server_option(command: click.Command) -> None:
    """Add `--server` to a command, or to each command of a group."""
    for one in list_runnable(command):
        if not any(option.name == "server" for option in one.params):
            option = click.Option(
                ["--server"], expose_value=False, callback=keep_server_option, hidden=True
            )
            one.params.append(option)


def list_runnable(command: click.Command) -> Iterator[click.Command]:
    """List a command, or the commands of a group, and the group if it runs by itself."""
    if not isinstance(command, click.Group):
        yield command
        return
    if command.invoke_without_command:
        yield command
    for inner in command.commands.values():
        yield from list_runnable(inner)


# Options that may be empty: an empty server means this machine.
MAY_BE_EMPTY = frozenset({"server"})


class Filled(click.ParamType[Any]):
    """A text or path that must not be empty."""

    def __init__(self, inner: click.ParamType[Any]) -> None:
        self._inner = inner
        self.name = inner.name

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> object:
        if value == "" and _is_given(param, ctx):
            self.fail("The value is empty. Give a value, or omit the option.", param, ctx)
        return self._inner.convert(value, param, ctx)


def _is_given(param: click.Parameter | None, ctx: click.Context | None) -> bool:
    if ctx is None or param is None or param.name is None:
        return True
    return ctx.get_parameter_source(param.name) is ParameterSource.COMMANDLINE


def refuse_empty_options(command: click.Command) -> None:
    """Make a command, or each command of a group, reject empty options."""
    for option in (option for one in list_runnable(command) for option in one.params):
        takes_words = isinstance(option.type, click.types.StringParamType | click.Path)
        if isinstance(option, click.Option) and takes_words and option.name not in MAY_BE_EMPTY:
            option.type = Filled(option.type)


archived_option = click.option("--archived", is_flag=True, help="Include archived projects.")
strict_option = click.option(
    "--strict", is_flag=True, help="Exit with 1 if a document or a model is missing."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowOptions:
    """How a command follows the session that it works on."""

    quiet: bool = False
    bell: bool = False
    notify: bool = False
    # Also run the jobs of other sessions.
    takes_all: bool = False

    @classmethod
    def take(cls, options: dict[str, Any]) -> FollowOptions:
        """Take these options out of all options of a command."""
        return cls(**{name: options.pop(name) for name in ("quiet", "bell", "notify", "takes_all")})


PLAIN = FollowOptions()

_FOLLOW = (
    click.option("-q", "--quiet", is_flag=True, help="No progress; say only what is wrong."),
    click.option("--bell", is_flag=True, help="Ring the terminal's bell at the end."),
    click.option("--notify", is_flag=True, help="Show a desktop notice at the end."),
    click.option(
        "--all", "takes_all", is_flag=True, help="Also run the waiting jobs of other sessions."
    ),
)


def follow_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of commands that work on a session: `FollowOptions`."""
    for decorate in reversed(_FOLLOW):
        command = decorate(command)
    return command


KEPT_JSON = "dialectic.json"


def keep_json_option(command: click.Command) -> None:
    """Make a command, or each command of a group, remember `--json`."""
    for option in (option for one in list_runnable(command) for option in one.params):
        if option.name == "as_json":
            option.callback = _keep


def _keep(context: click.Context, _parameter: object, value: object) -> object:
    context.meta[KEPT_JSON] = bool(value)
    return value


def speaks_json() -> bool:
    """Return whether the running command has `--json`."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(KEPT_JSON))
