"""Which modules of the product a run enters, in the order of their first function call.

Started as a program it traces a command: `python -m tests.scenario.module_trace FILE run …` writes
the names of the modules to FILE.
"""

from __future__ import annotations

import atexit
import sys
import threading
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

PRODUCT = "dialectic."
# Written by `dataclasses`, and run wherever a value is made.
GENERATED = "<string>"
IMPORTING = "<frozen importlib"


class ModuleTrace:
    """Notes each module when one of its functions is called for the first time."""

    def __init__(self) -> None:
        self.modules: dict[str, str] = {}
        self._known: set[CodeType] = set()

    def start(self) -> None:
        """Trace this thread, and the threads that it starts from now on."""
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def stop(self) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def _note(self, frame: FrameType, event: str, _argument: Any) -> None:
        code = frame.f_code
        if event != "call" or code in self._known:
            return
        name = str(frame.f_globals.get("__name__", ""))
        if not name.startswith(PRODUCT) or name in self.modules or code.co_filename == GENERATED:
            self._known.add(code)
        elif not is_importing(frame):
            self._known.add(code)
            self.modules[name] = code.co_name


def is_importing(frame: FrameType | None) -> bool:
    """Say whether a module is being loaded: its own statements, and what they call."""
    while frame is not None:
        if frame.f_code.co_filename.startswith(IMPORTING):
            return True
        frame = frame.f_back
    return False


def main() -> None:
    path, *words = sys.argv[1:]
    sys.argv = ["dialectic", *words]
    trace = ModuleTrace()

    def write() -> None:
        trace.stop()
        Path(path).write_text("\n".join(trace.modules), encoding="utf-8")

    atexit.register(write)
    trace.start()
    from dialectic.cli.main import main as run_command

    run_command()


if __name__ == "__main__":
    main()
