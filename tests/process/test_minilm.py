"""The weights of MiniLM give the same vectors each time."""

from __future__ import annotations

import numpy as np

from dialectic.retrieval.built_in import MiniLMEmbedder


async def test_minilm_gives_the_same_unit_vectors_each_time_whatever_the_neighbours() -> None:
    embedder = MiniLMEmbedder()
    texts = ["a boat on the sea", "a ship at sea", "tax law", "x " * 900]
    embedded = await embedder.embed(texts)
    assert embedded.rows.shape == (4, 384)
    assert embedded.tokens == sum(min(embedder.count(text), 254) for text in texts)
    np.testing.assert_allclose(np.linalg.norm(embedded.rows, axis=1), 1, rtol=1e-5)
    alone = (await embedder.embed(texts[:1])).rows[0]
    np.testing.assert_array_equal(embedded.rows[0], alone)
    assert embedded.rows[0] @ embedded.rows[1] > 0.7 > embedded.rows[0] @ embedded.rows[2]
    np.testing.assert_array_equal((await embedder.embed(texts)).rows, embedded.rows)
