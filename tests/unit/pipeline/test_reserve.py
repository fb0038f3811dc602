"""What a call that came to nothing is paid for: decided without a wallet."""

from __future__ import annotations

from decimal import Decimal
from uuid import UUID

from dialectic.core.models.messages import Actual, UsageSource
from dialectic.errors import (
    DatabaseFull,
    DialecticError,
    PartialResponse,
    ProviderFiltered,
    ProviderTransient,
    StreamTruncated,
)
from dialectic.ledger.holds import Hold, HoldState, Purpose
from dialectic.pipeline.reserve import price_failure
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
