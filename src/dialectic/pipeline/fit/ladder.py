"""The ladder: how to make a prompt fit its model, from no change to refusal.

    unchanged   count the prompt; if it fits, send it and skip the rest
    combine     other jobs merge the documents first; this job waits       } if the step says so
    retrieve    find the most relevant passages of all documents           } and has several inputs
    compress    shorten one text after the other, the least valuable first:
      extract     keep some of its passages
      abstract    let a model summarise it, if the process says so; fall back to an extract
    refuse      raise `ContextWindowError` before anything costs money

`shortener` has the protocol that all four methods implement, and their shared code.
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
    """Combine or search the inputs of a turn, as its step says; `compress` does the rest.

    Returns the combine job that the turn must wait for, if any.
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
    """Choose what shortens all inputs of a turn together; None to compress them one by one.

    Only a step can choose a method. It does not apply to a single input, nor to the later turns of
    a document, which reuse the prompt of the first one.
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
    """Choose what shortens single texts of a turn, as the process says."""
    library, purpose = Library(turn), build_purpose(turn.material.words)
    if turn.material.compressor is Compressor.EXTRACT:
        return Extractor(turn, library, purpose)
    # The lead model writes the abstracts for all models, so that they are paid for once.
    lead = turn.scene.models[turn.scene.lead_model_index - 1]
    return Abstractor(turn, library, purpose, writer=turn.engine.catalog.load_card(lead))


def measure_room(material: Material, card: ModelCard) -> int | None:
    """Measure a prompt's room for its inputs; None if they fit unchanged."""
    request = build_request(material, card, {})
    input_max = compute_input_max(card, request.max_output_tokens)
    if count_request_tokens(request, card).upper_tokens <= input_max:
        return None
    empty = replace(material.words, inputs=())
    room = input_max - count_prompt(material.system, compose_prompt(empty), card)
    # The inputs do not fit, so they exceed the room; keep that true despite rounding.
    return min(room, sum(measure_items(material.words.inputs, card)) - 1)
