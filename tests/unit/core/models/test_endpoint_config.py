"""Endpoints are declared in a file, and what is wrong there is named with its place."""

from __future__ import annotations

import contextlib
import tomllib
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialectic.core.models.endpoint import BUILT_IN, Endpoint, WireFormat
from dialectic.core.models.endpoint_config import (
    Declared,
    Place,
    parse_endpoints,
    parse_own_endpoint,
)
from dialectic.core.models.model import ModelCard
from dialectic.errors import ConfigurationError, ExitCode, ForbiddenAddress
from tests.cases import each_case
from tests.problems import check_error

FILE = "/home/config.toml"
LOCAL = """
[endpoints.local]
kind = "openai"
base_url = "http://127.0.0.1:8080/v1"
"""
TINY = """
[endpoints.local.models.tiny]
context_window_tokens = 8192
max_output_tokens = 1024
input_usd_per_million = 1.0
output_usd_per_million = 2.0
tokenizer = "o200k_base"
"""


def parse(text: str) -> dict[str, Declared]:
    return parse_endpoints(tomllib.loads(text)["endpoints"], Place(FILE, ("endpoints",)))


def refuse(text: str) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as caught:
        parse(text)
    assert caught.value.exit_code is ExitCode.CONFIGURATION
    return caught.value


def refusal(text: str) -> str:
    return refuse(text).message


def with_line(table: str, line: str) -> str:
    """A table with a line more, in the place of one for the same key."""
    key = line.partition("=")[0].strip()
    lines = [old for old in table.splitlines() if old.partition("=")[0].strip() != key]
    return "\n".join([*lines, line, ""])


# -- what can be declared --------------------------------------------------------------------------


def test_the_smallest_declaration_is_an_address_and_its_words() -> None:
    assert parse(LOCAL) == {
        "local": Declared(
            Endpoint(name="local", kind=WireFormat.OPENAI, base_url="http://127.0.0.1:8080/v1")
        )
    }


def test_everything_that_can_be_said_is_taken_as_it_was_said() -> None:
    declared = parse(
        LOCAL
        + """
        api_key_env = "LOCAL_KEY"
        max_concurrency = 4
        requests_per_minute = 60
        tokens_per_minute = 100_000
        timeout_s = 90
        first_byte_s = 12.5
        idle_s = 7

        [endpoints.local.models."org/tiny:7b"]
        context_window_tokens = 8192
        max_input_tokens = 8000
        max_output_tokens = 1024
        input_usd_per_million = 0.15
        output_usd_per_million = 2
        tokenizer = "cl100k_base*1.25"
        wire_name = "tiny 7b"
        supports_system_prompt = false
        is_reasoning = true
        extra_body = { top_k = 3, nested = { list = [1.5, "a", true] } }
        """
    )["local"]
    assert declared.endpoint == Endpoint(
        name="local",
        kind=WireFormat.OPENAI,
        base_url="http://127.0.0.1:8080/v1",
        api_key_env="LOCAL_KEY",
        max_concurrency=4,
        requests_per_minute=60,
        tokens_per_minute=100_000,
        timeout_s=90.0,
        first_byte_s=12.5,
        idle_s=7.0,
    )
    assert declared.cards == (
        ModelCard(
            name="local/org/tiny:7b",
            context_window_tokens=8192,
            max_input_tokens=8000,
            max_output_tokens=1024,
            input_credits_per_token=Decimal("0.15"),
            output_credits_per_token=Decimal(2),
            tokenizer="cl100k_base*1.25",
            wire_name="tiny 7b",
            supports_system_prompt=False,
            is_reasoning=True,
            accepts_temperature=False,
            extra_body={"top_k": 3, "nested": {"list": [1.5, "a", True]}},
        ),
    )


def test_without_a_limit_of_its_own_the_input_may_fill_the_window() -> None:
    (card,) = parse(LOCAL + TINY)["local"].cards
    assert card.max_input_tokens == card.context_window_tokens == 8192


def test_a_model_may_cost_nothing_if_one_says_so() -> None:
    (card,) = parse(LOCAL + with_line(TINY, "input_usd_per_million = 0"))["local"].cards
    assert card.input_credits_per_token == 0


@each_case("price", ["0.15", "2.5", "1e-3", "123456.789", "0.1", "3"])
def test_a_price_is_kept_as_it_was_written(price: str) -> None:
    (card,) = parse(LOCAL + with_line(TINY, f"output_usd_per_million = {price}"))["local"].cards
    assert card.output_credits_per_token == Decimal(price)


@given(st.decimals(0, 1_000_000, places=6))
def test_any_price_of_six_places_is_kept_exactly(price: Decimal) -> None:
    (card,) = parse(LOCAL + with_line(TINY, f"input_usd_per_million = {price:f}"))["local"].cards
    assert card.input_credits_per_token == price


@each_case(
    "address",
    [
        "http://127.0.0.1:8080/v1",
        "http://[::1]:11434/v1",
        "https://10.0.0.7/v1",
        "http://169.254.169.254",
        "https://example.org/a/b",
    ],
)
def test_the_operator_may_name_any_address(address: str) -> None:
    declared = parse(with_line(LOCAL, f'base_url = "{address}"'))
    assert declared["local"].endpoint.base_url == address


def test_a_slash_at_the_end_of_an_address_makes_no_difference() -> None:
    declared = parse(with_line(LOCAL, 'base_url = "http://127.0.0.1:8080/v1/"'))
    assert declared["local"].endpoint.base_url == "http://127.0.0.1:8080/v1"


# -- endpoints that are built in -------------------------------------------------------------------


def test_a_built_in_endpoint_is_changed_where_the_file_says_so_and_nowhere_else() -> None:
    declared = parse('[endpoints.openai]\nbase_url = "http://proxy/v1"\nmax_concurrency = 2')
    assert declared["openai"].endpoint == Endpoint(
        name="openai",
        kind=WireFormat.OPENAI,
        base_url="http://proxy/v1",
        api_key_env="OPENAI_API_KEY",
        max_concurrency=2,
    )


def test_a_model_is_added_to_a_built_in_endpoint() -> None:
    declared = parse(TINY.replace("local", "anthropic"))["anthropic"]
    assert declared.endpoint == BUILT_IN["anthropic"]
    assert [card.name for card in declared.cards] == ["anthropic/tiny"]


def test_a_built_in_endpoint_speaks_what_it_speaks() -> None:
    assert parse('[endpoints.google]\nkind = "google"')["google"].endpoint == BUILT_IN["google"]
    error = refuse('[endpoints.openai]\nkind = "google"')
    check_error(error, str(FILE), "'google'", "'openai'")
    check_error(error, reason="built_in", subject="endpoints.openai.kind")


# -- what is refused -------------------------------------------------------------------------------


@each_case(
    ("line", "words"),
    [
        ('kind = "ollama"', "kind` in {file} is 'ollama'; it must be one of openai, anthropic, g"),
        ("kind = 3", "kind` in {file} is 3; it must be one of openai, anthropic, google."),
        ("base_url = 8080", "base_url` in {file} cannot be used; it must be an address such as "),
        ('base_url = "127.0.0.1:8080/v1"', "must be an address such as http://127.0.0.1:8080/v1"),
        ('base_url = "localhost:8080"', "with http:// or https:// in front"),
        ('base_url = "ftp://host/v1"', "with http:// or https:// in front"),
        ('base_url = "http:///v1"', "with http:// or https:// in front"),
        ('base_url = "http://host:99999/v1"', "with http:// or https:// in front"),
        ('base_url = "http://[::1/v1"', "with http:// or https:// in front"),
        ('base_url = "http://ho st/v1"', "with http:// or https:// in front"),
        ('base_url = "http://me:sesame@host/v1"', "an address without user and password"),
        ('base_url = "http://sesame@host/v1"', "an address without user and password"),
        ('base_url = "http://host/v1?key=sesame"', "an address without `?` or `#`"),
        ('base_url = "http://host/v1#sesame"', "an address without `?` or `#`"),
        ('api_key_env = "sk-sesame-123"', "api_key_env` in {file} cannot be used; it must be the "),
        ('api_key_env = ""', "the name of an environment variable that holds the key"),
        ('api_key_env = "DIALECTIC_KEY"', "not beginning with DIALECTIC_"),
        ("max_concurrency = 0", "max_concurrency` in {file} is 0; it must be a whole number fr"),
        ("max_concurrency = 2.0", "max_concurrency` in {file} is 2.0; it must be a whole number"),
        ("max_concurrency = true", "is True; it must be a whole number from 1 to 10000."),
        ('max_concurrency = "4"', "is '4'; it must be a whole number from 1 to 10000."),
        ("requests_per_minute = -1", "requests_per_minute` in {file} is -1; it must be a whole"),
        ("tokens_per_minute = 0", "tokens_per_minute` in {file} is 0; it must be a whole number"),
        ("timeout_s = 0", "timeout_s` in {file} is 0; it must be a number of seconds above 0"),
        ("timeout_s = nan", "timeout_s` in {file} is nan; it must be a number of seconds above"),
        ("timeout_s = inf", "timeout_s` in {file} is inf; it must be a number of seconds above"),
        ("first_byte_s = -1", "first_byte_s` in {file} is -1; it must be a number of seconds"),
        ('idle_s = "1"', "idle_s` in {file} is '1'; it must be a number of seconds above 0"),
        ("models = 3", "models` in {file} is 3; it must be a table."),
        ('apikey_env = "X"', "Unknown key `endpoints.local.apikey_env` in {file}. Did you mean `a"),
        ('url = "http://x"', "Unknown key `endpoints.local.url` in {file}. Known there: kind, ba"),
        ('api_key = "sesame"', "Did you mean `api_key_env`?"),
    ],
)
def test_a_wrong_line_of_an_endpoint_is_named_with_what_is_allowed(line: str, words: str) -> None:
    message = refusal(with_line(LOCAL, line))
    assert words.format(file=FILE) in message
    assert "`endpoints.local." in message
    assert "sesame" not in message, "what may be a key is not repeated"


@each_case(
    ("line", "words"),
    [
        (
            "context_window_tokens = 1024",
            "leaves no room for a prompt in the window of 1024 tokens",
        ),
        (
            "context_window_tokens = 1000",
            "leaves no room for a prompt in the window of 1000 tokens",
        ),
        ("context_window_tokens = 0", "it must be a whole number from 2 to 1000000000."),
        ('context_window_tokens = "big"', "is 'big'; it must be a whole number from 2 to"),
        ("max_output_tokens = 8192", "max_output_tokens` in {file} is 8192, which leaves no room"),
        ("max_output_tokens = 0", "max_output_tokens` in {file} is 0; it must be a whole number"),
        ("max_input_tokens = 8193", "max_input_tokens` in {file} is 8193, more than the window of"),
        ("input_usd_per_million = -0.1", "is -0.1; it must be US dollars per million tokens"),
        ("output_usd_per_million = nan", "is nan; it must be US dollars per million tokens"),
        ("output_usd_per_million = inf", "is inf; it must be US dollars per million tokens"),
        ('output_usd_per_million = "2"', "is '2'; it must be US dollars per million tokens"),
        ("output_usd_per_million = true", "is True; it must be US dollars per million tokens"),
        (
            'tokenizer = "o100k"',
            "tokenizer` in {file} is 'o100k'; it must be `o200k_base`, `cl100k",
        ),
        ("tokenizer = 4", "tokenizer` in {file} is 4; it must be `o200k_base`"),
        ('supports_system_prompt = "no"', "is 'no'; it must be true or false."),
        ("is_reasoning = 1", "is_reasoning` in {file} is 1; it must be true or false."),
        ('wire_name = " "', "wire_name` in {file} is ' '; it must be a non-empty text"),
        ('wire_name = "a\\nb"', "it must be a non-empty text of one line."),
        ("extra_body = 3", "extra_body` in {file} cannot be used; it must be a table that JSON"),
        ("extra_body = { on = 2026-01-01 }", "it must be a table that JSON can hold: no dates"),
        ("extra_body = { x = nan }", "it must be a table that JSON can hold: no dates, no infin"),
        (
            "context_tokens = 3",
            "Unknown key `endpoints.local.models.tiny.context_tokens` in {file}",
        ),
        ("prices = 3", "Known there: context_window_tokens, max_input_tokens"),
        ("tokeniser = 'chars:4'", "Did you mean `tokenizer`?"),
    ],
)
def test_a_wrong_line_of_a_model_is_named_with_what_is_allowed(line: str, words: str) -> None:
    message = refusal(LOCAL + with_line(TINY, line))
    assert words.format(file=FILE) in message
    assert (
        f"`endpoints.local.models.tiny.{line.partition('=')[0].strip()}` in {FILE}" in message
        or ("leaves no room" in message)
    )


@pytest.mark.parametrize("key", ["kind", "base_url"])
def test_what_an_endpoint_lacks_is_named(key: str) -> None:
    text = "\n".join(line for line in LOCAL.splitlines() if not line.startswith(key))
    check_error(refuse(text), str(FILE), reason="missing", subject=f"endpoints.local.{key}")


@each_case(
    "key",
    [
        "context_window_tokens",
        "max_output_tokens",
        "input_usd_per_million",
        "output_usd_per_million",
        "tokenizer",
    ],
)
def test_what_a_model_lacks_is_named_for_nothing_is_free_unless_one_says_so(key: str) -> None:
    text = "\n".join(line for line in TINY.splitlines() if not line.startswith(key))
    place = f"endpoints.local.models.tiny.{key}"
    check_error(refuse(LOCAL + text), str(FILE), reason="missing", subject=place)


@each_case(
    ("name", "reason", "shown"),
    [
        ("offline", "name_taken", "'offline'"),
        ("builtin", "name_taken", "'builtin'"),
        ('"a/b"', "name_with_slash", "`NAME/model`"),
        ("Local", "name_not_lower", "'local'"),
        ('"my models"', "bad_name", "40"),
        ('""', "bad_name", "40"),
        ('"é"', "bad_name", "40"),
        (41 * "a", "bad_name", "40"),
    ],
)
def test_a_name_that_would_be_trouble_is_refused(name: str, reason: str, shown: str) -> None:
    error = refuse(LOCAL.replace("local", name))
    check_error(error, shown, reason=reason, subject=name.strip('"'))
    message = error.message
    assert f"`endpoints.{name}` in {FILE}" in message.replace("\\u00e9", "é")


@each_case("name", ['""', '"a b"', '"a,b"', '"a*2"', '"a\\tb"', f'"{201 * "a"}"'])
def test_a_model_whose_name_could_not_be_asked_for_is_refused(name: str) -> None:
    check_error(refuse(LOCAL + TINY.replace("tiny", name)), "`wire_name`", reason="not_a_name")


def test_a_name_with_a_dot_that_was_not_quoted_is_understood_as_such() -> None:
    error = refuse(LOCAL + TINY.replace("tiny", "gpt-4.1"))
    check_error(error, '`"gpt-4.1"`', str(FILE), reason="unknown_key")
    assert error.subject == "endpoints.local.models.gpt-4.1"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("endpoints = 3", "endpoints"),
        ("[endpoints]\nlocal = 'http://x'", "endpoints.local"),
        (LOCAL + "[endpoints.local.models]\ntiny = 3", "endpoints.local.models.tiny"),
    ],
)
def test_a_value_where_a_table_belongs_is_told_so(text: str, place: str) -> None:
    check_error(refuse(text), str(FILE), f"`[{place}]`", reason="not_a_table", subject=place)


VALUES: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=5,
)
KEYS = st.sampled_from(
    ["kind", "base_url", "models", "timeout_s", "api_key_env", "tiny", "tokenizer", "extra_body"]
)


TABLES = st.dictionaries(KEYS, VALUES, max_size=3)


@given(st.dictionaries(KEYS | st.text(max_size=3), VALUES | TABLES, max_size=4))
def test_whatever_stands_there_is_either_understood_or_refused(table: dict[str, Any]) -> None:
    for name in ("local", "openai"):
        with contextlib.suppress(ConfigurationError):
            declared = parse_endpoints({name: table}, Place(FILE, ("endpoints",)))
            assert declared[name].endpoint.name == name


# -- models that make vectors ----------------------------------------------------------------------

VECTORS = """
[endpoints.local.embeddings."nomic:v2"]
dimensions = 768
max_input_tokens = 2048
input_usd_per_million = 0.02
tokenizer = "o200k_base*1.3"
"""


def test_a_model_that_makes_vectors_has_a_size_and_a_price_and_writes_nothing() -> None:
    declared = parse(LOCAL + VECTORS)["local"]
    (card,) = declared.embeddings
    assert declared.cards == ()
    assert (card.name, card.sent_name) == ("local/nomic:v2", "nomic:v2")
    assert (card.embedding_dimensions, card.max_input_tokens) == (768, 2048)
    assert card.input_credits_per_token == Decimal("0.02")
    assert (card.max_output_tokens, card.output_credits_per_token) == (0, Decimal(0))


@each_case(
    ("line", "why"),
    [
        ("dimensions = 0", "a whole number from 1 to 16000"),
        ("dimensions = 16001", "a whole number from 1 to 16000"),
        ("max_input_tokens = 63", "a whole number from 64"),
        ("input_usd_per_million = -1", "US dollars per million tokens"),
        ("output_usd_per_million = 1", "Did you mean `input_usd_per_million`?"),
        ('tokenizer = "words"', "must be"),
    ],
)
def test_what_is_wrong_with_such_a_model_is_named_with_its_place(line: str, why: str) -> None:
    message = refusal(LOCAL + with_line(VECTORS, line))
    assert why in message
    assert 'endpoints.local.embeddings."nomic:v2"' in message


@pytest.mark.parametrize("key", ["dimensions", "max_input_tokens", "tokenizer"])
def test_such_a_model_needs_its_facts(key: str) -> None:
    lines = [line for line in VECTORS.splitlines() if not line.startswith(key)]
    place = f"endpoints.local.embeddings.nomic:v2.{key}"
    check_error(refuse(LOCAL + "\n".join(lines)), str(FILE), reason="missing", subject=place)


# -- tenants' own endpoints ------------------------------------------------------------------------

OWN_MODEL = {"context_window_tokens": 64_000, "max_output_tokens": 2_000, "tokenizer": "chars:4"}
OWN = {"kind": "openai", "base_url": "https://llm.example.org/v1", "models": {"m": OWN_MODEL}}
TENANT = UUID(int=7)


def parse_own(name: str = "acme", *allowed: str, **changes: Any) -> Declared:
    return parse_own_endpoint(TENANT, name, OWN | changes, Place("the request"), allowed=allowed)


def test_an_own_endpoint_is_guarded_free_and_kept_apart_by_its_tenant() -> None:
    found = parse_own()
    (card,) = found.cards
    assert (found.endpoint.name, found.endpoint.is_guarded) == ("@acme", True)
    assert found.endpoint.state_key == f"{TENANT}/@acme"
    assert (card.name, card.sent_name, card.provider) == ("@acme/m", "m", "@acme")
    assert card.input_credits_per_token == card.output_credits_per_token == 0


def test_an_own_endpoint_may_have_the_name_of_a_built_in_one_and_is_another() -> None:
    assert parse_own("openai").endpoint.base_url == OWN["base_url"]
    assert parse_own("openai").endpoint.state_key != BUILT_IN["openai"].state_key


@each_case(
    "base_url",
    [
        *("http://llm.example.org/v1", "https://127.0.0.1/v1", "https://localhost/v1"),
        *("http://127.0.0.1:8081/v1", "https://127.0.0.1:8080/v1", "http://127.0.0.2:8080"),
        "http://127.0.0.1.nip.io:8080/v1",
    ],
)
def test_only_the_very_origin_that_the_operator_allows_may_be_private(base_url: str) -> None:
    allowed = "http://127.0.0.1:8080"
    assert not parse_own("acme", allowed, base_url=f"{allowed}/v1").endpoint.is_guarded
    with pytest.raises(ForbiddenAddress):
        parse_own("acme", allowed, base_url=base_url)


@each_case("key", ["api_key_env", "embeddings", "timeout_s", "is_guarded", "tenant_id"])
def test_a_tenant_cannot_set_what_is_the_operators(key: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_own(**{key: "OPENAI_API_KEY"})
    check_error(caught.value, reason="unknown_key")


def test_a_tenant_cannot_set_a_price() -> None:
    priced = {"m": OWN_MODEL | {"input_usd_per_million": -5, "output_usd_per_million": 3}}
    (card,) = parse_own(models=priced).cards
    assert card.output_credits_per_token == card.input_credits_per_token == 0
