"""Problems become the errors of the tree."""

from __future__ import annotations

import json

import pytest

from dialectic import errors
from dialectic.client import ApiError, ApiRefusal
from dialectic.client.problems import build_error
from dialectic.errors import (
    ConfigurationError,
    Conflict,
    DialecticError,
    ExitCode,
    Remedy,
    RemedyAction,
    ServerUnreachable,
)
from tests.cases import each_case

KINDS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, DialecticError) and kind is not DialecticError
]


def tell(code: str, status: int) -> DialecticError:
    problem = {"title": "T", "status": status, "detail": "What is wrong.", "code": code}
    return build_error(status, json.dumps({**problem, "request_id": "r1"}).encode())


@each_case("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_error_of_the_tree_comes_back_as_itself(kind: type[DialecticError]) -> None:
    error = tell(kind.code, kind.status)

    assert type(error) is kind
    assert error.message == "What is wrong."
    assert error.__notes__ == ["request r1"]


def test_an_error_comes_back_with_its_reason_and_what_helps() -> None:
    told = {"action": "resume", "session_id": "41ac"}
    problem = {"title": "T", "status": 409, "detail": "D", "code": "conflict", "request_id": "r1"}
    body = json.dumps({**problem, "reason": "session_paused", "remedy": told}).encode()
    error = build_error(409, body)

    assert type(error) is Conflict
    assert error.reason == "session_paused"
    assert error.remedy == Remedy(RemedyAction.RESUME, session_id="41ac")


def test_a_remedy_that_nobody_knows_is_passed_over() -> None:
    problem = {"title": "T", "status": 409, "detail": "D", "code": "conflict"}
    error = build_error(409, json.dumps({**problem, "remedy": {"action": "fly"}}).encode())

    assert (type(error), error.remedy) == (Conflict, None)


def test_a_code_that_nobody_knows_is_a_refusal_or_a_fault_of_the_server() -> None:
    refused, failed = tell("brand_new", 422), tell("internal", 500)

    assert isinstance(refused, ApiRefusal)
    assert (refused.exit_code, refused.problem["code"]) == (ExitCode.USAGE, "brand_new")
    assert isinstance(failed, ApiError)
    assert failed.exit_code is ExitCode.FAILED


@pytest.mark.parametrize("status", [502, 503, 504])
def test_a_gateway_that_speaks_for_a_server_tells_that_it_is_away(status: int) -> None:
    error = build_error(status, b"<html>")

    assert type(error) is ServerUnreachable
    assert (error.reason, error.subject) == ("gateway", str(status))


@each_case("body", [b"", b"<html>", b"[]", b'{"title": 1}'])
def test_an_answer_of_something_else_is_told_as_that(body: bytes) -> None:
    error = build_error(404, body)

    assert type(error) is ConfigurationError
    assert (error.reason, error.subject) == ("not_dialectic", "404")
