"""What docs/money.md says of the books is what the books are."""

from __future__ import annotations

import re

from dialectic.core.models import messages
from dialectic.core.money.price import USEFUL_OUTPUT_TOKENS
from dialectic.db.queries import load_queries
from dialectic.ledger.holds import HoldState
from tests.tidy.test_docs import first_column, read

TEXT = read("docs/money.md")
MIGRATION = read("src/dialectic/db/sql/migrations/0003_ledger.sql")


def test_every_state_of_a_hold_is_described() -> None:
    part = TEXT.split("## A call", 1)[1]
    assert first_column(part, "| state |") == [str(state) for state in HoldState]


def test_every_account_and_every_kind_of_transfer_is_described() -> None:
    kinds = re.findall(r"^      \('(\w+)', '(\w+)', '(\w+)'\)", MIGRATION, re.MULTILINE)
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| `(\w+)` \| `(\w+)` \|$", TEXT, re.MULTILINE)
    shown = [(kind, a, b) for names, a, b in rows for kind in re.findall(r"\w+", names)]
    accounts = re.findall(r"^--   (\w+)  ", MIGRATION, re.MULTILINE)

    assert shown == kinds
    assert sorted(accounts) == sorted({account for _, *both in kinds for account in both})
    assert [a for a in first_column(TEXT, "| account |") if a in accounts][:5] == accounts


def test_every_invariant_that_is_checked_is_described_and_no_other() -> None:
    checks = "".join(text for name, text in load_queries("ledger").items() if "verify" in name)
    checked = {int(number) for number in re.findall(r"'I(\d+)'", checks)}
    described = [int(number) for number in re.findall(r"^\| I(\d+) \|", TEXT, re.MULTILINE)]

    assert described == sorted(checked) == list(range(1, 11))


def test_every_doubt_about_usage_is_described() -> None:
    flags = {value for name, value in vars(messages).items() if str(value).startswith("usage_")}

    assert flags
    for flag in flags:
        assert f"`{flag}`" in TEXT
    assert f"({USEFUL_OUTPUT_TOKENS:,} tokens)" in TEXT
