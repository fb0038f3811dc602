"""A provider that says no is understood, and the error says what to do."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dialectic.core.access import Secret
from dialectic.errors import (
    ContextWindowError,
    Fate,
    ProviderAuth,
    ProviderFiltered,
    ProviderMalformed,
    ProviderQuota,
    ProviderRejected,
    ProviderThrottled,
    ProviderTransient,
)
from tests.conformance.fault_rows import row
from tests.conformance.provider_client import KEY, KEY_VARIABLE, Client
from tests.conformance.scripted_socket import Hang
from tests.conformance.wire_formats import Chat, Content, Data, Messages

NOON = "Mon, 16 Nov 2026 12:00:00 GMT"


def throttled(client: Client) -> Data:
    codes = {Chat.kind: "rate_limit_exceeded", Messages.kind: "rate_limit_error"}
    code = codes.get(client.dialect.kind, "resource_exhausted")
    return client.dialect.error(status=429, code=code, message="Too fast.")


@row(1, "429 and Retry-After 7")
async def test_a_provider_that_asks_for_a_wait_gets_it(client: Client) -> None:
    client.wire.play_json(throttled(client), status=429, headers={"retry-after": "7"})

    error = await client.fail(ProviderThrottled)

    assert error.retry_after_s == 7.0
    assert "Too fast." in error.message
    assert "429" in error.message
    assert not error.remains.was_sent


@row(2, "429 and a Retry-After that makes no sense, or a date")
@pytest.mark.parametrize(
    ("headers", "expected_s"),
    [
        ({"retry-after": "Mon, 16 Nov 2026 11:00:00 GMT", "date": NOON}, None),
        ({"retry-after": "Mon, 16 Nov 2026 12:00:09 GMT", "date": NOON}, 9.0),
        ({"retry-after": "Mon, 16 Nov 2026 12:00:09 GMT"}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "NaN"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "1_000"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "9" * 400}, None),
        ({"retry-after": "315360000"}, 315_360_000.0),
        ({"retry-after-ms": "1500", "retry-after": "7"}, 1.5),
        ({"retry-after-ms": "x", "retry-after": "7"}, 7.0),
        ({}, None),
    ],
)
async def test_only_a_wait_that_is_a_number_is_passed_on(
    client: Client, headers: dict[str, str], expected_s: float | None
) -> None:
    client.wire.play_json(throttled(client), status=429, headers=headers)

    assert (await client.fail(ProviderThrottled)).retry_after_s == expected_s


@row(3, "429 because the money is spent")
async def test_an_account_without_credit_is_not_taken_for_a_full_minute(client: Client) -> None:
    bodies: dict[str, Data] = {
        Chat.kind: {"error": {"type": "insufficient_quota", "code": "insufficient_quota"}},
        Messages.kind: {
            "type": "error",
            "error": {
                "type": "rate_limit_error",
                "details": {"error_code": "enforced_spend_limit_reached"},
            },
        },
        Content.kind: {
            "error": {
                "code": 429,
                "status": "RESOURCE_EXHAUSTED",
                "details": [{"reason": "BILLING_DISABLED"}],
            }
        },
    }
    client.wire.play_json(bodies[client.dialect.kind], status=429)

    error = await client.fail(ProviderQuota)

    assert error.fate is Fate.PAUSE
    assert not error.remains.was_sent


async def test_the_word_billing_in_a_message_is_not_a_code(client: Client) -> None:
    body = client.dialect.error(
        status=429, code="rate_limit_error", message="See your insufficient_quota billing page."
    )
    client.wire.play_json(body, status=429)

    await client.fail(ProviderThrottled)


@row(3, "402")
async def test_402_is_an_account_without_credit_unless_it_says_when_to_retry(
    client: Client,
) -> None:
    client.wire.play_json({"error": {"message": "Pay."}}, status=402)
    client.wire.play_json({"error": {"message": "Wait."}}, status=402, headers={"retry-after": "3"})

    await client.fail(ProviderQuota)

    assert (await client.fail(ProviderThrottled)).retry_after_s == 3.0


@row(4, "401 and 403")
@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_key_is_named_by_its_variable_and_never_shown(
    client: Client, status: int
) -> None:
    message = f"Incorrect API key provided: {KEY}. {'x' * 500} {KEY}"
    body = client.dialect.error(status=status, code="authentication_error", message=message)
    client.wire.play_json(body, status=status)

    error = await client.fail(ProviderAuth)

    assert KEY_VARIABLE in error.message
    assert "Incorrect API key provided: ***" in error.message
    assert len(error.message) < 600
    assert error.fate is Fate.FAIL
    assert not error.remains.was_sent


async def test_a_key_that_is_repeated_in_an_answer_is_not_kept(client: Client) -> None:
    headers = {"x-request-id": f"req-{KEY}"}
    client.wire.play_answer(client.dialect.stream("Well.", word=f"no-{KEY}"), headers=headers)

    reply = await client.ask()

    assert (reply.request_id, reply.raw_finish_reason) == ("req-***", "no-***")
    assert KEY not in str(reply.raw)


async def test_a_key_that_is_repeated_as_the_kind_of_an_answer_is_not_shown(client: Client) -> None:
    client.wire.play_answer(b"Hello.", content_type=f"text/{KEY.upper()}; for={KEY}")
    client.key = Secret(KEY.upper())

    error = await client.fail(ProviderMalformed)

    assert KEY not in error.message.lower()


@row(4, "400 for a wrong key, as Google says it")
async def test_a_key_that_is_refused_as_a_bad_request_is_a_refused_key(client: Client) -> None:
    body = {
        "error": {
            "code": 400,
            "status": "INVALID_ARGUMENT",
            "message": "API key not valid.",
            "details": [{"reason": "API_KEY_INVALID"}],
        }
    }
    client.wire.play_json(body, status=400)

    await client.fail(ProviderAuth)


@row(5, "400 because the request is too long")
async def test_a_request_that_is_too_long_is_told_with_its_figures(client: Client) -> None:
    body: Data = {
        Chat.kind: client.dialect.error(
            status=400,
            code="context_length_exceeded",
            message="This model's maximum context length is 8000 tokens. However, your messages "
            "resulted in 9001 tokens. Please reduce the length of the messages.",
        ),
        Messages.kind: client.dialect.error(
            status=400,
            code="invalid_request_error",
            message="prompt is too long: 9001 tokens > 8000 maximum",
        ),
        Content.kind: client.dialect.error(
            status=400,
            code="invalid_argument",
            message="The input token count (9001) exceeds the maximum number of tokens allowed "
            "(8000).",
        ),
    }[client.dialect.kind]
    client.wire.play_json(body, status=400)

    error = await client.fail(ContextWindowError)

    assert "9001" in error.message
    assert "8000" in error.message
    assert "m-1" in error.message


@row(5, "llama.cpp: the request is too long")
async def test_a_local_server_says_too_long_with_its_own_code(client: Client) -> None:
    error = {"code": 400, "type": "exceed_context_size_error", "message": "the request exceeds it"}
    figures = {"n_prompt_tokens": 9001, "n_ctx": 8000}
    client.wire.play_json({"error": error | figures}, status=400)

    message = (await client.fail(ContextWindowError)).message

    assert "9001 tokens of at most 8000" in message


@row(6, "404 unknown model")
async def test_a_model_that_is_gone_is_named(client: Client) -> None:
    body = client.dialect.error(status=404, code="not_found", message="No such model.")
    client.wire.play_json(body, status=404)

    error = await client.fail(ProviderRejected)

    assert "'m-1'" in error.message
    assert error.fate is Fate.FAIL


@row(7, "413")
async def test_a_request_that_is_too_large_is_too_long(client: Client) -> None:
    client.wire.play_json(client.dialect.error(status=413, code="request_too_large"), status=413)

    await client.fail(ContextWindowError)


@row(8, "500, 502, 503, 529 and their like")
@pytest.mark.parametrize(
    ("status", "was_sent"),
    [
        (408, True),
        (409, False),
        (425, False),
        (500, True),
        (502, True),
        (503, False),
        (504, True),
        (529, False),
        (599, True),
    ],
)
async def test_what_may_pass_is_tried_again(client: Client, status: int, was_sent: bool) -> None:
    body = b"<html>upstream is sad</html>"
    client.wire.play_answer(body, status=status, content_type="text/html")

    error = await client.fail(ProviderTransient)

    assert error.fate is Fate.RETRY
    assert error.remains.was_sent is was_sent
    assert error.remains.raw["body"] == body.decode()
    assert error.remains.raw["status"] == status


@pytest.mark.parametrize("status", [400, 405, 422, 451])
async def test_a_request_that_is_wrong_is_not_sent_again(client: Client, status: int) -> None:
    body = client.dialect.error(
        status=status, code="invalid_argument", message="`temperature` is not taken."
    )
    client.wire.play_json(body, status=status)

    error = await client.fail(ProviderRejected)

    assert "`temperature` is not taken." in error.message
    assert not error.remains.was_sent


async def test_a_filter_in_front_of_the_model_is_a_filter(client: Client) -> None:
    client.wire.play_json({"error": {"code": "content_filter"}}, status=400)

    await client.fail(ProviderFiltered)


@row(9, "200 with an error inside")
@pytest.mark.parametrize(
    ("inner", "kind", "was_sent"),
    [
        ({"code": 401, "message": "No."}, ProviderAuth, False),
        ({"code": 429, "message": "No."}, ProviderThrottled, False),
        ({"code": "429", "message": "No."}, ProviderThrottled, False),
        ({"code": 502, "message": "No."}, ProviderTransient, True),
        ({"code": "insufficient_quota"}, ProviderQuota, True),
        ({"type": "overloaded_error"}, ProviderTransient, True),
        ({"type": "invalid_request_error"}, ProviderRejected, True),
        ({"code": "context_length_exceeded"}, ContextWindowError, None),
        ("the model fell over", ProviderTransient, True),
    ],
)
@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "stream"])
async def test_an_error_inside_a_success_is_an_error(
    client: Client, inner: Any, kind: Any, was_sent: bool | None, is_stream: bool
) -> None:
    body = {"type": "error", "error": inner}
    if is_stream:
        client.wire.play_answer(b"data: " + json.dumps(body).encode() + b"\n\n")
    else:
        client.wire.play_json(body)

    error = await client.fail(kind)

    if was_sent is not None:
        assert error.remains.was_sent is was_sent


async def test_an_error_event_needs_no_form(client: Client) -> None:
    client.wire.play_answer(b'event: error\ndata: {"message": "It fell over.", "code": 503}\n\n')

    assert "It fell over." in (await client.fail(ProviderTransient)).message


@row(10, "200 with the page of a login")
@pytest.mark.parametrize("content_type", ["text/html; charset=utf-8", "text/plain", None])
async def test_a_login_page_is_not_an_answer(client: Client, content_type: str | None) -> None:
    page = f"<html>Log in, {KEY}</html>".encode() + b" " * 100_000
    client.wire.play_answer(page, content_type=content_type)

    error = await client.fail(ProviderMalformed)

    assert error.retries_max == 2
    assert error.remains.raw["body"].startswith("<html>Log in, ***</html>")
    assert len(error.remains.raw["body"]) <= 4_000
    assert "base_url" in error.message


async def test_a_redirect_is_not_followed(client: Client) -> None:
    client.wire.play_answer(status=307, headers={"location": f"{client.wire.url}/elsewhere"})

    error = await client.fail(ProviderRejected)

    assert len(client.wire.heard) == 1
    assert "base_url" in error.message


async def test_an_error_without_a_body_is_told_by_its_status(client: Client) -> None:
    client.wire.play_answer(status=500, content_type=None)

    assert "500" in (await client.fail(ProviderTransient)).message


async def test_an_error_whose_body_never_comes_is_told_by_its_status(client: Client) -> None:
    client.wire.play_answer(Hang(), status=502)
    client.options = {"first_byte_s": 0.2}

    assert "502" in (await client.fail(ProviderTransient)).message


async def test_a_plain_word_of_a_gateway_is_quoted(client: Client) -> None:
    client.wire.play_answer(b"upstream is away", status=502, content_type="text/plain")

    assert "upstream is away" in (await client.fail(ProviderTransient)).message


async def test_words_from_elsewhere_cannot_draw_on_a_terminal(client: Client) -> None:
    message = "No.\x1b[2J\u202e\nnever\x00"
    body = client.dialect.error(status=400, code="invalid_argument", message=message)
    client.wire.play_json(body, status=400)

    shown = (await client.fail(ProviderRejected)).message

    assert shown.isprintable()
    assert "never" in shown
