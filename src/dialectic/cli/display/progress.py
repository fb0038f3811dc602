"""The live view of a session: a bar per stage, the cost so far, a line per finished document."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from dialectic.cli.backend import Backend
from dialectic.cli.display.follow import (
    Display,
    JsonDisplay,
    LineDisplay,
    describe_event,
    name_file,
)
from dialectic.cli.display.quote import describe_forecast
from dialectic.cli.terminal import count, printable, say
from dialectic.contract.events import (
    ContributionReceived,
    Event,
    ReceivedContribution,
    SessionCancelled,
    StageAdvanced,
    StageEnded,
    StageStarted,
)
from dialectic.core.money.price import OFFLINE_PROVIDER, format_roughly
from dialectic.core.money.quote import Amount, LineKey, Quote, add_up, build_forecast


@dataclass(slots=True)
class ProgressCounts:
    """Counts the documents, tokens and cost of a followed session; a quote adds a forecast.

    If any model costs real money, only that is shown; otherwise the cost is play money.
    """

    quote: Quote | None = None
    documents: dict[str, int] = field(default_factory=dict)
    done: dict[LineKey, Amount] = field(default_factory=dict)
    # The part that was paid in play money.
    played: set[LineKey] = field(default_factory=set)

    def add(self, backend: Backend, row: ReceivedContribution) -> None:
        """Count one contribution; an edit by a person has no tokens."""
        name = row.model_name
        self.documents[name] = self.documents.get(name, 0) + 1
        read, written = row.tokens_used_input or 0, row.tokens_used_output or 0
        rates = backend.find_rates(name)
        price = 0 if rates is None else rates.cost(read, written)
        key = (row.stage, row.contribution_type, row.model_index or 0)
        self.done[key] = self.done.get(key, Amount()) + Amount(1, read, written, price)
        if rates is not None and name.startswith(f"{OFFLINE_PROVIDER}/"):
            self.played.add(key)

    def describe(self) -> str:
        """Describe the counts in one line."""
        documents = count(sum(self.documents.values()), "document")
        done = add_up(self.done.values())
        return (
            f"{documents}, {done.input_tokens:,} tokens read, "
            f"{done.output_tokens:,} written, {self._describe_cost()}"
        )

    def _describe_cost(self) -> str:
        is_all_play = self.done.keys() <= self.played
        if self.quote is not None:
            is_all_play = self.quote.is_play_money
        paid = {key: a for key, a in self.done.items() if (key in self.played) is is_all_play}
        if self.quote is not None:
            forecast = build_forecast(self.quote.only(is_play=is_all_play), paid)
            if forecast.rest.calls:
                return describe_forecast(forecast, is_play=is_all_play)
        return format_roughly(add_up(paid.values()).credits, is_play=is_all_play)


class Counting:
    """A display that also counts contributions."""

    def __init__(self, backend: Backend, display: Display, quote: Quote | None) -> None:
        self.counters = ProgressCounts(quote)
        self._desk, self._display = backend, display

    def show(self, event: Event) -> None:
        match event.data:
            case ContributionReceived(contribution=row):
                self.counters.add(self._desk, row)
            case StageEnded(status="complete"):
                pass
            case StageEnded() | SessionCancelled():
                self.counters.quote = None  # the session has ended, so no forecast
            case _:
                pass
        self._display.show(event)


@contextmanager
def open_display(
    backend: Backend, *, as_json: bool, quote: Quote | None = None
) -> Iterator[Display]:
    """Choose the display: JSON if requested, a live view on a terminal, else plain lines."""
    if as_json:
        yield JsonDisplay()
        return
    started = time.monotonic()
    if sys.stderr.isatty():
        live = LiveDisplay()
        counting = Counting(backend, live, quote)
        live.counters = counting.counters
        with live:
            yield counting
    else:
        counting = Counting(backend, LineDisplay(), quote)
        yield counting
    if counting.counters.documents:
        say(f"{counting.counters.describe()}, {time.monotonic() - started:.1f} s.")


class LiveDisplay:
    """Shows bars at the bottom and finished documents above them."""

    def __init__(self) -> None:
        self.counters = ProgressCounts()
        self._is_over = False
        self._console = Console(stderr=True)
        self._bars = Progress(
            TextColumn("{task.description:<12}", markup=False),
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
        # The total is printed once, with the duration.
        self._is_over = True
        self._live.stop()

    def _draw(self) -> Group:
        models = "   ".join(f"{name} {count}" for name, count in self.counters.documents.items())
        below = [] if self._is_over else [Text(printable(self.counters.describe()), "dim")]
        return Group(self._bars, Text(printable(models), style="cyan"), *below)

    def show(self, event: Event) -> None:
        match event.data:
            case StageStarted() as stage:
                self._bars.start_task(self._get_bar(stage))
            case StageAdvanced() as stage:
                self._bars.update(self._get_bar(stage), completed=stage.current_step)
                if stage.current_step > 0:  # its beginning may have been missed
                    self._bars.start_task(self._get_bar(stage))
            case ContributionReceived(contribution=row) if row.is_intermediate:
                pass  # the bar shows it; lines for drafts would hide the documents
            case ContributionReceived(contribution=row):
                self._say(_describe_document(row))
            case _:
                if (line := describe_event(event)) is not None:
                    self._say(line)

    def _say(self, line: str) -> None:
        self._console.print(printable(line), markup=False, highlight=False)

    def _get_bar(self, stage: StageStarted | StageAdvanced) -> TaskID:
        """Find the bar of a stage, or add it; the clock of a planned stage is stopped."""
        key = (stage.iteration_number, stage.stage_slug)
        if key not in self._tasks:
            self._tasks[key] = self._bars.add_task(
                printable(stage.stage_slug), total=stage.total_steps, start=False
            )
        return self._tasks[key]


def _describe_document(row: ReceivedContribution) -> str:
    """Describe a finished document; its name contains the model and the stage."""
    cut = " (incomplete)" if row.is_incomplete else ""
    return f"  {name_file(row)}  {row.size_bytes:,} bytes{cut}"
