"""Call the provider: one attempt, timed, its text made fit to keep. Knows no database; decides
nothing about the answer."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from dialectic.domain.message import Reply, Request
from dialectic.domain.model import ModelCard
from dialectic.domain.text import clean_text
from dialectic.engine import Engine


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply with what it took to get it."""

    reply: Reply
    elapsed_ms: int
    # What was wrong with the text and was put right.
    notes: tuple[str, ...] = ()


async def call(engine: Engine, card: ModelCard, request: Request) -> Answer:
    """Send the request once and wait for the whole answer."""
    provider = engine.catalog.load_provider(card)
    engine.failpoints.reach("before_send")
    started = time.monotonic()
    reply = await provider.complete(card, request, lambda _piece: None)
    engine.failpoints.reach("after_reply")
    return build_answer(reply, elapsed_ms=round((time.monotonic() - started) * 1000))


def build_answer(reply: Reply, *, elapsed_ms: int) -> Answer:
    """Build an answer that can be stored and shown; the provider's own record stays as it came."""
    text, notes = clean_text(reply.text)
    clean = replace(
        reply,
        text=text,
        raw_finish_reason=_clean(reply.raw_finish_reason),
        request_id=_clean(reply.request_id),
    )
    return Answer(clean, elapsed_ms, tuple(notes))


def _clean(word: str | None) -> str | None:
    return None if word is None else clean_text(word)[0]
