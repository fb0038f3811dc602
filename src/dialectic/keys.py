"""Keys of providers that a person stored: in the system's keyring, or in HOME/keys.json.

Each is known by the environment variable that would hold it. The file lists all of them; it holds a
key itself only if the person agreed to that. A key in the keyring is fetched when it is first used,
because the system may take its time, or ask for a password. Also reads keys from a `.env` file.
"""

from __future__ import annotations

import enum
import importlib
import json
import os
import re
import stat
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from dialectic.atomic_write import PRIVATE_MODE, replacing
from dialectic.core.access import Secret
from dialectic.errors import ConfigurationError, KeyMissing, Remedy, RemedyAction

FILE = "keys.json"
DOTENV = ".env"
# The name of this program in the keyring.
SERVICE = "dialectic"
DOTENV_BYTES_MAX = 1_000_000
# Backends below it keep keys as plain text, or nowhere.
PRIORITY_MIN = 1


class KeyPlace(enum.StrEnum):
    """Where a key is found; the first in this order wins."""

    ENVIRONMENT = "environment"
    DOTENV = ".env"
    KEYRING = "keyring"
    FILE = "file"


class KeyringSecret(Secret):
    """A key in the system's keyring, fetched on first use."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        super().__init__("")
        self._name = name

    def reveal(self) -> str:
        if not self._value:
            self._value = _fetch(self._name)
        return self._value


# -- the keyring -----------------------------------------------------------------------------------


def has_keyring() -> bool:
    """Tell whether this system has a keyring that protects what it holds."""
    keyring = _find_keyring()
    return keyring is not None and keyring.get_keyring().priority >= PRIORITY_MIN


def _find_keyring() -> Any | None:
    """Find the optional package `keyring`; it takes a while to import."""
    try:
        return importlib.import_module("keyring")
    except ImportError:
        return None


def _fetch(name: str) -> str:
    keyring = _find_keyring()
    if keyring is None:
        raise _miss(name, "the package `keyring` is not installed")
    try:
        value = keyring.get_password(SERVICE, name)
    except (keyring.errors.KeyringError, OSError, RuntimeError) as error:
        raise _miss(name, f"the system's keyring cannot be read ({type(error).__name__})") from None
    if not value:
        raise _miss(name, "the system's keyring does not have it any more")
    return str(value)


def _miss(name: str, why: str) -> KeyMissing:
    return KeyMissing(
        f"The key {name} is not available: {why}. Unlock the keyring, store the key again, or set "
        "the environment variable.",
        reason="keyring",
        subject=name,
        remedy=Remedy(RemedyAction.CONFIGURE, setting=name),
    )


# -- what is stored --------------------------------------------------------------------------------


def load_stored_keys(home: Path) -> dict[str, tuple[KeyPlace, Secret]]:
    """Load the stored keys by the names of their variables."""
    return {
        name: (
            (KeyPlace.FILE, Secret(entry["key"]))
            if "key" in entry
            else (KeyPlace.KEYRING, KeyringSecret(name))
        )
        for name, entry in _read(home / FILE).items()
    }


def store_key(home: Path, name: str, key: Secret, place: KeyPlace) -> None:
    """Store a key in the keyring or in the file; it replaces the stored one."""
    entries = _read(home / FILE)
    if place is KeyPlace.KEYRING:
        _change_keyring("set_password", name, key.reveal())
        entries[name] = {"in": place.value}
    else:
        assert place is KeyPlace.FILE, "only the keyring and the file are ours to change"
        if "key" not in entries.get(name, {"key": ""}):
            _change_keyring("delete_password", name)
        entries[name] = {"in": place.value, "key": key.reveal()}
    _write(home / FILE, entries)


def remove_key(home: Path, name: str) -> KeyPlace | None:
    """Remove a stored key; return where it was, or None if none was stored."""
    entries = _read(home / FILE)
    entry = entries.pop(name, None)
    if entry is None:
        return None
    place = KeyPlace.FILE if "key" in entry else KeyPlace.KEYRING
    if place is KeyPlace.KEYRING:
        _change_keyring("delete_password", name)
    _write(home / FILE, entries)
    return place


def _change_keyring(verb: str, *arguments: str) -> None:
    keyring = _find_keyring()
    if keyring is None:
        raise ConfigurationError(
            "The package `keyring` is not installed, so the system's keyring cannot be changed. "
            "Install `dialectic-engine[keyring]`.",
            reason="no_keyring",
            subject="keyring",
        )
    try:
        getattr(keyring, verb)(SERVICE, *arguments)
    except keyring.errors.PasswordDeleteError:
        return  # it is gone already
    except (keyring.errors.KeyringError, OSError, RuntimeError) as error:
        raise ConfigurationError(
            f"The system's keyring refused the change ({type(error).__name__}). Unlock it and try "
            "again.",
            reason="keyring",
            subject="keyring",
        ) from None


def is_private(home: Path) -> bool:
    """Tell whether only the owner can read the stored keys."""
    try:
        return not stat.S_IMODE((home / FILE).stat().st_mode) & 0o077
    except OSError:
        return True


def _read(path: Path) -> dict[str, dict[str, str]]:
    try:
        entries = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigurationError(
            f"{path} cannot be read: {error.strerror}. Correct its permissions or move it away.",
            reason="unreadable",
            subject=str(path),
        ) from None
    except (ValueError, RecursionError):
        entries = None
    if not _is_sound(entries):
        # The message does not show the content, which holds keys.
        raise ConfigurationError(
            f"{path} is damaged. Move it away and store the keys again.",
            reason="damaged",
            subject=str(path),
        )
    return dict(entries)


def _is_sound(entries: Any) -> bool:
    return isinstance(entries, dict) and all(
        isinstance(entry, dict) and all(isinstance(value, str) for value in entry.values())
        for entry in entries.values()
    )


def _write(path: Path, entries: Mapping[str, Mapping[str, str]]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path, mode=PRIVATE_MODE, durable=True) as file:
            file.write(json.dumps(entries, indent=1).encode())
    except OSError as error:
        raise ConfigurationError(
            f"{path} cannot be written: {error.strerror}. Correct its permissions.",
            reason="unwritable",
            subject=str(path),
        ) from None


# -- .env ------------------------------------------------------------------------------------------

_LINE = re.compile(
    r"""^[ \t]*(?:export[ \t]+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*
    (?:"(?P<double>[^"\n]*)"|'(?P<single>[^'\n]*)'|(?P<plain>[^#\n]*?))[ \t]*(?:\#.*)?$""",
    re.MULTILINE | re.VERBOSE,
)


def read_dotenv(folder: Path, names: Collection[str]) -> dict[str, Secret]:
    """Read the given variables from a folder's `.env` file, and no others.

    A file of another user is ignored: their key would make the prompts visible to them. So is one
    that cannot be read.
    """
    try:
        # Without O_NONBLOCK, opening a named pipe would wait for its other end.
        handle = os.open(folder / DOTENV, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
                return {}
            text = file.read(DOTENV_BYTES_MAX).decode(errors="replace")
    except OSError:
        return {}
    return parse_dotenv(text, names)


def parse_dotenv(text: str, names: Collection[str]) -> dict[str, Secret]:
    """Parse the given variables; as in a shell, the last line of a name counts."""
    found: dict[str, Secret] = {}
    for match in _LINE.finditer(text.replace("\r\n", "\n")):
        value = next((v for v in match.group("double", "single", "plain") if v is not None), "")
        if match["name"] in names and value.strip():
            found[match["name"]] = Secret(value.strip())
    return found
