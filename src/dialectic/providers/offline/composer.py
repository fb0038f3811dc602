"""Writes the document that answers a prompt, in the voice of one model.

Pure: only the random generator varies, and the caller passes it in. `vocabulary.toml` says what
goes under each kind of heading and how each voice words it; this module decides the content. A
method `each_…` lists the items that a line is repeated for, a method `slot_…` returns the text of
one slot. Sources are quoted word for word with their labels, so that a reader can follow a point
through all stages; a merged proposal speaks of the work alone.
"""

from __future__ import annotations

import functools
import itertools
import json
import re
from collections.abc import Iterator, Mapping
from random import Random

from dialectic.core.documents.offline_notice import NOTICE
from dialectic.providers.offline.evidence import Evidence, covers, end, quote
from dialectic.providers.offline.frames import Item, join
from dialectic.providers.offline.looking import compose_look
from dialectic.providers.offline.reading import (
    VOCABULARY,
    Brief,
    Milestone,
    Source,
    Wanted,
    clip,
    is_limit,
    kind_of,
    read_brief,
    upper,
    words_of,
)

VOICES = {
    name: {key: tuple(text.strip().splitlines()) for key, text in entries.items()}
    for name, entries in VOCABULARY["voices"].items()
}
CRITERIA = ("fit to the request", "concreteness", "feasibility", "attention to risk")
MILESTONES_MAX = 6
# A document that is shorter than asked is written again with more of its sources: the maximum
# number of times, the maximum growth, and a factor for the parts that do not grow.
GROWTHS_MAX, GROWTH_MAX, GROWTH = 2, 6.0, 1.3
DETAILED = 2  # milestones with steps of about a day each


def compose(model: str, system: str, task: str, rng: Random) -> str:
    """Write the whole document that a model gives in answer to a task."""
    if (looked := compose_look(task)) is not None:
        return f"{looked}\n"
    name = model.rpartition("/")[2]
    # A model with another name, such as a small-window test model, borrows a voice.
    borrowed = list(VOICES)[sum(name.encode()) % len(VOICES)]
    voice = VOICES[next((voice for voice in VOICES if voice in name), borrowed)]
    brief, state = read_brief(system, task), rng.getstate()
    text, growth = Composer(voice, brief, rng).write(), 1.0
    for _ in range(GROWTHS_MAX if brief.sources else 0):
        if (words := len(text.split())) >= brief.words_min:
            break
        growth = min(growth * GROWTH * brief.words_min / words, GROWTH_MAX)
        rng.setstate(state)  # the same draft, with more of what the sources say
        text = Composer(voice, brief, rng, growth).write()
    return text


def split_sections(document: str) -> list[str]:
    """Split a document before each level-2 heading; drop the text above the first."""
    return re.split(r"(?m)^(?=## )", document)[1:]


class Composer(Evidence):
    """Writes one document; repeats a sentence or quotation only when it has used all others."""

    def __init__(
        self,
        voice: Mapping[str, tuple[str, ...]],
        brief: Brief,
        rng: Random,
        growth: float = 1.0,
    ) -> None:
        super().__init__(voice, brief, rng)
        self.growth = growth
        self.title, *outline = VOCABULARY["outlines"].get(brief.task, "").split("|")
        self.wanted = brief.wanted or tuple(Wanted(f"## {t}", kind_of(t), "") for t in outline)
        self.kinds = {section.kind for section in self.wanted}
        self.items = 5 if len(self.wanted) <= 4 else 4 if len(self.wanted) <= 7 else 3
        self.has_features = any("F1" in s.note for s in self.wanted)
        self.is_numbered = brief.task == "plan" or any("(R1" in s.note for s in self.wanted)
        self.written: set[str] = set()
        self.steps: dict[str, int] = {}  # what the feedback asks for -> the step that does it
        self.detailed = 0  # milestones of the checklist that is written
        self.labels = [source.label for source in brief.sources]
        self.slots = self.describe_task()

    def describe_task(self) -> dict[str, str]:
        """Describe the request and the inputs in a few words; missing facts are empty."""
        brief, labels = self.brief, join(self.labels[:3])
        limits = [f"“{limit}”" for limit in brief.limits]
        figures = [limit for limit in limits if re.search(r"\d", limit)]
        read = [*self.labels[:6], *([f"{len(self.labels) - 6} more"] if self.labels[6:] else [])]
        stake = f"At stake: {brief.subject}, for {join(brief.people)}."
        firm = f" The request is firm on this: {self.rng.choice(limits)}." if limits else ""
        own = f"Self-critique: {labels} is by the writer of this critique."
        return {
            "it": brief.short,
            "subject": brief.subject,
            "concerned": f"Those concerned: {join(brief.people)}.",
            "need": f"Those concerned: {join(brief.people)}.{firm}",
            "topics": join([str(topic) for topic in self.topics[:3]]),
            "stake": f"{stake} Limits are set: {join(limits[:3])}." if limits else stake,
            "bounds": join(figures[:3]),
            "labels": labels,
            "read": f"Read for this: {join(read)}." if read else "",
            "own_work": own if brief.is_own_work else "",
        }

    def write(self) -> str:
        if self.brief.task == "condense":
            return "\n\n".join([NOTICE, *self.condense()]) + "\n"
        about = join(self.labels[:3]) if self.brief.task == "critique" else ""
        about = about or self.brief.subject
        if self.brief.task == "answer" and about.startswith("“"):
            about = f"the request {about}"
        # If the prompt fixes the headings, a title would be an extra heading.
        title = "" if self.brief.wanted else f"# {self.title}{about}"
        blocks = [title, NOTICE]
        self.used |= self.rejected.keys()  # a rejected point does not come back
        if {"proposal", "taken"} & self.kinds:  # do not quote a dropped point as kept
            self.used |= {r.claim for r in self.rulings if r.effect in ("changed", "dropped")}
            self.used |= {text for text, *_, stays in self.contested if not stays}
        answering = self.find_answering() if self.brief.feedback else None
        for section in self.wanted:
            blocks.append(section.heading)
            blocks += [self.slot_answers()] if section is answering else []
            blocks += self.write_section(section)
            self.written.add(section.kind)
        return "\n\n".join(filter(None, blocks)) + "\n"

    def find_answering(self) -> Wanted | None:
        """Find the section that answers the feedback; none where a line of it does so."""
        if "feedback" in self.kinds or {"checklist", "advisor"} <= self.kinds:
            return None
        answers = (s for s in self.wanted if s.kind in ("summary", "taken", "decisions"))
        return next(answers, self.wanted[0])

    def write_section(self, section: Wanted) -> list[str]:
        if "json" in section.note.lower():
            return [self.write_json(section)]
        frames: dict[str, str] = VOCABULARY["sections"]
        kind = self.choose_frame(section.kind)
        special = f"{self.brief.task}_{kind}" if self.labels or self.has_features else ""
        self.detailed = DETAILED if "detail" in section.note.lower() else 0
        blocks = self.fill_frame(frames.get(special) or frames[kind])
        below = "#" * min(6, section.heading.index(" ") + 1)
        found = blocks or self.fill_frame(frames["general"])
        return [re.sub(r"\A###(?= )", below, block) for block in found]

    def choose_frame(self, kind: str) -> str:
        """Choose one of the frames of a kind of section."""
        criticised = any(source.is_critique for source in self.brief.sources)
        others = {
            "plan": "state" if {"plan", "checklist"} & self.written else "plan",
            "features": "requirements" if self.is_numbered else "features",
            "refused": "refused" if criticised else "left_out",
            "decisions": "decisions" if self.contested else "differs",
        }
        if kind == "masterplan" and ("plan" not in self.kinds or "checklist" in self.written):
            kind = "plan"
        return others.get(kind, kind)

    # What the request says.

    def each_times(self, count: int) -> list[Item]:
        return [{} for _ in range(count)]

    def each_advise(self, count: int = 0) -> list[Item]:
        topics = itertools.islice(self.next_topic, count or self.items)
        return [{"topic": topic.name, "p": str(topic)} for topic in topics]

    def each_own(self, count: int) -> list[Item]:
        return [] if self.said else self.each_advise(count)

    def each_limits(self, count: int = 9) -> list[Item]:
        limits = self.brief.limits
        chosen = self.rng.sample(limits, count) if count < len(limits) else limits
        return [{"limit": limit} for limit in chosen]

    def each_figures(self, count: int) -> list[Item]:
        return [item for item in self.each_limits() if re.search(r"\d", item["limit"])][:count]

    def each_asked(self) -> list[Item]:
        return [{"text": question} for question in self.brief.questions]

    def each_feedback(self) -> list[Item]:
        first = len(self.topics[: self.items]) + 1
        return [
            {"text": clip(text, 160), "f": self.number_feature(number)}
            for number, text in enumerate(self.brief.feedback, first)
        ]

    def each_bounds(self) -> Iterator[Item]:
        """List requirements besides features: limits, then the upkeep of topics; numbers go on."""
        first = len(self.topics[: self.items]) + len(self.brief.feedback) + 1
        bounds = [(f"“{limit}”", "must") for limit in self.brief.limits]
        bounds += [(f"Upkeep of {topic}", "should") for topic in self.topics[:2]]
        for number, (bound, priority) in enumerate(bounds, first):
            yield {"f": self.number_feature(number), "bound": bound, "priority": priority}

    def number_feature(self, number: int) -> str:
        return f"F{number}: " if self.has_features else ""

    def each_features(self) -> Iterator[Item]:
        for place, topic in enumerate(self.topics[: self.items]):
            demanded = is_limit(topic.said)
            leads = place == 0 and not self.brief.limits
            said = "" if demanded or not topic.said else clip(topic.said, 160)
            yield {
                "f": self.number_feature(place + 1),
                "topic": topic.name,
                "priority": "must" if demanded or leads else "should",
                "said": f" The request says: “{said}”" if said else "",
            }

    def each_demands(self) -> list[Item]:
        spoken = " ".join(self.brief.limits)
        demands = [self.fill("{limit}. Kept by {means}.", item) for item in self.each_limits()]
        demands += [end(text) for text in self.brief.feedback if text.rstrip(".!") not in spoken]
        own = [f"A named person looks after {topic}." for topic in self.topics[:3]]
        return [{"text": text} for text in demands or own]

    @functools.cached_property
    def requirements(self) -> list[str]:
        """The requirements, in an order that milestones and feedback refer to by number."""
        if self.base is not None and self.base.requirements:
            kept = self.base.requirements
            return [*kept, *(f"“{text}”" for text in self.asked if text not in " ".join(kept))]
        spoken = " ".join(self.brief.limits)
        demands = [*self.brief.limits, *(text for text in self.asked if text not in spoken)]
        told = words_of(" ".join(demands))
        topics = [topic for topic in self.topics if not words_of(topic.name) <= told] or self.topics
        return [f"“{text}”" for text in demands] + [
            f"A named person looks after {topic}" for topic in topics[: max(2, 6 - len(demands))]
        ]

    def each_requirements(self) -> Iterator[Item]:
        for number, demand in enumerate(self.requirements, 1):
            priority = "must" if demand.startswith("“") else "should"
            yield {"n": str(number), "priority": priority, "demand": demand}

    # Milestones, phases and steps.

    @functools.cached_property
    def base(self) -> Source | None:
        """The source whose numbers are kept, if the prompt names one."""
        return next((s for s in self.brief.sources if s.label == self.brief.base), None)

    @functools.cached_property
    def plan(self) -> Source | None:
        """The source plan to follow: the base, or the one that shares most with the others."""
        if self.base is not None and self.base.milestones:
            return self.base
        plans = [source for source in self.brief.sources if source.milestones]
        names = [stone.name for plan in plans for stone in plan.milestones]
        return max(
            plans,
            key=lambda p: (sum(names.count(s.name) for s in p.milestones), self.weigh(p.words)),
            default=None,
        )

    @functools.cached_property
    def milestones(self) -> list[Milestone]:
        """The milestones of the plan to follow, with some that only others have.

        Without a plan, the voice's own milestones.
        """
        own = [Milestone(*self.word(row).split(" | ")) for row in self.voice["milestones"]]
        chosen = list(self.plan.milestones if self.plan else own)
        known = [words_of(stone.name) for stone in chosen]
        follows = self.plan is not None and self.plan is self.base
        others = () if follows else self.brief.sources
        for stone in (stone for source in others for stone in source.milestones):
            words = words_of(stone.name)
            if len(chosen) < MILESTONES_MAX and not any(_are_alike(words, k) for k in known):
                chosen.insert(-1, stone)
                known.append(words)
        return [
            stone._replace(
                goal=stone.goal or f"complete “{stone.name}”",
                acceptance=stone.acceptance or like.acceptance,
            )
            for stone, like in zip(chosen, itertools.cycle(own), strict=False)
        ]

    def each_milestones(self) -> Iterator[Item]:
        for number, stone in enumerate(self.milestones, 1):
            yield {
                **{name: text for name, text in stone._asdict().items() if text},
                "n": str(number),
                "after": f"milestone {number - 1}" if number > 1 else "nothing",
                "covers": f"\n- Covers: {self.cover(number)}." if self.is_numbered else "",
                "covered": self.cover(number),
                "weeks": str(self.rng.randint(2, 5)),
            }

    def slot_work(self) -> str:
        """Adopt one statement that says what to do; if there is none, use the voice's own."""
        names = {topic.name.lower() for topic in self.topics}
        texts = [p.text for s in self.brief.sources for p in s.points if p.text not in self.used]
        advice = [text for text in texts if text.partition(": ")[0].lower() in names]
        chosen = max(advice, key=lambda text: self.weigh(words_of(text)), default="")
        self.used.add(chosen)
        own = self.fill("{topic!u}: {advice}", self.each_advise(1)[0])
        return (chosen or own).rstrip(".")

    def cover(self, *numbers: int) -> str:
        """Distribute the requirements over the milestones, one milestone each."""
        return join([f"R{n + 1}" for n in self.list_covered(*numbers)])

    def list_covered(self, *numbers: int) -> list[int]:
        total = len(self.requirements)
        mine = [n for n in range(total) if n % len(self.milestones) + 1 in numbers]
        return mine or [numbers[0] % total]

    def each_phases(self) -> Iterator[Item]:
        stones = list(enumerate(self.milestones, 1))
        middle = (len(stones) + 1) // 2
        halves = filter(None, (stones[:middle], stones[middle:]))
        titles = ("Prove the way", "Build and hand over")
        for number, (title, half) in enumerate(zip(titles, halves, strict=False), 1):
            work = [upper(stone.goal) for _, stone in half] + [self.slot_work() for _ in half]
            yield {
                **half[-1][1]._asdict(),
                "n": str(number),
                "title": title,
                "numbers": join([str(n) for n, _ in half]),
                "covered": self.cover(*(n for n, _ in half)),
                "after": f"phase {number - 1}" if number > 1 else "nothing",
                "open": "\n".join(f"- [open] {what}." for what in work),
            }

    def each_checklist(self) -> Iterator[Item]:
        """List the steps of each milestone, numbered throughout; the test comes before the work."""
        number = 0
        for place, stone in enumerate(self.milestones, 1):
            lines: list[str] = []
            for what, accepted, asked in self.list_steps(place, stone):
                hours = self.rng.choice((2, 4, 6, 8))
                lines += (
                    f"- [ ] {number + 1}. {what}",
                    f"  - Covers: {self.cover(place)}",
                    f"  - Depends on: {number or 'nothing'}",
                    f"  - Touches: {next(self.next_topic)}",
                    f"  - Size: about {hours} hours",
                    f"  - Accepted when: {accepted}.",
                )
                number += 1
                self.steps |= {asked: number} if asked else {}
            yield {
                "n": str(place),
                "name": stone.name,
                "goal": stone.goal,
                "covered": self.name_covered(place),
                "context": self.describe_context(stone),
                "steps": "\n".join(lines),
            }

    def describe_context(self, stone: Milestone) -> str:
        """Say what a stranger needs to know before the steps of a milestone."""
        known = f"It is part of {self.brief.subject}, for {join(self.brief.people)}."
        limits = [f"“{limit}”" for limit in self.brief.limits[:2]]
        bound = f" These limits hold: {join(limits)}." if limits else ""
        return f"{known}{bound} It is over when {stone.acceptance}."

    def name_covered(self, place: int) -> str:
        """Name the requirements of a milestone, each in a few words."""
        numbers = self.list_covered(place)
        return join([f"R{n + 1} ({clip(self.requirements[n].strip('“”'), 60)})" for n in numbers])

    def list_steps(self, place: int, stone: Milestone) -> Iterator[tuple[str, str, str]]:
        """List steps with their acceptance, and with the feedback that asks for them."""
        if place <= self.detailed:
            what, accepted = self.deal("steps").split(" | ")
            yield f"{what}.", accepted, ""
        for text in self.brief.feedback if place == 1 else ():
            what = f"Carry out what the feedback asks: “{clip(text.rstrip('.'), 160)}”."
            yield what, "the person who gave the feedback has seen the result", text
        test = f"Write the test for “{stone.name}”: it fails until {stone.acceptance}."
        yield test, "the test runs, fails, and says why", ""
        work = stone.work if stone.work and stone.work not in self.used else self.slot_work()
        self.used.add(work)
        what = f"{upper(stone.goal)}. {upper(work)}."
        yield what, f"{stone.acceptance}, and the test passes", ""
        if place <= self.detailed:
            what = f"Show the result to {self.slot_u()}."
            yield what, "what they said is written next to the test", ""

    def each_plans(self) -> Iterator[Item]:
        """Name for each plan the criterion in which it leads, with a point."""
        sources = self.brief.sources[:8]
        scores = [self.score(source) for source in sources]
        for source, marks in zip(sources, scores, strict=True):
            lead = {c: len(scores) * marks[c] - sum(other[c] for other in scores) for c in CRITERIA}
            best = max(CRITERIA, key=lambda c: (lead[c], marks[c]))
            point = next((p.text for p in source.points if p.text not in self.used), "")
            self.used.add(point)
            shown = f": {quote(source.label, point)}" if point else "."
            yield {"label": source.label, "best": best, "mark": str(marks[best]), "shown": shown}

    def score(self, source: Source) -> dict[str, int]:
        """Compute a score for each criterion from countable features of a source."""
        points, limits = source.points, self.brief.limits
        shares = (
            sum(covers(source, limit) for limit in limits) / max(1, len(limits)),
            4 * sum(re.search(r"\d", p.text) is not None for p in points) / max(1, len(points)),
            3 * sum(p.kind in ("plan", "parts") for p in points) / max(1, len(points)),
            4 * sum(p.kind in ("risks", "gaps") for p in points) / max(1, len(points)),
        )
        return {c: 1 + min(4, round(4 * share)) for c, share in zip(CRITERIA, shares, strict=True)}

    # Single slots.

    def slot_fresh_opening(self) -> str:
        opening = self.deal("opening")
        return "" if opening in self.said else opening

    def slot_dropped(self) -> str:
        known = {stone.name for stone in self.milestones}
        others = [(s.label, m.name) for s in self.brief.sources for m in s.milestones]
        named = [quote(label, name) for label, name in others if name not in known]
        why = " Dropped, since one team cannot follow two orders of work"
        return f"{why}: {join(named[:6])}." if named else " Nothing of the others was dropped."

    def slot_names(self) -> str:
        return join([stone.name for stone in self.milestones])

    def slot_followed(self) -> str:
        return self.plan.label if self.plan else ""

    def slot_met(self) -> str:
        met = (f"“{clip(text, 160)}” is step {number}" for text, number in self.steps.items())
        return "; ".join(met)

    def slot_answers(self) -> str:
        answers = []
        for text, asked in zip(self.brief.feedback, self.asked, strict=True):
            demand = f"“{asked}”"
            answer = "Taken as a limit." if is_limit(text) else "Taken up as a requirement."
            if self.brief.task == "critique":
                answer = "Held against the text in what follows."
            elif self.is_numbered and demand in self.requirements:
                answer = f"Taken up as R{self.requirements.index(demand) + 1}."
            answers.append(f"“{clip(text, 200)}” {answer}")
        # One paragraph: a list would run together with a list that follows it.
        return f"In answer to the feedback: {' '.join(answers)}" if answers else ""

    # Other forms.

    def write_json(self, section: Wanted) -> str:
        """Write a fenced JSON object with the keys from the description, or with the criteria."""
        criteria = [criterion.replace(" ", "_") for criterion in CRITERIA]
        keys = re.findall(r"`(\w{1,60})`", section.note) or criteria
        marks = self.score(self.brief.sources[0]) if self.brief.sources else {"": 3}
        reasons = {key: f"{self.slot_work()}." for key in keys}
        scored = {
            key: {"score": mark, "rationale": reason}
            for (key, reason), mark in zip(reasons.items(), itertools.cycle(marks.values()))
        }
        value = scored if section.kind == "kept" else reasons
        return f"```json\n{json.dumps(value, ensure_ascii=False, indent=2)}\n```"

    def condense(self) -> list[str]:
        """Summarise the sources in fewer words, and add nothing."""
        sources, left = self.brief.sources, self.brief.words_max
        labels = {p.text: [s.label] for s in sources for p in s.points}
        labels |= {text: list(by) for text, by in self.brief.shared.items()}
        turns = itertools.zip_longest(*(source.points for source in sources))
        kept: dict[str, list[str]] = {}
        for point in filter(None, itertools.chain.from_iterable(turns)):
            line = quote(join(labels[point.text]), point.text) if sources[1:] else point.text
            left -= len(line.split())
            if left > 0:
                kept.setdefault(point.heading or "In short", []).append(f"- {line}")
        found = ["\n".join([f"## {title}\n", *lines]) for title, lines in kept.items()]
        return found or ["No statement was found in it that can be kept by itself."]


def _are_alike(a: frozenset[str], b: frozenset[str]) -> bool:
    return len(a & b) * 2 > len(a | b)
