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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import NamedTuple

from dialectic.providers.offline.frames import Frames, Item, join
from dialectic.providers.offline.reading import (
    VOCABULARY,
    Brief,
    Milestone,
    Point,
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
# Names no model: a reader of the document must not learn which model wrote it.
NOTICE = (
    "> Composed by a built-in offline model from the given text alone; no language model was used."
)
CRITERIA = ("fit to the request", "concreteness", "feasibility", "attention to risk")
SUBSTANCE = ("needs", "features", "parts", "plan", "measures", "proposal", "pros", "cons")
# Statements of these kinds are about the text that holds them, not about the work.
UNQUOTED = frozenset("questions taken refused decisions doubts claims".split())
OBJECTS = frozenset("claims gaps falls feasibility risks verdict".split())
HOLDS_BACK = re.compile(
    r"(?i)\b(?:until|unless|wait|missing|unclear|lacks?|cannot|no evidence|not (?:known|proven)"
    r"|before (?:money|anything)|belief)\b"
)
RULINGS_MAX = 8
MILESTONES_MAX = 6
DETAILED = 2  # milestones with steps of about a day each


class Ruling(NamedTuple):
    """One criticism, the statement it is about (if any), and the ruling on it."""

    critic: str
    objection: str
    author: str
    claim: str
    remedy: str  # what the statement says in addition, if it is changed
    effect: str = "changed"  # or "noted", "dropped", "refused"


def compose(model: str, system: str, task: str, rng: Random) -> str:
    """Write the whole document that a model gives in answer to a task."""
    name = model.rpartition("/")[2]
    # A model with another name, such as a small-window test model, borrows a voice.
    borrowed = list(VOICES)[sum(name.encode()) % len(VOICES)]
    voice = VOICES[next((voice for voice in VOICES if voice in name), borrowed)]
    return Composer(voice, read_brief(system, task), rng).write()


def split_sections(document: str) -> list[str]:
    """Split a document before each level-2 heading; drop the text above the first."""
    return re.split(r"(?m)^(?=## )", document)[1:]


class Composer(Frames):
    """Writes one document; repeats a sentence or quotation only when it has used all others."""

    def __init__(self, voice: Mapping[str, tuple[str, ...]], brief: Brief, rng: Random) -> None:
        super().__init__(voice, brief, rng)
        self.title, *outline = VOCABULARY["outlines"].get(brief.task, "").split("|")
        self.wanted = brief.wanted or tuple(Wanted(f"## {t}", kind_of(t), "") for t in outline)
        self.kinds = {section.kind for section in self.wanted}
        self.items = 5 if len(self.wanted) <= 4 else 4 if len(self.wanted) <= 7 else 3
        self.is_numbered = brief.task == "plan" or any("(R1" in s.note for s in self.wanted)
        self.written: set[str] = set()
        self.used: set[str] = set()  # statements that were quoted
        self.steps: dict[str, int] = {}  # what the feedback asks for -> the step that does it
        self.detailed = 0  # milestones of the checklist that is written
        self.goal = words_of(" ".join([*(t.said or t.name for t in brief.topics), *brief.limits]))
        self.cares = words_of(voice["cares"][0])
        self.labels = [source.label for source in brief.sources]
        texts = [point.text for source in brief.sources for point in source.points]
        self.said = {*texts, *(text.partition(": ")[2] for text in texts)}
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
        special = f"{self.brief.task}_{kind}" if self.labels else ""
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

    def topic_of(self, text: str) -> str:
        """Find the topic of a statement, if it has one."""
        words = words_of(text)
        near = [(len((own := words_of(t.name)) & words) / max(1, len(own)), t) for t in self.topics]
        share, topic = max(near, key=lambda pair: pair[0])
        return str(topic) if share > 0.4 else self.brief.short

    def weigh(self, words: frozenset[str]) -> float:
        """Score a statement: relevance to the request, then the voice's interests, then chance."""
        return len(words & self.goal) + 2 * len(words & self.cares) + 2 * self.rng.random()

    # What the sources say.

    def rank(self, source: Source, kinds: Sequence[str], *, strictly: bool) -> list[Item]:
        fresh = [p for p in source.points if p.text not in self.used and p.kind not in UNQUOTED]
        if source.is_critique and self.brief.task == "merge":
            # Its objections were ruled on; its recommendations are points of their own.
            advises = any(point.kind == "verdict" for point in source.points)
            fresh = [point for point in fresh if point.kind == "verdict" or not advises]
        fitting = [p for p in fresh if p.kind in kinds] or ([] if strictly else fresh)
        fitting.sort(key=lambda point: -self.weigh(point.words))
        return [self.quote(source.label, point.text) for point in fitting]

    def quote(self, label: str, text: str) -> Item:
        sure = "possible" if re.search(r"\d", text) else "likely"
        item = {"label": label, "text": text, "quote": _quote(label, text)}
        return item | {"sure": sure, "p": self.topic_of(text)}

    def each_take(self, kinds: str, count: int = 0, *, strictly: bool = False) -> list[Item]:
        """Choose unquoted statements, each source in turn, preferring these kinds."""
        liked = SUBSTANCE if kinds == "substance" else kinds.split(",")
        ranked = [self.rank(source, liked, strictly=strictly) for source in self.brief.sources]
        turns = itertools.chain.from_iterable(itertools.zip_longest(*ranked))
        taken = list(filter(None, turns))[: max(count or self.items, min(len(ranked), 6))]
        self.used.update(item["text"] for item in taken)
        return taken

    def each_few(self, kinds: str, count: int) -> list[Item]:
        return self.each_take(kinds, count)[:count]

    def each_over(self, kinds: str, count: int = 0) -> list[Item]:
        """Adopt statements unchanged: first those that several sources share, then each in turn."""
        count, liked = count or self.items, {*kinds.split(",")}
        agreed = [t for t, by in self.agreed() if t not in self.used and {*by.values()} & liked]
        self.used.update(agreed[:count])
        critiques = {source.label for source in self.brief.sources if source.is_critique}
        taken = self.each_take(kinds, count, strictly=True) if len(agreed) < count else []
        found = [{"text": text} for text in agreed]
        return (found + [item for item in taken if item["label"] not in critiques])[:count]

    def each_evidence(self, kind: str, how: str = "") -> Iterator[Item]:
        """Quote what the sources say about a section, and say what becomes of it."""
        judges = self.brief.task == "critique"
        for item in self.each_take(kind, 3, strictly=judges or how == "strictly")[:3]:
            comment = "{quote} {objection}" if judges else "{quote} {reason}"
            yield {"text": self.fill(comment, item)}

    def agreed(self) -> list[tuple[str, Mapping[str, str]]]:
        # A critique quotes what it objects to; that does not count as agreement.
        shared = [row for row in self.brief.shared.items() if not _is_critical(row[1])]
        return sorted(shared, key=lambda row: -len(row[1]))

    def each_agreed(self) -> list[Item]:
        found = self.agreed()[: self.items]
        return [{"text": clip(text, 200), "by": join(list(by)[:4])} for text, by in found]

    def each_differences(self) -> Iterator[Item]:
        """Pair a statement in favour with one that holds back, and choose."""
        found = 0
        for topic in self.topics:
            on = [
                (source.label, point.text)
                for source in self.brief.sources
                for point in source.points
                if words_of(topic.name) <= point.words
            ]
            ahead = sorted((q for q in on if not HOLDS_BACK.search(q[1])), key=_is_critical)[:1]
            back = [q for q in on if HOLDS_BACK.search(q[1]) and ahead and q[0] != ahead[0][0]]
            if back and found < self.items:
                found += 1
                frame = "On {p}, {one} stands against {other}. Chosen: {verdict!l}"
                item = {"p": str(topic), "one": _quote(*ahead[0]), "other": _quote(*back[0])}
                yield {"text": self.fill(frame, item)}
        if not found:
            for item in self.each_take("any", 2):
                yield {"text": self.fill("{label} puts weight on this: {quote}", item)}
            yield {"text": self.fill("No open contradiction was found. {verdict}", {})}

    @functools.cached_property
    def rulings(self) -> list[Ruling]:
        """The ruling on each criticism: most are accepted, the lightest are refused.

        The last accepted criticism drops its statement, if the document can spare it.
        """
        sources = self.brief.sources
        claims = [(s.label, p) for s in sources if not s.is_critique for p in s.points]
        found = [
            Ruling(source.label, objection, *_find_claim(quoted, claims), remedy)
            for source in sources
            for quoted, objection, remedy in (source.remarks or _read_objections(source))
            if source.is_critique
        ]
        found.sort(key=lambda ruling: -self.weigh(words_of(f"{ruling.objection} {ruling.claim}")))
        found = found[:RULINGS_MAX]
        taken = len(found) - len(found) // 3
        spare = [ruling.claim for ruling in found[:taken] if ruling.claim][1:]
        for place, ruling in enumerate(found):
            effect = "changed" if ruling.claim else "noted"
            effect = "dropped" if ruling.claim in spare[-1:] else effect
            remedy = ruling.remedy or self.fill("{better}", {"p": self.topic_of(ruling.claim)})
            found[place] = ruling._replace(
                effect="refused" if place >= taken else effect, remedy=remedy
            )
        return found

    def each_rulings(self, effect: str) -> Iterator[Item]:
        for ruling in self.rulings:
            if ruling.effect == effect:
                self.used.add(ruling.objection)
                claim = _quote(ruling.author, ruling.claim)
                yield {
                    "said": _quote(ruling.critic, ruling.objection),
                    "claim": claim,
                    "claimed": _end(ruling.claim),
                    "remedy": ruling.remedy,
                    "stays": f" It stays as it is: {claim}." if ruling.claim else "",
                }

    @functools.cached_property
    def contested(self) -> list[tuple[str, list[str], list[str], bool]]:
        """Points that some sources kept and others dropped, with labels and the decision."""
        found = []
        for text, kinds in self.brief.shared.items():
            kept = [label for label, kind in kinds.items() if kind in (*SUBSTANCE, "summary")]
            gave_up = [label for label, kind in kinds.items() if kind == "taken"]
            if kept and gave_up:
                stays = len(kept) > len(gave_up) or bool(words_of(text) & self.cares)
                found.append((text, kept, gave_up, stays))
        return found

    def each_contested(self) -> Iterator[Item]:
        for text, kept, gave_up, stays in self.contested[: self.items]:
            reason = self.fill("{praise}" if stays else "{drop}", {"p": self.topic_of(text)})
            yield {
                "text": clip(text, 200),
                "kept": join(kept),
                "gave_up": join(gave_up),
                "choice": "keep it" if stays else "leave it out",
                "because": reason[:1].lower() + reason[1:].rstrip("."),
            }

    def each_staying(self) -> list[Item]:
        stay = [text for text, *_, stays in self.contested if stays and text not in self.used]
        self.used.update(stay)
        return [{"text": text} for text in stay[: self.items]]

    @functools.cached_property
    def missing(self) -> dict[str, list[str]]:
        """Demands of request and feedback, with the labels of the sources that ignore them."""
        demands = (text.rstrip(".!") for text in (*self.brief.limits, *self.brief.feedback))
        sources = self.brief.sources
        found = {d: [s.label for s in sources if not _covers(s, d)] for d in demands}
        return {demand: labels for demand, labels in found.items() if labels}

    def each_gaps(self, count: int = 9) -> list[Item]:
        found = list(self.missing.items())[:count]
        return [{"demand": d, "by": join(by[:3]), "mark": self.mark(d)} for d, by in found]

    def each_halves(self) -> list[Item]:
        asked = [text.rstrip(".!") for text in self.brief.feedback]
        half = [d for d in dict.fromkeys((*asked, *self.brief.limits)) if d not in self.missing]
        found = half[: max(self.items, len(asked))]
        return [{"demand": d, "mark": self.mark(d), "p": self.topic_of(d)} for d in found]

    def mark(self, demand: str) -> str:
        asked = any(demand == text.rstrip(".!") for text in self.brief.feedback)
        return " (feedback)" if asked else ""

    def each_faults(self) -> list[Item]:
        faults = [{"text": f"nothing in it goes into “{demand}”."} for demand in self.missing]
        weak = self.each_few("summary,needs", 1)
        return (faults + [{"text": self.fill("{quote} {objection}", item)} for item in weak])[:1]

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
        return [{"text": clip(text, 160)} for text in self.brief.feedback]

    def each_features(self) -> Iterator[Item]:
        for place, topic in enumerate(self.topics[: self.items]):
            demanded = is_limit(topic.said)
            leads = place == 0 and not self.brief.limits
            said = "" if demanded or not topic.said else clip(topic.said, 160)
            yield {
                "topic": topic.name,
                "priority": "must" if demanded or leads else "should",
                "said": f" The request says: “{said}”" if said else "",
            }

    def each_demands(self) -> list[Item]:
        spoken = " ".join(self.brief.limits)
        demands = [self.fill("{limit}. Kept by {means}.", item) for item in self.each_limits()]
        demands += [_end(text) for text in self.brief.feedback if text.rstrip(".!") not in spoken]
        own = [f"A named person looks after {topic}." for topic in self.topics[:3]]
        return [{"text": text} for text in demands or own]

    @functools.cached_property
    def requirements(self) -> list[str]:
        """The requirements, in an order that milestones and feedback refer to by number."""
        spoken = " ".join(self.brief.limits)
        asked = (text.rstrip(".!") for text in self.brief.feedback)
        demands = [*self.brief.limits, *(text for text in asked if text not in spoken)]
        told = words_of(" ".join(demands))
        topics = [topic for topic in self.topics if not words_of(topic.name) <= told] or self.topics
        return [f"“{text}”" for text in demands] + [
            f"A named person looks after {topic}" for topic in topics[: max(2, 6 - len(demands))]
        ]

    def each_requirements(self) -> Iterator[Item]:
        for number, demand in enumerate(self.requirements, 1):
            priority = "must" if demand.startswith("“") else "should"
            yield {"n": number, "priority": priority, "demand": demand}

    # Milestones, phases and steps.

    @functools.cached_property
    def plan(self) -> Source | None:
        """The source plan to follow: the one whose milestones most other plans share."""
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
        for stone in (stone for source in self.brief.sources for stone in source.milestones):
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
        details = "checklist" in self.written
        for number, stone in enumerate(self.milestones, 1):
            yield {
                **{name: text for name, text in stone._asdict().items() if text},
                "n": number,
                "after": f"milestone {number - 1}" if number > 1 else "nothing",
                "covers": f"\n- Covers: {self.cover(number)}." if self.is_numbered else "",
                "state": "in progress" if details and number <= DETAILED else "open",
                "weeks": self.rng.randint(2, 5),
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
        total = len(self.requirements)
        mine = [n for n in range(total) if n % len(self.milestones) + 1 in numbers]
        return join([f"R{n + 1}" for n in mine or [numbers[0] % total]])

    def each_phases(self) -> Iterator[Item]:
        stones = list(enumerate(self.milestones, 1))
        middle = (len(stones) + 1) // 2
        halves = filter(None, (stones[:middle], stones[middle:]))
        titles = ("Prove the way", "Build and hand over")
        for number, (title, half) in enumerate(zip(titles, halves, strict=False), 1):
            work = [upper(stone.goal) for _, stone in half] + [self.slot_work() for _ in half]
            yield {
                **half[-1][1]._asdict(),
                "n": number,
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
            lines = []
            for what, accepted, asked in self.list_steps(place, stone):
                lines.append(f"- [ ] {number + 1}. {what}\n  - Depends on: {number or 'nothing'}")
                lines.append(f"  - Accepted when: {accepted}.")
                number += 1
                self.steps |= {asked: number} if asked else {}
            yield {"n": place, "name": stone.name, "steps": "\n".join(lines)}

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
            shown = f": {_quote(source.label, point)}" if point else "."
            yield {"label": source.label, "best": best, "mark": marks[best], "shown": shown}

    def score(self, source: Source) -> dict[str, int]:
        """Compute a score for each criterion from countable features of a source."""
        points, limits = source.points, self.brief.limits
        shares = (
            sum(_covers(source, limit) for limit in limits) / max(1, len(limits)),
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
        named = [_quote(label, name) for label, name in others if name not in known]
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
        for text in self.brief.feedback:
            demand = f"“{text.rstrip('.!')}”"
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
            line = _quote(join(labels[point.text]), point.text) if sources[1:] else point.text
            left -= len(line.split())
            if left > 0:
                kept.setdefault(point.heading or "In short", []).append(f"- {line}")
        found = ["\n".join([f"## {title}\n", *lines]) for title, lines in kept.items()]
        return found or ["No statement was found in it that can be kept by itself."]


def _end(text: str) -> str:
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


def _quote(label: str, text: str) -> str:
    inner = text.replace("“", "\u2018").replace("”", "\u2019")
    return f"“{inner}” ({label})"


def _covers(source: Source, demand: str) -> bool:
    words = words_of(demand)
    return 2 * len(words & source.words) >= len(words)


def _are_alike(a: frozenset[str], b: frozenset[str]) -> bool:
    return len(a & b) * 2 > len(a | b)


def _is_critical(labels: Iterable[str]) -> bool:
    return any("critique" in label.lower() for label in labels)


def _find_claim(quoted: str, claims: list[tuple[str, Point]]) -> tuple[str, str]:
    """Find the quoted statement: the one with the most words in common."""
    words = words_of(quoted)
    best, share = ("", ""), 0.3
    for label, point in claims:
        common = len(words & point.words) / max(1, len(words | point.words))
        if common > share:
            best, share = (label, point.text), common
    return best


def _read_objections(critique: Source) -> list[tuple[str, str, str]]:
    """Read the objections of a critique that quotes no statement."""
    return [(p.text, p.text, "") for p in critique.points if p.kind in OBJECTS]
