"""The option `--json` of many commands: remembered, so that errors speak JSON too."""

from __future__ import annotations

import click

KEPT = "dialectic.json"


def keep_json_option(command: click.Command) -> None:
    """Let a command, or each of a group's, remember that it was told to speak JSON."""
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
    """Say whether the command that runs was told to speak JSON."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(KEPT))
