"""The limit of an answer: what such documents need, at most what model and user allow."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialectic.core.models.model import ModelCard
from dialectic.core.money.quote import OutputStatistics, Sample
from dialectic.pipeline.answer_length import (
    EXPECTED_HEADROOM,
    LEARNED_HEADROOM,
    LEARNED_MIN,
    LIMIT_MIN_TOKENS,
    REASONING_LIMIT_MIN_TOKENS,
    decide_answer_limit,
    expect_size,
    grow_limit,
)
from dialectic.pipeline.call_estimate import Terms
from dialectic.pipeline.estimate import Brief, build_quote
from dialectic.processes.loader import load_process
from tests.cases import each_case

PEN = ModelCard(
    name="shop/pen",
    context_window_tokens=200_000,
    max_input_tokens=190_000,
    max_output_tokens=64_000,
    input_credits_per_token=Decimal(3),
    output_credits_per_token=Decimal(15),
    tokenizer="chars:4",
)
THINKER = replace(PEN, is_reasoning=True)
THESIS = ("thesis", "thesis")
tokens = st.integers(0, 200_000)


def build_sample(**changes: Any) -> Sample:
    facts: dict[str, Any] = {
        "kind": THESIS,
        "model_name": "shop/pen",
        "is_here": False,
        "documents": LEARNED_MIN,
        "output_tokens": 9_000,
        "text_bytes": 36_000,
        "elapsed_ms": 1,
        "long_tokens": 4_000,
    }
    return Sample(**facts | changes)


@each_case(
    ("card", "facts", "limit"),
    [
        (PEN, {}, LIMIT_MIN_TOKENS),
        (PEN, {"expected_tokens": 3_000}, 3_000 * EXPECTED_HEADROOM),
        (PEN, {"expected_tokens": 3_000, "long_tokens": 4_000}, 4_000 * LEARNED_HEADROOM),
        (PEN, {"expected_tokens": 1_000, "asked_tokens": 5_000}, 10_000),
        (PEN, {"expected_tokens": 50_000}, 64_000),
        (PEN, {"expected_tokens": 3_000, "wanted_tokens": 500}, 500),
        (THINKER, {"expected_tokens": 3_000}, REASONING_LIMIT_MIN_TOKENS),
        (THINKER, {"expected_tokens": 3_000, "asked_tokens": 5_000}, 30_000),
    ],
)
def test_the_limit_follows_what_is_known(card: ModelCard, facts: Any, limit: float) -> None:
    given_facts = {"expected_tokens": 0, "wanted_tokens": None, **facts}
    assert decide_answer_limit(card=card, **given_facts) == limit


@given(tokens, tokens, st.none() | tokens.filter(bool), st.none() | tokens, st.integers(0, 9))
def test_a_limit_is_positive_allowed_and_grows_with_each_turn(
    expected: int, asked: int, wanted: int | None, long: int | None, turn: int
) -> None:
    first = decide_answer_limit(expected, PEN, wanted, long_tokens=long, asked_tokens=asked)
    limit, following = (grow_limit(first, each, PEN, wanted) for each in (turn, turn + 1))
    most = min(wanted or PEN.max_output_tokens, PEN.max_output_tokens)
    assert 1 <= first <= limit <= following <= most
    assert grow_limit(first, 5, PEN, wanted) == most, "the last turn has all the room there is"


def test_few_documents_and_those_of_the_session_itself_teach_no_limit() -> None:
    def find(*samples: Sample) -> int | None:
        learned = OutputStatistics(samples)
        return learned.find_long_tokens(THESIS, "shop/pen", documents_min=LEARNED_MIN)

    assert find(build_sample()) == 4_000
    assert find(build_sample(documents=LEARNED_MIN - 1)) is None
    assert find(build_sample(is_here=True)) is None
    assert find(build_sample(model_name="shop/other")) is None


@pytest.mark.parametrize("learned", [OutputStatistics(), OutputStatistics((build_sample(),))])
def test_the_quote_has_the_limit_that_a_call_will_have(learned: OutputStatistics) -> None:
    process = load_process("standard")
    brief = Brief(request="A booking service.", domain="General")
    terms = Terms(continues=True, max_continuations=5)
    quote = build_quote(process, [PEN], brief, terms, learned=learned)
    size = expect_size(process, THESIS, PEN, learned, models=1)
    asked = process.load_stage("thesis").length
    assert asked is not None
    limit = decide_answer_limit(
        size.output_tokens,
        PEN,
        None,
        long_tokens=learned.find_long_tokens(THESIS, PEN.name, documents_min=LEARNED_MIN),
        asked_tokens=asked.words_min * 1.35,
    )
    (line,) = [line for line in quote.lines if line.stage_slug == "thesis"]
    assert line.answer_limit_tokens == limit
    assert line.figures.worst.output_tokens == limit
    own = build_quote(process, [PEN], brief, Terms(), learned=learned)
    assert own.lines[0].answer_limit_tokens == PEN.max_output_tokens
