"""Combine: which documents are merged with which, until a reader has room for all. Pure.

Knows sizes and room, neither words nor models. Documents are merged in groups that fit into one
call, level by level: what came of one level is merged on the next. No call is asked to shorten what
it reads to less than a quarter, so a heap of documents becomes a tree and not one hasty summary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from uuid import UUID

from dialectic.core.job import (
    COMBINED,
    CombinePayload,
    ExecutePayload,
    Input,
    Labelled,
    MergePayload,
    derive_combine_job_id,
    derive_contribution_id,
    derive_merge_job_id,
)
from dialectic.pipeline.load import Text

# With less room than this, for a reader or for a call, nothing is combined.
ROOM_TOKENS_MIN = 512
# The shortest answer that is worth asking for.
BUDGET_TOKENS_MIN = 64
# How much of what it reads a call keeps at least, if its answer has room for it.
KEPT_MIN = Fraction(1, 4)
# Models do not count words well: as much of the reader's room is aimed at.
AIM = Fraction(4, 5)


@dataclass(frozen=True, slots=True)
class Room:
    """How much there is room for: in the reader's prompt, in that of a merge, in its answer."""

    reader_tokens: int
    call_tokens: int
    answer_tokens: int


@dataclass(frozen=True, slots=True)
class Node:
    """One merge: the documents of its level from `start` to before `stop`; how long it is to be."""

    start: int
    stop: int
    budget_tokens: int


def decide_level(sizes: Sequence[int], room: Room) -> tuple[Node, ...]:
    """Decide which neighbours are merged; nothing, if the reader has room for all.

    A document that is larger than a call has room for is a node of its own.
    """
    total = sum(sizes)
    if total <= room.reader_tokens:
        return ()
    kept = max(AIM * room.reader_tokens / total, KEPT_MIN)
    nodes: list[Node] = []
    start = 0
    while start < len(sizes):
        size, stop = sizes[start], start + 1
        while stop < len(sizes) and _takes(size + sizes[stop], stop - start, kept, room):
            size += sizes[stop]
            stop += 1
        budget = max(BUDGET_TOKENS_MIN, min(room.answer_tokens, int(size * kept)))
        nodes.append(Node(start, stop, budget))
        start = stop
    return tuple(nodes)


def _takes(size: int, members: int, kept: Fraction, room: Room) -> bool:
    """Say whether a node takes one more: it must fit, and beyond a pair so must the answer."""
    if size > room.call_tokens:
        return False
    return members < 2 or size * kept <= room.answer_tokens


def decide_tree(sizes: Sequence[int], room: Room) -> tuple[tuple[Node, ...], ...]:
    """Decide all levels, as they are if every answer is as long as it was asked to be."""
    levels = []
    while nodes := decide_level(sizes, room):
        levels.append(nodes)
        sizes = [node.budget_tokens for node in nodes]
    return tuple(levels)


def count_levels_max(sizes: Sequence[int], room: Room) -> int:
    """Count the levels that documents get at most: one more than they need if all goes well.

    Models that do not shorten as they were asked to are not asked for ever.
    """
    return 1 + len(decide_tree(sizes, room))


# -- jobs -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Needed:
    """A combine job that someone needs."""

    id: UUID
    payload: CombinePayload


def build_combine(
    session_id: UUID,
    stage_slug: str,
    reader: ExecutePayload,
    versions: Sequence[Input],
    room_tokens: int,
) -> Needed:
    """The one place where a combine job is given everything it needs."""
    return Needed(
        derive_combine_job_id(
            session_id,
            stage_slug=stage_slug,
            step_name=reader.step_name,
            model_name=reader.model_name,
            versions=[given.contribution_id for given in versions],
        ),
        CombinePayload(
            model_id=reader.model_id,
            model_name=reader.model_name,
            model_index=reader.model_index,
            ordinal=1,
            output_type=COMBINED,
            step_name=reader.step_name,
            inputs=tuple(versions),
            room_tokens=room_tokens,
        ),
    )


@dataclass(frozen=True, slots=True)
class PlannedMerge:
    """A merge to be made within a combine job."""

    id: UUID
    payload: MergePayload

    @property
    def contribution_id(self) -> UUID:
        return derive_contribution_id(self.id)


def _find_group(text: Text) -> UUID | None:
    """Find the origin of a document; what was combined from several has none."""
    return text.source_group if text.type == COMBINED else text.source_group or text.id


def build_merges(
    combine_id: UUID,
    payload: CombinePayload,
    level: int,
    texts: Sequence[Text],
    labels: Sequence[str],
    nodes: Sequence[Node],
    *,
    made: int,
) -> list[PlannedMerge]:
    """The one place where merges are given everything they need; `made` is how many there were."""
    merges = []
    for number, node in enumerate(nodes, start=made + 1):
        read = texts[node.start : node.stop]
        versions = [text.version_id for text in read]
        named = zip(versions, labels[node.start : node.stop], strict=True)
        groups = {_find_group(text) for text in read}
        merge = MergePayload(
            model_id=payload.model_id,
            model_name=payload.model_name,
            model_index=payload.model_index,
            ordinal=number,
            output_type=COMBINED,
            step_name=payload.step_name,
            inputs=tuple(Labelled(contribution_id=v, label=label) for v, label in named),
            combine_id=combine_id,
            budget_tokens=node.budget_tokens,
            source_group=groups.pop() if len(groups) == 1 else None,
        )
        merge_id = derive_merge_job_id(combine_id, level=level, versions=versions)
        merges.append(PlannedMerge(merge_id, merge))
    return merges
