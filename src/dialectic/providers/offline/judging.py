"""The sections of a critique: they quote the one text before them, and say what would mend it."""

from __future__ import annotations

import re

from dialectic.providers.offline.desk import Desk
from dialectic.providers.offline.language import stems_of
from dialectic.providers.offline.markdown import bullets, join, lower, numbered, quote, table
from dialectic.providers.offline.reading import Source, Wanted

SUBSTANCE = ("needs", "features", "parts", "plan", "metrics", "proposal")


def covers(source: Source, limit: str) -> bool:
    """Tell whether a source goes into a limit, by the words they have in common."""
    stems = stems_of(limit)
    return 2 * len(stems & source.stems) >= len(stems)


def open_limits(desk: Desk) -> list[tuple[str, list[str]]]:
    """List the limits of the request and the feedback that sources leave out, with their labels."""
    demands = dict.fromkeys([*desk.brief.limits, *desk.brief.feedback])
    spoken = {limit.rstrip(".!") for limit in desk.brief.limits}
    found = []
    for demand in demands:
        if demand not in desk.brief.limits and demand.rstrip(".!") in spoken:
            continue
        missing = [source.label for source in desk.brief.sources if not covers(source, demand)]
        if missing:
            found.append((demand, missing))
    return found


def objection(desk: Desk, label: str, text: str) -> str:
    """Object to a statement in the words of the voice."""
    return f"{quote(label, text)} {desk.deal(desk.voice.objections, desk.topic_of(text))}"


def write_judgement(desk: Desk) -> list[str]:
    """Sum a critique up: whose text it is, its best and its worst point, and a vote."""
    labels = join([source.label for source in desk.brief.sources[:3]])
    left_out = open_limits(desk)
    blocks = []
    if desk.brief.is_own_work:
        blocks.append(f"Self-critique: {labels} is by the writer of this critique.")
    strong = desk.take(SUBSTANCE, 1)
    weak = desk.take(("summary", "needs", "features"), 1)
    if strong:
        praise = desk.deal(desk.voice.praise, desk.topic_of(strong[0][1]))
        blocks.append(f"Strongest idea: {quote(*strong[0])} {praise}")
    if left_out:
        blocks.append(f"Gravest fault: nothing in it goes into “{left_out[0][0].rstrip('.')}”.")
    elif weak:
        blocks.append(f"Gravest fault: {objection(desk, *weak[0])}")
    vote = "after changes" if left_out or weak else "as it is"
    blocks.append(f"Would fund {labels} {vote}. {desk.deal(desk.voice.verdict)}")
    return blocks


def write_claims(desk: Desk, _: Wanted) -> list[str]:
    """Go through the claims one by one: what is to be kept, then what is to be said better."""
    kept = [
        f"{quote(label, text)} This holds: "
        f"{lower(desk.deal(desk.voice.praise, desk.topic_of(text)))} Keep it unchanged."
        for label, text in desk.take(("features", "parts"), 2)
    ]
    objections = [
        f"{objection(desk, label, text)} Better: "
        f"{lower(desk.deal(desk.voice.mend, desk.topic_of(text)))} "
        f"Sure of this: {'possible' if re.search(r'[0-9]', text) else 'likely'}."
        for label, text in desk.take(SUBSTANCE, desk.items)
    ]
    if not objections:
        return [f"There are few statements to judge. {desk.deal(desk.voice.verdict)}"]
    return [bullets(kept), "What has to change:", bullets(objections)]


def write_feasibility(desk: Desk, _: Wanted) -> list[str]:
    """Ask of each part whether it can be built within the limits, and which fails first."""
    columns, *rows = desk.voice.parts
    cells = [desk.fill(row).split(" | ") for row in rows]
    quotes = [objection(desk, *pair) for pair in desk.take(("parts", "plan"), 3)]
    step, accepted = desk.deal(desk.voice.steps).split(" | ")
    blocks = [bullets(quotes)] if quotes else []
    blocks.append(table(columns.split(" | "), cells))
    blocks.append(
        f"Most likely to fail: {desk.name(desk.phrase())}. To be seen early and cheaply: "
        f"{lower(step)}; {accepted}."
    )
    bounds = [limit for limit in desk.brief.limits if any(char.isdigit() for char in limit)]
    if bounds:
        blocks.append(f"Everything has to fit into this: {join([f'“{b}”' for b in bounds[:3]])}.")
    return blocks


def write_gaps(desk: Desk, _: Wanted) -> list[str]:
    """Go through what was asked for: what has no answer, and what has half of one."""
    asked = {text.rstrip(".!") for text in desk.brief.feedback}
    missing = dict(open_limits(desk))
    gaps = [
        f"No statement of {join(labels[:3])} goes into this: “{demand.rstrip('.')}”"
        + (" (feedback)." if demand.rstrip(".!") in asked else ".")
        for demand, labels in missing.items()
    ]
    half = [text for text in (*desk.brief.feedback, *desk.brief.limits) if text not in missing]
    half = [text for text in dict.fromkeys(t.rstrip(".!") for t in half) if text not in missing]
    half.sort(key=lambda text: -desk.weigh(stems_of(text)))
    gaps += [
        f"Taken up in words only{' (feedback)' if text in asked else ''}: “{text}”. "
        f"{desk.deal(desk.voice.objections, desk.topic_of(text))}"
        for text in half
        if text in asked or half.index(text) < desk.items
    ]
    doubtful = [objection(desk, *pair) for pair in desk.take((), desk.items)]
    extra = desk.take(("parts", "features"), 1, strictly=True)
    doubtful += [f"Not asked for, and to be left out: {quote(*pair)}" for pair in extra]
    return [bullets([*gaps[: desk.items + 4], *doubtful])] if gaps or doubtful else []


def write_holds(desk: Desk, _: Wanted) -> list[str]:
    """Quote what should stay, and say why."""
    return [
        bullets(
            f"{quote(label, text)} {desk.deal(desk.voice.praise, desk.topic_of(text))}"
            for label, text in desk.take(("features", "needs", "summary", "plan"), desk.items)
        )
    ]


def write_changes(desk: Desk) -> list[str]:
    """List the changes that would help most, each ready to be carried out."""
    changes = [
        f"Add an answer to “{demand.rstrip('.')}”: kept by {lower(desk.deal(desk.voice.keep))}, "
        f"accepted when {lower(desk.deal(desk.voice.accept))}."
        for demand, _ in open_limits(desk)[:3]
    ]
    changes += [
        f"Replace {quote(label, text)} by: {lower(desk.deal(desk.voice.mend, desk.topic_of(text)))}"
        for label, text in desk.take(SUBSTANCE, 2)[:2]
    ]
    return [desk.deal(desk.voice.verdict), numbered([*changes, *desk.stances(2)])]
