"""Composes a document from a brief, in one voice. Pure: the dice are given, nothing else varies.

A section is written by the kind of its heading. Statements of the sources are quoted word for
word with the label of their source, so that a reader can follow a point through all stages.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterable, Sequence
from random import Random

from dialectic.providers.offline.language import clip, find_limits, first, stems_of
from dialectic.providers.offline.reading import Brief, Point, Source, Wanted, kind_of, read_brief
from dialectic.providers.offline.voices import VOICES, Voice

NOTICE = (
    "> Composed by `{model}`, a built-in offline model, from the given text alone; "
    "no language model was used."
)
TITLES = {
    "propose": "Proposal: {s}",
    "critique": "Critique of {labels}",
    "merge": "Synthesis: {s}",
    "plan": "Plan: {s}",
    "checklist": "Checklist: {s}",
    "answer": "On {s}",
}
OUTLINES = {
    "propose": "Summary|Business case|Features|Technical approach|Success metrics|Risks|Milestones",
    "critique": "Summary|What holds|What is missing|Risks|Open questions|Recommendation",
    "merge": "Summary|Agreements|Disagreements|Points kept|Merged approach|Risks|Recommendation",
    "plan": "Summary|Prerequisites|Milestones|Success metrics|Risks",
    "checklist": "Summary|Checklist|Dependencies|Open questions",
    "answer": "In short|What matters|Recommendation|Open questions",
}
BENEFITS = (
    "nothing has to be entered twice",
    "a mistake is noticed while it is still cheap",
    "the next step is clear without asking around",
    "the daily work takes fewer detours",
)
REASONS = (
    "It bears directly on {p}.",
    "Kept for what it adds on {p}.",
    "Without it the work on {p} would start from less.",
)
CRITERIA = ("fit to the request", "concreteness", "feasibility", "attention to risk")
HOLDS_BACK = re.compile(
    r"\b(?:not|never|missing|unclear|open|lacks?|cannot|no evidence|instead|until|unless|wait)\b",
    re.IGNORECASE,
)


def compose(model: str, system: str, task: str, rng: Random) -> str:
    """Write the whole document that a model gives in answer to a task."""
    brief = read_brief(system, task)
    wanted = brief.wanted or _outline(brief.task)
    desk = Desk(_find_voice(model), brief, rng, len(wanted))
    labels = _join([source.label for source in brief.sources[:3]]) or brief.subject
    title = TITLES[brief.task].format(s=brief.subject, labels=labels)
    blocks = [f"# {title}", NOTICE.format(model=model)]
    answer_feedback = bool(brief.feedback) and all(s.kind != "feedback" for s in wanted)
    for section in wanted:
        blocks.append(section.heading)
        if answer_feedback:
            blocks += _feedback(desk, section)
            answer_feedback = False
        blocks += _write_section(desk, section)
    return "\n\n".join(blocks) + "\n"


def split_sections(document: str) -> list[str]:
    """Split a document before each of its level-2 headings; what stands above them is left out."""
    return re.split(r"^(?=## )", document, flags=re.MULTILINE)[1:]


class Desk:
    """What lies on the table while one document is written."""

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

    def _choose_milestones(self) -> list[list[str]]:
        """Take over the milestones of the sources; plan new ones where there are none."""
        names = first((name for source in self.brief.sources for name in source.milestones), 6)
        rows = [self.fill(row).split(" | ") for row in self.voice.milestones]
        return [[name, *rows[i % len(rows)][1:]] for i, name in enumerate(names)] or rows

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
        return _upper(
            template.format(
                it=self.brief.short,
                p=_upper(topic) if template.startswith("**") else self.name(topic),
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
        return _join([self.name(phrase) for phrase in self.brief.phrases[:count]])

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

    def take(self, kinds: Sequence[str], count: int) -> list[tuple[str, str]]:
        """Choose statements of these kinds (or of any) that are not quoted yet, source by source."""
        ranked = [(source.label, self._rank(source, kinds)) for source in self.brief.sources]
        in_turn = [
            (label, points[place].text)
            for place in range(count)
            for label, points in ranked
            if place < len(points)
        ]
        taken = in_turn[: max(count, min(len(ranked), 6))]
        self._quoted.update(text for _, text in taken)
        return taken

    def _rank(self, source: Source, kinds: Sequence[str]) -> list[Point]:
        fresh = [point for point in source.points if point.text not in self._quoted]
        fitting = [point for point in fresh if not kinds or point.kind in kinds]
        return sorted(fitting, key=lambda point: -len(point.stems & self._goal))


def _find_voice(model: str) -> Voice:
    name = model.rpartition("/")[2]
    # A model under another name, such as one with a small window for trials, borrows a voice.
    borrowed = VOICES[sum(name.encode()) % len(VOICES)]
    return next((voice for voice in VOICES if voice.name in name), borrowed)


def _outline(task: str) -> tuple[Wanted, ...]:
    titles = OUTLINES[task].split("|")
    return tuple(Wanted(f"## {title}", kind_of(title), "") for title in titles)


def _write_section(desk: Desk, section: Wanted) -> list[str]:
    if "json" in section.note.lower():
        return [_json(desk, section)]
    blocks = WRITERS.get(section.kind, _general)(desk, section)
    desk.written.add(section.kind)
    return blocks if section.kind in READS_SOURCES else _evidence(desk, section.kind) + blocks


def _evidence(desk: Desk, kind: str) -> list[str]:
    """Quote what the sources say to a section, and say what becomes of it."""
    taken = desk.take([kind], 3)
    if not taken:
        return []
    if desk.brief.task == "critique":
        return [_bullets(_objection(desk, *quote) for quote in taken)]
    if desk.brief.task == "merge":
        return [_bullets(_kept_point(desk, *quote) for quote in taken)]
    return ["Carried over:", _bullets(f"{_quote(*quote)} Still stands." for quote in taken)]


def _quote(label: str, text: str) -> str:
    return f"“{text}” ({label})"


def _objection(desk: Desk, label: str, text: str) -> str:
    return f"{_quote(label, text)} {desk.deal(desk.voice.objections, desk.topic_of(text))}"


def _kept_point(desk: Desk, label: str, text: str) -> str:
    stems = stems_of(text)
    for other in desk.brief.sources:
        if other.label != label and any(_alike(stems, point.stems) for point in other.points):
            return f"{_quote(label, text)} {other.label} comes close to this."
    return f"{_quote(label, text)} {desk.deal(REASONS, desk.topic_of(text))}"


def _alike(a: frozenset[str], b: frozenset[str]) -> bool:
    return len(a & b) * 2 > len(a | b)


def _summary(desk: Desk, _: Wanted) -> list[str]:
    brief = desk.brief
    text = f"The matters that carry the request: {desk.names(4)}."
    if brief.limits:
        text += f" It is explicit about limits: {_join([f'“{x}”' for x in brief.limits[:3]])}."
    note = [_reading_note(brief)] if brief.sources else []
    return [desk.deal(desk.voice.opening), text, *note, *desk.stances(1)]


def _reading_note(brief: Brief) -> str:
    labels = [source.label for source in brief.sources]
    named = [*labels[:6], f"{len(labels) - 6} more"] if len(labels) > 6 else labels
    text = f"Read for this: {_join(named)}."
    if brief.limits:
        met = sum(any(_covers(s, limit) for s in brief.sources) for limit in brief.limits)
        text += f" Limits set so far: {len(brief.limits)}; taken up there: {met}."
    return text


def _covers(source: Source, limit: str) -> bool:
    stems = stems_of(limit)
    return 2 * len(stems & source.stems) >= len(stems)


def _feedback(desk: Desk, section: Wanted) -> list[str]:
    if not desk.brief.feedback:
        return ["No feedback was given so far."]
    answers = (
        f"“{clip(text, 200)}” "
        + ("Taken as a limit." if find_limits([text]) else "Taken up in what follows.")
        for text in desk.brief.feedback
    )
    return ["In answer to the feedback:", _bullets(answers)]


def _needs(desk: Desk, _: Wanted) -> list[str]:
    brief, voice = desk.brief, desk.voice
    lead = f"Those concerned: {_join(brief.people)}."
    if brief.figures:
        lead += f" Where things stand: “{desk.rng.choice(brief.figures)}”."
    if brief.limits:
        lead += f" The request is firm on this: “{desk.rng.choice(brief.limits)}”."
    values = [desk.deal(voice.value) for _ in voice.value]
    return [desk.deal(voice.opening), lead, _bullets(values)]


def _features(desk: Desk, _: Wanted) -> list[str]:
    features = []
    for number, phrase in enumerate(desk.leading(desk.items)):
        said = desk.brief.anchors.get(phrase, "")
        features.append(
            f"**{_upper(phrase)}** ({('must', 'must', 'should', 'should', 'could')[number]}). "
            f"As {desk.rng.choice(desk.brief.people)}, we want {desk.name(phrase)} taken care of, so "
            f"that {_lower(desk.deal(BENEFITS))}. Done when {_lower(desk.deal(desk.voice.accept))}."
            + (f" The request says: “{clip(said, 160)}”" if said else "")
        )
    return [_numbered(features)]


def _parts(desk: Desk, _: Wanted) -> list[str]:
    columns, *rows = desk.voice.parts
    table = _table(columns.split(" | "), [desk.fill(row).split(" | ") for row in rows])
    return [table, _bullets(desk.stances(desk.items))]


def _limits(desk: Desk, section: Wanted) -> list[str]:
    if not desk.brief.limits:
        return [
            "The request sets no explicit limits; these are proposed:",
            *_metrics(desk, section),
        ]
    rows = [
        [limit, _lower(desk.deal(desk.voice.keep)), _lower(desk.deal(desk.voice.accept))]
        for limit in desk.brief.limits
    ]
    return [_table(["Limit", "Kept by", "Checked when"], rows)]


def _metrics(desk: Desk, _: Wanted) -> list[str]:
    limits = [limit for limit in desk.brief.limits if re.search(r"\d", limit)]
    rows = [[limit, "as the request states it", "at each milestone"] for limit in limits[:3]]
    rows += desk.rows(desk.voice.metrics, desk.items)
    close = f"Collect today's figures around {desk.name(desk.phrase())} first, so that progress can be seen."
    return [_table(["Measure", "Target", "How it is measured"], rows), close]


def _risks(desk: Desk, _: Wanted) -> list[str]:
    rows = [
        [f"Not met: “{limit}”", "medium", "high", _lower(desk.deal(desk.voice.keep))]
        for limit in desk.rng.sample(desk.brief.limits, min(2, len(desk.brief.limits)))
    ]
    rows += desk.rows(desk.voice.risks, desk.items)
    table = _table(["Risk", "Likelihood", "Impact", "Response"], rows)
    return [table, *desk.stances(1)]


def _plan(desk: Desk, section: Wanted) -> list[str]:
    if "plan" in desk.written:
        return [_schedule(desk)]
    level = "#" * min(6, section.heading.index(" ") + 1)
    blocks = []
    for number, (name, goal, accept) in enumerate(desk.milestones, 1):
        work = desk.deal(desk.voice.stance).replace("**", "")
        blocks.append(f"{level} Milestone {number}: {name}")
        blocks.append(_bullets([f"Goal: {goal}.", work, f"Accepted when: {accept}."]))
    return blocks


def _schedule(desk: Desk) -> str:
    """A document with several sections on the plan shows the milestones once, then their order."""
    rows = []
    for number, (name, _, accept) in enumerate(desk.milestones, 1):
        after = f"milestone {number - 1}" if number > 1 else "nothing"
        rows.append([f"{number}. {name}", after, str(desk.rng.randint(1, 4)), accept])
    return _table(["Milestone", "Starts after", "Weeks", "Accepted when"], rows)


def _checklist(desk: Desk, _: Wanted) -> list[str]:
    steps: list[str] = []
    for number, (name, goal, accept) in enumerate(desk.milestones, 1):
        check = len(steps) + 1
        work = desk.deal(desk.voice.stance).replace("**", "")
        steps += [
            f"**Write the check for milestone {number}, “{name}”.**\n"
            f"   - Depends on: {f'step {check - 1}' if steps else 'nothing'}\n"
            f"   - Do: turn “{accept}” into a check that fails today.\n"
            f"   - Accepted when: the check runs, fails, and says why.",
            f"**Reach milestone {number}: {goal}.**\n"
            f"   - Depends on: step {check}\n"
            f"   - Do: {work}\n"
            f"   - Accepted when: {accept}, and the check of step {check} passes.",
        ]
    return [_numbered(steps)]


def _dependencies(desk: Desk, _: Wanted) -> list[str]:
    pairs = itertools.pairwise(desk.leading(desk.items + 1))
    rows = [
        [_upper(desk.name(b)), desk.name(a), _lower(desk.deal(desk.voice.accept))] for a, b in pairs
    ]
    order = f"The order of the milestones: {_join([name for name, *_ in desk.milestones])}."
    return [_table(["Work on", "Comes after", "Can start when"], rows), order]


def _holds(desk: Desk, section: Wanted) -> list[str]:
    quotes = (
        f"{_quote(label, text)} {desk.deal(desk.voice.praise, desk.topic_of(text))}"
        for label, text in desk.take(("features", "needs", "summary", "plan"), desk.items)
    )
    return [_bullets(quotes)] if desk.brief.sources else _general(desk, section)


def _gaps(desk: Desk, section: Wanted) -> list[str]:
    brief = desk.brief
    if not brief.sources:
        return _general(desk, section)
    gaps = []
    for limit in brief.limits:
        missing = [source.label for source in brief.sources if not _covers(source, limit)]
        if missing:
            gaps.append(f"No statement of {_join(missing[:3])} goes into this: “{limit}”.")
    gaps += [_objection(desk, *quote) for quote in desk.take((), desk.items)]
    return [_bullets(gaps[: desk.items + 3])]


def _agreements(desk: Desk, _: Wanted) -> list[str]:
    # A critique quotes what it objects to, which is no agreement.
    both = [(text, labels) for text, labels in desk.brief.shared.items() if not _critical(labels)]
    found = [f"“{clip(text, 200)}” ({_join(labels[:4])})" for text, labels in both]
    for phrase in desk.brief.phrases:
        on = [(s.label, point) for s in desk.brief.sources if (point := _on(s, phrase))]
        if len(on) > 1:
            quotes = [_quote(label, clip(point.text, 140)) for label, point in on[:3]]
            found.append(f"On {desk.name(phrase)}: {_join(quotes)}.")
    if not found:
        return [f"Nothing is said twice; the common ground is {desk.names(2)}."]
    return ["Taken up by more than one source:", _bullets(found[: desk.items])]


def _critical(labels: Iterable[str]) -> bool:
    return any("critique" in label.lower() for label in labels)


def _on(source: Source, phrase: str) -> Point | None:
    stems = stems_of(phrase)
    on = (point for point in source.points if stems and stems <= point.stems)
    return next((point for point in on if not HOLDS_BACK.search(point.text)), None)


def _differences(desk: Desk, _: Wanted) -> list[str]:
    found = [
        f"On {desk.name(phrase)}, {_quote(a, clip(one, 160))} stands against {_quote(b, clip(other, 160))}. "
        f"Proposed ruling: {_lower(desk.deal(desk.voice.verdict, phrase))}"
        for phrase, (a, one), (b, other) in _opposites(desk.brief)
    ]
    if not found:
        found = [f"{label} puts weight on this: “{text}”" for label, text in desk.take((), 2)]
        found.append(
            f"No open contradiction was found; settle the weight of {desk.name(desk.phrase())}."
        )
    return [_bullets(found[: desk.items])]


def _opposites(brief: Brief) -> list[tuple[str, tuple[str, str], tuple[str, str]]]:
    """Find, phrase by phrase, a statement that goes ahead and another's that holds back."""
    found = []
    for phrase in brief.phrases:
        stems = stems_of(phrase)
        on = [(s.label, p.text) for s in brief.sources for p in s.points if stems <= p.stems]
        ahead = [quote for quote in on if not HOLDS_BACK.search(quote[1])]
        ahead.sort(key=lambda quote: _critical(quote[:1]))
        back = [q for q in on if HOLDS_BACK.search(q[1]) and ahead and q[0] != ahead[0][0]]
        found += [(phrase, ahead[0], quote) for quote in back[:1]]
    return found


def _kept(desk: Desk, section: Wanted) -> list[str]:
    taken = desk.take((), desk.items * 2)
    points = [_kept_point(desk, label, text) for label, text in taken]
    return [_bullets(points)] if points else _general(desk, section)


def _questions(desk: Desk, _: Wanted) -> list[str]:
    asked = [f"Asked in the request: “{text}”" for text in desk.brief.questions]
    own = [desk.deal(desk.voice.questions) for _ in desk.voice.questions]
    return [_numbered([*asked, *own])]


def _verdict(desk: Desk, _: Wanted) -> list[str]:
    return [desk.deal(desk.voice.verdict), "What to do first:", _numbered(desk.stances(3))]


def _scores(desk: Desk, section: Wanted) -> list[str]:
    sources = desk.brief.sources[:8]
    if not sources:
        return _metrics(desk, section)
    rows = [[source.label, *map(str, _score(desk.brief, source))] for source in sources]
    note = "From 1 (little) to 5 (much), counted from the limits, figures and risks a text names."
    return [_table(["Source", *map(_upper, CRITERIA)], rows), note]


def _score(brief: Brief, source: Source) -> list[int]:
    """Count a mark for each criterion out of a source; no judgement is hidden in them."""
    total = max(1, len(source.points))
    covered = sum(_covers(source, limit) for limit in brief.limits)
    shares = (
        covered / len(brief.limits) if brief.limits else 0.5,
        4 * sum(re.search(r"\d", point.text) is not None for point in source.points) / total,
        3 * sum(point.kind in ("plan", "parts", "checklist") for point in source.points) / total,
        4 * sum(point.kind in ("risks", "gaps", "limits") for point in source.points) / total,
    )
    return [1 + min(4, round(4 * share)) for share in shares]


def _json(desk: Desk, section: Wanted) -> str:
    """Write a fenced object with the keys that the description names, or with the criteria."""
    keys = re.findall(r"`(\w{1,60})`", section.note) or [c.replace(" ", "_") for c in CRITERIA]
    marks = _score(desk.brief, desk.brief.sources[0]) if desk.brief.sources else [3]
    value: dict[str, object] = {}
    for place, key in enumerate(keys):
        reason = desk.deal(desk.voice.stance).replace("**", "")
        scored = {"score": marks[place % len(marks)], "rationale": reason}
        value[key] = scored if section.kind == "scores" else reason
    return f"```json\n{json.dumps(value, ensure_ascii=False, indent=2)}\n```"


def _general(desk: Desk, _: Wanted) -> list[str]:
    intro = f"For {desk.brief.short}, this comes down to {desk.names(3)}."
    return [intro, _bullets(desk.stances(desk.items))]


WRITERS: dict[str, Callable[[Desk, Wanted], list[str]]] = {
    "summary": _summary,
    "feedback": _feedback,
    "scores": _scores,
    "checklist": _checklist,
    "risks": _risks,
    "differences": _differences,
    "gaps": _gaps,
    "holds": _holds,
    "agreements": _agreements,
    "kept": _kept,
    "metrics": _metrics,
    "limits": _limits,
    "dependencies": _dependencies,
    "plan": _plan,
    "features": _features,
    "parts": _parts,
    "needs": _needs,
    "questions": _questions,
    "verdict": _verdict,
}
READS_SOURCES = (
    "summary",
    "feedback",
    "scores",
    "differences",
    "gaps",
    "holds",
    "agreements",
    "kept",
)


def _join(items: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(items[:-1]), *items[-1:]]))


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _bullets(items: Iterable[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


def _numbered(items: Iterable[str]) -> str:
    return "\n".join(f"{number}. {item}" for number, item in enumerate(items, 1))


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
