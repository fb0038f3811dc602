"""Aliases of models: set, replaced wherever models are named, and forgotten."""

from __future__ import annotations

from pathlib import Path

import pytest

from dialectic.cli.aliases import (
    FILE,
    expand,
    expand_model,
    load_aliases,
    remove_alias,
    set_alias,
)
from dialectic.errors import ConfigurationError, NotFound, UsageError


def test_an_alias_is_replaced_in_a_list_of_models(tmp_path: Path) -> None:
    set_alias(tmp_path, "fast", "offline/skeptic")
    set_alias(tmp_path, "two", "fast, offline/architect")
    known = load_aliases(tmp_path)
    assert known == {"fast": "offline/skeptic", "two": "offline/skeptic,offline/architect"}
    assert expand("Fast*3,a/b*2", known) == "offline/skeptic*3,a/b*2"
    assert expand("two*2", known) == "offline/skeptic*2,offline/architect*2"
    assert expand("unknown", known) == "unknown"


def test_a_single_model_cannot_be_an_alias_of_several(tmp_path: Path) -> None:
    set_alias(tmp_path, "two", "offline/skeptic,offline/architect")
    with pytest.raises(UsageError) as caught:
        expand_model("two", tmp_path)
    assert caught.value.reason == "several_models"
    assert expand_model("a/b", tmp_path) == "a/b"


def test_an_alias_means_models_that_are_written_well(tmp_path: Path) -> None:
    for name, models, reason in (
        ("a/b", "offline/skeptic", "bad_alias"),
        ("", "offline/skeptic", "bad_alias"),
        ("fast", "skeptic", "not_a_name"),
    ):
        with pytest.raises(UsageError) as caught:
            set_alias(tmp_path, name, models)
        assert caught.value.reason == reason
    assert load_aliases(tmp_path) == {}


def test_a_forgotten_alias_is_gone_and_a_misspelt_one_suggested(tmp_path: Path) -> None:
    set_alias(tmp_path, "fast", "offline/skeptic")
    with pytest.raises(NotFound) as caught:
        remove_alias(tmp_path, "fats")
    assert "Did you mean `fast`?" in caught.value.message
    remove_alias(tmp_path, "fast")
    assert load_aliases(tmp_path) == {}


@pytest.mark.parametrize("text", ["[", "[]", '{"a": 1}'])
def test_a_broken_file_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        load_aliases(tmp_path)
    assert str(tmp_path / FILE) in caught.value.message
