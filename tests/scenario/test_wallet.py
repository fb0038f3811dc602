"""`dialectic wallet` as a person calls it: put in, spend, look, check."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from uuid import UUID, uuid4

import asyncpg
import pytest

from dialectic.db.pool import WORKER_ROLE, Address, Database
from dialectic.ledger import holds
from tests.command_pool import CommandResult
from tests.database.wallet_fixture import PLAIN, used
from tests.problems import list_codes
from tests.scenario.test_run import Home, copy_home


@pytest.fixture(scope="module")
def home(made_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    with copy_home(made_home, tmp_path_factory.mktemp("wallet") / "home") as opened:
        yield opened


def find_url(home: Home) -> str:
    result = home.tell("db", "url")
    assert result.code == 0, result.stderr
    return result.stdout.strip()


def ask(home: Home, *words: str) -> CommandResult:
    result = home.tell("wallet", *words)
    assert result.code == 0, result.stderr
    return result


async def spend(url: str, session_id: UUID) -> None:
    """Make two calls in a session as a worker does, one of them of a model that costs nothing."""
    connection = await asyncpg.connect(url)
    row = await connection.fetchrow("select tenant_id, id from dialectic.token_wallets")
    assert row is not None
    tenant_id, wallet_id = row
    await connection.close()
    async with Database.open(Address(url, is_embedded=True), WORKER_ROLE, size=1) as db:
        for model, is_play in (("maker/model", False), ("offline/skeptic", True)):
            new = holds.NewHold(
                key=str(uuid4()),
                wallet_id=wallet_id,
                is_play=is_play,
                purpose=holds.Purpose.TRIAL,
                model_name=model,
                amount_credits=60_000,
                rates=PLAIN,
                counted_input_tokens=0,
                output_cap_tokens=60_000,
                session_id=session_id,
                stage_slug="thesis",
            )
            await db.transact(tenant_id, partial(holds.reserve, new=new))
            await db.transact(
                tenant_id,
                partial(holds.settle, key=new.key, actual=used(55_000), answer_id=None),
            )


def test_a_wallet_from_its_first_dollar_to_the_last_look(home: Home) -> None:
    counted = ask(home, "balance").stdout.splitlines()
    assert counted[:2] == ["$0.00 spent", "play 1,000.00"]
    assert counted[2].startswith("no limit")
    assert ask(home, "unlimited", "--off").stdout.splitlines() == ["$0.00", "play 1,000.00"]
    result = ask(home, "topup", "20", "--note", "for the\tbakery \udcff")
    assert result.stdout.splitlines() == ["$20.00", "play 1,000.00"]

    started = home.tell("run", "--detach", "--models", "offline/skeptic", "A booking service.")
    session = started.stdout.strip()
    asyncio.run(spend(find_url(home), UUID(session)))

    assert ask(home, "balance").stdout.splitlines() == ["$19.9450", "play 999.9450"]
    costs = ask(home, "costs", session[:8]).stdout.splitlines()
    assert [line.split()[:2] for line in costs[:2]] == [
        ["thesis", "maker/model"],
        ["thesis", "offline/skeptic"],
    ]
    assert costs[2:] == ["total  1 call, $0.0550", "total  1 call, play 0.0550"]
    report = json.loads(ask(home, "costs", session, "--json").stdout)
    assert [cost["charged_credits"] for cost in report["costs"]] == [55_000, 55_000]

    history = ask(home, "history", "--limit", "3").stdout.splitlines()
    assert [line.split()[2] for line in history] == ["usage", "usage", "top_up"]
    assert "play -0.0550" in history[0]
    assert "-$0.0550" in history[1]
    assert "for the bakery" in history[2]
    transfers = json.loads(ask(home, "history", "--json").stdout)["transfers"]
    assert len(transfers) == 4
    assert all(re.match(r"\d{4}-\d\d-\d\dT", one["created_at"]) for one in transfers)

    assert "all is right" in ask(home, "verify").stderr


def test_a_wallet_can_be_told_to_only_count(home: Home) -> None:
    assert "no limit" in ask(home, "unlimited").stdout
    assert json.loads(ask(home, "balance", "--json").stdout)["is_count_only"] is True
    assert "no limit" not in ask(home, "unlimited", "--off").stdout


def test_a_limit_is_what_may_be_spent_from_now_on_and_can_be_raised_and_lowered(home: Home) -> None:
    ask(home, "unlimited")
    for amount in ("30", "0.5", "20"):
        said = ask(home, "limit", amount).stdout.splitlines()
        assert said[0] == {"30": "$30.00", "0.5": "$0.50", "20": "$20.00"}[amount]
    assert json.loads(ask(home, "balance", "--json").stdout)["is_count_only"] is False
    history = ask(home, "history", "--limit", "2").stdout.splitlines()
    assert [line.split()[2] for line in history] == ["top_up", "withdrawal"]
    assert "all is right" in ask(home, "verify").stderr
    refused = home.tell("wallet", "limit", "-5")
    assert (refused.code, list_codes(refused.stderr)) == (2, ["invalid_request"])


def test_an_operator_puts_money_into_any_wallet_and_looks_at_it(home: Home) -> None:
    for words in (
        ("user", "add", "ada"),
        ("org", "create", "Bakers", "--as", "ada"),
        ("wallet", "topup", "5", "--as", "ada", "--grant"),
        ("wallet", "topup", "7", "--as", "ada", "--org", "Bakers"),
        ("wallet", "unlimited", "--as", "ada", "--org", "Bakers"),
    ):
        result = home.tell(*words)
        assert result.code == 0, result.stderr
    mine = ask(home, "balance").stdout
    assert ask(home, "balance", "--as", "ada").stdout.splitlines()[0] == "$5.00"
    shared = ask(home, "balance", "--as", "ada", "--org", "Bakers").stdout.splitlines()
    assert (shared[0], "no limit" in shared[2]) == ("$7.00", True)
    history = ask(home, "history", "--as", "ada").stdout.splitlines()
    assert [line.split()[2] for line in history] == ["grant", "grant"]
    assert ask(home, "balance").stdout == mine, "nobody else's is touched"
    assert "Checked 3 wallets" in ask(home, "verify", "--all").stderr
    stranger = home.tell("wallet", "topup", "5", "--org", "Bakers")
    assert (stranger.code, list_codes(stranger.stderr)) == (2, ["not_found"])


def test_wrong_books_are_told_and_fail_the_command(home: Home) -> None:
    ask(home, "topup", "--play", "1")
    change = "update dialectic.token_wallets set play_balance_credits = play_balance_credits + {}"

    async def execute(statement: str) -> None:
        connection = await asyncpg.connect(find_url(home))
        await connection.execute(statement)
        await connection.close()

    asyncio.run(execute(change.format(7)))
    result = home.tell("wallet", "verify")
    assert result.code == 1
    assert result.stdout.startswith("I2   wallet ")
    assert "1 wrong" in result.stderr
    found = json.loads(home.tell("wallet", "verify", "--json").stdout)
    assert [breach["invariant"] for breach in found["breaches"]] == ["I2"]
    asyncio.run(execute(change.format(-7)))
    assert "all is right" in ask(home, "verify").stderr


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (("topup", "-5"), "'-5' is not an amount"),
        (("topup", "1e999"), "'1e999' is not an amount"),
        (("topup", ""), "'' is not an amount"),
        (("topup", "5", "--note", "x" * 501), "note is longer than 500"),
        (("costs", "nothing"), "'nothing' is not the id of a session"),
        (("history", "--limit", "0"), "--limit"),
        (("topup", "5", "--as", "mallory"), "'mallory'"),
        (("verify", "--all", "--as", "local"), "--all covers everyone"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    home: Home, words: tuple[str, ...], answer: str
) -> None:
    result = home.tell("wallet", *words)
    assert result.code == 2
    assert answer in result.stderr
    assert "Traceback" not in result.stderr


def test_an_operator_puts_money_into_the_wallet_of_a_user_and_of_an_organisation(
    home: Home,
) -> None:
    home.tell("user", "add", "alice")
    home.tell("org", "create", "Bakers", "--as", "alice")
    before = ask(home, "balance").stdout
    ask(home, "topup", "20", "--as", "alice")
    put_in = ask(home, "topup", "50", "--org", "Bakers", "--as", "alice", "--note", "for May")
    counted = ask(home, "unlimited", "--org", "Bakers", "--as", "alice")

    assert put_in.stdout.startswith("$50.00")
    assert "no limit" in counted.stdout
    assert ask(home, "balance", "--as", "alice").stdout.startswith("$20.00")
    assert "for May" in ask(home, "history", "--org", "Bakers", "--as", "alice").stdout
    assert "for May" not in ask(home, "history", "--as", "alice").stdout
    assert ask(home, "balance").stdout == before
    assert ask(home, "verify").stderr.endswith("all is right.\n")
    for words in (("--as", "mallory"), ("--org", "Bakers")):
        refused = home.tell("wallet", "topup", "1", *words)
        assert (refused.code, words[1] in refused.stderr) == (2, True)
