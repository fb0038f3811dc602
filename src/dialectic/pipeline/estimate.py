"""Estimate what a process costs with these models and this request, call by call. Pure.

The calls are those that planning will create (`outline`). Each is priced once: its prompt is
rendered from its own template with the run's shared texts, and counted as it will be sent. Only the
documents are placeholders, whose lengths are known, learned or expected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

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
from dialectic.core.process.definition import (
    SECOND_LOOK,
    Angle,
    Kind,
    Overflow,
    Process,
    Stage,
    Step,
)
from dialectic.core.seats import find_angle
from dialectic.pipeline.answer_length import (
    LEARNED_MIN,
    decide_answer_limit,
    expect_size,
    list_asked_tokens,
    measure_density,
)
from dialectic.pipeline.assemble import compose_prompt
from dialectic.pipeline.call_estimate import (
    Author,
    PromptSize,
    Terms,
    Tokens,
    build_durations,
    build_figures,
    build_merge_figures,
    count_continue_tokens,
)
from dialectic.pipeline.fit.combine import (
    ROOM_TOKENS_MIN,
    Room,
    decide_reader_room,
    measure_items,
    measure_merge,
)
from dialectic.pipeline.gather import CONTINUATION, Item, Words
from dialectic.pipeline.outline import (
    DocumentKey,
    PlannedCall,
    StageSeats,
    leave_out_lost,
    list_calls,
)
from dialectic.processes.loader import get_shared_prompt
from dialectic.tokens.counting import count_request_tokens

# The worst-case ratio between two tokenizers' counts of a text.
FOREIGN_FACTOR = 2
# The step name under which a quote lists embedding, for texts that must be shortened.
READING = "shortening"
# The step name under which it lists second looks, and what one of them is expected to show of the
# inputs and to answer.
LOOKING = "second look"
OMITTED_TOKENS = 2_400
LOOK_TOKENS = 2_000
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
        self._readers = {card.tokenizer: card for card in cards}
        self._models = [card.name for card in cards]
        further = get_shared_prompt(process, CONTINUATION)
        self.authors = [
            Author(card, terms, density, count_continue_tokens(further, density))
            for card in cards
            for density in [measure_density(process, card.tokenizer)]
        ]
        self._merged: set[tuple[str, str, str, tuple[DocumentKey, ...]]] = set()
        self._shortened: set[DocumentKey] = set()
        # Cache: most calls of a step have the same size.
        self._build_figures = cache(build_figures)
        self._count_frame = cache(self._render_frame)
        self._count_context = cache(self._measure_context)
        self._get_size = cache(self._compute_size)
        self._get_limit = cache(self._decide_limit)

    def price(self, call: PlannedCall) -> Iterator[Line]:
        """Price one call, and the embedding of its inputs if they must be shortened."""
        key, prompt = call.makes, self._measure_prompt(call)
        author = prompt.author
        merging = self._price_merging(call, prompt)
        written = self._get_size(key.kind, author).output_tokens
        limit = self._get_limit(key.kind, author)
        yield Line(
            stage_slug=key.stage_slug,
            step_name=call.step_name,
            output_type=key.output_type,
            model_index=key.model_index,
            model_name=author.card.name,
            is_play=is_play(author.card),
            figures=self._build_figures(author, round(written), prompt.whole, limit)
            + (merging or Figures()),
            answer_limit_tokens=limit,
            too_long=int(
                prompt.whole.expected > author.input_max
                and (merging is None or prompt.is_frame_shortened)
            ),
        )
        if self._get_part(key.stage_slug, call.step_name)[1].second_look:
            yield self._price_look(call, author, limit)
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

    def _price_look(self, call: PlannedCall, author: Author, limit: int) -> Line:
        """Price the second look at a document: it reads the document and what that lost."""
        key = call.makes
        stage = self.process.load_stage(key.stage_slug)
        template, system = self.process.prompts[SECOND_LOOK], stage.system_prompt_name
        asked = f"{template}\n{self.brief.request}\n{self.process.prompts[system]}"
        frame = author.count_bytes(len(asked.encode())) + OMITTED_TOKENS
        read = self._measure(key, author)
        whole = Tokens(*(frame + size for size in read))
        written = min(LOOK_TOKENS, limit)
        return Line(
            stage_slug=key.stage_slug,
            step_name=LOOKING,
            output_type=SECOND_LOOK,
            model_index=key.model_index,
            model_name=author.card.name,
            is_play=is_play(author.card),
            figures=self._build_figures(author, written, whole, limit),
            answer_limit_tokens=limit,
        )

    def _price_merging(self, call: PlannedCall, prompt: PromptSize) -> Figures | None:
        """Price the merges before a call; None if its step does not or cannot merge.

        Calls of one step by one model with the same inputs share the merged documents.
        """
        reader = prompt.author
        _, part = self._get_part(call.makes.stage_slug, call.step_name)
        is_merging = isinstance(part, Step) and part.overflow is Overflow.COMBINE
        if not is_merging or len(call.reads) < 2:
            return None
        cap = reader.output_cap
        room = Room(prompt.room, measure_merge(self.process, reader.card, cap), cap)
        if min(room.reader_tokens, room.call_tokens) < ROOM_TOKENS_MIN:
            return None
        key = (call.makes.stage_slug, call.step_name, reader.card.name, call.reads)
        if key in self._merged:
            return Figures()
        self._merged.add(key)
        return build_merge_figures(reader, prompt.reads, room)

    def _price_shortening(self, call: PlannedCall, prompt: PromptSize, card: ModelCard) -> Figures:
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

    def _measure_prompt(self, call: PlannedCall) -> PromptSize:
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
        context = self._count_context(author.card.tokenizer)
        room = decide_reader_room(author.input_max, frame, context)
        return PromptSize(author, frame, reads, whole, room)

    def _measure(self, read: DocumentKey, reader: Author) -> Tokens:
        """Measure a document: its real size, or the expected and the largest possible size."""
        if (known := self.written.get(read)) is not None:
            return _measure_bytes(known, reader)
        author = self.authors[read.model_index - 1]
        size = self._get_size(read.kind, author)
        is_same = author.card.tokenizer == reader.card.tokenizer
        factor = 1 if is_same else FOREIGN_FACTOR
        turn = self._get_limit(read.kind, author) * factor
        longest = author.output_cap * factor * (1 + self.terms.max_continuations)
        return Tokens(reader.count_bytes(size.text_bytes), turn, longest)

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

    def _measure_context(self, tokenizer: str) -> int:
        """Measure the resources that every prompt holds."""
        return sum(measure_items(self.brief.context, self._readers[tokenizer]))

    # Output -------------------------------------------------------------------------------------

    def _compute_size(self, kind: Kind, author: Author) -> Size:
        """Compute a document's expected size, which is the same for one kind and one model.

        The size is limited by the number of turns allowed.
        """
        size = self._expect_size(kind, author, self.learned)
        wanted = max(1, round(size.output_tokens))
        written = min(wanted, author.output_cap * (1 + self.terms.max_continuations))
        return Size(written, size.text_bytes * written / wanted)

    def _expect_size(self, kind: Kind, author: Author, learned: OutputStatistics) -> Size:
        return expect_size(self.process, kind, author.card, learned, models=len(self.authors))

    def _decide_limit(self, kind: Kind, author: Author) -> int:
        """Decide the limit of a first turn, as `learned.load_answer_limit` will."""
        if not self.terms.continues:
            return author.output_cap
        earlier = self.learned.earlier
        return decide_answer_limit(
            self._expect_size(kind, author, earlier).output_tokens,
            author.card,
            self.terms.max_output_tokens,
            long_tokens=earlier.find_long_tokens(kind, author.card.name, documents_min=LEARNED_MIN),
            asked_tokens=list_asked_tokens(self.process, models=len(self.authors))[kind],
        )

    def compute_duration(self, key: DocumentKey) -> Duration:
        """Compute how long its author needs to write a document."""
        author = self.authors[key.model_index - 1]
        pace = self.learned.find_pace(author.card.name)
        pace = pace or (PLAY_PACE if is_play(author.card) else PACE)
        tokens = self._get_size(key.kind, author).output_tokens
        longest = max(self._get_limit(key.kind, author), tokens)
        return Duration(tokens / pace, longest / pace)


def _measure_bytes(size: int, reader: Author) -> Tokens:
    """Measure an existing text by its bytes; exact only for tokenizers that count characters."""
    tokens = reader.count_bytes(size)
    most = tokens * (1 if reader.card.tokenizer.startswith("chars:") else FOREIGN_FACTOR)
    return Tokens(tokens, most, most)


def _get_header(stage: Stage, part: Stage | Step, read: DocumentKey) -> str:
    return next(r.header for r in part.inputs_required if r.get_kind(stage) == read.kind)
