"""The sections that make one text out of several: what is kept, changed, dropped, and why.

The merged proposal speaks of the work alone. Where a section is about the sources themselves, they
are quoted word for word with their labels, so that a reader can follow a point through all stages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from dialectic.providers.offline.desk import Desk, alike
from dialectic.providers.offline.language import clip, stems_of
from dialectic.providers.offline.markdown import below, bullets, end, join, lower, numbered, quote
from dialectic.providers.offline.reading import Brief, Point, Source, Wanted
from dialectic.providers.offline.ruling import Effect

REASONS = (
    "It bears directly on {p}.",
    "Kept for what it adds on {p}.",
    "Without it the work on {p} would start from less.",
)
HOLDS_BACK = re.compile(
    r"\b(?:not|never|missing|unclear|open|lacks?|cannot|no evidence|instead|until|unless|wait)\b",
    re.IGNORECASE,
)
STANDS = frozenset(("proposal", "features", "parts", "needs", "plan", "metrics", "summary"))


@dataclass(frozen=True, slots=True)
class Contested:
    """A statement that some sources kept and others gave up."""

    text: str
    kept: list[str]
    gave_up: list[str]
    stays: bool


def write_proposal(desk: Desk, section: Wanted) -> list[str]:
    """Write a whole proposal out of what stands in the sources, after what was ruled."""
    brief, voice = desk.brief, desk.voice
    changed = [ruling for ruling in desk.rulings if ruling.effect is Effect.CHANGED]
    contested = find_contested(desk)
    gone = [ruling.claim for ruling in desk.rulings if ruling.effect is Effect.DROPPED]
    gone += [statement.text for statement in contested if not statement.stays]
    desk.use(gone)
    settled = _agreed(brief, gone)
    openings = (desk.deal(voice.opening) for _ in voice.opening)
    purpose = [
        next((opening for opening in openings if opening not in gone), ""),
        f"At stake: {brief.subject}, for {join(brief.people)}.",
    ]
    shape = [f"{end(ruling.claim)} {ruling.remedy}" for ruling in changed if ruling.claim]
    shape += [s.text for s in contested[: desk.items] if s.stays and not desk.is_used(s.text)]
    desk.use([*(ruling.claim for ruling in changed), *(s.text for s in contested)])
    shape += _statements(desk, settled, ("parts", "limits"), desk.items)
    plan = [f"**{m.name}**: {m.goal}. Accepted when: {m.acceptance}." for m in desk.milestones]
    parts = {
        "Purpose": [*purpose, bullets(_statements(desk, settled, ("needs", "summary"), 2))],
        "Requirements": [numbered(_requirements(desk, settled))],
        "Shape of the solution": [bullets(shape or desk.stances(desk.items))],
        "Plan": [numbered(plan)],
        "Measures": [bullets(_measures(desk))],
    }
    return [
        block
        for title, blocks in parts.items()
        for block in (below(section.heading, title), *filter(None, blocks))
    ]


def _agreed(brief: Brief, gone: list[str]) -> list[str]:
    """List what several sources say and let stand, the most supported first."""
    standing = [
        (text, sum(part in STANDS for part in labels.values()))
        for text, labels in brief.shared.items()
        if text not in gone and not _is_critical(labels)
    ]
    return [text for text, count in sorted(standing, key=lambda row: -row[1]) if count > 1]


def _statements(desk: Desk, settled: list[str], kinds: tuple[str, ...], count: int) -> list[str]:
    """Take statements over as they are: first the agreed ones, then from each source in turn."""
    kind_of = {p.text: p.kind for source in desk.brief.sources for p in source.points}
    common = [t for t in settled if kind_of.get(t) in kinds and not desk.is_used(t)][:count]
    desk.use(common)
    if len(common) == count:
        return common
    proposals = {source.label for source in desk.brief.sources if not source.is_critique}
    taken = desk.take(kinds, count - len(common), strictly=True)
    return common + [text for label, text in taken if label in proposals][: count - len(common)]


def _requirements(desk: Desk, settled: list[str]) -> list[str]:
    brief = desk.brief
    demands = [f"{limit}. Kept by {lower(desk.deal(desk.voice.keep))}." for limit in brief.limits]
    spoken = " ".join(brief.limits)
    demands += [text for text in brief.feedback if text.rstrip(".!") not in spoken]
    if not demands:
        demands = [f"{desk.name(p)} is taken care of." for p in desk.leading(3)]
    return [*demands, *_statements(desk, settled, ("features",), 3)]


def _measures(desk: Desk) -> list[str]:
    limits = [limit for limit in desk.brief.limits if re.search(r"\d", limit)]
    rows = desk.rows(desk.voice.metrics, 3)
    return [f"{limit}: read at each milestone." for limit in limits[:2]] + [
        f"{measure}: {target}, from {lower(source)}." for measure, target, source in rows
    ]


def write_taken(desk: Desk, section: Wanted) -> list[str]:
    """Say of each criticism that was accepted what it changed or removed."""
    points = []
    for ruling in desk.rulings:
        said = quote(ruling.critic, ruling.objection)
        if ruling.effect is Effect.DROPPED:
            why = lower(desk.deal(desk.voice.drop, desk.topic_of(ruling.claim)))
            points.append(f"{said} Dropped: {quote(ruling.author, ruling.claim)}, since {why}.")
        elif ruling.effect is Effect.CHANGED and ruling.claim:
            kept = quote(ruling.author, ruling.claim)
            points.append(f"{said} Changed: {kept}; added: {lower(ruling.remedy)}")
        elif ruling.effect is Effect.CHANGED:
            points.append(f"{said} Taken up among the requirements.")
    desk.use(ruling.objection for ruling in desk.rulings)
    return [bullets(points)] if points else write_kept(desk, section)


def write_refused(desk: Desk, _: Wanted) -> list[str]:
    """Say of each criticism that was not accepted why; without criticism, which ideas are left."""
    points = []
    for ruling in desk.rulings:
        if ruling.effect is Effect.REFUSED:
            why = desk.deal(desk.voice.refuse, desk.topic_of(ruling.objection))
            stays = f" It stays as it is: {quote(ruling.author, ruling.claim)}."
            points.append(
                f"{quote(ruling.critic, ruling.objection)} {why}{stays if ruling.claim else ''}"
            )
    if points:
        return [bullets(points)]
    if any(source.is_critique for source in desk.brief.sources):
        return ["No point of the critique was refused."]
    spare = sorted(desk.take((), 6), key=lambda pair: desk.weigh(stems_of(pair[1])))[:3]
    return [
        bullets(
            f"Left out: {quote(*pair)}, since {lower(desk.deal(desk.voice.drop))}. "
            f"Evidence that would bring it back: {lower(desk.deal(desk.voice.accept))}."
            for pair in spare
        )
        if spare
        else "No strong idea was left out."
    ]


def kept_point(desk: Desk, label: str, text: str) -> str:
    """Keep a statement with the reason, or with the source that comes close to it."""
    stems = stems_of(text)
    for other in desk.brief.sources:
        if other.label != label and any(alike(stems, point.stems) for point in other.points):
            return f"{quote(label, text)} {other.label} comes close to this."
    return f"{quote(label, text)} {desk.deal(REASONS, desk.topic_of(text))}"


def write_kept(desk: Desk, _: Wanted) -> list[str]:
    """Quote what must not get lost, each source in turn."""
    taken = desk.take((), desk.items * 2)
    points = [kept_point(desk, label, text) for label, text in taken]
    return [bullets(points)] if points else ["Nothing stands in one text alone."]


def find_contested(desk: Desk) -> list[Contested]:
    """Find what one source kept and another gave up, and decide whether it stays."""
    found = []
    for text, parts in desk.brief.shared.items():
        kept = [label for label, part in parts.items() if part in STANDS]
        gave_up = [label for label, part in parts.items() if part == "taken"]
        if kept and gave_up:
            stays = len(kept) > len(gave_up) or bool(stems_of(text) & desk.cares)
            found.append(Contested(text, kept, gave_up, stays=stays))
    return found


def write_decisions(desk: Desk, section: Wanted) -> list[str]:
    """Rule on each statement that one source kept and another gave up, or else on opposites."""
    found = []
    for contested in find_contested(desk):
        reasons = desk.voice.praise if contested.stays else desk.voice.drop
        reason = lower(desk.deal(reasons, desk.topic_of(contested.text))).rstrip(".")
        found.append(
            f"“{clip(contested.text, 200)}” stands in {join(contested.kept)}; "
            f"{join(contested.gave_up)} gave it up for a criticism. Chosen: "
            f"{'keep it' if contested.stays else 'leave it out'}, for this reason: {reason}."
        )
    return [bullets(found[: desk.items])] if found else write_differences(desk, section)


def write_doubts(desk: Desk, _: Wanted) -> list[str]:
    """Name what no source settles, and the cheapest way to settle it."""
    asked = [f"Asked in the request and still open: “{text}”" for text in desk.brief.questions]
    own = []
    for _place in range(3):
        step, accepted = desk.deal(desk.voice.steps).split(" | ")
        question = desk.deal(desk.voice.questions)
        own.append(f"{question} Settle it cheaply: {lower(step)}; {accepted}.")
    return [numbered([*asked, *own])]


def write_agreements(desk: Desk, _: Wanted) -> list[str]:
    """Quote what more than one source says."""
    # A critique quotes what it objects to, which is no agreement.
    both = [(t, labels) for t, labels in desk.brief.shared.items() if not _is_critical(labels)]
    both.sort(key=lambda row: -len(row[1]))
    found = [f"“{clip(text, 200)}” ({join(list(labels)[:4])})" for text, labels in both]
    for phrase in desk.brief.phrases:
        on = [(s.label, point) for s in desk.brief.sources if (point := _on(s, phrase))]
        if len(on) > 1:
            quotes = [quote(label, clip(point.text, 140)) for label, point in on[:3]]
            found.append(f"On {desk.name(phrase)}: {join(quotes)}.")
    if not found:
        return [f"Nothing is said twice; the common ground is {desk.names(2)}."]
    return ["Taken up by more than one source:", bullets(found[: desk.items])]


def write_comparison(desk: Desk, section: Wanted) -> list[str]:
    """Write first what is common, then what differs."""
    return [
        *write_agreements(desk, section),
        "What differs, and what is chosen:",
        *write_differences(desk, section),
    ]


def _is_critical(labels: Iterable[str]) -> bool:
    return any("critique" in label.lower() for label in labels)


def _on(source: Source, phrase: str) -> Point | None:
    stems = stems_of(phrase)
    on = (point for point in source.points if stems and stems <= point.stems)
    return next((point for point in on if not HOLDS_BACK.search(point.text)), None)


def write_differences(desk: Desk, _: Wanted) -> list[str]:
    """Set a statement that goes ahead against one that holds back, and choose."""
    found = [
        f"On {desk.name(phrase)}, {quote(*ahead)} stands against {quote(*back)}. "
        f"Chosen: {lower(desk.deal(desk.voice.verdict, phrase))}"
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
        ahead = [pair for pair in on if not HOLDS_BACK.search(pair[1])]
        ahead.sort(key=lambda pair: _is_critical(pair[:1]))
        back = [q for q in on if HOLDS_BACK.search(q[1]) and ahead and q[0] != ahead[0][0]]
        found += [(phrase, ahead[0], pair) for pair in back[:1]]
    return found
