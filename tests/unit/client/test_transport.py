"""Where a server is, and what is sent to it."""

from __future__ import annotations

from uuid import uuid4

import pytest

from dialectic.client import account, sessions
from dialectic.client.call import add_key
from dialectic.client.transport import parse_server
from dialectic.errors import UsageError
from tests.cases import each_case


@each_case(
    ("url", "meant", "is_here", "is_open"),
    [
        ("http://127.0.0.1:8420/", "http://127.0.0.1:8420", True, False),
        ("http://localhost:8420/api/v1", "http://localhost:8420", True, False),
        ("http://plans.example", "http://plans.example", False, True),
        ("https://example.org/hall", "https://example.org/hall", False, False),
    ],
)
def test_an_address_is_read_and_whether_others_can_listen(
    url: str, meant: str, *, is_here: bool, is_open: bool
) -> None:
    server = parse_server(url, "dlk_secret")

    assert (server.url, server.is_here, server.is_open) == (meant, is_here, is_open)
    assert "secret" not in repr(server)


WRONG = [
    *("", "bakery", "ftp://x", "http://", "http://x?y", "http://a:secret@x", "http://[::1"),
    *("http://x:99999", "http://x:port", "http://x:0", "http://a:secret@x:port"),
]


@each_case("url", WRONG)
def test_an_invalid_address_is_refused_without_repeating_a_password(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_server(url, None)

    assert "secret" not in caught.value.message


def test_what_changes_something_has_one_name_however_often_it_is_sent() -> None:
    server, call = parse_server("http://127.0.0.1", None), add_key(sessions.generate(uuid4()))
    keys = [server.build_request(add_key(call))["headers"]["Idempotency-Key"] for _ in range(2)]

    assert keys[0] == keys[1]
    assert add_key(sessions.generate(uuid4())).key != call.key
    assert add_key(sessions.generate(uuid4(), key="mine")).key == "mine"


def test_what_changes_nothing_has_no_name_and_says_only_what_is_wished() -> None:
    request = parse_server("http://127.0.0.1", None).build_request(
        add_key(account.list_notifications(unread=True))
    )

    assert "Idempotency-Key" not in request["headers"]
    assert request["params"] == {"unread": "true"}
