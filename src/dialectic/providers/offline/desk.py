"""What lies on the table while one document is written: voice, brief, dice, and what was used.

Deals sentences without repeating itself and hands out each statement of a source once. Knows the
pieces of markdown, but not which section needs which.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from random import Random

from dialectic.providers.offline.language import stems_of
from dialectic.providers.offline.reading import Brief, Milestone, Point, Source
from dialectic.providers.offline.voices import Voice


class Desk:
    """The state of one composition."""

    def __init__(self, voice: Voice, brief: Brief, rng: Random, sections: int) -> None:
        self.voice, self.brief, self.rng = voice, brief, rng
        self.items = 5 if sections <= 4 else 4 if sections <= 7 else 3
        self.written: set[str] = set()
        self._quoted: set[str] = set()
        self._decks: dict[tuple[str, ...], list[str]] = {}
        self._turn = 0
        # Each voice dwells on other phrases, but none may miss the three that matter most.
        rest = list(brief.phrases[3:])
        rng.shuffle(rest)
        self._phrases = [*brief.phrases[:3], *rest]
        self._goal = stems_of(" ".join([*brief.phrases, *brief.limits]))
        self.milestones = self._choose_milestones()

    def _choose_milestones(self) -> list[Milestone]:
        """Take over the milestones of the sources; plan new ones where there are none."""
        own = [Milestone(*self.fill(row).split(" | ")) for row in self.voice.milestones]
        given: dict[str, Milestone] = {}
        for stone in (stone for source in self.brief.sources for stone in source.milestones):
            given.setdefault(stone.name, stone)
        return [
            Milestone(m.name, m.goal or f"complete “{m.name}”", m.acceptance or like.acceptance)
            for m, like in zip(list(given.values())[:6], itertools.cycle(own), strict=False)
        ] or own

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
                p=upper(topic) if template.startswith("**") else self.name(topic),
                q=self.name(others[self._turn % len(others)]),
                u=self.rng.choice(self.brief.people),
            )
        )

    def name(self, phrase: str) -> str:
        """Write a phrase as part of a sentence; one in another language only as a quotation."""
        if phrase == self.brief.short:
            return phrase
        if not self.brief.english:
            return f"“{phrase}”"
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
        near = [(len(stems_of(p) & stems) / len(stems_of(p)), p) for p in self.brief.phrases]
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
        self._quoted.update(text for _, text in taken)
        return taken

    def _rank(self, source: Source, kinds: Sequence[str], *, strictly: bool) -> list[Point]:
        fresh = [point for point in source.points if point.text not in self._quoted]
        fitting = [point for point in fresh if point.kind in kinds] or ([] if strictly else fresh)
        return sorted(fitting, key=lambda point: -len(point.stems & self._goal))


def join(items: Sequence[str]) -> str:
    """List items in a sentence."""
    return " and ".join(filter(None, [", ".join(items[:-1]), *items[-1:]]))


def upper(text: str) -> str:
    """Begin a sentence with a text."""
    return text[:1].upper() + text[1:]


def lower(text: str) -> str:
    """Go on in a sentence with a text."""
    return text[:1].lower() + text[1:]


def bullets(items: Iterable[str]) -> str:
    """Build a markdown list."""
    return "\n".join(f"- {item}" for item in items)


def numbered(items: Iterable[str]) -> str:
    """Build a numbered markdown list."""
    return "\n".join(f"{number}. {item}" for number, item in enumerate(items, 1))


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Build a markdown table."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
