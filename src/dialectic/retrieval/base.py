"""What retrieval speaks of: pieces of a text, their vectors, and those who make vectors of words.

Knows no database, no money and no vendor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from dialectic.domain.model import ModelCard

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float32]
    """One row of unit length for each text."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A passage of a text: where it stands, under which headings, and how long it is."""

    position: int
    start: int
    end: int
    text: str
    heading_path: tuple[str, ...]
    # In tokens of the embedder that will read it.
    tokens: int


@dataclass(frozen=True, slots=True)
class Embedded:
    """Vectors of some texts, in their order, and how many tokens were read for them."""

    rows: Matrix
    tokens: int


class Embedder(Protocol):
    """Turns texts into vectors. Two of different names never make vectors that can be compared.

    Raises a leaf of `ProviderError`. What comes out is checked: right number, right size, finite,
    not zero, scaled to unit length.
    """

    # As people write it: `builtin/static`, `openai/text-embedding-3-small`.
    name: str
    dimensions: int
    # It reads no more of a text than this, in its own tokens.
    piece_tokens_max: int
    # What it costs and how it is counted, for whoever pays; None if it costs nothing.
    card: ModelCard | None

    def count(self, text: str) -> int:
        """Count a text in the embedder's own tokens."""

    async def embed(self, texts: Sequence[str]) -> Embedded:
        """Make one vector of each text, in one attempt or several batches."""

    async def close(self) -> None:
        """Close the connections that are kept open."""
