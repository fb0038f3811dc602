"""A quote: what a run will cost and how long it will take, in figures. Knows no process.

Figures are whole tokens and whole credits; a line stands for the calls of one step by one model,
and all else is sums of lines. What is certain stands apart from what is bounded: planned calls are
counted exactly, and further turns and tries, of which nobody knows how many there will be, only
have a limit.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from dialectic.core.money.price import CREDITS_PER_USD

LineKey: TypeAlias = tuple[str, str, int]
"""A stage's slug, the type of what is made in it, and which of the models makes it, from 1."""


@dataclass(frozen=True, slots=True)
class Amount:
    """Calls with their tokens and their price."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    credits: int = 0

    def __add__(self, other: Amount) -> Amount:
        return Amount(
            self.calls + other.calls,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.credits + other.credits,
        )

    def __mul__(self, times: int) -> Amount:
        return Amount(
            self.calls * times,
            self.input_tokens * times,
            self.output_tokens * times,
            self.credits * times,
        )

    def share(self, part: int, whole: int) -> Amount:
        """Take a part of it, rounded up."""
        return Amount(
            -(-self.calls * part // whole),
            -(-self.input_tokens * part // whole),
            -(-self.output_tokens * part // whole),
            -(-self.credits * part // whole),
        )

    def as_dict(self) -> dict[str, int]:
        return {
            "calls": self.calls,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "credits": self.credits,
        }


def add_up(amounts: Iterable[Amount]) -> Amount:
    """Add amounts up."""
    return sum(amounts, start=Amount())


@dataclass(frozen=True, slots=True)
class Figures:
    """What is reckoned for some calls.

    `expected` and `worst` are the planned calls, one turn each; in the worst case every document
    is as long as its author may make it. `further` are turns that are expected on top because
    answers are longer than the cap. `continuations` and `retries` bound what can come on top of
    the worst case: every turn and every try that the settings allow.
    """

    expected: Amount = field(default_factory=Amount)
    worst: Amount = field(default_factory=Amount)
    further: Amount = field(default_factory=Amount)
    continuations: Amount = field(default_factory=Amount)
    retries: Amount = field(default_factory=Amount)

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
        """What will be paid if all goes as expected."""
        return self.expected + self.further

    @property
    def ceiling(self) -> Amount:
        """What cannot be exceeded, whatever happens."""
        return self.worst + self.continuations + self.retries

    def as_dict(self) -> dict[str, Any]:
        return {
            "planned_calls": self.planned_calls,
            "expected": self.expected.as_dict(),
            "worst": self.worst.as_dict(),
            "expected_continuations": self.further.as_dict(),
            "bound": {
                "continuations": self.continuations.as_dict(),
                "retries": self.retries.as_dict(),
                "ceiling": self.ceiling.as_dict(),
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

    @property
    def key(self) -> LineKey:
        return (self.stage_slug, self.output_type, self.model_index)


@dataclass(frozen=True, slots=True)
class Duration:
    """How long something takes, as far as one can tell."""

    expected_s: float = 0.0
    worst_s: float = 0.0

    def __add__(self, other: Duration) -> Duration:
        return Duration(self.expected_s + other.expected_s, self.worst_s + other.worst_s)

    def as_dict(self) -> dict[str, float]:
        return {"expected": round(self.expected_s, 1), "worst": round(self.worst_s, 1)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """What is still to be done, in lines; how long each stage adds; what the sizes rest on."""

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

    def only(self, *, is_play: bool) -> Quote:
        """Keep what is paid in money, or in play money."""
        return replace(self, lines=tuple(ln for ln in self.lines if ln.is_play is is_play))

    def list_stages(self) -> Iterator[tuple[str, tuple[Line, ...]]]:
        """Tell stages with their lines, in order."""
        for slug, lines in itertools.groupby(self.lines, key=lambda line: line.stage_slug):
            yield slug, tuple(lines)

    def as_dict(self) -> dict[str, Any]:
        """Build the quote as programs read it. Credits are millionths of a US dollar."""
        return {
            "process": self.process_name,
            "models": list(self.models),
            **self.figures.as_dict(),
            "money": self.money(),
            "time_s": self.duration.as_dict(),
            "learned_from": {"here": self.documents_here, "earlier": self.documents_earlier},
            "stages": [self._describe_stage(slug, lines) for slug, lines in self.list_stages()],
        }

    def money(self) -> dict[str, Any]:
        """Tell dollars from play money."""
        paid, played = (self.only(is_play=is_play).figures for is_play in (False, True))
        return {
            "is_play_money": all(line.is_play for line in self.lines),
            "expected_usd": paid.likely.credits / CREDITS_PER_USD,
            "worst_usd": paid.worst.credits / CREDITS_PER_USD,
            "ceiling_usd": paid.ceiling.credits / CREDITS_PER_USD,
            "expected_play_credits": played.likely.credits,
        }

    def _describe_stage(self, slug: str, lines: tuple[Line, ...]) -> dict[str, Any]:
        return {
            "stage_slug": slug,
            **add_figures(lines).as_dict(),
            "time_s": self.durations.get(slug, Duration()).as_dict(),
            "steps": [_describe_step(name, some) for name, some in list_steps(lines)],
        }


def list_steps(lines: Iterable[Line]) -> Iterator[tuple[str, tuple[Line, ...]]]:
    """Tell the steps of a stage with their lines, in order."""
    for name, some in itertools.groupby(lines, key=lambda line: line.step_name):
        yield name, tuple(some)


def add_figures(lines: Iterable[Line]) -> Figures:
    """Add the figures of lines up."""
    return sum((line.figures for line in lines), start=Figures())


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


# -- while it runs --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a run has cost so far, and what the rest of it is expected to."""

    spent: Amount
    rest: Amount

    @property
    def whole(self) -> Amount:
        return self.spent + self.rest

    def as_dict(self) -> dict[str, Any]:
        return {
            "spent": self.spent.as_dict(),
            "rest": self.rest.as_dict(),
            "whole": self.whole.as_dict(),
        }


def build_forecast(quote: Quote, done: Mapping[LineKey, Amount]) -> Forecast:
    """Hold what was done against a quote: actual so far, and of each line the expected rest."""
    rest = [
        line.figures.likely.share(
            max(0, line.figures.planned_calls - done.get(line.key, Amount()).calls),
            line.figures.planned_calls,
        )
        for line in quote.lines
        if line.figures.planned_calls
    ]
    return Forecast(add_up(done.values()), add_up(rest))
