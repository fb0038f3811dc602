"""Combine: jobs merge documents into fewer and shorter ones, until their reader has room for all.

Documents are merged in groups that fit into one call, level by level: what one level makes is
merged on the next. No call is asked to keep less than a quarter of what it reads, which makes a
tree and not one hasty summary. Which documents belong together, and how long a merge may
be, pure functions decide from sizes alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from uuid import UUID

from dialectic.core.documents.file_locations import Combining, ContributionName
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
from dialectic.core.slug import short_id, slugify_name
from dialectic.db.pool import Connection
from dialectic.db.tables import jobs
from dialectic.engine import Engine
from dialectic.pipeline.assemble import (
    Part,
    compose_prompt,
    compute_input_max,
    compute_output_cap,
)
from dialectic.pipeline.fit.shortener import Cost, Needed, Replacement, Turn
from dialectic.pipeline.gather import Item, Material, Words, label_all
from dialectic.pipeline.load import JobContext, Text, read_texts, read_versions
from dialectic.processes.loader import load_words
from dialectic.tokens.counting import count_request_tokens

# With less room than this, for a reader or for a call, nothing is combined.
ROOM_TOKENS_MIN = 512
# The shortest answer that is worth asking for.
BUDGET_TOKENS_MIN = 64
# How much of what it reads a call keeps at least, if its answer has room for it.
KEPT_MIN = Fraction(1, 4)
# Models do not count words well: this much of the reader's room is aimed at.
AIM = Fraction(4, 5)

# No prompt of a process can have this name: it would be a path.
TEMPLATE_NAME = "shared/merge"
TEMPLATE = load_words("merge")
SYSTEM = load_words("merge_system")
# About right in most languages and with most tokenizers; rather too few words than too many tokens.
WORDS_PER_TOKEN = 0.65


@dataclass(frozen=True, slots=True)
class Combiner:
    """Replaces the inputs of a turn by what a combine job has made of them."""

    turn: Turn
    reader: ExecutePayload

    async def estimate(self, parts: Sequence[Part], tokens: int) -> Cost | None:  # noqa: ARG002
        return None  # each merge is a job that holds its own money

    async def apply(self, parts: Sequence[Part], budget_tokens: int) -> Replacement | Needed | None:
        """Find what the inputs were combined into, or the job to wait for; None without room."""
        context, job = self.turn.scene, self.turn.job
        cap = compute_output_cap(context.max_output_tokens, self.turn.card)
        if measure_merge(self.turn.card, cap) < ROOM_TOKENS_MIN:
            return None
        versions = [
            Input(contribution_id=context.texts[given.contribution_id].version_id, rule=given.rule)
            for given in self.reader.inputs
        ]
        needed = build_combine(job.session_id, job.stage_slug, self.reader, versions, budget_tokens)
        texts = await self._find_combined(needed)
        if texts is None:
            return needed
        note = f"combined: {len(parts)} documents as {len(texts)}"
        return Replacement(tuple(label_combined(texts)), notes=(note,))

    async def _find_combined(self, needed: Needed) -> list[Text] | None:
        async def work(connection: Connection) -> list[Text] | None:
            row = await jobs.find_job(connection, needed.id)
            if row is None or row["status"] != JobStatus.COMPLETED:
                return None
            ids = [UUID(made) for made in row["results"]["documents"]]
            texts = (await read_texts(connection, self.turn.scene, ids)).texts
            return [texts[made] for made in ids]

        return await self.turn.transact(work)


# -- a combine job --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Level:
    """What a combine job does next: merges of a level, or, without any, the documents it leaves."""

    number: int
    merges: tuple[PlannedMerge, ...]
    documents: tuple[UUID, ...] = ()


async def plan_level(
    engine: Engine, job: Job, payload: CombinePayload, context: JobContext, card: ModelCard
) -> Level:
    """Find the first level that is not made yet.

    Every level follows from the texts of the one before it, which never change: however often this
    is asked, the same merges result.
    """
    rules = context.process.load_stage(job.stage_slug).load_step(payload.step_name).inputs_required
    texts = [context.texts[given.contribution_id] for given in payload.inputs]
    headers = [rules[given.rule].header for given in payload.inputs]
    cap = compute_output_cap(context.max_output_tokens, card)
    room = Room(payload.room_tokens, measure_merge(card, cap), cap)
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


# -- the words of a merge: pure -------------------------------------------------------------------


def gather_merge(context: JobContext, job: Job, payload: MergePayload) -> Material:
    """Gather what one merge is made of: its documents under their labels, and nothing else."""
    stage = context.process.load_stage(job.stage_slug)
    return Material(
        payload=payload,
        owner=context.owner,
        folder=context.build_folder(stage),
        name=ContributionName(
            model=slugify_name(payload.model_name, fallback="model"),
            n=payload.ordinal,
            contribution_type=payload.output_type,
            relation=Combining(short_id(payload.combine_id)),
        ),
        system=SYSTEM,
        words=_gather_words(context, payload),
        output_type=payload.output_type,
        is_intermediate=True,
        is_lead=False,
        is_first_session=context.is_first,
        rank=payload.ordinal,
        origin=payload.model_index,
        source_group=payload.source_group,
        target_contribution_id=None,
        flags=(),
        expected=(),
        max_output_tokens=context.max_output_tokens,
        chunks=context.chunks,
    )


def _gather_words(context: JobContext, payload: MergePayload) -> Words:
    if context.chunks:
        opening = context.chunks[0].opening
        assert opening is not None, "the first turn keeps what it was asked"
        return Words.from_opening(opening, context.process, TEMPLATE)
    items = []
    for given in payload.inputs:
        text = context.texts[given.contribution_id]
        items.append(Item(given.label, text.content, text.id))
    return build_merge_words(context.domain, items, budget_tokens=payload.budget_tokens)


def label_documents(
    context: JobContext, headers: Sequence[str], texts: Sequence[Text], reader: UUID
) -> list[Item]:
    """Label documents as they are labelled everywhere in the session, in the order given."""
    labelled: dict[UUID | None, Item] = {}
    for header in dict.fromkeys(headers):
        own = [text for asked, text in zip(headers, texts, strict=True) if asked == header]
        labelled |= {item.source_id: item for item in label_all(context, header, own, reader)}
    return [labelled[text.id] for text in texts]


def label_combined(texts: Sequence[Text]) -> list[Item]:
    """Label what documents were combined into; which documents those were, its text tells."""
    return [
        Item(f"Combined documents, part {number} of {len(texts)}", text.content, text.id)
        for number, text in enumerate(texts, start=1)
    ]


def build_merge_words(domain: str, items: Sequence[Item], *, budget_tokens: int) -> Words:
    """Build the words of a merge."""
    return Words(
        template_name=TEMPLATE_NAME,
        template=TEMPLATE,
        domain=domain,
        guidance="",
        request=Item("Original request", ""),
        inputs=tuple(items),
        budget_words=max(1, round(budget_tokens * WORDS_PER_TOKEN)),
    )


# -- sizes ----------------------------------------------------------------------------------------


def count_prompt(system: str, prompt: str, card: ModelCard) -> int:
    """Count a prompt, at most, as its model's provider may."""
    request = Request(
        model=card.name,
        system=system,
        messages=(Message(Role.USER, prompt),),
        max_output_tokens=1,
    )
    return count_request_tokens(request, card).upper_tokens


def measure_items(items: Sequence[Item], card: ModelCard) -> list[int]:
    """Measure what each item takes in a prompt, at most."""
    return [count_prompt("", build_block(item.label, item.text), card) for item in items]


def measure_merge(card: ModelCard, output_cap: int) -> int:
    """Measure how much room a merge by this model has for documents."""
    prompt = compose_prompt(build_merge_words("", (), budget_tokens=output_cap))
    return compute_input_max(card, output_cap) - count_prompt(SYSTEM, prompt, card)
