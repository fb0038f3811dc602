"""A quote: the estimated cost and duration of a run. Independent of the process.

A line holds the calls of one step by one model, in whole tokens and whole credits; everything else
is a sum of lines. Planned calls are counted exactly. Possible further turns and retries have an
upper bound and are listed separately.
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
        """The expected cost, further turns included."""
        return self.expected + self.further

    @property
    def ceiling(self) -> Amount:
        """The upper bound."""
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
    # Calls whose prompt will probably not fit the model's context window.
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
    """Sum the figures of lines."""
    return sum((line.figures for line in lines), start=Figures())


@dataclass(frozen=True, slots=True)
class Duration:
    """An estimated duration."""

    expected_s: float = 0.0
    worst_s: float = 0.0

    def __add__(self, other: Duration) -> Duration:
        return Duration(self.expected_s + other.expected_s, self.worst_s + other.worst_s)

    def as_dict(self) -> dict[str, float]:
        return {"expected": round(self.expected_s, 1), "worst": round(self.worst_s, 1)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """The remaining work in lines, the duration of each stage, and the size of the samples."""

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

    def as_dict(self) -> dict[str, Any]:
        """Convert to JSON. Credits are millionths of a US dollar."""
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
        """Build the prices, dollars and play money separately."""
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


@dataclass(frozen=True, slots=True)
class SessionForecast:
    """The quote for the rest of an iteration, and the cost of the session so far."""

    rest: Quote
    spent: Amount
    spent_play: Amount

    def build_forecast(self, *, is_play: bool) -> Forecast:
        """Build the forecast in real money or in play money."""
        spent = self.spent_play if is_play else self.spent
        return Forecast(spent, self.rest.only(is_play=is_play).figures.likely)

    def as_dict(self) -> dict[str, Any]:
        forecasts = {
            name: self.build_forecast(is_play=is_play).as_dict()
            for name, is_play in (("money", False), ("play_money", True))
        }
        return self.rest.as_dict() | {"forecast": forecasts}


def build_forecast(quote: Quote, done: Mapping[LineKey, Amount]) -> Forecast:
    """Combine the actual cost so far with the expected rest of each line."""
    rest = NO_AMOUNT
    for line in quote.lines:
        if planned := line.figures.planned_calls:
            open_calls = max(0, planned - done.get(line.key, NO_AMOUNT).calls)
            rest += line.figures.likely.share(open_calls, planned)
    return Forecast(add_up(done.values()), rest)
