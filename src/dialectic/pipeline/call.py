"""Call the provider: one attempt, timed. Knows no database; decides nothing about the answer."""

from __future__ import annotations

import time
from dataclasses import dataclass

from dialectic.domain.message import Reply, Request
from dialectic.domain.model import ModelCard
from dialectic.engine import Engine


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply with what it took to get it."""

    reply: Reply
    elapsed_ms: int


async def call(engine: Engine, card: ModelCard, request: Request) -> Answer:
    """Send the request once and wait for the whole answer."""
    provider = engine.catalog.load_provider(card)
    engine.failpoints.reach("before_send")
    started = time.monotonic()
    reply = await provider.complete(card, request, lambda _piece: None)
    engine.failpoints.reach("after_reply")
    return Answer(reply, round((time.monotonic() - started) * 1000))
