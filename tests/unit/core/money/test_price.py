"""Prices are exact, caps stay within the money, and refusals name the figures."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from math import ceil

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dialectic.core.models.model import ModelCard
from dialectic.core.money.price import (
    AMOUNT_MAX_USD,
    USEFUL_OUTPUT_TOKENS,
    Funds,
    Rates,
    check_spend,
    count_upper_input,
    decide_hold,
    decide_output_cap,
    format_credits,
    is_play,
    parse_usd,
)
from dialectic.errors import (
    ContextWindowError,
    ExitCode,
    Fate,
    FundsError,
    Remedy,
    RemedyAction,
    SpendNeedsApproval,
    UsageError,
)
from tests.cases import each_case
from tests.problems import refusing

CARD = ModelCard(
    name="maker/model",
    context_window_tokens=200_000,
    max_input_tokens=190_000,
    max_output_tokens=32_000,
    input_credits_per_token=Decimal(3),
    output_credits_per_token=Decimal(15),
    tokenizer="chars:4",
)
RATES = Rates.of(CARD)
FIFTH = Decimal("0.2")

rates = st.builds(
    Rates,
    st.decimals(0, 1000, allow_nan=False, places=10),
    st.decimals(0, 1000, allow_nan=False, places=10),
)
tokens = st.integers(0, 2_000_000)
amounts = st.integers(0, 10**12)
fractions = st.decimals("0.0001", 1, places=4)


# -- exact -----------------------------------------------------------------------------------------


def test_a_price_in_dollars_per_million_tokens_is_the_rate_in_credits() -> None:
    assert RATES.cost(1_000_000, 0) == 3_000_000
    assert RATES.cost(0, 1_000_000) == 15_000_000


def test_a_call_is_rounded_up_once_and_not_for_each_part() -> None:
    third = Rates(Decimal("0.3"), Decimal("0.3"))
    assert third.cost(1, 1) == 1
    assert third.cost(2, 2) == 2
    assert third.cost(0, 0) == 0


@given(rates, tokens, tokens)
def test_a_cost_is_the_exact_one_rounded_up(rate: Rates, read: int, written: int) -> None:
    exact = Fraction(rate.input) * read + Fraction(rate.output) * written
    assert rate.cost(read, written) == ceil(exact)


@given(rates, tokens, tokens)
def test_a_hold_covers_a_call_whose_provider_counts_a_tenth_more(
    rate: Rates, counted: int, cap: int
) -> None:
    hold = decide_hold(counted, cap, rate)
    assert hold >= rate.cost(ceil(Fraction(11, 10) * counted), cap)
    assert count_upper_input(counted) == ceil(Fraction(11, 10) * counted)


def test_only_offline_models_are_paid_for_with_play_money() -> None:
    assert not is_play(CARD)
    assert is_play(replace(CARD, name="offline/architect"))


# -- the output cap --------------------------------------------------------------------------------


def cap(
    purse: Funds, *, counted: int = 1_000, wanted: int = 8_000, fraction: Decimal = FIFTH
) -> int:
    return decide_output_cap(purse, RATES, counted, CARD, wanted, fraction=fraction)


def test_with_money_enough_an_answer_is_as_long_as_wanted_and_possible() -> None:
    rich = Funds(10**12)
    assert cap(rich) == 8_000
    assert cap(rich, wanted=10**6) == CARD.max_output_tokens
    assert cap(rich, wanted=10**6, counted=199_000) == 1_000
    assert cap(Funds(None)) == 8_000


def test_an_answer_is_kept_to_the_share_that_may_be_spent_unasked() -> None:
    """A fifth of 300,000 is 60,000; the prompt takes 3,300 of it, a token of the answer 15."""
    assert cap(Funds(300_000)) == (60_000 - 3_300) // 15 == 3_780


def test_where_the_share_leaves_no_room_for_an_answer_of_use_all_there_is_counts() -> None:
    """A fifth of 80,000 pays for 846 tokens: too few. All of it pays for 5,113."""
    assert cap(Funds(80_000)) == (80_000 - 3_300) // 15 == 5_113


def test_an_answer_is_kept_within_the_budget() -> None:
    assert cap(Funds(10**12, 10**6, 30_000)) == (30_000 - 3_300) // 15
    assert cap(Funds(None, 10**6, 30_000)) == (30_000 - 3_300) // 15


@each_case(
    ("purse", "reason", "names"),
    [
        (Funds(3_299), "wallet", ("$0.0183", "$0.003299")),
        (Funds(3_300 + 15 * 999), "wallet", ("$0.018285",)),
        (Funds(0), "wallet", ("$0.00",)),
        (Funds(0, is_play=True), "wallet", ("play 0.00",)),
        (Funds(10**9, 20_000, 10_000), "budget", ("$0.01", "$0.02")),
        (Funds(None, 20_000, 10_000), "budget", ("$0.01",)),
    ],
)
def test_without_money_for_a_prompt_and_an_answer_of_use_nothing_is_called(
    purse: Funds, reason: str, names: tuple[str, ...]
) -> None:
    with refusing(FundsError, *names, reason=reason) as refused:
        cap(purse)
    assert refused.value.code == "insufficient_funds"
    assert (refused.value.needed_credits, refused.value.is_play) == (18_300, purse.is_play)
    topup = Remedy(RemedyAction.TOP_UP, is_play=purse.is_play)
    helps = topup if reason == "wallet" else Remedy(RemedyAction.RAISE_BUDGET)
    assert refused.value.remedy == helps


def test_a_short_answer_that_is_wanted_so_short_is_of_use() -> None:
    assert cap(Funds(10_000), wanted=50) == 50


def test_a_prompt_that_fills_the_window_leaves_no_room_for_an_answer() -> None:
    with refusing(ContextWindowError, "200,000", reason="no_room_for_an_answer"):
        cap(Funds(None), counted=200_000)


@given(rates, amounts, st.none() | amounts, st.integers(0, 199_999), tokens, fractions)
def test_the_hold_for_a_cap_is_never_more_than_may_be_spent(
    rate: Rates, available: int, budget: int | None, counted: int, wanted: int, fraction: Decimal
) -> None:
    assume(wanted > 0)
    purse = Funds(available, budget, budget)
    try:
        found = decide_output_cap(purse, rate, counted, CARD, wanted, fraction=fraction)
    except FundsError:
        least = min(wanted, CARD.max_output_tokens, USEFUL_OUTPUT_TOKENS, 200_000 - counted)
        assert rate.cost(count_upper_input(counted), least) > (purse.spendable_credits or 0)
    else:
        assert 1 <= found <= min(wanted, CARD.max_output_tokens, 200_000 - counted)
        assert decide_hold(counted, found, rate) <= (purse.spendable_credits or 0)


# -- what may be spent unasked ---------------------------------------------------------------------


def test_a_fifth_of_what_is_available_may_be_spent_unasked() -> None:
    check_spend(200, Funds(1_000), FIFTH)
    with pytest.raises(SpendNeedsApproval) as asked:
        check_spend(201, Funds(1_000), FIFTH)
    for words in ("$0.000201", "20%", "$0.0010", "DIALECTIC_MAX_SPEND_FRACTION"):
        assert words in asked.value.message
    assert isinstance(asked.value, FundsError)
    assert (asked.value.code, asked.value.fate) == ("spend_needs_approval", Fate.PAUSE)
    assert asked.value.exit_code is ExitCode.FUNDS


def test_what_can_be_done_is_said_and_nothing_else() -> None:
    with pytest.raises(SpendNeedsApproval) as asked:
        check_spend(201, Funds(1_000, session="41ac"), FIFTH)
    assert asked.value.remedy == Remedy(RemedyAction.APPROVE_SPEND, session_id="41ac")
    with pytest.raises(SpendNeedsApproval) as asked:
        check_spend(201, Funds(1_000), FIFTH)
    helps = Remedy(RemedyAction.TOP_UP, is_play=False)
    assert asked.value.remedy == helps, "no session waits for it"
    with pytest.raises(FundsError) as refused:
        check_spend(31, Funds(10**6, 100, 30, session="41ac"), FIFTH)
    assert refused.value.remedy == Remedy(RemedyAction.RAISE_BUDGET, session_id="41ac")


def test_more_than_there_is_cannot_be_approved() -> None:
    with pytest.raises(FundsError) as refused:
        check_spend(1_001, Funds(1_000), FIFTH)
    assert type(refused.value) is FundsError


def test_inside_a_budget_no_call_needs_a_further_approval() -> None:
    with refusing(SpendNeedsApproval, reason="wallet"):
        check_spend(21, Funds(100), FIFTH)
    check_spend(21, Funds(100, 100, 30), FIFTH)
    check_spend(30, Funds(10**6, 100, 30), FIFTH)
    with refusing(FundsError, reason="budget"):
        check_spend(31, Funds(10**6, 100, 30), FIFTH)


def test_a_wallet_that_only_counts_asks_no_question_but_keeps_to_the_budget() -> None:
    check_spend(10**12, Funds(None), FIFTH)
    check_spend(30, Funds(None, 100, 30), FIFTH)
    with pytest.raises(FundsError):
        check_spend(31, Funds(None, 100, 30), FIFTH)


def test_with_the_whole_as_the_share_everything_there_is_may_be_spent() -> None:
    check_spend(1_000, Funds(1_000), Decimal(1))


@given(amounts, amounts, fractions)
def test_what_passes_is_within_the_share(estimate: int, available: int, fraction: Decimal) -> None:
    try:
        check_spend(estimate, Funds(available), fraction)
    except SpendNeedsApproval:
        assert Fraction(estimate) > Fraction(fraction) * available
        assert estimate <= available
    except FundsError:
        assert estimate > available
    else:
        assert Fraction(estimate) <= Fraction(fraction) * available


# -- amounts as people write and read them ---------------------------------------------------------


@each_case(
    ("text", "amount"),
    [
        ("20", 20_000_000),
        ("0.5", 500_000),
        (" 7.25 ", 7_250_000),
        ("0.000001", 1),
        ("1000000", 10**12),
        ("007", 7_000_000),
    ],
)
def test_an_amount_is_read_exactly(text: str, amount: int) -> None:
    assert parse_usd(text) == amount


@each_case(
    "text",
    [
        *("", " ", "-5", "+5", "NaN", "inf", "-inf", "1e3", "1e999"),
        *("0.0000001", "1.1234567", "1,000", "$20", "20 USD", ".5", "5.", "1_000", "0x10"),
        *(
            "٢٠",
            "\uff12\uff10",
            "1\n2",
            "1\x00",
            "twenty",
        ),
    ],
)
def test_an_invalid_amount_is_refused_by_name(text: str) -> None:
    with refusing(UsageError, reason="not_an_amount"):
        parse_usd(text)


@each_case("text", ["0", "0.0", "0.000000", "1000000.000001", "99999999999999999999"])
def test_an_amount_out_of_range_says_the_range(text: str) -> None:
    with refusing(UsageError, reason="out_of_range", limit=1_000_000):
        parse_usd(text)


@each_case(
    ("amount", "shown"),
    [
        (55_000, "$0.0550"),
        (20_000_000, "$20.00"),
        (1, "$0.000001"),
        (0, "$0.00"),
        (-3_200_000, "-$3.20"),
        (1_234_567_890_100, "$1,234,567.8901"),
    ],
)
def test_an_amount_is_shown_exactly(amount: int, shown: str) -> None:
    assert format_credits(amount) == shown


def test_play_money_never_looks_like_dollars() -> None:
    assert format_credits(55_000, is_play=True) == "play 0.0550"
    assert format_credits(-55_000, is_play=True) == "play -0.0550"


@given(st.integers(1, AMOUNT_MAX_USD * 10**6))
def test_what_is_shown_can_be_read_again(amount: int) -> None:
    assert parse_usd(format_credits(amount).replace("$", "").replace(",", "")) == amount
