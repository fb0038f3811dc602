"""Model cards: context window, limits, prices, tokenizer. Data, never branches in code.

One credit is one millionth of a US dollar, so a price in dollars per million tokens is the same
number as the rate in credits per token. Rates are exact decimals; they are never floats.

A card names a tokenizer. The name of a vocabulary, or `chars:N`, means that the model counts
exactly so. A factor, as in `o200k_base*1.4`, means an estimate: 1.4 times that count.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from fractions import Fraction
from itertools import groupby
from typing import Any

from dialectic.errors import ConfigurationError, UsageError


@dataclass(frozen=True, slots=True)
class ModelCard:
    """The facts about one model, named `provider/model`."""

    name: str
    context_window_tokens: int
    max_input_tokens: int
    max_output_tokens: int
    input_credits_per_token: Decimal
    output_credits_per_token: Decimal
    # How its tokens are counted, see `parse_tokenizer`.
    tokenizer: str
    # The endpoint's name for it, if that is not the second part of `name`.
    wire_name: str | None = None
    # If not, the system instruction is put at the start of the first user message.
    supports_system_prompt: bool = True
    # A reasoning model may send nothing for minutes.
    is_reasoning: bool = False
    # Whether a request may name a temperature. Reasoning models reject one.
    accepts_temperature: bool = True
    # Added to every request, as the operator wrote it.
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    # For an embedding model: the length of its vectors.
    embedding_dimensions: int | None = None
    # The date of these facts, unless the operator declared them.
    facts_of: date | None = None

    @property
    def provider(self) -> str:
        return self.name.split("/", 1)[0]

    @property
    def sent_name(self) -> str:
        return self.wire_name or self.name.split("/", 1)[1]

    def as_config(self) -> dict[str, str | int]:
        """Build the record that is stored with a session, under its original names."""
        return {
            "api_identifier": self.name,
            "context_window_tokens": self.context_window_tokens,
            "provider_max_input_tokens": self.max_input_tokens,
            "provider_max_output_tokens": self.max_output_tokens,
            "input_token_cost_rate": str(self.input_credits_per_token),
            "output_token_cost_rate": str(self.output_credits_per_token),
            "tokenization_strategy": self.tokenizer,
        }


MODELS_PER_SESSION_MAX = 12


def parse_model_list(text: str) -> list[str]:
    """Read `a/b,c/d*3` as a list of names; a repeated model contributes several times."""
    names: list[str] = []
    for part in (piece.strip() for piece in text.split(",")):
        if not part:
            continue
        name, star, times = part.partition("*")
        count = _parse_count(part, times) if star else 1
        names.extend([_checked_name(name.strip())] * count)
    if not names:
        raise UsageError(
            f"{text!r} names no model. Give at least one, as `provider/model`.",
            reason="no_model",
            subject="models",
        )
    if len(names) > MODELS_PER_SESSION_MAX:
        raise UsageError(
            f"{len(names)} models were requested; a session takes at most "
            f"{MODELS_PER_SESSION_MAX}. Choose fewer.",
            reason="too_many_models",
            subject="models",
            limit=MODELS_PER_SESSION_MAX,
        )
    return names


def format_model_list(names: Sequence[str]) -> str:
    """Write a list of names as `parse_model_list` reads it; equal neighbours are counted."""
    runs = ((name, len(list(some))) for name, some in groupby(names))
    return ",".join(f"{name}*{count}" if count > 1 else name for name, count in runs)


def _parse_count(part: str, times: str) -> int:
    if not times.strip().isdecimal() or not 1 <= int(times) <= MODELS_PER_SESSION_MAX:
        raise UsageError(
            f"In {part!r} a number from 1 to {MODELS_PER_SESSION_MAX} must follow the `*`.",
            reason="bad_count",
            subject=part,
            limit=MODELS_PER_SESSION_MAX,
        )
    return int(times)


def _checked_name(name: str) -> str:
    provider, slash, model = name.partition("/")
    if not (slash and provider and model) or any(c.isspace() for c in name):
        raise UsageError(
            f"{name!r} is not a model name. Write it as `provider/model`.",
            reason="not_a_name",
            subject=name,
        )
    return name


VOCABULARIES = ("o200k_base", "cl100k_base")
KNOWN = (
    "`o200k_base`, `cl100k_base` or `chars:N` with N characters per token; for an estimate, "
    "append a factor from 0.5 to 10, as in `o200k_base*1.4`"
)

_NAME = re.compile(
    rf"(?:({'|'.join(VOCABULARIES)})|chars:([1-9][0-9]{{0,2}}))"
    r"(?:\*([0-9]{1,2}(?:\.[0-9]{1,3})?))?",
    re.ASCII,
)
_FACTORS = (Fraction(1, 2), Fraction(10))


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """A way to count tokens: by a vocabulary, or by characters."""

    vocabulary: str | None
    chars_per_token: int
    # The factor of an estimate; None if the count is exact.
    factor: Fraction | None


def parse_tokenizer(name: str) -> Tokenizer:
    """Read the name of a tokenizer."""
    found = _NAME.fullmatch(name)
    factor = Fraction(found[3]) if found and found[3] else None
    if found is None or (factor is not None and not _FACTORS[0] <= factor <= _FACTORS[1]):
        raise ConfigurationError(
            f"Tokenizer {name!r} is unknown. Known: {KNOWN}.", reason="no_tokenizer", subject=name
        )
    return Tokenizer(found[1], int(found[2] or 0), factor)
