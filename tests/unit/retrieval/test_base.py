"""Vectors are taken in only if they can be compared."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dialectic.errors import ProviderMalformed
from dialectic.retrieval.base import check_rows


def test_sound_vectors_are_scaled_to_unit_length() -> None:
    rows = check_rows("x", [[3, 4], [1e30, 0]], count=2, dimensions=2)
    np.testing.assert_allclose(rows, np.asarray([[0.6, 0.8], [1.0, 0.0]]), rtol=1e-6)
    assert rows.dtype == np.float32


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ([[1.0, 2.0]], "1 vectors of 2 texts"),
        ([[1.0, 2.0]] * 3, "3 vectors of 2 texts"),
        ([[1.0], [2.0]], "1 numbers instead of 2"),
        ([[1.0, 2.0], [1.0]], "not all lists of numbers of one size"),
        ([[1.0, 2.0], ["a", 1]], "not all lists of numbers"),
        ([1.0, 2.0], "0 numbers instead of 2"),
        ([[1.0, float("nan")], [1.0, 2.0]], "no number"),
        ([[1.0, float("inf")], [1.0, 2.0]], "no number"),
        ([[0.0, 0.0], [1.0, 2.0]], "zero"),
        (None, "0 vectors of 2 texts"),
    ],
)
def test_what_cannot_be_compared_is_refused_and_named(given: Any, why: str) -> None:
    with pytest.raises(ProviderMalformed, match=why) as caught:
        check_rows("test/x", given, count=2, dimensions=2)
    assert caught.value.retries_max == 1
    assert "test/x" in caught.value.message
