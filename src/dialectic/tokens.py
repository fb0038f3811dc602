"""Token counts of what is really sent. Pure: text in, number out.

A tokenizer is named by a string in the model's card. `chars:N` counts one token for every N
characters begun; it is exact for the offline models, whose tokens are defined that way.
"""

from __future__ import annotations

from collections.abc import Callable

from dialectic.domain.message import Request
from dialectic.errors import ConfigurationError

MESSAGE_OVERHEAD_TOKENS = 3
REPLY_PRIMER_TOKENS = 3

Count = Callable[[str], int]


def find_counter(tokenizer: str) -> Count:
    """Find the counting function of a tokenizer by its name."""
    kind, _, argument = tokenizer.partition(":")
    if kind == "chars" and argument.isdecimal() and int(argument) > 0:
        chars_per_token = int(argument)
        return lambda text: -(-len(text) // chars_per_token)
    raise ConfigurationError(
        f"Tokenizer {tokenizer!r} is not known. Known is `chars:N`, with N characters to a token."
    )


def count_request_tokens(request: Request, tokenizer: str) -> int:
    """Count the whole request: system, every turn, and what frames them."""
    count = find_counter(tokenizer)
    system = count(request.system) + MESSAGE_OVERHEAD_TOKENS if request.system else 0
    turns = sum(count(message.content) + MESSAGE_OVERHEAD_TOKENS for message in request.messages)
    return system + turns + REPLY_PRIMER_TOKENS
