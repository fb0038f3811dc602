"""The built-in static embedder: a text's vector is the mean of its tokens' vectors. Needs no key.

The weights and the vocabulary come with the package `wordllama`. Its own inference gives the same
vectors, but takes several times as long. Knows no database and no money.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from dialectic.errors import ProviderRejected
from dialectic.retrieval.base import (
    BuiltInEmbedder,
    Embedded,
    check_rows,
    get_package,
    load_file,
    replace_surrogates,
)

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

# The vectors of this many tokens are in memory at once, however long the text is.
BATCH_TOKENS = 768
_loading = threading.Lock()

# A token contains a blank or line end only at its start. So each word is tokenized by itself, and
# most words are cached. Texts that could break the rule are tokenized as a whole.
_WORD = re.compile(r" +[^ \n]*|\n[^ \n]*")
_UNRULY = re.compile(r"</?s>|<unk>|\u2581")
_BLANK_ID = 29_871
KNOWN_WORDS_MAX = 50_000
KNOWN_CHARS_MAX = 32
TOKEN_TYPE, TOKEN_BYTES = "<u2", 2


class _Known(dict[str, bytes]):
    """A cache of the tokens of words; a missing word is tokenized on access.

    The key is the word without the blank before it, or with its line end. A token takes two
    bytes.
    """

    def __init__(self, encode: Callable[[str], bytes]) -> None:
        super().__init__({"": _BLANK_ID.to_bytes(TOKEN_BYTES, "little")})
        self._encode = encode

    def __missing__(self, word: str) -> bytes:
        tokens = self._encode(word)
        if word[0] == "\n":  # the tokenizer prepends a blank to its input
            tokens = tokens[TOKEN_BYTES:]
        if len(word) <= KNOWN_CHARS_MAX and len(self) < KNOWN_WORDS_MAX:
            self[word] = tokens
        return tokens


class StaticModel:
    """The weights in memory. Inference is fast, linear, and runs outside the event loop."""

    def __init__(self, tokenizer: tokie.Tokenizer, weights: Matrix) -> None:
        self._tokenizer = tokenizer
        self._weights = weights
        self._known = _Known(self._encode)

    def count(self, text: str) -> int:
        return len(self._read(text)) // TOKEN_BYTES

    def embed(self, texts: Sequence[str]) -> Embedded:
        """Compute one unit vector per text."""
        read = [self._read(text) for text in texts]
        if not all(read):
            raise ProviderRejected(
                f"{NAME} was given a text without words. Omit empty texts.", reason="no_words"
            )
        rows = check_rows(NAME, self._pool(read), count=len(texts), dimensions=DIMENSIONS)
        return Embedded(rows, sum(map(len, read)) // TOKEN_BYTES)

    def _read(self, text: str) -> bytes:
        """Tokenize a text, word by word if that gives the same result."""
        if len(self._known) >= KNOWN_WORDS_MAX:
            self._known = _Known(self._encode)
        # Most texts contain neither character; this check is faster than the search for the others.
        if not text or (("<" in text or "\u2581" in text) and _UNRULY.search(text)):
            return self._encode(text)
        return b"".join(map(self._known.__getitem__, _find_words(f" {text}")))

    def _encode(self, text: str) -> bytes:
        # Missing from the type stubs: it returns one array instead of an object for each token.
        tokenizer: Any = self._tokenizer
        mended = replace_surrogates(text)
        ids, _ = tokenizer.encode_batch_flat([mended], add_special_tokens=False)
        return bytes(ids.astype(TOKEN_TYPE).tobytes())

    def _pool(self, read: Sequence[bytes]) -> Matrix:
        """Sum the vectors of each text; scaled to unit length the sum is the mean.

        Each text is summed by itself, so that its neighbours do not change the last bit of its
        vector.
        """
        import numpy as np

        sums = np.zeros((len(read), DIMENSIONS), dtype=np.float32)
        for row, tokens in zip(sums, read, strict=True):
            ids = np.frombuffer(tokens, TOKEN_TYPE)
            for begin in range(0, len(ids), BATCH_TOKENS):
                row += np.add.reduce(self._weights[ids[begin : begin + BATCH_TOKENS]], axis=0)
        return sums


def _find_words(text: str) -> list[str]:
    """Find the words of a text that begins with a blank, as cache keys."""
    if "  " in text:
        return [word[1:] if word[0] == " " else word for word in _WORD.findall(text)]
    # Faster if there is one blank between words.
    return text.replace("\n", " \n").split(" ")[1:]


def load_static_model() -> StaticModel:
    """Load the model, once; the first time takes half a second."""
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
    # Twice the memory, but no conversion at each read.
    return StaticModel(tokenizer, weights.reshape(TOKENS, DIMENSIONS).astype(np.float32))


class StaticEmbedder(BuiltInEmbedder):
    """The static model as an embedder."""

    name = NAME
    dimensions = DIMENSIONS
    piece_tokens_max = PIECE_TOKENS_MAX

    def load(self) -> StaticModel:
        return load_static_model()
