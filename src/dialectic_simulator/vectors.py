"""Vectors for texts: words and parts of words hashed into a fixed number of dimensions. Pure.

Texts that share words get similar vectors, which is all that a demonstration of search needs.
"""

from __future__ import annotations

import base64
import hashlib
import math
import re
import struct

_WORD = re.compile(r"\w+")


def build_vector(text: str, dimensions: int) -> list[float]:
    """Build the unit vector of a text; a text without words gets a vector of its own."""
    vector = [0.0] * dimensions
    for word in _WORD.findall(text.lower()) or [""]:
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
