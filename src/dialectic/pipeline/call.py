"""Call a provider once, with a rate-limit permit and a reservation, and clean the answer's text.

Get the permit first and reserve money last: that commit records that a request may have been sent.
This module does not interpret the answer and does not convert the provider's errors.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from dialectic.core.job import Job
from dialectic.core.models.call_record import MIME_TYPE, Refusal, build_call_record
from dialectic.core.models.endpoint import Endpoint, WireFormat
from dialectic.core.models.messages import FinishReason, Reply, Request
from dialectic.core.models.model import ModelCard
from dialectic.core.money.price import LIMITED_BY_FUNDS
from dialectic.core.text import clean_part, clean_text
from dialectic.db.statistics import CounterName
from dialectic.db.tables.files import File
from dialectic.engine import Engine
from dialectic.errors import ContextWindowError, DialecticError, ProviderError
from dialectic.ledger.holds import Purpose
from dialectic.limits import admission
from dialectic.live_calls import LiveCall, Phase
from dialectic.pipeline.own_models import Route, open_route
from dialectic.pipeline.reserve import DirectCaller, Payment, Reservation, reserve
from dialectic.providers.base import OnText
from dialectic.providers.finish_reasons import is_known
from dialectic.retrieval.embedders import Embedded, Embedder
from dialectic.telemetry import Span, Value
from dialectic.tokens.counting import count_request_tokens

H = TypeVar("H")
T = TypeVar("T")
# OpenTelemetry's provider name for each wire format.
MAKERS = {
    WireFormat.OPENAI: "openai",
    WireFormat.ANTHROPIC: "anthropic",
    WireFormat.GOOGLE: "gcp.gemini",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply with its request and the time it took."""

    request: Request
    # With clean text, and as the adapter returned it.
    reply: Reply
    received: Reply
    elapsed_ms: int
    # What was cleaned out of the text.
    notes: tuple[str, ...] = ()
    # The longer versions of this prompt that the provider rejected, in order.
    refused: tuple[Refusal, ...] = ()
    # The longest possible answer, if the available money allowed only a shorter one.
    limited_from: int | None = None

    @property
    def flags(self) -> tuple[str, ...]:
        """What a reader of the text should know about the call."""
        limit = self.request.max_output_tokens
        limited = [] if self.limited_from is None else [f"{LIMITED_BY_FUNDS}:{limit}"]
        return (*limited, *(f"cleaned: {note}" for note in self.notes))

    def build_record(self, path: str) -> File:
        """Build the file that rebuilds this call."""
        return File(path, build_call_record(self.request, self.received, self.refused), MIME_TYPE)


async def call(
    engine: Engine,
    caller: Job | DirectCaller,
    card: ModelCard,
    request: Request,
    payment: Payment,
    on_text: OnText = lambda _piece: None,
) -> tuple[Reservation, Answer]:
    """Reserve money, send a request once and wait for the whole answer.

    A chat gets the text as it arrives (`on_text`); the text of a job's call is in `live_calls`.

    Raises `EndpointBusy`, before any reservation, when the endpoint accepts no calls yet.
    """
    live = _find_live(engine, caller, card, payment)

    async def ask(held: Reservation) -> Reply:
        if live is None:
            return await _complete(engine, caller, card, route, held.request, on_text)
        return await _complete_live(engine, caller, card, route, held, live)

    async with open_route(engine, caller.tenant_id, card) as route:
        held, reply, elapsed_ms = await _attempt(
            engine,
            caller,
            route.endpoint,
            hold=lambda: _reserve_live(engine, caller, card, request, payment, live),
            ask=ask,
            count=lambda: (
                count_request_tokens(request, card).upper_tokens + request.max_output_tokens
            ),
            tell=lambda reply: admission.build_report(reply.usage),
        )
    answer = build_answer(held.request, reply, elapsed_ms=elapsed_ms)
    return held, replace(answer, limited_from=held.limited_from)


async def call_embedder(
    engine: Engine,
    caller: admission.Caller,
    embedder: Embedder,
    texts: Sequence[str],
    *,
    counted_tokens: int,
    hold: Callable[[], Awaitable[None]],
) -> Embedded:
    """Reserve money and embed texts once."""
    card = embedder.card
    assert card is not None, "only a paid embedder has an endpoint"
    _, got, _ = await _attempt(
        engine,
        caller,
        engine.catalog.find_endpoint(card),
        hold=hold,
        ask=lambda _: embedder.embed(texts),
        count=lambda: counted_tokens,
        tell=lambda got: admission.Report(admission.Outcome.ANSWERED, got.tokens),
    )
    return got


async def _attempt(
    engine: Engine,
    caller: admission.Caller,
    endpoint: Endpoint | None,
    *,
    hold: Callable[[], Awaitable[H]],
    ask: Callable[[H], Awaitable[T]],
    count: Callable[[], int],
    tell: Callable[[T], admission.Report],
) -> tuple[H, T, int]:
    """Get a permit, reserve money and call a model once, for an answer or for vectors.

    `count` returns the most tokens the call may use; `tell` builds the usage report from the
    result. Returns the reservation, the result and the elapsed milliseconds.
    """
    permit = await _acquire_permit(engine, caller, endpoint, count)
    engine.failpoints.reach("before_send")
    try:
        held = await hold()
    except DialecticError:
        await _report(engine, permit, admission.UNUSED)
        raise
    # From here on the call may cost money, even if it fails.
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


def describe_call(job: Job, card: ModelCard, *, turn: int, is_document: bool = True) -> LiveCall:
    """Describe the call of a job, for people who watch."""
    return LiveCall(
        tenant_id=job.tenant_id,
        session_id=job.session_id,
        job_id=job.id,
        attempt=job.attempt,
        stage_slug=job.stage_slug,
        output_type=job.payload_json.get("output_type", ""),
        model_name=card.name,
        seat=job.payload_json.get("model_index", 0),
        turn=turn,
        is_document=is_document,
    )


def _find_live(
    engine: Engine, caller: Job | DirectCaller, card: ModelCard, payment: Payment
) -> LiveCall | None:
    """Find the listed call of a job's turn, or describe a call for a text that it needs first."""
    if not isinstance(caller, Job):
        return None
    listed = engine.live_calls.find_document(caller.id, caller.attempt)
    if payment.purpose in (Purpose.CALL, Purpose.LOOK) and listed is not None:
        listed.phase = Phase.WAITING_FOR_ENDPOINT
        return listed
    return describe_call(caller, card, turn=0, is_document=False)


async def _reserve_live(
    engine: Engine,
    caller: Job | DirectCaller,
    card: ModelCard,
    request: Request,
    payment: Payment,
    live: LiveCall | None,
) -> Reservation:
    if live is not None:
        live.phase = Phase.WAITING_FOR_MONEY
    return await reserve(engine, caller, card, request, payment)


async def _complete_live(
    engine: Engine,
    caller: Job | DirectCaller,
    card: ModelCard,
    route: Route,
    held: Reservation,
    live: LiveCall,
) -> Reply:
    """Send a request of a job, which is listed while it is in flight, with the text so far."""
    live.send(held.counted_input_tokens)
    is_listed = live.is_document
    with contextlib.nullcontext() if is_listed else engine.live_calls.track(live):
        reply = await _complete(engine, caller, card, route, held.request, live.add)
    live.phase = Phase.SAVING
    return reply


async def _complete(
    engine: Engine,
    caller: admission.Caller,
    card: ModelCard,
    route: Route,
    request: Request,
    on_text: OnText,
) -> Reply:
    """Send a request inside a telemetry span that holds no text."""
    description = _describe_call(route.endpoint, caller, card, request)
    with engine.telemetry.span(f"chat {card.name}", description, kind="CLIENT") as span:
        reply = await route.provider.complete(card, request, on_text)
        _describe_reply(span, reply)
    if reply.finish_reason is FinishReason.ERROR and not is_known(reply.raw_finish_reason):
        # The vendor added a finish reason. Its answers count as failed until we map it.
        engine.counters.count(CounterName.FINISH_REASON_UNKNOWN)
    return reply


def _describe_call(
    endpoint: Endpoint | None, caller: admission.Caller, card: ModelCard, request: Request
) -> dict[str, Value]:
    """Describe a call with OpenTelemetry's attributes for generative AI, without any text."""
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


async def _acquire_permit(
    engine: Engine, caller: admission.Caller, endpoint: Endpoint | None, count: Callable[[], int]
) -> admission.Permit | None:
    """Get a permit to call; a model without an endpoint needs none."""
    if endpoint is None:
        return None
    tokens = 0 if endpoint.tokens_per_minute is None else count()
    return await admission.admit(engine.db, engine.calm, endpoint, caller, tokens=tokens)


async def _report(
    engine: Engine, permit: admission.Permit | None, report: admission.Report
) -> None:
    if permit is not None:
        await admission.report(engine.db, engine.calm, permit, report)


def build_answer(request: Request, reply: Reply, *, elapsed_ms: int) -> Answer:
    """Build an answer with clean text, which keeps the reply as it came."""
    text, notes = clean_part(reply.text)
    clean = replace(
        reply,
        text=text,
        raw_finish_reason=_clean(reply.raw_finish_reason),
        request_id=_clean(reply.request_id),
    )
    return Answer(request, clean, reply, elapsed_ms, tuple(notes))


def _clean(word: str | None) -> str | None:
    return None if word is None else clean_text(word)[0]
