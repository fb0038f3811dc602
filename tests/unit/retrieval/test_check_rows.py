"""Vectors are taken in only if they can be compared."""

from __future__ import annotations

from typing import Any

import numpy as np

from dialectic.errors import ProviderMalformed
from dialectic.retrieval.embedders import check_rows
from tests.cases import each_case
from tests.problems import refusing


def test_sound_vectors_are_scaled_to_unit_length() -> None:
    rows = check_rows("x", [[3, 4], [1e30, 0]], count=2, dimensions=2)
    np.testing.assert_allclose(rows, np.asarray([[0.6, 0.8], [1.0, 0.0]]), rtol=1e-6)
    assert rows.dtype == np.float32


@each_case(
    ("given", "reason"),
    [
        ([[1.0, 2.0]], "other_count"),
        ([[1.0, 2.0]] * 3, "other_count"),
        ([[1.0], [2.0]], "other_size"),
        ([[1.0, 2.0], [1.0]], "not_numbers"),
        ([[1.0, 2.0], ["a", 1]], "not_numbers"),
        ([1.0, 2.0], "other_size"),
        ([[1.0, float("nan")], [1.0, 2.0]], "not_finite"),
        ([[1.0, float("inf")], [1.0, 2.0]], "not_finite"),
        ([[0.0, 0.0], [1.0, 2.0]], "zero"),
        (None, "other_count"),
    ],
)
def test_what_cannot_be_compared_is_refused_and_named(given: Any, reason: str) -> None:
    with refusing(ProviderMalformed, reason=reason, subject="test/x") as caught:
        check_rows("test/x", given, count=2, dimensions=2)
    assert caught.value.retries_max == 1
    assert "test/x" in caught.value.message
