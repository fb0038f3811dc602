"""The types of retrieval: pieces of a text, their vectors, and the embedder interface.

Vectors are checked before use, and so are the model files in packages. Nothing here uses the
network. Knows no database, no money and no vendor.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from dialectic.core.models.model import ModelCard
from dialectic.errors import ConfigurationError, ProviderMalformed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float32]
    """One row of unit length for each text."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A passage of a text: its position, the headings above it, and its length."""

    position: int
    start: int
    end: int
    text: str
    heading_path: tuple[str, ...]
    # In tokens of the embedder that will read it.
    tokens: int


@dataclass(frozen=True, slots=True)
class Embedded:
    """Vectors of some texts, in order, and how many tokens were read for them."""

    rows: Matrix
    tokens: int


class Embedder(Protocol):
    """Turns texts into vectors. Vectors of embedders with different names are not comparable.

    Raises a leaf of `ProviderError`. The vectors are checked: right number, right size, finite,
    not zero, scaled to unit length.
    """

    # As users write it: `builtin/static`, `openai/text-embedding-3-small`.
    name: str
    dimensions: int
    # The maximum length of a text, in its own tokens.
    piece_tokens_max: int
    # Its prices and tokenizer; None if it is free.
    card: ModelCard | None

    def count(self, text: str) -> int:
        """Count a text in the embedder's own tokens."""

    async def embed(self, texts: Sequence[str]) -> Embedded:
        """Compute one vector per text, in one request or several batches."""

    async def close(self) -> None:
        """Close the open connections."""


class _Model(Protocol):
    def count(self, text: str) -> int: ...

    def embed(self, texts: Sequence[str]) -> Embedded: ...


class BuiltInEmbedder:
    """An embedder whose model runs in this process; loaded on first use, and free."""

    name: str
    dimensions: int
    piece_tokens_max: int
    card: ModelCard | None = None

    def load(self) -> _Model:
        """Load the model, once."""
        raise NotImplementedError

    def count(self, text: str) -> int:
        return self.load().count(text)

    async def embed(self, texts: Sequence[str]) -> Embedded:
        return await asyncio.to_thread(lambda: self.load().embed(texts))

    async def close(self) -> None:
        """Do nothing: no connection is open."""


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates, which UTF-8 cannot encode."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def check_rows(name: str, given: Any, *, count: int, dimensions: int) -> Matrix:
    """Validate vectors and scale them to unit length; the error names what is wrong."""
    import numpy as np

    try:
        rows = np.asarray(given, dtype=np.float32)
    except (TypeError, ValueError, OverflowError):
        raise _refuse(
            name, "its vectors are not lists of numbers of the same size", "not_numbers"
        ) from None
    if rows.shape[:1] != (count,):
        raise _refuse(
            name, f"it made {len(rows) if rows.ndim else 0} vectors of {count} texts", "other_count"
        )
    if rows.shape != (count, dimensions):
        size = rows.shape[1] if rows.ndim == 2 else 0
        raise _refuse(
            name, f"its vectors have {size} numbers instead of {dimensions}", "other_size"
        )
    # In double precision: in single, the square of a large number may overflow.
    lengths = np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
    if not np.isfinite(lengths).all():
        raise _refuse(name, "a vector contains a value that is not finite", "not_finite")
    if not lengths.all():
        raise _refuse(name, "a vector is zero", "zero")
    return np.asarray(rows / lengths, dtype=np.float32)


def _refuse(name: str, why: str, reason: str) -> ProviderMalformed:
    return ProviderMalformed(
        f"The embedder {name} returned unusable vectors: {why}. If this persists, choose "
        "another one with the setting `embedder`.",
        retries_max=1,
        reason=reason,
        subject=name,
    )


def load_file(package: str, name: str, sha256: str) -> bytes:
    """Read a file of an installed package; reject it if its hash is not the published one."""
    path = get_package(package) / name
    try:
        data = path.read_bytes()
    except OSError as error:
        raise _refuse_file(
            package, name, error.strerror or type(error).__name__, reason="unreadable"
        ) from None
    if hashlib.sha256(data).hexdigest() != sha256:
        raise _refuse_file(package, name, "its hash is not the published one", reason="other_hash")
    return data


def get_package(package: str) -> Path:
    """Find the folder of an installed package. Do not import it: its code may use the network."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ConfigurationError(
            f"The package `{package}` is not installed, so its model cannot run. Install it again, "
            "or choose another one with the setting `embedder`.",
            reason="not_installed",
            subject=package,
        )
    return Path(spec.submodule_search_locations[0])


def _refuse_file(package: str, name: str, why: str, *, reason: str) -> ConfigurationError:
    return ConfigurationError(
        f"The file {name} of the package `{package}` cannot be used: {why}. Install the package "
        "again.",
        reason=reason,
        subject=name,
    )
