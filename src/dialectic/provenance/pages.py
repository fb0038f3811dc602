"""Reports as Markdown for people: coverage, worst first, and a document with its sources. Pure.

Every sentence says that texts say the same, never that something is true.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from uuid import UUID

from dialectic.contract.provenance import (
    Coverage,
    FigureOrigin,
    ObjectionFate,
    Place,
    PointFate,
    Provenance,
    TracedPassage,
)
from dialectic.contract.strength import Strength
from dialectic.core.points import Answer, Met, Relation, SourceKind, Status

TEXT_CHARS_MAX = 160
SHOWN_MAX = 50

_STATUS_TITLES = {
    Status.DROPPED: "Dropped without a word",
    Status.CHANGED: "Changed on the way",
    Status.REFUSED: "Refused with a reason",
    Status.PENDING: "Not decided yet",
}


def build_coverage_page(coverage: Coverage) -> str:
    """Build the page about what became of every point."""
    lines = ["# Coverage", ""]
    lines += [
        f"Iteration {coverage.iteration}, by {coverage.method}. Two passages are matched if they "
        "say the same; that does not say that either is true.",
        "",
    ]
    if coverage.of is None:
        lines += ["No document merges the theses yet, so nothing is decided.", ""]
    else:
        lines += [f"Judged by {name_place(coverage.of)}.", ""]
    lines += _build_counts(coverage)
    for status, title in _STATUS_TITLES.items():
        found = [one for one in coverage.points if one.status is status]
        lines += _build_section(title, map(_describe_fate, found), len(found))
    open_ = [one for one in coverage.objections if one.answer is Answer.UNANSWERED]
    lines += _build_section(
        "Objections without an answer", map(_describe_objection, open_), len(open_)
    )
    empty = [one for one in coverage.objections if one.answer is Answer.REFUSED_EMPTILY]
    lines += _build_section(
        "Objections refused without a reason", map(_describe_objection, empty), len(empty)
    )
    lines += _build_plan(coverage)
    made_up = [one for one in coverage.figures if one.is_made_up]
    lines += _build_section(
        "Figures that were made up", map(_describe_figure, made_up), len(made_up)
    )
    return "\n".join(lines).rstrip() + "\n"


def _build_counts(coverage: Coverage) -> list[str]:
    head = ["thesis", "points", *(status.value for status in Status)]
    rows = [
        [
            name_place(one.thesis),
            one.points,
            one.kept,
            one.changed,
            one.refused,
            one.dropped,
            one.pending,
        ]
        for one in coverage.theses
    ]
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    lines += [f"| {' | '.join(map(str, row))} |" for row in rows]
    return [*lines, "", "Only points that no other thesis has are counted here.", ""]


def _build_section(title: str, entries: Iterable[str], count: int) -> list[str]:
    if not count:
        return []
    shown = [f"- {entry}" for entry, _ in zip(entries, range(SHOWN_MAX), strict=False)]
    rest = count - len(shown)
    more = [f"- … and {rest} more in coverage.json"] if rest > 0 else []
    return [f"## {title} ({count})", "", *shown, *more, ""]


def _build_plan(coverage: Coverage) -> list[str]:
    bare = [one for one in coverage.requirements if one.met is Met.NOT]
    lines = _build_section(
        "Requirements without a step",
        (f"{one.number} {quote(one.requirement.text)}".strip() for one in bare),
        len(bare),
    )
    idle = [one for one in coverage.steps if one.met is Met.NOT]
    lines += _build_section(
        "Steps without a requirement", (quote(one.step.text) for one in idle), len(idle)
    )
    unmet = [one for one in coverage.constraints if not one.requirements]
    lines += _build_section(
        "Sentences of the request that no requirement repeats",
        (quote(one.constraint.text) for one in unmet),
        len(unmet),
    )
    return lines


def _describe_fate(fate: PointFate) -> str:
    said = (
        f"{quote(fate.point.text)} ({name_place(fate.point)}{'' if fate.is_lone else ', shared'})"
    )
    if (hop := fate.changed) is not None:
        before, after = quote(hop.before.text), quote(hop.after.text)
        return f"{said}: {before} became {after} in {name_place(hop.after)}"
    if fate.refused is not None:
        reason = fate.refused.reason or "no reason given"
        return f"{said}: {name_place(fate.refused.place)}: {shorten(reason)}"
    if fate.status is Status.DROPPED:
        return f"{said}: last seen in {fate.last_seen}, lost at {fate.lost_at or 'the end'}"
    return said


def _describe_objection(one: ObjectionFate) -> str:
    return f"{one.number} {quote(one.objection.text)} ({name_place(one.objection)})".strip()


def _describe_figure(one: FigureOrigin) -> str:
    others = ", ".join(other.text for other in one.others)
    instead = f"; what was read says {others}" if others else ""
    return f"{one.figure} in {quote(one.place.text)}: first in {name_place(one.first)}{instead}"


def describe_figures(figures: Sequence[FigureOrigin]) -> Iterator[str]:
    """Describe figures, one a line: those first that no text has which was given or argued."""
    for one in sorted(figures, key=lambda each: not each.is_made_up):
        sign = "made up" if one.is_made_up else "first in"
        where = one.made_up_at or name_place(one.first)
        others = ", ".join(f"{each.text} in {name_place(each)}" for each in one.others)
        instead = f"; instead {others}" if others else ""
        yield f"{one.figure}  {sign} {where}{instead}: {quote(one.place.text)}"


def describe_strength(found: Strength) -> Iterator[str]:
    """Describe what a document rests on, in a few lines."""
    yield f"Seats: {len(found.seats)} of {found.seats_asked} ({', '.join(found.models)})"
    per = found.critiques_per_thesis
    rate = "" if per is None else f", {per:g} per thesis"
    yield f"Theses: {found.theses}. Critiques: {found.critiques}{rate}"
    yield f"Documents: {found.documents}, shortened {found.shortened}, cut off {len(found.cut_off)}"
    for note in found.notes:
        yield f"- {note.text}"
    if not found.notes:
        yield "Nothing is missing."


# -- one document ----------------------------------------------------------------------------------


def build_sourced_text(provenance: Provenance, content: str) -> str:
    """Build a document with a mark behind each passage, and the list of sources below it."""
    numbers: dict[tuple[UUID | None, int], int] = {}
    written, at = [], 0
    for passage in provenance.passages:
        marks = [
            numbers.setdefault((one.version_id, one.start), len(numbers) + 1)
            for one in passage.sources[:3]
        ]
        sign = "".join(f"[{number}]" for number in marks) or "[new]"
        end = passage.end
        written.append(f"{content[at:end]} {sign}")
        at = end
    written.append(content[at:])
    sources = {
        (one.version_id, one.start): one
        for passage in provenance.passages
        for one in passage.sources
    }
    listed = [
        f"[{number}] {name_place(sources[key])}: {quote(sources[key].text)}"
        for key, number in numbers.items()
    ]
    return (
        "".join(written).rstrip()
        + "\n\n"
        + "\n".join(["Passages that say the same:", *listed])
        + "\n"
    )


def describe_passage(passage: TracedPassage, content: str) -> Iterator[str]:
    """Describe where a passage comes from, in a few lines."""
    yield f"{quote(content[passage.start : passage.end])}  {passage.relation.value}"
    for one in passage.sources:
        certainty = "" if one.is_sure else ", likely"
        via = f", via {len(one.via)} documents" if one.via else ""
        yield (
            f"  {name_place(one)} says the same ({one.relation.value}, {one.score:.2f}{certainty}"
            f"{via}): {quote(one.text)}"
        )
    if not passage.sources and passage.new_by is not None:
        who = "a person" if passage.new_by is SourceKind.PERSON else "its author"
        yield f"  added by {who} in {str(passage.new_at)[:8]}"


def name_place(place: Place) -> str:
    """Name a text by its label, its author and its id."""
    if place.kind not in (SourceKind.CONTRIBUTION, SourceKind.PERSON):
        return f"the {place.kind.value}"
    by = "a person" if place.kind is SourceKind.PERSON else place.model
    return f"{place.label} by {by} ({str(place.id)[:8]})"


def quote(text: str) -> str:
    """Quote a passage on one line."""
    return f"“{shorten(text)}”"


def shorten(text: str) -> str:
    """Put a text on one line of limited length."""
    line = " ".join(text.split())
    return line if len(line) <= TEXT_CHARS_MAX else f"{line[: TEXT_CHARS_MAX - 1].rstrip()}…"


def count_relations(passages: Sequence[TracedPassage]) -> dict[Relation, int]:
    """Count passages by how they relate to what their author read."""
    counts = dict.fromkeys(Relation, 0)
    for passage in passages:
        counts[passage.relation] += 1
    return counts
