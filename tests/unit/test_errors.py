"""The tree of errors is complete, and every error says what happens to the job that meets it."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from http import HTTPStatus

import dialectic
from dialectic import errors
from dialectic.errors import DialecticError, ExitCode, Fate, Remedy, RemedyAction
from tests.cases import each_case


def import_everything() -> None:
    for module in pkgutil.walk_packages(dialectic.__path__, "dialectic."):
        if not module.name.endswith(".__main__"):
            importlib.import_module(module.name)


def list_errors(top: type[DialecticError] = DialecticError) -> Iterator[type[DialecticError]]:
    yield top
    for child in top.__subclasses__():
        yield from list_errors(child)


import_everything()
EVERY = [error for error in list_errors() if error.__module__.startswith("dialectic.")]
LEAVES = [error for error in EVERY if not error.__subclasses__()]
every_error = each_case("error", EVERY, ids=lambda error: error.__name__)


def test_every_leaf_has_a_code_of_its_own() -> None:
    codes = [error.__dict__.get("code") for error in LEAVES]
    assert None not in codes
    assert len(set(codes)) == len(codes)


def test_no_two_errors_share_a_code() -> None:
    assert len({error.code for error in EVERY}) == len(EVERY)


@every_error
def test_an_error_says_what_it_means_to_a_person_a_client_a_shell_and_a_job(
    error: type[DialecticError],
) -> None:
    assert error.__dict__["__doc__"].endswith(".")
    assert re.fullmatch(r"[a-z]+(_[a-z]+)*", error.code)
    assert HTTPStatus(error.status) >= HTTPStatus.BAD_REQUEST
    assert error.exit_code in set(ExitCode) - {ExitCode.DONE, ExitCode.INTERRUPTED}
    assert error.fate in Fate


@every_error
def test_an_error_without_words_says_what_it_is(error: type[DialecticError]) -> None:
    assert error().message == error.__doc__ == str(error())
    assert error("The moon is down.").message == "The moon is down."


@every_error
def test_the_words_and_the_remedy_of_an_error_are_apart(error: type[DialecticError]) -> None:
    remedy = Remedy(RemedyAction.RESUME, session_id="41ac")
    made = error("It is paused.", remedy=remedy, reason="paused", subject="41ac", limit=3)
    assert not re.search(r"\bdialectic [a-z]", error().message)
    assert (made.remedy, made.reason, made.subject, made.limit) == (remedy, "paused", "41ac", 3)
    assert error().remedy == error.remedy, "what helps without words"


def test_a_provider_can_say_when_to_come_back() -> None:
    assert errors.ProviderThrottled("Slow down.", retry_after_s=3.0).retry_after_s == 3.0
    assert errors.ProviderThrottled().retry_after_s is None
