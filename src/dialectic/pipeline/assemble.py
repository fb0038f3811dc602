"""Assemble one complete request and count it. Pure: what leaves here is exactly what is sent."""

from __future__ import annotations

from dialectic.domain.message import Message, Request, Role
from dialectic.domain.model import ModelCard
from dialectic.errors import ContextWindowError
from dialectic.pipeline.gather import Material
from dialectic.tokens import count_request_tokens


def assemble(material: Material, card: ModelCard) -> Request:
    """Build the request, and make sure that it fits the model with room for an answer."""
    output_cap = min(material.max_output_tokens or card.max_output_tokens, card.max_output_tokens)
    request = Request(
        model=card.name,
        system=material.system,
        messages=(Message(Role.USER, material.prompt),),
        max_output_tokens=output_cap,
        variant=material.payload.ordinal,
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
