"""Changing one value of config.toml leaves all else as the person wrote it."""

from __future__ import annotations

import stat
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialectic.config_file import read_config, replace_value, set_config_value
from dialectic.errors import ConfigurationError
from tests.problems import refusing

OWN = """\
# my settings
max_retries = 5   # patient

[endpoints.local]   # the box below the desk
kind = "openai"
base_url = "http://127.0.0.1:8080/v1"
default_models = "a key of the table, not ours"
"""


def test_a_new_value_comes_before_the_first_table(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(OWN)
    set_config_value(path, "default_models", "a/b*3")
    assert read_config(path) == {**tomllib.loads(OWN), "default_models": "a/b*3"}
    assert path.read_text().replace('default_models = "a/b*3"\n', "", 1) == OWN


def test_an_existing_value_is_replaced_in_its_line(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(f'default_models = "old/one" # mine\n{OWN}')
    set_config_value(path, "default_models", "a/b")
    assert path.read_text() == f'default_models = "a/b"\n{OWN}'


def test_a_missing_file_and_its_folder_are_made_for_the_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "home" / "config.toml"
    set_config_value(path, "default_models", "a/b")
    assert path.read_text() == 'default_models = "a/b"\n'
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_permissions_of_a_file_stay(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("")
    path.chmod(0o640)
    set_config_value(path, "default_models", "a/b")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.parametrize(
    "text", ['default_models = """\na/b\n"""\n', '"default_models" = "a/b"\n', "x = [\n [1],\n]\n"]
)
def test_what_cannot_be_changed_safely_is_left_and_said(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.toml"
    path.write_text(text)
    with refusing(ConfigurationError, '"c/d"', reason="unchangeable", subject=str(path)):
        set_config_value(path, "default_models", "c/d")
    assert path.read_text() == text


def test_a_broken_file_is_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("max_retries = \n")
    with refusing(ConfigurationError, reason="not_toml"):
        set_config_value(path, "default_models", "c/d")
    assert path.read_text() == "max_retries = \n"


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"])))
def test_any_text_is_read_back_as_it_was_given(value: str) -> None:
    assert tomllib.loads(replace_value("", "name", value)) == {"name": value}
