"""When a request is sent again."""

from __future__ import annotations

from dialectic.client.retry import (
    TRIES_MAX,
    TRIES_UNDER_WAY_MAX,
    WAIT_MAX_S,
    HttpReply,
    decide_wait,
)

AWAY = HttpReply(503, {"retry-after": "3"}, b"")


def test_what_may_have_been_done_is_sent_again_only_under_its_name() -> None:
    assert decide_wait(1, can_repeat=False, heard=None) is None
    assert decide_wait(1, can_repeat=False, heard=AWAY) is None
    assert decide_wait(1, can_repeat=True, heard=None) is not None


def test_waits_grow_and_end() -> None:
    waits = [decide_wait(tries, can_repeat=True, heard=None) for tries in range(1, TRIES_MAX + 1)]

    assert waits[-1] is None
    assert [
        wait is not None and 0 < wait <= 0.2 * 2**n for n, wait in enumerate(waits[:-1], 1)
    ] == [True] * (TRIES_MAX - 1)


def test_a_server_that_says_when_to_come_back_is_believed_within_limits() -> None:
    long = HttpReply(429, {"retry-after": "3600"}, b"")

    assert decide_wait(1, can_repeat=True, heard=AWAY) == 3.0
    assert decide_wait(1, can_repeat=True, heard=long) == WAIT_MAX_S


def test_an_answer_is_an_answer_unless_the_same_request_is_under_way() -> None:
    def ask(status: int, body: bytes) -> float | None:
        return decide_wait(1, can_repeat=True, heard=HttpReply(status, {}, body))

    assert ask(200, b"") is None
    assert ask(404, b"{}") is None
    assert ask(409, b'{"code": "conflict"}') is None
    assert ask(409, b"[]") is None
    assert ask(409, b'{"code": "in_progress"}') is not None


def test_what_is_being_answered_is_waited_for_as_long_as_a_model_may_take() -> None:
    def ask(tries: int) -> float | None:
        heard = HttpReply(409, {}, b'{"code": "in_progress"}')
        return decide_wait(tries, can_repeat=True, heard=heard)

    assert ask(TRIES_MAX) is not None
    assert ask(TRIES_UNDER_WAY_MAX) is None


def test_a_gateway_without_a_server_behind_it_is_asked_again_and_a_failed_model_is_not() -> None:
    def ask(status: int, body: bytes) -> float | None:
        return decide_wait(1, can_repeat=True, heard=HttpReply(status, {}, body))

    assert ask(502, b"<html>") is not None
    assert ask(504, b"") is not None
    assert ask(502, b'{"code": "provider_transient"}') is None
