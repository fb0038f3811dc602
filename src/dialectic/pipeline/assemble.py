"""Assemble one complete request and count it. Pure: what leaves here is exactly what is sent."""

from __future__ import annotations

from dialectic.domain.message import Message, Request, Role
from dialectic.domain.model import ModelCard
from dialectic.domain.prompt import build_block, render_template
from dialectic.errors import ContextWindowError
from dialectic.pipeline.gather import Item, Material, Words
from dialectic.tokens import count_request_tokens


def assemble(material: Material, card: ModelCard) -> Request:
    """Build the request, and make sure that it fits the model with room for an answer."""
    output_cap = min(material.max_output_tokens or card.max_output_tokens, card.max_output_tokens)
    request = Request(
        model=card.name,
        system=material.system,
        messages=(Message(Role.USER, compose_prompt(material.words)),),
        max_output_tokens=output_cap,
        variant=material.payload.variant,
    )
    tokens = count_request_tokens(request, card.tokenizer)
    input_max = min(card.max_input_tokens, card.context_window_tokens - output_cap)
    if tokens > input_max:
        raise ContextWindowError(
            f"The prompt has {tokens:,} tokens; {card.name} takes {input_max:,} beside an answer "
            f"of {output_cap:,}. Shorten the prompt, lower --max-output-tokens, or choose a model "
            "with a larger window."
        )
    return request


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
