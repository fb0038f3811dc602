"""How deep JSON is nested and how much is in it, told without parsing it. Pure.

Each value is made in memory, and each that is wrong is an error of its own, which takes far more:
what strangers send is measured before it is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

WINDOW_BYTES = 1 << 16
_IN, _OUT = b"\x01", b"\xff"
_STEPS = bytes.maketrans(b"[{]}", 2 * _IN + 2 * _OUT)
_NO_BRACKETS = bytes(sorted(set(range(256)) - set(b"[]{}")))


def has_too_many(body: bytes, values_max: int, *, window_bytes: int = WINDOW_BYTES) -> bool:
    """Say whether lists and objects hold more values than that, by the commas between them.

    What is nested without a comma is counted as one: its depth is limited already.
    """
    if body.count(b",") < values_max:
        return False
    commas = sum(outside.count(b",") for outside in _list_outside(body, window_bytes))
    return commas >= values_max


def is_too_deep(body: bytes, depth_max: int, *, window_bytes: int = WINDOW_BYTES) -> bool:
    """Say whether brackets outside of texts are nested deeper than that; nothing is parsed.

    A body may be made of millions of the shortest texts and lists: none is looked at one by one.
    """
    if body.count(b"[") + body.count(b"{") <= depth_max:
        return False
    depth = 0
    for steps in _list_steps(body, window_bytes):
        if max(accumulate(memoryview(steps).cast("b"), initial=depth)) > depth_max:
            return True
        depth += steps.count(_IN) - steps.count(_OUT)
    return False


def _list_steps(body: bytes, window_bytes: int) -> Iterator[bytes]:
    """List, window by window, the steps in and out that stand outside of texts."""
    for outside in _list_outside(body, window_bytes):
        yield outside.translate(_STEPS, _NO_BRACKETS)


def _list_outside(body: bytes, window_bytes: int) -> Iterator[bytes]:
    """List, window by window, what stands outside of texts."""
    plain = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    is_inside = 0
    for start in range(0, len(plain), window_bytes):
        parts = plain[start : start + window_bytes].split(b'"')
        yield b"".join(parts[is_inside::2])
        is_inside = (is_inside + len(parts) - 1) % 2
