"""A list of models is read as people write it, and what cannot be meant is refused by name."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialectic.core.models.model import MODELS_PER_SESSION_MAX, ModelCard, parse_model_list
from dialectic.errors import ExitCode, UsageError
from tests.cases import each_case

CARD = ModelCard(
    name="anyone/model/with/parts",
    context_window_tokens=128_000,
    max_input_tokens=120_000,
    max_output_tokens=8_000,
    input_credits_per_token=Decimal("0.1"),
    output_credits_per_token=Decimal("2.50"),
    tokenizer="chars:4",
)


@each_case(
    ("text", "names"),
    [
        ("a/b", ["a/b"]),
        ("a/b,c/d", ["a/b", "c/d"]),
        (" a/b ,\tc/d , ", ["a/b", "c/d"]),
        ("a/b,a/b", ["a/b", "a/b"]),
        ("a/b*3", ["a/b", "a/b", "a/b"]),
        ("a/b * 2,c/d", ["a/b", "a/b", "c/d"]),
        ("a/b*12", ["a/b"] * 12),
        ("local/org/model:7b", ["local/org/model:7b"]),
    ],
)
def test_a_list_is_read_in_its_order_with_its_repeats(text: str, names: list[str]) -> None:
    assert parse_model_list(text) == names


@each_case(
    ("text", "words"),
    [
        ("", "names no model"),
        (" , ,", "names no model"),
        ("gpt", "'gpt' is not a model name"),
        ("/gpt", "'/gpt' is not a model name"),
        ("openai/", "'openai/' is not a model name"),
        ("a/b,wrong", "'wrong' is not a model name"),
        ("a/b c", "'a/b c' is not a model name"),
        ("a/b*0", "In 'a/b*0' a number from 1 to 12"),
        ("a/b*13", "In 'a/b*13' a number from 1 to 12"),
        ("a/b*", "In 'a/b*' a number from 1 to 12"),
        ("a/b*-1", "In 'a/b*-1' a number from 1 to 12"),
        ("a/b*two", "In 'a/b*two' a number from 1 to 12"),
        ("a/b*2*2", "In 'a/b*2*2' a number from 1 to 12"),
        ("a/b*²", "In 'a/b*²' a number from 1 to 12"),
        ("*3", "'' is not a model name"),
        ("a/b*7,c/d*6", "13 models were requested; a session takes at most 12"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_own_words(text: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_model_list(text)
    assert words in caught.value.message
    assert caught.value.exit_code is ExitCode.USAGE


@given(st.text(st.sampled_from("ab/*, 0129\t²-"), max_size=30))
def test_any_text_is_either_a_list_of_names_or_refused(text: str) -> None:
    try:
        names = parse_model_list(text)
    except UsageError:
        return
    assert 1 <= len(names) <= MODELS_PER_SESSION_MAX
    assert all("/" in name and name.strip() == name for name in names)


def test_the_provider_is_the_part_before_the_first_slash() -> None:
    assert CARD.provider == "anyone"


def test_the_record_of_a_model_keeps_exact_rates_and_is_plain_json() -> None:
    config = CARD.as_config()
    assert json.loads(json.dumps(config)) == config
    assert config["api_identifier"] == "anyone/model/with/parts"
    assert config["output_token_cost_rate"] == "2.50"
    assert Decimal(config["input_token_cost_rate"]) == CARD.input_credits_per_token
