"""The ladder: how to make a prompt fit its model, from no change to refusal.

    unchanged   count the prompt; if it fits, send it and skip the rest
    combine     other jobs merge the documents first; this job waits       } if the step says so
    retrieve    find the most relevant passages of all documents           } and has several inputs
    compress    shorten one text after the other, the least valuable first:
      extract     keep some of its passages
      abstract    let a model summarise it, if the process says so; fall back to an extract
    refuse      raise `ContextWindowError` before anything costs money

`turn` has what they share.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from dialectic.core.job import ExecutePayload
from dialectic.core.models.model import ModelCard
from dialectic.core.process.definition import Compressor, Overflow
from dialectic.pipeline.assemble import build_request, compose_prompt, compute_input_max
from dialectic.pipeline.fit.combine import (
    ROOM_TOKENS_MIN,
    combine_inputs,
    count_prompt,
    decide_reader_room,
    measure_items,
)
from dialectic.pipeline.fit.embed import Library
from dialectic.pipeline.fit.retrieve import retrieve_inputs
from dialectic.pipeline.fit.shorten import TEMPLATE_NAME, Abstractor, Extractor
from dialectic.pipeline.fit.turn import Needed, Replacement, Turn, build_purpose
from dialectic.pipeline.gather import Material
from dialectic.pipeline.own_models import load_card
from dialectic.processes.loader import get_shared_prompt
from dialectic.tokens.counting import count_request_tokens


async def make_room(turn: Turn) -> Turn | Needed:
    """Combine or search the inputs of a turn, as its step says; `compress` does the rest.

    Returns the combine job that the turn must wait for, if any.

    Only a step can choose a method. It does not apply to a single input, nor to the later turns of
    a document, which reuse the prompt of the first one.
    """
    payload, material = turn.material.payload, turn.material
    is_begun, is_single = bool(material.chunks), len(material.words.inputs) < 2
    if not isinstance(payload, ExecutePayload) or is_begun or is_single:
        return turn
    stage = turn.context.process.load_stage(turn.job.stage_slug)
    overflow = stage.load_step(payload.step_name).overflow
    if overflow is Overflow.COMPRESS:
        return turn
    room_tokens = await asyncio.to_thread(measure_room, material, turn.card)
    if room_tokens is None or room_tokens < ROOM_TOKENS_MIN:
        return turn
    if overflow is Overflow.RETRIEVE:
        return (await retrieve_inputs(turn, room_tokens)).put_into(turn)
    made = await combine_inputs(turn, payload, room_tokens)
    return made.put_into(turn) if isinstance(made, Replacement) else made or turn


async def choose_compressor(turn: Turn) -> Extractor:
    """Choose what shortens single texts of a turn, as the process says."""
    library, purpose = Library(turn), build_purpose(turn.material.words)
    if turn.material.compressor is Compressor.EXTRACT:
        return Extractor(turn, library, purpose)
    # The lead model writes the abstracts for all models, so that they are paid for once.
    lead = turn.context.models[turn.context.lead_model_index - 1]
    writer = await load_card(turn.engine, turn.job.tenant_id, lead)
    template = get_shared_prompt(turn.context.process, TEMPLATE_NAME)
    return Abstractor(turn, library, purpose, writer=writer, template=template)


def measure_room(material: Material, card: ModelCard) -> int | None:
    """Measure a prompt's room for its inputs; None if they need not change."""
    request = build_request(material, card, {})
    input_max = compute_input_max(card, request.max_output_tokens)
    if count_request_tokens(request, card).upper_tokens <= input_max:
        return None
    empty = replace(material.words, inputs=())
    frame = count_prompt(material.system, compose_prompt(empty), card)
    room = decide_reader_room(input_max, frame, sum(measure_items(empty.context, card)))
    size = sum(measure_items(material.words.inputs, card))
    if size <= room and room > input_max - frame:
        return None  # the resources are too long, not the inputs
    # The inputs do not fit, so they exceed the room; keep that true despite rounding.
    return min(room, size - 1)
