"""Remembers the option `--json`, so that errors are printed as JSON too."""

from __future__ import annotations

import click

KEPT = "dialectic.json"


def keep_json_option(command: click.Command) -> None:
    """Make a command, or each command of a group, remember `--json`."""
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            keep_json_option(inner)
        return
    for option in command.params:
        if option.name == "as_json":
            option.callback = _keep


def _keep(context: click.Context, _parameter: object, value: object) -> object:
    context.meta[KEPT] = bool(value)
    return value


def speaks_json() -> bool:
    """Return whether the running command has `--json`."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(KEPT))
