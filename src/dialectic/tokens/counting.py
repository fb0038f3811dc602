"""Token counts of what is sent: text in, number out. Knows no provider and no database.

A count carries its method: exact with the model's own vocabulary, the provider's if it was asked,
and otherwise an estimate with a margin. Counting is linear in any text, and counts are cached.
"""

from __future__ import annotations

import asyncio
import enum
import hashlib
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import ceil, floor
from typing import TYPE_CHECKING

from dialectic.core.models.messages import Request
from dialectic.core.models.model import ModelCard, Tokenizer, parse_tokenizer
from dialectic.errors import ConfigurationError
from dialectic.tokens.encodings import (
    count_bytes,
    count_each,
    count_text,
    load_encoding,
    split_paragraphs,
)

if TYPE_CHECKING:
    import tiktoken

logger = logging.getLogger(__name__)

MESSAGE_OVERHEAD_TOKENS = 3
REPLY_PRIMER_TOKENS = 3
# How far an estimate may be off: for text in general, and without a vocabulary.
MARGIN = Fraction(11, 10)
BLIND_MARGIN = Fraction(3, 2)
BLIND_BYTES_PER_TOKEN = 3
# Above this, counting takes a millisecond or more, so it runs in a thread.
ASIDE_CHARS = 20_000
# Counting shorter texts is as fast as a cache lookup.
REMEMBERED_CHARS_MIN = 500
REMEMBERED_BYTES_MAX = 8_000_000
# So is counting texts with paragraphs shorter than this, on average. The cache is cleared when its
# texts have more characters than this.
PARAGRAPH_CHARS_MIN = 40
PARAGRAPHS_CHARS_MAX = 2_000_000
# The memory of one cached count: key, value and table slot.
_ENTRY_BYTES = 400

Count = Callable[[str], int]
CountEach = Callable[[Sequence[str]], list[int]]


class CountMethod(enum.StrEnum):
    """How a count was obtained."""

    EXACT = "exact"
    PROVIDER = "provider"
    ESTIMATE = "estimate"


@dataclass(frozen=True, slots=True)
class TokenCount:
    """The number of tokens of something, and the upper bound of that number."""

    tokens: int
    method: CountMethod
    upper_tokens: int


@cache
def get_counter(tokenizer: str) -> Count:
    """Find the counting function of a tokenizer by its name, the same each time."""
    parsed = parse_tokenizer(tokenizer)
    return lambda text: _count(text, parsed)


@cache
def get_batch_counter(tokenizer: str) -> CountEach:
    """Find a function that counts many texts at once, like the tokenizer's counting function.

    With a vocabulary, other threads run meanwhile.
    """
    parsed, count = parse_tokenizer(tokenizer), get_counter(tokenizer)
    vocabulary = parsed.vocabulary

    def count_all(texts: Sequence[str]) -> list[int]:
        encoding = None if vocabulary is None else _find_encoding(vocabulary)
        if encoding is None:
            return [count(text) for text in texts]
        counts = count_each(encoding, texts)
        if parsed.factor is None:
            return counts
        return [ceil(tokens * parsed.factor) for tokens in counts]

    return count_all


def count_request_tokens(request: Request, card: ModelCard) -> TokenCount:
    """Count the whole request: system, every turn, and what frames them."""
    tokenizer = parse_tokenizer(card.tokenizer)
    texts = _list_texts(request)
    frames = MESSAGE_OVERHEAD_TOKENS * len(texts) + REPLY_PRIMER_TOKENS
    tokens = sum(_count(text, tokenizer) for text in texts) + frames
    margin = _compute_margin(tokenizer)
    if margin == 1:
        return TokenCount(tokens, CountMethod.EXACT, tokens)
    return TokenCount(tokens, CountMethod.ESTIMATE, ceil(tokens * margin))


def limit_tokens(upper_tokens: int, tokenizer: str) -> int:
    """Compute how many counted tokens are safe under a limit, given the margin."""
    return floor(upper_tokens / _compute_margin(parse_tokenizer(tokenizer)))


def bound_tokens(tokens: int, tokenizer: str) -> int:
    """Compute the upper bound of a count, given the margin."""
    return ceil(tokens * _compute_margin(parse_tokenizer(tokenizer)))


def _compute_margin(tokenizer: Tokenizer) -> Fraction:
    """Find the margin of a count by this tokenizer."""
    if tokenizer.vocabulary and _find_encoding(tokenizer.vocabulary) is None:
        return BLIND_MARGIN
    return Fraction(1) if tokenizer.factor is None else MARGIN


async def count_request_tokens_aside(request: Request, card: ModelCard) -> TokenCount:
    """Count a request; a long one in a thread, so that the event loop is not blocked."""
    if sum(map(len, _list_texts(request))) < ASIDE_CHARS:
        return count_request_tokens(request, card)
    return await asyncio.to_thread(count_request_tokens, request, card)


def _list_texts(request: Request) -> list[str]:
    system = [request.system] if request.system else []
    return system + [message.content for message in request.messages]


def _count(text: str, tokenizer: Tokenizer) -> int:
    if tokenizer.vocabulary is None:
        tokens = -(-len(text) // tokenizer.chars_per_token)
    elif (encoding := _find_encoding(tokenizer.vocabulary)) is None:
        tokens = -(-count_bytes(text) // BLIND_BYTES_PER_TOKEN)
    else:
        tokens = _remembered.count(encoding, text)
    return tokens if tokenizer.factor is None else ceil(tokens * tokenizer.factor)


@cache
def _find_encoding(vocabulary: str) -> tiktoken.Encoding | None:
    """Find a vocabulary; None, and cached as such, if it is missing or damaged."""
    try:
        return load_encoding(vocabulary)
    except ConfigurationError as error:
        logger.warning("token counts are estimates: %s", error.message)
        return None


class _Remembered:
    """A cache of counts of long texts, by digest; the least recently used are dropped."""

    def __init__(self, bytes_max: int) -> None:
        self._entries_max = bytes_max // _ENTRY_BYTES
        self._counts: OrderedDict[tuple[str, bytes], int] = OrderedDict()
        self._paragraphs: dict[str, _Paragraphs] = {}
        self._lock = threading.Lock()

    def count(self, encoding: tiktoken.Encoding, text: str) -> int:
        if len(text) < REMEMBERED_CHARS_MIN:
            return len(encoding.encode_ordinary(text))
        data = text.encode("utf-8", "surrogatepass")
        key = encoding.name, hashlib.blake2b(data, digest_size=16).digest()
        with self._lock:
            if (known := self._counts.get(key)) is not None:
                self._counts.move_to_end(key)
                return known
            paragraphs = self._paragraphs.setdefault(encoding.name, _Paragraphs())
        tokens = paragraphs.count(encoding, text)
        with self._lock:
            self._counts[key] = tokens
            while len(self._counts) > self._entries_max:
                self._counts.popitem(last=False)
        return tokens


class _Paragraphs:
    """A cache of counts of paragraphs: of an edited text, only the changes are counted."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._chars = 0

    def count(self, encoding: tiktoken.Encoding, text: str) -> int:
        parts = split_paragraphs(text)
        if not 1 < len(parts) <= len(text) // PARAGRAPH_CHARS_MIN:
            return count_text(encoding, text)
        if self._chars > PARAGRAPHS_CHARS_MAX:
            self._counts, self._chars = {}, 0
        counts = self._counts
        new = list({part for part in parts if part not in counts})
        counts |= zip(new, count_each(encoding, new), strict=True)
        self._chars += sum(map(len, new))
        return sum(map(counts.__getitem__, parts))


_remembered = _Remembered(REMEMBERED_BYTES_MAX)
