"""Statuses and codes, each with its class."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dialectic.providers.error_taxonomy import (
    GENERAL,
    TELLING,
    TURNED_AWAY,
    Complaint,
    Kind,
    classify,
    find_retry_after_s,
    is_error,
    read_complaint,
)
from tests.cases import each_case

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "providers.md"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(
            st.sampled_from(["error", "code", "type", "status", "message", "details", "reason"])
            | st.text(),
            inner,
        )
    ),
    max_leaves=10,
)


@each_case(
    ("status", "kind"),
    [
        (301, Kind.REDIRECT),
        (307, Kind.REDIRECT),
        (400, Kind.REJECTED),
        (401, Kind.AUTH),
        (402, Kind.QUOTA),
        (403, Kind.AUTH),
        (404, Kind.MODEL),
        (405, Kind.REJECTED),
        (408, Kind.TRANSIENT),
        (409, Kind.TRANSIENT),
        (410, Kind.MODEL),
        (413, Kind.CONTEXT),
        (418, Kind.REJECTED),
        (422, Kind.REJECTED),
        (425, Kind.TRANSIENT),
        (429, Kind.THROTTLED),
        (499, Kind.TRANSIENT),
        (500, Kind.TRANSIENT),
        (501, Kind.TRANSIENT),
        (502, Kind.TRANSIENT),
        (503, Kind.TRANSIENT),
        (504, Kind.TRANSIENT),
        (529, Kind.TRANSIENT),
        (200, Kind.TRANSIENT),
    ],
)
def test_a_status_alone_has_its_class(status: int, kind: Kind) -> None:
    assert classify(Complaint(status)) is kind


@each_case(
    ("status", "body", "kind"),
    [
        (429, {"error": {"type": "insufficient_quota"}}, Kind.QUOTA),
        (429, {"error": {"code": "billing_hard_limit_reached"}}, Kind.QUOTA),
        (
            429,
            {"error": {"details": {"error_code": "enforced_spend_limit_reached"}}},
            Kind.QUOTA,
        ),
        (429, {"error": {"code": "rate_limit_exceeded", "type": "tokens"}}, Kind.THROTTLED),
        (429, {"error": {"message": "insufficient_quota"}}, Kind.THROTTLED),
        (402, {"error": {"type": "billing_error"}}, Kind.QUOTA),
        (403, {"error": {"details": [{"reason": "BILLING_DISABLED"}]}}, Kind.QUOTA),
        (400, {"error": {"details": [{"reason": "API_KEY_INVALID"}]}}, Kind.AUTH),
        (401, {"error": {"code": "invalid_api_key", "type": "invalid_request_error"}}, Kind.AUTH),
        (400, {"error": {"code": "model_not_found"}}, Kind.MODEL),
        (400, {"error": {"code": "context_length_exceeded"}}, Kind.CONTEXT),
        (500, {"error": {"type": "exceed_context_size_error"}}, Kind.CONTEXT),
        (400, {"error": {"message": "prompt is too long"}}, Kind.CONTEXT),
        (400, {"error": {"message": "Your prompt is too long"}}, Kind.REJECTED),
        (500, {"error": {"message": "prompt is too long"}}, Kind.TRANSIENT),
        (
            400,
            {"error": {"message": "input length and `max_tokens` exceed context limit: 9 + 9 > 9"}},
            Kind.CONTEXT,
        ),
        (400, {"error": {"code": "content_filter"}}, Kind.FILTERED),
        (
            400,
            {"object": "error", "message": "This model's maximum context length is 9 tokens."},
            Kind.CONTEXT,
        ),
        (529, {"error": {"type": "overloaded_error"}}, Kind.TRANSIENT),
        (400, "just text", Kind.REJECTED),
        (400, None, Kind.REJECTED),
        (200, {"error": {"code": 429}}, Kind.THROTTLED),
        (200, {"error": {"code": "401"}}, Kind.AUTH),
        (200, {"error": {"status": 402}}, Kind.QUOTA),
        (200, {"error": {"status_code": 413}}, Kind.CONTEXT),
        (200, {"error": {"code": 7}}, Kind.TRANSIENT),
        (200, {"error": {"type": "rate_limit_error"}}, Kind.THROTTLED),
        (200, {"error": {"type": "authentication_error"}}, Kind.AUTH),
        (200, {"error": {"type": "not_found_error"}}, Kind.MODEL),
        (200, {"error": {"type": "request_too_large"}}, Kind.CONTEXT),
        (200, {"error": {"message": "prompt is too long"}}, Kind.CONTEXT),
        (200, {"error": {"type": "invalid_request_error"}}, Kind.REJECTED),
        (200, {"error": {"status": "UNAVAILABLE"}}, Kind.TRANSIENT),
        (200, [{"error": {"code": 503, "status": "UNAVAILABLE"}}], Kind.TRANSIENT),
        (200, {"error": "model not loaded"}, Kind.TRANSIENT),
        # A status that speaks is not overruled by a general word, nor by a number inside.
        (503, {"error": {"type": "invalid_request_error", "code": 400}}, Kind.TRANSIENT),
    ],
)
def test_codes_tell_what_the_status_does_not(status: int, body: Any, kind: Kind) -> None:
    assert classify(read_complaint(status, body)) is kind


@each_case(
    ("quotas", "kind"),
    [
        (["GenerateRequestsPerDayPerProjectPerModel-FreeTier"], Kind.QUOTA),
        (["GenerateRequestsPerMinutePerProjectPerModel-FreeTier"], Kind.THROTTLED),
        (["GenerateContentInputTokensPerModelPerMinute", "RequestsPerDay"], Kind.QUOTA),
        (["GenerateContentInputTokensPerModelPerMinute"], Kind.THROTTLED),
        ([None], Kind.THROTTLED),
        ([], Kind.THROTTLED),
    ],
)
def test_a_quota_of_a_day_is_not_waited_for_although_google_names_a_wait(
    quotas: list[Any], kind: Kind
) -> None:
    details = [
        {"@type": "type.googleapis.com/google.rpc.Help", "links": []},
        {
            "@type": "type.googleapis.com/google.rpc.QuotaFailure",
            "violations": [{"quotaId": quota, "quotaValue": "20"} for quota in quotas],
        },
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "59s"},
    ]
    error = {"code": 429, "status": "RESOURCE_EXHAUSTED", "details": details}
    complaint = read_complaint(429, {"error": error})
    assert classify(complaint) is kind
    assert complaint.retry_after_s == 59.0


def test_funds_that_are_only_reserved_say_when_to_retry() -> None:
    assert classify(read_complaint(402, {}, {"retry-after": "3"})) is Kind.THROTTLED


@each_case(
    ("error", "had", "allowed"),
    [
        ({"message": "prompt is too long: 9001 tokens > 8000 maximum"}, 9001, 8000),
        ({"message": "prompt is too long"}, None, None),
        (
            {
                "message": "The input token count (9001) exceeds the maximum number of tokens "
                "allowed (8000)."
            },
            9001,
            8000,
        ),
        (
            {"message": "The input token count exceeds the maximum number of tokens allowed 8000."},
            None,
            8000,
        ),
        (
            {
                "message": "This model's maximum context length is 8000 tokens. However, you "
                "requested 9001 tokens (8501 in the messages, 500 in the completion)."
            },
            9001,
            8000,
        ),
        ({"n_prompt_tokens": 9001, "n_ctx": 8000}, 9001, 8000),
        ({"n_prompt_tokens": "many", "n_ctx": -1}, None, None),
    ],
)
def test_the_figures_of_what_is_too_long_are_read(
    error: dict[str, Any], had: int | None, allowed: int | None
) -> None:
    complaint = read_complaint(400, {"error": error})
    assert (complaint.had_tokens, complaint.max_tokens) == (had, allowed)


@each_case(
    ("body", "message"),
    [
        ({"error": {"message": "A."}}, "A."),
        ({"error": "A."}, "A."),
        ({"message": "A."}, "A."),
        ({"detail": "A."}, "A."),
        ([{"error": {"message": "A."}}], "A."),
        ("A.", "A."),
        ({"error": {"message": 7}}, ""),
        ([], ""),
    ],
)
def test_a_message_is_found_wherever_it_stands(body: Any, message: str) -> None:
    assert read_complaint(400, body).message == message


def test_a_wait_inside_the_body_counts_where_no_header_names_one() -> None:
    body = {"error": {"details": [{"@type": "x/google.rpc.RetryInfo", "retryDelay": "34.5s"}]}}
    assert read_complaint(429, body).retry_after_s == 34.5
    assert read_complaint(429, body, {"retry-after": "7"}).retry_after_s == 7.0


@given(text=st.text(), date=st.text())
def test_a_wait_is_a_finite_number_from_zero_up_or_none(text: str, date: str) -> None:
    for name in ("retry-after", "retry-after-ms"):
        waited_s = find_retry_after_s({name: text, "date": date})
        assert waited_s is None or 0 <= waited_s < float("inf")


@given(status=st.integers(100, 599), body=JSON)
def test_every_body_of_an_error_is_classified(status: int, body: Any) -> None:
    assert classify(read_complaint(status, body)) in Kind


@each_case(
    ("body", "expected"),
    [
        ({"error": {"message": "A."}}, True),
        ({"error": "A."}, True),
        ({"type": "error"}, True),
        ({"object": "error"}, True),
        ([{"error": {"code": 503}}], True),
        ({"error": None}, False),
        ({"choices": []}, False),
        ([], False),
        ("error", False),
        (None, False),
    ],
)
def test_an_error_is_told_from_an_answer(body: Any, expected: bool) -> None:
    assert is_error(body) is expected


def test_what_was_turned_away_costs_nothing() -> None:
    assert {400, 401, 402, 403, 404, 409, 413, 422, 429, 503, 529} <= TURNED_AWAY
    assert not {200, 408, 499, 500, 502, 504} & TURNED_AWAY


def test_no_code_has_two_meanings() -> None:
    assert not TELLING.keys() & GENERAL.keys()
    assert all(code == code.lower() for code in (*TELLING, *GENERAL))


def test_the_document_names_every_code_under_its_class() -> None:
    section = DOCUMENT.read_text(encoding="utf-8").split("\n## Refusals\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (\w+) \|(.*)$", section, re.MULTILINE)
    shown = {name: set(re.findall(r"`(\w+)`", cells.rsplit("|", 3)[0])) for name, cells in rows[1:]}
    expected: dict[str, set[str]] = {kind.value: set() for kind in Kind}
    for code, kind in {**TELLING, **GENERAL}.items():
        expected[kind.value].add(code)
    assert shown == expected
