"""Prompts: templates, delimited blocks for untrusted text, neutral labels, and manifests. Pure.

Values are inserted as they are and never rendered again: text of a user or a model cannot become
template code.

A label does not reveal the author of a document. Its letter stands for the thesis that the document
descends from, its number for the author. Both are shuffled, with the session's id as the seed.

The manifest of a prompt tells which texts were compressed, by how much, at what cost. It is stored
with the answer to that prompt, as JSON.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any
from uuid import UUID

from dialectic.core.strict_json import Json
from dialectic.errors import InvalidProcess

# What an expression in a template can raise, in addition to Jinja's own errors.
TEMPLATE_FAULTS = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)


def build_block(label: str, text: str) -> str:
    """Put a text between marks that it does not contain, so that it cannot end its block."""
    mark = _hash(f"{label}\n{text}")
    while mark in text:
        mark = _hash(mark)
    return f"<<<BEGIN {label} [{mark}]>>>\n{text.rstrip()}\n<<<END [{mark}]>>>"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@functools.lru_cache(maxsize=256)  # every new session checks its process
def list_variables(name: str, template: str) -> frozenset[str]:
    """Find the variables of a template."""
    import jinja2.meta

    environment = _environment()
    try:
        found = jinja2.meta.find_undeclared_variables(environment.parse(template))
    except jinja2.TemplateSyntaxError as error:
        words = str(error.message).rstrip(".")
        raise InvalidProcess(
            f"Prompt {name!r} is not a valid template, line {error.lineno}: {words}.",
            reason="bad_template",
            subject=name,
        ) from error
    except (jinja2.TemplateError, *TEMPLATE_FAULTS) as error:
        raise InvalidProcess(
            f"Prompt {name!r} is not a valid template: {error}.",
            reason="bad_template",
            subject=name,
        ) from error
    return frozenset(found - environment.globals.keys())


def render_template(name: str, template: str, values: Mapping[str, Any]) -> str:
    """Render a template; a missing variable is an error that names it."""
    import jinja2

    try:
        text: str = _compile(template).render(values)
        return text.strip() + "\n"
    except (jinja2.TemplateError, *TEMPLATE_FAULTS) as error:
        raise InvalidProcess(
            f"Prompt {name!r} cannot be rendered: {error}.", reason="not_renderable", subject=name
        ) from error


@functools.lru_cache(maxsize=256)  # compiling takes milliseconds
def _compile(template: str) -> Any:
    return _environment().from_string(template)


@functools.cache
def _environment() -> Any:
    import jinja2
    import jinja2.sandbox  # takes 60 ms: import only when rendering

    return jinja2.sandbox.ImmutableSandboxedEnvironment(
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # prompts are markdown, not HTML
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _shuffled(seed: str, count: int) -> list[int]:
    numbers = list(range(1, count + 1))
    digest = hashlib.sha256(seed.encode()).digest()
    random.Random(digest).shuffle(numbers)  # noqa: S311  deterministic, not a secret
    return numbers


def build_label(
    header: str, *, session_id: UUID, models: int, origin: int, model_index: int, is_origin: bool
) -> str:
    """Build the label of a document: `Thesis B`, or `Critique B2` for one derived from it.

    `models` is the number of seats that the session began with: labels stay when a seat joins.
    """
    letter = _letters(_place(f"letter:{session_id}", models, origin))
    if is_origin:
        return f"{header} {letter}"
    number = _place(f"number:{session_id}", models, model_index) + 1
    return f"{header} {letter}{number}"


def _place(seed: str, count: int, number: int) -> int:
    """Find the shuffled place of a number, from 0; later numbers follow in order."""
    return _shuffled(seed, count).index(number) if number <= count else number - 1


def _letters(index: int) -> str:
    """Count in letters: A to Z, then AA."""
    rest, last = divmod(index, 26)
    return (_letters(rest - 1) if rest else "") + chr(ord("A") + last)


def tell_apart(labels: Sequence[str]) -> list[str]:
    """Number equal labels of one reader: `Draft B2 (1)`, `Draft B2 (2)`."""
    numbers = {label: itertools.count(1) for label in labels}
    return [
        f"{label} ({next(numbers[label])})" if labels.count(label) > 1 else label
        for label in labels
    ]


def order_for_reader(job_id: UUID, items: Sequence[UUID]) -> list[UUID]:
    """Shuffle documents for one reader, so that none is always first."""
    order = _shuffled(f"order:{job_id}", len(items))
    return [items[number - 1] for number in order]


# -- manifests -------------------------------------------------------------------------------------


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
