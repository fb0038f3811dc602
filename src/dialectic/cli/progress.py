"""The live view of a session in a terminal: a bar per stage, a line per document as it lands."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from dialectic.cli.follow import Display, JsonDisplay, LineDisplay, describe_event
from dialectic.cli.terminal import printable


@contextmanager
def open_display(*, as_json: bool) -> Iterator[Display]:
    """Choose the display: JSON if asked for, a live view in a terminal, plain lines elsewhere."""
    if as_json:
        yield JsonDisplay()
    elif sys.stderr.isatty():
        with LiveDisplay() as live:
            yield live
    else:
        yield LineDisplay()


class LiveDisplay:
    """Bars at the bottom, finished documents above them."""

    def __init__(self) -> None:
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed}/{task.total}"),
            TimeElapsedColumn(),
            console=Console(stderr=True),
        )
        self._bars: dict[str, TaskID] = {}

    def __enter__(self) -> LiveDisplay:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def show(self, event: dict[str, Any]) -> None:
        data = event["data"]
        match event["type"]:
            case "dialectic_progress_update":
                stage = data["stageSlug"]
                if stage not in self._bars:
                    self._bars[stage] = self._progress.add_task(stage, total=data["total_steps"])
                self._progress.update(self._bars[stage], completed=data["current_step"])
            case _:
                line = describe_event(event)
                if line is not None:
                    self._progress.console.print(printable(line), markup=False, highlight=False)
