"""The document of a conversation and where it continues; texts as tokens and as vectors. Pure.

A model that is shown half a document writes the other half. So does this one: it finds the text so
far in the document of the conversation's opening, and answers with what follows.

A token may end inside a character. An incomplete character is never sent: its bytes are held back
until the rest follows, and a cut there falls before it. Texts that share words get similar vectors,
which is all that a demonstration of search needs. Knows no wire.
"""

from __future__ import annotations

import base64
import codecs
import functools
import hashlib
import math
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from dialectic.providers.offline.provider import compose_document, find_tail, read_conversation
from dialectic.tokens.encodings import load_encoding
from dialectic_simulator.agents import Agent, Mind
from dialectic_simulator.conversation import Ask, Piece
from dialectic_simulator.script import Manner
from dialectic_simulator.world import World

_SPACE = re.compile(r"\s+")
_WORD = re.compile(r"\S")


def build_dice(*parts: str | int) -> Random:
    """Build a random generator that depends on these words and numbers alone."""
    text = "\x1f".join(str(part) for part in parts)
    return Random(hashlib.sha256(text.encode("utf-8", "replace")).digest())


read_opening = functools.lru_cache(maxsize=64)(read_conversation)
compose_cached = functools.lru_cache(maxsize=64)(compose_document)


@dataclass(frozen=True, slots=True)
class Author:
    """Who writes the documents of a model: an offline model, or an agent of a world."""

    seed: int
    world: World | None = None
    # The agent with its place among all.
    agent: tuple[int, Agent] | None = None

    def write(self, ask: Ask, task: str, variant: str) -> str:
        """Write the document for a task; equal tasks get equal documents."""
        if self.world is None or self.agent is None:
            return compose_cached(ask.model, ask.system, task, seed=str(self.seed), variant=variant)
        place, agent = self.agent
        chance = build_dice(self.seed, "agent", ask.model, ask.system, task, variant)
        # The filler must not repeat points of its own accord.
        empty = self.world.remove_points(task)
        filler = compose_cached(ask.model, ask.system, empty, seed=str(self.seed), variant=variant)
        return Mind(self.world, agent, place, chance).answer(task, filler)


def write_document(ask: Ask, manner: Manner, author: Author, *, edition: int) -> str:
    """Write the whole document that answers a conversation."""
    if manner.text is not None:
        return manner.text
    task, _ = read_opening(ask.turns)
    variant = " ".join(filter(None, [ask.variant, str(edition)]))
    document = author.write(ask, task, variant)
    # A prompt may contain a lone surrogate, and a document may quote it.
    return document.encode("utf-8", "replace").decode()


def read_written(ask: Ask) -> str:
    """Find the part of the document in the turns so far."""
    return read_opening(ask.turns)[1]


def choose_edition(ask: Ask, manner: Manner, author: Author, *, editions: int) -> int:
    """Find which of several documents a conversation continues: the one that begins like it."""
    written = read_written(ask)

    def likeness(edition: int) -> int:
        document = write_document(ask, manner, author, edition=edition)
        return measure_common(document, written)

    return max(range(1, max(1, editions) + 1), key=likeness)


def decide_rest(document: str, written: str, manner: Manner) -> str:
    """Decide the remaining text: the document, or what follows the turns so far."""
    if not written or manner.restart or manner.fault == "continuation_restarts":
        return document
    if manner.empty:
        return ""
    place = measure_written(document, written)
    if place == len(document) and is_endless(manner):
        return _build_note(written)
    return manner.preamble + document[max(0, place - manner.overlap) :]


def is_endless(manner: Manner) -> bool:
    """Return whether a document is endless."""
    return manner.always_length or manner.fault == "always_length"


def measure_written(document: str, written: str) -> int:
    """Find how much of a document was sent, even if it was trimmed, shortened or edited."""
    if document.startswith(written):
        return len(written)
    if (place := _find_place_in_words(document, written)) is not None:
        return place
    if (place := find_tail(document, written)) is not None:
        return place
    return measure_common(document, written)


def _find_place_in_words(document: str, written: str) -> int | None:
    """Find the end of the text so far if it differs only in blanks and line ends."""
    said = _SPACE.sub("", written)
    if not _SPACE.sub("", document).startswith(said):
        return None
    place = 0
    for count, match in enumerate(_WORD.finditer(document), start=1):
        place = match.end()
        if count == len(said):
            break
    return place if said else 0


def measure_common(a: str, b: str) -> int:
    """Measure the length of the common prefix of two texts."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[:middle] == b[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _build_note(written: str) -> str:
    """Build one more paragraph for an endless document."""
    return (
        f"\n\nNote at {len(written)} characters: there is more to say about this, and what was said"
        f" up to here, {len(written.split())} words in all, is not the end of it."
    )


# -- tokens ---------------------------------------------------------------------------------------

# The tokens that frame a message and an answer, as OpenAI documents them.
MESSAGE_TOKENS = 3
PRIMER_TOKENS = 3


def count_tokens(text: str, tokenizer: str) -> int:
    """Count the tokens of a text."""
    if (chars := _find_chars(tokenizer)) is not None:
        return -(-len(text) // chars)
    return len(load_encoding(tokenizer).encode_ordinary(text))


def count_ask_tokens(ask: Ask, tokenizer: str) -> int:
    """Count a whole request: the messages, and what frames them."""
    if ask.inputs:
        return sum(count_tokens(text, tokenizer) for text in ask.inputs)
    said = [turn.content for turn in ask.turns] + ([ask.system] if ask.system else [])
    return PRIMER_TOKENS + sum(MESSAGE_TOKENS + count_tokens(text, tokenizer) for text in said)


def split_tokens(text: str, tokenizer: str) -> list[bytes]:
    """Split a text into the bytes of its tokens."""
    if (chars := _find_chars(tokenizer)) is not None:
        return [text[at : at + chars].encode() for at in range(0, len(text), chars)]
    encoding = load_encoding(tokenizer)
    return encoding.decode_tokens_bytes(encoding.encode_ordinary(text))


def build_pieces(tokens: Sequence[bytes], size: int) -> tuple[Piece, ...]:
    """Split tokens into pieces of a given size; an incomplete character goes with the next."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    pieces: list[Piece] = []
    held = 0
    for start in range(0, len(tokens), size):
        group = tokens[start : start + size]
        text = decoder.decode(b"".join(group))
        if text:
            pieces.append(Piece(text, held + len(group)))
            held = 0
        else:
            held += len(group)
    return tuple(pieces)


def cut_tokens(tokens: Sequence[bytes], count: int) -> list[bytes]:
    """Keep the first tokens, up to the last that ends with a complete character."""
    kept = list(tokens[:count])
    while kept and not _is_whole(kept):
        kept.pop()
    return kept


def _is_whole(tokens: Sequence[bytes]) -> bool:
    """Return whether a text ends after a complete character, which has at most four bytes."""
    tail = b"".join(tokens[-4:])[-4:]
    for back in range(1, len(tail) + 1):
        lead = tail[-back]
        if lead & 0b1100_0000 == 0b1000_0000:
            continue
        length = 1 if lead < 0x80 else 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
        return back == length
    return False


def _find_chars(tokenizer: str) -> int | None:
    kind, _, argument = tokenizer.partition(":")
    return int(argument) if kind == "chars" else None


# -- vectors --------------------------------------------------------------------------------------

_LETTERS = re.compile(r"\w+")


def build_vector(text: str, dimensions: int) -> list[float]:
    """Build the unit vector of a text; a text without words gets a vector of its own."""
    vector = [0.0] * dimensions
    for word in _LETTERS.findall(text.lower()) or [""]:
        for feature in (word, *(f"{word[at : at + 3]}." for at in range(len(word) - 2))):
            digest = hashlib.blake2b(feature.encode("utf-8", "replace"), digest_size=8).digest()
            place = int.from_bytes(digest[:4], "big") % dimensions
            vector[place] += 1.0 if digest[4] & 1 else -1.0
    length = math.sqrt(sum(value * value for value in vector))
    if length == 0.0:  # all features cancelled out
        return [1.0] + [0.0] * (dimensions - 1)
    return [value / length for value in vector]


def spoil_vector(vector: list[float], fault: str) -> list[float]:
    """Build a vector that an index should reject."""
    match fault:
        case "vector_wrong_size":
            return vector[:-1] if len(vector) > 1 else vector * 2
        case "vector_nan":
            return [math.nan, *vector[1:]]
        case "vector_zero":
            return [0.0] * len(vector)
        case _:
            return vector


def encode_base64(vector: list[float]) -> str:
    """Encode a vector as OpenAI does on request: little-endian 32-bit floats."""
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
