"""What endpoints listed is kept in a file, and a file that makes no sense costs nothing."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dialectic.errors import ConfigurationError
from dialectic.providers.base import ListedModel
from dialectic.providers.model_list import (
    FILE,
    CachedModels,
    load_cached_models,
    save_cached_models,
)
from tests.problems import refusing

SEEN = {
    "openai": CachedModels(date(2026, 11, 16), (ListedModel("a"), ListedModel("b", 8192, 1024))),
    "local": CachedModels(date(2027, 1, 2), ()),
}


def test_what_was_saved_is_loaded_again(tmp_path: Path) -> None:
    home = tmp_path / "not yet there"
    assert load_cached_models(home) == {}
    save_cached_models(home, SEEN)
    assert load_cached_models(home) == SEEN
    assert [path.name for path in home.iterdir()] == [FILE]


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"{", b"\xff", b"[]", b"3", b'{"openai": 3}', b'{"openai": {}}', b"[" * 100_000),
        b'{"openai": {"on": "yesterday", "models": []}}',
        b'{"openai": {"on": "2026-11-16", "models": [{"label": "a"}]}}',
        b'{"openai": {"on": "2026-11-16", "models": 3}}',
    ],
)
def test_what_cannot_be_read_counts_as_never_seen(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE).write_bytes(content)
    assert load_cached_models(tmp_path) == {}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=40))
def test_no_content_is_a_reason_to_fail(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE).write_bytes(content)
    assert load_cached_models(tmp_path) == {}


def test_a_home_that_cannot_be_written_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "home").touch()
    with refusing(
        ConfigurationError,
        "File exists",
        reason="unwritable",
        subject=str(tmp_path / "home" / FILE),
    ):
        save_cached_models(tmp_path / "home", SEEN)
    (tmp_path / FILE).mkdir()
    with refusing(
        ConfigurationError, "Is a directory", reason="unwritable", subject=str(tmp_path / FILE)
    ):
        save_cached_models(tmp_path, SEEN)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", FILE]
