"""Expect how long an answer will be, and decide how long it may be. Pure.

The quote, the reservation and the request use the same limit: what such documents need, with
headroom. Money is reserved for that and not for the longest answer a model could give, so that
calls do not wait for money that will not be spent. An answer that meets the limit is continued like
any other, with a larger limit each time, so it is whole in the end.
"""

from __future__ import annotations

import math
from functools import lru_cache

from dialectic.core.models.model import ModelCard
from dialectic.core.money.quote import OutputStatistics, Size
from dialectic.core.process.definition import Kind, Process, Stage, Step
from dialectic.pipeline.assemble import compute_output_cap
from dialectic.pipeline.outline import DocumentKey, list_calls
from dialectic.tokens.counting import get_counter

# The default answer length if the process gives none: two or three pages.
OUTPUT_TOKENS = 2_000
# Expected lengths are in tokens; convert them to bytes for other tokenizers.
BYTES_PER_TOKEN = 4
# A declared length is a floor in words. A word of Markdown has this many tokens, and answers exceed
# their floor by this factor, on average: none is shorter, and some find more to say.
TOKENS_PER_WORD = 1.35
FLOOR_EXCEEDED = 1.08
# Reasoning tokens are charged too. This is the factor until we have learned the real one.
REASONING_FACTOR = 3
# The sample of the process's prompts that measures tokens per byte.
SAMPLE_CHARS = 10_000

# Factors that make a limit: of what 19 of 20 such documents of this model needed; of what is
# expected of a document that it has never written; of what the prompt asks for.
LEARNED_HEADROOM = 1.5
EXPECTED_HEADROOM = 2.5
ASKED_HEADROOM = 2.0
# Fewer documents than this teach no limit.
LEARNED_MIN = 3
# A lower limit saves nothing worth a further turn. Thinking counts against the limit and varies
# more than text; an answer that is cut before any text is paid for nothing.
LIMIT_MIN_TOKENS = 2_000
REASONING_LIMIT_MIN_TOKENS = 16_000
# How much longer each further turn of one document may be than the one before.
TURN_GROWTH = 4


def expect_size(
    process: Process, kind: Kind, card: ModelCard, learned: OutputStatistics, *, models: int
) -> Size:
    """Expect the size of a document by one model: learned from it, from others, or declared."""
    if (own := learned.find_size(kind, card.name)) is not None:
        return own
    expected_bytes = list_expected_bytes(process, models=models)
    if (by_others := learned.find_size(kind)) is not None:
        text_bytes = by_others.text_bytes
    else:
        text_bytes = expected_bytes[kind] * learned.compute_scale(card.name, expected_bytes)
    density = learned.find_density(card.name)
    if density is None:
        density = measure_density(process, card.tokenizer)
        density *= REASONING_FACTOR if card.is_reasoning else 1
    return Size(text_bytes * density, text_bytes)


def decide_answer_limit(
    expected_tokens: float,
    card: ModelCard,
    wanted_tokens: int | None,
    *,
    long_tokens: int | None = None,
    asked_tokens: float = 0,
) -> int:
    """Decide the limit of a first turn: what such a document needs, with headroom.

    At most what the user wants and the model can. `long_tokens` is what 19 of 20 such documents of
    this model needed, `asked_tokens` the length that the prompt asks for.
    """
    thinking = REASONING_FACTOR if card.is_reasoning else 1
    needed = max(
        expected_tokens * EXPECTED_HEADROOM
        if long_tokens is None
        else long_tokens * LEARNED_HEADROOM,
        asked_tokens * thinking * ASKED_HEADROOM,
        REASONING_LIMIT_MIN_TOKENS if card.is_reasoning else LIMIT_MIN_TOKENS,
    )
    return min(compute_output_cap(wanted_tokens, card), math.ceil(needed))


def grow_limit(limit_tokens: int, turn: int, card: ModelCard, wanted_tokens: int | None) -> int:
    """Compute the limit of a turn: a longer answer than expected gets more room each time."""
    cap = compute_output_cap(wanted_tokens, card)
    while turn and limit_tokens < cap:
        limit_tokens, turn = limit_tokens * TURN_GROWTH, turn - 1
    return min(limit_tokens, cap)


@lru_cache(maxsize=256)
def measure_density(process: Process, tokenizer: str) -> float:
    """Measure the tokens per byte of the process's prompts."""
    sample = "".join(process.prompts.values())
    sample *= 1 + SAMPLE_CHARS // len(sample)
    return get_counter(tokenizer)(sample) / len(sample.encode())


@lru_cache(maxsize=64)
def list_expected_bytes(process: Process, *, models: int) -> dict[Kind, float]:
    """List the expected lengths of a process's documents, from its definition."""
    asked = list_asked_tokens(process, models=models)
    floors = {
        (stage.slug, part.output_type)
        for stage in process.order
        for part in stage.parts
        if part.expected_output_tokens is None and part.length is not None
    }
    return {
        kind: tokens * BYTES_PER_TOKEN * (FLOOR_EXCEEDED if kind in floors else 1)
        for kind, tokens in asked.items()
    }


@lru_cache(maxsize=64)
def list_asked_tokens(process: Process, *, models: int) -> dict[Kind, float]:
    """List the lengths that the prompts of a process ask for.

    A length that grows with the inputs depends on how many documents are read, and on their own
    lengths. All documents of one kind count as equally long.
    """
    reads: dict[Kind, tuple[DocumentKey, ...]] = {}
    for call in list_calls(process, models=models):
        reads.setdefault(call.makes.kind, call.reads)
    tokens: dict[Kind, float] = {}
    for stage in process.order:
        for part in stage.parts:
            kind = (stage.slug, part.output_type)
            words = sum(tokens[read.kind] for read in reads[kind]) / TOKENS_PER_WORD
            tokens[kind] = _ask_tokens(part, words)
    return tokens


def _ask_tokens(part: Stage | Step, input_words: float) -> float:
    if part.expected_output_tokens is not None:
        return part.expected_output_tokens
    if part.length is None:
        return OUTPUT_TOKENS
    return part.length.compute_words(input_words) * TOKENS_PER_WORD
