"""An option that is given with nothing in it is refused; one that is left out has its default."""

from __future__ import annotations

import click
import pytest

from dialectic.cli.options import MAY_BE_EMPTY
from tests.cases import each_case
from tests.unit.cli.test_examples import COMMANDS

WORDS = [
    (command, option.opts[0])
    for command in COMMANDS.values()
    for option in command.params
    if isinstance(option, click.Option)
    and not option.is_flag
    and option.name not in MAY_BE_EMPTY
    and not isinstance(option.type, click.types.IntParamType | click.Choice)
]


@each_case(("command", "option"), WORDS)
def test_an_option_with_nothing_in_it_is_refused(command: click.Command, option: str) -> None:
    with pytest.raises(click.BadParameter) as caught:
        command.make_context("command", [option, ""])
    assert option in caught.value.format_message()
    assert "is empty" in caught.value.format_message()


def test_an_option_that_is_left_out_has_its_default() -> None:
    context = COMMANDS["run"].make_context("run", ["x"])
    assert context.params["models"] == ""
    assert context.params["until"] is context.params["out"] is None
