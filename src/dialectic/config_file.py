"""The file HOME/config.toml: read it, and change single values in it.

A change leaves all else in the file as the person wrote it. Knows no setting by name.
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

from dialectic.atomic_write import PRIVATE_MODE, replacing
from dialectic.errors import ConfigurationError

FILE = "config.toml"
_TABLE = re.compile(r"^\s*\[", re.MULTILINE)


def read_config(path: Path) -> dict[str, Any]:
    """Read the file; a missing one is empty."""
    return _parse(_read(path), path)


def set_config_value(path: Path, name: str, value: str) -> None:
    """Set a text at the top level of the file, which is created if it is missing."""
    before = _read(path)
    table = _parse(before, path)
    after = replace_value(before, name, value)
    try:
        is_right = tomllib.loads(after) == {**table, name: value}
    except tomllib.TOMLDecodeError:
        is_right = False
    if not is_right:
        raise ConfigurationError(
            f"`{name}` in {path} cannot be changed by the program. Change it there to "
            f"{json.dumps(value, ensure_ascii=False)}.",
            reason="unchangeable",
            subject=str(path),
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path.resolve(), mode=_choose_mode(path)) as file:
            file.write(after.encode())
    except OSError as error:
        raise ConfigurationError(
            f"{path} cannot be written: {error.strerror}. Correct its permissions.",
            reason="unwritable",
            subject=str(path),
        ) from None


def replace_value(text: str, name: str, value: str) -> str:
    """Replace the line of a top-level key; a new key comes before the first table."""
    line = f"{name} = {json.dumps(value, ensure_ascii=False)}\n"
    table = _TABLE.search(text)
    end = len(text) if table is None else table.start()
    top, rest = text[:end], text[end:]
    found = re.compile(rf"^[ \t]*{re.escape(name)}[ \t]*=.*(?:\n|\Z)", re.MULTILINE)
    if found.search(top):
        return found.sub(lambda _match: line, top, count=1) + rest
    gap = "\n" if top and not top.endswith("\n") else ""
    after = "\n" if rest and not top.strip() else ""
    return f"{top}{gap}{line}{after}{rest}"


def _choose_mode(path: Path) -> int:
    """Keep the permissions of the file; a new one may hold secrets later."""
    try:
        return path.stat().st_mode & 0o777
    except OSError:
        return PRIVATE_MODE


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise ConfigurationError(
            f"{path} cannot be read: {error.strerror}. Correct its permissions or move it away.",
            reason="unreadable",
            subject=str(path),
        ) from None
    except ValueError as error:  # not UTF-8
        raise _refuse_toml(path, error) from None


def _parse(text: str, path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except ValueError as error:  # not TOML, or an infinite number
        raise _refuse_toml(path, error) from None


def _refuse_toml(path: Path, error: ValueError) -> ConfigurationError:
    return ConfigurationError(
        f"{path} is not valid TOML: {error}. Correct that line.",
        reason="not_toml",
        subject=str(path),
    )
