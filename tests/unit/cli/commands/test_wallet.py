"""Money in words: exact, and play money never as dollars."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

from dialectic.cli.commands.wallet import describe_costs, describe_transaction, describe_wallet
from dialectic.contract.accounts import Cost, Money, Transaction, Wallet
from dialectic.contract.base import build_record

SESSION = UUID("41aca13c-0000-4000-8000-000000000000")
EMPTY = Money.of(0, 0)
COST = {
    "stage_slug": "thesis",
    "model_name": "maker/model",
    "seat": 1,
    "purpose": "call",
    "is_play": False,
    "calls": 2,
    "input_tokens": 1000,
    "output_tokens": 500,
    "charged_credits": 55_000,
    "overrun_credits": 0,
    "lost_calls": 0,
    "lost_credits": 0,
    "held_credits": 0,
}
PAID = {
    "id": 1,
    "created_at": datetime(2026, 11, 16, 7, 0, tzinfo=UTC),
    "transaction_type": "usage",
    "is_play": False,
    "amount_credits": 55_000,
    "change_credits": -55_000,
    "balance_after_credits": 19_945_000,
    "notes": None,
    "purpose": "call",
    "model_name": "maker/model",
    "session_id": SESSION,
    "stage_slug": "thesis",
}


def build_wallet(money: Money, *, is_count_only: bool = False) -> Wallet:
    return Wallet(
        id=UUID(int=1), user_id=None, is_count_only=is_count_only, money=money, play_money=EMPTY
    )


def build_cost(**changes: object) -> Cost:
    return Cost.model_validate({**COST, **changes})


def build_transaction(**changes: object) -> Transaction:
    return Transaction.model_validate({**PAID, **changes})


def test_a_row_becomes_a_response_and_the_same_row_again() -> None:
    assert build_record(build_transaction()) == PAID
    assert build_record(build_cost(lost_calls=1, lost_credits=3)) == {
        **COST,
        "lost_calls": 1,
        "lost_credits": 3,
    }


def test_what_is_set_aside_is_told_with_what_is_left() -> None:
    wallet = build_wallet(Money.of(20_000_000, 130_000))
    assert list(describe_wallet(wallet)) == [
        "$20.00, of which $0.13 is reserved for unsettled calls; $19.87 is available",
        "play 0.00",
    ]


def test_a_wallet_that_only_counts_shows_what_it_has_spent() -> None:
    lines = list(describe_wallet(build_wallet(Money.of(-3_200_000, 0), is_count_only=True)))
    assert lines[0] == "$3.20 spent"
    assert lines[2].startswith("no limit")


def test_a_wallet_that_only_counts_tells_reserved_and_added_money() -> None:
    reserved = build_wallet(Money.of(-3_200_000, 130_000), is_count_only=True)
    assert next(describe_wallet(reserved)) == (
        "$3.20 spent; $0.13 more is reserved for unsettled calls"
    )
    added = build_wallet(Money.of(3_200_000, 0), is_count_only=True)
    assert next(describe_wallet(added)) == "$3.20"


def test_a_transfer_tells_what_it_was_for() -> None:
    line = describe_transaction(build_transaction())
    assert line.split("  ", 1)[0] == "2026-11-16 07:00"
    assert "-$0.0550" in line
    assert line.endswith("call, maker/model, thesis, 41aca13c")


def test_a_loss_is_told_as_not_charged() -> None:
    line = describe_transaction(build_transaction(transaction_type="loss", change_credits=0))
    assert line.endswith("not charged to the wallet")
    assert " $0.0550" in line


def test_costs_are_summed_for_each_kind_of_money_by_itself() -> None:
    play = build_cost(model_name="offline/skeptic", is_play=True, calls=1)
    lines = list(describe_costs([build_cost(), play]))
    assert lines[0].endswith("$0.0550")
    assert lines[1].endswith("play 0.0550")
    assert lines[2:] == ["total  2 calls, $0.0550", "total  1 call, play 0.0550"]
    assert not any("$" in line for line in describe_costs([play]))


def test_uncharged_amounts_are_shown_next_to_the_cost() -> None:
    (line, _) = describe_costs(
        [build_cost(overrun_credits=100, lost_calls=1, lost_credits=300, held_credits=500)]
    )
    assert line.endswith(
        "$0.0550; set aside $0.0005; beyond the reservation, not charged: $0.0001; "
        "1 response lost, not charged: $0.0003"
    )


def test_other_purposes_are_named() -> None:
    (line, _) = describe_costs([build_cost(purpose="embedding", stage_slug=None)])
    assert line.split()[:3] == ["-", "maker/model", "embedding"]
