"""How long one turn of an event loop takes, in processor time of its thread.

While a turn runs, nothing else of the process does. Processor time leaves out what other programs
on the machine take, so the figure is the product's own, whatever else is running.
"""

from __future__ import annotations

import asyncio
import asyncio.base_events
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

LONG_S = 0.02


@contextmanager
def watching(on_long: Callable[[float], None]) -> Iterator[None]:
    """Measure every turn of this process's event loops; tell of each that is long."""
    loop: Any = asyncio.base_events.BaseEventLoop
    run_once = loop._run_once

    def run_once_timed(self: Any) -> None:
        begun_s = time.thread_time()
        run_once(self)
        taken_s = time.thread_time() - begun_s
        if taken_s >= LONG_S:
            on_long(taken_s)

    loop._run_once = run_once_timed
    try:
        yield
    finally:
        loop._run_once = run_once


def read_longest(kept: Path, *, since_s: float = 0.0) -> float:
    """Read the longest turn that ended since a moment of the monotonic clock; zero if none was."""
    lines = [line.split() for line in kept.read_text().splitlines()]
    return max((float(taken_s) for at_s, taken_s in lines if float(at_s) >= since_s), default=0.0)


def main() -> None:
    """Run a module as a program; keep the long turns of its event loop in a file."""
    from runpy import run_module

    import uvloop

    # uvloop's turns cannot be measured; what runs in them is the same in Python's own loop.
    uvloop.new_event_loop = asyncio.new_event_loop  # type: ignore[assignment]
    kept, module = Path(sys.argv[1]), sys.argv[2]
    del sys.argv[1:3]

    with (
        kept.open("w", buffering=1) as file,
        watching(lambda taken_s: print(time.monotonic(), taken_s, file=file)),
    ):
        run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
