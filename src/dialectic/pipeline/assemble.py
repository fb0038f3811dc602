"""Assemble one complete request and count it. Pure: what leaves here is exactly what is sent.

A further turn of a document opens with the same words as the first, so that providers can keep
them; then follow, in turn, what was said and the call to go on. The last message is that call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from dialectic.domain.message import Message, Request, Role
from dialectic.domain.model import ModelCard
from dialectic.domain.prompt import build_block, render_template
from dialectic.domain.seam import describe_end
from dialectic.errors import ContextWindowError
from dialectic.pipeline.gather import Item, Material, Words
from dialectic.process_files import load_words
from dialectic.tokens import count_request_tokens

# How much of its end is shown to the one who is to go on.
TAIL_CHARS = 200
# A further turn with less room than this is not worth reading everything again for.
ROOM_TOKENS_MIN = 256

INSTRUCTION_NAME = "continuation"
INSTRUCTION = load_words(INSTRUCTION_NAME)


def assemble(material: Material, card: ModelCard) -> Request:
    """Build the request, and make sure that it fits the model with room for an answer."""
    output_cap = min(material.max_output_tokens or card.max_output_tokens, card.max_output_tokens)
    request = Request(
        model=card.name,
        system=material.system,
        messages=(
            Message(Role.USER, compose_prompt(material.words)),
            *build_history(material.said),
        ),
        max_output_tokens=output_cap,
        variant=material.payload.variant,
    )
    return fit(request, card, gives_way=bool(material.chunks))


def fit(request: Request, card: ModelCard, *, gives_way: bool) -> Request:
    """Make sure that a request fits its model, with room for its answer.

    An answer that gives way takes what is left of the window, where that is enough to speak of.
    """
    output_cap = request.max_output_tokens
    tokens = count_request_tokens(request, card).upper_tokens
    if gives_way:
        room = min(output_cap, card.context_window_tokens - tokens)
        if tokens <= card.max_input_tokens and room >= min(output_cap, ROOM_TOKENS_MIN):
            return replace(request, max_output_tokens=room)
    input_max = min(card.max_input_tokens, card.context_window_tokens - output_cap)
    if tokens > input_max:
        raise ContextWindowError(
            f"The prompt has {tokens:,} tokens; {card.name} takes {input_max:,} beside an answer "
            f"of {output_cap:,}. Shorten the prompt, lower --max-output-tokens, or choose a model "
            "with a larger window."
        )
    return request


def build_history(said: Sequence[str]) -> Iterator[Message]:
    """Build what was said so far, each turn followed by the call to go on that it was given."""
    text = ""
    for turn in said:
        text += turn
        yield Message(Role.ASSISTANT, turn)
        yield Message(Role.USER, compose_instruction(text))


def compose_instruction(text: str) -> str:
    """Render the call to go on with a text, which says where it stopped."""
    values = {
        "place": describe_end(text),
        "tail": build_block("End of the text so far", text[-TAIL_CHARS:]),
    }
    return render_template(INSTRUCTION_NAME, INSTRUCTION, values)


def compose_prompt(words: Words) -> str:
    """Render a prompt: the template's own words, and every foreign text in a block of its own."""
    values = {
        "domain": words.domain,
        "guidance": words.guidance,
        "request": _fence(words.request),
        "context": [_fence(item) for item in words.context],
        "feedback": [_fence(item) for item in words.feedback],
        "inputs": [_fence(item) for item in words.inputs],
        "listing": list(words.listing),
    }
    return render_template(words.template_name, words.template, values)


def _fence(item: Item) -> str:
    return build_block(item.label, item.text)
