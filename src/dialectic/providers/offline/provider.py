"""The offline provider: limits, truncation, continuations and records like a real vendor's.

Knows nothing of the content; that is `composer`. The same model and request give the same bytes in
any process: nothing here or below reads a clock, a hash() or the order of a set.
"""

from __future__ import annotations

import asyncio
import bisect
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from random import Random

from dialectic.core.models.messages import (
    FinishReason,
    Message,
    Reply,
    Request,
    Role,
    Usage,
    UsageSource,
)
from dialectic.core.models.model import ModelCard
from dialectic.errors import ContextWindowError, ProviderRejected
from dialectic.providers.base import OnText
from dialectic.providers.offline.composer import VOICES, compose, split_sections
from dialectic.tokens.counting import count_request_tokens, get_counter

LatencyS = Callable[[Request], float]

# Example prices: low enough for a small wallet, above zero so that quotes and ledgers show figures.
CARDS: tuple[ModelCard, ...] = tuple(
    ModelCard(
        name=f"offline/{voice}",
        context_window_tokens=128_000,
        max_input_tokens=120_000,
        max_output_tokens=8_000,
        input_credits_per_token=Decimal("0.1"),
        output_credits_per_token=Decimal("0.4"),
        tokenizer="chars:4",
    )
    for voice in VOICES
)

_CONTINUE = re.compile(
    r"\A\W*(?:please\s+|now\s+)?(?:continue|carry on|go on|keep going|resume|proceed)\b"
    r"|(?:[.!:,;]|\bplease)\s+(?:continue|resume|carry on|go on)\b"
    r"[^.!?]{0,120}\b(?:where|exactly|stopped|cut|left off)\b",
    re.IGNORECASE,
)
_INSTRUCTION_CHARS_MAX = 2_000
_TAIL_CHARS = (200, 80, 30, 12)
_CLOSING = "\n\nNothing is left to add: the document above is complete.\n"
_PIECE = re.compile(r".+?(?:\n\n|\Z)", re.DOTALL)
# Some words, or the rest of a line.
_LINE = re.compile(r"(?:\S+[ \t]*){1,12}\s*|\s+")


class OfflineProvider:
    """A `Provider` that composes its answers from the request alone."""

    def __init__(
        self,
        cards: Mapping[str, ModelCard] | None = None,
        *,
        seed: int = 0,
        latency_s: LatencyS | None = None,
        words_per_s: float = 0.0,
    ) -> None:
        self._cards = {card.name: card for card in CARDS} if cards is None else dict(cards)
        self._seed = seed
        self._latency_s = latency_s
        # How fast the answers arrive, for people who watch; 0: at once.
        self._words_per_s = words_per_s

    async def complete(self, card: ModelCard, request: Request, on_text: OnText) -> Reply:
        if card.name not in self._cards:
            known = ", ".join(sorted(self._cards))
            raise ProviderRejected(
                f"Offline model {card.name!r} was not found. Known models: {known}.",
                reason="no_model",
                subject=card.name,
            )
        input_tokens = _checked_input_tokens(card, request)
        if self._latency_s is not None:
            await asyncio.sleep(self._latency_s(request))
        task, written = read_conversation(request.messages)
        # Runs in a thread: reading a long prompt takes a while and would block heartbeats.
        document = await asyncio.to_thread(
            compose_document,
            card.name,
            request.system,
            task,
            seed=str(self._seed),
            variant=str(request.variant),
        )
        rest = _after(document, written) if written else document
        text = _cut(rest, min(request.max_output_tokens, card.max_output_tokens), card.tokenizer)
        await self._write(text, on_text)
        finish = FinishReason.STOP if len(text) == len(rest) else FinishReason.LENGTH
        return _reply(card, request, text, finish, input_tokens)

    async def _write(self, text: str, on_text: OnText) -> None:
        if not self._words_per_s:
            for piece in _PIECE.findall(text):
                on_text(piece)
            return
        for piece in _LINE.findall(text):
            await asyncio.sleep(len(piece.split()) / self._words_per_s)
            on_text(piece)


def seeded_latency(median_s: float, *, spread: float = 0.5, seed: int = 0) -> LatencyS:
    """Build a log-normal delay that depends on the request alone, so that runs are repeatable."""

    def latency_s(request: Request) -> float:
        return median_s * Random(_digest(str(seed), *_said(request))).lognormvariate(0.0, spread)

    return latency_s


def _checked_input_tokens(card: ModelCard, request: Request) -> int:
    tokens = count_request_tokens(request, card).tokens
    if tokens > card.max_input_tokens:
        raise ContextWindowError(
            f"The maximum input of {card.name} is {card.max_input_tokens} tokens; "
            f"this request has {tokens} tokens. Send a shorter one.",
            had_tokens=tokens,
            max_tokens=card.max_input_tokens,
        )
    return tokens


def read_conversation(messages: Sequence[Message]) -> tuple[str, str]:
    """Read the task, and the part of the answer that earlier turns contain."""
    task_index = _locate_task(messages)
    written = "".join(
        message.content for message in messages[task_index:] if message.role is Role.ASSISTANT
    )
    earlier = [m.content for m in messages[:task_index] if m.role is Role.USER]
    # In a conversation the newest question leads; the older ones give the context.
    return "\n\n".join([messages[task_index].content, *earlier[::-1]]), written


def compose_document(model: str, system: str, task: str, *, seed: str, variant: str) -> str:
    """Compose the whole document for a task; the same words give the same bytes."""
    return compose(model, system, task, Random(_digest(seed, variant, model, system, task)))


def _locate_task(messages: Sequence[Message]) -> int:
    """Find the user turn to answer: the last one that is not a request to continue."""
    for index in range(len(messages) - 1, 0, -1):
        message = messages[index]
        if message.role is Role.USER and not _is_call_to_continue(message.content):
            return index
    return 0


def _is_call_to_continue(text: str) -> bool:
    return len(text) <= _INSTRUCTION_CHARS_MAX and _CONTINUE.search(text) is not None


def _after(document: str, written: str) -> str:
    """Build the rest of a document, even if the earlier turns were shortened or edited."""
    end = len(written) if document.startswith(written) else find_tail(document, written)
    if end is not None:
        return document[end:] or _CLOSING
    unwritten = [
        section for section in split_sections(document) if section.partition("\n")[0] not in written
    ]
    return "\n\n" + "".join(unwritten) if unwritten else _CLOSING


def find_tail(document: str, written: str) -> int | None:
    """Find the place in a document that a shortened or edited beginning of it leads to."""
    for chars in _TAIL_CHARS:
        tail = written[-chars:]
        # Turns are only ever shortened: the true position is at or after the written length.
        start = document.find(tail, max(0, len(written) - len(tail)))
        start = start if start >= 0 else document.rfind(tail)
        if start >= 0:
            return start + len(tail)
    return None


def _cut(text: str, tokens_max: int, tokenizer: str) -> str:
    """Cut a text to its longest prefix within a number of tokens."""
    count = get_counter(tokenizer)
    chars = range(len(text) + 1)
    return text[: bisect.bisect_right(chars, tokens_max, key=lambda end: count(text[:end])) - 1]


def _reply(
    card: ModelCard, request: Request, text: str, finish: FinishReason, input_tokens: int
) -> Reply:
    output_tokens = get_counter(card.tokenizer)(text)
    request_id = f"offline-{_digest(card.name, *_said(request)):064x}"[:32]
    return Reply(
        text=text,
        finish_reason=finish,
        raw_finish_reason=finish.value,
        usage=Usage(input_tokens, output_tokens, UsageSource.REPORTED),
        request_id=request_id,
        raw={
            "id": request_id,
            "object": "chat.completion",
            "model": card.name,
            "choices": [{"index": 0, "finish_reason": finish.value}],
            "usage": {
                "prompt_tokens": input_tokens,
                "completion_tokens": output_tokens,
                "total_tokens": input_tokens + output_tokens,
            },
        },
    )


def _said(request: Request) -> list[str]:
    turns = [part for m in request.messages for part in (m.role.value, m.content)]
    return [request.system, str(request.max_output_tokens), str(request.variant), *turns]


def _digest(*parts: str) -> int:
    """Hash texts into a seed; accept the lone surrogates that a broken upload can contain."""
    state = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        state.update(len(data).to_bytes(8, "big"))
        state.update(data)
    return int.from_bytes(state.digest(), "big")
