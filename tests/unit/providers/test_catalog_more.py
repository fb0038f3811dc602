"""The catalogue says which models can be asked here, and what is missing for the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from dialectic.errors import (
    ExitCode,
    Fate,
    KeyMissing,
    NotFound,
    Remedy,
    RemedyAction,
    UnknownModel,
)
from dialectic.providers.catalog import (
    Catalog,
    Origin,
    build_catalog,
    choose_default_models,
    load_shipped,
)
from dialectic.providers.offline.provider import CARDS, OfflineProvider
from dialectic.settings import Settings
from tests.cases import each_case
from tests.problems import check_error, refusing

LOCAL = """
[endpoints.local]
kind = "openai"
base_url = "http://127.0.0.1:8080/v1"
[endpoints.local.models."org/tiny:7b"]
context_window_tokens = 8192
max_output_tokens = 1024
input_usd_per_million = 1.0
output_usd_per_million = 2.0
tokenizer = "o200k_base"
"""
OFFLINE = ["offline/architect", "offline/pragmatist", "offline/skeptic"]


def load(home: Path, config: str = "", **environ: str) -> Settings:
    (home / "config.toml").write_text(config)
    return Settings.load({"DIALECTIC_HOME": str(home), **environ})


def build(home: Path, config: str = "", **environ: str) -> Catalog:
    return build_catalog(load(home, config, **environ))


# -- what is there ---------------------------------------------------------------------------------


def test_without_keys_only_offline_models_can_be_asked(tmp_path: Path) -> None:
    catalog = build(tmp_path)
    assert sorted(catalog.cards) == OFFLINE
    assert list(catalog.providers) == ["offline"]


def test_every_model_is_known_with_where_it_is_from_and_what_is_missing(tmp_path: Path) -> None:
    entries = {
        entry.card.name: entry for entry in build(tmp_path, LOCAL, OPENAI_API_KEY="k").entries
    }
    assert (entries[OFFLINE[0]].origin, entries[OFFLINE[0]].missing) == (Origin.OFFLINE, None)
    assert entries["openai/gpt-6-luna"].origin is Origin.BUILT_IN
    assert entries["openai/gpt-6-luna"].missing is None
    assert entries["google/gemini-2.5-pro"].missing == "GEMINI_API_KEY"
    assert entries["local/org/tiny:7b"].origin is Origin.CONFIG
    assert entries["local/org/tiny:7b"].missing is None, "an endpoint may need no key"


@pytest.mark.parametrize(
    ("variable", "endpoint"),
    [
        ("OPENAI_API_KEY", "openai"),
        ("ANTHROPIC_API_KEY", "anthropic"),
        ("GEMINI_API_KEY", "google"),
        ("GOOGLE_API_KEY", "google"),
    ],
)
def test_a_key_makes_the_models_of_its_endpoint_usable(
    tmp_path: Path, variable: str, endpoint: str
) -> None:
    catalog = build(tmp_path, **{variable: "k"})
    usable = {card.provider for card in catalog.cards.values()}
    assert usable == {"offline", endpoint}
    assert list(catalog.providers) == ["offline", endpoint]
    shipped = {card.name: card for card in load_shipped()[endpoint].cards}
    assert shipped.items() <= catalog.cards.items()


def test_a_model_of_the_file_takes_the_place_of_a_shipped_one(tmp_path: Path) -> None:
    config = LOCAL.replace("local", "openai").replace("org/tiny:7b", "gpt-6-luna")
    catalog = build(tmp_path, config, OPENAI_API_KEY="k")
    card = catalog.load_card("openai/gpt-6-luna")
    assert (card.context_window_tokens, card.facts_of) == (8192, None)
    assert [entry.card for entry in catalog.entries if entry.card.name == card.name] == [card]


def test_limits_of_an_endpoint_are_found_by_its_models(tmp_path: Path) -> None:
    catalog = build(tmp_path, "[endpoints.openai]\nmax_concurrency = 3", OPENAI_API_KEY="k")
    endpoint = catalog.find_endpoint(catalog.load_card("openai/gpt-6-luna"))
    assert endpoint is not None
    assert endpoint.max_concurrency == 3
    assert catalog.find_endpoint(catalog.load_card(OFFLINE[0])) is None


async def test_who_answers_is_opened_once_and_closed_with_the_catalogue(tmp_path: Path) -> None:
    catalog = build(tmp_path, LOCAL)
    card = catalog.load_card("local/org/tiny:7b")
    first = catalog.load_provider(card)
    assert catalog.load_provider(card) is catalog.find_remote("local") is first
    await catalog.close()
    assert catalog.load_provider(card) is not first
    await catalog.close()


# -- what is not -----------------------------------------------------------------------------------


def test_a_model_without_a_key_names_the_variable_and_lets_the_work_wait(tmp_path: Path) -> None:
    with refusing(KeyMissing, "ANTHROPIC_API_KEY", subject="anthropic/claude-opus-5") as caught:
        build(tmp_path).load_card("anthropic/claude-opus-5")
    assert caught.value.remedy == Remedy(RemedyAction.CONFIGURE, setting="ANTHROPIC_API_KEY")
    assert caught.value.exit_code is ExitCode.CONFIGURATION
    assert caught.value.fate is Fate.PAUSE


def test_no_model_is_suggested_that_is_not_like_what_was_asked_for(tmp_path: Path) -> None:
    with refusing(UnknownModel, "offline/", reason="no_model", subject="nope/x") as caught:
        build(tmp_path).load_card("nope/x")
    assert caught.value.remedy == Remedy(RemedyAction.CHOOSE_MODEL)


@pytest.mark.parametrize("environ", [{}, {"OPENAI_API_KEY": "k"}])
def test_an_unknown_model_of_a_known_endpoint_says_how_to_configure_it(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    with pytest.raises(UnknownModel) as caught:
        build(tmp_path, **environ).load_card("openai/gpt-6-lun")
    check_error(caught.value, reason="not_in_catalogue", subject="openai/gpt-6-lun")
    check_error(caught.value, "`openai/gpt-6-luna`", '`[endpoints.openai.models."gpt-6-lun"]`')
    assert caught.value.remedy == Remedy(RemedyAction.CHOOSE_MODEL, model="openai/gpt-6-luna")
    assert caught.value.exit_code is ExitCode.USAGE


@pytest.mark.parametrize("name", ["nobody/model", "offline/nobody", "model", "", "openai/"])
def test_an_unknown_model_is_answered_with_the_usable_ones(tmp_path: Path, name: str) -> None:
    with pytest.raises(UnknownModel) as caught:
        build(tmp_path).load_card(name)
    check_error(caught.value, repr(name), ", ".join(OFFLINE), reason="no_model", subject=name)


def test_a_long_list_of_models_is_not_recited(tmp_path: Path) -> None:
    with refusing(UnknownModel, action=RemedyAction.CHOOSE_MODEL) as caught:
        build(tmp_path, OPENAI_API_KEY="k").load_card("nobody/model")
    assert len(caught.value.message) < 200


def test_an_endpoint_without_a_provider_gives_no_answer() -> None:
    (card, *_) = CARDS
    with refusing(NotFound, reason="no_provider", subject="offline"):
        Catalog(cards={card.name: card}, providers={}).load_provider(card)


async def test_a_catalogue_of_plain_parts_is_closed_without_ado() -> None:
    catalog = Catalog(cards={}, providers={"offline": OfflineProvider()})
    assert catalog.find_remote("offline") is None
    await catalog.close()


# -- what a run asks that names none ---------------------------------------------------------------

LUNA, HAIKU, LITE = (
    "openai/gpt-6-luna",
    "anthropic/claude-haiku-5-5",
    "google/gemini-3.5-flash-lite",
)


@pytest.mark.parametrize(
    ("environ", "names"),
    [
        ({}, OFFLINE),
        ({"OPENAI_API_KEY": "k"}, [LUNA, LUNA, LUNA]),
        ({"GOOGLE_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}, [HAIKU, LITE, HAIKU]),
        (
            {"GEMINI_API_KEY": "k", "ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k"},
            [LUNA, HAIKU, LITE],
        ),
        ({"DIALECTIC_DEFAULT_MODELS": "a/b*2,c/d", "OPENAI_API_KEY": "k"}, ["a/b", "a/b", "c/d"]),
    ],
)
def test_three_models_are_chosen_of_those_whose_keys_are_set(
    tmp_path: Path, environ: dict[str, str], names: list[str]
) -> None:
    settings = load(tmp_path, LOCAL, **environ)
    chosen = choose_default_models(build_catalog(settings), settings)
    assert chosen == names or (sorted(chosen) == names == OFFLINE)


def test_a_default_that_the_file_has_changed_stays_a_default(tmp_path: Path) -> None:
    config = LOCAL.replace("local", "openai").replace("org/tiny:7b", "gpt-6-luna")
    settings = load(tmp_path, config, OPENAI_API_KEY="k")
    assert choose_default_models(build_catalog(settings), settings) == [LUNA] * 3


@each_case(
    ("name", "near"),
    [
        ("gpt-6-luna", ["openai/gpt-6-luna"]),
        ("skeptic", ["offline/skeptic"]),
        ("offline/sceptic", ["offline/skeptic"]),
        ("offline/foo", []),
        ("oflline/skeptic", ["offline/skeptic"]),
        ("", []),
    ],
)
def test_a_wrong_name_leads_to_the_model_that_is_probably_meant(
    name: str, near: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert build(tmp_path_factory.mktemp("near")).list_near(name) == near
