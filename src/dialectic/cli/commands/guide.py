"""`dialectic help, completion`: the help of any command, and completion for the shell."""

from __future__ import annotations

import click
from click.exceptions import NoSuchCommand
from click.shell_completion import get_completion_class

from dialectic.cli.completion import VARIABLE

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("words", metavar="[COMMAND]...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="List every command, one per line.")
@click.pass_context
def help_(context: click.Context, words: tuple[str, ...], *, everything: bool) -> None:
    """Show the help of COMMAND, or an overview of all commands."""
    parent = context.parent
    assert parent is not None, "it is a command of a group"
    command: click.Command = parent.command
    place = parent
    for word in words:
        assert isinstance(command, click.Group) or words, "only a group has commands"
        inner = command.get_command(place, word) if isinstance(command, click.Group) else None
        if inner is None:
            known = command.list_commands(place) if isinstance(command, click.Group) else []
            raise NoSuchCommand(word, possibilities=known, ctx=place)
        place = click.Context(inner, info_name=word, parent=place)
        command = inner
    if not words:
        place.meta["dialectic.everything"] = everything
    click.echo(command.get_help(place))


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the script that lets SHELL complete commands, ids and names."""
    kind = get_completion_class(shell)
    assert kind is not None, "click knows these shells"
    click.echo(kind(click.Group(), {}, "dialectic", VARIABLE).source())
