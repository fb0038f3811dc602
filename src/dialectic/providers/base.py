"""The seam between the engine and those who answer: one method. Knows no database and no money."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from dialectic.domain.message import Reply, Request
from dialectic.domain.model import ModelCard

OnText = Callable[[str], None]
"""Called with each piece of text as it arrives; must not block."""


class Provider(Protocol):
    """Answers one request with one attempt: no hidden retries, so one hold pays for one call.

    Raises a leaf of `ProviderError`. A cancelled call closes its connection.
    """

    async def complete(self, card: ModelCard, request: Request, on_text: OnText) -> Reply: ...
