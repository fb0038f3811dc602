"""A quote: the estimated cost and duration of a run, and the statistics it is based on. Pure.

A line holds the calls of one step by one model, in whole tokens and whole credits; everything else
is a sum of lines. Planned calls are counted exactly. Possible further turns and retries have an
upper bound and are listed separately; how many of them there usually are is learned, which gives
a realistic bound of the price.

A sample of statistics sums up the documents of one kind by one model. Samples of the same model
count before those of other models, and samples of this session before earlier ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import groupby
from operator import attrgetter
from typing import TypeAlias

from dialectic.core.models.model import ModelCard
from dialectic.core.money.price import Funds, price_call
from dialectic.core.process.definition import Kind

LineKey: TypeAlias = tuple[str, str, int]
"""The stage's slug, the output type, and the number of the model, from 1."""


@dataclass(frozen=True, slots=True)
class Amount:
    """Calls with their tokens and their price."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    credits: int = 0

    @classmethod
    def of_call(cls, card: ModelCard, input_tokens: int, output_tokens: int) -> Amount:
        """Price one call at the model's current rates."""
        price = price_call(card, input_tokens, output_tokens)
        return cls(1, input_tokens, output_tokens, price)

    def __iter__(self) -> Iterator[int]:
        return iter((self.calls, self.input_tokens, self.output_tokens, self.credits))

    def __add__(self, other: Amount) -> Amount:
        return Amount(*(mine + more for mine, more in zip(self, other, strict=True)))

    def __mul__(self, times: int) -> Amount:
        return Amount(*(value * times for value in self))

    def share(self, part: int, whole: int) -> Amount:
        """Compute a fraction of it, rounded up."""
        return Amount(*(-(-value * part // whole) for value in self))


NO_AMOUNT = Amount()


def add_up(amounts: Iterable[Amount]) -> Amount:
    """Sum amounts."""
    return sum(amounts, start=NO_AMOUNT)


@dataclass(frozen=True, slots=True)
class Figures:
    """The estimate for some calls.

    `expected` and `worst` are the planned calls, one turn each; in the worst case every document
    is as long as its output limit. `further` are the additional turns expected because answers are
    longer than the limit. `continuations` and `retries` are the most that the settings allow in
    addition to the worst case.
    """

    expected: Amount = NO_AMOUNT
    worst: Amount = NO_AMOUNT
    further: Amount = NO_AMOUNT
    continuations: Amount = NO_AMOUNT
    retries: Amount = NO_AMOUNT

    def __add__(self, other: Figures) -> Figures:
        names = [each.name for each in fields(self)]
        return Figures(*(getattr(self, name) + getattr(other, name) for name in names))

    @property
    def planned_calls(self) -> int:
        return self.expected.calls

    @property
    def likely(self) -> Amount:
        """The expected cost, further turns included."""
        return self.expected + self.further

    @property
    def ceiling(self) -> Amount:
        """The upper bound."""
        return self.worst + self.continuations + self.retries


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """The calls of one step by one model."""

    stage_slug: str
    step_name: str
    output_type: str
    model_index: int
    model_name: str
    is_play: bool
    figures: Figures
    # Calls whose prompt will probably not fit the model's context window.
    too_long: int = 0
    # The limit of each answer, before any question of money; 0 if the line has no answers.
    answer_limit_tokens: int = 0

    def __add__(self, other: Line) -> Line:
        """Add more calls of the same step by the same model."""
        figures, too_long = self.figures + other.figures, self.too_long + other.too_long
        return replace(self, figures=figures, too_long=too_long)

    @property
    def key(self) -> LineKey:
        return (self.stage_slug, self.output_type, self.model_index)


def list_steps(lines: Iterable[Line]) -> list[tuple[str, tuple[Line, ...]]]:
    """List the steps of a stage with their lines, in order."""
    return [(name, tuple(some)) for name, some in groupby(lines, key=attrgetter("step_name"))]


def add_figures(lines: Iterable[Line]) -> Figures:
    """Sum the figures of lines."""
    return sum((line.figures for line in lines), start=Figures())


@dataclass(frozen=True, slots=True)
class Duration:
    """An estimated duration."""

    expected_s: float = 0.0
    worst_s: float = 0.0

    def __add__(self, other: Duration) -> Duration:
        return Duration(self.expected_s + other.expected_s, self.worst_s + other.worst_s)


# How much of the expected price the lengths of documents may add, before and after documents of the
# same process were seen: runs have cost up to 15 % more than their quotes.
UNLEARNED_MARGIN = 0.25
LEARNED_MARGIN = 0.15
# Further turns and failed attempts for each planned call, until calls were seen; counts as much as
# this number of seen ones.
EXTRA_RATE = 0.15
EXTRA_RATE_WEIGHT = 10
LIKELIHOOD = 0.95
# Beyond it a normal distribution is near enough, and its 95 % are at 1.645 deviations.
POISSON_MEAN_MAX = 500.0
DEVIATIONS = 1.645


def compute_rare_count(mean: float) -> int:
    """Compute the number of independent rare events that 19 of 20 cases do not exceed."""
    if mean > POISSON_MEAN_MAX:
        return math.ceil(mean + DEVIATIONS * math.sqrt(mean))
    count, share = 0, math.exp(-mean)
    reached = share
    while reached < LIKELIHOOD:
        count += 1
        share *= mean / count
        reached += share
    return count


@dataclass(frozen=True, slots=True)
class Bound:
    """What 19 of 20 runs do not exceed: extra calls, and the price with them."""

    extra_calls: int
    credits: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """The remaining work in lines, the duration of each stage, and the size of the samples."""

    process_name: str
    models: tuple[str, ...]
    lines: tuple[Line, ...]
    durations: Mapping[str, Duration]
    documents_here: int = 0
    documents_earlier: int = 0
    # Further turns and failed attempts for each planned call, as learned.
    extra_rate: float = EXTRA_RATE

    def compute_bound(self, figures: Figures) -> Bound:
        """Compute what the price of some of the calls rarely exceeds.

        An extra call costs as much as a planned one. The bounds of parts do not add up to that of
        the whole: not everything takes longer at once.
        """
        calls, likely = figures.planned_calls, figures.likely
        if not calls:
            return Bound(0, likely.credits)
        mean = max(0.0, calls * self.extra_rate - figures.further.calls)
        extra = compute_rare_count(mean)
        is_learned = self.documents_here + self.documents_earlier > 0
        margin = LEARNED_MARGIN if is_learned else UNLEARNED_MARGIN
        price = math.ceil(likely.credits * (1 + margin + extra / calls))
        return Bound(extra, max(likely.credits, min(price, figures.ceiling.credits)))

    @property
    def figures(self) -> Figures:
        return add_figures(self.lines)

    @property
    def planned_calls(self) -> int:
        return self.figures.planned_calls

    @property
    def duration(self) -> Duration:
        return sum(self.durations.values(), start=Duration())

    @property
    def is_play_money(self) -> bool:
        """Whether all of it is paid in play money."""
        return all(line.is_play for line in self.lines)

    def only(self, *, is_play: bool) -> Quote:
        """Keep only the lines paid in real money, or only those in play money."""
        return replace(self, lines=tuple(ln for ln in self.lines if ln.is_play is is_play))

    @property
    def paid(self) -> Figures:
        """The figures of real money; if no line has any, those of play money."""
        return self.only(is_play=self.is_play_money).figures

    def list_stages(self) -> list[tuple[str, tuple[Line, ...]]]:
        """List the stages with their lines, in order."""
        stages = groupby(self.lines, key=attrgetter("stage_slug"))
        return [(slug, tuple(lines)) for slug, lines in stages]


def find_end(quote: Quote, funds: Iterable[Funds]) -> str | None:
    """Find the stage in which the money is expected to be used up; None if it suffices."""
    ends: set[str] = set()
    for each in funds:
        left_credits, price = each.spendable_credits, 0
        for slug, lines in quote.only(is_play=each.is_play).list_stages():
            price += add_figures(lines).likely.credits
            if left_credits is not None and price > left_credits:
                ends.add(slug)
                break
    return next((slug for slug, _ in quote.list_stages() if slug in ends), None)


def join_quotes(quotes: Sequence[Quote]) -> Quote:
    """Join the quotes of several iterations: the same steps by the same models are added up."""
    lines: dict[LineKey, Line] = {}
    durations: dict[str, Duration] = {}
    for quote in quotes:
        for line in quote.lines:
            lines[line.key] = lines[line.key] + line if line.key in lines else line
        for slug, duration in quote.durations.items():
            durations[slug] = durations.get(slug, Duration()) + duration
    return replace(quotes[0], lines=tuple(lines.values()), durations=durations)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerLimit:
    """How far the available money will limit the answers of one model in one stage."""

    stage_slug: str
    model_name: str
    # The shortest limit that is expected, and the limit without the lack of money.
    max_output_tokens: int
    limited_from_tokens: int


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a run has cost so far, and what the rest of it is expected to cost."""

    spent: Amount
    rest: Amount

    @property
    def whole(self) -> Amount:
        return self.spent + self.rest


@dataclass(frozen=True, slots=True)
class SessionForecast:
    """The quote for the rest of an iteration, and the cost of the session so far."""

    rest: Quote
    spent: Amount
    spent_play: Amount
    # What may be spent now, of each kind of money; where it will limit the answers.
    funds: tuple[Funds, ...] = ()
    answer_limits: tuple[AnswerLimit, ...] = ()

    def build_forecast(self, *, is_play: bool) -> Forecast:
        """Build the forecast in real money or in play money."""
        spent = self.spent_play if is_play else self.spent
        return Forecast(spent, self.rest.only(is_play=is_play).figures.likely)


def build_forecast(quote: Quote, done: Mapping[LineKey, Amount]) -> Forecast:
    """Combine the actual cost so far with the expected rest of each line."""
    rest = NO_AMOUNT
    for line in quote.lines:
        if planned := line.figures.planned_calls:
            open_calls = max(0, planned - done.get(line.key, NO_AMOUNT).calls)
            rest += line.figures.likely.share(open_calls, planned)
    return Forecast(add_up(done.values()), rest)


# -- statistics ------------------------------------------------------------------------------------

# A larger deviation says nothing about the length of other documents.
SCALE_MAX = 4.0
# How many kinds of documents must deviate alike for half of it to be the model's way.
OTHER_KINDS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Documents of one kind by one model, in sums."""

    kind: Kind
    model_name: str
    is_here: bool
    documents: int
    output_tokens: int
    text_bytes: int
    elapsed_ms: int
    # The output tokens that 19 of 20 of them did not exceed.
    long_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Size:
    """The length of a document: output tokens that are billed, and bytes that readers get."""

    output_tokens: float
    text_bytes: float


@dataclass(frozen=True, slots=True)
class OutputStatistics:
    """Samples of this session and of earlier ones."""

    samples: tuple[Sample, ...] = ()
    # The paid calls of earlier sessions, and the documents that they wrote.
    paid_calls: int = 0
    paid_documents: int = 0

    def compute_extra_rate(self) -> float:
        """Compute how many extra calls a document takes, with few seen ones near the usual rate."""
        extra = max(0, self.paid_calls - self.paid_documents)
        usual = EXTRA_RATE * EXTRA_RATE_WEIGHT
        return (extra + usual) / (self.paid_documents + EXTRA_RATE_WEIGHT)

    def count(self, *, is_here: bool) -> int:
        """Count the documents in the samples."""
        return sum(s.documents for s in self.samples if s.is_here is is_here)

    def find_size(self, kind: Kind, model_name: str | None = None) -> Size | None:
        """Find the mean size of a kind of document, by one model or by any."""
        found = self._select(lambda s: s.kind == kind and model_name in (None, s.model_name))
        documents = sum(s.documents for s in found)
        if not documents:
            return None
        tokens, text_bytes = sum(s.output_tokens for s in found), sum(s.text_bytes for s in found)
        return Size(tokens / documents, text_bytes / documents)

    def find_long_tokens(self, kind: Kind, model_name: str, *, documents_min: int) -> int | None:
        """Find what 19 of 20 earlier documents of a kind by one model did not exceed.

        None if there are too few. Those of this session do not count: they change while it runs.
        """
        found = [
            s
            for s in self.samples
            if s.kind == kind and s.model_name == model_name and not s.is_here
        ]
        if sum(s.documents for s in found) < documents_min:
            return None
        return max(s.long_tokens for s in found)

    @property
    def earlier(self) -> OutputStatistics:
        """The samples of earlier sessions."""
        return replace(self, samples=tuple(s for s in self.samples if not s.is_here))

    def find_density(self, model_name: str) -> float | None:
        """Find a model's billed output tokens per byte of document."""
        found = self._select(lambda s: s.model_name == model_name and s.text_bytes > 0)
        text_bytes = sum(s.text_bytes for s in found)
        return sum(s.output_tokens for s in found) / text_bytes if text_bytes else None

    def find_pace(self, model_name: str) -> float | None:
        """Find a model's output tokens per second, including all waiting."""
        found = self._select(lambda s: s.model_name == model_name and s.elapsed_ms > 0)
        elapsed_ms = sum(s.elapsed_ms for s in found)
        return sum(s.output_tokens for s in found) / elapsed_ms * 1000 if elapsed_ms else None

    def compute_scale(self, model_name: str, expected_bytes: Mapping[Kind, float]) -> float:
        """Compute a model's length factor: how much longer than expected it writes.

        The more kinds of documents deviate, the more of it is the model's way: a third for one
        kind, half for two. The rest is due to the kinds.
        """
        known = self._select(lambda s: s.model_name == model_name and s.kind in expected_bytes)
        found = known or self._select(lambda s: s.kind in expected_bytes)
        expected = sum(s.documents * expected_bytes[s.kind] for s in found)
        written = sum(s.text_bytes for s in found)
        if not expected or not written:
            return 1.0
        kinds = len({s.kind for s in found})
        scale = math.pow(written / expected, kinds / (kinds + OTHER_KINDS))
        return min(max(scale, 1 / SCALE_MAX), SCALE_MAX)

    def _select(self, matches: Callable[[Sample], bool]) -> Sequence[Sample]:
        """Select the samples of this session; those of earlier ones if it has none."""
        found = [s for s in self.samples if matches(s)]
        return [s for s in found if s.is_here] or found


NOTHING = OutputStatistics()
