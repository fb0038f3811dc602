"""The seam between the engine and those who answer: one method. Knows no database and no money."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from dialectic.core.models.endpoint import Endpoint
from dialectic.core.models.messages import Reply, Request
from dialectic.core.models.model import ModelCard

OnText = Callable[[str], None]
"""Called with each piece of text as it arrives; must not block."""


@dataclass(frozen=True, slots=True)
class ListedModel:
    """A model as its provider lists it; what it does not say is None."""

    name: str
    context_window_tokens: int | None = None
    max_output_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Vectors:
    """What came for some texts, in their order: numbers nobody has looked at yet."""

    rows: list[Any]
    # The tokens that were read, if it was said.
    tokens: int | None


class VectorProvider(Protocol):
    """Makes vectors of texts, in one attempt. Raises what a `Provider` raises."""

    async def embed(self, card: ModelCard, texts: Sequence[str]) -> Vectors: ...


class Provider(Protocol):
    """Answers one request with one attempt: no hidden retries, so one hold pays for one call.

    Raises a leaf of `ProviderError`, or `ContextWindowError` if the provider says that the request
    is too long. A cancelled call closes its connection.
    """

    async def complete(self, card: ModelCard, request: Request, on_text: OnText) -> Reply: ...


class RemoteProvider(Provider, Protocol):
    """A provider behind an endpoint."""

    endpoint: Endpoint

    async def count_tokens(self, card: ModelCard, request: Request) -> int | None:
        """Ask the provider for its own count of a request; None if it has none to give."""

    async def list_models(self) -> list[ListedModel]:
        """Ask which models there are."""

    async def close(self) -> None:
        """Close the connections that are kept open."""
