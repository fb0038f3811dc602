"""The sections of a plan and of a checklist: requirements, phases, milestones, steps, advice."""

from __future__ import annotations

import itertools
import re

from dialectic.providers.offline.desk import Desk
from dialectic.providers.offline.judging import covers
from dialectic.providers.offline.language import clip
from dialectic.providers.offline.markdown import below, bullets, join, lower, quote, table, upper
from dialectic.providers.offline.reading import Brief, Milestone, Source, Wanted

DETAILED = 2  # milestones whose steps are written out to a day each
CRITERIA = ("fit to the request", "concreteness", "feasibility", "attention to risk")


def write_milestones(desk: Desk, section: Wanted) -> list[str]:
    """Write one heading for each milestone; a second section about the plan shows their order."""
    if "plan" in desk.written:
        return [_schedule(desk)]
    desk.written.add("plan")
    blocks = []
    for number, stone in enumerate(desk.milestones, 1):
        work = stone.work or desk.statement(("features", "parts")).rstrip(".")
        lines = [f"Goal: {stone.goal}."]
        if desk.requirements:
            lines.append(f"Covers: {join(_covered(desk, number))}.")
        lines += [
            f"Depends on: {f'milestone {number - 1}' if number > 1 else 'nothing'}.",
            f"Work: {work}.",
            f"Accepted when: {stone.acceptance}.",
            f"Size: about {desk.rng.randint(2, 5)} weeks, to be checked after the first.",
        ]
        blocks += [below(section.heading, f"Milestone {number}: {stone.name}"), bullets(lines)]
    return blocks


def _covered(desk: Desk, number: int) -> list[str]:
    """Deal the requirements out to the milestones, so that each has a home."""
    total, stones = len(desk.requirements), len(desk.milestones)
    mine = [f"R{n}" for n in range(1, total + 1) if (n - 1) % stones == number - 1]
    return mine or [f"R{(number - 1) % total + 1}"]


def _schedule(desk: Desk) -> str:
    rows = []
    for number, stone in enumerate(desk.milestones, 1):
        after = f"milestone {number - 1}" if number > 1 else "nothing"
        weeks = str(desk.rng.randint(1, 4))
        rows.append([f"{number}. {stone.name}", after, weeks, stone.acceptance])
    return table(["Milestone", "Starts after", "Weeks", "Accepted when"], rows)


def write_master_plan(desk: Desk, section: Wanted) -> list[str]:
    """Write the phases; after a checklist, the state of each milestone."""
    if "checklist" in desk.written:
        return [_state(desk)]
    if "plan" not in desk.kinds:
        return write_milestones(desk, section)
    blocks = []
    for number, stones in enumerate(_phases(desk.milestones), 1):
        first = desk.milestones.index(stones[0]) + 1
        numbers = [str(first + place) for place in range(len(stones))]
        covered = [r for n in numbers for r in _covered(desk, int(n))] if desk.requirements else []
        work = [f"[open] {upper(stone.goal)}." for stone in stones]
        work += [f"[open] {desk.statement(('parts', 'features'))}" for _ in stones]
        title = "Prove the way" if number == 1 else "Build and hand over"
        blocks += [
            below(section.heading, f"Phase {number}: {title}"),
            bullets(
                [
                    f"Goal: {lower(stones[-1].goal)}.",
                    f"Milestones {join(numbers)}"
                    + (f", which cover {join(list(dict.fromkeys(covered)))}." if covered else "."),
                    f"Depends on: {f'phase {number - 1}' if number > 1 else 'nothing'}.",
                    *work,
                    f"Evidence that ends it: {stones[-1].acceptance}.",
                ]
            ),
        ]
    return blocks


def _phases(stones: list[Milestone]) -> list[list[Milestone]]:
    middle = (len(stones) + 1) // 2
    return [part for part in (stones[:middle], stones[middle:]) if part]


def _state(desk: Desk) -> str:
    rows = []
    for number, stone in enumerate(desk.milestones, 1):
        state = "in progress" if number <= DETAILED else "open"
        after = f"milestone {number - 1}" if number > 1 else "nothing"
        rows.append([f"{number}. {stone.name}", state, after, stone.acceptance])
    return table(["Milestone", "State", "Starts after", "Ends when"], rows)


def write_checklist(desk: Desk, section: Wanted) -> list[str]:
    """Write the steps of each milestone, numbered through; the check comes before the work."""
    detailed = DETAILED if "detail" in section.note.lower() else 0
    blocks: list[str] = []
    done = 0
    for place, stone in enumerate(desk.milestones, 1):
        steps = _steps(desk, place, stone, detailed=place <= detailed)
        lines = [
            f"- [ ] {number}. {what}\n"
            f"  - Depends on: {number - 1 if number > 1 else 'nothing'}\n"
            f"  - Accepted when: {accepted}."
            for number, (what, accepted) in enumerate(steps, done + 1)
        ]
        for number, (what, _) in enumerate(steps, done + 1):
            asked = next((t for t in desk.brief.feedback if _feedback_step(t) == what), None)
            if asked is not None:
                desk.feedback_steps[asked] = number
        done += len(steps)
        blocks += [below(section.heading, f"Milestone {place}: {stone.name}"), "\n".join(lines)]
    return blocks


def _steps(desk: Desk, place: int, stone: Milestone, *, detailed: bool) -> list[tuple[str, str]]:
    steps: list[tuple[str, str]] = []
    if detailed:
        what, accepted = desk.deal(desk.voice.steps).split(" | ")
        steps.append((f"{what}.", accepted))
    if place == 1:
        steps += [
            (_feedback_step(text), "the person who gave the feedback has seen the result")
            for text in desk.brief.feedback
        ]
    check = f"Write the check for “{stone.name}”: turn “{stone.acceptance}” into one that fails."
    work = (stone.work or desk.deal(desk.voice.stance).replace("**", "")).rstrip(".")
    steps += [
        (check, "the check runs, fails, and says why"),
        (f"{upper(stone.goal)}. {upper(work)}.", f"{stone.acceptance}, and the check passes"),
    ]
    if detailed:
        who = desk.rng.choice(desk.brief.people)
        steps.append((f"Show the result to {who}.", "what they said is written beside the check"))
    return steps


def _feedback_step(text: str) -> str:
    return f"Carry out what the feedback asks: “{clip(text.rstrip('.'), 160)}”."


def write_dependencies(desk: Desk, _: Wanted) -> list[str]:
    """Say which work waits for which."""
    pairs = itertools.pairwise(desk.leading(desk.items + 1))
    rows = [
        [upper(desk.name(b)), desk.name(a), lower(desk.deal(desk.voice.accept))] for a, b in pairs
    ]
    order = f"The order of the milestones: {join([stone.name for stone in desk.milestones])}."
    return [*([table(["Work on", "Comes after", "Can start when"], rows)] if rows else []), order]


def write_advice(desk: Desk, _: Wanted) -> list[str]:
    """Compare the plans by their labels, say what was chosen and dropped, and recommend."""
    compared = []
    for source in desk.brief.sources[:8]:
        marks = dict(zip(CRITERIA, score_source(desk.brief, source), strict=True))
        best = max(marks, key=lambda criterion: marks[criterion])
        point = next((p.text for p in source.points if not desk.is_used(p.text)), "")
        desk.use([point])
        quoted = f": {quote(source.label, point)}" if point else "."
        compared.append(f"{source.label} is best in {best} ({marks[best]} of 5){quoted}")
    blocks = ["What each plan does best:", bullets(compared)] if compared else []
    if desk.followed:
        blocks.append(f"Followed: {desk.followed}. {_name_dropped(desk)}")
    if desk.feedback_steps:
        met = [f"“{clip(t, 160)}” is step {n}" for t, n in desk.feedback_steps.items()]
        blocks.append(f"In answer to the feedback: {'; '.join(met)}.")
    return [*blocks, desk.deal(desk.voice.advice)]


def _name_dropped(desk: Desk) -> str:
    if not desk.dropped_milestones:
        return "Nothing of the other plans was dropped."
    named = [quote(label, name) for label, name in desk.dropped_milestones[:6]]
    return f"Dropped, since one team cannot follow two orders of work: {join(named)}."


def write_scores(desk: Desk) -> list[str]:
    """Set the sources side by side in a table of marks."""
    rows = [
        [source.label, *map(str, score_source(desk.brief, source))]
        for source in desk.brief.sources[:8]
    ]
    note = "From 1 (little) to 5 (much), counted from the limits, figures and risks a text names."
    return [table(["Source", *map(upper, CRITERIA)], rows), note]


def score_source(brief: Brief, source: Source) -> list[int]:
    """Count a mark for each criterion out of a source; no judgement is hidden in them."""
    total = max(1, len(source.points))
    covered = sum(covers(source, limit) for limit in brief.limits)
    shares = (
        covered / len(brief.limits) if brief.limits else 0.5,
        4 * sum(re.search(r"\d", point.text) is not None for point in source.points) / total,
        3 * sum(point.kind in ("plan", "parts", "checklist") for point in source.points) / total,
        4 * sum(point.kind in ("risks", "gaps", "limits") for point in source.points) / total,
    )
    return [1 + min(4, round(4 * share)) for share in shares]
