"""Problems become the errors of the tree; some requests are sent again."""

from __future__ import annotations

import json

import httpx2
import pytest

from dialectic import errors
from dialectic.client import ApiError, ApiRefusal
from dialectic.client.replies import (
    TRIES_MAX,
    TRIES_UNDER_WAY_MAX,
    WAIT_MAX_S,
    build_error,
    decide_wait,
)
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

AWAY = httpx2.Response(503, headers={"retry-after": "3"})
LOST = ServerUnreachable()
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


def test_an_unknown_remedy_is_ignored() -> None:
    problem = {"title": "T", "status": 409, "detail": "D", "code": "conflict"}
    error = build_error(409, json.dumps({**problem, "remedy": {"action": "fly"}}).encode())

    assert (type(error), error.remedy) == (Conflict, None)


def test_an_unknown_code_is_a_refusal_or_a_fault_of_the_server() -> None:
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


def test_what_may_have_been_done_is_sent_again_only_under_its_name() -> None:
    assert decide_wait(1, LOST, can_repeat=False) is None
    assert decide_wait(1, AWAY, can_repeat=False) is None
    assert decide_wait(1, LOST, can_repeat=True) is not None


def test_waits_grow_and_end() -> None:
    waits = [decide_wait(tries, LOST, can_repeat=True) for tries in range(1, TRIES_MAX + 1)]

    assert waits[-1] is None
    assert [
        wait is not None and 0 < wait <= 0.2 * 2**n for n, wait in enumerate(waits[:-1], 1)
    ] == [True] * (TRIES_MAX - 1)


def test_a_server_that_says_when_to_come_back_is_believed_within_limits() -> None:
    long = httpx2.Response(429, headers={"retry-after": "3600"})

    assert decide_wait(1, AWAY, can_repeat=True) == 3.0
    assert decide_wait(1, long, can_repeat=True) == WAIT_MAX_S


def test_an_answer_is_an_answer_unless_the_same_request_is_under_way() -> None:
    def ask(status: int, body: bytes) -> float | None:
        return decide_wait(1, httpx2.Response(status, content=body), can_repeat=True)

    assert ask(200, b"") is None
    assert ask(404, b"{}") is None
    assert ask(409, b'{"code": "conflict"}') is None
    assert ask(409, b"[]") is None
    assert ask(409, b'{"code": "in_progress"}') is not None


def test_what_is_being_answered_is_waited_for_as_long_as_a_model_may_take() -> None:
    def ask(tries: int) -> float | None:
        reply = httpx2.Response(409, content=b'{"code": "in_progress"}')
        return decide_wait(tries, reply, can_repeat=True)

    assert ask(TRIES_MAX) is not None
    assert ask(TRIES_UNDER_WAY_MAX) is None


def test_a_gateway_without_a_server_behind_it_is_asked_again_and_a_failed_model_is_not() -> None:
    def ask(status: int, body: bytes) -> float | None:
        return decide_wait(1, httpx2.Response(status, content=body), can_repeat=True)

    assert ask(502, b"<html>") is not None
    assert ask(504, b"") is not None
    assert ask(502, b'{"code": "provider_transient"}') is None
