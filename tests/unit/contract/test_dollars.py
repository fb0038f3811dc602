"""Dollars are exact."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from dialectic.contract.base import DollarsInput, show_dollars
from dialectic.core.money.price import parse_usd
from tests.cases import each_case

WISH: TypeAdapter[str] = TypeAdapter(DollarsInput)


@given(st.integers(-(10**15), 10**15))
def test_dollars_are_shown_exactly_and_without_an_exponent(amount: int) -> None:
    shown = show_dollars(amount)
    assert Decimal(shown) * 1_000_000 == amount
    assert "E" not in shown.upper()


@given(st.integers(1, 10**12))
def test_what_is_shown_can_be_wished_for(amount: int) -> None:
    assert parse_usd(WISH.validate_python(show_dollars(amount))) == amount


@pytest.mark.parametrize(
    ("given_as", "amount"), [(2, 2_000_000), (0.1, 100_000), ("2.50", 2_500_000)]
)
def test_a_number_means_what_is_written(given_as: object, amount: int) -> None:
    assert parse_usd(WISH.validate_python(given_as)) == amount


@each_case("wrong", [True, -1, 0, 1e300, float("nan"), "1e3", "", None, [1], "0.0000001"])
def test_an_invalid_amount_is_refused(wrong: object) -> None:
    with pytest.raises(ValidationError):
        WISH.validate_python(wrong)
