"""What asks a command to leave: ^C, a supervisor's SIGTERM, a terminal that is closed."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Handle = Callable[[signal.Signals], None]

_current: ContextVar[Handle | None] = ContextVar("current", default=None)


@contextmanager
def handling_signals(handle: Handle) -> Iterator[None]:
    """Call back instead of dying; afterwards whoever was called before is called again."""
    token = _current.set(handle)
    _install(handle)
    try:
        yield
    finally:
        _current.reset(token)
        _install(_current.get())


def _install(handle: Handle | None) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # `nohup` has asked for the terminal's end to be ignored.
        if number is signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
            continue
        if handle is None:
            loop.remove_signal_handler(number)
        else:
            loop.add_signal_handler(number, handle, number)
