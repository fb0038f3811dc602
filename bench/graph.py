"""The whole dialectic as a graph of calls, with drawn latencies, and how long it must take. Pure.

A call may begin when its own inputs exist. The critical path is the longest chain of calls: what a
run takes at the least, whoever carries it out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

SPREAD = 0.5  # of a log-normal distribution: one call in twenty takes over twice the median


@dataclass(frozen=True)
class Call:
    """One call: what it writes, who makes it, which of that model's it is, and what it reads."""

    key: str
    needs: tuple[str, ...]
    # Its place among the steps of the process, for those who wait for each step as a whole.
    level: int
    latency_s: float


def name_call(kind: str, model: int, rank: int = 1) -> str:
    return f"{kind}/{model}/{rank}"


def list_calls(models: int) -> list[tuple[int, str, list[str]]]:
    """List level, key and needs of every call of the standard process."""
    each = range(1, models + 1)
    pairs = [(thesis, critic) for thesis in each for critic in each]
    everyone = {kind: [name_call(kind, m) for m in each] for kind in ("synthesis", "parenthesis")}
    reduced = [name_call("reduced_synthesis", m, thesis) for m in each for thesis in each]
    found: list[tuple[int, str, list[str]]] = []
    for model in each:
        found.append((1, name_call("thesis", model), []))
        for thesis in each:
            found.append((2, name_call("antithesis", model, thesis), [name_call("thesis", thesis)]))
            own = [rank for rank, pair in enumerate(pairs, start=1) if pair[0] == thesis]
            merged = [name_call("pairwise_synthesis_chunk", model, rank) for rank in own]
            found.append((4, name_call("reduced_synthesis", model, thesis), merged))
        for rank, (thesis, critic) in enumerate(pairs, start=1):
            needs = [name_call("thesis", thesis), name_call("antithesis", critic, thesis)]
            found.append((3, name_call("pairwise_synthesis_chunk", model, rank), needs))
        found.append((5, name_call("synthesis", model), reduced))
        found.append((6, name_call("parenthesis", model), everyone["synthesis"]))
        found.append((7, name_call("paralysis", model), everyone["parenthesis"]))
    return sorted(found)


def draw_calls(models: int, *, median_s: float, seed: int) -> list[Call]:
    """Draw how long each call takes; those of one seed are the same for everybody."""

    def draw(key: str) -> float:
        return median_s * Random(f"{seed}:{key}").lognormvariate(0.0, SPREAD)

    return [Call(key, tuple(needs), level, draw(key)) for level, key, needs in list_calls(models)]


def find_critical_path_s(calls: Sequence[Call]) -> float:
    """Find how long the longest chain of calls takes. They come in the order of their levels."""
    ends: dict[str, float] = {}
    for call in calls:
        ends[call.key] = call.latency_s + max((ends[need] for need in call.needs), default=0.0)
    return max(ends.values())


def find_stepwise_s(calls: Sequence[Call]) -> float:
    """Find how long it takes at the least if each step waits for all of the one before it."""
    slowest: dict[int, float] = {}
    for call in calls:
        slowest[call.level] = max(slowest.get(call.level, 0.0), call.latency_s)
    return sum(slowest.values())


def as_options(calls: Sequence[Call]) -> list[Mapping[str, Any]]:
    """Build what a contender's process is told."""
    return [vars(call) for call in calls]


def read_calls(options: Sequence[Mapping[str, Any]]) -> list[Call]:
    return [Call(o["key"], tuple(o["needs"]), o["level"], o["latency_s"]) for o in options]
