"""One writer for each kind of section. Each takes the desk and gives blocks of markdown.

Those of a critique stand in `judging`, of a merger in `merging`, of a plan in `planning`; here are
those of a proposal, and the table that tells which writer a kind of section has.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from dialectic.providers.offline import judging, merging, planning
from dialectic.providers.offline.desk import Desk
from dialectic.providers.offline.language import clip, find_limits
from dialectic.providers.offline.markdown import bullets, join, lower, numbered, quote, table, upper
from dialectic.providers.offline.reading import Brief, Wanted

BENEFITS = (
    "nothing has to be entered twice",
    "a mistake is noticed while it is still cheap",
    "the next step is clear without asking around",
    "the daily work takes fewer detours",
)
PRIORITIES = ("must", "must", "should", "should", "could")


def write_section(desk: Desk, section: Wanted) -> list[str]:
    """Write what stands under a heading, with what the sources say to it."""
    if "json" in section.note.lower():
        return [_json(desk, section)]
    blocks = WRITERS.get(section.kind, _general)(desk, section) or _general(desk, section)
    desk.written.add(section.kind)
    return blocks if section.kind in READS_SOURCES else _evidence(desk, section.kind) + blocks


def _evidence(desk: Desk, kind: str) -> list[str]:
    """Quote what the sources say to a section, and say what becomes of it."""
    if desk.brief.task == "critique":
        taken = desk.take([kind], 3, strictly=True)
        return [bullets(judging.objection(desk, *pair) for pair in taken)] if taken else []
    taken = desk.take([kind], 3, strictly=kind not in BUILT_ON_SOURCES)
    if not taken:
        return []
    if desk.brief.task == "merge":
        return [bullets(merging.kept_point(desk, *pair) for pair in taken)]
    return ["Carried over:", bullets(f"{quote(*pair)} Still stands." for pair in taken)]


def answer_feedback(desk: Desk, _: Wanted) -> list[str]:
    """Say to each word of feedback what becomes of it."""
    if not desk.brief.feedback:
        return ["No feedback was given so far."]
    judges = desk.brief.task == "critique"
    other = "Held against the text in what follows." if judges else "Taken up as a requirement."
    answers = (
        f"“{clip(text, 200)}” {'Taken as a limit.' if find_limits([text]) else other}"
        for text in desk.brief.feedback
    )
    # One paragraph: a list would run together with a list that follows it.
    return [f"In answer to the feedback: {' '.join(answers)}"]


def _summary(desk: Desk, _: Wanted) -> list[str]:
    brief = desk.brief
    if brief.task == "critique" and brief.sources:
        return [desk.deal(desk.voice.opening), *judging.write_judgement(desk)]
    text = f"At stake: {brief.subject}. What carries it: {desk.names(4)}."
    if brief.limits:
        text += f" Limits are set: {join([f'“{x}”' for x in brief.limits[:3]])}."
    blocks = [desk.deal(desk.voice.opening), text]
    if brief.sources:
        blocks.append(_reading_note(brief))
    if brief.task == "plan":
        names = join([stone.name for stone in desk.milestones])
        blocks.append(f"To be delivered, in this order: {names}.")
        if len(brief.sources) > 1:
            blocks += ["Decided where the proposals differ:"]
            blocks += merging.write_differences(desk, Wanted("## x", "differences", ""))
    return [*blocks, *desk.stances(1)]


def _reading_note(brief: Brief) -> str:
    labels = [source.label for source in brief.sources]
    named = [*labels[:6], f"{len(labels) - 6} more"] if len(labels) > 6 else labels
    text = f"Read for this: {join(named)}."
    if brief.limits:
        met = sum(any(judging.covers(s, limit) for s in brief.sources) for limit in brief.limits)
        text += f" Limits set so far: {len(brief.limits)}; taken up there: {met}."
    return text


def _needs(desk: Desk, _: Wanted) -> list[str]:
    brief, voice = desk.brief, desk.voice
    lead = f"Those concerned: {join(brief.people)}."
    if brief.figures:
        lead += f" Where things stand: “{desk.rng.choice(brief.figures)}”."
    if brief.limits:
        lead += f" The request is firm on this: “{desk.rng.choice(brief.limits)}”."
    values = [desk.deal(voice.value) for _ in voice.value]
    return [desk.deal(voice.opening), lead, bullets(values), _argument_against(desk)]


def _argument_against(desk: Desk) -> str:
    return f"The strongest argument against it: {lower(desk.deal(desk.voice.drop))}."


def _features(desk: Desk, section: Wanted) -> list[str]:
    if desk.brief.task == "plan" or "(R1" in section.note:
        return _numbered_requirements(desk)
    features = []
    for phrase, priority in zip(desk.leading(desk.items), PRIORITIES, strict=False):
        benefit, done = lower(desk.deal(BENEFITS)), lower(desk.deal(desk.voice.accept))
        said = desk.brief.anchors.get(phrase, "")
        features.append(
            f"**{upper(phrase)}** ({priority}). As {desk.rng.choice(desk.brief.people)}, we want "
            f"{desk.name(phrase)} taken care of, so that {benefit}. Done when {done}."
            + (f" The request says: “{clip(said, 160)}”" if said else "")
        )
    features += [
        f"**Asked for in the feedback** (must). “{clip(text, 160)}” "
        f"Done when {lower(desk.deal(desk.voice.accept))}."
        for text in desk.brief.feedback
    ]
    kept = [f"“{x}”: kept by {lower(desk.deal(desk.voice.keep))}." for x in desk.brief.limits]
    return [
        numbered(features),
        *(["Limits that hold for all of it:", bullets(kept)] if kept else []),
    ]


def _numbered_requirements(desk: Desk) -> list[str]:
    """Give each demand a number that the milestones can refer to."""
    brief = desk.brief
    demands = [f"“{limit}”" for limit in brief.limits]
    spoken = " ".join(brief.limits)
    asked = [text.rstrip(".!") for text in brief.feedback]
    demands += [f"“{text}”" for text in asked if text not in spoken]
    told = " ".join(demands)
    phrases = [phrase for phrase in desk.leading(desk.items + 3) if phrase not in told]
    demands += [f"{upper(desk.name(phrase))} is provided for" for phrase in phrases[: desk.items]]
    desk.requirements = demands
    lines = []
    for number, demand in enumerate(demands, 1):
        priority = "must" if demand.startswith("“") else "should"
        lines.append(
            f"**R{number}** ({priority}): {demand}. Kept by {lower(desk.deal(desk.voice.keep))}. "
            f"Verified: {lower(desk.deal(desk.voice.accept))}."
        )
    users = f"Those concerned: {join(brief.people)}. {desk.deal(desk.voice.value)}"
    scope = f"Out of scope until asked for: whatever serves neither {desk.names(2)} nor a limit."
    return [users, bullets(lines), scope]


def _parts(desk: Desk, _: Wanted) -> list[str]:
    columns, *rows = desk.voice.parts
    cells = [desk.fill(row).split(" | ") for row in rows]
    return [table(columns.split(" | "), cells), bullets(desk.stances(desk.items))]


def _stack(desk: Desk, _: Wanted) -> list[str]:
    rows = desk.rows(desk.voice.stack, len(desk.voice.stack))
    note = "Costs are kinds and not offers: no price was looked up."
    return [table(["Part", "Choice", "Why", "Cost", "Replaced by"], rows), note]


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
    rows = [
        [limit, "unknown", "as the request states it", "at each milestone"] for limit in limits[:3]
    ]
    rows += [
        [measure, "unknown", target, source]
        for measure, target, source in desk.rows(desk.voice.metrics, desk.items)
    ]
    close = f"Collect today's figures around {desk.name(desk.phrase())} before the work begins."
    return [table(["Measure", "Today", "Target", "How it is measured"], rows), close]


def _risks(desk: Desk, section: Wanted) -> list[str]:
    voice = desk.voice
    rows = [
        [f"Not met: “{limit}”", "medium", "high", lower(desk.deal(voice.keep))]
        for limit in desk.rng.sample(desk.brief.limits, min(2, len(desk.brief.limits)))
    ]
    rows += desk.rows(voice.risks, desk.items)
    cells = [[*row[:3], lower(desk.deal(voice.signs)), *row[3:]] for row in rows]
    blocks = [table(["Risk", "Likelihood", "Impact", "First sign", "Response"], cells)]
    if "measure" in section.heading.lower():
        blocks += _metrics(desk, section)
    if "assum" in section.heading.lower():
        blocks.insert(0, f"Assumed: {lower(desk.deal(voice.value))}")
    if "quality" in section.heading.lower():
        slip = "When a milestone slips, its scope is cut before its acceptance is."
        blocks = [bullets(f"Tested: {d}." for d in voice.accept[: desk.items]), *blocks, slip]
    return [*blocks, *desk.stances(1)]


def _questions(desk: Desk, _: Wanted) -> list[str]:
    asked = [f"Asked in the request: “{text}”" for text in desk.brief.questions]
    own = [
        f"{desk.deal(desk.voice.questions)} Assumed here: {lower(desk.deal(desk.voice.mend))}"
        for _ in range(3)
    ]
    return [numbered([*asked, *own])]


def _verdict(desk: Desk, _: Wanted) -> list[str]:
    if desk.brief.task == "critique" and desk.brief.sources:
        return judging.write_changes(desk)
    return [desk.deal(desk.voice.verdict), "What to do first:", numbered(desk.stances(3))]


def _scores(desk: Desk, section: Wanted) -> list[str]:
    return planning.write_scores(desk) if desk.brief.sources else _metrics(desk, section)


def _json(desk: Desk, section: Wanted) -> str:
    """Write a fenced object with the keys that the description names, or with the criteria."""
    criteria = [criterion.replace(" ", "_") for criterion in planning.CRITERIA]
    keys = re.findall(r"`(\w{1,60})`", section.note) or criteria
    sources = desk.brief.sources
    marks = planning.score_source(desk.brief, sources[0]) if sources else [3]
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
    "proposal": merging.write_proposal,
    "comparison": merging.write_comparison,
    "taken": merging.write_taken,
    "refused": merging.write_refused,
    "decisions": merging.write_decisions,
    "doubts": merging.write_doubts,
    "claims": judging.write_claims,
    "feasibility": judging.write_feasibility,
    "advice": planning.write_advice,
    "stack": _stack,
    "masterplan": planning.write_master_plan,
    "scores": _scores,
    "checklist": planning.write_checklist,
    "risks": _risks,
    "differences": merging.write_differences,
    "gaps": judging.write_gaps,
    "holds": judging.write_holds,
    "agreements": merging.write_agreements,
    "kept": merging.write_kept,
    "metrics": _metrics,
    "limits": _limits,
    "dependencies": planning.write_dependencies,
    "plan": planning.write_milestones,
    "features": _features,
    "parts": _parts,
    "needs": _needs,
    "questions": _questions,
    "verdict": _verdict,
}
BUILT_ON_SOURCES = frozenset("needs features parts limits".split())
READS_SOURCES = frozenset(
    """summary feedback proposal comparison taken refused decisions doubts claims feasibility advice
    scores differences gaps holds agreements kept checklist questions plan masterplan""".split()
)
