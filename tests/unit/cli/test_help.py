"""The help of every command fits a terminal, says first what it is for, and is found by a slip."""

from __future__ import annotations

import click
import pytest
from click.exceptions import NoSuchCommand

from dialectic.cli.main import COMMANDS, EVERYDAY, SECTIONS, cli
from tests.cases import each_case
from tests.unit.cli.test_examples import list_commands

WIDTH, HEIGHT = 80, 40
# As the program has them: click keeps the option with the command.
HELP = ["-h", "--help"]


def list_helps() -> dict[str, str]:
    found = {
        "": cli.get_help(
            click.Context(cli, info_name="dialectic", terminal_width=WIDTH, help_option_names=HELP)
        )
    }
    context = click.Context(
        cli, info_name="dialectic", terminal_width=WIDTH, help_option_names=HELP
    )
    names = {*list_commands(cli), *COMMANDS}
    for name in sorted(names):
        place: click.Context = context
        for word in name.split():
            assert isinstance(place.command, click.Group)
            command = place.command.get_command(place, word)
            assert command is not None
            place = click.Context(command, info_name=word, parent=place, terminal_width=WIDTH)
        found[name] = place.command.get_help(place)
    return found


HELPS = list_helps()


@each_case("name", HELPS)
def test_a_help_fits_a_terminal_of_80_columns_and_40_lines(name: str) -> None:
    lines = HELPS[name].splitlines()
    assert len(lines) <= HEIGHT, len(lines)
    assert [line for line in lines if len(line) > WIDTH] == []


@each_case("name", HELPS)
def test_a_help_begins_with_what_the_command_is_for(name: str) -> None:
    usage, blank, purpose, *_ = HELPS[name].splitlines()
    assert usage.startswith(f"Usage: dialectic {name}".rstrip())
    assert blank == ""
    assert purpose.startswith("  ")
    assert purpose.strip()[0].isupper()


def test_the_overview_names_every_command_by_task() -> None:
    overview = HELPS[""]
    words = overview.replace(",", " ").split()
    assert [name for name in COMMANDS if name not in words] == []
    assert [title for title in SECTIONS.values() if f"{title}:" not in overview] == []
    assert COMMANDS.keys() >= EVERYDAY


@each_case(("slip", "meant"), [("STAUTS", "status"), ("Regen", "regenerate"), ("modles", "models")])
def test_a_misspelt_command_is_suggested(slip: str, meant: str) -> None:
    with pytest.raises(NoSuchCommand) as caught:
        cli.resolve_command(click.Context(cli), [slip])
    assert caught.value.format_message() == f"No such command {slip!r}. Did you mean {meant!r}?"


def test_another_word_is_not_taken_for_a_command() -> None:
    with pytest.raises(NoSuchCommand) as caught:
        cli.resolve_command(click.Context(cli), ["xyzzy"])
    assert "Did you mean" not in caught.value.format_message()
