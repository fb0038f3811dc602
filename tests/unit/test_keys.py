"""Keys of providers: stored for the owner alone, found in order, and never shown."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dialectic.core.access import Secret
from dialectic.errors import ConfigurationError, KeyMissing, RemedyAction
from dialectic.keys import (
    FILE,
    KeyPlace,
    has_keyring,
    is_private,
    load_stored_keys,
    parse_dotenv,
    read_dotenv,
    remove_key,
    store_key,
)
from dialectic.settings import Settings
from tests.problems import refusing

CANARY = "sk-canary-51c7"
NAME = "OPENAI_API_KEY"

# What the optional package offers of its own, as far as it is used; it keeps passwords in memory.
KEYRING = """
import types
errors = types.SimpleNamespace(
    KeyringError=type("KeyringError", (Exception,), {}),
)
errors.PasswordDeleteError = type("PasswordDeleteError", (errors.KeyringError,), {})
held, priority, is_locked = {}, 5, False
def get_keyring():
    return types.SimpleNamespace(priority=priority)
def get_password(service, name):
    if is_locked:
        raise errors.KeyringError("locked")
    return held.get((service, name))
def set_password(service, name, value):
    if is_locked:
        raise errors.KeyringError("locked")
    held[service, name] = value
def delete_password(service, name):
    if (service, name) not in held:
        raise errors.PasswordDeleteError("none")
    del held[service, name]
"""


@pytest.fixture
def keyring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    """A package `keyring` that can be imported, as if it were installed."""
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "keyring.py").write_text(KEYRING)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "keyring", raising=False)
    import keyring  # type: ignore[import-not-found,unused-ignore]

    yield keyring
    sys.modules.pop("keyring", None)


def load(home: Path, folder: Path | None = None, **keys: str) -> Settings:
    return Settings.load({"DIALECTIC_HOME": str(home), **keys}, folder=folder)


def reveal(settings: Settings) -> str | None:
    key = settings.find_key(settings.list_endpoints()["openai"])
    return None if key is None else key.reveal()


# -- the file --------------------------------------------------------------------------------------


def test_a_key_in_the_file_is_found_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    store_key(tmp_path, NAME, Secret(CANARY), KeyPlace.FILE)
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600
    settings = load(tmp_path)
    assert reveal(settings) == CANARY
    assert settings.key_places == {NAME: KeyPlace.FILE}
    assert CANARY not in repr(settings)
    assert remove_key(tmp_path, NAME) is KeyPlace.FILE
    assert remove_key(tmp_path, NAME) is None
    assert CANARY not in (tmp_path / FILE).read_text()
    assert reveal(load(tmp_path)) is None


def test_a_file_that_others_can_read_is_noticed(tmp_path: Path) -> None:
    assert is_private(tmp_path)
    store_key(tmp_path, NAME, Secret(CANARY), KeyPlace.FILE)
    assert is_private(tmp_path)
    (tmp_path / FILE).chmod(0o644)
    assert not is_private(tmp_path)


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"A": "sk-canary-51c7"}', '{"A": {"key": 1}}', "\xff"]
)
def test_a_damaged_file_is_said_without_its_content(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text, encoding="latin-1")
    with refusing(ConfigurationError, FILE, reason="damaged") as caught:
        load_stored_keys(tmp_path)
    assert CANARY not in caught.value.message


# -- the keyring -----------------------------------------------------------------------------------


def test_a_key_in_the_keyring_is_not_in_the_file(tmp_path: Path, keyring: object) -> None:
    del keyring
    assert has_keyring()
    store_key(tmp_path, NAME, Secret(CANARY), KeyPlace.KEYRING)
    assert json.loads((tmp_path / FILE).read_text()) == {NAME: {"in": "keyring"}}
    settings = load(tmp_path)
    assert settings.key_places == {NAME: KeyPlace.KEYRING}
    (key,) = settings.keys.values()
    assert key.redact(f"a {CANARY} b") == f"a {CANARY} b", "it was not fetched yet"
    assert reveal(settings) == CANARY
    assert CANARY not in key.redact(f"a {CANARY} b")
    assert remove_key(tmp_path, NAME) is KeyPlace.KEYRING
    assert vars(sys.modules["keyring"])["held"] == {}


def test_a_key_that_moves_into_the_file_leaves_the_keyring(tmp_path: Path, keyring: object) -> None:
    del keyring
    store_key(tmp_path, NAME, Secret("old"), KeyPlace.KEYRING)
    store_key(tmp_path, NAME, Secret(CANARY), KeyPlace.FILE)
    assert vars(sys.modules["keyring"])["held"] == {}
    assert reveal(load(tmp_path)) == CANARY


def test_a_keyring_that_keeps_plain_text_does_not_count(keyring: object) -> None:
    vars(keyring)["priority"] = 0.5
    assert not has_keyring()


def test_a_locked_keyring_lets_work_wait_and_says_what_helps(
    tmp_path: Path, keyring: object
) -> None:
    store_key(tmp_path, NAME, Secret(CANARY), KeyPlace.KEYRING)
    vars(keyring)["is_locked"] = True
    settings = load(tmp_path)
    settings.reveal_keys()  # a key that nothing needs stops nothing
    with refusing(KeyMissing, NAME, reason="keyring", action=RemedyAction.CONFIGURE):
        reveal(settings)
    with refusing(ConfigurationError, reason="keyring"):
        store_key(tmp_path, NAME, Secret("new"), KeyPlace.KEYRING)


def test_without_the_package_a_key_in_the_keyring_is_missing(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(json.dumps({NAME: {"in": "keyring"}}))
    assert not has_keyring()
    with refusing(KeyMissing, NAME, reason="keyring"):
        reveal(load(tmp_path))


# -- which one counts ------------------------------------------------------------------------------


def test_the_environment_wins_over_dotenv_and_dotenv_over_what_is_stored(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    store_key(tmp_path, NAME, Secret("stored"), KeyPlace.FILE)
    assert reveal(load(tmp_path, folder)) == "stored"
    (folder / ".env").write_text(f"{NAME}=written\nDIALECTIC_MAX_RETRIES=17\n")
    settings = load(tmp_path, folder)
    assert (reveal(settings), settings.key_places[NAME]) == ("written", KeyPlace.DOTENV)
    assert settings.max_retries == 3, "only keys are read from it"
    assert reveal(load(tmp_path, folder, OPENAI_API_KEY="given")) == "given"
    assert reveal(load(tmp_path)) == "stored"


@pytest.mark.parametrize(
    ("line", "value"),
    [
        (f"{NAME}=abc", "abc"),
        (f"export {NAME}=abc", "abc"),
        (f'  {NAME} = "a b#c"  # mine', "a b#c"),
        (f"{NAME}='abc'", "abc"),
        (f"{NAME}=abc # mine", "abc"),
        (f"{NAME}=abc\r", "abc"),
        (f"{NAME}=old\n{NAME}=abc", "abc"),
        (f"{NAME}=", None),
        (f"# {NAME}=abc", None),
        (f"MY_{NAME}=abc", None),
    ],
)
def test_dotenv_is_read_as_a_shell_reads_it(line: str, value: str | None) -> None:
    found = parse_dotenv(f"A=1\n{line}\nB=2\n", [NAME])
    assert {name: key.reveal() for name, key in found.items()} == ({NAME: value} if value else {})


def test_a_dotenv_that_is_a_pipe_or_a_folder_holds_no_key(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".env")
    assert read_dotenv(tmp_path, [NAME]) == {}
    (tmp_path / ".env").unlink()
    (tmp_path / ".env").mkdir()
    assert read_dotenv(tmp_path, [NAME]) == {}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file away")
def test_the_dotenv_of_another_user_is_not_read(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(f"{NAME}=theirs\n")
    assert read_dotenv(tmp_path, [NAME])
    os.chown(tmp_path / ".env", 12345, -1)
    assert read_dotenv(tmp_path, [NAME]) == {}
