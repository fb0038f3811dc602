"""A remedy is shown as a command that exists, typed by the one who can."""

from __future__ import annotations

import json
import shlex

import click
import pytest

from dialectic.cli.error_report import describe_remedy, render_command, report_error
from dialectic.cli.main import cli
from dialectic.cli.options import KEPT, keep_remote
from dialectic.cli.options import KEPT_JSON as SPEAKS_JSON
from dialectic.errors import Conflict, FundsError, Remedy, RemedyAction, read_remedy
from tests.cases import each_case
from tests.problems import list_codes, list_commands

SESSION = "0123abcd-0000-4000-8000-000000000000"
THERE = "http://there"
RESUME = Remedy(RemedyAction.RESUME, session_id=SESSION)
WITHOUT_COMMAND = {RemedyAction.TRY_AGAIN, RemedyAction.CONFIGURE}
PAUSED = Conflict("Session 0123 is paused.", reason="session_paused", remedy=RESUME)


def follow(words: list[str]) -> tuple[click.Command, list[str]]:
    """Follow the words of a command line to the command that they name."""
    command: click.Command = cli
    context = click.Context(cli)
    while isinstance(command, click.Group) and (words or not command.invoke_without_command):
        name, *words = words
        inner = command.get_command(context, name)
        assert inner is not None, name
        command = inner
    return command, words


@each_case("action", sorted(set(RemedyAction) - WITHOUT_COMMAND))
@each_case("is_play", [False, True])
@each_case("is_remote", [False, True])
def test_every_remedy_is_a_command_that_exists_with_options_that_it_has(
    action: RemedyAction, is_play: bool, is_remote: bool
) -> None:
    remedy = Remedy(action, session_id=SESSION, seat=2, scope="read", user="anna", is_play=is_play)
    line = render_command(remedy, is_remote=is_remote)
    assert line is not None
    program, *words = shlex.split(line)
    command, rest = follow(words)
    options = {name for param in command.params for name in param.opts}
    assert program == "dialectic"
    assert {word for word in rest if word.startswith("--")} <= options
    # It would be taken as it is: no argument is missing, none is too many.
    numbers = ["5" if word == "USD" else word for word in rest]
    command.make_context(command.name, numbers, resilient_parsing=False).close()


def test_redelivered_and_configured_texts_are_not_commands_of_ours() -> None:
    assert render_command(Remedy(RemedyAction.TRY_AGAIN)) is None
    key = Remedy(RemedyAction.CONFIGURE, setting="OPENAI_API_KEY")
    assert render_command(key) == "export OPENAI_API_KEY=…"


def test_a_command_about_a_session_names_the_server_and_one_of_its_operator_does_not() -> None:
    topup = Remedy(RemedyAction.TOP_UP)
    assert describe_remedy(RESUME) == "try: dialectic resume 0123abcd"
    assert describe_remedy(topup) == "try: dialectic wallet topup 20"
    assert (
        describe_remedy(RESUME, named_server=THERE, is_remote=True)
        == f"try: dialectic --server {THERE} resume 0123abcd"
    )
    assert (
        describe_remedy(topup, named_server=THERE, is_remote=True)
        == "on the server: dialectic wallet topup 20 --as NAME"
    )


def test_an_error_is_one_line_with_its_code_and_a_line_with_the_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    report_error(PAUSED)
    said = capsys.readouterr().err
    assert said.splitlines()[0] == "dialectic: Session 0123 is paused. [conflict]"
    assert list_codes(said) == ["conflict"]
    assert list_commands(said) == ["dialectic resume 0123abcd"]


def test_at_a_server_the_report_says_who_types_the_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with click.Context(click.Command("run")) as context:
        context.meta[KEPT] = THERE
        keep_remote(is_remote=True)
        report_error(FundsError(remedy=Remedy(RemedyAction.TOP_UP, is_play=True)))
        report_error(PAUSED)
    said = capsys.readouterr().err
    assert list_commands(said) == [
        "dialectic wallet topup --play 1000 --as NAME",
        f"dialectic --server {THERE} resume 0123abcd",
    ]


def test_with_json_an_error_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    with click.Context(click.Command("status")) as context:
        context.meta[SPEAKS_JSON] = True
        report_error(PAUSED)
    (line,) = capsys.readouterr().err.splitlines()
    assert json.loads(line) == {
        "error": {
            "code": "conflict",
            "reason": "session_paused",
            "message": "Session 0123 is paused.",
            "remedy": {"action": "resume", "session_id": SESSION},
            "command": "dialectic resume 0123abcd",
            "exit_code": 2,
        }
    }


@each_case("action", RemedyAction)
def test_a_remedy_survives_json(action: RemedyAction) -> None:
    remedy = Remedy(action, session_id=SESSION, model="m", is_play=False)
    assert read_remedy(json.loads(json.dumps(remedy.as_dict()))) == remedy


@each_case("told", [None, "resume", {}, {"action": "fly"}, {"action": None}, []])
def test_a_remedy_of_a_newer_version_is_passed_over(told: object) -> None:
    assert read_remedy(told) is None


def test_only_what_is_about_a_session_is_given_one() -> None:
    assert Remedy(RemedyAction.RESUME).for_session(SESSION) == RESUME
    assert RESUME.for_session("another") == RESUME
    assert Remedy(RemedyAction.TOP_UP).for_session(SESSION).session_id is None
