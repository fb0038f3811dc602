"""Only a caller on the machine itself counts as its owner, and only while no token exists."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dialectic.core.access import (
    FORWARDING_HEADERS,
    SECURE_COOKIE,
    Access,
    RequestOrigin,
    build_removal,
    build_set_cookie,
    check_opening,
    decide_access,
    find_cookie,
    is_loopback,
    name_cookie,
)
from dialectic.errors import ConfigurationError, ExitCode, RemedyAction
from tests.cases import each_case
from tests.problems import refusing

LOOPBACK = ["127.0.0.1", "127.1.2.3", "localhost", "LocalHost", "::1", "[::1]"]
PUBLIC = ["0.0.0.0", "::", "192.168.1.2", "10.0.0.1", "8.8.8.8", "2001:db8::1", "example.org"]
# What looks like this machine and is not, or may not be.
LOOKALIKES = [
    *("localhost.evil.example", "127.0.0.1.nip.io", "127.0.0.1.evil.example", "evil.localhost"),
    *("127.1", "2130706433", "0x7f000001", "0177.0.0.1", "localhost.", "", " ", "127.0.0.1@evil"),
]


def build_origin(**headers: str) -> RequestOrigin:
    return RequestOrigin.read({name.replace("_", "-"): value for name, value in headers.items()})


@each_case("host", LOOPBACK)
def test_a_server_may_open_on_the_machine_itself_without_a_token(host: str) -> None:
    check_opening(host, has_tokens=False)


@each_case("host", [*PUBLIC, *LOOKALIKES])
def test_where_others_can_come_a_server_opens_only_if_it_can_know_them(host: str) -> None:
    check_opening(host, has_tokens=True)
    with refusing(ConfigurationError, subject=host, action=RemedyAction.ADD_USER) as refused:
        check_opening(host, has_tokens=False)
    assert refused.value.exit_code is ExitCode.CONFIGURATION


@each_case("host", ["127.0.0.1:8000", "localhost:8000", "localhost", "[::1]:8000"])
def test_the_owner_needs_no_token_at_the_machine(host: str) -> None:
    assert decide_access("127.0.0.1", build_origin(host=host), has_tokens=False) is Access.AS_OWNER
    own = build_origin(host=host, origin=f"http://{host}")
    assert decide_access("127.0.0.1", own, has_tokens=False) is Access.AS_OWNER


@each_case("host", [*LOOKALIKES, *PUBLIC, "a/b", "[", "localhost:999999", "u@localhost"])
def test_a_name_that_was_made_to_lead_here_is_foreign(host: str) -> None:
    for header in (host, f"{host}:8000"):
        found = decide_access("127.0.0.1", build_origin(host=header), has_tokens=False)
        assert found is Access.FOREIGN, header
    assert decide_access("127.0.0.1", RequestOrigin(None), has_tokens=False) is Access.FOREIGN


@each_case(
    "origin",
    [
        *("https://evil.example", "null", "", "http://localhost", "http://localhost:3000"),
        *("https://localhost:8000", "http://127.0.0.1:8000", "http://localhost:8000.evil.example"),
        "http://localhost:8000/",
    ],
)
def test_a_page_of_another_origin_is_foreign(origin: str) -> None:
    found = decide_access(
        "127.0.0.1", build_origin(host="localhost:8000", origin=origin), has_tokens=False
    )
    assert found is Access.FOREIGN


@each_case(
    ("site", "access"),
    [
        ("cross-site", Access.FOREIGN),
        ("same-site", Access.FOREIGN),
        ("same-origin", Access.AS_OWNER),
        ("none", Access.AS_OWNER),
    ],
)
def test_a_picture_in_a_page_of_another_site_is_foreign_although_it_names_no_origin(
    site: str, access: Access
) -> None:
    seen = build_origin(host="localhost:8000", sec_fetch_site=site)
    assert decide_access("127.0.0.1", seen, has_tokens=False) is access


@each_case("header", FORWARDING_HEADERS)
def test_a_caller_through_a_proxy_is_not_the_owner(header: str) -> None:
    seen = RequestOrigin.read({"host": "127.0.0.1:8000", header: "203.0.113.9"})
    assert decide_access("127.0.0.1", seen, has_tokens=False) is Access.UNKNOWN


@given(
    st.sampled_from([*LOOPBACK, *PUBLIC]), st.text(max_size=20), st.none() | st.text(max_size=20)
)
def test_no_caller_is_the_owner_once_a_token_exists_or_from_elsewhere(
    listens_at: str, host: str, origin: str | None
) -> None:
    for seen in (RequestOrigin(host, origin), RequestOrigin("localhost", None)):
        assert decide_access(listens_at, seen, has_tokens=True) is Access.UNKNOWN
        if not is_loopback(listens_at):
            assert decide_access(listens_at, seen, has_tokens=False) is Access.UNKNOWN


HERE, ELSEWHERE = build_origin(host="localhost:8000"), build_origin(host="dialectic.example")
BY_PROXY = build_origin(host="127.0.0.1:8000", x_forwarded_for="203.0.113.9")


def test_a_cookie_is_out_of_reach_of_scripts_and_of_other_sites() -> None:
    assert build_set_cookie("dls_x", HERE, max_age_s=60) == (
        "dialectic_session_8000=dls_x; Path=/; Max-Age=60; HttpOnly; SameSite=Lax"
    )
    for seen in (ELSEWHERE, BY_PROXY):
        assert build_set_cookie("dls_x", seen, max_age_s=60) == (
            "__Host-dialectic_session=dls_x; Path=/; Max-Age=60; HttpOnly; SameSite=Lax; Secure"
        )


def test_the_cookie_is_found_among_others_under_the_name_it_was_given() -> None:
    header = "a=1; dialectic_session_8000=dls_x; __Host-dialectic_session=dls_y; b"
    assert find_cookie(header, HERE) == "dls_x"
    assert find_cookie(header, ELSEWHERE) == find_cookie(header, BY_PROXY) == "dls_y"
    for absent in (None, "", "a=1", "dialectic_session_8000=", "xdialectic_session_8000=dls_x"):
        assert find_cookie(absent, HERE) is None


def test_two_servers_of_one_machine_have_cookies_of_their_own() -> None:
    names = [
        name_cookie(build_origin(host=host))
        for host in ("localhost:8000", "127.0.0.1:8000", "[::1]:8001", "localhost")
    ]
    assert names == [f"dialectic_session_{port}" for port in (8000, 8000, 8001, 80)]
    assert find_cookie("dialectic_session_8001=dls_x", HERE) is None


def test_a_cookie_that_was_refused_is_deleted_and_no_other() -> None:
    away = RequestOrigin("hall.example", scheme="https")
    ours = {"cookie": f"theme=dark; {SECURE_COOKIE}=dls_old"}
    assert build_removal(ours, away) == build_set_cookie("", away, max_age_s=0)
    assert build_removal({**ours, "authorization": "Bearer x"}, away) is None
    assert build_removal({"cookie": "theme=dark"}, away) is None
    assert build_removal({}, away) is None
