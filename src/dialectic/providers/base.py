"""The interface between the engine and the providers. Knows nothing of databases or money."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from dialectic.core.models.messages import Reply, Request
from dialectic.core.models.model import ModelCard

OnText = Callable[[str], None]
"""Called with each piece of text as it arrives; must not block."""


@dataclass(frozen=True, slots=True)
class ListedModel:
    """A model as its provider lists it; None for facts the provider omits."""

    name: str
    context_window_tokens: int | None = None
    max_output_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Vectors:
    """The vectors of some texts, in the order of the texts; the numbers are not validated yet."""

    rows: list[object]
    # Input tokens, if the provider reported them.
    tokens: int | None


class VectorProvider(Protocol):
    """Computes vectors of texts, in one attempt. Raises the same errors as a `Provider`."""

    async def embed(self, card: ModelCard, texts: Sequence[str]) -> Vectors: ...


class Provider(Protocol):
    """Answers one request in one attempt: no hidden retries, so one reservation pays for one call.

    Raises a leaf of `ProviderError`, or `ContextWindowError` if the provider rejects the request
    as too long. A cancelled call closes its connection.
    """

    async def complete(self, card: ModelCard, request: Request, on_text: OnText) -> Reply: ...
