"""Which models the endpoints listed when they were last asked: a file in HOME. Knows no facts.

It is a cache: what cannot be read counts as never seen, and asking again writes it anew.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any
from uuid import uuid4

from dialectic.errors import ConfigurationError
from dialectic.providers.base import ListedModel

FILE = "models.json"


@dataclass(frozen=True, slots=True)
class Seen:
    """What one endpoint listed, and on which day."""

    on: date
    models: tuple[ListedModel, ...]


def load_seen(home: Path) -> dict[str, Seen]:
    """Load what was seen, by the names of the endpoints."""
    try:
        table = json.loads((home / FILE).read_bytes())
        return {name: _read(part) for name, part in table.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}


def _read(part: Mapping[str, Any]) -> Seen:
    return Seen(
        date.fromisoformat(part["on"]), tuple(ListedModel(**model) for model in part["models"])
    )


def save_seen(home: Path, seen: Mapping[str, Seen]) -> None:
    """Save what was seen, whole or not at all."""
    table = {
        name: {"on": part.on.isoformat(), "models": [asdict(model) for model in part.models]}
        for name, part in seen.items()
    }
    draft = home / f".{FILE}-{uuid4().hex}"
    try:
        home.mkdir(parents=True, exist_ok=True)
        draft.write_text(json.dumps(table, indent=1), encoding="utf-8")
        draft.replace(home / FILE)
    except OSError as error:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
        raise ConfigurationError(
            f"{home / FILE} cannot be written: {error.strerror}. Put its permissions right."
        ) from None
