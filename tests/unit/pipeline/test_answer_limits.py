"""Before a run it is known how far the available money will limit the answers."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dialectic.core.models.model import ModelCard
from dialectic.core.money.price import Funds
from dialectic.core.money.quote import Amount, AnswerLimit, Figures, Line
from dialectic.pipeline.answer_limits import list_answer_limits

FIFTH = Decimal("0.2")
PEN = ModelCard(
    name="shop/pen",
    context_window_tokens=200_000,
    max_input_tokens=190_000,
    max_output_tokens=8_000,
    input_credits_per_token=Decimal(3),
    output_credits_per_token=Decimal(15),
    tokenizer="chars:4",
)


def build_line(stage: str, calls: int, **changes: Any) -> Line:
    """Calls with a prompt of 1,000 tokens and an expected answer of 200."""
    facts: dict[str, Any] = {
        "stage_slug": stage,
        "step_name": stage,
        "output_type": stage,
        "model_index": 1,
        "model_name": "shop/pen",
        "is_play": False,
        "answer_limit_tokens": 8_000,
        "figures": Figures(expected=Amount(calls, 1_000 * calls, 200 * calls, 6_000 * calls)),
    }
    return Line(**facts | changes)


def expect(*lines: Line, available: int | None, concurrency: int = 1, **changes: Any) -> Any:
    funds = Funds(available, **changes)
    found = list_answer_limits(
        lines,
        {"shop/pen": PEN},
        funds,
        FIFTH,
        concurrency=concurrency,
    )
    assert all(isinstance(one, AnswerLimit) for one in found)
    return {one.stage_slug: (one.max_output_tokens, one.limited_from_tokens) for one in found}


def test_enough_money_limits_nothing_and_neither_does_a_wallet_that_only_counts() -> None:
    assert expect(build_line("thesis", 3), available=10**9) == {}
    assert expect(build_line("thesis", 3), available=None) == {}


def test_a_call_may_reserve_a_fifth_of_the_balance() -> None:
    """A fifth of 300,000 is 60,000; the prompt takes 3,300 of it, a token of the answer 15."""
    assert expect(build_line("thesis", 1), available=300_000) == {
        "thesis": ((60_000 - 3_300) // 15, 8_000)
    }


def test_calls_at_the_same_time_leave_less_for_each_other() -> None:
    alone = expect(build_line("thesis", 3), available=600_000)
    together = expect(build_line("thesis", 3), available=600_000, concurrency=3)
    assert together["thesis"][0] < alone["thesis"][0]


def test_what_earlier_stages_are_expected_to_spend_limits_later_ones() -> None:
    lines = build_line("thesis", 1), build_line("synthesis", 40), build_line("verdict", 1)
    limits = expect(*lines, available=630_000)
    assert "thesis" not in limits
    left = 630_000 - 40 * 6_000
    assert limits["synthesis"] == ((left // 5 - 3_300) // 15, 8_000)
    assert limits["verdict"] == (((left - 6_000) // 5 - 3_300) // 15, 8_000)


def test_a_budget_limits_answers_even_of_a_wallet_that_only_counts() -> None:
    limits = expect(
        build_line("thesis", 1),
        available=None,
        budget_credits=50_000,
        budget_left_credits=50_000,
    )
    assert limits == {"thesis": ((50_000 - 3_300) // 15, 8_000)}


def test_where_the_money_is_used_up_the_run_pauses_and_limits_nothing_more() -> None:
    """What remains pays for no useful answer: an error says so."""
    assert expect(build_line("thesis", 1), available=10_000) == {}


def test_vectors_cost_money_and_have_no_answer() -> None:
    vectors = build_line("thesis", 0, model_name="shop/vectors", model_index=0)
    assert expect(vectors, available=10) == {}


@given(st.integers(0, 3_000_000), st.integers(0, 3_000_000), st.integers(1, 5))
def test_more_money_never_limits_more(less: int, more: int, concurrency: int) -> None:
    less, more = sorted((less, more))
    line = build_line("thesis", 1)
    poor = expect(line, available=less, concurrency=concurrency)
    rich = expect(line, available=more, concurrency=concurrency)
    if poor and rich and less >= 100_000:
        assert poor["thesis"][0] <= rich["thesis"][0]
