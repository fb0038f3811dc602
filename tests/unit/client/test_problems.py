"""Problems become the errors of the tree."""

from __future__ import annotations

import json

import pytest

from dialectic import errors
from dialectic.client import ApiError, ApiRefusal
from dialectic.client.problems import build_error
from dialectic.errors import ConfigurationError, DialecticError, ExitCode, ServerUnreachable

KINDS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, DialecticError) and kind is not DialecticError
]


def tell(code: str, status: int) -> DialecticError:
    problem = {"title": "T", "status": status, "detail": "What is wrong.", "code": code}
    return build_error(status, json.dumps({**problem, "request_id": "r1"}).encode())


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_error_of_the_tree_comes_back_as_itself(kind: type[DialecticError]) -> None:
    error = tell(kind.code, kind.status)

    assert type(error) is kind
    assert error.message == "What is wrong."
    assert error.__notes__ == ["request r1"]


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
    assert f"HTTP {status}" in error.message


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"title": 1}'])
def test_an_answer_of_something_else_is_told_as_that(body: bytes) -> None:
    error = build_error(404, body)

    assert type(error) is ConfigurationError
    assert "as Dialectic does (HTTP 404)" in error.message
