"""The second look: show a finished document once what it lost of its inputs. Pure.

The points of everything that a document was made from are compared with it (`provenance`). Those
that it neither has nor refuses are its omissions. If there are any, one further turn of the same
job asks to add or to refuse them; `core.documents.second_look` merges the answer. An answer that
cannot be used changes nothing: the document stays as it was, and a flag says so.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from uuid import UUID, uuid5

from dialectic.core.documents.second_look import (
    LEFT_OUT,
    LookAnswer,
    Omission,
    merge_look,
    read_look,
)
from dialectic.core.documents.stitching import join
from dialectic.core.documents.turns import (
    LOOK,
    Ask,
    append_sections,
    find_added,
    list_lacking,
    read_asked,
)
from dialectic.core.models.messages import FinishReason, Reply
from dialectic.core.points import Status
from dialectic.core.process.definition import Holds, Stage
from dialectic.core.text import clean_text
from dialectic.pipeline.gather import Item, Material
from dialectic.pipeline.interpret import Continue, Finish
from dialectic.pipeline.looks import Look

if TYPE_CHECKING:
    from dialectic.provenance.coverage import Judge

# An answer to a second look that cannot be used.
UNREAD = "look_unread"
# The flag that sums a look up.
SUMMED = "second_look: "
OMISSIONS_MAX = 80
# A shorter point of a proposal is a label or a heading rather than an idea.
WORDS_MIN = 7
# A longer point is quoted up to here.
QUOTED_CHARS_MAX = 400
# What must not get lost. A question, and what a merger decided or refused, is not an idea.
_COUNTED = frozenset({Holds.CLAIM, Holds.REQUIREMENT, Holds.STEP, Holds.OBJECTION})
_TEXTS = UUID(int=0)
_MARKS = re.compile(r"^\s*(?:(?:>|#{1,6}|[-*+•]|\d{1,9}[.)]|\[[ xX]\])\s+)*")
_CELLS = re.compile(r"\s*\|\s*")


def decide_look(outcome: Finish, material: Material) -> Finish | Continue:
    """Decide whether a finished document gets a second look: once, and if it lost something."""
    if material.look is None or outcome.is_incomplete:
        return outcome
    if any(read_asked(chunk)[0] is Ask.LOOK for chunk in material.chunks):
        return outcome
    found = list_omissions(material, outcome.text)
    if not found:
        return replace(outcome, flags=(*outcome.flags, _sum_up(0, 0, 0)))
    return Continue((f"{LOOK}{len(found)}", *outcome.flags))


def prepare_look(material: Material) -> Material:
    """Find again what the turn of a look asks for: the document so far and its omissions."""
    if material.look is None or material.ask is not Ask.LOOK:
        return material
    document = restore_text(material)
    found = list_omissions(material, document)
    return replace(material, look=replace(material.look, document=document, omissions=found))


def take_look(reply: Reply, material: Material) -> Finish:
    """Build the document from the answer to its look."""
    look = material.look
    assert look is not None, "a look is asked for by its part of the process"
    answer = read_look(reply.text) if reply.finish_reason is FinishReason.STOP else None
    if answer is None:
        return skip_look(material)
    title = next((title for title in _list_refused_titles(look)), LEFT_OUT)
    merged = merge_look(look.document, answer, look.omissions, refused_title=title)
    text, notes = clean_text(merged)
    added, refused = _count(material, text, answer)
    flags = (_sum_up(len(look.omissions), added, refused), *(f"cleaned: {n}" for n in notes))
    return Finish(text, is_incomplete=False, flags=flags)


def skip_look(material: Material) -> Finish:
    """Build the document without its look."""
    return Finish(restore_text(material), is_incomplete=False, flags=(UNREAD,))


def restore_text(material: Material) -> str:
    """Build the finished document before its look, from its turns."""
    joined = join([chunk.text for chunk in material.base])
    text = joined.text
    if (added := find_added(material.chunks)) is not None:
        lacking = list_lacking(text, material.expected)
        wanted = [document for document in material.expected if document.key in lacking]
        text = append_sections(text, added.text, wanted)
    return clean_text(text)[0]


def _sum_up(omissions: int, added: int, refused: int) -> str:
    found = f"{omissions} omission{'' if omissions == 1 else 's'}"
    left = omissions - added - refused
    return f"{SUMMED}{found}, {added} added, {refused} refused, {left} left"


def _list_refused_titles(look: Look) -> Iterator[str]:
    for rule in look.stage.list_points(look.output_type):
        if rule.holds is Holds.REFUSED:
            yield rule.heading.lstrip("# ")


def _count(material: Material, text: str, answer: LookAnswer) -> tuple[int, int]:
    """Count the omissions that the document has now, and those that it refuses with a reason."""
    from dialectic.provenance.reasons import is_empty_reason

    look = material.look
    assert look is not None
    still = {one.text for one in list_omissions(material, text, limit=None)}
    refused = {n for n, reason in answer.reasons.items() if not is_empty_reason(reason)}
    numbered = list(enumerate(look.omissions, start=1))
    refusals = sum(number in refused for number, _ in numbered)
    added = sum(number not in answer.reasons and o.text not in still for number, o in numbered)
    return added, refusals


# -- omissions ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Lost:
    omission: Omission
    is_lone: bool
    worth: float
    place: tuple[int, int]


def list_omissions(
    material: Material, text: str, *, limit: int | None = OMISSIONS_MAX
) -> tuple[Omission, ...]:
    """List what a document lost: what only one input has first, then by worth."""
    from dialectic.provenance.score import limit_threads

    look = material.look
    assert look is not None, "omissions are those of a part with a second look"
    with limit_threads():
        lost = list(_find_lost(look, material.words.inputs, text))
    lost.sort(key=lambda one: (not one.is_lone, -one.worth, one.place))
    # What two texts say in the same words is shown once.
    kept = {one.omission.text.casefold(): one.omission for one in reversed(lost)}
    return tuple(reversed(kept.values()))[:limit]


def _find_lost(look: Look, inputs: Sequence[Item], text: str) -> Iterator[_Lost]:
    from dialectic.provenance.align import Alignment
    from dialectic.provenance.answers import list_objections
    from dialectic.provenance.chain import Chains
    from dialectic.provenance.coverage import Judge, list_own_points
    from dialectic.provenance.points import build_sections
    from dialectic.provenance.texts import Role, Text, build_lineage

    texts = []
    for number, item in enumerate(inputs):
        source = look.find_source(item.label)
        sections = None if source is None else build_sections(*source)
        is_critique = source is not None and _objects(*source)
        texts.append(
            Text(
                id=uuid5(_TEXTS, str(number)),
                content=item.text,
                label=item.label,
                role=Role.CRITIQUE if is_critique else Role.THESIS,
                sections=sections,
            )
        )
    theses = tuple(one.id for one in texts if one.role is Role.THESIS)
    texts = [replace(t, sources=theses) if t.role is Role.CRITIQUE else t for t in texts]
    document = Text(
        id=uuid5(_TEXTS, "document"),
        content=text,
        sources=tuple(one.id for one in texts),
        labels={one.label: one.id for one in texts},
        sections=build_sections(look.stage, look.output_type),
        is_final=True,
    )
    chains = Chains(Alignment(build_lineage([*texts, document])))
    judge = Judge(chains, chains.lineage.find(document.id))
    points = chains.lineage.points
    for place, n, is_lone in list_own_points(chains, Role.THESIS):
        point = points[place].points[n]
        is_counted = point.holds in _COUNTED and len(point.normal.split()) >= WORDS_MIN
        if is_counted and judge.judge(place, n, is_lone=is_lone).status is Status.DROPPED:
            yield _build_lost(judge, place, [n], is_lone=is_lone)
    for objection in list_objections(judge):
        item_points = points[objection.text].items[objection.item].points
        if objection.is_open and item_points:
            yield _build_lost(judge, objection.text, item_points, is_lone=True)


def _objects(stage: Stage, output_type: str) -> bool:
    return any(rule.holds is Holds.OBJECTION for rule in stage.list_points(output_type))


def _quote(written: str) -> str:
    """Write a passage on one line, without marks of lists, tables and emphasis."""
    bare = _MARKS.sub("", written).strip().strip("|")
    line = " ".join(_CELLS.sub("; ", bare).replace("**", "").split())
    is_quoted = line.startswith("“") and line.find("”") == len(line) - 1
    return line[1:-1] if is_quoted else line


def _build_lost(judge: Judge, text: int, points: Collection[int], *, is_lone: bool) -> _Lost:
    lineage, alignment = judge.chains.lineage, judge.chains.alignment
    found = [lineage.points[text].points[n] for n in points]
    content = lineage.texts[text].content
    said = " ".join(_quote(content[point.start : point.end]) for point in found)
    said = said if len(said) <= QUOTED_CHARS_MAX else f"{said[:QUOTED_CHARS_MAX].rstrip()}…"
    assert judge.target is not None
    scorer, sheet = alignment.get_scorer(judge.target), alignment.sheets[text]
    words = {word for n in points for word in sheet.words[n]}
    heading = found[0].headings[-1] if found[0].headings else ""
    omission = Omission(lineage.texts[text].label, heading, said)
    # By the mean, not the sum: a long row of common words says less than a short fact.
    worth = scorer.sum_worth(words) / max(1, len(words))
    return _Lost(omission, is_lone, worth, (text, found[0].n))
