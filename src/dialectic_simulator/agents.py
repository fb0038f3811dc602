"""Agents without a language model: they carry the points of a world through any prompt. Pure.

What an agent knows, it has read in its prompt. Asked for a proposal, it states points; shown a
text to criticise, it objects to some of them; shown texts to merge, it keeps, drops or forgets
each. Around its points stands what an offline model writes for the same prompt without them, so an
answer has the form that its prompt asks for. Knows no wire.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StrictFloat, StrictInt

from dialectic.providers.offline.reading import split_blocks
from dialectic_simulator.world import PlantedPoint, Reading, World, count_forms

Share = Annotated[StrictInt | StrictFloat, Field(ge=0, le=1)]

REASONS = (
    "it contradicts what the request says",
    "nothing shows that it is so",
    "the figures do not add up",
    "it costs more than it gives",
)
# Headings, in lower case, under which an objection or a rejected point stands.
OBJECTIONS = ("critique", "objections", "criticism", "weaknesses", "risks")
REJECTIONS = ("rejected points", "points refused", "left out on purpose", "rejected", "refused")
# Sections that state nothing of their own.
ASIDES = (*REJECTIONS, "summary", "points taken", "open questions", "ranking")
# The labels of what a second look shows.
LOOKED_AT, PASSED_OVER = "Document", "Points passed over"
_HEADING = re.compile(r"^#{2,6} +(.*?)[ #:]*$")
_INPUT = re.compile(r"(?i)\b(?:request|context|feedback|resource|rulings?)\b")


class Rule(enum.StrEnum):
    """What a merge does with a point that some of its sources reject."""

    VOTE = "vote"  # drops it by the share of those that reject it
    UNION = "union"  # keeps it while one source states it
    ANY = "any"  # drops it as soon as one source rejects it


class WorldSettings(BaseModel):
    """The section `[world]` of a script."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    points: Annotated[StrictInt, Field(ge=1, le=count_forms())] = 60
    # The share of points that are wrong, and of those that only one agent may know.
    wrong: Share = 0.2
    lone: Share = 0.0


class Agent(BaseModel):
    """The section `[agents.NAME]` of a script: how the models of that name behave."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    # The share of the points that its proposal states.
    knows: Share = 0.5
    # What its critique objects to: of the wrong points, and of the right ones.
    notices: Share = 0.6
    misjudges: Share = 0.05
    # What its merge keeps of the points that no source rejects.
    keeps: Share = 0.8
    # How often it states a point in another wording.
    rewords: Share = 0.7
    rule: Rule = Rule.VOTE
    # How surely its merge drops a point that all sources reject.
    drops: Share = 0.8


@dataclass(frozen=True, slots=True)
class Decision:
    """The points of an answer: stated, and rejected or objected to; each in its wording."""

    states: Mapping[str, str]
    rejects: Mapping[str, str]


@dataclass(frozen=True)
class Mind:
    """One agent at one prompt."""

    world: World
    agent: Agent
    # Its place among the entries of `[agents]`.
    place: int
    chance: Random

    def answer(self, task: str, filler: str) -> str:
        """Write its points into a text of the form that the task asks for."""
        blocks = dict(split_blocks(task)[0])
        if LOOKED_AT in blocks and PASSED_OVER in blocks:
            return self._look_again(blocks[LOOKED_AT], blocks[PASSED_OVER], filler)
        decision = self.decide(task, filler)
        return write_points(filler, decision, self.chance)

    def _look_again(self, document: str, passed_over: str, filler: str) -> str:
        """Answer a second look: add what the document lost, but not what it rejects."""
        rejects = self.world.read(document).rejects
        added: list[str] = []
        left: list[str] = []
        for line in passed_over.split("\n"):
            number, _, said = line.partition(" ")
            found = self.world.read(said)
            wanted = [each for each in found.states if each not in rejects]
            kept = [each for each in wanted if self.chance.random() < self.agent.keeps]
            added += (
                f"- {self._word(self.world.by_id[each], found.states[each])}" for each in kept
            )
            if (found.states or found.rejects) and not kept:
                left.append(f"- {number}: The reason is that {self.chance.choice(REASONS)}.")
        titles = [mark[1] for line in document.split("\n") if (mark := _HEADING.match(line))]
        place = next((title for title in titles if title.lower() not in ASIDES), "Added")
        return write_look(filler, place, added, left)

    def decide(self, task: str, filler: str) -> Decision:
        """Decide which points the answer states and which it rejects."""
        if (looked := self._look_again(task)) is not None:
            return looked
        sources = self._read_sources(task)
        if not any(one.states or one.rejects for one in sources):
            return self._propose()
        return self._criticise(sources) if is_critique(filler) else self._merge(sources)

    def _read_sources(self, task: str) -> list[Reading]:
        """Read the documents of a prompt: all blocks but the request and what came with it."""
        blocks, _ = split_blocks(task)
        return [self.world.read(text) for label, text in blocks if not _INPUT.search(label)]

    def _look_again(self, task: str) -> Decision | None:
        """Decide about what a document passes over; None if the prompt does not show that."""
        blocks = dict(split_blocks(task)[0])
        document, passed = blocks.get("Document"), blocks.get("Points passed over")
        if document is None or passed is None:
            return None
        known, shown = self.world.read(document), self.world.read(passed)
        kept = [
            number
            for number in sorted(shown.states)
            if number not in known.states and self.chance.random() < self.agent.keeps
        ]
        rejects = {number: shown.states[number] for number in kept if number in known.rejects}
        states = {n: self._word(self.world.by_id[n], shown.states[n]) for n in kept}
        return Decision({n: said for n, said in states.items() if n not in rejects}, rejects)

    def _propose(self) -> Decision:
        known = [
            point
            for point in self.world.points
            if point.owner in (None, self.place) and self.chance.random() < self.agent.knows
        ]
        return Decision({point.id: self._word(point) for point in known}, {})

    def _criticise(self, sources: Sequence[Reading]) -> Decision:
        rejects: dict[str, str] = {}
        for number, wording in _merge_dicts(one.states for one in sources).items():
            is_wrong = self.world.by_id[number].is_wrong
            rate = self.agent.notices if is_wrong else self.agent.misjudges
            if self.chance.random() < rate:
                rejects[number] = wording
        return Decision({}, rejects)

    def _merge(self, sources: Sequence[Reading]) -> Decision:
        states: dict[str, str] = {}
        stated = _merge_dicts(one.states for one in sources)
        rejects = dict(_merge_dicts(one.rejects for one in sources))
        for number, wording in sorted(stated.items()):
            if self._drops(number, sources):
                rejects.setdefault(number, wording)
            elif self.chance.random() < self.agent.keeps:
                states[number] = self._word(self.world.by_id[number], wording)
        return Decision(states, {each: rejects[each] for each in rejects if each not in states})

    def _drops(self, number: str, sources: Sequence[Reading]) -> bool:
        """Decide about a point by the sources that state it and those that reject it."""
        # A source that states a point and lists it as rejected, too, has kept it.
        having = sum(number in one.states for one in sources)
        against = sum(number in one.rejects and number not in one.states for one in sources)
        if not against:
            return False
        critics = sum(not one.states for one in sources)
        # One text and its critiques: only the critics have judged the point.
        is_reviewed = len(sources) - critics == 1
        share = against / critics if is_reviewed else against / (against + having)
        weight = {Rule.VOTE: share, Rule.UNION: float(share == 1), Rule.ANY: 1.0}[self.agent.rule]
        return self.chance.random() < self.agent.drops * weight

    def _word(self, point: PlantedPoint, known: str = "") -> str:
        """Choose a wording: that of the source, or another one."""
        others = [each for each in point.wordings if each != known]
        return (
            self.chance.choice(others)
            if not known or self.chance.random() < self.agent.rewords
            else known
        )


def is_critique(filler: str) -> bool:
    """Tell whether a document criticises: its headings ask for objections and no rejections."""
    titles = [found[1].lower() for line in filler.split("\n") if (found := _HEADING.match(line))]
    return "critique" in titles and not any(title in REJECTIONS for title in titles)


def _merge_dicts(readings: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Merge what several texts say about points; the first wording counts."""
    found: dict[str, str] = {}
    for reading in readings:
        for number, wording in reading.items():
            found.setdefault(number, wording)
    return found


# -- writing --------------------------------------------------------------------------------------


def write_points(filler: str, decision: Decision, chance: Random) -> str:
    """Write points into a document, each in a place of its own.

    Rejected points are written only where the document has a section for them, as its prompt asked.
    """
    lines = filler.split("\n")
    titles = _list_titles(lines)
    added: dict[int, list[str]] = {}
    places = [
        number
        for number, line in enumerate(lines)
        if not line.strip() and titles[number] and titles[number] not in ASIDES
        if number + 1 < len(lines) and not lines[number + 1].startswith((" ", "|", "-", "\t"))
    ]
    places = places or [len(lines) - 1]
    for wording in decision.states.values():
        added.setdefault(chance.choice(places), []).append(_dress(wording, chance))
    headings = OBJECTIONS if is_critique(filler) else REJECTIONS
    home = next((n for each in headings for n, title in enumerate(titles) if title == each), None)
    if home is not None:
        added.setdefault(home, []).extend(
            f"{QUOTE.format(wording)}: {chance.choice(REASONS)}."
            for wording in decision.rejects.values()
        )
    for number, blocks in added.items():
        lines[number] += "".join(f"\n\n{block}" for block in blocks) + "\n"
    return "\n".join(lines)


QUOTE = "- “{}”"


def write_look(filler: str, place: str, added: Sequence[str], left: Sequence[str]) -> str:
    """Write the answer to a second look: additions below one heading, and what is left out."""
    head, mark, tail = filler.partition("## Left out on purpose")
    if added:
        head = f"{head.rstrip()}\n\n### {place}\n\n" + "\n".join(added) + "\n\n"
    if left:
        tail = f"{tail.rstrip()}\n\n" + "\n".join(left) + "\n"
    return head + mark + tail


def _list_titles(lines: Sequence[str]) -> list[str]:
    """List the heading above each line, in lower case; the subheadings of an aside belong to it."""
    titles: list[str] = []
    title, aside_level = "", 0
    for line in lines:
        if found := _HEADING.match(line):
            level, name = len(line) - len(line.lstrip("#")), found[1].lower()
            if not aside_level or level <= aside_level:
                aside_level = level if name in ASIDES else 0
                title = name
        titles.append(title)
    return titles


def _dress(wording: str, chance: Random) -> str:
    """Write a point as a sentence, as an entry of a list or as a row of a table."""
    match chance.choice(("sentence", "item", "row")):
        case "item":
            return f"- **{wording}**"
        case "row":
            return f"| point | note |\n|---|---|\n| {wording} | noted |"
        case _:
            return wording
