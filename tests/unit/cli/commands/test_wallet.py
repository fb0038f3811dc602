"""Money in words: exact, and play money never as dollars."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

from dialectic.cli.commands.wallet import describe_costs, describe_transfer, describe_wallet
from dialectic.ledger.audit import Cost, Transfer
from dialectic.ledger.wallets import Wallet

SESSION = UUID("41aca13c-0000-4000-8000-000000000000")
EMPTY = Wallet(UUID(int=1), None, 0, 0, 0, 0, is_count_only=False)
COST = Cost("thesis", "maker/model", "call", False, 2, 1000, 500, 55_000, 0, 0, 0, 0)
PAID = Transfer(
    id=1,
    created_at=datetime(2026, 11, 16, 7, 0, tzinfo=UTC),
    transaction_type="usage",
    is_play=False,
    amount_credits=55_000,
    change_credits=-55_000,
    balance_after_credits=19_945_000,
    notes=None,
    purpose="call",
    model_name="maker/model",
    session_id=SESSION,
    stage_slug="thesis",
)


def test_what_is_set_aside_is_told_with_what_is_left() -> None:
    wallet = replace(EMPTY, balance_credits=20_000_000, held_credits=130_000)
    assert list(describe_wallet(wallet)) == [
        "$20.00, of which $0.13 is reserved for unsettled calls; $19.87 is available",
        "play 0.00",
    ]


def test_a_wallet_that_only_counts_shows_what_it_has_spent() -> None:
    lines = list(describe_wallet(replace(EMPTY, balance_credits=-3_200_000, is_count_only=True)))
    assert lines[0] == "-$3.20"
    assert lines[2].startswith("unlimited")


def test_a_transfer_tells_what_it_was_for() -> None:
    line = describe_transfer(PAID)
    assert line.split("  ", 1)[0] == "2026-11-16 07:00"
    assert "-$0.0550" in line
    assert line.endswith("call, maker/model, thesis, 41aca13c")


def test_a_loss_is_told_as_not_charged() -> None:
    line = describe_transfer(replace(PAID, transaction_type="loss", change_credits=0))
    assert line.endswith("not charged to the wallet")
    assert " $0.0550" in line


def test_costs_are_summed_for_each_kind_of_money_by_itself() -> None:
    play = replace(COST, model_name="offline/skeptic", is_play=True, calls=1)
    lines = list(describe_costs([COST, play]))
    assert lines[0].endswith("$0.0550")
    assert lines[1].endswith("play 0.0550")
    assert lines[2:] == ["total  2 calls, $0.0550", "total  1 call, play 0.0550"]
    assert not any("$" in line for line in describe_costs([play]))


def test_uncharged_amounts_are_shown_next_to_the_cost() -> None:
    (line, _) = describe_costs(
        [replace(COST, overrun_credits=100, lost_calls=1, lost_credits=300, held_credits=500)]
    )
    assert line.endswith(
        "$0.0550; set aside $0.0005; beyond the reservation, not charged: $0.0001; "
        "1 response lost, not charged: $0.0003"
    )


def test_other_purposes_are_named() -> None:
    (line, _) = describe_costs([replace(COST, purpose="embedding", stage_slug=None)])
    assert line.split()[:3] == ["-", "maker/model", "embedding"]
