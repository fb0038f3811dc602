"""A world of planted points: what is right and wrong in it, and where a text states or rejects it.

A point is one statement in four wordings. A text states a point by one of its wordings, and objects
to it or rejects it by the same wording in quotation marks. So a text shows which points it states
and which it rejects, whatever surrounds them. Pure: the seed decides everything.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from dialectic.core.strict_json import JsonObject

QUOTED = "“"
# The lists of forms that a world is drawn from; the others serve to test alignment alone.
ENGLISH = ("facts", "ideas")
NAMES = (
    "Ada Bell,Ben Carver,Cora Dunn,Dov Ellis,Edda Frost,Finn Gray,Gita Holm,Hugo Ives,Iris Jansen,"
    "Jonas Kerr,Klara Lind,Liam Moss,Mara Noll,Nils Orr,Olga Pike,Pavel Quist,Rosa Reed,Sven Stone,"
    "Tove Tate,Ugo Urban,Vera Voss,Wim Ward,Yara York,Zeno Zand"
).split(",")
FIGURE_MIN, FIGURE_MAX = 11, 989


@functools.cache
def load_forms() -> dict[str, tuple[tuple[str, ...], ...]]:
    """Load the wordings of all points, with places for a figure and a name."""
    content = tomllib.loads((Path(__file__).parent / "point_forms.toml").read_text("utf-8"))
    return {name: tuple(tuple(form) for form in forms) for name, forms in content.items()}


def count_forms() -> int:
    """Count the points that a world can have: two of one form would contradict each other."""
    return sum(len(load_forms()[name]) for name in ENGLISH)


@dataclass(frozen=True, slots=True)
class PlantedPoint:
    """One point of the world."""

    id: str
    wordings: tuple[str, ...]
    is_wrong: bool
    # The only entry of `[agents]` that may know it, by its place; None: all may.
    owner: int | None


@dataclass(frozen=True, slots=True)
class Reading:
    """The points of a text, each with the wording in which it stands there."""

    states: Mapping[str, str]
    rejects: Mapping[str, str]


@dataclass(frozen=True)
class World:
    """All points, found by their ids and by their wordings."""

    points: tuple[PlantedPoint, ...]

    @functools.cached_property
    def by_id(self) -> dict[str, PlantedPoint]:
        return {point.id: point for point in self.points}

    def read(self, text: str) -> Reading:
        """Find the points that a text states and those that it rejects or objects to."""
        states: dict[str, str] = {}
        rejects: dict[str, str] = {}
        for point, wording in self._list_wordings():
            at = text.find(wording)
            while at >= 0:
                is_quoted = text[max(0, at - 1) : at] == QUOTED
                (rejects if is_quoted else states).setdefault(point.id, wording)
                at = text.find(wording, at + 1)
        return Reading(states, rejects)

    def remove_points(self, text: str) -> str:
        """Remove every line with a point: what is left knows nothing of this world."""
        wordings = [wording for _, wording in self._list_wordings() if wording in text]
        lines = text.split("\n")
        return "\n".join(line for line in lines if not any(each in line for each in wordings))

    def _list_wordings(self) -> Iterator[tuple[PlantedPoint, str]]:
        return ((point, wording) for point in self.points for wording in point.wordings)

    def as_json(self) -> list[JsonObject]:
        return [
            {"id": point.id, "is_wrong": point.is_wrong, "wordings": list(point.wordings)}
            for point in self.points
        ]


def draw_world(
    seed: int, *, points: int, wrong: float, lone: float = 0.0, owners: int = 1
) -> World:
    """Draw a world: which points it has, which are wrong, and which only one agent may know."""
    chance = Random(f"world {seed}")
    forms = list(itertools.chain.from_iterable(load_forms()[name] for name in ENGLISH))
    chance.shuffle(forms)
    figures = chance.sample(range(FIGURE_MIN, FIGURE_MAX), points)
    is_wrong = _mark(chance, points, wrong)
    # Right and wrong points are dealt apart, so that each agent gets its share of both.
    is_lone = _mark(chance, points, lone)
    turns = {True: itertools.count(), False: itertools.count()}
    return World(
        tuple(
            PlantedPoint(
                id=f"p{number + 1:02}",
                wordings=_fill(forms[number], figures[number], chance.choice(NAMES)),
                is_wrong=is_wrong[number],
                owner=next(turns[is_wrong[number]]) % owners if is_lone[number] else None,
            )
            for number in range(points)
        )
    )


def _mark(chance: Random, count: int, share: float) -> list[bool]:
    """Mark this share of a number of things."""
    marked = set(chance.sample(range(count), round(share * count)))
    return [number in marked for number in range(count)]


def _fill(form: Sequence[str], figure: int, who: str) -> tuple[str, ...]:
    return tuple(wording.format(n=figure, who=who) for wording in form)


def hash_text(text: str) -> str:
    """Hash the words of a text; blanks and line ends do not count."""
    return hashlib.sha256(" ".join(text.split()).encode()).hexdigest()
