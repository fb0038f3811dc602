"""Estimate what a process costs with these models and this request, call by call. Pure.

The calls are those that planning will create (`outline`). Each is priced once: its prompt is
rendered from its own template with the run's shared texts, and counted as it will be sent. Only the
documents are placeholders, whose lengths are known, learned or expected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache

from dialectic.core.models.messages import Message, Request, Role
from dialectic.core.models.model import ModelCard
from dialectic.core.money.price import is_play
from dialectic.core.money.quote import (
    NO_AMOUNT,
    NOTHING,
    Amount,
    Duration,
    Figures,
    Line,
    LineKey,
    OutputStatistics,
    Quote,
    Size,
)
from dialectic.core.process.definition import Angle, Kind, Overflow, Process, Stage, Step
from dialectic.core.seats import find_angle
from dialectic.pipeline.assemble import compose_prompt
from dialectic.pipeline.call_estimate import (
    Author,
    Terms,
    Tokens,
    build_durations,
    build_figures,
    build_merge_figures,
    count_continue_tokens,
)
from dialectic.pipeline.fit.combine import ROOM_TOKENS_MIN, Room, measure_merge
from dialectic.pipeline.gather import CONTINUATION, Item, Words
from dialectic.pipeline.outline import (
    DocumentKey,
    PlannedCall,
    StageSeats,
    leave_out_lost,
    list_calls,
)
from dialectic.processes.loader import get_shared_prompt
from dialectic.tokens.counting import count_request_tokens, get_counter

# The default answer length if the process gives none: two or three pages.
OUTPUT_TOKENS = 2_000
# Expected lengths are in tokens; convert them to bytes for other tokenizers.
BYTES_PER_TOKEN = 4
# A declared length is a floor in words, and answers are expected to keep close to it. A word of
# Markdown has this many tokens.
TOKENS_PER_WORD = 1.35
# Reasoning tokens are charged too. This is the factor until we have learned the real one.
REASONING_FACTOR = 3
# The worst-case ratio between two tokenizers' counts of a text.
FOREIGN_FACTOR = 2
# The sample of the process's prompts that measures tokens per byte.
SAMPLE_CHARS = 10_000
# The step name under which a quote lists embedding, for texts that must be shortened.
READING = "shortening"
READING_PERCENT = 120
# Default tokens per second, with waiting, of a model without measurements.
PACE = 50.0
PLAY_PACE = 2_500.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Brief:
    """What the calls of a run share: the texts of their prompts, and who takes part."""

    request: str
    domain: str
    context: tuple[Item, ...] = ()
    # The user's feedback for each stage, as its prompts show it.
    feedback: Mapping[str, tuple[Item, ...]] = field(default_factory=dict)
    # The lengths of the previous iteration's final documents, which the first stage reads.
    outcome_bytes: tuple[int, ...] = ()
    # What the project's owner adds to every prompt.
    overlay: str = ""
    # The seats of each stage, if not all take part, and those that are lost.
    seats: StageSeats = ()
    lost_seats: StageSeats = ()


def build_quote(
    process: Process,
    cards: Sequence[ModelCard],
    brief: Brief,
    terms: Terms,
    *,
    learned: OutputStatistics = NOTHING,
    written: Mapping[DocumentKey, int] | None = None,
    until: str | None = None,
) -> Quote:
    """Build the quote for all documents that do not exist yet, up to and including a stage.

    `written` has the lengths in bytes of the existing documents.
    """
    estimator = _Estimator(process, cards, brief, terms, learned, written or {})
    lines: dict[LineKey, Line] = {}
    durations: list[tuple[PlannedCall, Duration]] = []
    calls = list_calls(process, models=len(cards), until=until, seats=brief.seats)
    for call in leave_out_lost(process, calls, brief.lost_seats, estimator.written):
        if call.makes in estimator.written:
            continue
        for line in estimator.price(call):
            lines[line.key] = lines[line.key] + line if line.key in lines else line
        durations.append((call, estimator.compute_duration(call.makes)))
    # Embedding comes last in its stage.
    stages = {stage.slug: place for place, stage in enumerate(process.order)}
    in_order = sorted(lines.values(), key=lambda ln: (stages[ln.stage_slug], ln.model_index == 0))
    return Quote(
        process_name=process.name,
        models=tuple(card.name for card in cards),
        lines=tuple(ln for ln in in_order if ln.model_index or ln.figures.ceiling.credits),
        durations=build_durations(durations, slots=terms.concurrency),
        documents_here=learned.count(is_here=True),
        documents_earlier=learned.count(is_here=False),
        extra_rate=learned.compute_extra_rate(),
    )


@dataclass(frozen=True, slots=True)
class _Prompt:
    """The size of one call's prompt: without documents, of each document, and in total."""

    author: Author
    frame: int
    reads: Sequence[Tokens]
    whole: Tokens


class _Estimator:
    """The inputs of one quote, with caches for what many calls share."""

    def __init__(
        self,
        process: Process,
        cards: Sequence[ModelCard],
        brief: Brief,
        terms: Terms,
        learned: OutputStatistics,
        written: Mapping[DocumentKey, int],
    ) -> None:
        self.process, self.brief, self.terms = process, brief, terms
        self.learned, self.written = learned, written
        sample = "".join(process.prompts.values())
        sample *= 1 + SAMPLE_CHARS // len(sample)
        self._readers = {card.tokenizer: card for card in cards}
        self._models = [card.name for card in cards]
        densities = {
            name: get_counter(name)(sample) / len(sample.encode()) for name in self._readers
        }
        further = get_shared_prompt(process, CONTINUATION)
        self.authors = [
            Author(card, terms, density, count_continue_tokens(further, density))
            for card in cards
            for density in [densities[card.tokenizer]]
        ]
        self.expected_bytes = list_expected_bytes(process, models=len(cards))
        self._merged: set[tuple[str, str, str, tuple[DocumentKey, ...]]] = set()
        self._shortened: set[DocumentKey] = set()
        # Cache: most calls of a step have the same size.
        self._build_figures = cache(build_figures)
        self._count_frame = cache(self._render_frame)
        self._get_size = cache(self._compute_size)

    def price(self, call: PlannedCall) -> Iterator[Line]:
        """Price one call, and the embedding of its inputs if they must be shortened."""
        key, prompt = call.makes, self._measure_prompt(call)
        author = prompt.author
        merging = self._price_merging(call, prompt)
        written = self._get_size(key.kind, author).output_tokens
        yield Line(
            stage_slug=key.stage_slug,
            step_name=call.step_name,
            output_type=key.output_type,
            model_index=key.model_index,
            model_name=author.card.name,
            is_play=is_play(author.card),
            figures=self._build_figures(author, round(written), prompt.whole)
            + (merging or Figures()),
            too_long=int(prompt.whole.expected > author.input_max and merging is None),
        )
        if (embedder := self.terms.embedder) is not None:
            yield Line(
                stage_slug=key.stage_slug,
                step_name=READING,
                output_type=READING,
                model_index=0,
                model_name=embedder.name,
                is_play=is_play(embedder),
                figures=self._price_shortening(call, prompt, embedder),
            )

    def _price_merging(self, call: PlannedCall, prompt: _Prompt) -> Figures | None:
        """Price the merges before a call; None if its step does not or cannot merge.

        Calls of one step by one model with the same inputs share the merged documents.
        """
        reader = prompt.author
        _, part = self._get_part(call.makes.stage_slug, call.step_name)
        is_merging = isinstance(part, Step) and part.overflow is Overflow.COMBINE
        if not is_merging or len(call.reads) < 2:
            return None
        cap = reader.output_cap
        room = Room(
            reader.input_max - prompt.frame, measure_merge(self.process, reader.card, cap), cap
        )
        if min(room.reader_tokens, room.call_tokens) < ROOM_TOKENS_MIN:
            return None
        key = (call.makes.stage_slug, call.step_name, reader.card.name, call.reads)
        if key in self._merged:
            return Figures()
        self._merged.add(key)
        return build_merge_figures(reader, prompt.reads, room)

    def _price_shortening(self, call: PlannedCall, prompt: _Prompt, card: ModelCard) -> Figures:
        """Price the embedding of inputs that do not fit; each document is embedded once."""
        room, further_turns = prompt.author.input_max, self.terms.max_continuations

        def price(tokens: int) -> Amount:
            # Headings are embedded with every piece below them, and each text is rounded up.
            read = tokens * READING_PERCENT // 100
            rounding = len(call.reads) + 1 + further_turns
            return replace(Amount.of_call(card, read, 0) + Amount(credits=rounding), calls=0)

        likely = worst = turns = NO_AMOUNT
        if prompt.frame + sum(size.expected for size in prompt.reads) > room:
            sizes = zip(call.reads, prompt.reads, strict=True)
            new = sum(size.expected for read, size in sizes if read not in self._shortened)
            likely = price(prompt.frame + new)
            self._shortened.update(call.reads)
        if prompt.whole.longest > room:
            worst = price(prompt.whole.longest * FOREIGN_FACTOR)
        if further_turns:
            said = prompt.author.output_cap * further_turns
            turns = price((prompt.frame + said) * FOREIGN_FACTOR)
        return Figures(likely, worst, NO_AMOUNT, turns)

    # Input --------------------------------------------------------------------------------------

    def _get_part(self, stage_slug: str, step_name: str) -> tuple[Stage, Stage | Step]:
        stage = self.process.load_stage(stage_slug)
        return stage, stage.load_step(step_name) if stage.steps else stage

    def _measure_prompt(self, call: PlannedCall) -> _Prompt:
        author = self.authors[call.makes.model_index - 1]
        stage, part = self._get_part(call.makes.stage_slug, call.step_name)
        is_first = not stage.steps and not stage.list_sources()
        outcomes = self.brief.outcome_bytes if is_first else ()
        reads = [self._measure(read, author) for read in call.reads]
        headers = Counter(_get_header(stage, part, read) for read in call.reads)
        headers["Outcome of an iteration"] = len(outcomes)
        angle = find_angle(self.process.file, self._models, call.makes.model_index)
        asked = (stage.slug, call.step_name, tuple(headers.items()), author.card.tokenizer)
        frame = self._count_frame(*asked, angle)
        sizes = [*reads, *(_measure_bytes(size, author) for size in outcomes)]
        whole = Tokens(*map(sum, zip((frame, frame, frame), *sizes, strict=True)))
        return _Prompt(author, frame, reads, whole)

    def _measure(self, read: DocumentKey, reader: Author) -> Tokens:
        """Measure a document: its real size, or the expected and the largest possible size."""
        if (known := self.written.get(read)) is not None:
            return _measure_bytes(known, reader)
        author = self.authors[read.model_index - 1]
        size = self._get_size(read.kind, author)
        is_same = author.card.tokenizer == reader.card.tokenizer
        turn = author.output_cap * (1 if is_same else FOREIGN_FACTOR)
        turns_max = 1 + self.terms.max_continuations
        return Tokens(reader.count_bytes(size.text_bytes), turn, turn * turns_max)

    def _render_frame(
        self,
        stage_slug: str,
        step_name: str,
        headers: tuple[tuple[str, int], ...],
        tokenizer: str,
        angle: Angle | None,
    ) -> int:
        """Count a prompt without its documents, with the reader's tokenizer."""
        card = self._readers[tokenizer]
        stage, part = self._get_part(stage_slug, step_name)
        template_name = part.prompt_template_name
        named = tuple(
            Item(f"{header} A10 (10)", "") for header, times in headers for _ in range(times)
        )
        words = Words(
            template_name=template_name,
            template=self.process.prompts[template_name],
            domain=self.brief.domain,
            guidance=self.process.get_guidance(self.brief.domain, template_name),
            seat="" if angle is None else angle.name,
            stance="" if angle is None else angle.stance,
            request=Item("Original request", self.brief.request),
            context=self.brief.context,
            feedback=self.brief.feedback.get(stage_slug, ()),
            inputs=named,
            overlay=self.brief.overlay,
            base=named[0].label if len(named) > 1 else "",
            length=part.length,
        )
        request = Request(
            model=card.name,
            system=self.process.prompts[stage.system_prompt_name],
            messages=(Message(Role.USER, compose_prompt(words)),),
            max_output_tokens=1,
        )
        return count_request_tokens(request, card).tokens

    # Output -------------------------------------------------------------------------------------

    def _compute_size(self, kind: Kind, author: Author) -> Size:
        """Compute a document's expected size, which is the same for one kind and one model.

        The size is limited by the number of turns allowed.
        """
        size = self._expect_size(kind, author)
        wanted = max(1, round(size.output_tokens))
        written = min(wanted, author.output_cap * (1 + self.terms.max_continuations))
        return Size(written, size.text_bytes * written / wanted)

    def _expect_size(self, kind: Kind, author: Author) -> Size:
        name, tokens_per_byte = author.card.name, author.tokens_per_byte
        if (own := self.learned.find_size(kind, name)) is not None:
            return own
        if (by_others := self.learned.find_size(kind)) is not None:
            text_bytes = by_others.text_bytes
        else:
            scale = self.learned.compute_scale(name, self.expected_bytes)
            text_bytes = self.expected_bytes[kind] * scale
        density = self.learned.find_density(name)
        if density is None:
            density = tokens_per_byte * (REASONING_FACTOR if author.card.is_reasoning else 1)
        return Size(text_bytes * density, text_bytes)

    def compute_duration(self, key: DocumentKey) -> Duration:
        """Compute how long its author needs to write a document."""
        author = self.authors[key.model_index - 1]
        pace = self.learned.find_pace(author.card.name)
        pace = pace or (PLAY_PACE if is_play(author.card) else PACE)
        tokens = self._get_size(key.kind, author).output_tokens
        return Duration(tokens / pace, max(author.output_cap, tokens) / pace)


@lru_cache(maxsize=64)
def list_expected_bytes(process: Process, *, models: int) -> dict[Kind, float]:
    """List the expected lengths of a process's documents, from its definition.

    A length that grows with the inputs depends on how many documents are read, and on their own
    expected lengths. All documents of one kind count as equally long.
    """
    reads: dict[Kind, tuple[DocumentKey, ...]] = {}
    for call in list_calls(process, models=models):
        reads.setdefault(call.makes.kind, call.reads)
    tokens: dict[Kind, float] = {}
    for stage in process.order:
        for part in stage.parts:
            kind = (stage.slug, part.output_type)
            words = sum(tokens[read.kind] for read in reads[kind]) / TOKENS_PER_WORD
            tokens[kind] = _expect_tokens(part, words)
    return {kind: count * BYTES_PER_TOKEN for kind, count in tokens.items()}


def _expect_tokens(part: Stage | Step, input_words: float) -> float:
    if part.expected_output_tokens is not None:
        return part.expected_output_tokens
    if part.length is None:
        return OUTPUT_TOKENS
    return part.length.compute_words(input_words) * TOKENS_PER_WORD


def _measure_bytes(size: int, reader: Author) -> Tokens:
    """Measure an existing text by its bytes; exact only for tokenizers that count characters."""
    tokens = reader.count_bytes(size)
    most = tokens * (1 if reader.card.tokenizer.startswith("chars:") else FOREIGN_FACTOR)
    return Tokens(tokens, most, most)


def _get_header(stage: Stage, part: Stage | Step, read: DocumentKey) -> str:
    return next(r.header for r in part.inputs_required if r.get_kind(stage) == read.kind)
