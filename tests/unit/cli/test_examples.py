"""Every command has an example, and every example is a command."""

from __future__ import annotations

import shlex

import click

from dialectic.cli.main import EXAMPLES, cli
from tests.cases import each_case


def list_commands(group: click.Group, *before: str) -> dict[str, click.Command]:
    context = click.Context(group)
    found: dict[str, click.Command] = {}
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if not isinstance(command, click.Group) or command.invoke_without_command:
            found[" ".join((*before, name))] = command
        if isinstance(command, click.Group):
            found |= list_commands(command, *before, name)
    return found


COMMANDS = list_commands(cli)
# A terminal's eighty columns, without what stands before an example.
WIDTH = 76
# As the program has them: click keeps the option with the command.
HELP = ["-h", "--help"]


def test_every_command_has_an_example() -> None:
    assert EXAMPLES.keys() == COMMANDS.keys()


@each_case("name", COMMANDS)
def test_an_example_is_a_command_that_is_understood(name: str) -> None:
    for line in EXAMPLES[name]:
        words = shlex.split(line.partition(" | ")[0].partition(" > ")[0].partition(" < ")[0])
        place = len(name.split()) + 1

        assert words[:place] == ["dialectic", *name.split()]
        assert len(line) <= WIDTH
        COMMANDS[name].make_context(name, words[place:], help_option_names=HELP)


@each_case("name", COMMANDS)
def test_a_help_says_what_a_command_does_and_what_each_option_is_for(name: str) -> None:
    command = COMMANDS[name]
    options = [one for one in command.params if isinstance(one, click.Option) and not one.hidden]

    assert command.help
    assert command.help.split(".")[0].isprintable()
    assert [one.name for one in options if not one.help] == []
    assert "Examples:" in command.get_help(
        click.Context(command, info_name=name, help_option_names=HELP)
    )


def test_no_line_of_a_help_is_cut_off() -> None:
    context = click.Context(cli)
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        shown = command.get_help(
            click.Context(command, info_name=name, terminal_width=80, help_option_names=HELP)
        )
        assert [line for line in shown.splitlines()[1:] if line.endswith("...")] == []
