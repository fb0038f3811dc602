"""The interface of the embedders, and those of a process by name: built in, or of an endpoint.

An embedder is opened on first use, so a process starts without keys and without weights in memory.
Vectors are checked before use; invalid ones of an endpoint are requested once more, and that cost
is counted too. Knows no wallet and no database.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from dialectic.core.models.model import ModelCard
from dialectic.errors import ConfigurationError, ProviderError, ProviderMalformed
from dialectic.providers.base import VectorProvider
from dialectic.providers.catalog import Catalog
from dialectic.tokens.counting import get_counter

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float32]
    """One row of unit length for each text."""

# One vector for more than a few paragraphs is blurred, whatever the model's limit.
PIECE_TOKENS_MAX = 512
# A count by another vocabulary may be off by a tenth.
MARGIN_DIVISOR = 10


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


def check_rows(name: str, given: object, *, count: int, dimensions: int) -> Matrix:
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


@dataclass(frozen=True, slots=True)
class Batch:
    """The limits of one request."""

    texts_max: int = 128
    tokens_max: int = 50_000


BATCH = Batch()


class RemoteEmbedder:
    """One embedding model of one endpoint; its connections belong to the catalogue."""

    def __init__(self, card: ModelCard, provider: VectorProvider, batch: Batch = BATCH) -> None:
        assert card.embedding_dimensions is not None, "only embedding models have an embedder"
        self.name = card.name
        self.dimensions = card.embedding_dimensions
        limit = card.max_input_tokens - card.max_input_tokens // MARGIN_DIVISOR
        self.piece_tokens_max = min(PIECE_TOKENS_MAX, limit)
        self.card: ModelCard | None = card
        self._card = card
        self._provider = provider
        self._most = batch
        self._count = get_counter(card.tokenizer)

    def count(self, text: str) -> int:
        return self._count(text)

    async def embed(self, texts: Sequence[str]) -> Embedded:
        import numpy as np

        parts, spent = [np.empty((0, self.dimensions), dtype=np.float32)], 0
        # In a thread: counting takes a while and would block the event loop.
        for batch in await asyncio.to_thread(lambda: list(self._batch(texts))):
            try:
                got = await self._ask_twice(batch)
            except ProviderError as error:
                raise add_spent(error, spent, sum(map(self.count, batch))) from error
            parts.append(got.rows)
            spent += got.tokens
        return Embedded(np.concatenate(parts), spent)

    async def _ask_twice(self, texts: list[str]) -> Embedded:
        try:
            return await self._ask(texts)
        except ProviderMalformed as error:
            spent = get_spent(error, sum(map(self.count, texts)))
        try:
            got = await self._ask(texts)
        except ProviderError as error:
            raise add_spent(error, spent, sum(map(self.count, texts))) from error
        return Embedded(got.rows, got.tokens + spent)

    async def _ask(self, texts: list[str]) -> Embedded:
        vectors = await self._provider.embed(self._card, texts)
        tokens = sum(map(self.count, texts)) if vectors.tokens is None else vectors.tokens
        try:
            rows = check_rows(self.name, vectors.rows, count=len(texts), dimensions=self.dimensions)
        except ProviderMalformed as error:
            raise add_spent(error, tokens, 0) from error
        return Embedded(rows, tokens)

    def _batch(self, texts: Sequence[str]) -> Iterator[list[str]]:
        batch: list[str] = []
        batch_tokens = 0
        for text in texts:
            tokens = self.count(text)
            is_long = batch_tokens + tokens > self._most.tokens_max
            is_full = is_long or len(batch) == self._most.texts_max
            if batch and is_full:
                yield batch
                batch, batch_tokens = [], 0
            batch.append(text)
            batch_tokens += tokens
        if batch:
            yield batch


def get_spent(error: ProviderError, counted_tokens: int) -> int:
    """Find the token cost of a failed call: as reported, else counted if it was sent."""
    if error.remains.reported_usage is not None:
        return sum(error.remains.reported_usage)
    return counted_tokens if error.remains.was_sent else 0


def add_spent(error: ProviderError, spent: int, counted_tokens: int) -> ProviderError:
    """Add the tokens spent before an error to it; if there are none, leave it unchanged."""
    if spent:
        usage = (spent + get_spent(error, counted_tokens), 0)
        error.remains = replace(error.remains, was_sent=True, reported_usage=usage)
    return error


BUILT_IN = ("builtin/static", "builtin/minilm")


class Embedders:
    """The embedders of one process, by name."""

    def __init__(self) -> None:
        self._opened: dict[str, Embedder] = {}

    def load(self, name: str, catalog: Catalog) -> Embedder:
        """Load an embedder by name; raise if it is unknown or its key is not set."""
        if name not in self._opened:
            self._opened[name] = open_embedder(name, catalog)
        return self._opened[name]


def check_embedder(name: str, catalog: Catalog) -> None:
    """Reject a name that is not an embedder's; its key is checked when it is opened."""
    if name in BUILT_IN:
        return
    if "/" not in name or name.startswith("builtin/"):
        raise ConfigurationError(
            f"The setting `embedder` is {name!r}, which is not an embedder. Built in are "
            f"{' and '.join(BUILT_IN)}; others are written as `ENDPOINT/MODEL`.",
            reason="not_an_embedder",
            subject=name,
        )
    catalog.check_embedding(name)


def open_embedder(name: str, catalog: Catalog) -> Embedder:
    """Open the embedder of a name: a built-in one, or a model of an endpoint."""
    check_embedder(name, catalog)
    if name == "builtin/static":
        from dialectic.retrieval.built_in import StaticEmbedder

        return StaticEmbedder()
    if name == "builtin/minilm":
        from dialectic.retrieval.built_in import MiniLMEmbedder

        return MiniLMEmbedder()
    return _open_remote(name, catalog)


def _open_remote(name: str, catalog: Catalog) -> Embedder:
    card = catalog.load_embedding(name)
    provider = catalog.find_remote(card.provider)

    from dialectic.providers.openai import OpenAIProvider  # an HTTP client: 0.1 s

    if not isinstance(provider, OpenAIProvider):
        raise ConfigurationError(
            f"The setting `embedder` is {name!r}, but {card.provider} is not OpenAI-"
            'compatible. Name a model of an endpoint whose kind is "openai", or a built-in one.',
            reason="other_kind",
            subject=name,
        )
    return RemoteEmbedder(card, provider)
