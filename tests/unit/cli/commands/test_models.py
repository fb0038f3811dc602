"""What `dialectic models` shows, line by line."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest

from dialectic.app.installed import describe_model, list_models
from dialectic.cli.commands.models import Trial, build_table, describe_trial, show_price
from dialectic.contract.models import Model
from dialectic.core.models.messages import FinishReason, Reply, Usage, UsageSource
from dialectic.providers.base import ListedModel
from dialectic.providers.catalog import build_catalog
from dialectic.providers.model_list import Row, State
from dialectic.providers.offline.provider import CARDS
from dialectic.settings import Settings
from dialectic.tokens.counting import CountMethod, TokenCount
from tests.cases import each_case

NEXT = Row("openai/next", State.UNCONFIGURED, "listed on 2026-11-16", listed=ListedModel("next"))


@pytest.fixture
def rows(tmp_path: Path) -> list[Model]:
    catalog = build_catalog(Settings(home=tmp_path))
    return [*list_models(catalog, tmp_path), describe_model(NEXT)]


@each_case(
    ("price", "shown"),
    [("0", "0.00"), ("2", "2.00"), ("2.5", "2.50"), ("0.15", "0.15"), ("0.075", "0.075")],
)
def test_a_price_has_two_places_or_as_many_as_it_needs(price: str, shown: str) -> None:
    assert show_price(Decimal(price)) == shown


@pytest.mark.parametrize("price", ["1E+2", "1E-7", "20.00"])
def test_a_price_is_never_shown_as_a_power_of_ten(price: str) -> None:
    assert "E" not in show_price(Decimal(price))
    assert Decimal(show_price(Decimal(price))) == Decimal(price)


def test_every_model_is_one_line_and_columns_stand_below_each_other(rows: list[Model]) -> None:
    heading, *lines = build_table(rows)
    assert [line.split()[0] for line in lines] == [row.name for row in rows]
    for word in ("tokens", "facts", "state"):
        column = heading.index(word)
        assert {line[column - 2 : column] for line in lines} == {"  "}, word


def test_a_line_tells_window_prices_method_origin_and_what_is_missing(rows: list[Model]) -> None:
    lines = {line.split()[0]: " ".join(line.split()[1:]) for line in build_table(rows)}
    assert lines["offline/skeptic"] == "128,000 8,000 0.10 0.40 exact offline usable"
    assert lines["openai/gpt-4o-mini"] == (
        "128,000 16,384 0.15 0.60 exact built-in, 2026-11-16 key missing: set OPENAI_API_KEY"
    )
    assert " estimate built-in, " in lines["anthropic/claude-opus-5"]
    assert lines["openai/next"] == (
        "? ? ? ? ? listed, unusable until configured: listed on 2026-11-16"
    )


def test_a_described_model_survives_json_and_keeps_exact_prices(rows: list[Model]) -> None:
    described = {row.name: json.loads(row.model_dump_json()) for row in rows}
    luna = described["openai/gpt-6-luna"]
    assert luna["input_usd_per_million"] == "0.2"
    assert (luna["state"], luna["is_usable"]) == ("key_missing", False)
    assert luna["facts_of"] == "2026-11-16"
    assert described["offline/skeptic"]["is_usable"] is True
    assert described["openai/next"]["is_usable"] is False
    assert '[endpoints.openai.models."next"]' in str(described["openai/next"]["config"])


def build_trial(text: str = "OK", counted: TokenCount | None = None) -> Trial:
    usage = Usage(1_000, 20, UsageSource.REPORTED)
    reply = Reply(text, FinishReason.STOP, "end_turn", usage, None)
    exact = TokenCount(1_000, CountMethod.EXACT, 1_000)
    return Trial(counted or exact, None, reply, first_text_s=0.2, whole_s=0.5)


def test_a_call_is_told_with_time_usage_finish_and_cost() -> None:
    told = dict(describe_trial(CARDS[0], build_trial(" OK,\n it\tworks ")))
    assert told == {
        "model": "offline/architect",
        "answer": "OK, it works",
        "finish": "stop (end_turn)",
        "time": "0.50 s, first words after 0.20 s",
        "usage": "1000 in, 20 out, reported",
        "counted": "1000 in, exact",
        "cost": "play 0.000108, not booked",
    }


def test_an_estimate_is_told_with_its_margin_and_the_count_of_the_provider() -> None:
    trial = build_trial("", TokenCount(990, CountMethod.ESTIMATE, 1089))
    trial.provider_counts = 1_001
    told = dict(describe_trial(CARDS[0], trial))
    assert told["counted"] == "990 in, estimate, at most 1089; its provider counts 1001"
    assert told["answer"] == "(no text, only reasoning)"


def test_input_beyond_the_upper_bound_is_told_with_what_to_change() -> None:
    trial = build_trial(counted=TokenCount(800, CountMethod.ESTIMATE, 880))
    told = dict(describe_trial(CARDS[0], trial))
    assert told["counted"].startswith("800 in, estimate, at most 880; the server counts 120 more")
    assert "`tokenizer`" in told["counted"]


@each_case("width", [80, 100, 120])
def test_a_table_for_a_terminal_leaves_out_what_does_not_fit(width: int) -> None:
    rows = list_models(build_catalog(Settings(home=Path("/nowhere"))), Path("/nowhere"))
    heading, *lines = build_table(rows, width)
    assert {"model", "in", "out", "state"} <= set(heading.split())
    for line in lines:
        # A state may have a long note, which wraps between words.
        assert len(line.partition(":")[0]) <= width, line
    assert len(heading.split()) <= len(build_table(rows)[0].split())
