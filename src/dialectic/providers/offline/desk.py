"""What lies on the table while one document is written: voice, brief, dice, and what was used.

Deals sentences without repeating itself and hands out each statement of a source once. Knows
neither the pieces of markdown nor which section needs what.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from random import Random

from dialectic.providers.offline.language import stems_of
from dialectic.providers.offline.markdown import CLOSE, OPEN, join, upper
from dialectic.providers.offline.reading import Brief, Milestone, Point, Source, Wanted
from dialectic.providers.offline.ruling import Ruling, rule_on_criticism
from dialectic.providers.offline.voices import Voice

MILESTONES_MAX = 6
# Statements of these kinds are about the text that holds them, not about the work.
UNQUOTED = frozenset(("questions", "taken", "refused", "decisions", "doubts", "claims"))


class Desk:
    """The state of one composition."""

    def __init__(
        self, voice: Voice, brief: Brief, rng: Random, wanted: Sequence[Wanted] = ()
    ) -> None:
        self.voice, self.brief, self.rng = voice, brief, rng
        self.kinds = frozenset(section.kind for section in wanted)
        self.items = 5 if len(wanted) <= 4 else 4 if len(wanted) <= 7 else 3
        self.written: set[str] = set()
        self.requirements: list[str] = []
        self.feedback_steps: dict[str, int] = {}  # what was asked for -> the step that does it
        self._quoted: set[str] = set()
        self._places: dict[str, float] = {}
        self._decks: dict[tuple[str, ...], list[str]] = {}
        self._turn = 0
        # Each voice dwells on other phrases, but none may miss the three that matter most.
        rest = list(brief.phrases[3:])
        rng.shuffle(rest)
        self._phrases = [*brief.phrases[:3], *rest]
        self._stems = {phrase: stems_of(phrase) for phrase in brief.phrases}
        self.goal = stems_of(" ".join([*brief.phrases, *brief.limits]))
        self.cares = stems_of(voice.cares)
        self.dropped_milestones: list[tuple[str, str]] = []
        self.followed = ""
        self.milestones = self._choose_milestones()

    def _choose_milestones(self) -> list[Milestone]:
        """Follow one plan of the sources and add what only others have; plan where there is none.

        The plan that is followed has the most milestones that others have too.
        """
        own = [Milestone(*self.fill(row).split(" | ")) for row in self.voice.milestones]
        plans = [source for source in self.brief.sources if source.milestones]
        if not plans:
            return own
        base = max(plans, key=lambda plan: self._support(plan, plans))
        self.followed = base.label
        chosen = list(base.milestones[:MILESTONES_MAX])
        known = [stems_of(stone.name) for stone in chosen]
        for plan in plans:
            for stone in plan.milestones:
                stems = stems_of(stone.name)
                if any(alike(stems, other) for other in known):
                    continue
                known.append(stems)
                if len(chosen) < MILESTONES_MAX:
                    chosen.insert(-1, stone)
                else:
                    self.dropped_milestones.append((plan.label, stone.name))
        return [
            replace(
                stone,
                goal=stone.goal or f"complete “{stone.name}”",
                acceptance=stone.acceptance or like.acceptance,
            )
            for stone, like in zip(chosen, itertools.cycle(own), strict=False)
        ]

    def _support(self, plan: Source, plans: Sequence[Source]) -> float:
        """Count the milestones of a plan that others have too; then what this voice cares for."""
        others = {stone.name for other in plans if other is not plan for stone in other.milestones}
        shared = sum(stone.name in others for stone in plan.milestones)
        return 1_000 * shared + self.weigh(plan.stems) + self.rng.random()

    @functools.cached_property
    def rulings(self) -> list[Ruling]:
        """What becomes of each criticism, decided once for the whole document."""
        return rule_on_criticism(
            self.brief,
            lambda stems: self.weigh(stems) + self.rng.random(),
            lambda claim: self.deal(self.voice.mend, self.topic_of(claim)),
        )

    def phrase(self) -> str:
        self._turn += 1
        return self._phrases[(self._turn - 1) % len(self._phrases)]

    def leading(self, count: int) -> list[str]:
        return self._phrases[:count]

    def deal(self, options: tuple[str, ...], phrase: str = "") -> str:
        """Take the next option of a shuffled table, with its slots filled."""
        deck = self._decks.setdefault(options, [])
        if not deck:
            deck.extend(self.rng.sample(options, len(options)))
        return self.fill(deck.pop(), phrase)

    def fill(self, template: str, phrase: str = "") -> str:
        topic = phrase or self.phrase()
        others = [other for other in self._phrases if other != topic] or [topic]
        return upper(
            template.format(
                it=self.brief.short,
                p=upper(topic) if template.startswith("**{p}") else self.name(topic),
                q=self.name(others[self._turn % len(others)]),
                u=self.rng.choice(self.brief.people),
            )
        )

    def name(self, phrase: str) -> str:
        """Write a phrase as part of a sentence; one in another language only as a quotation."""
        if phrase == self.brief.short:
            return phrase
        if not self.brief.english:
            return f"{OPEN}{phrase}{CLOSE}"
        bare = phrase[0].isupper() or phrase.split()[0].endswith("ing")
        return phrase if bare else f"the {phrase}"

    def names(self, count: int) -> str:
        return join([self.name(phrase) for phrase in self.brief.phrases[:count]])

    def stances(self, count: int) -> list[str]:
        return [self.deal(self.voice.stance) for _ in range(count)]

    def rows(self, table: tuple[str, ...], count: int) -> list[list[str]]:
        return [self.deal(table).split(" | ") for _ in range(min(count, len(table)))]

    def topic_of(self, text: str) -> str:
        """Find the key phrase a statement is about, if it is about any."""
        stems = stems_of(text)
        near = [(len(own & stems) / max(1, len(own)), p) for p, own in self._stems.items()]
        share, phrase = max(near, key=lambda pair: pair[0])
        return phrase if share > 0 else self.brief.short

    def take(
        self, kinds: Sequence[str], count: int, *, strictly: bool = False
    ) -> list[tuple[str, str]]:
        """Choose statements not quoted yet, each source in turn, with a liking for these kinds."""
        ranked = [(s.label, self._rank(s, kinds, strictly=strictly)) for s in self.brief.sources]
        in_turn = [
            (label, points[place].text)
            for place in range(count)
            for label, points in ranked
            if place < len(points)
        ]
        taken = in_turn[: max(count, min(len(ranked), 6))]
        self.use(text for _, text in taken)
        return taken

    def statement(self, kinds: Sequence[str]) -> str:
        """Take over one statement of the sources as it is; in their absence, the voice's own."""
        best = [
            ranked[0] for s in self.brief.sources if (ranked := self._rank(s, kinds, strictly=True))
        ]
        if not best:
            return self.deal(self.voice.stance).replace("**", "")
        chosen = min(best, key=self._place).text
        self.use([chosen])
        return chosen

    def use(self, texts: Iterable[str]) -> None:
        """Remember statements as quoted, so that no section repeats them."""
        self._quoted.update(texts)

    def is_used(self, text: str) -> bool:
        return text in self._quoted

    def _rank(self, source: Source, kinds: Sequence[str], *, strictly: bool) -> list[Point]:
        fresh = [
            point
            for point in source.points
            if point.text not in self._quoted and point.part not in UNQUOTED
        ]
        if source.is_critique and self.brief.task == "merge":
            # What it objects to was ruled on; what it recommends is a point of its own.
            advises = any(point.part == "verdict" for point in source.points)
            fresh = [point for point in fresh if point.part == "verdict" or not advises]
        fitting = [p for p in fresh if p.kind in kinds or p.part in kinds]
        fitting = fitting or ([] if strictly else fresh)
        return sorted(fitting, key=self._place)

    def _place(self, point: Point) -> float:
        """Place a statement among others, the weightiest first; dice decide between equals."""
        if point.text not in self._places:
            self._places[point.text] = -self.weigh(point.stems) - 2 * self.rng.random()
        return self._places[point.text]

    def weigh(self, stems: frozenset[str]) -> float:
        """Weigh a statement: what the request is about, and what this voice cares for."""
        return len(stems & self.goal) + 2 * len(stems & self.cares)


def alike(a: frozenset[str], b: frozenset[str]) -> bool:
    """Tell whether two statements are about the same, by the share of their words."""
    return len(a & b) * 2 > len(a | b)
