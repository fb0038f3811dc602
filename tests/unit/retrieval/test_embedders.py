"""Which embedder a name means, and what is said of one that cannot be had."""

from __future__ import annotations

from pathlib import Path

import pytest

from dialectic.errors import ConfigurationError, KeyMissing
from dialectic.providers.catalog import Catalog, build_catalog
from dialectic.retrieval.built_in import StaticEmbedder
from dialectic.retrieval.embedders import PIECE_TOKENS_MAX, Embedders, RemoteEmbedder, open_embedder
from dialectic.settings import Settings
from tests.problems import check_error, refusing

LOCAL = """
[endpoints.local]
kind = "openai"
base_url = "http://127.0.0.1:9/v1"

[endpoints.local.embeddings.tiny]
dimensions = 8
max_input_tokens = 100
input_usd_per_million = 0
tokenizer = "chars:4"

[endpoints.other]
kind = "anthropic"
base_url = "http://127.0.0.1:9/v1"

[endpoints.other.embeddings.tiny]
dimensions = 8
max_input_tokens = 100
input_usd_per_million = 0
tokenizer = "chars:4"
"""


def build(home: Path, **environ: str) -> Catalog:
    (home / "config.toml").write_text(LOCAL)
    return build_catalog(Settings.load({"DIALECTIC_HOME": str(home), **environ}))


def refusal(home: Path, name: str) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as caught:
        open_embedder(name, build(home))
    return caught.value


def test_an_embedder_is_opened_once_and_only_when_asked_for(tmp_path: Path) -> None:
    embedders, catalog = Embedders(), build(tmp_path)
    first = embedders.load("builtin/static", catalog)
    assert isinstance(first, StaticEmbedder)
    assert embedders.load("builtin/static", catalog) is first


def test_a_model_of_an_endpoint_is_opened_with_its_limits(tmp_path: Path) -> None:
    tiny = open_embedder("local/tiny", build(tmp_path))
    assert isinstance(tiny, RemoteEmbedder)
    assert (tiny.dimensions, tiny.piece_tokens_max) == (8, 90)
    assert tiny.card is not None
    openai = open_embedder("openai/text-embedding-3-small", build(tmp_path, OPENAI_API_KEY="k"))
    assert (openai.dimensions, openai.piece_tokens_max) == (1536, PIECE_TOKENS_MAX)
    assert openai.count("hello world") == 2


def test_an_embedder_without_its_key_is_missed_only_when_it_is_asked_for(tmp_path: Path) -> None:
    with refusing(KeyMissing, "OPENAI_API_KEY"):
        open_embedder("openai/text-embedding-3-small", build(tmp_path))


def test_an_unknown_embedder_is_named_with_what_to_do(tmp_path: Path) -> None:
    known = ("`ENDPOINT/MODEL`", "builtin/static", "builtin/minilm")
    check_error(refusal(tmp_path, "static"), *known, reason="not_an_embedder", subject="static")
    check_error(refusal(tmp_path, "builtin/tiny"), *known, reason="not_an_embedder")
    table = '[endpoints.local.embeddings."huge"]'
    check_error(refusal(tmp_path, "local/huge"), table, reason="unknown_embedder")
    check_error(refusal(tmp_path, "locale/tiny"), "`local/tiny`", reason="unknown_embedder")
    check_error(refusal(tmp_path, "other/tiny"), reason="other_kind", subject="other/tiny")


def test_models_that_make_vectors_are_never_asked_for_an_answer(tmp_path: Path) -> None:
    catalog = build(tmp_path, OPENAI_API_KEY="k")
    named = {card.name for card in catalog.cards.values()} | {e.card.name for e in catalog.entries}
    assert not named & set(catalog.embeddings)
    assert {"local/tiny", "openai/text-embedding-3-large"} <= set(catalog.embeddings)
