"""Combine documents: merge jobs write fewer, shorter ones until they fit their reader.

Documents are merged in groups that fit into one call, level by level: each level merges the output
of the previous one. A merge keeps at least a quarter of its input, so the result is a tree and not
one hasty summary. Pure functions decide the groups and their lengths from sizes alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from uuid import UUID

from dialectic.core.documents.file_paths import Relation
from dialectic.core.documents.prompts import build_block
from dialectic.core.job import (
    COMBINED,
    CombinePayload,
    ExecutePayload,
    Input,
    Job,
    JobStatus,
    Labelled,
    MergePayload,
    derive_combine_job_id,
    derive_contribution_id,
    derive_merge_job_id,
)
from dialectic.core.models.messages import Message, Request, Role
from dialectic.core.models.model import ModelCard
from dialectic.core.process.definition import Process
from dialectic.core.slug import short_id
from dialectic.db.pool import Connection
from dialectic.db.tables import jobs
from dialectic.engine import Engine
from dialectic.pipeline.assemble import compose_prompt, compute_input_max, compute_output_cap
from dialectic.pipeline.basis import gather_basis
from dialectic.pipeline.fit.turn import Needed, Replacement, Turn
from dialectic.pipeline.gather import (
    CONTINUATION,
    Item,
    Material,
    Words,
    build_name,
    label_all,
    label_text,
    resume_words,
)
from dialectic.pipeline.load import JobContext, Text, read_texts, read_versions
from dialectic.processes.loader import get_shared_prompt
from dialectic.tokens.counting import count_request_tokens

# With less room than this, for the reader or for a merge, do not combine.
ROOM_TOKENS_MIN = 512
# The shortest answer that is worth asking for.
BUDGET_TOKENS_MIN = 64
# The share of its input that a merge keeps at least, if its answer has room for it.
KEPT_MIN = Fraction(1, 4)
# Models count words badly: aim for this share of the reader's room.
AIM = Fraction(4, 5)

TEMPLATE_NAME = "merge"
SYSTEM_NAME = "merge_system"
# Approximate for most languages and tokenizers; low, because too many tokens do not fit.
WORDS_PER_TOKEN = 0.65


async def combine_inputs(
    turn: Turn, reader: ExecutePayload, room_tokens: int
) -> Replacement | Needed | None:
    """Find the combined inputs of a turn, or the job to wait for; None if there is too little room.

    The turn pays nothing: each merge job reserves its own money.
    """
    context, job = turn.context, turn.job
    cap = compute_output_cap(context.max_output_tokens, turn.card)
    if measure_merge(context.process, turn.card, cap) < ROOM_TOKENS_MIN:
        return None
    versions = [
        Input(contribution_id=context.texts[given.contribution_id].version_id, rule=given.rule)
        for given in reader.inputs
    ]
    needed = build_combine(job.session_id, job.stage_slug, reader, versions, room_tokens)
    texts = await _find_combined(turn, needed)
    if texts is None:
        return needed
    note = f"combined: {len(turn.material.words.inputs)} documents as {len(texts)}"
    return Replacement(tuple(label_combined(texts)), notes=(note,))


async def _find_combined(turn: Turn, needed: Needed) -> list[Text] | None:
    async def work(connection: Connection) -> list[Text] | None:
        row = await jobs.find_job(connection, needed.id)
        if row is None or row.status is not JobStatus.COMPLETED or row.results is None:
            return None
        ids = [UUID(made) for made in row.results["documents"]]
        texts = (await read_texts(connection, turn.context, ids)).texts
        return [texts[made] for made in ids]

    return await turn.transact(work)


# -- a combine job --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Level:
    """The next merges of a combine job or, if it has none left, its final documents."""

    number: int
    merges: tuple[PlannedMerge, ...]
    documents: tuple[UUID, ...] = ()


async def plan_level(
    engine: Engine, job: Job, payload: CombinePayload, context: JobContext, card: ModelCard
) -> Level:
    """Find the first level that is not complete.

    Deterministic: each level depends only on the texts of the previous one, which never change.
    """
    rules = context.process.load_stage(job.stage_slug).load_step(payload.step_name).inputs_required
    texts = [context.texts[given.contribution_id] for given in payload.inputs]
    headers = [rules[given.rule].header for given in payload.inputs]
    cap = compute_output_cap(context.max_output_tokens, card)
    room = Room(payload.room_tokens, measure_merge(context.process, card, cap), cap)
    items = label_documents(context, headers, texts, job.id)
    sizes = await asyncio.to_thread(measure_items, items, card)
    level, made, levels_max = 1, 0, count_levels_max(sizes, room)
    while level <= levels_max and (nodes := decide_level(sizes, room)):
        labels = [item.label for item in items]
        merges = build_merges(job.id, payload, level, texts, labels, nodes, made=made)
        ids = [merge.contribution_id for merge in merges]

        async def work(connection: Connection, ids: Sequence[UUID] = ids) -> list[Text]:
            return await read_versions(connection, job.session_id, ids)

        texts = await engine.db.transact(job.tenant_id, work)
        if len(texts) < len(merges):
            return Level(level, tuple(merges))
        items, made, level = label_combined(texts), made + len(merges), level + 1
        sizes = await asyncio.to_thread(measure_items, items, card)
    return Level(level, (), tuple(text.id for text in texts))


# -- which documents are merged: pure -------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Room:
    """The room in the reader's prompt, in a merge's prompt and in its answer, in tokens."""

    reader_tokens: int
    call_tokens: int
    answer_tokens: int


@dataclass(frozen=True, slots=True)
class Node:
    """One merge: the documents `[start:stop]` of its level, and the length of the result."""

    start: int
    stop: int
    budget_tokens: int


def decide_reader_room(input_max: int, frame_tokens: int, context_tokens: int) -> int:
    """Decide the room for documents in a reader's prompt, of which the frame is all the rest.

    Documents get what the frame leaves, and at least half of what they share with the resources in
    it: long resources are shortened before they leave the documents nothing.
    """
    left = input_max - frame_tokens
    return max(left, (left + context_tokens) // 2)


def decide_level(sizes: Sequence[int], room: Room) -> tuple[Node, ...]:
    """Decide which neighbours to merge; none if all documents fit the reader.

    A document that is too large for one call is a separate node.
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
    """Tell whether a node can take one more: it must fit, and beyond a pair so must the answer."""
    if size > room.call_tokens:
        return False
    return members < 2 or size * kept <= room.answer_tokens


def decide_tree(sizes: Sequence[int], room: Room) -> tuple[tuple[Node, ...], ...]:
    """Decide all levels, assuming that every answer has the requested length."""
    levels = []
    while nodes := decide_level(sizes, room):
        levels.append(nodes)
        sizes = [node.budget_tokens for node in nodes]
    return tuple(levels)


def count_levels_max(sizes: Sequence[int], room: Room) -> int:
    """Compute the maximum number of levels: one more than needed if every answer is short enough.

    The limit stops a model that does not shorten from being asked forever.
    """
    return 1 + len(decide_tree(sizes, room))


# -- jobs -----------------------------------------------------------------------------------------


def build_combine(
    session_id: UUID,
    stage_slug: str,
    reader: ExecutePayload,
    versions: Sequence[Input],
    room_tokens: int,
) -> Needed:
    """Build a combine job's id and payload. No other code does."""
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
    """A merge job to create within a combine job."""

    id: UUID
    payload: MergePayload

    @property
    def contribution_id(self) -> UUID:
        return derive_contribution_id(self.id)


def _find_group(text: Text) -> UUID | None:
    """Find the origin of a document; a document combined from several origins has none."""
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
    """Build the payloads of merges; `made` is the number of earlier merges."""
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


# -- the words of a merge: pure -------------------------------------------------------------------


def gather_merge(context: JobContext, job: Job, payload: MergePayload) -> Material:
    """Gather the material of one merge: its labelled documents and nothing else."""
    stage = context.process.load_stage(job.stage_slug)
    system = get_shared_prompt(context.process, SYSTEM_NAME)
    words = _gather_words(context, payload)
    return Material(
        payload=payload,
        owner=context.owner,
        folder=context.build_folder(stage),
        name=build_name(payload, Relation("combining", (short_id(payload.combine_id),))),
        system=system,
        continuation=get_shared_prompt(context.process, CONTINUATION),
        words=words,
        basis=gather_basis(context, payload, words, system),
        is_intermediate=True,
        is_first_session=context.is_first,
        rank=payload.ordinal,
        origin=payload.model_index,
        source_group=payload.source_group,
        max_output_tokens=context.max_output_tokens,
        chunks=context.chunks,
    )


def _gather_words(context: JobContext, payload: MergePayload) -> Words:
    if context.chunks:
        return resume_words(context, get_shared_prompt(context.process, TEMPLATE_NAME))
    items = [
        label_text(given.label, context.texts[given.contribution_id]) for given in payload.inputs
    ]
    return build_merge_words(context.process, items, budget_tokens=payload.budget_tokens)


def label_documents(
    context: JobContext, headers: Sequence[str], texts: Sequence[Text], reader: UUID
) -> list[Item]:
    """Label documents with their labels in this session, in the given order."""
    labelled: dict[UUID | None, Item] = {}
    for header in dict.fromkeys(headers):
        own = [text for asked, text in zip(headers, texts, strict=True) if asked == header]
        labelled |= {item.source_id: item for item in label_all(context, header, own, reader)}
    return [labelled[text.id] for text in texts]


def label_combined(texts: Sequence[Text]) -> list[Item]:
    """Label combined documents; their text names the originals."""
    return [
        label_text(f"Combined documents, part {number} of {len(texts)}", text)
        for number, text in enumerate(texts, start=1)
    ]


def build_merge_words(process: Process, items: Sequence[Item], *, budget_tokens: int) -> Words:
    """Build the words of a merge."""
    return Words(
        template_name=TEMPLATE_NAME,
        template=get_shared_prompt(process, TEMPLATE_NAME),
        domain="",
        guidance="",
        request=Item("Original request", ""),
        inputs=tuple(items),
        budget_words=max(1, round(budget_tokens * WORDS_PER_TOKEN)),
    )


# -- sizes ----------------------------------------------------------------------------------------


def count_prompt(system: str, prompt: str, card: ModelCard) -> int:
    """Count a prompt: the most tokens that its provider may report."""
    request = Request(
        model=card.name,
        system=system,
        messages=(Message(Role.USER, prompt),),
        max_output_tokens=1,
    )
    return count_request_tokens(request, card).upper_tokens


def measure_items(items: Sequence[Item], card: ModelCard) -> list[int]:
    """Measure the most tokens that each item takes in a prompt."""
    return [count_prompt("", build_block(item.label, item.text), card) for item in items]


def measure_merge(process: Process, card: ModelCard, output_cap: int) -> int:
    """Measure a merge's room for documents with this model."""
    prompt = compose_prompt(build_merge_words(process, (), budget_tokens=output_cap))
    system = get_shared_prompt(process, SYSTEM_NAME)
    return compute_input_max(card, output_cap) - count_prompt(system, prompt, card)
