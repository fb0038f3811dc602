"""The models that are shipped are facts with a date, each of them sane."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest

from dialectic.core.models.endpoint import BUILT_IN
from dialectic.core.models.model import ModelCard, parse_tokenizer
from dialectic.providers.catalog import load_shipped
from tests.cases import each_case

SHIPPED = load_shipped()
CARDS = [card for shipped in SHIPPED.values() for card in shipped.cards]
every_card = each_case("card", CARDS, ids=lambda card: card.name)


def test_every_built_in_endpoint_has_models_and_no_other() -> None:
    assert list(SHIPPED) == list(BUILT_IN)
    assert all(len(shipped.cards) >= 8 for shipped in SHIPPED.values())
    assert 25 <= len(CARDS) <= 40


def test_no_model_is_there_twice() -> None:
    assert len({card.name for card in CARDS}) == len(CARDS)


@pytest.mark.parametrize("endpoint", SHIPPED)
def test_the_default_of_an_endpoint_is_one_of_its_smaller_models(endpoint: str) -> None:
    shipped = SHIPPED[endpoint]
    (default,) = [card for card in shipped.cards if card.name == shipped.default]
    prices = sorted(card.output_credits_per_token for card in shipped.cards)
    assert default.output_credits_per_token <= prices[len(prices) // 2]


@every_card
def test_the_facts_have_a_day(card: ModelCard) -> None:
    assert card.facts_of is not None
    assert date(2026, 11, 1) <= card.facts_of <= date(2030, 1, 1)


@every_card
def test_a_prompt_and_an_answer_fit_the_window(card: ModelCard) -> None:
    assert 100_000 <= card.context_window_tokens <= 4_000_000
    assert 4_000 <= card.max_output_tokens <= card.context_window_tokens // 2
    assert card.max_output_tokens <= card.max_input_tokens <= card.context_window_tokens


@every_card
def test_nothing_is_free_and_writing_costs_more_than_reading(card: ModelCard) -> None:
    assert Decimal("0.01") <= card.input_credits_per_token < card.output_credits_per_token
    assert card.output_credits_per_token <= 200


@every_card
def test_tokens_are_exact_only_where_the_vocabulary_is_published(card: ModelCard) -> None:
    tokenizer = parse_tokenizer(card.tokenizer)
    assert tokenizer.vocabulary == "o200k_base"
    is_published = card.name.startswith(("openai/gpt-4", "openai/gpt-5"))
    assert (tokenizer.factor is None) == is_published
    assert tokenizer.factor is None or 1 <= tokenizer.factor <= 2


def test_models_that_make_vectors_are_shipped_with_a_size_that_can_be_indexed() -> None:
    embeddings = [card for shipped in SHIPPED.values() for card in shipped.embeddings]
    assert {card.provider for card in embeddings} == {"openai"}
    for card in embeddings:
        assert card.embedding_dimensions == 1536
        assert card.facts_of is not None
        assert Decimal("0.01") <= card.input_credits_per_token < 1
        assert card.extra_body.get("dimensions", 1536) == card.embedding_dimensions
