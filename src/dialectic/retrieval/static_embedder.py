"""The built-in static embedder: a text's vector is the mean of its tokens'. No key, no wait.

The weights and the vocabulary come with the package `wordllama`. Its own code is left alone, for it
would import what downloads; what is computed is the same. Knows no database and no money.
"""

from __future__ import annotations

import asyncio
import itertools
import re
import threading
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from dialectic.core.models.model import ModelCard
from dialectic.errors import ProviderRejected
from dialectic.retrieval.base import Embedded, check_rows, get_package, load_file

if TYPE_CHECKING:
    import tokie

    from dialectic.retrieval.base import Matrix

NAME = "builtin/static"
DIMENSIONS = 256
# It could read more, but the mean of a long text says little about any part of it.
PIECE_TOKENS_MAX = 256

PACKAGE = "wordllama"
WEIGHTS = "weights/l2_supercat_256.safetensors"
WEIGHTS_SHA256 = "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5"
VOCABULARY = "tokenizers/l2_supercat_tokenizer_config.json"
VOCABULARY_SHA256 = "93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68"
TOKENS = 32_000

# So many tokens' vectors are held at once, whatever the texts: they stay near the processor.
BATCH_TOKENS = 768
# The words of so many texts are looked up at once.
READ_TEXTS = 500
# Fewer words are read one by one: at several the tokenizer begins threads.
LEARNT_WORDS_MIN = 32
_loading = threading.Lock()

# No token holds a blank or a line end but at its start, so that each word is read by itself, and
# the words of a text over and over: most are known. What could break the rule is read as a whole.
_WORD = re.compile(r" +[^ \n]*|\n[^ \n]*")
_UNRULY = re.compile(r"</?s>|<unk>|\u2581")
_BLANK_ID = 29_871
KNOWN_WORDS_MAX = 50_000
KNOWN_CHARS_MAX = 32
TOKEN_TYPE, TOKEN_BYTES = "<u2", 2


class _Known(dict[str, bytes]):
    """The tokens of words that were met before; a new one is read when it is asked for.

    A word is named without the blank before it, or with its line end. Tokens are two bytes each.
    """

    def __init__(self, encode: Callable[[Sequence[str]], list[bytes]]) -> None:
        super().__init__({"": _BLANK_ID.to_bytes(TOKEN_BYTES, "little")})
        self._encode = encode

    def __missing__(self, word: str) -> bytes:
        tokens = _drop_blank(word, self._encode([word])[0])
        if self._may_keep(word):
            self[word] = tokens
        return tokens

    def learn(self, words: set[str]) -> None:
        """Read all new ones among some words at once: quicker than one by one if they are many."""
        new = [word for word in words if word not in self and self._may_keep(word)]
        if len(new) < LEARNT_WORDS_MIN:
            return
        self.update(zip(new, map(_drop_blank, new, self._encode(new)), strict=True))

    def _may_keep(self, word: str) -> bool:
        return len(word) <= KNOWN_CHARS_MAX and len(self) < KNOWN_WORDS_MAX


def _drop_blank(word: str, tokens: bytes) -> bytes:
    # The tokenizer sets a blank before whatever it is given.
    return tokens[TOKEN_BYTES:] if word[0] == "\n" else tokens


class StaticModel:
    """The weights in memory. All of it is quick, linear, and free of the event loop."""

    def __init__(self, tokenizer: tokie.Tokenizer, weights: Matrix) -> None:
        self._tokenizer = tokenizer
        self._weights = weights
        self._known = _Known(self._encode)

    def count(self, text: str) -> int:
        return len(self._read(text, self._find_words(text))) // TOKEN_BYTES

    def embed(self, texts: Sequence[str]) -> Embedded:
        """Make one vector of unit length of each text."""
        read: list[bytes] = []
        for low in range(0, len(texts), READ_TEXTS):
            some = texts[low : low + READ_TEXTS]
            words = [self._find_words(text) for text in some]
            self._known.learn(set(itertools.chain.from_iterable(filter(None, words))))
            read += map(self._read, some, words)
        if not all(read):
            raise ProviderRejected(
                f"{NAME} was given a text without words. Leave empty texts out.", reason="no_words"
            )
        rows = check_rows(NAME, self._pool(read), count=len(texts), dimensions=DIMENSIONS)
        return Embedded(rows, sum(map(len, read)) // TOKEN_BYTES)

    def _find_words(self, text: str) -> list[str] | None:
        """Find the words of a text that can be read word by word."""
        if len(self._known) >= KNOWN_WORDS_MAX:
            self._known = _Known(self._encode)
        # Most texts have nothing of what breaks the rule, which is told without looking for it.
        if not text or (("<" in text or "\u2581" in text) and _UNRULY.search(text)):
            return None
        return _find_words(f" {text}")

    def _read(self, text: str, words: list[str] | None) -> bytes:
        """Read the tokens of a text."""
        if words is None:
            return self._encode([text])[0]
        return b"".join(map(self._known.__getitem__, words))

    def _encode(self, texts: Sequence[str]) -> list[bytes]:
        # Its stubs leave it out: one array instead of an object for each token.
        tokenizer: Any = self._tokenizer
        ids, lengths = tokenizer.encode_batch_flat(
            [_mend(text) for text in texts], add_special_tokens=False
        )
        data = ids.astype(TOKEN_TYPE).tobytes()
        if len(texts) == 1:
            return [data]
        ends = (lengths.cumsum() * TOKEN_BYTES).tolist()
        return [data[low:high] for low, high in itertools.pairwise([0, *ends])]

    def _pool(self, read: Sequence[bytes]) -> Matrix:
        """Add up each text's vectors; their length, and so the mean, is set afterwards.

        Each text is added up by itself, so that the texts beside it do not change the last bit of
        its vector.
        """
        import numpy as np

        sums = np.zeros((len(read), DIMENSIONS), dtype=np.float32)
        held = np.empty((BATCH_TOKENS, DIMENSIONS), dtype=np.float32)
        for row, tokens in zip(sums, read, strict=True):
            ids = np.frombuffer(tokens, TOKEN_TYPE)
            for begin in range(0, len(ids), BATCH_TOKENS):
                part = ids[begin : begin + BATCH_TOKENS]
                vectors = held[: len(part)]
                # Every token is in the vocabulary; so told, numpy writes without a copy.
                self._weights.take(part, axis=0, out=vectors, mode="clip")
                row += np.add.reduce(vectors, axis=0)
        return sums


def _find_words(text: str) -> list[str]:
    """Find the words of a text that begins with a blank, named as they are known."""
    if "  " in text:
        return [word[1:] if word[0] == " " else word for word in _WORD.findall(text)]
    # Quicker, where blanks stand alone.
    return text.replace("\n", " \n").split(" ")[1:]


def _mend(text: str) -> str:
    """Replace halves of surrogates: what cannot be written as UTF-8 is no text to Rust."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def load_static_model() -> StaticModel:
    """Load the model, once: half a second of work the first time."""
    with _loading:
        return _load()


@cache
def _load() -> StaticModel:
    import numpy as np
    import tokie

    data = load_file(PACKAGE, WEIGHTS, WEIGHTS_SHA256)
    load_file(PACKAGE, VOCABULARY, VOCABULARY_SHA256)
    tokenizer = tokie.Tokenizer.from_json(str(get_package(PACKAGE) / VOCABULARY))
    # The only tensor in the file is at its end.
    weights = np.frombuffer(data, dtype="<f2", offset=len(data) - 2 * TOKENS * DIMENSIONS)
    # Twice the memory, but read without being converted each time.
    return StaticModel(tokenizer, weights.reshape(TOKENS, DIMENSIONS).astype(np.float32))


class StaticEmbedder:
    """The static model as an embedder; loaded when it is first needed."""

    name = NAME
    dimensions = DIMENSIONS
    piece_tokens_max = PIECE_TOKENS_MAX
    card: ModelCard | None = None

    def count(self, text: str) -> int:
        return load_static_model().count(text)

    async def embed(self, texts: Sequence[str]) -> Embedded:
        return await asyncio.to_thread(_embed, texts)

    async def close(self) -> None:
        """Nothing is kept open."""


def _embed(texts: Sequence[str]) -> Embedded:
    return load_static_model().embed(texts)
