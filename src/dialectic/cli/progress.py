"""The live view of a session in a terminal: a bar per stage, what each model has done, what it cost
so far, and a line per document as it lands."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from dialectic.cli.follow import Display, JsonDisplay, LineDisplay, describe_event
from dialectic.cli.terminal import Desk, printable, say

CREDITS_PER_USD = 1_000_000


@dataclass(slots=True)
class Tally:
    """What a session has written while we looked, in figures."""

    documents: dict[str, int] = field(default_factory=dict)
    input_tokens: int = 0
    output_tokens: int = 0
    credits: Decimal = Decimal(0)

    def add(self, desk: Desk, row: dict[str, Any]) -> None:
        """Count one contribution; an edit by a person has no tokens."""
        name = row["model_name"]
        self.documents[name] = self.documents.get(name, 0) + 1
        read, written = row["tokens_used_input"] or 0, row["tokens_used_output"] or 0
        self.input_tokens += read
        self.output_tokens += written
        if (card := desk.engine.catalog.cards.get(name)) is not None:
            self.credits += card.input_credits_per_token * read
            self.credits += card.output_credits_per_token * written

    def describe(self) -> str:
        """Say it in one line."""
        count = sum(self.documents.values())
        cost = self.credits / CREDITS_PER_USD
        return (
            f"{count} document{'' if count == 1 else 's'}, {self.input_tokens:,} tokens read, "
            f"{self.output_tokens:,} written, ${cost:.4f}"
        )


class Counting:
    """A display that also counts what passes."""

    def __init__(self, desk: Desk, display: Display) -> None:
        self.tally = Tally()
        self._desk, self._display = desk, display

    def show(self, event: dict[str, Any]) -> None:
        if event["type"] == "dialectic_contribution_received":
            self.tally.add(self._desk, event["data"]["contribution"])
        self._display.show(event)


@contextmanager
def open_display(desk: Desk, *, as_json: bool) -> Iterator[Display]:
    """Choose the display: JSON if asked for, a live view in a terminal, plain lines elsewhere."""
    if as_json:
        yield JsonDisplay()
        return
    started = time.monotonic()
    if sys.stderr.isatty():
        live = LiveDisplay()
        counting = Counting(desk, live)
        live.tally = counting.tally
        with live:
            yield counting
    else:
        counting = Counting(desk, LineDisplay())
        yield counting
    if counting.tally.documents:
        say(f"{counting.tally.describe()}, {time.monotonic() - started:.1f} s.")


class LiveDisplay:
    """Bars at the bottom, finished documents above them."""

    def __init__(self) -> None:
        self.tally = Tally()
        self._console = Console(stderr=True)
        self._bars = Progress(
            TextColumn("{task.description:<12}"),
            BarColumn(bar_width=30),
            TextColumn("{task.completed:>4}/{task.total:<4}"),
            TimeElapsedColumn(),
            console=self._console,
        )
        self._tasks: dict[tuple[int, str], TaskID] = {}
        self._live = Live(
            get_renderable=self._draw, console=self._console, refresh_per_second=8, transient=False
        )

    def __enter__(self) -> LiveDisplay:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def _draw(self) -> Group:
        models = "   ".join(f"{name} {count}" for name, count in self.tally.documents.items())
        return Group(self._bars, Text(models, style="cyan"), Text(self.tally.describe(), "dim"))

    def show(self, event: dict[str, Any]) -> None:
        data = event["data"]
        match event["type"]:
            case "dialectic_progress_update":
                self._move_bar(data)
            case "dialectic_contribution_received" if data["contribution"]["is_intermediate"]:
                pass  # the bar shows it; a line for each draft would drown the documents
            case _:
                line = describe_event(event)
                if line is not None:
                    self._console.print(printable(line), markup=False, highlight=False)

    def _move_bar(self, data: dict[str, Any]) -> None:
        """Show a stage's progress; the clock of one that waits stands still."""
        key = (data["iterationNumber"], data["stageSlug"])
        if key not in self._tasks:
            self._tasks[key] = self._bars.add_task(
                data["stageSlug"], total=data["total_steps"], start=False
            )
        if data["current_step"] > 0:
            self._bars.start_task(self._tasks[key])
        self._bars.update(self._tasks[key], completed=data["current_step"])
