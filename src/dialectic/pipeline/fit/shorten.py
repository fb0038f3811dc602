"""Shorten one text for one task; the result is stored and reused.

An extract keeps passages of the text (`retrieval.extract`); a model writes an abstract. The storage
key contains everything that the result depends on, so retries, later turns and sibling models reuse
it. `compress` decides which text to shorten, and how far.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from dialectic.core.documents.file_paths import ShorteningRecord, build_path
from dialectic.core.documents.prompts import Entry, build_block, render_template
from dialectic.core.models.messages import FinishReason, Message, Request, Role
from dialectic.core.models.model import ModelCard
from dialectic.core.money.price import Rates, decide_hold, is_play
from dialectic.core.slug import short_id
from dialectic.db.pool import Connection
from dialectic.db.tables import compressions
from dialectic.db.tables.compressions import Compressed, CompressionKey, Paid, hash_text
from dialectic.db.tables.files import insert_files
from dialectic.errors import ContextWindowError
from dialectic.ledger.holds import Purpose
from dialectic.pipeline.assemble import Kind, Part, PartKey, compute_input_max, fit
from dialectic.pipeline.call import Answer, call
from dialectic.pipeline.fit.compress import Shortened
from dialectic.pipeline.fit.embed import Library, score_likeness
from dialectic.pipeline.fit.turn import Turn, claim_or_find, judge, save_paid
from dialectic.pipeline.reserve import Cost, judge_reply, release
from dialectic.processes.loader import load_shared_prompts
from dialectic.publishing.publish import publish_waiting
from dialectic.retrieval.extract import extract
from dialectic.tokens.counting import (
    bound_tokens,
    count_request_tokens,
    get_batch_counter,
    get_counter,
    limit_tokens,
)

# The methods, with a version: raise it on a change, so that old results are not reused.
EXTRACT, ABSTRACT = "extract/2", "abstract/1"
GAP = "\n[…]\n"

TEMPLATE_NAME = "abstract"
# The prompt gives the length in words; models follow it only roughly.
WORDS_PER_TOKEN = 0.6
# The budget for reasoning tokens.
THINKING_TOKENS = 4_000
SLACK_TOKENS = 16


@dataclass
class Extractor:
    """Keeps passages of a text, chosen by its vectors and its words."""

    turn: Turn
    library: Library
    purpose: str
    spent_credits: int = 0

    @property
    def name(self) -> str:
        return f"{EXTRACT} {self.turn.engine.embedder.name}"

    # -- before anything is shortened ------------------------------------------------------------

    async def judge(self, parts: Sequence[Part], before_tokens: int, tokens: int) -> None:
        """Raise if shortening and the call exceed the spending limit."""
        counted = bound_tokens(tokens, self.turn.card.tokenizer)
        cost = await self.estimate(parts, tokens)
        await judge(self.turn, cost, before_tokens=before_tokens, counted_tokens=counted)

    async def estimate(self, parts: Sequence[Part], tokens: int) -> Cost:  # noqa: ARG002
        return Cost(await self._estimate_vectors(parts))

    async def _estimate_vectors(self, parts: Sequence[Part]) -> int:
        texts = [part.text for part in parts]
        return await self.library.estimate([*texts, self.purpose]) if texts else 0

    async def weigh(self, parts: Sequence[Part]) -> Mapping[PartKey, float]:
        """Score the relevance of each text to the task."""
        aim = await self.library.load(self.purpose)
        self.spent_credits += aim.cost_credits
        values = dict[PartKey, float]()
        for part in parts:
            vectors = await self.library.load(part.text)
            values[part.key] = score_likeness(vectors.rows, aim.rows)
            self.spent_credits += vectors.cost_credits
        return values

    # -- shorter texts ---------------------------------------------------------------------------

    async def shorten(self, part: Part, budget_tokens: int) -> Shortened:
        """Find the shortened version of a text, or make it."""
        key = CompressionKey(
            content_hash=hash_text(part.text),
            purpose_hash=hash_text(self.purpose),
            compressor=self.name,
            tokenizer=self.turn.card.tokenizer,
            budget_tokens=budget_tokens,
        )
        async with self.turn.engine.turns.lock((self.turn.job.tenant_id, key)):
            found = await self._find(key)
            made, cost = (found, 0) if found is not None else await self._make(part, key)
        self.spent_credits += cost
        entry = Entry(
            kind=part.kind,
            label=part.label,
            source_id=part.source_id,
            tokens_before=made.tokens_before,
            tokens_after=made.tokens_after,
            compressor=self.name,
            budget_tokens=budget_tokens,
            cost_credits=cost,
            is_reused=found is not None,
        )
        return Shortened(made.text, entry)

    async def _find(self, key: CompressionKey) -> Compressed | None:
        tenant_id = self.turn.job.tenant_id
        return await self.turn.transact(lambda c: compressions.find_compression(c, tenant_id, key))

    async def _make(self, part: Part, key: CompressionKey) -> tuple[Compressed, int]:
        """Make and save a shorter text; return it with its cost."""
        made, cost = await self._cut(part.text, key.budget_tokens, self.turn.card.tokenizer)
        await self.turn.transact(
            lambda c: compressions.save_compression(c, self.turn.job, key, made, Paid(cost))
        )
        return made, cost

    async def _cut(self, text: str, budget_tokens: int, tokenizer: str) -> tuple[Compressed, int]:
        """Make an extract; return it with the cost of its new vectors."""
        vectors, aim = await self.library.load(text), await self.library.load(self.purpose)
        count = get_counter(tokenizer)

        def work() -> Compressed:
            made = extract(
                text,
                vectors.pieces,
                vectors.rows,
                aim.rows,
                budget_tokens,
                count,
                count_each=get_batch_counter(tokenizer),
            )
            short = clip(text, budget_tokens, count) if made is None else made.text
            return Compressed(short, count(text), count(short))

        return await asyncio.to_thread(work), vectors.cost_credits + aim.cost_credits


@dataclass(kw_only=True)
class Abstractor(Extractor):
    """Asks one model for abstracts, each paid like any call; falls back to extracts."""

    writer: ModelCard
    # The process's prompt for abstracts.
    template: str

    @property
    def name(self) -> str:
        method = f"{ABSTRACT} {self.writer.name}"
        if self.template == load_shared_prompts()[TEMPLATE_NAME]:
            return method
        # Abstracts by a process's own prompt are other texts.
        return f"{method} {hash_text(self.template)[:8]}"

    async def estimate(self, parts: Sequence[Part], tokens: int) -> Cost:
        # Vectors only score relevance: not needed for a single text, nor for turns (scored by age).
        weighed = [part for part in parts if len(parts) > 1 and part.kind is not Kind.TURN]
        reading = await self._estimate_vectors(weighed)
        writing = await self._estimate_writing([part.text for part in parts], tokens)
        return Cost(reading, writing) if is_play(self.writer) else Cost(reading + writing)

    async def _estimate_writing(self, texts: Sequence[str], tokens: int) -> int:
        """Estimate the cost of the abstracts that do not exist yet, at any length."""
        by_hash = {hash_text(text): text for text in texts}
        known = await self.turn.transact(
            lambda c: compressions.list_known_compressions(
                c,
                by_hash,
                purpose_hash=hash_text(self.purpose),
                compressor=self.name,
                tokenizer=self.turn.card.tokenizer,
            )
        )
        new = [text for name, text in by_hash.items() if name not in known]
        if not new:
            return 0
        count = get_counter(self.writer.tokenizer)

        def work() -> int:
            read = sum(map(count, new)) + len(new) * (count(self.purpose) + count(self.template))
            thinking = THINKING_TOKENS * len(new) if self.writer.is_reasoning else 0
            return decide_hold(read, tokens + thinking, Rates.of(self.writer))

        return await asyncio.to_thread(work)

    async def _make(self, part: Part, key: CompressionKey) -> tuple[Compressed, int]:
        text, spent = part.text, 0
        room = await self._measure_room(part.label, key.budget_tokens)
        if room < key.budget_tokens:  # the writer could read less than it should write
            return await super()._make(part, key)
        if await asyncio.to_thread(get_counter(self.writer.tokenizer), text) > room:
            # The whole text does not fit the writer either: extract from it first.
            shorter, spent = await self._cut(text, room, self.writer.tokenizer)
            text = shorter.text
        try:
            spent += await self._write(part, text, key)
        except ContextWindowError:
            # The writer rejected the prompt as too long: release its reservation.
            await self.turn.transact(lambda c: release(c, self.turn.job))
        if (found := await self._find(key)) is not None:
            return found, spent
        made, cost = await super()._make(part, key)
        return made, cost + spent

    async def _measure_room(self, label: str, budget_tokens: int) -> int:
        """Measure the longest text that the writer can read, with room for its answer."""
        request = self._build_request(label, "", budget_tokens)
        framed = await asyncio.to_thread(count_request_tokens, request, self.writer)
        most = compute_input_max(self.writer, request.max_output_tokens)
        return limit_tokens(most, self.writer.tokenizer) - framed.tokens - SLACK_TOKENS

    async def _write(self, part: Part, text: str, key: CompressionKey) -> int:
        """Let the writer write an abstract, save it if it is usable, and return its cost.

        Raises `TextBusy` if another job is making it.
        """
        turn, count = self.turn, get_counter(self.turn.card.tokenizer)
        job = turn.job
        made_elsewhere = await claim_or_find(
            turn, lambda c: compressions.claim_compression(c, job, key), lambda: self._find(key)
        )
        if made_elsewhere is not None:
            return 0
        request = self._build_request(part.label, text, key.budget_tokens)
        request = await asyncio.to_thread(fit, request, self.writer, gives_way=True)
        what = f"abstract:{key.derive_id(job.tenant_id)}"
        payment = turn.build_payment(Purpose.COMPRESSION, what)
        held, answer = await call(turn.engine, job, self.writer, request, payment)
        short = trim(answer, key.budget_tokens, count)
        made = Compressed(short, count(part.text), count(short))

        row_id = key.derive_id(job.tenant_id)
        record = answer.build_record(
            build_path(ShorteningRecord(turn.material.folder, short_id(row_id)))
        )

        async def save(connection: Connection, paid: Paid) -> UUID | None:
            if not short:
                return None
            saved = await compressions.save_compression(connection, job, key, made, paid)
            if saved is not None:
                await insert_files(connection, job.tenant_id, turn.context.project_id, [record])
            return saved

        actual = judge_reply(self.writer, held, answer.reply)
        cost = await save_paid(turn, held.key, actual, save, answer.reply.request_id)
        await publish_waiting(turn.engine, job.tenant_id, [record.path])
        return cost

    def _build_request(self, label: str, text: str, budget_tokens: int) -> Request:
        values = {
            "purpose": build_block("Task", self.purpose),
            "text": build_block(label, text),
            "words": max(1, int(budget_tokens * WORDS_PER_TOKEN)),
        }
        prompt = render_template(TEMPLATE_NAME, self.template, values)
        thinking = THINKING_TOKENS if self.writer.is_reasoning else 0
        cap = min(self.writer.max_output_tokens, budget_tokens + thinking)
        return Request(self.writer.name, "", (Message(Role.USER, prompt),), cap)


# -- pure -----------------------------------------------------------------------------------------


def trim(answer: Answer, budget_tokens: int, count: Callable[[str], int]) -> str:
    """Get the abstract from an answer, cut at a line or sentence end; "" if it is unusable."""
    if answer.reply.finish_reason not in (FinishReason.STOP, FinishReason.LENGTH):
        return ""
    text = answer.reply.text.strip()
    while text and count(text) > budget_tokens:
        ends = [text.rfind(mark, 0, len(text) - 1) + 1 for mark in ("\n", ". ", "! ", "? ")]
        text = text[: max(ends)].rstrip()
    return text


def clip(text: str, budget_tokens: int, count: Callable[[str], int]) -> str:
    """Keep the beginning and the end of a text that has no passages to choose from. Pure."""
    low, high = 0, len(text) // 2
    while low < high:
        middle = (low + high + 1) // 2
        if count(_keep_ends(text, middle)) <= budget_tokens:
            low = middle
        else:
            high = middle - 1
    return _keep_ends(text, low)


def _keep_ends(text: str, chars: int) -> str:
    return f"{text[:chars]}{GAP}{text[len(text) - chars :]}" if chars else ""
