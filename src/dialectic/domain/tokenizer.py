"""How a model's tokens are counted, by a name in its card. Says what a name means; counts nothing.

A vocabulary's name or `chars:N` says: this is how the model itself counts. With a factor behind it,
`o200k_base*1.4`, it says: the model counts otherwise, and so many times as much is a fair guess.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from dialectic.errors import ConfigurationError

VOCABULARIES = ("o200k_base", "cl100k_base")
KNOWN = (
    "`o200k_base`, `cl100k_base` or `chars:N` with N characters to a token; where that is a guess, "
    "with a factor from 0.5 to 10 behind it, as in `o200k_base*1.4`"
)

_NAME = re.compile(
    rf"(?:({'|'.join(VOCABULARIES)})|chars:([1-9][0-9]{{0,2}}))"
    r"(?:\*([0-9]{1,2}(?:\.[0-9]{1,3})?))?",
    re.ASCII,
)
_FACTORS = (Fraction(1, 2), Fraction(10))


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """A way of counting: by a vocabulary, or by characters."""

    vocabulary: str | None
    chars_per_token: int
    # Of a guess; None if the model counts in just this way.
    factor: Fraction | None


def parse_tokenizer(name: str) -> Tokenizer:
    """Read the name of a tokenizer."""
    found = _NAME.fullmatch(name)
    factor = Fraction(found[3]) if found and found[3] else None
    if found is None or (factor is not None and not _FACTORS[0] <= factor <= _FACTORS[1]):
        raise ConfigurationError(f"Tokenizer {name!r} is not known. Known: {KNOWN}.")
    return Tokenizer(found[1], int(found[2] or 0), factor)
