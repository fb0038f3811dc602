"""Vectors for texts: words and parts of words hashed into a fixed number of places. Pure.

Texts that share words lie near each other, which is all that a demonstration of search needs.
"""

from __future__ import annotations

import base64
import hashlib
import math
import re
import struct

_WORD = re.compile(r"\w+")


def build_vector(text: str, dimensions: int) -> list[float]:
    """Build the vector of a text, of length one; a text without words gets a place of its own."""
    vector = [0.0] * dimensions
    for word in _WORD.findall(text.lower()) or [""]:
        for feature in (word, *(f"{word[at : at + 3]}." for at in range(len(word) - 2))):
            digest = hashlib.blake2b(feature.encode("utf-8", "replace"), digest_size=8).digest()
            place = int.from_bytes(digest[:4], "big") % dimensions
            vector[place] += 1.0 if digest[4] & 1 else -1.0
    length = math.sqrt(sum(value * value for value in vector))
    if length == 0.0:  # every feature met its opposite
        return [1.0] + [0.0] * (dimensions - 1)
    return [value / length for value in vector]


def spoil_vector(vector: list[float], fault: str) -> list[float]:
    """Make a vector that no index should take."""
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
    """Write a vector as OpenAI does for those who ask for it: 32-bit floats, little end first."""
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
