"""The models that the endpoints listed last (a cache file in HOME), and the list shown to users.

An unreadable cache file counts as empty; the next refresh rewrites it. Building the list for users
is pure: it joins what is known, what was listed and what is missing.
"""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

from dialectic.atomic_write import replacing
from dialectic.core.models.model import ModelCard
from dialectic.errors import ConfigurationError
from dialectic.providers.base import ListedModel
from dialectic.providers.catalog import Catalog, Entry, Origin

FILE = "models.json"


@dataclass(frozen=True, slots=True)
class CachedModels:
    """The models that one endpoint listed, and the date."""

    on: date
    models: tuple[ListedModel, ...]


def load_cached_models(home: Path) -> dict[str, CachedModels]:
    """Load the cached lists, by the names of the endpoints."""
    try:
        table = json.loads((home / FILE).read_bytes())
        return {name: _read(part) for name, part in table.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}


def _read(part: Mapping[str, Any]) -> CachedModels:
    return CachedModels(
        date.fromisoformat(part["on"]), tuple(ListedModel(**model) for model in part["models"])
    )


def save_cached_models(home: Path, seen: Mapping[str, CachedModels]) -> None:
    """Save the cached lists atomically."""
    table = {
        name: {"on": part.on.isoformat(), "models": [asdict(model) for model in part.models]}
        for name, part in seen.items()
    }
    try:
        home.mkdir(parents=True, exist_ok=True)
        with replacing(home / FILE) as file:
            file.write(json.dumps(table, indent=1).encode())
    except OSError as error:
        raise ConfigurationError(
            f"{home / FILE} cannot be written: {error.strerror}. Correct its permissions.",
            reason="unwritable",
            subject=str(home / FILE),
        ) from None


# The suffix of a dated version of a model: `-20251001`, `-2026-03-05`.
_VERSION = re.compile(r"-\d{4}-?\d{2}-?\d{2}$")


class State(enum.StrEnum):
    """Whether a model can be called, and if not, why."""

    USABLE = "usable"
    KEY_MISSING = "key missing"
    NO_LONGER_LISTED = "no longer listed"
    UNCONFIGURED = "listed, unusable until configured"

    @property
    def is_usable(self) -> bool:
        return self in (State.USABLE, State.NO_LONGER_LISTED)


@dataclass(frozen=True, slots=True)
class Row:
    """One model in the list; without a card if only its name is known."""

    name: str
    state: State
    # What to do or to know about it.
    note: str = ""
    card: ModelCard | None = None
    origin: Origin | None = None
    listed: ListedModel | None = None
    # The variable that must be set to use it.
    missing: str | None = None


def build_listing(catalog: Catalog, seen: Mapping[str, CachedModels]) -> list[Row]:
    """Build the list: every model of the catalogue, then other models that endpoints listed."""
    rows = [_describe(entry, seen.get(entry.card.provider)) for entry in catalog.entries]
    known = {(entry.card.provider, entry.card.sent_name) for entry in catalog.entries}
    known |= {(e.card.provider, e.card.sent_name) for e in catalog.embeddings.values()}
    for endpoint, part in seen.items():
        rows.extend(
            Row(
                f"{endpoint}/{listed.name}",
                State.UNCONFIGURED,
                f"listed on {part.on}",
                listed=listed,
            )
            for listed in part.models
            if endpoint in catalog.endpoints and (endpoint, listed.name) not in known
        )
    return rows


def _describe(entry: Entry, seen: CachedModels | None) -> Row:
    card, state, note = entry.card, State.USABLE, ""
    if entry.missing is not None:
        state, note = State.KEY_MISSING, f"set {entry.missing}"
    elif seen is not None and not is_listed(card.sent_name, (m.name for m in seen.models)):
        state, note = State.NO_LONGER_LISTED, f"not listed on {seen.on}"
    return Row(card.name, state, note, card, entry.origin, missing=entry.missing)


def is_listed(name: str, listed: Iterable[str]) -> bool:
    """Say whether a model is listed, by its name or as a dated version of it."""
    return any(name in (other, _VERSION.sub("", other)) for other in listed)


def build_snippet(row: Row) -> str:
    """Build the config.toml section for a model of which only the name is known."""
    assert row.listed is not None, "only a listed model needs a section"
    endpoint, model = row.name.split("/", 1)
    window, output = row.listed.context_window_tokens, row.listed.max_output_tokens
    return "\n".join(
        [
            f"[endpoints.{endpoint}.models.{json.dumps(model)}]",
            f"context_window_tokens = {window or '?'}",
            f"max_output_tokens = {output or '?'}",
            "input_usd_per_million = ?",
            "output_usd_per_million = ?",
            'tokenizer = "o200k_base*1.5"    # a careful guess',
        ]
    )
