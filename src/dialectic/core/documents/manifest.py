"""The manifest of a prompt: which texts were compressed, by how much, at what cost. Pure.

It is stored with the answer to that prompt, as JSON.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from uuid import UUID

from dialectic.core.strict_json import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One text of a prompt: kept whole or compressed."""

    kind: str
    label: str
    source_id: UUID | None
    tokens_before: int
    tokens_after: int
    # Its estimated relevance, from 0 to 1; None if not estimated.
    value: float | None = None
    # The compressor used; None if the text was kept.
    compressor: str | None = None
    budget_tokens: int | None = None
    # The cost of compressing it now: 0 if an earlier result was reused.
    cost_credits: int = 0
    is_reused: bool = False

    @property
    def is_compressed(self) -> bool:
        return self.compressor is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The texts sent in one prompt. Without entries nothing had to be compressed."""

    # Tokens before and after compression, and the model's input limit.
    tokens_before: int
    tokens_after: int
    tokens_max: int
    # The cost of estimating the relevance of the texts.
    weighing_credits: int = 0
    items: tuple[Entry, ...] = ()

    @property
    def cost_credits(self) -> int:
        return self.weighing_credits + sum(entry.cost_credits for entry in self.items)

    def as_json(self) -> Json:
        """Convert to JSON, to be stored and shown."""
        items = [
            asdict(entry)
            | {
                "source_id": entry.source_id and str(entry.source_id),
                "status": "compressed" if entry.is_compressed else "kept",
                "value": None if entry.value is None else round(entry.value, 4),
            }
            for entry in self.items
        ]
        return {
            "tokens_before": self.tokens_before,
            "tokens_after": self.tokens_after,
            "tokens_max": self.tokens_max,
            "weighing_credits": self.weighing_credits,
            "cost_credits": self.cost_credits,
            "items": items,
        }


def rename_sources(manifest: Json, rename: Callable[[UUID], UUID]) -> Json:
    """Build the same manifest with new document ids."""
    items = [
        item | {"source_id": item["source_id"] and str(rename(UUID(item["source_id"])))}
        for item in manifest["items"]
    ]
    return manifest | {"items": items}


def check_manifest(manifest: Json) -> Json:
    """Check the form of an untrusted manifest; raise `ValueError` if it is invalid."""
    items = manifest.get("items")
    fields = Manifest(tokens_before=0, tokens_after=0, tokens_max=0).as_json().keys()
    entry = Entry(kind="", label="", source_id=None, tokens_before=0, tokens_after=0)
    if manifest.keys() != fields or not isinstance(items, list):
        raise ValueError("not the manifest of a prompt")
    _require_whole(manifest, ("tokens_before", "tokens_after", "tokens_max", "cost_credits"))
    for item in items:
        if not isinstance(item, dict) or item.keys() != {*asdict(entry), "status"}:
            raise ValueError("an item of the manifest is malformed")
        _require_whole(item, ("tokens_before", "tokens_after"))
        if not isinstance(item["label"], str) or not isinstance(item["value"], float | None):
            raise ValueError("an item of the manifest has no label or a non-numeric value")
        if item["source_id"] is not None:
            UUID(str(item["source_id"]))
    return manifest


def _require_whole(record: Json, names: tuple[str, ...]) -> None:
    for name in names:
        if type(record[name]) is not int:
            raise ValueError(f"{name} is not a whole number")


def describe_manifest(manifest: Json) -> list[str]:
    """Describe a stored manifest in a few lines."""
    after, most = manifest["tokens_after"], manifest["tokens_max"]
    shortened = [item for item in manifest["items"] if item["status"] == "compressed"]
    if not shortened:
        return [f"prompt of {after:,} tokens, at most {most:,}: nothing was shortened"]
    lines = [
        f"prompt shortened from {manifest['tokens_before']:,} to {after:,} tokens, at most "
        f"{most:,}; {manifest['cost_credits']:,} credits"
    ]
    for item in shortened:
        worth = "" if item["value"] is None else f", worth {item['value']:.2f}"
        again = ", as before" if item["is_reused"] else ""
        lines.append(
            f"  {item['label']}: {item['tokens_before']:,} to {item['tokens_after']:,} tokens by "
            f"{item['compressor']}{worth}{again}"
        )
    kept = len(manifest["items"]) - len(shortened)
    return lines + ([f"  {kept} other(s) kept whole"] if kept else [])
