"""Overflow: what becomes of a job's inputs that do not fit its model, by the word of its step.

`decide_overflow` is the one place that says which way is gone; `find_need` tells which combine job
a reader needs, and `deal_level` what that job does next. The rest is carried out elsewhere:
passages are found in `retrieve`, and what is too long after all is shortened in `compress`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from dialectic.core.job import CombinePayload, ExecutePayload, Input, Job, JobStatus
from dialectic.core.models.model import ModelCard
from dialectic.core.process.definition import Overflow
from dialectic.db.pool import Connection
from dialectic.db.tables import jobs
from dialectic.engine import Engine
from dialectic.pipeline.assemble import build_request, compose_prompt, compute_input_max
from dialectic.pipeline.fit.combine import (
    ROOM_TOKENS_MIN,
    Needed,
    PlannedMerge,
    Room,
    build_combine,
    build_merges,
    count_levels_max,
    decide_level,
)
from dialectic.pipeline.fit.merge import (
    count_prompt,
    label_combined,
    label_documents,
    measure_items,
    measure_merge,
)
from dialectic.pipeline.gather import Material
from dialectic.pipeline.load import JobContext, Text, read_texts, read_versions
from dialectic.tokens.counting import count_request_tokens


def decide_overflow(scene: JobContext, job: Job, material: Material) -> Overflow:
    """Decide what is done if the inputs of a turn do not fit.

    What is no step of a process is compressed, and so is a single input: there is nothing to
    combine it with. A document that is begun is gone on with as it was begun.
    """
    payload = material.payload
    is_begun, is_single = bool(material.chunks), len(material.words.inputs) < 2
    if not isinstance(payload, ExecutePayload) or is_begun or is_single:
        return Overflow.COMPRESS
    return scene.process.load_stage(job.stage_slug).load_step(payload.step_name).overflow


# -- whether it fits ------------------------------------------------------------------------------


def measure_room(material: Material, card: ModelCard) -> int | None:
    """Measure how much room a prompt has for its inputs; None if they fit as they are."""
    request = build_request(material, card, {})
    input_max = compute_input_max(card, request.max_output_tokens)
    if count_request_tokens(request, card).upper_tokens <= input_max:
        return None
    empty = replace(material.words, inputs=())
    room = input_max - count_prompt(material.system, compose_prompt(empty), card)
    # What does not fit together is more than there is room for, by whatever way it is counted.
    return min(room, sum(measure_items(material.words.inputs, card)) - 1)


def _compute_cap(card: ModelCard, wanted: int | None) -> int:
    return min(wanted or card.max_output_tokens, card.max_output_tokens)


# -- a reader -------------------------------------------------------------------------------------


async def find_room(material: Material, card: ModelCard) -> int | None:
    """Find how much room there is for inputs; None if they fit, or if there is as good as none."""
    room = await asyncio.to_thread(measure_room, material, card)
    return None if room is None or room < ROOM_TOKENS_MIN else room


def find_need(
    scene: JobContext, job: Job, material: Material, card: ModelCard, room: int
) -> Needed | None:
    """Find the combine job that a turn needs before it can be; None if merging has no room."""
    payload = material.payload
    assert isinstance(payload, ExecutePayload), "only steps say what is to be done"
    if measure_merge(card, _compute_cap(card, scene.max_output_tokens)) < ROOM_TOKENS_MIN:
        return None
    versions = [
        Input(contribution_id=scene.texts[given.contribution_id].version_id, rule=given.rule)
        for given in payload.inputs
    ]
    return build_combine(job.session_id, job.stage_slug, payload, versions, room)


async def find_combined(
    engine: Engine, job: Job, scene: JobContext, material: Material, needed: Needed
) -> Material | None:
    """Put what a combine job came to in the place of a turn's inputs; None if it is not done."""

    async def work(connection: Connection) -> list[Text] | None:
        row = await jobs.find_job(connection, needed.id)
        if row is None or row["status"] != JobStatus.COMPLETED:
            return None
        ids = [UUID(made) for made in row["results"]["documents"]]
        texts = (await read_texts(connection, scene, ids)).texts
        return [texts[made] for made in ids]

    found = await engine.db.transact(job.tenant_id, work)
    if found is None:
        return None
    note = f"combined: {len(material.words.inputs)} documents as {len(found)}"
    return replace(
        material,
        words=replace(material.words, inputs=tuple(label_combined(found))),
        flags=(*material.flags, note),
    )


# -- a combine job --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Level:
    """What a combine job does next: merges of a level, or, without any, the documents it leaves."""

    number: int
    merges: tuple[PlannedMerge, ...]
    documents: tuple[UUID, ...] = ()


async def deal_level(
    engine: Engine, job: Job, payload: CombinePayload, scene: JobContext, card: ModelCard
) -> Level:
    """Find the first level that is not there yet.

    Every level follows from the texts of the one before it, which never change: however often this
    is asked, the same merges come of it.
    """
    rules = scene.process.load_stage(job.stage_slug).load_step(payload.step_name).inputs_required
    texts = [scene.texts[given.contribution_id] for given in payload.inputs]
    headers = [rules[given.rule].header for given in payload.inputs]
    cap = _compute_cap(card, scene.max_output_tokens)
    room = Room(payload.room_tokens, measure_merge(card, cap), cap)
    items = label_documents(scene, headers, texts, job.id)
    sizes = await asyncio.to_thread(measure_items, items, card)
    level, made, levels_max = 1, 0, count_levels_max(sizes, room)
    while level <= levels_max and (nodes := decide_level(sizes, room)):
        labels = [item.label for item in items]
        merges = build_merges(job.id, payload, level, texts, labels, nodes, made=made)
        texts = await _read_merged(engine, job, merges)
        if len(texts) < len(merges):
            return Level(level, tuple(merges))
        items, made, level = label_combined(texts), made + len(merges), level + 1
        sizes = await asyncio.to_thread(measure_items, items, card)
    return Level(level, (), tuple(text.id for text in texts))


async def _read_merged(engine: Engine, job: Job, merges: Sequence[PlannedMerge]) -> list[Text]:
    ids = [merge.contribution_id for merge in merges]

    async def work(connection: Connection) -> list[Text]:
        return await read_versions(connection, job.session_id, ids)

    return await engine.db.transact(job.tenant_id, work)
