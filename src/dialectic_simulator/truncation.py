"""Text as tokens: counted, cut at their boundaries, split into pieces. Knows no model's text.

A token may end inside a character. An incomplete character is never sent: its bytes are held back
until the rest follows, and a cut there falls before it.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence

from dialectic.tokens.encodings import load_encoding
from dialectic_simulator.conversation import Ask, Piece

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
