"""The built-in static embedder gives the same unit vectors for the same words."""

from __future__ import annotations

import numpy as np
import tokie
from hypothesis import given
from hypothesis import strategies as st

from dialectic.errors import ConfigurationError, ProviderRejected
from dialectic.retrieval.built_in import (
    BATCH_TOKENS,
    STATIC_VOCABULARY,
    ModelFile,
    StaticEmbedder,
    StaticModel,
    load_static_model,
)
from tests.problems import refusing
from tests.properties import examples

EMBEDDER = StaticEmbedder()
TOKENIZER = tokie.Tokenizer.from_json(str(STATIC_VOCABULARY.get_path()))


async def test_vectors_are_of_unit_length_and_the_same_each_time() -> None:
    texts = ["A hall for the village.", "日本語", "\udc80 half a character", "x" * 5000]
    first, second = await EMBEDDER.embed(texts), await EMBEDDER.embed(texts)
    assert first.rows.shape == (4, EMBEDDER.dimensions)
    assert first.tokens == sum(map(EMBEDDER.count, texts))
    np.testing.assert_array_equal(first.rows, second.rows)
    np.testing.assert_allclose(np.linalg.norm(first.rows, axis=1), 1, rtol=1e-5)


async def test_a_text_has_one_vector_whatever_its_neighbours() -> None:
    long = "ships sail over the sea " * (BATCH_TOKENS // 4)
    alone = (await EMBEDDER.embed(["The keys hang in the hall."])).rows[0]
    beside = (await EMBEDDER.embed([long, "The keys hang in the hall.", long])).rows
    np.testing.assert_array_equal(beside[1], alone)
    np.testing.assert_allclose(beside[0], beside[2], atol=1e-5)


async def test_what_means_alike_lies_near() -> None:
    rows = (await EMBEDDER.embed(["a boat on the sea", "a ship at sea", "tax law reform"])).rows
    assert rows[0] @ rows[1] > rows[0] @ rows[2]


async def test_a_text_without_words_is_refused() -> None:
    with refusing(ProviderRejected, reason="no_words"):
        await EMBEDDER.embed(["words", ""])


async def test_no_texts_have_no_vectors() -> None:
    assert (await EMBEDDER.embed([])).rows.shape == (0, EMBEDDER.dimensions)


def test_weights_that_were_tampered_with_are_refused() -> None:
    with refusing(ConfigurationError, reason="other_hash", subject="RESULTS.md"):
        ModelFile("wordllama", "RESULTS.md", "0" * 64).load()
    with refusing(ConfigurationError, reason="unreadable", subject="weights/missing"):
        ModelFile("wordllama", "weights/missing", "0" * 64).load()
    with refusing(ConfigurationError, reason="not_installed", subject="no_such_package_here"):
        ModelFile("no_such_package_here", "x", "0" * 64).load()


@examples(100)
@given(st.text(alphabet="ab  \n\n\tThe.,-#|12\r\x00\u00a0é中😀\u2581</s>unk", max_size=60))
def test_reading_word_by_word_finds_the_tokens_of_the_whole(text: str) -> None:
    assert EMBEDDER.count(text) == TOKENIZER.count_tokens(text)


def test_words_that_were_read_before_have_the_same_tokens_and_vectors() -> None:
    words = [
        f"{stem}{number}" for stem in ("hall", "Größe", "中", "x" * 40) for number in range(50)
    ]
    texts = [" ".join(words[:120]), "\n".join(words[60:]), "a  b <s> c"]
    model = StaticModel(TOKENIZER, load_static_model()._weights)
    first = model.embed(texts).rows
    assert [model.count(text) for text in texts] == TOKENIZER.count_tokens_batch(texts)
    np.testing.assert_array_equal(model.embed(texts).rows, first)


async def test_vectors_are_those_of_the_package_that_carries_the_weights() -> None:
    texts = ["A hall for the village.", "日本語", "# Costs\n\n| a | b |\n", "keys " * 300]
    weights = load_static_model()._weights
    ours = (await EMBEDDER.embed(texts)).rows
    for row, text in zip(ours, texts, strict=True):
        tokens = TOKENIZER.encode(text, add_special_tokens=False).ids
        mean = weights[tokens].mean(axis=0)
        np.testing.assert_allclose(row, mean / np.linalg.norm(mean), atol=1e-6)
