"""The list of models tells what is known, what was listed, and what is missing."""

from __future__ import annotations

import tomllib
from datetime import date
from pathlib import Path

import pytest

from dialectic.core.models.endpoint_config import Place, parse_endpoints
from dialectic.providers.base import ListedModel
from dialectic.providers.catalog import Catalog, Origin, build_catalog
from dialectic.providers.model_list import (
    CachedModels,
    Row,
    State,
    build_listing,
    build_snippet,
    is_listed,
)
from dialectic.settings import Settings
from tests.cases import each_case

DAY = date(2026, 11, 16)


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return build_catalog(Settings.load({"DIALECTIC_HOME": str(tmp_path), "ANTHROPIC_API_KEY": "k"}))


def find(rows: list[Row], name: str) -> Row:
    (row,) = [row for row in rows if row.name == name]
    return row


def test_before_anyone_was_asked_it_is_the_catalogue(catalog: Catalog) -> None:
    rows = build_listing(catalog, {})
    assert [row.card for row in rows] == [entry.card for entry in catalog.entries]
    offline, claude = find(rows, "offline/skeptic"), find(rows, "anthropic/claude-opus-5")
    assert (offline.state, offline.origin) == (State.USABLE, Origin.OFFLINE)
    assert (claude.state, claude.origin) == (State.USABLE, Origin.BUILT_IN)
    missing = find(rows, "openai/gpt-6-luna")
    assert (missing.state, missing.note) == (State.KEY_MISSING, "set OPENAI_API_KEY")


def test_a_model_that_was_not_listed_is_said_to_be_gone(catalog: Catalog) -> None:
    rows = build_listing(catalog, {"anthropic": CachedModels(DAY, (ListedModel("claude-opus-5"),))})
    assert find(rows, "anthropic/claude-opus-5").state is State.USABLE
    gone = find(rows, "anthropic/claude-opus-4-7")
    assert (gone.state, gone.note) == (State.NO_LONGER_LISTED, "not listed on 2026-11-16")
    assert find(rows, "offline/skeptic").state is State.USABLE, "nobody lists those"


def test_a_model_that_only_its_endpoint_knows_is_unusable_until_configured(
    catalog: Catalog,
) -> None:
    listed = ListedModel("claude-next", 2_000_000, 256_000)
    rows = build_listing(catalog, {"anthropic": CachedModels(DAY, (listed,))})
    row = find(rows, "anthropic/claude-next")
    assert (row.state, row.note) == (State.UNCONFIGURED, "listed on 2026-11-16")
    assert (row.card, row.listed) == (None, listed)
    assert row == rows[-1]


def test_the_list_of_an_endpoint_that_was_removed_is_forgotten(catalog: Catalog) -> None:
    rows = build_listing(catalog, {"gone": CachedModels(DAY, (ListedModel("a"),))})
    assert rows == build_listing(catalog, {})


@each_case(
    ("name", "listed", "expected"),
    [
        ("claude-haiku-4-5", ["claude-haiku-4-5"], True),
        ("claude-haiku-4-5", ["claude-haiku-4-5-20251001"], True),
        ("gpt-5.4", ["gpt-5.4-2026-03-05"], True),
        ("gpt-5.4-2026-03-05", ["gpt-5.4-2026-03-05"], True),
        ("gpt-5.4", ["gpt-5.4-mini", "gpt-5.4-mini-2026-03-17", "gpt-5"], False),
        ("gpt-5.4-2026-03-05", ["gpt-5.4"], False),
        ("a", [], False),
    ],
)
def test_a_dated_version_stands_for_its_model(name: str, listed: list[str], expected: bool) -> None:
    assert is_listed(name, listed) is expected


@pytest.mark.parametrize("name", ["claude-next", 'org/claude 9:"x"', "models.v1"])
def test_the_advice_is_what_the_file_wants_once_its_figures_are_filled_in(name: str) -> None:
    listed = ListedModel(name, 2_000_000, None)
    snippet = build_snippet(Row(f"anthropic/{name}", State.UNCONFIGURED, listed=listed))
    assert "context_window_tokens = 2000000" in snippet
    assert snippet.count("= ?") == 3
    filled = tomllib.loads(snippet.replace("= ?", "= 5"))
    assert list(filled["endpoints"]["anthropic"]["models"]) == [name]
    if " " not in name:
        parsed = parse_endpoints(filled["endpoints"], Place("config.toml", ("endpoints",)))
        assert parsed["anthropic"].cards[0].name == f"anthropic/{name}"
