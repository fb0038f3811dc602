"""A quote as people read it."""

from __future__ import annotations

import dataclasses
from decimal import Decimal
from pathlib import Path

import pytest

from dialectic.app.quotes import list_smaller
from dialectic.cli.display.quote import (
    describe_forecast,
    describe_limits,
    draw_quote,
    format_time,
    show_quote,
)
from dialectic.contract.quotes import RunQuote
from dialectic.core.money.price import format_roughly
from dialectic.core.money.quote import (
    AnswerLimit,
    OutputStatistics,
    Quote,
    Sample,
)
from dialectic.core.process.definition import Process
from dialectic.core.process.reductions import shrink_process
from dialectic.pipeline.call_estimate import Terms
from dialectic.pipeline.estimate import Brief, build_quote
from dialectic.processes.loader import load_process
from dialectic.providers.offline.provider import CARDS
from tests.cases import each_case
from tests.unit.sized_process import build_sized

PEN = dataclasses.replace(
    CARDS[0],
    name="shop/pen",
    input_credits_per_token=Decimal(3),
    output_credits_per_token=Decimal(15),
)
BRIEF = Brief(request="Sell what is left over.", domain="General")
STANDARD = build_sized()
SHIPPED = load_process("standard")
DOCS = Path(__file__).resolve().parents[4] / "docs" / "quote.md"


def draw(quote: Quote) -> str:
    return "\n".join(draw_quote(quote))


@each_case(
    ("amount", "shown"),
    [
        (0, "$0.0000"),
        (1, "$0.0000"),
        (57_966, "$0.0580"),
        (999_949, "$0.9999"),
        (1_000_000, "$1.00"),
        (1_994_000, "$1.99"),
        (12_345_678_901, "$12,345.68"),
    ],
)
def test_money_is_shown_as_exactly_as_it_matters(amount: int, shown: str) -> None:
    assert format_roughly(amount, is_play=False) == shown
    assert format_roughly(amount, is_play=True) == shown.replace("$", "play ")


@each_case(
    ("seconds", "shown"),
    [
        (0.0, "1 s"),
        (1.2, "2 s"),
        (89.0, "89 s"),
        (90.0, "2 min"),
        (3_600.0, "60 min"),
        (5_401.0, "1 h 31 min"),
        (36_000.0, "10 h 0 min"),
    ],
)
def test_a_time_is_not_shown_more_exactly_than_it_is_known(seconds: float, shown: str) -> None:
    assert format_time(seconds) == shown


def test_every_line_fits_a_narrow_terminal_and_the_columns_stand_below_each_other() -> None:
    quote = build_quote(STANDARD, [PEN] * 12, BRIEF, Terms(max_continuations=5, max_retries=3))
    lines = draw(quote).splitlines()
    table = lines[2 : lines.index("", 2)]
    assert len({len(line) for line in table if not line.startswith("  ")} - {0}) == 1
    assert all(len(line) <= 100 for line in lines[1:])


def test_where_models_cost_money_play_money_is_told_apart() -> None:
    text = draw(build_quote(STANDARD, [PEN, CARDS[1]], BRIEF, Terms()))
    alone = draw(build_quote(STANDARD, [PEN], BRIEF, Terms()))
    assert "it is not in the prices above: play 0.0" in text
    assert "play" not in alone
    assert "$" in text
    only = draw(build_quote(STANDARD, [CARDS[1]], BRIEF, Terms()))
    assert "$" not in only
    assert "Offline models cost play money, which is worth nothing." in only


def test_the_bound_is_realistic_unless_the_most_is_asked_for() -> None:
    quote = build_quote(STANDARD, [PEN] * 3, BRIEF, Terms(max_continuations=5, max_retries=3))
    text = draw(quote)
    assert "rarely above" in text
    assert "worst case" not in text
    assert "cannot cost more" not in text
    expected, bound = quote.paid.likely.credits, quote.compute_bound(quote.paid).credits
    assert expected < bound < 2 * expected
    most = "\n".join(draw_quote(quote, shows_max=True))
    assert "worst case" in most
    assert "cannot cost more than" in most
    assert "rarely" not in most


def test_bounds_are_told_apart_from_what_is_planned() -> None:
    quote = build_quote(STANDARD, [PEN] * 3, BRIEF, Terms(max_continuations=2, max_retries=1))
    text = "\n".join(draw_quote(quote, shows_max=True))
    assert "On top of 57 planned calls, only where it is needed:" in text
    assert "at most    114 calls" in text
    assert "2 for each unfinished answer" in text
    assert "at most    171 calls" in text
    assert "1 for each failed call" in text
    assert "Expected are" not in text


def test_expected_continuations_are_named() -> None:
    terms = Terms(max_output_tokens=700, max_continuations=5)
    text = draw(build_quote(STANDARD, [PEN], BRIEF, terms, until="thesis"))
    assert "Expected is 1 continuation for $" in text


def test_what_lengths_rest_on_is_said() -> None:
    sample = Sample(
        kind=("thesis", "thesis"),
        model_name="shop/pen",
        is_here=False,
        documents=3,
        output_tokens=3_000,
        text_bytes=12_000,
        elapsed_ms=1_000,
    )
    learned = OutputStatistics((sample,))
    text = draw(build_quote(STANDARD, [PEN], BRIEF, Terms(), learned=learned))
    assert "learned from 3 documents: 0 of this session, 3 of earlier ones" in text
    assert "nothing was written with it yet" in draw(build_quote(STANDARD, [PEN], BRIEF, Terms()))


def test_a_prompt_that_will_not_fit_is_named() -> None:
    narrow = dataclasses.replace(PEN, context_window_tokens=20_000, max_input_tokens=20_000)
    text = draw(build_quote(STANDARD, [narrow] * 3, BRIEF, Terms()))
    told = "Too long: 1 prompt of final will not fit the window of shop/pen, and will be shortened"
    assert told in text


def test_a_forecast_tells_both_figures() -> None:
    said = describe_forecast(12_000, 42_000, is_play=False)
    assert said == "$0.0120 so far, about $0.0420 in the end"


def test_the_list_of_reductions_in_the_documents_is_what_is_drawn(
    capsys: pytest.CaptureFixture[str],
) -> None:
    brief = Brief(request="A booking service for a village hall.", domain="General")

    def quote_of(process: Process) -> Quote:
        return build_quote(process, CARDS[:3], brief, Terms(concurrency=64))

    smaller = list_smaller(SHIPPED, quote_of, models=3)
    quoted = RunQuote.model_construct(
        lines=quote_of(SHIPPED), smaller=smaller, answer_limits=[], others=[]
    )
    show_quote(quoted, as_json=False)
    drawn = capsys.readouterr().out
    documents = DOCS.read_text(encoding="utf-8")
    _, listed = drawn.split("\n\nWhat can be left out")
    assert listed.rstrip() in documents, listed


@pytest.mark.parametrize(
    ("until", "rungs"), [("thesis", []), ("antithesis", [2]), (None, [1, 2, 3])]
)
def test_nothing_is_offered_that_saves_nothing(until: str | None, rungs: list[int]) -> None:
    smaller = list_smaller(
        STANDARD,
        lambda process: build_quote(process, [PEN] * 4, BRIEF, Terms(), until=until),
        models=4,
    )
    assert [one.shrink for one in smaller] == rungs


def test_what_is_left_out_already_is_not_offered_again() -> None:
    smaller = list_smaller(
        shrink_process(STANDARD, 2),
        lambda process: build_quote(process, [PEN] * 4, BRIEF, Terms()),
        models=4,
        before=2,
    )
    assert [(one.shrink, one.calls) for one in smaller] == [(3, 4 + 8 + 36 + 8)]


def describe(*limits: AnswerLimit, full_answers_only: bool = False) -> list[str]:
    return list(describe_limits(limits, full_answers_only=full_answers_only))


def build_limit(stage: str, cap: int, name: str = "shop/pen") -> AnswerLimit:
    return AnswerLimit(
        stage_slug=stage, model_name=name, max_output_tokens=cap, limited_from_tokens=64_000
    )


def test_a_run_says_once_for_each_model_how_far_money_will_limit_its_answers() -> None:
    limits = build_limit("antithesis", 9_000), build_limit("synthesis", 4_500)
    assert describe(*limits, build_limit("thesis", 2_000, "shop/ink")) == [
        "Answers of shop/pen will be limited to 4,500 of 64,000 tokens by the available money, "
        "from antithesis on. With --full-answers it pauses instead.",
        "Answers of shop/ink will be limited to 2,000 of 64,000 tokens by the available money, "
        "from thesis on. With --full-answers it pauses instead.",
    ]
    assert describe() == []


def test_a_run_that_wants_full_answers_says_where_it_will_pause() -> None:
    assert describe(build_limit("antithesis", 9_000), full_answers_only=True) == [
        "The available money does not cover full answers of shop/pen (64,000 tokens) from "
        "antithesis on: it will pause there."
    ]
