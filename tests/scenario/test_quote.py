"""What a run was quoted at, held against what it cost; and the same at the command line."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from dialectic.app import quotes, session_quotes, sessions
from dialectic.app.projects import create_session
from dialectic.app.transaction import Tenant
from dialectic.contract.base import read_credits, show_dollars
from dialectic.contract.sessions import RunRequest
from dialectic.core.documents.front_matter import split_document
from dialectic.core.money.price import price_call
from dialectic.core.money.quote import (
    Amount,
    LineKey,
    Quote,
    SessionForecast,
    add_up,
    build_forecast,
)
from dialectic.core.process.reductions import shrink_process
from dialectic.postgres import embedded
from dialectic.processes.loader import load_process
from dialectic.providers.catalog import Catalog
from dialectic.providers.offline.provider import CARDS
from tests.scenario.test_run import Home, copy_home
from tests.scenario.whole_session import (
    ARCHITECT,
    PRAGMATIST,
    PROMPT,
    SKEPTIC,
    Installation,
    Record,
    open_installation,
)
from tests.waiting import PATIENCE_S

CAST = [ARCHITECT, PRAGMATIST, SKEPTIC]
STANDARD = load_process("standard")
ASK = RunRequest(prompt=PROMPT, models=CAST, process=STANDARD)


@dataclass(frozen=True, slots=True)
class QuotedSession:
    """A session that stopped after its first stage, and quotes from before, then and after."""

    before: Quote
    asked: Quote
    then: SessionForecast
    after: SessionForecast
    again: Quote
    record: Record

    def count_done(self, *, but: str = "") -> dict[LineKey, Amount]:
        """What was paid, by line."""
        cards = {card.name: card for card in CARDS}
        done: dict[LineKey, Amount] = {}
        for row in self.record.contributions:
            if row["stage"] == but:
                continue
            key = (row["stage"], row["contribution_type"], row["model_index"])
            read, written = row["tokens_used_input"], row["tokens_used_output"]
            price = price_call(cards[row["model_name"]], read, written)
            done[key] = done.get(key, Amount()) + Amount(1, read, written, price)
        return done


async def tell(installation: Installation) -> QuotedSession:
    tenant = Tenant(installation.engine, installation.account)
    asked = await quotes.quote_run(tenant, ASK, with_lines=True)
    session_id = await installation.create(CAST, is_autopilot=False, process=STANDARD)
    before = await session_quotes.quote_session(
        installation.engine, installation.account, session_id
    )
    await Tenant(installation.engine, installation.account).run(sessions.generate, session_id)
    await installation.work(session_id)
    then = await session_quotes.quote_session(installation.engine, installation.account, session_id)
    for _ in range(4):
        await Tenant(installation.engine, installation.account).run(sessions.start_next, session_id)
        await installation.work(session_id)
    return QuotedSession(
        before=before.rest,
        asked=asked.work,
        then=then,
        after=await session_quotes.quote_session(
            installation.engine, installation.account, session_id
        ),
        again=(await quotes.quote_run(tenant, ASK, with_lines=True)).work,
        record=await installation.record(session_id),
    )


@pytest.fixture(scope="module")
def quoted_session(
    server: embedded.Server, template: str, tmp_path_factory: pytest.TempPathFactory
) -> QuotedSession:
    async def main() -> QuotedSession:
        async with open_installation(
            server, template, tmp_path_factory.mktemp("quote") / "home"
        ) as installation:
            return await tell(installation)

    return asyncio.run(main())


def find_error(quoted: Amount, paid: Amount) -> float:
    return abs(quoted.credits - paid.credits) / paid.credits


def test_a_quote_names_57_calls_and_is_not_far_from_what_they_cost(
    quoted_session: QuotedSession,
) -> None:
    paid = add_up(quoted_session.count_done().values())
    assert quoted_session.before.planned_calls == paid.calls == 57
    assert find_error(quoted_session.before.figures.likely, paid) <= 0.25
    for part in ("input_tokens", "output_tokens"):
        expected = getattr(quoted_session.before.figures.likely, part)
        assert expected == pytest.approx(getattr(paid, part), rel=0.25), part


def test_a_run_is_quoted_alike_before_and_after_its_session_was_made(
    quoted_session: QuotedSession,
) -> None:
    assert quoted_session.asked == quoted_session.before


def test_no_line_cost_more_than_its_worst_case(quoted_session: QuotedSession) -> None:
    done = quoted_session.count_done()
    for line in quoted_session.before.lines:
        worst, paid = line.figures.worst, done[line.key]
        assert paid.calls == worst.calls
        assert paid.input_tokens <= worst.input_tokens
        assert paid.output_tokens <= worst.output_tokens
        assert paid.credits <= worst.credits


def test_after_its_first_stage_the_rest_of_a_session_is_quoted_more_closely(
    quoted_session: QuotedSession,
) -> None:
    paid = add_up(quoted_session.count_done(but="thesis").values())
    assert quoted_session.then.rest.planned_calls == paid.calls == 54
    assert quoted_session.then.rest.documents_here == 3
    error = find_error(quoted_session.then.rest.figures.likely, paid)
    assert error <= 0.15
    first = find_error(
        quoted_session.before.figures.likely, add_up(quoted_session.count_done().values())
    )
    assert error <= max(first, 0.05)
    assert paid.credits <= quoted_session.then.rest.figures.worst.credits


def test_what_was_spent_is_what_the_documents_cost(quoted_session: QuotedSession) -> None:
    theses = add_up(a for key, a in quoted_session.count_done().items() if key[0] == "thesis")
    assert quoted_session.then.spent_play == theses
    assert quoted_session.then.spent == Amount()
    assert quoted_session.after.spent_play == add_up(quoted_session.count_done().values())


def test_when_all_is_done_nothing_is_left_to_quote(quoted_session: QuotedSession) -> None:
    assert quoted_session.after.rest.lines == ()
    forecast = quoted_session.after.build_forecast(is_play=True)
    assert forecast.whole == forecast.spent


def test_the_forecast_comes_closer_as_the_work_goes_on(quoted_session: QuotedSession) -> None:
    done = quoted_session.count_done()
    paid = add_up(done.values())
    stages = [stage.slug for stage in STANDARD.order]
    errors = [
        find_error(
            build_forecast(
                quoted_session.before,
                {key: a for key, a in done.items() if key[0] in stages[:count]},
            ).whole,
            paid,
        )
        for count in range(len(stages) + 1)
    ]
    assert errors[-1] == 0
    assert max(errors) <= 0.25
    assert errors[3] <= max(errors[0], 0.02)


def test_the_next_session_is_quoted_by_what_this_one_wrote(quoted_session: QuotedSession) -> None:
    assert (quoted_session.again.documents_here, quoted_session.again.documents_earlier) == (0, 57)
    assert (
        find_error(
            quoted_session.again.figures.likely, add_up(quoted_session.count_done().values())
        )
        <= 0.02
    )


async def test_answers_that_are_cut_off_stay_within_the_worst_case(
    server: embedded.Server, template: str, tmp_path: Path
) -> None:
    async with open_installation(server, template, tmp_path / "home") as installation:
        cap: dict[str, Any] = {"max_output_tokens": 300, "continue_until_complete": False}
        ask = ASK.model_copy(update={"models": [SKEPTIC], "until": "antithesis", **cap})
        tenant = Tenant(installation.engine, installation.account)
        quoted = (await quotes.quote_run(tenant, ask, with_lines=True)).work
        session_id = await installation.play([SKEPTIC], until="antithesis", **cap)
        rows = (await installation.record(session_id)).contributions
    assert [row["tokens_used_output"] for row in rows] == [300, 300]
    assert all(row["is_incomplete"] for row in rows)
    worst = quoted.figures.worst
    assert sum(row["tokens_used_output"] for row in rows) == worst.output_tokens
    assert quoted.figures.expected.output_tokens == worst.output_tokens
    assert sum(row["tokens_used_input"] for row in rows) <= worst.input_tokens


async def test_feedback_is_part_of_the_next_quote_and_an_iteration_is_quoted_again(
    server: embedded.Server, template: str, tmp_path: Path
) -> None:
    from dialectic.app import feedback

    async with open_installation(server, template, tmp_path / "home") as installation:
        session_id = await installation.create([SKEPTIC], until="antithesis", is_autopilot=False)
        await Tenant(installation.engine, installation.account).run(sessions.generate, session_id)
        await installation.work(session_id)

        async def read_expected() -> Amount:
            found = await session_quotes.quote_session(
                installation.engine, installation.account, session_id
            )
            return found.rest.figures.expected

        plain = await read_expected()
        await Tenant(installation.engine, installation.account).run(
            feedback.give_feedback, session_id, "thesis", "Think of winter. " * 1_000
        )
        told = await read_expected()
        assert 4_200 < told.input_tokens - plain.input_tokens < 4_400

        await Tenant(installation.engine, installation.account).run(sessions.start_next, session_id)
        await installation.work(session_id)
        await Tenant(installation.engine, installation.account).run(sessions.iterate, session_id)
        found = await session_quotes.quote_session(
            installation.engine, installation.account, session_id
        )
        assert found.rest.planned_calls == 2
        await installation.work(session_id)
        (row,) = (await installation.record(session_id)).select("thesis", iteration=2)
        thesis = next(line for line in found.rest.lines if line.stage_slug == "thesis")
        exact = row["tokens_used_input"]
        assert thesis.figures.expected.input_tokens == pytest.approx(exact, rel=0.02)
        assert exact <= thesis.figures.worst.input_tokens


# -- when it is too much ---------------------------------------------------------------------------


async def test_what_is_left_out_is_not_done_and_is_said_in_every_document_that_rests_on_less(
    server: embedded.Server, template: str, tmp_path: Path
) -> None:
    smaller = ASK.model_copy(update={"process": shrink_process(STANDARD, 3)})
    async with open_installation(server, template, tmp_path / "home") as installation:
        tenant = Tenant(installation.engine, installation.account)
        quoted = (await quotes.quote_run(tenant, smaller, with_lines=True)).work
        begun = await Tenant(installation.engine, installation.account).run(create_session, smaller)
        await Tenant(installation.engine, installation.account).run(
            sessions.generate, begun.session_id
        )
        await installation.work(begun.session_id)
        record = await installation.record(begun.session_id)
    assert record.session["status"] == "iteration_complete"
    assert quoted.planned_calls == len(record.contributions) == 36
    assert [row["finished_units"] for row in record.stages] == [3, 6, 21, 3, 3]

    for row in record.select("antithesis"):
        assert record.find(row["target_contribution_id"])["model_index"] != row["model_index"]
    cards = installation.engine.catalog.cards
    paid = sum(
        price_call(cards[row["model_name"]], row["tokens_used_input"], row["tokens_used_output"])
        for row in record.contributions
    )
    assert quoted.figures.likely.credits == pytest.approx(paid, rel=0.25)

    critique = "antithesis, critique: each document is read by 2 of 3 models"
    pairs = "synthesis, pairwise: of what was made from a document, each model reads 1"
    expected = {
        "thesis": None,
        "antithesis": [critique],
        "pairwise_synthesis_chunk": [critique, pairs],
        "paralysis": [critique, pairs],
    }
    for kind, said in expected.items():
        for row in record.select(kind):
            fields, _ = split_document(record.files[row["storage_path"]].decode())
            assert fields.get("left_out") == said


async def test_as_little_is_left_out_as_fits_a_budget(
    server: embedded.Server, template: str, tmp_path: Path
) -> None:
    pen = replace(
        next(card for card in CARDS if card.name == SKEPTIC),
        name="shop/pen",
        input_credits_per_token=Decimal(3),
        output_credits_per_token=Decimal(15),
    )
    ask = ASK.model_copy(update={"models": ["shop/pen"] * 3})
    async with open_installation(
        server, template, tmp_path / "home", Catalog({pen.name: pen}, {})
    ) as s:
        tenant, prices = Tenant(s.engine, s.account), []
        for rungs in range(4):
            smaller = ask.model_copy(update={"process": shrink_process(STANDARD, rungs)})
            found = await quotes.quote_run(tenant, smaller)
            prices.append(read_credits(found.expected))
        assert prices == sorted(prices, reverse=True)
        for budget, left, fits in (
            (prices[0], 0, True),
            (prices[0] - 1, 1, True),
            (prices[3], 3, True),
            (prices[3] - 1, 3, False),
        ):
            budgeted = ask.model_copy(update={"budget": show_dollars(budget)})
            fitted = await quotes.quote_run(tenant, budgeted)
            assert (fitted.shrink, fitted.fits) == (left, fits)
            assert read_credits(fitted.expected) == prices[left]


# -- at the command line ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def home(made_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    with copy_home(made_home, tmp_path_factory.mktemp("scenario") / "home") as opened:
        yield opened


def test_a_budget_is_fitted_in_play_money_too_and_a_dry_run_says_that_it_is_refused(
    home: Home,
) -> None:
    run = ("run", "A booking service.", "--models", "offline/skeptic*3")
    whole = json.loads(home.tell(*run, "--dry-run", "--json").stdout)
    assert (whole["budget"], whole["fits"]) == (None, True)
    first = whole["smaller"][0]
    fitted = home.tell(*run, "--dry-run", "--json", "--budget", first["expected"])
    told = json.loads(fitted.stdout)
    assert (told["calls"], told["fits"]) == (first["calls"], True)
    assert "left out: " in fitted.stderr
    drawn = home.tell(*run, "--dry-run", "--budget", "0.000001")
    assert (drawn.code, "The budget stops it at play 0.000001" in drawn.stdout) == (0, True)
    refused = home.tell(*run, "--budget", "0.000001")
    assert refused.code == 5
    for said in (drawn.stderr, refused.stderr):
        assert "play 0.000001" in said


def read_sessions(home: Home) -> list[Any]:
    told = home.tell("status", "--json")
    found: list[Any] = json.loads(told.stdout)["sessions"]
    return found


def test_a_dry_run_prints_the_quote_and_leaves_nothing(home: Home, tmp_path: Path) -> None:
    out = tmp_path / "plans"
    told = home.tell("run", PROMPT, "--dry-run", "--out", str(out), "--name", "Dry")
    assert told.code == 0, told.stderr
    rows = re.findall(
        r"^ *(\w+(?: \w+)?) +([\d,]+) +[\d,]+ +[\d,]+ +play", told.stdout, re.MULTILINE
    )
    assert dict(rows) == {
        "thesis": "3",
        "antithesis": "9",
        "synthesis": "39",
        "pairwise": "27",
        "per_thesis": "9",
        "final": "3",
        "parenthesis": "3",
        "paralysis": "3",
        "in all": "57",
    }
    assert re.search(r"rarely costs more than play \d\.\d+: .* \d+ more calls", told.stdout)
    assert "cannot cost more" not in told.stdout
    most = home.tell("run", PROMPT, "--max", "--name", "Dry").stdout
    assert re.search(r"continuations +at most +342 calls", most)
    assert re.search(r"retries +at most +1,197 calls", most)
    assert "play money" in told.stdout
    assert "$" not in told.stdout
    assert not out.exists()
    assert read_sessions(home) == []
    assert not list((home.path / "storage").rglob("*.md"))
    rungs = re.findall(r"^  ([123]) +(\d+) calls +play [\d.]+ +(\w+):", told.stdout, re.MULTILINE)
    assert rungs == [("1", "48", "pairwise"), ("2", "45", "critique"), ("3", "36", "pairwise")]


def test_a_dry_run_for_programs_is_one_object(home: Home) -> None:
    words = ("--dry-run", "--json", "--models", f"{ARCHITECT}*2", "--until", "synthesis")
    told = home.tell("run", PROMPT, *words, "--no-continue", "--shrink", "2", max_retries="1")
    assert told.code == 0, told.stderr
    assert told.stderr == ""
    (line,) = told.stdout.splitlines()
    found = json.loads(line)
    assert found["models"] == [ARCHITECT, ARCHITECT]
    assert found["calls"] == 2 + 4 + 14
    assert [stage["stage"] for stage in found["stages"]] == ["thesis", "antithesis", "synthesis"]
    assert (found["is_play"], found["spent"], found["forecast"]) == (True, "0", "0")
    assert found["forecast_play"] == found["expected"] == found["expected_play"]
    amounts = [Decimal(found[name]) for name in ("expected", "rarely_above", "worst", "ceiling")]
    assert 0 < amounts[0] < amounts[1] <= amounts[3]
    assert amounts[0] < amounts[2] < amounts[3]
    lines = found["lines"]["lines"]
    assert sum(line["figures"]["continuations"]["calls"] for line in lines) == 20
    assert sum(line["figures"]["retries"]["calls"] for line in lines) == 40
    (last,) = found["smaller"]
    assert (last["shrink"], last["calls"]) == (3, 2 + 4 + 10)
    assert read_sessions(home) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--models", "offline/nobody"), "'offline/nobody'"),
        (("--lead", "offline/skeptic", "--models", ARCHITECT), "is not among the models"),
        (("--shrink", "4"), "'standard'"),
    ],
)
def test_a_dry_run_refuses_what_a_run_would(
    home: Home, words: tuple[str, ...], message: str
) -> None:
    told = home.tell("run", PROMPT, "--dry-run", *words)
    assert told.code == 2
    assert message in told.stderr
    assert told.stdout == ""


def test_a_run_says_what_it_cost_and_status_what_is_left(home: Home) -> None:
    told = home.tell("run", PROMPT, "--models", SKEPTIC, "--pause")
    assert told.code == 3, told.stderr
    assert re.search(
        r"1 document, .*, play 0\.0\d+ so far, about play 0\.0\d+ in the end", told.stderr
    )

    shown = home.tell("status", told.session, "--quote")
    assert re.search(r"^Cost +play 0\.0\d+ so far, about play", shown.stdout, re.MULTILINE)
    assert re.search(r"^in all +6 ", shown.stdout, re.MULTILINE)
    assert "learned from 1 document: 1 of this session" in shown.stdout

    found = json.loads(home.tell("status", told.session, "--quote", "--json").stdout)["quote"]
    assert found["calls"] == 6
    assert 0 < Decimal(found["spent_play"]) < Decimal(found["forecast_play"])
    assert (found["spent"], found["forecast"]) == ("0", "0")
    assert "quote" not in json.loads(home.tell("status", told.session, "--json").stdout)


def test_a_quote_of_all_sessions_at_once_is_refused(home: Home) -> None:
    told = home.tell("status", "--quote")
    assert told.code == 2
    assert "--quote" in told.stderr


# -- may it? ---------------------------------------------------------------------------------------

# Asks as `run` does, about models that cost money.
ASKING = """
import click
from dataclasses import replace
from decimal import Decimal
from dialectic.cli import main
from dialectic.cli.display import quote
from dialectic.cli.terminal import run_async
from dialectic.pipeline.call_estimate import Terms
from dialectic.pipeline.estimate import Brief, build_quote
from dialectic.core.process.reductions import shrink_process
from dialectic.processes.loader import load_process
from dialectic.providers.offline.provider import CARDS

def ask(model, limit):
    card = replace(CARDS[0], name=model, input_credits_per_token=Decimal(3),
                   output_credits_per_token=Decimal(15))
    brief = Brief(request="Sell what is left over.", domain="General")
    found = build_quote(load_process("standard"), [card] * 3, brief, Terms())
    print(run_async(quote.is_wanted(found, confirm_above_usd=limit)))

arguments = [click.Argument(["model"]), click.Argument(["limit"], type=float)]
main.cli = click.Command("ask", callback=ask, params=arguments)
main.main()
"""


def start_asking(stdin: int, model: str, limit: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", ASKING, model, limit]
    return subprocess.Popen(
        words, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@dataclass(frozen=True, slots=True)
class Asked:
    question: str
    answer: str
    code: int


def ask_at_terminal(answer: bytes, limit: str = "1") -> Asked:
    """Be at a terminal, wait to be asked, and type."""
    terminal, inner = pty.openpty()
    try:
        with start_asking(inner, "shop/pen", limit) as process:
            assert process.stderr is not None
            assert process.stdout is not None
            question = ""
            while not question.endswith("[y/N] ") and (piece := process.stderr.read(1)):
                question += piece
            os.write(terminal, answer)
            return Asked(question, process.stdout.read().strip(), process.wait(PATIENCE_S))
    finally:
        os.close(terminal)
        os.close(inner)


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        (b"y\n", "True"),
        (b" YES \n", "True"),
        (b"n\n", "False"),
        (b"\n", "False"),
        (b"\x04", "False"),
    ],
)
def test_who_sits_at_a_terminal_is_asked_whether_that_much_may_be_spent(
    answer: bytes, wanted: str
) -> None:
    asked = ask_at_terminal(answer)
    assert re.fullmatch(
        r"This run is expected to cost \$\d\.\d\d \(rarely above \$\d+\.\d\d\)\. Go on\? \[y/N\] ",
        asked.question,
    )
    assert (asked.answer, asked.code) == (wanted, 0)


def test_the_question_can_be_left_as_any_command() -> None:
    terminal, inner = pty.openpty()
    try:
        with start_asking(inner, "shop/pen", "1") as process:
            assert process.stderr is not None
            while process.stderr.read(1) not in ("]", ""):
                pass
            process.send_signal(2)
            assert process.wait(PATIENCE_S) == 130
    finally:
        os.close(terminal)
        os.close(inner)


@pytest.mark.parametrize(("model", "limit"), [("shop/pen", "1000"), ("offline/architect", "0")])
def test_small_change_and_play_money_are_not_asked_about(model: str, limit: str) -> None:
    with start_asking(subprocess.DEVNULL, model, limit) as process:
        stdout, stderr = process.communicate(timeout=PATIENCE_S)
    assert (stdout.strip(), stderr, process.returncode) == ("True", "", 0)


def test_without_a_terminal_it_is_refused_with_a_way_out() -> None:
    with start_asking(subprocess.DEVNULL, "shop/pen", "1") as process:
        stdout, stderr = process.communicate(timeout=PATIENCE_S)
    assert (stdout, process.returncode) == ("", 2)
    assert re.search(r"expected to cost \$\d\.\d\d \(rarely above \$\d+\.\d\d\)", stderr)
    for words in ("--yes", "--budget", "DIALECTIC_CONFIRM_ABOVE_USD", "[invalid_request]"):
        assert words in stderr
