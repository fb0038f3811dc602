"""Prompts: templates, delimited blocks for untrusted text, and neutral labels. Pure.

Values are inserted as they are and never rendered again: text of a user or a model cannot become
template code.

A label does not reveal the author of a document. Its letter stands for the thesis that the document
descends from, its number for the author. Both are shuffled, with the session's id as the seed.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import random
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

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
    """Build the label of a document: `Thesis B`, or `Critique B2` for one derived from it."""
    letter = _letters(_shuffled(f"letter:{session_id}", models).index(origin))
    if is_origin:
        return f"{header} {letter}"
    number = _shuffled(f"number:{session_id}", models).index(model_index) + 1
    return f"{header} {letter}{number}"


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
