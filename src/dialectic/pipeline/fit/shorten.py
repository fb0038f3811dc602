"""Shorten: one text made shorter, from itself alone and aimed at a task; found or made once.

Two ways: an extract keeps passages of the text (`retrieval.extract`), an abstract is written by a
model. What was made is stored under all that it depends on, so retries, later turns and sibling
models find it. Which text is shortened, and how far, `compress` decides.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from dialectic.core.job import Job
from dialectic.core.models.model import ModelCard
from dialectic.core.money.price import is_play
from dialectic.core.process.definition import Compressor
from dialectic.db.pool import Connection
from dialectic.db.tables import compressions
from dialectic.db.tables.compressions import Compressed, CompressionKey, Paid, hash_text
from dialectic.engine import Engine
from dialectic.errors import ContextWindowError
from dialectic.pipeline.assemble import compose_prompt
from dialectic.pipeline.fit.abstract import Abstractor
from dialectic.pipeline.fit.compress import Goal, Shortened
from dialectic.pipeline.fit.embed import Library, score_likeness
from dialectic.pipeline.fit.measure import Draft
from dialectic.pipeline.fit.parts import Kind, Part, PartKey
from dialectic.pipeline.gather import Material, Words
from dialectic.pipeline.load import JobContext
from dialectic.pipeline.reserve import Outlook, judge_ahead, release
from dialectic.retrieval.extract import extract
from dialectic.tokens.counting import bound_tokens, get_batch_counter, get_counter

# The way an extract is made; a change of it is another name, and old ones are not used any more.
EXTRACT = "extract/2"
GAP = "\n[…]\n"


def build_shortener(
    engine: Engine, job: Job, scene: JobContext, material: Material, card: ModelCard
) -> TextShortener:
    """Build who shortens the texts of one prompt, as the process says."""
    library = Library(engine, job, scene.wallet_id)
    abstractor = None
    if material.compressor is Compressor.ABSTRACT:
        # One model writes them for all, so that all have the same and it is paid for once.
        lead = engine.catalog.load_card(scene.models[scene.lead_model_index - 1])
        abstractor = Abstractor(engine, job, scene.wallet_id, lead)
    return TextShortener(
        engine, job, card, library, build_purpose(material.words), abstractor, Ledger()
    )


def build_purpose(words: Words) -> str:
    """Build what texts are shortened for: the prompt's own words, without any other text.

    Every turn of a document has the same, and so has every model that is asked the same.
    """
    return compose_prompt(replace(words, context=(), feedback=(), inputs=(), listing=()))


@dataclass(slots=True)
class Ledger:
    """What was spent so far on one prompt, beside its call."""

    spent_credits: int = 0


@dataclass(frozen=True, slots=True)
class TextShortener:
    """Shortens the texts of one prompt for the model that reads it."""

    engine: Engine
    job: Job
    card: ModelCard
    library: Library
    purpose: str
    abstractor: Abstractor | None
    ledger: Ledger

    @property
    def spent_credits(self) -> int:
        return self.ledger.spent_credits

    @property
    def compressor(self) -> str:
        if self.abstractor is not None:
            return self.abstractor.name
        return f"{EXTRACT} {self.engine.embedder.name}"

    # -- money -----------------------------------------------------------------------------------

    async def judge(self, draft: Draft, goal: Goal) -> None:
        """Raise if shortening and calling cost more than there is, or than may be spent unasked."""
        victims = expect_victims(draft, goal)
        read = [part.text for part in victims if self._needs_vectors(part, draft)]
        extra = await self.library.estimate([*read, self.purpose]) if read else 0
        extra_play = 0
        if self.abstractor is not None:
            new = await self._list_new([part.text for part in victims])
            cost = await self.abstractor.estimate(new, self.purpose, goal.tokens) if new else 0
            if is_play(self.abstractor.writer):
                extra_play += cost
            else:
                extra += cost
        outlook = Outlook(
            card=draft.card,
            before_tokens=draft.tokens,
            counted_tokens=bound_tokens(goal.tokens, draft.card.tokenizer),
            output_cap=draft.request.max_output_tokens,
            extra_credits=extra,
            extra_play_credits=extra_play,
        )
        await judge_ahead(self.engine, self.job, outlook, wallet_id=self.library.wallet_id)

    async def _list_new(self, texts: Sequence[str]) -> list[str]:
        """List those texts of which there is no abstract for this yet; the others cost nothing."""
        by_hash = {hash_text(text): text for text in texts}

        async def work(connection: Connection) -> set[str]:
            return await compressions.list_known_compressions(
                connection,
                by_hash,
                purpose_hash=hash_text(self.purpose),
                compressor=self.compressor,
                tokenizer=self.card.tokenizer,
            )

        known = await self.engine.db.transact(self.job.tenant_id, work)
        return [text for name, text in by_hash.items() if name not in known]

    def _needs_vectors(self, part: Part, draft: Draft) -> bool:
        """An extract is made by vectors; an abstract needs them only for what it is worth."""
        has_choice = len(draft.candidates) > 1
        return self.abstractor is None or (has_choice and part.kind is not Kind.TURN)

    # -- what it is worth ------------------------------------------------------------------------

    async def weigh(self, parts: Sequence[Part]) -> Mapping[PartKey, float]:
        """Tell how much each text has to do with the task."""
        aim = await self.library.load(self.purpose)
        spent, values = aim.cost_credits, dict[PartKey, float]()
        for part in parts:
            vectors = await self.library.load(part.text)
            values[part.key] = score_likeness(vectors.rows, aim.rows)
            spent += vectors.cost_credits
        self.ledger.spent_credits += spent
        return values

    # -- shorter texts ---------------------------------------------------------------------------

    async def shorten(self, part: Part, budget_tokens: int) -> Shortened:
        """Find a text made shorter, or make it."""
        key = CompressionKey(
            content_hash=hash_text(part.text),
            purpose_hash=hash_text(self.purpose),
            compressor=self.compressor,
            tokenizer=self.card.tokenizer,
            budget_tokens=budget_tokens,
        )
        async with self.engine.turns.lock((self.job.tenant_id, key)):
            if (found := await self._find(key)) is not None:
                return Shortened(found.text, key.compressor, budget_tokens, is_reused=True)
            make = self._extract if self.abstractor is None else self._abstract
            made = await make(part, key)
        self.ledger.spent_credits += made.cost_credits
        return made

    async def _find(self, key: CompressionKey) -> Compressed | None:
        async def work(connection: Connection) -> Compressed | None:
            return await compressions.find_compression(connection, self.job.tenant_id, key)

        return await self.engine.db.transact(self.job.tenant_id, work)

    async def _extract(self, part: Part, key: CompressionKey) -> Shortened:
        made, cost = await self._cut(part.text, key.budget_tokens, self.card.tokenizer)

        async def work(connection: Connection) -> None:
            await compressions.save_compression(connection, self.job, key, made, Paid(cost))

        await self.engine.db.transact(self.job.tenant_id, work)
        return Shortened(made.text, key.compressor, key.budget_tokens, cost)

    async def _abstract(self, part: Part, key: CompressionKey) -> Shortened:
        """Have an abstract written; an extract takes its place where none of use comes."""
        assert self.abstractor is not None, "asked only where a process wants abstracts"
        writer, text, spent = self.abstractor.writer, part.text, 0
        room = await self.abstractor.compute_room(part.label, self.purpose, key.budget_tokens)
        if room < key.budget_tokens:
            return await self._extract(part, key)  # its writer would read less than it is to write
        if await asyncio.to_thread(get_counter(writer.tokenizer), text) > room:
            # Even its writer cannot read it whole.
            shorter, spent = await self._cut(text, room, writer.tokenizer)
            text = shorter.text
        count = get_counter(self.card.tokenizer)
        try:
            spent += await self.abstractor.write(part, text, self.purpose, key, count)
        except ContextWindowError:
            # The writer counts otherwise than we do. It has not read it, so its money is free.
            await self.engine.db.transact(self.job.tenant_id, lambda c: release(c, self.job))
        if (found := await self._find(key)) is None:
            made = await self._extract(part, key)
            return replace(made, cost_credits=made.cost_credits + spent)
        return Shortened(found.text, key.compressor, key.budget_tokens, spent)

    async def _cut(self, text: str, budget_tokens: int, tokenizer: str) -> tuple[Compressed, int]:
        """Make an extract; return it with what the vectors for it cost just now."""
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


def expect_victims(draft: Draft, goal: Goal) -> list[Part]:
    """Expect which texts must be shortened; all of them, where it takes their worth to tell.

    What all are left with at least decides: the oldest turns become that short, one by one.
    """
    if any(c.part.kind is not Kind.TURN for c in draft.candidates):
        return [candidate.part for candidate in draft.candidates]
    victims, missing = list[Part](), draft.tokens - goal.tokens
    for candidate in draft.candidates:
        if missing <= 0:
            break
        victims.append(candidate.part)
        missing -= candidate.count_gain(goal.share)
    return victims


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
