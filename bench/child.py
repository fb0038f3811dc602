"""Processes of the benchmark: every contender runs in one of its own and speaks JSON lines.

A module of contenders ends in `serve({...})` and is run as `python -m MODULE ACTION OPTIONS`. What
it says goes to standard output, one object a line; its complaints go to a file that is shown when
it fails. Only processes started here are ever ended here.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import inspect
import itertools
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

ROOT = Path(__file__).parents[1]
STOP_PATIENCE_S = 10.0
COMPLAINT_LINES_MAX = 3
SAID_CHARS_MAX = 200

Options = Mapping[str, Any]
Action = Callable[[Options], Awaitable[Any] | Any]


class ChildFailed(Exception):
    """A process ended badly, said nothing in time, or said something that makes no sense."""


# -- inside the process ---------------------------------------------------------------------------


def serve(actions: Mapping[str, Action]) -> None:
    """Carry out the action named on the command line and say what it returns."""
    name, options = sys.argv[1], json.loads(sys.argv[2])
    signal.signal(signal.SIGUSR1, lambda *_: mark_cpu())
    threading.Thread(target=_die_with, args=(os.getppid(),), daemon=True).start()
    outcome = actions[name](options)
    if inspect.isawaitable(outcome):
        outcome = _run_on_uvloop(outcome)
    if outcome is None and _cpu_marks_s:
        outcome = {"cpu_s": time.process_time() - _cpu_marks_s[-1]}
    say(outcome)


def _die_with(parent: int) -> None:
    """End this process when its parent is gone, however that went."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


def _run_on_uvloop(work: Awaitable[Any]) -> Any:
    """Everyone gets the same event loop: the one that the product runs on."""
    import uvloop

    async def main() -> Any:
        return await work

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main())


def say(thing: Any) -> None:
    """Tell the parent something, to its end.

    With PYTHONUNBUFFERED `sys.stdout` writes once, and forgets what the pipe does not take of a
    line that is longer than it holds.
    """
    with open(sys.stdout.fileno(), "wb", closefd=False) as out:
        out.write(json.dumps(thing).encode() + b"\n")


_cpu_marks_s: list[float] = []


def wait_for_go() -> None:
    """Say that all is ready and wait for the parent's word."""
    say({"ready": True})
    sys.stdin.readline()
    mark_cpu()


def mark_cpu() -> None:
    """Count this process's CPU time from here on; it is said at the end."""
    _cpu_marks_s.append(time.process_time())


def build_text(size_bytes: int) -> str:
    """Build a text that does not compress away, the same each time."""
    digests = (hashlib.sha256(str(number).encode()).hexdigest() for number in itertools.count())
    return "".join(itertools.islice(digests, size_bytes // 64 + 1))[:size_bytes]


def build_prose(size_bytes: int, seed: int) -> str:
    """Build a text of words as long as asked for, another one for each seed."""
    chance = Random(seed)
    syllables = [first + second for first in "bdfklmnprst" for second in "aeiou"]
    words = ("".join(chance.choices(syllables, k=chance.randint(1, 5))) for _ in range(size_bytes))
    return " ".join(itertools.islice(words, size_bytes // 3))[:size_bytes]


def stopping_event() -> asyncio.Event:
    """Build an event that SIGTERM sets; to be called inside a running loop."""
    event = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, event.set)
    return event


# -- outside of it --------------------------------------------------------------------------------


class Child:
    """A process that was started here."""

    def __init__(self, module: str, action: str, options: Options) -> None:
        self.name = f"{module} {action}"
        # Closed by the context manager that owns this object.
        self._complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, action, json.dumps(options)],
            cwd=ROOT,
            env=clean_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            text=True,
        )
        self._said: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._said.put(line)
        self._said.put(None)

    def hear(self, timeout_s: float) -> Any:
        """Wait for the next thing it says."""
        with contextlib.suppress(queue.Empty):
            if (line := self._said.get(timeout=max(timeout_s, 0.001))) is not None:
                try:
                    return json.loads(line)
                except ValueError:
                    said = f"{line[:SAID_CHARS_MAX].strip()!r} ({len(line):,} characters)"
                    raise ChildFailed(f"{self.name} said {said}{self._complain()}") from None
            self._said.put(None)
            raise ChildFailed(f"{self.name} ended early{self._complain()}")
        raise TimeoutError(f"{self.name} said nothing for {timeout_s:.0f} s{self._complain()}")

    def hear_end(self, key: str, timeout_s: float) -> Any:
        """Wait until it says something with this key in it; what it says before is passed over."""
        deadline = time.monotonic() + timeout_s
        while True:
            said = self.hear(deadline - time.monotonic())
            if isinstance(said, dict) and key in said:
                return said[key]

    def go(self) -> None:
        """Let it begin what it is ready for."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def count_from_now(self) -> None:
        """Let it count its CPU time from here on: what came before was warming up."""
        self._process.send_signal(signal.SIGUSR1)

    def stop(self) -> None:
        """Ask it to end; it is not asked twice."""
        if self._process.poll() is None:
            self._process.terminate()

    def kill(self) -> float:
        """End it at once, as a power cut would; return the time of that."""
        os.kill(self._process.pid, signal.SIGKILL)
        return time.time()

    def close(self) -> None:
        """Make sure that it is gone."""
        self.stop()
        try:
            self._process.wait(STOP_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        self._complaints.close()

    def _complain(self) -> str:
        self._complaints.seek(0)
        lines = self._complaints.read().splitlines()[-COMPLAINT_LINES_MAX:]
        return "".join(f"\n    {line}" for line in lines)


@contextlib.contextmanager
def started(module: str, action: str, options: Options) -> Iterator[Child]:
    """Start a process that is gone afterwards."""
    child = Child(module, action, options)
    try:
        yield child
    finally:
        child.close()


def ask(module: str, action: str, options: Options, *, timeout_s: float = 120.0) -> Any:
    """Run an action to its end and return what it says."""
    with started(module, action, options) as child:
        return child.hear(timeout_s)


def clean_environment() -> dict[str, str]:
    """Copy the environment without what would change what is measured."""
    peers = ("DBOS_", "PROCRASTINATE_", "LANGGRAPH_", "LANGCHAIN_")
    # With a key in reach, a run that names no model would ask real ones.
    keys = ("OPENAI_", "ANTHROPIC_", "GEMINI_", "GOOGLE_")
    dropped = ("DIALECTIC_", "PG", *peers, *keys)
    return {name: text for name, text in os.environ.items() if not name.startswith(dropped)}
