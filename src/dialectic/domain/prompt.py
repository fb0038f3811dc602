"""Prompts: templates rendered once, and foreign text put into labelled, delimited blocks.

Pure. Values are inserted as they are and never rendered again: what a user or a model writes
cannot become template code.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from typing import Any

from dialectic.errors import InvalidProcess

# What a template can raise by what it calculates, beside the engine's own errors.
TEMPLATE_FAULTS = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)


def build_block(label: str, text: str) -> str:
    """Fence a text off. The mark is the hash of the text, so the text cannot contain it."""
    mark = hashlib.sha256(f"{label}\n{text}".encode()).hexdigest()[:12]
    return f"<<<BEGIN {label} [{mark}]>>>\n{text.rstrip()}\n<<<END [{mark}]>>>"


def render_template(name: str, template: str, values: Mapping[str, Any]) -> str:
    """Render a template; a variable it uses and nobody gives is an error that names it."""
    import jinja2

    try:
        text: str = _environment().from_string(template).render(values)
        return text.strip() + "\n"
    except (jinja2.TemplateError, *TEMPLATE_FAULTS) as error:
        raise InvalidProcess(f"Prompt {name!r} cannot be rendered: {error}.") from error


@functools.cache
def _environment() -> Any:
    import jinja2
    import jinja2.sandbox  # 60 ms that only a process which renders prompts should pay

    return jinja2.sandbox.ImmutableSandboxedEnvironment(
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # prompts are markdown, not HTML
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
