"""Options that are given with nothing in them, as by a variable of a script that is not set.

What is not given has a default; what is given empty was meant to be something, and a default in its
place could ask other models, or go on for longer, than its user has paid attention to.
"""

from __future__ import annotations

from typing import Any

import click
from click.core import ParameterSource

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
