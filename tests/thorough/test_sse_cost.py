"""Reading a stream takes time in proportion to its length."""

from __future__ import annotations

import time

from dialectic.core.sse import EventParser
from tests.unit.core.test_sse import feed_all


def test_work_grows_with_the_length_and_not_faster() -> None:
    def seconds(pieces: int) -> float:
        start = time.process_time()
        feed_all(EventParser(), b"x", pieces)
        return time.process_time() - start

    # Twenty times the bytes in one line would take 400 times as long if each were copied again.
    short, long = min(seconds(20_000) for _ in range(3)), seconds(400_000)
    assert long < short * 100
