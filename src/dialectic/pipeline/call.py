"""Call the provider: with leave of its endpoint and with money held, one attempt, timed, its text
made fit to keep.

Leave comes first and the hold last, because its commit says that a byte may have left. Decides
nothing about the answer; an error leaves as the provider raised it.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from dialectic.core.models.endpoint import WireFormat
from dialectic.core.models.messages import FinishReason, Reply, Request
from dialectic.core.models.model import ModelCard
from dialectic.core.text import clean_part, clean_text
from dialectic.db.counters import CounterName
from dialectic.engine import Engine
from dialectic.errors import ContextWindowError, DialecticError, ProviderError
from dialectic.limits import admission
from dialectic.pipeline.reserve import Reservation
from dialectic.providers.base import OnText
from dialectic.providers.finish_reasons import is_known
from dialectic.telemetry import Span, Value
from dialectic.tokens.counting import count_request_tokens

H = TypeVar("H")
T = TypeVar("T")
# The names that the conventions give to those who speak each wire.
MAKERS = {
    WireFormat.OPENAI: "openai",
    WireFormat.ANTHROPIC: "anthropic",
    WireFormat.GOOGLE: "gcp.gemini",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply with what it answers and what it took to get it."""

    request: Request
    reply: Reply
    elapsed_ms: int
    # What was wrong with the text and was put right.
    notes: tuple[str, ...] = ()


async def call(
    engine: Engine,
    caller: admission.Caller,
    card: ModelCard,
    request: Request,
    hold: Callable[[], Awaitable[Reservation]],
    on_text: OnText = lambda _piece: None,
) -> tuple[Reservation, Answer]:
    """Send a request once, as it is held for, and wait for the whole answer.

    Raises `EndpointBusy`, before anything is held or sent, when the endpoint takes no call yet.
    """
    held, reply, elapsed_ms = await attempt(
        engine,
        caller,
        card,
        hold=hold,
        ask=lambda held: _complete(engine, caller, card, held.request, on_text),
        count=lambda: count_request_tokens(request, card).upper_tokens + request.max_output_tokens,
        tell=lambda reply: admission.build_report(reply.usage),
    )
    return held, build_answer(held.request, reply, elapsed_ms=elapsed_ms)


async def attempt(
    engine: Engine,
    caller: admission.Caller,
    card: ModelCard,
    *,
    hold: Callable[[], Awaitable[H]],
    ask: Callable[[H], Awaitable[T]],
    count: Callable[[], int],
    tell: Callable[[T], admission.Report],
) -> tuple[H, T, int]:
    """Ask a model once for whatever it gives, with leave and with money held for it.

    `count` says how many tokens it may take, `tell` what to report of what came. Returns what was
    held, what came, and its milliseconds.
    """
    permit = await _ask_for_leave(engine, caller, card, count)
    engine.failpoints.reach("before_send")
    try:
        held = await hold()
    except DialecticError:
        await _report(engine, permit, admission.UNUSED)
        raise
    # From here on it may cost money, whatever comes back.
    started = time.monotonic()
    try:
        got = await ask(held)
    except (ProviderError, ContextWindowError) as error:
        await _report(engine, permit, admission.build_failure(error))
        raise
    elapsed_ms = round((time.monotonic() - started) * 1000)
    engine.failpoints.reach("after_reply")
    await _report(engine, permit, tell(got))
    return held, got, elapsed_ms


async def _complete(
    engine: Engine, caller: admission.Caller, card: ModelCard, request: Request, on_text: OnText
) -> Reply:
    """Send a request, seen by whoever watches; what it says stays unseen."""
    provider = engine.catalog.load_provider(card)
    description = _describe_call(engine, caller, card, request)
    with engine.telemetry.span(f"chat {card.name}", description, kind="CLIENT") as span:
        reply = await provider.complete(card, request, on_text)
        _describe_reply(span, reply)
    if reply.finish_reason is FinishReason.ERROR and not is_known(reply.raw_finish_reason):
        # The vendor has a new word, and nobody's answers are finished until it is learnt.
        engine.counters.count(CounterName.FINISH_REASON_UNKNOWN)
    return reply


def _describe_call(
    engine: Engine, caller: admission.Caller, card: ModelCard, request: Request
) -> dict[str, Value]:
    """Name a call as OpenTelemetry's conventions for generative models do; no text."""
    endpoint = engine.catalog.find_endpoint(card)
    maker = card.name.partition("/")[0]
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": MAKERS.get(endpoint.kind, maker) if endpoint else maker,
        "gen_ai.request.model": card.name.partition("/")[2],
        "gen_ai.request.max_tokens": request.max_output_tokens,
        "dialectic.tenant_id": str(caller.tenant_id),
        "dialectic.caller_id": str(caller.id),
        "dialectic.attempt": caller.attempt,
    }


def _describe_reply(span: Span, reply: Reply) -> None:
    span.note(
        {
            "gen_ai.response.finish_reasons": [reply.finish_reason.value],
            "gen_ai.usage.input_tokens": reply.usage.input_tokens,
            "gen_ai.usage.output_tokens": reply.usage.output_tokens,
            "dialectic.usage_source": reply.usage.source.value,
        }
    )


async def _ask_for_leave(
    engine: Engine, caller: admission.Caller, card: ModelCard, count: Callable[[], int]
) -> admission.Permit | None:
    """Ask for leave to call; a model without an endpoint needs none."""
    endpoint = engine.catalog.find_endpoint(card)
    if endpoint is None:
        return None
    tokens = 0 if endpoint.tokens_per_minute is None else count()
    return await admission.admit(engine.db, engine.calm, endpoint, caller, tokens=tokens)


async def _report(engine: Engine, permit: admission.Permit | None, told: admission.Report) -> None:
    if permit is not None:
        await admission.report(engine.db, engine.calm, permit, told)


def build_answer(request: Request, reply: Reply, *, elapsed_ms: int) -> Answer:
    """Build an answer that can be stored and shown; the provider's own record stays as it came."""
    text, notes = clean_part(reply.text)
    clean = replace(
        reply,
        text=text,
        raw_finish_reason=_clean(reply.raw_finish_reason),
        request_id=_clean(reply.request_id),
    )
    return Answer(request, clean, elapsed_ms, tuple(notes))


def _clean(word: str | None) -> str | None:
    return None if word is None else clean_text(word)[0]
