"""One writer for each kind of section. Each takes the desk and gives blocks of markdown.

Statements of the sources are quoted word for word with the label of their source, so that a reader
can follow a point through all stages.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterable

from dialectic.providers.offline.desk import Desk, bullets, join, lower, numbered, table, upper
from dialectic.providers.offline.language import clip, find_limits, stems_of
from dialectic.providers.offline.reading import Brief, Point, Source, Wanted

BENEFITS = (
    "nothing has to be entered twice",
    "a mistake is noticed while it is still cheap",
    "the next step is clear without asking around",
    "the daily work takes fewer detours",
)
PRIORITIES = ("must", "must", "should", "should", "could")
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


def write_section(desk: Desk, section: Wanted) -> list[str]:
    """Write what stands under a heading, with what the sources say to it."""
    if "json" in section.note.lower():
        return [_json(desk, section)]
    blocks = WRITERS.get(section.kind, _general)(desk, section)
    desk.written.add(section.kind)
    return blocks if section.kind in READS_SOURCES else _evidence(desk, section.kind) + blocks


def _evidence(desk: Desk, kind: str) -> list[str]:
    """Quote what the sources say to a section, and say what becomes of it."""
    strictly = desk.brief.task == "critique" or kind not in BUILT_ON_SOURCES
    taken = desk.take([kind], 3, strictly=strictly)
    if not taken:
        return []
    if desk.brief.task == "critique":
        return [bullets(_objection(desk, *quote) for quote in taken)]
    if desk.brief.task == "merge":
        return [bullets(_kept_point(desk, *quote) for quote in taken)]
    return ["Carried over:", bullets(f"{_quote(*quote)} Still stands." for quote in taken)]


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
    text = f"At stake: {brief.subject}. What carries it: {desk.names(4)}."
    if brief.limits:
        text += f" Limits are set: {join([f'“{x}”' for x in brief.limits[:3]])}."
    note = [_reading_note(brief)] if brief.sources else []
    return [desk.deal(desk.voice.opening), text, *note, *desk.stances(1)]


def _reading_note(brief: Brief) -> str:
    labels = [source.label for source in brief.sources]
    named = [*labels[:6], f"{len(labels) - 6} more"] if len(labels) > 6 else labels
    text = f"Read for this: {join(named)}."
    if brief.limits:
        met = sum(any(_covers(s, limit) for s in brief.sources) for limit in brief.limits)
        text += f" Limits set so far: {len(brief.limits)}; taken up there: {met}."
    return text


def _covers(source: Source, limit: str) -> bool:
    stems = stems_of(limit)
    return 2 * len(stems & source.stems) >= len(stems)


def answer_feedback(desk: Desk, _: Wanted) -> list[str]:
    """Say to each word of feedback what becomes of it."""
    if not desk.brief.feedback:
        return ["No feedback was given so far."]
    answers = (
        f"“{clip(text, 200)}” "
        + ("Taken as a limit." if find_limits([text]) else "Taken up in what follows.")
        for text in desk.brief.feedback
    )
    # One paragraph: a list would run together with a list that follows it.
    return [f"In answer to the feedback: {' '.join(answers)}"]


def _needs(desk: Desk, _: Wanted) -> list[str]:
    brief, voice = desk.brief, desk.voice
    lead = f"Those concerned: {join(brief.people)}."
    if brief.figures:
        lead += f" Where things stand: “{desk.rng.choice(brief.figures)}”."
    if brief.limits:
        lead += f" The request is firm on this: “{desk.rng.choice(brief.limits)}”."
    values = [desk.deal(voice.value) for _ in voice.value]
    return [desk.deal(voice.opening), lead, bullets(values)]


def _features(desk: Desk, _: Wanted) -> list[str]:
    features = []
    for phrase, priority in zip(desk.leading(desk.items), PRIORITIES, strict=False):
        benefit, done = lower(desk.deal(BENEFITS)), lower(desk.deal(desk.voice.accept))
        said = desk.brief.anchors.get(phrase, "")
        features.append(
            f"**{upper(phrase)}** ({priority}). As {desk.rng.choice(desk.brief.people)}, we want "
            f"{desk.name(phrase)} taken care of, so that {benefit}. Done when {done}."
            + (f" The request says: “{clip(said, 160)}”" if said else "")
        )
    return [numbered(features)]


def _parts(desk: Desk, _: Wanted) -> list[str]:
    columns, *rows = desk.voice.parts
    cells = [desk.fill(row).split(" | ") for row in rows]
    return [table(columns.split(" | "), cells), bullets(desk.stances(desk.items))]


def _limits(desk: Desk, section: Wanted) -> list[str]:
    if not desk.brief.limits:
        return ["No limits are set so far; these are proposed:", *_metrics(desk, section)]
    rows = [
        [limit, lower(desk.deal(desk.voice.keep)), lower(desk.deal(desk.voice.accept))]
        for limit in desk.brief.limits
    ]
    return [table(["Limit", "Kept by", "Checked when"], rows)]


def _metrics(desk: Desk, _: Wanted) -> list[str]:
    limits = [limit for limit in desk.brief.limits if re.search(r"\d", limit)]
    rows = [[limit, "as the request states it", "at each milestone"] for limit in limits[:3]]
    rows += desk.rows(desk.voice.metrics, desk.items)
    close = f"Collect today's figures around {desk.name(desk.phrase())} before the work begins."
    return [table(["Measure", "Target", "How it is measured"], rows), close]


def _risks(desk: Desk, _: Wanted) -> list[str]:
    rows = [
        [f"Not met: “{limit}”", "medium", "high", lower(desk.deal(desk.voice.keep))]
        for limit in desk.rng.sample(desk.brief.limits, min(2, len(desk.brief.limits)))
    ]
    rows += desk.rows(desk.voice.risks, desk.items)
    return [table(["Risk", "Likelihood", "Impact", "Response"], rows), *desk.stances(1)]


def _plan(desk: Desk, section: Wanted) -> list[str]:
    if "plan" in desk.written:
        return [_schedule(desk)]
    level = "#" * min(6, section.heading.index(" ") + 1)
    blocks = []
    for number, stone in enumerate(desk.milestones, 1):
        work = desk.deal(desk.voice.stance).replace("**", "")
        blocks.append(f"{level} Milestone {number}: {stone.name}")
        done = f"Accepted when: {stone.acceptance}."
        blocks.append(bullets([f"Goal: {stone.goal}.", work, done]))
    return blocks


def _schedule(desk: Desk) -> str:
    """A document with several sections on the plan shows the milestones once, then their order."""
    rows = []
    for number, stone in enumerate(desk.milestones, 1):
        after = f"milestone {number - 1}" if number > 1 else "nothing"
        weeks = str(desk.rng.randint(1, 4))
        rows.append([f"{number}. {stone.name}", after, weeks, stone.acceptance])
    return table(["Milestone", "Starts after", "Weeks", "Accepted when"], rows)


def _checklist(desk: Desk, _: Wanted) -> list[str]:
    steps: list[str] = []
    for number, stone in enumerate(desk.milestones, 1):
        check = len(steps) + 1
        work = desk.deal(desk.voice.stance).replace("**", "")
        steps += [
            f"**Write the check for milestone {number}, “{stone.name}”.**\n"
            f"   - Depends on: {f'step {check - 1}' if steps else 'nothing'}\n"
            f"   - Do: turn “{stone.acceptance}” into a check that fails today.\n"
            f"   - Accepted when: the check runs, fails, and says why.",
            f"**Reach milestone {number}: {stone.goal}.**\n"
            f"   - Depends on: step {check}\n"
            f"   - Do: {work}\n"
            f"   - Accepted when: {stone.acceptance}, and the check of step {check} passes.",
        ]
    return [numbered(steps)]


def _dependencies(desk: Desk, _: Wanted) -> list[str]:
    pairs = itertools.pairwise(desk.leading(desk.items + 1))
    rows = [
        [upper(desk.name(b)), desk.name(a), lower(desk.deal(desk.voice.accept))] for a, b in pairs
    ]
    order = f"The order of the milestones: {join([stone.name for stone in desk.milestones])}."
    return [*([table(["Work on", "Comes after", "Can start when"], rows)] if rows else []), order]


def _holds(desk: Desk, section: Wanted) -> list[str]:
    quotes = [
        f"{_quote(label, text)} {desk.deal(desk.voice.praise, desk.topic_of(text))}"
        for label, text in desk.take(("features", "needs", "summary", "plan"), desk.items)
    ]
    return [bullets(quotes)] if quotes else _general(desk, section)


def _gaps(desk: Desk, section: Wanted) -> list[str]:
    gaps = []
    for limit in desk.brief.limits:
        missing = [source.label for source in desk.brief.sources if not _covers(source, limit)]
        if missing:
            gaps.append(f"No statement of {join(missing[:3])} goes into this: “{limit}”.")
    gaps += [_objection(desk, *quote) for quote in desk.take((), desk.items)]
    return [bullets(gaps[: desk.items + 3])] if gaps else _general(desk, section)


def _agreements(desk: Desk, _: Wanted) -> list[str]:
    # A critique quotes what it objects to, which is no agreement.
    both = [(text, labels) for text, labels in desk.brief.shared.items() if not _critical(labels)]
    found = [f"“{clip(text, 200)}” ({join(labels[:4])})" for text, labels in both]
    for phrase in desk.brief.phrases:
        on = [(s.label, point) for s in desk.brief.sources if (point := _on(s, phrase))]
        if len(on) > 1:
            quotes = [_quote(label, clip(point.text, 140)) for label, point in on[:3]]
            found.append(f"On {desk.name(phrase)}: {join(quotes)}.")
    if not found:
        return [f"Nothing is said twice; the common ground is {desk.names(2)}."]
    return ["Taken up by more than one source:", bullets(found[: desk.items])]


def _critical(labels: Iterable[str]) -> bool:
    return any("critique" in label.lower() for label in labels)


def _on(source: Source, phrase: str) -> Point | None:
    stems = stems_of(phrase)
    on = (point for point in source.points if stems and stems <= point.stems)
    return next((point for point in on if not HOLDS_BACK.search(point.text)), None)


def _differences(desk: Desk, _: Wanted) -> list[str]:
    found = [
        f"On {desk.name(phrase)}, {_quote(*ahead)} stands against {_quote(*back)}. "
        f"Proposed ruling: {lower(desk.deal(desk.voice.verdict, phrase))}"
        for phrase, ahead, back in _opposites(desk.brief)
    ]
    if not found:
        found = [f"{label} puts weight on this: “{text}”" for label, text in desk.take((), 2)]
        found.append(
            f"No open contradiction was found; settle the weight of {desk.name(desk.phrase())}."
        )
    return [bullets(found[: desk.items])]


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
    return [bullets(points)] if points else _general(desk, section)


def _questions(desk: Desk, _: Wanted) -> list[str]:
    asked = [f"Asked in the request: “{text}”" for text in desk.brief.questions]
    own = [desk.deal(desk.voice.questions) for _ in desk.voice.questions]
    return [numbered([*asked, *own])]


def _verdict(desk: Desk, _: Wanted) -> list[str]:
    return [desk.deal(desk.voice.verdict), "What to do first:", numbered(desk.stances(3))]


def _scores(desk: Desk, section: Wanted) -> list[str]:
    sources = desk.brief.sources[:8]
    if not sources:
        return _metrics(desk, section)
    rows = [[source.label, *map(str, _score(desk.brief, source))] for source in sources]
    note = "From 1 (little) to 5 (much), counted from the limits, figures and risks a text names."
    return [table(["Source", *map(upper, CRITERIA)], rows), note]


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
    return [intro, bullets(desk.stances(desk.items))]


WRITERS: dict[str, Callable[[Desk, Wanted], list[str]]] = {
    "summary": _summary,
    "feedback": answer_feedback,
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
BUILT_ON_SOURCES = frozenset("needs features parts plan checklist limits".split())
READS_SOURCES = frozenset("summary feedback scores differences gaps holds agreements kept".split())
