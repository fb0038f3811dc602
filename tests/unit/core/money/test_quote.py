"""Amounts, lines and sums of a quote, and a forecast that is held against it."""

from __future__ import annotations

import dataclasses
import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialectic.core.money.price import Funds, is_play, price_call
from dialectic.core.money.quote import (
    EXTRA_RATE,
    NOTHING,
    Amount,
    Bound,
    Duration,
    Figures,
    Line,
    OutputStatistics,
    Quote,
    add_figures,
    add_up,
    build_forecast,
    compute_rare_count,
    find_end,
    list_steps,
)
from dialectic.providers.offline.provider import CARDS
from tests.cases import each_case

CARD = CARDS[0]
amounts = st.builds(Amount, *[st.integers(0, 10**9)] * 4)
figures = st.builds(Figures, amounts, amounts, amounts, amounts, amounts)


def build_line(stage: str, step: str, index: int, **changes: Any) -> Line:
    made = Line(
        stage_slug=stage,
        step_name=step,
        output_type=f"{step}_made",
        model_index=index,
        model_name="shop/pen",
        is_play=False,
        figures=Figures(Amount(2, 100, 40, 10), Amount(2, 200, 80, 30)),
    )
    return dataclasses.replace(made, **changes)


def build(*lines: Line) -> Quote:
    durations = {line.stage_slug: Duration(2.0, 5.0) for line in lines}
    return Quote(process_name="small", models=("shop/pen",), lines=lines, durations=durations)


# -- prices ----------------------------------------------------------------------------------------


@each_case(
    ("read", "written", "price"),
    [(0, 0, 0), (1, 0, 1), (10, 0, 1), (11, 0, 2), (10, 10, 5), (1, 1, 1), (3, 1, 1), (7, 1, 2)],
)
def test_a_call_is_rounded_up_once_and_never_per_part(read: int, written: int, price: int) -> None:
    assert price_call(CARD, read, written) == price


@given(
    st.decimals("0", "1000", places=6),
    st.decimals("0", "1000", places=6),
    st.integers(0, 10**7),
    st.integers(0, 10**7),
)
def test_a_price_is_the_least_whole_number_that_covers_the_call(
    input_rate: Decimal, output_rate: Decimal, read: int, written: int
) -> None:
    card = dataclasses.replace(
        CARD, input_credits_per_token=input_rate, output_credits_per_token=output_rate
    )
    millionths = int(input_rate * 10**6) * read + int(output_rate * 10**6) * written
    assert price_call(card, read, written) == -(-millionths // 10**6)


def test_only_the_offline_models_are_paid_in_play_money() -> None:
    assert all(is_play(card) for card in CARDS)
    assert not is_play(dataclasses.replace(CARD, name="offlinex/architect"))


# -- sums ------------------------------------------------------------------------------------------


@given(st.lists(amounts))
def test_amounts_add_up_part_by_part(some: list[Amount]) -> None:
    whole = add_up(some)
    for field in dataclasses.fields(Amount):
        assert getattr(whole, field.name) == sum(getattr(a, field.name) for a in some)


@given(amounts, st.integers(0, 30))
def test_an_amount_times_a_number_is_that_often_added(amount: Amount, times: int) -> None:
    assert amount * times == add_up([amount] * times)


@given(amounts, st.integers(1, 50), st.data())
def test_two_shares_of_an_amount_cover_it_and_no_more_than_a_rounding_beyond(
    amount: Amount, whole: int, data: st.DataObject
) -> None:
    part = data.draw(st.integers(0, whole))
    both = amount.share(part, whole) + amount.share(whole - part, whole)
    for field in dataclasses.fields(Amount):
        exact, found = getattr(amount, field.name), getattr(both, field.name)
        assert exact <= found <= exact + 1


@given(figures)
def test_the_ceiling_holds_all_that_can_come_and_the_likely_all_that_is_expected(
    some: Figures,
) -> None:
    assert some.likely == some.expected + some.further
    assert some.ceiling == some.worst + some.continuations + some.retries


def test_stages_and_steps_are_told_in_order_and_add_up_to_the_whole() -> None:
    lines = [
        build_line(stage, step, index)
        for stage, step in (("thesis", "thesis"), ("synthesis", "pairs"), ("synthesis", "final"))
        for index in (1, 2)
    ]
    quote = build(*lines)
    stages = list(quote.list_stages())
    assert [slug for slug, _ in stages] == ["thesis", "synthesis"]
    assert [name for name, _ in list_steps(stages[1][1])] == ["pairs", "final"]
    assert sum((add_figures(some) for _, some in stages), start=Figures()) == quote.figures
    assert quote.planned_calls == 12
    assert quote.duration == Duration(4.0, 10.0)


def test_money_and_play_money_are_kept_apart() -> None:
    quote = build(
        build_line("thesis", "thesis", 1),
        build_line("thesis", "thesis", 2, is_play=True, model_name="offline/architect"),
    )
    assert quote.only(is_play=False).figures.expected.credits == 10
    assert quote.only(is_play=True).figures.expected.credits == 10


@each_case(
    ("left", "budget_left", "end"),
    [
        (None, None, None),
        (30, None, None),
        (29, None, "paralysis"),
        (20, None, "paralysis"),
        (19, None, "synthesis"),
        (None, 9, "thesis"),
        (29, 19, "synthesis"),
        (-5, None, "thesis"),
    ],
)
def test_money_ends_in_the_first_stage_that_it_does_not_cover(
    left: int | None, budget_left: int | None, end: str | None
) -> None:
    quote = build(*(build_line(stage, stage, 1) for stage in ("thesis", "synthesis", "paralysis")))
    assert find_end(quote, [Funds(left, budget_left, budget_left)]) == end
    assert find_end(quote, [Funds(0, 0, 0, is_play=True)]) is None, "nothing costs play money"


# -- forecast --------------------------------------------------------------------------------------


def test_before_anything_is_done_the_forecast_is_the_quote() -> None:
    quote = build(build_line("thesis", "thesis", 1), build_line("thesis", "thesis", 2))
    forecast = build_forecast(quote, {})
    assert forecast.spent == Amount()
    assert forecast.whole == quote.figures.likely


def test_what_is_done_counts_as_it_was_and_the_rest_as_it_is_expected() -> None:
    quote = build(build_line("thesis", "thesis", 1), build_line("thesis", "thesis", 2))
    done = {("thesis", "thesis_made", 1): Amount(1, 999, 99, 77)}
    forecast = build_forecast(quote, done)
    assert forecast.spent == Amount(1, 999, 99, 77)
    assert forecast.rest == Amount(1 + 2, 50 + 100, 20 + 40, 5 + 10)
    assert forecast.whole.credits == 77 + 15


def test_when_everything_is_done_nothing_is_left_even_if_more_was_done_than_planned() -> None:
    quote = build(build_line("thesis", "thesis", 1))
    forecast = build_forecast(quote, {("thesis", "thesis_made", 1): Amount(3, 1, 1, 50)})
    assert forecast.rest == Amount()
    assert forecast.whole.credits == 50


def test_a_call_without_a_line_was_still_paid() -> None:
    forecast = build_forecast(build(), {("elsewhere", "thing", 1): Amount(1, 2, 3, 4)})
    assert forecast.whole == Amount(1, 2, 3, 4)


# -- the realistic bound ---------------------------------------------------------------------------


@given(st.floats(0, 2_000))
def test_of_rare_events_nineteen_of_twenty_cases_have_no_more(mean: float) -> None:
    count = compute_rare_count(mean)
    assert count >= math.floor(mean * 0.9)
    assert count <= mean + 3 * math.sqrt(mean) + 1


@pytest.mark.parametrize(("mean", "count"), [(0.0, 0), (0.05, 0), (0.15, 1), (8.55, 14)])
def test_the_count_of_rare_events_is_that_of_the_tables(mean: float, count: int) -> None:
    assert compute_rare_count(mean) == count


def test_the_bound_lies_between_what_is_expected_and_what_is_possible() -> None:
    line = build_line("thesis", "thesis", 1)
    quote = build(line)
    bound = quote.compute_bound(line.figures).credits
    assert line.figures.likely.credits < bound <= line.figures.ceiling.credits
    empty = build()
    assert empty.compute_bound(empty.figures) == Bound(0, 0)


def test_what_was_learned_of_extra_calls_moves_the_bound() -> None:
    assert NOTHING.compute_extra_rate() == pytest.approx(EXTRA_RATE)
    steady = OutputStatistics(paid_calls=570, paid_documents=570).compute_extra_rate()
    shaky = OutputStatistics(paid_calls=1140, paid_documents=570).compute_extra_rate()
    assert steady < 0.01 < 0.9 < shaky
    assert OutputStatistics(paid_calls=3, paid_documents=9).compute_extra_rate() > 0
