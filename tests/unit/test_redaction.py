"""A database's address is shown without anything that could be a secret."""

from __future__ import annotations

from dialectic.db.pool import UNREADABLE, Address, describe_failure, redact
from tests.cases import each_case


@each_case(
    ("url", "shown"),
    [
        ("postgresql://me:sesame@db.example:5433/x", "postgresql://me@db.example:5433/x"),
        ("postgres://me@[::1]:1/x?password=sesame", "postgres://me@[::1]:1/x"),
        ("postgresql://h/x?user=u&password=sesame", "postgresql://u@h/x"),
        ("postgresql://u:sesame@a:1,b:2/x", "postgresql://u@a:1,b:2/x"),
        ("postgresql:///x?host=/run/pg&port=5&user=u", "postgresql://u@/run/pg:5/x"),
        ("postgresql://u:sesame@h/x?sslpassword=sesame&sslmode=require", "postgresql://u@h/x"),
        ("postgresql://u:p%40sesame@h/x#sesame", "postgresql://u@h/x"),
        ("postgresql://u:sesame/open@h/x", UNREADABLE),
        ("postgresql://u:sesame?open@h/x", UNREADABLE),
        ("postgresql://u:sesame#open@h/x", UNREADABLE),
        ("postgresql://u:open@sesame@h/x", UNREADABLE),
        ("postgresql://u:sesame", UNREADABLE),
        ("postgresql://[sesame@h/x", UNREADABLE),
        ("host=h user=u password=sesame", UNREADABLE),
        ("mysql://u:sesame@h/x", UNREADABLE),
        ("sesame", UNREADABLE),
    ],
)
def test_nothing_but_user_host_port_and_database_is_shown(url: str, shown: str) -> None:
    assert redact(url) == shown
    assert "sesame" not in describe_failure(
        Address(url, is_embedded=False), ValueError(f"{url} is wrong: sesame")
    )
