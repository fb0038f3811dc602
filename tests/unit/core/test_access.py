"""A token has one form, its hash is all that is kept, and it may do what its scopes say."""

from __future__ import annotations

import hashlib
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialectic.core.access import (
    SECRET_BYTES,
    Caller,
    Scope,
    TokenKind,
    build_csrf_token,
    check_csrf_token,
    format_token,
    hash_token,
    parse_authorization,
)
from dialectic.errors import Forbidden, Remedy, RemedyAction, TokenInvalid, TokenMissing
from tests.cases import each_case
from tests.problems import refusing

random_bits = st.binary(min_size=SECRET_BYTES, max_size=SECRET_BYTES)
NOBODY = UUID(int=0)


@given(random_bits, st.sampled_from(TokenKind))
def test_a_token_says_what_it_is_and_is_hashed_as_it_stands(bits: bytes, kind: TokenKind) -> None:
    token = format_token(kind, bits)
    assert token.startswith({TokenKind.API: "dlk_", TokenKind.BROWSER: "dls_"}[kind])
    assert hash_token(kind, token) == hashlib.sha256(token.encode()).digest()


@given(random_bits)
def test_a_cookie_is_not_a_token_and_a_token_not_a_cookie(bits: bytes) -> None:
    for kind, other in ((TokenKind.API, TokenKind.BROWSER), (TokenKind.BROWSER, TokenKind.API)):
        with pytest.raises(TokenInvalid):
            hash_token(kind, format_token(other, bits))


@given(st.text(max_size=60))
def test_whatever_has_not_the_form_of_a_token_is_refused_in_the_words_for_an_unknown_one(
    text: str,
) -> None:
    with pytest.raises(TokenInvalid) as refused:
        hash_token(TokenKind.API, text)
    assert refused.value.message == TokenInvalid().message


@each_case("header", ["Bearer dlk_x", "bearer dlk_x", "  Bearer   dlk_x ", "BEARER dlk_x"])
def test_the_token_stands_behind_the_word_bearer(header: str) -> None:
    assert parse_authorization(header) == "dlk_x"


@pytest.mark.parametrize("header", [None, "", "  "])
def test_a_request_without_a_header_has_no_token(header: str | None) -> None:
    with pytest.raises(TokenMissing):
        parse_authorization(header)


@pytest.mark.parametrize("header", ["Basic dXNlcjpwYXNz", "dlk_x", "Token dlk_x"])
def test_another_scheme_is_refused(header: str) -> None:
    with refusing(TokenInvalid, "Bearer"):
        parse_authorization(header)


def test_a_caller_may_do_what_its_scopes_name_and_no_more() -> None:
    caller = Caller(NOBODY, NOBODY, frozenset({Scope.READ}), token_id=NOBODY)
    caller.require(Scope.READ)
    for scope in (Scope.WRITE, Scope.SPEND, Scope.ADMIN):
        with refusing(Forbidden, reason="missing_scope", subject=scope.value) as refused:
            caller.require(scope)
        assert refused.value.status == 403
        assert refused.value.remedy == Remedy(RemedyAction.CREATE_TOKEN, scope=scope.value)


@given(random_bits, random_bits)
def test_only_the_page_of_the_same_session_knows_its_csrf_token(ours: bytes, other: bytes) -> None:
    cookie, foreign = (format_token(TokenKind.BROWSER, bits) for bits in (ours, other))
    check_csrf_token(cookie, build_csrf_token(cookie))
    wrong = [None, "", "é", "\ud800", cookie]
    wrong += [build_csrf_token(foreign)] if ours != other else []
    for shown in wrong:
        with pytest.raises(Forbidden):
            check_csrf_token(cookie, shown)
