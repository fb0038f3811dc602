"""A provider's report is used if it is plausible, and kept next to our count if not."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dialectic.core.models.messages import (
    ABOVE_CAP,
    ABSURD,
    NEGATIVE,
    NOT_A_NUMBER,
    TOKENS_MAX,
    ZERO,
    Actual,
    Counted,
    UsageSource,
    judge_usage,
)
from tests.cases import each_case

COUNTED = Counted(input_tokens=1_000, output_tokens=200, output_cap_tokens=4_000)


def test_what_makes_sense_is_believed() -> None:
    assert judge_usage((1_050, 230), COUNTED) == Actual(1_050, 230, UsageSource.REPORTED)
    assert judge_usage((3_000, 600), COUNTED) == Actual(3_000, 600, UsageSource.REPORTED)


def test_what_is_missing_is_counted_and_says_so() -> None:
    assert judge_usage(None, COUNTED) == Actual(1_000, 200, UsageSource.COUNTED)


@each_case(
    ("reported", "settled", "flags"),
    [
        ((-1, 230), (1_000, 230), (NEGATIVE,)),
        ((1_050, -230), (1_050, 200), (NEGATIVE,)),
        ((1_050, 0), (1_050, 200), (ZERO,)),
        ((0, 0), (1_000, 200), (ZERO,)),
        ((10_000, 230), (10_000, 230), (ABSURD,)),
        ((1_050, 2_000), (1_050, 2_000), (ABSURD,)),
        ((1_050, 601), (1_050, 601), (ABSURD,)),
        (("1050", 230), (1_000, 230), (NOT_A_NUMBER,)),
        ((1_050, None), (1_050, 200), (NOT_A_NUMBER,)),
        ((1_050, 230.0), (1_050, 200), (NOT_A_NUMBER,)),
        ((True, 230), (1_000, 230), (NOT_A_NUMBER,)),
        ((float("nan"), []), (1_000, 200), (NOT_A_NUMBER,)),
        ((-1, 10**30), (1_000, TOKENS_MAX), (ABSURD, NEGATIVE)),
    ],
)
def test_what_makes_no_sense_is_doubted_and_both_numbers_are_kept(
    reported: tuple[Any, Any], settled: tuple[int, int], flags: tuple[str, ...]
) -> None:
    actual = judge_usage(reported, COUNTED)
    assert (actual.input_tokens, actual.output_tokens) == settled
    assert actual.flags == flags
    assert actual.is_doubted
    assert actual.reported is not None
    assert actual.reported["counted"] == {"input_tokens": 1_000, "output_tokens": 200}
    assert set(actual.reported["reported"]) == {"input_tokens", "output_tokens"}


def test_more_than_was_allowed_is_doubted() -> None:
    near = Counted(input_tokens=1_000, output_tokens=3_900, output_cap_tokens=4_000)
    assert judge_usage((1_000, 4_000), near).flags == ()
    assert judge_usage((1_000, 4_001), near).flags == (ABOVE_CAP,)


def test_a_model_that_thinks_unseen_may_use_more_than_it_shows() -> None:
    thinking = Counted(1_000, 200, 4_000, has_unseen_output=True)
    assert judge_usage((1_000, 3_900), thinking).flags == ()
    assert judge_usage((1_000, 4_001), thinking).flags == (ABOVE_CAP,)


def test_no_output_is_believed_where_no_text_came() -> None:
    silent = Counted(1_000, 0, 4_000)
    assert judge_usage((1_000, 0), silent) == Actual(1_000, 0, UsageSource.REPORTED)


def test_what_is_kept_of_a_strange_report_is_short() -> None:
    actual = judge_usage(("x" * 10_000, 230), COUNTED)
    assert actual.reported is not None
    assert len(str(actual.reported["reported"]["input_tokens"])) <= 40


anything = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()


@given(st.none() | st.tuples(anything, anything), st.integers(0, 10**6), st.integers(0, 10**6))
def test_whatever_is_reported_there_are_tokens_to_settle_by(
    reported: tuple[Any, Any] | None, read: int, written: int
) -> None:
    actual = judge_usage(reported, Counted(read, written, 10**6))
    assert 0 <= actual.input_tokens <= max(TOKENS_MAX, read)
    assert 0 <= actual.output_tokens <= max(TOKENS_MAX, written)
    if not actual.is_doubted:
        assert actual.input_tokens <= 3 * read
        assert actual.output_tokens <= 3 * written
