"""Vectors that can be compared: as many as asked for, of one size, finite, of unit length. Pure.

Knows nobody who makes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dialectic.errors import ProviderMalformed

if TYPE_CHECKING:
    from dialectic.retrieval.base import Matrix


def check_rows(name: str, given: Any, *, count: int, dimensions: int) -> Matrix:
    """Take vectors in if they can be used, scaled to unit length; whatever is wrong is named."""
    import numpy as np

    try:
        rows = np.asarray(given, dtype=np.float32)
    except (TypeError, ValueError, OverflowError):
        raise _refuse(name, "its vectors are not all lists of numbers of one size") from None
    if rows.shape[:1] != (count,):
        raise _refuse(name, f"it made {len(rows) if rows.ndim else 0} vectors of {count} texts")
    if rows.shape != (count, dimensions):
        size = rows.shape[1] if rows.ndim == 2 else 0
        raise _refuse(name, f"its vectors have {size} numbers instead of {dimensions}")
    # In double precision, because the square of a large number may be none in single.
    lengths = np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
    if not np.isfinite(lengths).all():
        raise _refuse(name, "a vector holds what is no number")
    if not lengths.all():
        raise _refuse(name, "a vector is zero and points nowhere")
    return np.asarray(rows / lengths, dtype=np.float32)


def _refuse(name: str, reason: str) -> ProviderMalformed:
    return ProviderMalformed(
        f"The embedder {name} gave vectors that cannot be used: {reason}. If it stays so, choose "
        "another one by the setting `embedder`.",
        retries_max=1,
    )
