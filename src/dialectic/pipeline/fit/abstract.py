"""Abstract: a text made shorter by a model that is asked for it, held and settled like any call.

The abstract is saved in the commit that pays for it. Knows nothing of why a text must be shorter.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from dialectic.core.documents.prompts import build_block, render_template
from dialectic.core.job import Job
from dialectic.core.models.messages import FinishReason, Message, Request, Role
from dialectic.core.models.model import ModelCard
from dialectic.core.money.price import Rates, decide_hold
from dialectic.db.pool import Connection
from dialectic.db.tables import compressions, jobs
from dialectic.db.tables.compressions import Compressed, CompressionKey, Paid
from dialectic.engine import Engine
from dialectic.errors import TextBusy
from dialectic.ledger import holds
from dialectic.ledger.holds import Purpose, derive_side_key
from dialectic.pipeline.assemble import compute_input_max, fit
from dialectic.pipeline.call import Answer, call
from dialectic.pipeline.fit.embed import BUSY_S
from dialectic.pipeline.fit.parts import Part
from dialectic.pipeline.reserve import Reservation, judge_reply, reserve
from dialectic.processes.loader import load_words
from dialectic.tokens.counting import count_request_tokens, get_counter, limit_tokens

# The way it is asked for; a change of it is another name.
VERSION = "abstract/1"
TEMPLATE_NAME = "abstract"
TEMPLATE = load_words(TEMPLATE_NAME)
# A writer is told a length in words, and keeps to it roughly.
WORDS_PER_TOKEN = 0.6
# What a model that thinks first may use for that.
THINKING_TOKENS = 4_000
SLACK_TOKENS = 16


@dataclass(frozen=True, slots=True)
class Abstractor:
    """Asks one model for abstracts, in the name of one job."""

    engine: Engine
    job: Job
    wallet_id: UUID
    writer: ModelCard

    @property
    def name(self) -> str:
        return f"{VERSION} {self.writer.name}"

    async def estimate(self, texts: Sequence[str], purpose: str, tokens: int) -> int:
        """Estimate what abstracts of these texts cost, that have so many tokens together."""
        count, rates = get_counter(self.writer.tokenizer), Rates.of(self.writer)

        def work() -> int:
            read = sum(map(count, texts)) + len(texts) * (count(purpose) + count(TEMPLATE))
            thinking = THINKING_TOKENS * len(texts) if self.writer.is_reasoning else 0
            return decide_hold(read, tokens + thinking, rates)

        return await asyncio.to_thread(work)

    async def compute_room(self, label: str, purpose: str, budget_tokens: int) -> int:
        """Compute how long a text may be that the writer can read before it writes its answer."""
        request = self._build_request(label, "", purpose, budget_tokens)
        framed = await asyncio.to_thread(count_request_tokens, request, self.writer)
        most = compute_input_max(self.writer, request.max_output_tokens)
        return limit_tokens(most, self.writer.tokenizer) - framed.tokens - SLACK_TOKENS

    async def write(
        self,
        part: Part,
        text: str,
        purpose: str,
        key: CompressionKey,
        count: Callable[[str], int],
    ) -> int:
        """Have an abstract written and save it, if it is of use; return what it cost.

        Raises `TextBusy` if a job elsewhere has it written.
        """
        engine, job = self.engine, self.job

        async def claim(connection: Connection) -> bool:
            return await compressions.claim_compression(connection, job, key)

        if not await engine.db.transact(job.tenant_id, claim):
            raise TextBusy("Another job has a text shortened that this one needs.", wait_s=BUSY_S)
        request = self._build_request(part.label, text, purpose, key.budget_tokens)
        request = await asyncio.to_thread(fit, request, self.writer, gives_way=True)
        what = f"abstract:{key.derive_id(job.tenant_id)}"
        hold_key = derive_side_key(job.id, attempt=job.attempt, what=what)

        async def set_aside() -> Reservation:
            return await reserve(
                engine,
                job,
                self.writer,
                request,
                wallet_id=self.wallet_id,
                key=hold_key,
                purpose=Purpose.COMPRESSION,
            )

        held, answer = await call(engine, job, self.writer, request, set_aside)
        short = trim(answer, key.budget_tokens, count)
        made = Compressed(short, count(part.text), count(short)) if short else None
        return await self._save(key, held, answer, made)

    def _build_request(self, label: str, text: str, purpose: str, budget_tokens: int) -> Request:
        values = {
            "purpose": build_block("Task", purpose),
            "text": build_block(label, text),
            "words": max(1, int(budget_tokens * WORDS_PER_TOKEN)),
        }
        prompt = render_template(TEMPLATE_NAME, TEMPLATE, values)
        thinking = THINKING_TOKENS if self.writer.is_reasoning else 0
        cap = min(self.writer.max_output_tokens, budget_tokens + thinking)
        return Request(self.writer.name, "", (Message(Role.USER, prompt),), cap)

    async def _save(
        self, key: CompressionKey, held: Reservation, answer: Answer, made: Compressed | None
    ) -> int:
        engine, job = self.engine, self.job
        actual = judge_reply(self.writer, held, answer.reply)

        async def save(connection: Connection) -> int:
            await jobs.hold_lease(connection, job)
            found = await holds.load_hold(connection, held.key)
            cost = found.rates.cost(actual.input_tokens, actual.output_tokens)
            row_id = None
            if made is not None:
                paid = Paid(min(cost, found.amount_credits), held.key)
                row_id = await compressions.save_compression(connection, job, key, made, paid)
            request_id = answer.reply.request_id
            settled = await holds.settle(
                connection, held.key, actual, row_id, request_id=request_id
            )
            engine.failpoints.reach("before_commit")
            return settled.charged_credits or 0

        return await engine.db.transact(job.tenant_id, save)


def trim(answer: Answer, budget_tokens: int, count: Callable[[str], int]) -> str:
    """Take the abstract out of an answer, whole lines of it if it is too long; "" if it is none."""
    if answer.reply.finish_reason not in (FinishReason.STOP, FinishReason.LENGTH):
        return ""
    text = answer.reply.text.strip()
    while text and count(text) > budget_tokens:
        ends = [text.rfind(mark, 0, len(text) - 1) + 1 for mark in ("\n", ". ", "! ", "? ")]
        text = text[: max(ends)].rstrip()
    return text
