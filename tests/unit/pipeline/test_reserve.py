"""What a call that came to nothing is paid for: decided without a wallet."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from uuid import UUID

import pytest

from dialectic.core.models.messages import Actual, Message, Request, Role, UsageSource
from dialectic.core.money.price import Funds
from dialectic.errors import (
    DatabaseFull,
    DialecticError,
    FundsError,
    PartialResponse,
    ProviderFiltered,
    ProviderTransient,
    SpendNeedsApproval,
    StreamTruncated,
)
from dialectic.ledger.holds import Hold, HoldState, Purpose
from dialectic.pipeline.reserve import Reservation, decide_cap, price_failure
from tests.cases import each_case
from tests.conformance.provider_client import CARD

HOLD = Hold(
    hold_key="a call",
    wallet_id=UUID(int=1),
    is_play=False,
    purpose=Purpose.CALL,
    model_name=CARD.name,
    amount_credits=1_000,
    input_credits_per_token=Decimal(1),
    output_credits_per_token=Decimal(2),
    counted_input_tokens=100,
    output_cap_tokens=400,
    state=HoldState.PENDING,
    cost_credits=None,
    charged_credits=None,
    flags=(),
    answer_id=None,
)
SENT = PartialResponse(was_sent=True)
SAID = PartialResponse(was_sent=True, partial_text="four" * 7)
TOLD = PartialResponse(was_sent=True, reported_usage=(90, 0))


def counted(output_tokens: int) -> Actual:
    return Actual(100, output_tokens, UsageSource.COUNTED)


@each_case(
    ("error", "paid"),
    [
        (StreamTruncated(remains=SAID), counted(7)),
        (StreamTruncated(remains=SENT), counted(0)),
        (ProviderFiltered(remains=SAID), counted(7)),
        (ProviderTransient(remains=TOLD), Actual(90, 0, UsageSource.REPORTED)),
        (ProviderTransient(remains=SENT), None),
        (ProviderFiltered(remains=SENT), None),
        (StreamTruncated(), None),
        (DatabaseFull(), None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_failed_call_is_paid_for_what_it_is_known_to_have_used(
    error: DialecticError, paid: Actual | None
) -> None:
    assert price_failure(HOLD, CARD, error) == paid


# -- full answers ----------------------------------------------------------------------------------

RATE = replace(
    CARD,
    max_output_tokens=8_000,
    context_window_tokens=64_000,
    input_credits_per_token=Decimal(0),
    output_credits_per_token=Decimal(10),
)
ASKED = Request(RATE.name, "", (Message(Role.USER, "Why?"),), 4_000)
FULL_CREDITS = 40_000


def decide(funds: Funds, *, is_approved: bool = False, full_answers_only: bool = True) -> int:
    return decide_cap(
        funds,
        RATE,
        ASKED,
        100,
        fraction=Decimal("0.2"),
        is_approved=is_approved,
        full_answers_only=full_answers_only,
    )


def test_a_call_gets_a_full_answer_if_the_money_allows_it() -> None:
    assert decide(Funds(5 * FULL_CREDITS)) == 4_000
    assert decide(Funds(None)) == 4_000


def test_a_full_answer_above_the_automatic_limit_waits_for_approval() -> None:
    less = Funds(5 * FULL_CREDITS - 5, session="s")
    assert decide(less, full_answers_only=False) == 3_999
    with pytest.raises(SpendNeedsApproval) as caught:
        decide(less)
    assert caught.value.needed_credits == FULL_CREDITS
    assert "a full answer of up to 4,000 tokens" in caught.value.message
    assert decide(less, is_approved=True) == 4_000


@each_case(("is_approved",), [(False,), (True,)])
def test_a_full_answer_that_the_money_does_not_cover_waits_for_money(is_approved: bool) -> None:
    with pytest.raises(FundsError) as caught:
        decide(Funds(FULL_CREDITS - 1), is_approved=is_approved)
    assert caught.value.code == "insufficient_funds"
    assert caught.value.needed_credits == FULL_CREDITS


def test_a_reservation_tells_what_the_answer_was_limited_from() -> None:
    held = Reservation(ASKED, "a call", 100, possible_tokens=4_000)
    assert held.limited_from is None
    less = replace(held, request=replace(ASKED, max_output_tokens=3_999))
    assert less.limited_from == 4_000
