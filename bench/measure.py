"""What a measure is, and how the rounds of it become figures. Pure but for the contenders' runs."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from bench.server import Server

# What one contender yields in one round: samples by metric. A single figure is a list of one.
Samples = Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class Failure:
    """A contender that could not be measured in one round, and why."""

    reason: str


Round = Mapping[str, Samples | Failure]


@dataclass(frozen=True)
class Contender:
    """One row of the table."""

    name: str
    run: Callable[[Server], Samples]


@dataclass(frozen=True)
class Column:
    """One figure: a quantile of a metric in each round, then the median of the rounds.

    A pooled column is the quantile of the samples of all rounds: one round has too few for a p99.
    """

    head: str
    metric: str
    quantile: float = 0.5
    pooled: bool = False
    digits: int = 2


@dataclass(frozen=True)
class Verdict:
    """An aim, and whether it was met; None if that could not be told."""

    aim: str
    found: str
    met: bool | None


@dataclass(frozen=True)
class Measure:
    """One table, with the aim it is read for. The first column is the one that ratios are of."""

    name: str
    title: str
    contenders: tuple[Contender, ...]
    columns: tuple[Column, ...]
    judge: Callable[[Figures], list[Verdict]]
    ratios_to: tuple[str, ...] = ()
    # Contenders that mostly wait are run at the same time.
    together: bool = False
    rounds_max: int | None = None
    notes: tuple[str, ...] = field(default=())


def find_quantile(samples: Sequence[float], quantile: float) -> float:
    """Find a quantile by nearest rank: always a value that was seen."""
    ordered = sorted(samples)
    return ordered[max(0, math.ceil(quantile * len(ordered)) - 1)]


@dataclass(frozen=True)
class Figures:
    """The rounds of one measure, ready to be asked."""

    measure: Measure
    rounds: Sequence[Round]

    def samples(self, contender: str, metric: str) -> list[Sequence[float]]:
        """List a contender's samples of a metric by round; rounds without any are left out."""
        found = []
        for one in self.rounds:
            outcome = one.get(contender)
            if outcome is not None and not isinstance(outcome, Failure) and outcome.get(metric):
                found.append(outcome[metric])
        return found

    def value(self, contender: str, column: Column) -> float | None:
        """Compute one cell of the table."""
        rounds = self.samples(contender, column.metric)
        if not rounds:
            return None
        if column.pooled:
            return find_quantile([sample for one in rounds for sample in one], column.quantile)
        if column.quantile == 0.5:
            return statistics.median(statistics.median(one) for one in rounds)
        return statistics.median(find_quantile(one, column.quantile) for one in rounds)

    def ratio(self, contender: str, other: str, column: Column | None = None) -> float | None:
        """Compute how many times another's figure one is: the median of the rounds' own ratios."""
        column = column or self.measure.columns[0]
        pairs = self._pair(contender, other, column)
        ratios = [value / beside for value, beside in pairs if beside]
        return statistics.median(ratios) if ratios else None

    def difference(self, contender: str, other: str, column: Column) -> float | None:
        """Compute how much more than another's figure one is: the median of the rounds' own."""
        pairs = self._pair(contender, other, column)
        return statistics.median(value - beside for value, beside in pairs) if pairs else None

    def _pair(self, contender: str, other: str, column: Column) -> list[tuple[float, float]]:
        """List the figures of two, of those rounds in which both have one."""
        pairs = []
        for one in self.rounds:
            alone = Figures(self.measure, [one])
            value, beside = alone.value(contender, column), alone.value(other, column)
            if value is not None and beside is not None:
                pairs.append((value, beside))
        return pairs

    def failures(self) -> list[str]:
        """List what went wrong."""
        return [
            f"round {number}, {name}: {outcome.reason}"
            for number, one in enumerate(self.rounds, start=1)
            for name, outcome in one.items()
            if isinstance(outcome, Failure)
        ]


def judge_at_most(aim: str, value: float | None, most: float, unit: str) -> Verdict:
    """Judge a figure that should be small."""
    if value is None:
        return Verdict(aim, "not measured", None)
    return Verdict(aim, f"{value:.3g}{unit}", value <= most)


def judge_at_least(aim: str, value: float | None, least: float, unit: str) -> Verdict:
    """Judge a figure that should be large."""
    if value is None:
        return Verdict(aim, "not measured", None)
    return Verdict(aim, f"{value:.3g}{unit}", value >= least)
