"""Estimate: what a process will cost with these models and this request, call by call. Pure.

The calls are those that planning will make (`outline`). A prompt is rendered from its own template
with what every prompt of the run carries, and counted as it will be sent; only the documents in it
are stand-ins, whose lengths are known, learned, or expected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from dialectic.core.models.messages import Message, Request, Role
from dialectic.core.models.model import ModelCard
from dialectic.core.money.output_statistics import NOTHING, Kind, OutputStatistics, Size
from dialectic.core.money.price import is_play, price_call
from dialectic.core.money.quote import Amount, Figures, Line, Quote
from dialectic.core.process.definition import InputRule, Overflow, Process, Stage, Step
from dialectic.pipeline.assemble import compose_prompt
from dialectic.pipeline.call_estimate import (
    Author,
    Length,
    Task,
    Terms,
    build_durations,
    build_figures,
    build_merges,
    fit_length,
)
from dialectic.pipeline.fit.combine import ROOM_TOKENS_MIN, Room, measure_merge
from dialectic.pipeline.gather import Item, Words
from dialectic.pipeline.outline import DocumentKey, PlannedCall, list_calls
from dialectic.tokens.counting import count_request_tokens, get_counter

# What a process that says nothing is taken to ask for: two or three pages.
OUTPUT_TOKENS = 2_000
# Expectations are written in tokens; readers with other tokenizers go by bytes.
BYTES_PER_TOKEN = 4
# A model that thinks before it speaks is paid for that too; how much, is learned.
REASONING_FACTOR = 3
# Two tokenizers disagree about a text; in the worst case by as much.
FOREIGN_FACTOR = 2
# Enough of a process's own words to tell how many tokens a byte is.
SAMPLE_CHARS = 10_000
# What stands for the reading of texts that must be shortened, among the steps of a stage.
READING = "shortening"
READING_PERCENT = 120
# Tokens in a second, all waiting included, of a model that nobody has timed yet.
PACE = 50.0
PLAY_PACE = 2_500.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Brief:
    """What the prompts of a run carry beside the words of the process."""

    request: str
    domain: str
    context: tuple[Item, ...] = ()
    # What the user said, as it stands in the prompts of a stage.
    feedback: Mapping[str, tuple[Item, ...]] = field(default_factory=dict)
    # The lengths of what the iteration before came to: the first stage reads it.
    outcome_bytes: tuple[int, ...] = ()


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
    """Build the quote for everything that is not written yet, up to and including a stage.

    `written` tells the lengths in bytes of the documents that exist.
    """
    desk = _Desk(process, cards, brief, terms, learned, written or {})
    calls = list_calls(process, models=len(cards), until=until)
    open_calls = [call for call in calls if call.makes not in desk.written]
    lines: dict[tuple[str, str, int], Line] = {}
    for call in open_calls:
        line = desk.build_line(call)
        if (known := lines.get(line.key)) is not None:
            line = _join(known, line)
        lines[line.key] = line
    return Quote(
        process_name=process.name,
        models=tuple(card.name for card in cards),
        lines=tuple(_place_readings(lines.values(), desk.list_readings(open_calls))),
        durations=build_durations(
            [desk.build_task(call) for call in open_calls], slots=terms.concurrency
        ),
        documents_here=learned.count(is_here=True),
        documents_earlier=learned.count(is_here=False),
    )


def _join(one: Line, other: Line) -> Line:
    return replace(one, figures=one.figures + other.figures, too_long=one.too_long + other.too_long)


def _place_readings(lines: Iterable[Line], readings: Mapping[str, Line]) -> Iterator[Line]:
    """Put what is read for shortening behind all else of its stage."""
    for slug, some in groupby(lines, key=lambda line: line.stage_slug):
        yield from some
        if slug in readings:
            yield readings[slug]


class _Desk:
    """Everything that one quote is reckoned from. Remembers what many calls have in common."""

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
        densities = {
            card.tokenizer: get_counter(card.tokenizer)(sample) / len(sample.encode())
            for card in cards
        }
        self.authors = [Author(card, terms, densities[card.tokenizer]) for card in cards]
        self.expected_bytes = list_expected_bytes(process)
        self._lengths: dict[tuple[Kind, int], Length] = {}
        self._merged: set[tuple[str, str, str, tuple[DocumentKey, ...]]] = set()
        self._figures: dict[tuple[Author, Length, int, int, int], Figures] = {}
        self._frames: dict[tuple[str, str, tuple[tuple[str, int], ...], str], int] = {}

    def build_line(self, call: PlannedCall) -> Line:
        """Build the line of one call."""
        key, author = call.makes, self.authors[call.makes.model_index - 1]
        frame = self._count_frame(call, author)
        expected = frame + sum(self._expect_read(read, author) for read in call.reads)
        expected += sum(author.count_bytes(size) for size in self._list_outcomes(call))
        turns_max = 1 + self.terms.max_continuations
        merging = self._build_merging(call, author, frame)
        reckoned = (
            author,
            self.load_length(key),
            min(expected, author.input_max),
            frame + self._bound_reads(call, author, 1),
            frame + self._bound_reads(call, author, turns_max),
        )
        if reckoned not in self._figures:  # most calls of a step are alike
            self._figures[reckoned] = build_figures(*reckoned)
        return Line(
            stage_slug=key.stage_slug,
            step_name=call.step_name,
            output_type=key.output_type,
            model_index=key.model_index,
            model_name=author.card.name,
            is_play=is_play(author.card),
            figures=self._figures[reckoned] + (merging or Figures()),
            too_long=int(expected > author.input_max and merging is None),
        )

    def _build_merging(self, call: PlannedCall, reader: Author, frame: int) -> Figures | None:
        """Price what is merged before a call; None if its step does not merge, or cannot.

        Who reads the same in the same step with the same model, reads what was merged once.
        """
        stage = self.process.load_stage(call.makes.stage_slug)
        step = stage.load_step(call.step_name) if stage.steps else None
        if step is None or step.overflow is not Overflow.COMBINE or len(call.reads) < 2:
            return None
        cap = reader.output_cap
        room = Room(reader.input_max - frame, measure_merge(reader.card, cap), cap)
        if min(room.reader_tokens, room.call_tokens) < ROOM_TOKENS_MIN:
            return None
        key = (stage.slug, step.name, reader.card.name, call.reads)
        if key in self._merged:
            return Figures()
        self._merged.add(key)
        turns_max = 1 + self.terms.max_continuations
        sizes = (
            [self._expect_read(read, reader) for read in call.reads],
            [self._bound_read(read, reader, 1) for read in call.reads],
            [self._bound_read(read, reader, turns_max) for read in call.reads],
        )
        return build_merges(reader, sizes, room)

    # What is shortened --------------------------------------------------------------------------

    def list_readings(self, calls: Sequence[PlannedCall]) -> dict[str, Line]:
        """List, by stage, what it costs to read what will not fit; each text is read once."""
        card = self.terms.embedder
        if card is None:
            return {}
        seen: set[DocumentKey] = set()
        readings: dict[str, Line] = {}
        for call in calls:
            slug, known = call.makes.stage_slug, readings.get(call.makes.stage_slug)
            line = Line(
                stage_slug=slug,
                step_name=READING,
                output_type=READING,
                model_index=0,
                model_name=card.name,
                is_play=is_play(card),
                figures=self._price_reading(call, card, seen),
            )
            readings[slug] = line if known is None else _join(known, line)
        return {slug: line for slug, line in readings.items() if line.figures.ceiling.credits}

    def _price_reading(self, call: PlannedCall, card: ModelCard, seen: set[DocumentKey]) -> Figures:
        """Price the reading of one call's texts, as far as they were not read for another."""
        author = self.authors[call.makes.model_index - 1]
        frame = self._count_frame(call, author)
        new = [read for read in call.reads if read not in seen]
        expected = frame + sum(self._expect_read(read, author) for read in call.reads)
        bound = frame + self._bound_reads(call, author, 1 + self.terms.max_continuations)

        def price(tokens: int) -> Amount:
            # A heading is read with every piece below it, and each text is rounded up by itself.
            read = tokens * READING_PERCENT // 100
            rounded = len(call.reads) + 1 + self.terms.max_continuations
            return Amount(0, read, 0, price_call(card, read, 0) + rounded)

        likely, worst, turns = Amount(), Amount(), Amount()
        if expected > author.input_max:
            seen.update(new)
            likely = price(frame + sum(self._expect_read(read, author) for read in new))
        if bound > author.input_max:
            worst = price(bound * FOREIGN_FACTOR)
        if self.terms.max_continuations:
            said = author.output_cap * self.terms.max_continuations
            turns = price((frame + said) * FOREIGN_FACTOR)
        return Figures(likely, worst, Amount(), turns)

    # What is read -------------------------------------------------------------------------------

    def _expect_read(self, read: DocumentKey, reader: Author) -> int:
        known = self.written.get(read)
        return reader.count_bytes(self.load_length(read).text_bytes if known is None else known)

    def _bound_reads(self, call: PlannedCall, reader: Author, turns: int) -> int:
        """Bound what a call reads, if each document is written in so many turns, all of them full.

        A text that exists is counted by its bytes, which only some tokenizers go by.
        """
        outcomes = sum(self._bound_known(size, reader) for size in self._list_outcomes(call))
        return outcomes + sum(self._bound_read(read, reader, turns) for read in call.reads)

    def _bound_read(self, read: DocumentKey, reader: Author, turns: int) -> int:
        if (known := self.written.get(read)) is not None:
            return self._bound_known(known, reader)
        author = self.authors[read.model_index - 1]
        is_same = author.card.tokenizer == reader.card.tokenizer
        return author.output_cap * turns * (1 if is_same else FOREIGN_FACTOR)

    def _bound_known(self, size: int, reader: Author) -> int:
        margin = 1 if reader.card.tokenizer.startswith("chars:") else FOREIGN_FACTOR
        return reader.count_bytes(size) * margin

    def _list_outcomes(self, call: PlannedCall) -> tuple[int, ...]:
        stage = self.process.load_stage(call.makes.stage_slug)
        return () if stage.steps or stage.list_sources() else self.brief.outcome_bytes

    def _count_frame(self, call: PlannedCall, reader: Author) -> int:
        """Count a prompt without the texts of its documents, as the reader's provider will."""
        stage = self.process.load_stage(call.makes.stage_slug)
        step = stage.load_step(call.step_name) if stage.steps else None
        template_name = (step or stage).prompt_template_name
        headers = Counter(_find_header(stage, step, read) for read in call.reads)
        headers["Outcome of an iteration"] = len(self._list_outcomes(call))
        key = (stage.slug, template_name, tuple(headers.items()), reader.card.tokenizer)
        if key not in self._frames:
            inputs = [Item(f"{header} A10 (10)", "") for header in headers.elements()]
            request = Request(
                model=reader.card.name,
                system=self.process.prompts[stage.system_prompt_name],
                messages=(
                    Message(
                        Role.USER, compose_prompt(self._word(stage, template_name, tuple(inputs)))
                    ),
                ),
                max_output_tokens=reader.output_cap,
            )
            self._frames[key] = count_request_tokens(request, reader.card).tokens
        return self._frames[key]

    def _word(self, stage: Stage, template_name: str, inputs: tuple[Item, ...]) -> Words:
        return Words(
            template_name=template_name,
            template=self.process.prompts[template_name],
            domain=self.brief.domain,
            guidance=self.process.get_guidance(self.brief.domain, template_name),
            request=Item("Original request", self.brief.request),
            context=self.brief.context,
            feedback=self.brief.feedback.get(stage.slug, ()),
            inputs=inputs,
        )

    # What is written ----------------------------------------------------------------------------

    def load_length(self, key: DocumentKey) -> Length:
        """Find how long a document will be: all of one kind by one model are taken to be alike."""
        kind = (key.stage_slug, key.output_type)
        if (kind, key.model_index) not in self._lengths:
            author = self.authors[key.model_index - 1]
            length = fit_length(self._find_size(kind, author), author)
            self._lengths[(kind, key.model_index)] = length
        return self._lengths[(kind, key.model_index)]

    def _find_size(self, kind: Kind, author: Author) -> Size:
        name = author.card.name
        if (own := self.learned.find_size(kind, name)) is not None:
            return own
        density = self.learned.find_density(name)
        if density is None:
            factor = REASONING_FACTOR if author.card.is_reasoning else 1
            density = author.tokens_per_byte * factor
        text_bytes = self.learned.find_bytes(kind)
        if text_bytes is None:
            scale = self.learned.compute_scale(name, self.expected_bytes)
            text_bytes = self.expected_bytes[kind] * scale
        return Size(text_bytes * density, text_bytes)

    def build_task(self, call: PlannedCall) -> Task:
        """Build what the time of a call depends on."""
        author, length = self.authors[call.makes.model_index - 1], self.load_length(call.makes)
        pace = self.learned.find_pace(author.card.name)
        pace = pace or (PLAY_PACE if is_play(author.card) else PACE)
        longest = max(author.output_cap, length.output_tokens)
        return Task(
            name=call.makes,
            group=call.makes.stage_slug,
            after=call.reads,
            expected_s=length.output_tokens / pace,
            worst_s=longest / pace,
        )


def list_expected_bytes(process: Process) -> dict[Kind, float]:
    """List how long the documents of a process are, by its own word."""
    return {
        (stage.slug, part.output_type): (part.expected_output_tokens or OUTPUT_TOKENS)
        * BYTES_PER_TOKEN
        for stage in process.order
        for part in (stage.steps or (stage,))
    }


def _find_header(stage: Stage, step: Step | None, read: DocumentKey) -> str:
    rules: Sequence[InputRule] = (step or stage).inputs_required
    return next(
        rule.header
        for rule in rules
        if (rule.stage_slug or stage.slug, rule.type) == (read.stage_slug, read.output_type)
    )
