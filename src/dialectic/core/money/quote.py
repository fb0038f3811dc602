"""A quote: what a run will cost and how long it will take, in figures. Knows no process.

A line holds the calls of one step by one model, in whole tokens and whole credits; everything else
is a sum of lines. Planned calls are counted exactly. Further turns and retries, which may or may
not happen, are bounded and kept apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from operator import attrgetter
from typing import Any, TypeAlias

from dialectic.core.models.model import ModelCard
from dialectic.core.money.price import CREDITS_PER_USD, price_call

LineKey: TypeAlias = tuple[str, str, int]
"""A stage's slug, the type of what is made in it, and which of the models makes it, from 1."""


@dataclass(frozen=True, slots=True)
class Amount:
    """Calls with their tokens and their price."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    credits: int = 0

    @classmethod
    def of_call(cls, card: ModelCard, input_tokens: int, output_tokens: int) -> Amount:
        """Price one call by what its model costs now."""
        price = price_call(card, input_tokens, output_tokens)
        return cls(1, input_tokens, output_tokens, price)

    def __iter__(self) -> Iterator[int]:
        return iter((self.calls, self.input_tokens, self.output_tokens, self.credits))

    def __add__(self, other: Amount) -> Amount:
        return Amount(*(mine + more for mine, more in zip(self, other, strict=True)))

    def __mul__(self, times: int) -> Amount:
        return Amount(*(value * times for value in self))

    def share(self, part: int, whole: int) -> Amount:
        """Take a part of it, rounded up."""
        return Amount(*(-(-value * part // whole) for value in self))


NO_AMOUNT = Amount()


def add_up(amounts: Iterable[Amount]) -> Amount:
    """Add amounts up."""
    return sum(amounts, start=NO_AMOUNT)


@dataclass(frozen=True, slots=True)
class Figures:
    """What is estimated for some calls.

    `expected` and `worst` are the planned calls, one turn each; in the worst case every document
    is as long as its author may make it. `further` are the turns expected on top because answers
    are longer than the cap. `continuations` and `retries` bound what can come on top of the worst
    case: every turn and every retry that the settings allow.
    """

    expected: Amount = NO_AMOUNT
    worst: Amount = NO_AMOUNT
    further: Amount = NO_AMOUNT
    continuations: Amount = NO_AMOUNT
    retries: Amount = NO_AMOUNT

    def __add__(self, other: Figures) -> Figures:
        return Figures(
            self.expected + other.expected,
            self.worst + other.worst,
            self.further + other.further,
            self.continuations + other.continuations,
            self.retries + other.retries,
        )

    @property
    def planned_calls(self) -> int:
        return self.expected.calls

    @property
    def likely(self) -> Amount:
        """What will be paid if everything goes as expected."""
        return self.expected + self.further

    @property
    def ceiling(self) -> Amount:
        """What cannot be exceeded, whatever happens."""
        return self.worst + self.continuations + self.retries

    def as_dict(self) -> dict[str, Any]:
        return {
            "planned_calls": self.planned_calls,
            "expected": asdict(self.expected),
            "worst": asdict(self.worst),
            "expected_continuations": asdict(self.further),
            "bound": {
                "continuations": asdict(self.continuations),
                "retries": asdict(self.retries),
                "ceiling": asdict(self.ceiling),
            },
        }


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
    # Calls whose prompt is not expected to fit the model's window.
    too_long: int = 0

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
    """Add the figures of lines up."""
    return sum((line.figures for line in lines), start=Figures())


@dataclass(frozen=True, slots=True)
class Duration:
    """How long something takes, as an estimate."""

    expected_s: float = 0.0
    worst_s: float = 0.0

    def __add__(self, other: Duration) -> Duration:
        return Duration(self.expected_s + other.expected_s, self.worst_s + other.worst_s)

    def as_dict(self) -> dict[str, float]:
        return {"expected": round(self.expected_s, 1), "worst": round(self.worst_s, 1)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """What is still to be done, in lines; the time each stage adds; what the lengths rest on."""

    process_name: str
    models: tuple[str, ...]
    lines: tuple[Line, ...]
    durations: Mapping[str, Duration]
    documents_here: int = 0
    documents_earlier: int = 0

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
        """Whether none of it is paid in money."""
        return all(line.is_play for line in self.lines)

    def only(self, *, is_play: bool) -> Quote:
        """Keep what is paid in money, or in play money."""
        return replace(self, lines=tuple(ln for ln in self.lines if ln.is_play is is_play))

    @property
    def paid(self) -> Figures:
        """The figures of what is paid in money; where nothing is, of play money."""
        return self.only(is_play=self.is_play_money).figures

    def list_stages(self) -> list[tuple[str, tuple[Line, ...]]]:
        """List the stages with their lines, in order."""
        stages = groupby(self.lines, key=attrgetter("stage_slug"))
        return [(slug, tuple(lines)) for slug, lines in stages]

    def as_dict(self) -> dict[str, Any]:
        """Build the quote as programs read it. Credits are millionths of a US dollar."""
        return {
            "process": self.process_name,
            "models": list(self.models),
            **self.figures.as_dict(),
            "money": self.money(),
            "time_s": self.duration.as_dict(),
            "learned_from": {"here": self.documents_here, "earlier": self.documents_earlier},
            "stages": [
                {
                    "stage_slug": slug,
                    **add_figures(lines).as_dict(),
                    "time_s": self.durations.get(slug, Duration()).as_dict(),
                    "steps": [_describe_step(name, some) for name, some in list_steps(lines)],
                }
                for slug, lines in self.list_stages()
            ],
        }

    def money(self) -> dict[str, Any]:
        """Build the prices, dollars apart from play money."""
        paid, played = (self.only(is_play=is_play).figures for is_play in (False, True))
        return {
            "is_play_money": self.is_play_money,
            "expected_usd": paid.likely.credits / CREDITS_PER_USD,
            "worst_usd": paid.worst.credits / CREDITS_PER_USD,
            "ceiling_usd": paid.ceiling.credits / CREDITS_PER_USD,
            "expected_play_credits": played.likely.credits,
        }


def _describe_step(name: str, lines: tuple[Line, ...]) -> dict[str, Any]:
    return {
        "name": name,
        "output_type": lines[0].output_type,
        **add_figures(lines).as_dict(),
        "models": [
            {
                "model": line.model_name,
                "model_index": line.model_index,
                "is_play_money": line.is_play,
                "calls_too_long": line.too_long,
                **line.figures.as_dict(),
            }
            for line in lines
        ],
    }


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a run has cost so far, and what the rest of it is expected to cost."""

    spent: Amount
    rest: Amount

    @property
    def whole(self) -> Amount:
        return self.spent + self.rest

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "whole": asdict(self.whole)}


def build_forecast(quote: Quote, done: Mapping[LineKey, Amount]) -> Forecast:
    """Compare a quote with what was done: actual so far, and of each line the expected rest."""
    rest = NO_AMOUNT
    for line in quote.lines:
        if planned := line.figures.planned_calls:
            open_calls = max(0, planned - done.get(line.key, NO_AMOUNT).calls)
            rest += line.figures.likely.share(open_calls, planned)
    return Forecast(add_up(done.values()), rest)
