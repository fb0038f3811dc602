"""The ladder: what is done with a prompt that does not fit its model, on one page.

    as it is    the prompt is counted; one that fits is sent, and nothing below happens
    combine     jobs merge the documents first, and this job waits for them  } if the step says so
    retrieve    the passages of all documents that matter most are found     } and reads several
    compress    one text after the other gets shorter, the least valuable first:
      extract     by passages of its own
      abstract    by the words of a model, if the process says so; by an extract if none comes
    refuse      `ContextWindowError`, before anything costs money

`shortener` has the port that all four ways implement, and what they share.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from dialectic.core.job import ExecutePayload
from dialectic.core.models.model import ModelCard
from dialectic.core.process.definition import Compressor, Overflow
from dialectic.pipeline.assemble import (
    Kind,
    build_request,
    compose_prompt,
    compute_input_max,
    compute_output_cap,
    list_parts,
)
from dialectic.pipeline.fit.combine import (
    ROOM_TOKENS_MIN,
    Combiner,
    count_prompt,
    measure_items,
)
from dialectic.pipeline.fit.embed import Library
from dialectic.pipeline.fit.retrieve import Retriever
from dialectic.pipeline.fit.shorten import Abstractor, Extractor
from dialectic.pipeline.fit.shortener import Needed, Shortener, Turn, build_purpose, judge
from dialectic.pipeline.gather import Material
from dialectic.tokens.counting import count_request_tokens


async def make_room(turn: Turn) -> Turn | Needed:
    """Make the inputs of a turn fit together, as its step says; what remains is compressed.

    Returns the combine job that the turn must wait for, if it needs one.
    """
    shortener = choose_overflow(turn)
    if shortener is None:
        return turn
    room_tokens = await asyncio.to_thread(measure_room, turn.material, turn.card)
    if room_tokens is None or room_tokens < ROOM_TOKENS_MIN:
        return turn
    inputs = [part for part in list_parts(turn.material) if part.kind is Kind.INPUT]
    if (cost := await shortener.estimate(inputs, room_tokens)) is not None:
        sizes = await asyncio.to_thread(measure_items, turn.material.words.inputs, turn.card)
        cap = compute_output_cap(turn.material.max_output_tokens, turn.card)
        counted = compute_input_max(turn.card, cap)
        await judge(turn, cost, before_tokens=sum(sizes), counted_tokens=counted)
    made = await shortener.apply(inputs, room_tokens)
    if made is None or isinstance(made, Needed):
        return made or turn
    return replace(turn, material=made.put_into(turn.material))


def choose_overflow(turn: Turn) -> Shortener | None:
    """Choose what shortens the inputs of a turn together; None if they are compressed one by one.

    Only the steps of a process choose. A single input has nothing to be combined with, and a
    document that has begun continues as it began.
    """
    payload, material = turn.material.payload, turn.material
    is_begun, is_single = bool(material.chunks), len(material.words.inputs) < 2
    if not isinstance(payload, ExecutePayload) or is_begun or is_single:
        return None
    stage = turn.scene.process.load_stage(turn.job.stage_slug)
    match stage.load_step(payload.step_name).overflow:
        case Overflow.COMPRESS:
            return None
        case Overflow.COMBINE:
            return Combiner(turn, payload)
        case Overflow.RETRIEVE:
            return Retriever(turn)


def choose_compressor(turn: Turn) -> Extractor:
    """Choose what shortens the texts of a turn one by one, as the process says."""
    library, purpose = Library(turn), build_purpose(turn.material.words)
    if turn.material.compressor is Compressor.EXTRACT:
        return Extractor(turn, library, purpose)
    # One model writes abstracts for all, so that all read the same and pay once.
    lead = turn.scene.models[turn.scene.lead_model_index - 1]
    return Abstractor(turn, library, purpose, writer=turn.engine.catalog.load_card(lead))


def measure_room(material: Material, card: ModelCard) -> int | None:
    """Measure how much room a prompt has for its inputs; None if they fit as they are."""
    request = build_request(material, card, {})
    input_max = compute_input_max(card, request.max_output_tokens)
    if count_request_tokens(request, card).upper_tokens <= input_max:
        return None
    empty = replace(material.words, inputs=())
    room = input_max - count_prompt(material.system, compose_prompt(empty), card)
    # Inputs that do not fit together are larger than the room, however they are counted.
    return min(room, sum(measure_items(material.words.inputs, card)) - 1)
