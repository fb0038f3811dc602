"""The live view of a session on a terminal: a bar per stage, the calls in flight, time and money.

Its lines never exceed the terminal, from 40 columns on. Finished documents scroll by above it.
"""

from __future__ import annotations

import contextlib
import itertools
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from uuid import UUID

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from dialectic.cli.display.follow import describe_event, name_file
from dialectic.cli.display.quote import format_time
from dialectic.cli.display.time_left import StageShare, estimate_left_s
from dialectic.cli.terminal import WIDTH_MIN, count, printable, speaking_through, wrap
from dialectic.contract.contributions import JobRecord
from dialectic.contract.events import (
    ContributionReceived,
    Event,
    ReceivedContribution,
    StageAdvanced,
    StageStarted,
)
from dialectic.contract.sessions import SessionDetail, StageRecord
from dialectic.core.job import JobStatus
from dialectic.core.money.quote import Duration
from dialectic.live_calls import LiveCall

SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
SPINS_PER_S = 8
CALLS_SHOWN_MAX = 8
BAR_MAX = 30
NAME_MAX = 60
COST_LINES_MAX = 2
# From this width on, a call shows its stage too.
WIDE = 64
# A terminal echoes `^C` after the last line, which must not wrap.
ECHO_ROOM = 4
# A job that starts no call ends within this time.
PLANNING_S = 2.0


def format_clock(seconds: float) -> str:
    """Format a duration as a clock: `0:07`, `12:30`, `1:02:03`."""
    whole = max(0, int(seconds))
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


@dataclass(slots=True)
class StageLine:
    """One stage as it is shown. Its clock runs from its start, or from when we came, to its end."""

    slug: str
    finished: int = 0
    planned: int = 0
    since_s: float | None = None
    ended_s: float | None = None

    def read_clock_s(self, now_s: float) -> float | None:
        """Read the stage's clock; None before its start."""
        if self.since_s is None:
            return None
        end_s = now_s if self.ended_s is None else self.ended_s
        return end_s - self.since_s


@dataclass(slots=True)
class RunningCall:
    """A call in flight as it is shown; without tokens if another process makes it."""

    model_name: str
    seat: int | None
    stage_slug: str
    elapsed_s: float
    output_tokens: int | None


@dataclass(slots=True)
class SessionView:
    """What is known of a followed session, for its live view."""

    list_calls: Callable[[], list[LiveCall]] = list
    describe_cost: Callable[[], str] = str
    durations: dict[str, Duration] = field(default_factory=dict)
    opened_s: float = field(default_factory=time.monotonic)
    stages: dict[tuple[int, str], StageLine] = field(default_factory=dict)
    detail: SessionDetail | None = None
    _before: dict[str, StageShare] | None = None
    _seen: dict[UUID, float] = field(default_factory=dict)
    _left: tuple[float, float] | None = None

    def count_stage(self, stage: StageStarted | StageAdvanced) -> None:
        """Take note of a stage's progress."""
        line = self._get_line(stage.iteration_number, stage.stage_slug)
        line.planned = stage.total_steps
        if isinstance(stage, StageAdvanced):
            line.finished = stage.current_step
        if isinstance(stage, StageStarted) or stage.current_step > 0:
            self._start(line)

    def take(self, detail: SessionDetail) -> None:
        """Take note of the whole session."""
        self.detail = detail
        for record in detail.stages:
            line = self._get_line(record.iteration_number, record.stage_slug)
            line.finished, line.planned = record.finished_units, record.planned_units
            self._read_clock(line, record)
        running = {job.id for job in detail.jobs if job.status is JobStatus.PROCESSING}
        now_s = time.monotonic()
        self._seen = {job_id: self._seen.get(job_id, now_s) for job_id in running}
        if self._before is None:
            self._before = self._list_shares()
        self._estimate(now_s)

    def _get_line(self, iteration: int, slug: str) -> StageLine:
        return self.stages.setdefault((iteration, slug), StageLine(slug))

    def _start(self, line: StageLine) -> None:
        if line.since_s is None:
            line.since_s = time.monotonic()

    def _read_clock(self, line: StageLine, record: StageRecord) -> None:
        """Start or stop a stage's clock as the database says."""
        if record.started_at is None:
            return
        if record.completed_at is None:
            self._start(line)
        elif line.ended_s is None:
            # The database knows it exactly; this view has seen it a little later.
            exact_s = (record.completed_at - record.started_at).total_seconds()
            line.since_s, line.ended_s = 0.0, max(0.0, exact_s)

    def _list_shares(self) -> dict[str, StageShare]:
        iteration = max((number for number, _ in self.stages), default=1)
        return {
            slug: StageShare(line.finished, line.planned)
            for (number, slug), line in self.stages.items()
            if number == iteration
        }

    def _estimate(self, now_s: float) -> None:
        """Estimate the time left after each finished document, and let it run down between."""
        if not self.durations:
            return
        shares = self._list_shares()
        left_s = estimate_left_s(self.durations, shares, self._before or {}, now_s - self.opened_s)
        finished = float(sum(share.finished for share in shares.values()))
        if all(share.done == 1.0 for share in shares.values()):
            self._left = None
        elif self._left is None or self._left[0] != finished:
            self._left = (finished, now_s + left_s)

    # -- what is shown

    def list_running(self) -> list[RunningCall]:
        """List the calls in flight: those of this process with their tokens, then all others."""
        own = self.list_calls()
        known, now_s = {call.job_id for call in own}, time.monotonic()
        mine = [
            RunningCall(c.model_name, c.seat, c.stage_slug, c.elapsed_s, c.output_tokens)
            for c in own
        ]
        jobs = self.detail.jobs if self.detail is not None else []
        others = [
            RunningCall(job.model_name or "", job.model_index, job.stage_slug, elapsed_s, None)
            for job in jobs
            if self._is_call(job)
            and job.id not in known
            and (elapsed_s := now_s - self._seen.get(job.id, now_s)) > PLANNING_S
        ]
        return mine + others

    def _is_call(self, job: JobRecord) -> bool:
        return job.status is JobStatus.PROCESSING and job.job_type != "combine"

    def is_repeated(self, model: str) -> bool:
        """Return whether a model has several seats."""
        return self.detail is not None and self.detail.session.model_names.count(model) > 1

    def describe_time(self, running: int, *, is_wide: bool) -> str:
        """Describe the calls, the clock and the time left in one line."""
        now_s = time.monotonic()
        calls = f"{count(running, 'call')}{' in flight' if is_wide else ''}"
        line = f"{calls} · {format_clock(now_s - self.opened_s)}"
        if self._left is None:
            return line
        left_s = self._left[1] - now_s
        if left_s > 0:
            return f"{line} · {'about ' if is_wide else '~'}{format_time(left_s)} left"
        return f"{line} · {'longer than expected' if is_wide else 'late'}"


class LiveDisplay:
    """Draws a session at the bottom of the terminal, and prints finished documents above it."""

    def __init__(self, view: SessionView, console: Console | None = None) -> None:
        self.view = view
        self._is_over = False
        self._console = console or Console(stderr=True)
        self._speaking = contextlib.ExitStack()
        self._live = Live(
            get_renderable=self._draw,
            console=self._console,
            refresh_per_second=SPINS_PER_S,
            transient=False,
            vertical_overflow="crop",
        )

    def __enter__(self) -> LiveDisplay:
        self._live.start()
        self._speaking.enter_context(speaking_through(self._say))
        return self

    def __exit__(self, *_: object) -> None:
        # The end is told in other lines; only the bars stay.
        self._is_over = True
        self._speaking.close()
        self._live.stop()

    def show(self, event: Event) -> None:
        match event.data:
            case StageStarted() | StageAdvanced() as stage:
                self.view.count_stage(stage)
            case ContributionReceived(contribution=row) if row.is_intermediate:
                pass  # the bar shows it; lines for drafts would hide the documents
            case ContributionReceived(contribution=row):
                self._say(_describe_document(row))
            case _:
                if (line := describe_event(event)) is not None:
                    self._say(line)

    def look(self, detail: SessionDetail) -> None:
        self.view.take(detail)

    def _say(self, line: str) -> None:
        shown = wrap(self._spell(printable(line)), self._console.width)
        self._console.print(shown, markup=False, highlight=False, soft_wrap=True)

    # -- drawing

    def _draw(self) -> Group:
        width, height = self._console.width, self._console.height
        now_s = time.monotonic()
        bars = [self._draw_stage(line, width, now_s) for line in self.view.stages.values()]
        if self._is_over:
            return Group(*bars)
        running = self.view.list_running()
        room = max(1, min(CALLS_SHOWN_MAX, height - 6))
        calls = list(itertools.islice(self._draw_calls(running, width), room + 1))
        bars = bars[-max(1, height - len(calls) - 2 - COST_LINES_MAX) :]
        room = max(WIDTH_MIN, width) - ECHO_ROOM
        cost = textwrap.wrap(printable(self.view.describe_cost()), room)[:COST_LINES_MAX]
        below = [self.view.describe_time(len(running), is_wide=width >= WIDE), *cost]
        last = [self._cut(line, width, "dim") for line in below]
        return Group(*bars, *calls, *last)

    def _draw_stage(self, line: StageLine, width: int, now_s: float) -> Text:
        clock_s = line.read_clock_s(now_s)
        clock = "" if clock_s is None else format_clock(clock_s)
        tail = f"{line.finished:>4}/{line.planned:<4}{clock:>8}"
        name = f"{self._spell(printable(line.slug))[:12]:<13}"
        room = max(4, min(BAR_MAX, width - len(name) - len(tail) - 1))
        filled = room * line.finished // line.planned if line.planned else 0
        full, empty = ("━", "─") if self._has_signs else ("#", "-")
        text = Text(name, no_wrap=True, overflow="crop")
        text.append(full * filled, "green" if filled == room else "cyan")
        text.append(empty * (room - filled), "dim").append(tail)
        text.truncate(width)
        return text

    def _draw_calls(self, running: list[RunningCall], width: int) -> Iterator[Text]:
        room = max(1, min(CALLS_SHOWN_MAX, self._console.height - 6))
        spin = int(time.monotonic() * SPINS_PER_S)
        sign = SPINNER[spin % len(SPINNER)] if self._has_signs else "|/-\\"[spin % 4]
        for call in running[:room]:
            described = self._describe_call(call, width - len(sign) - 1 - ECHO_ROOM)
            yield self._cut(f"{sign} {described}", width, "cyan")
        if len(running) > room:
            yield self._cut(f"  and {count(len(running) - room, 'more call')}", width, "cyan")

    def _describe_call(self, call: RunningCall, width: int) -> str:
        is_wide = width >= WIDE
        seat = f" (seat {call.seat})" if self.view.is_repeated(call.model_name) else ""
        if call.output_tokens is None:
            words = "running"
        elif not call.output_tokens:
            words = "no text yet" if is_wide else "no text"
        else:
            words = f"~{call.output_tokens:,}" + (" tokens" if is_wide else "")
        tail = f"{format_clock(call.elapsed_s):>7}  {words:<{14 if is_wide else 8}}"
        if is_wide:
            tail = f"  {call.stage_slug[:12]:<12}{tail}"
        room = max(8, min(NAME_MAX, width - len(tail)))
        name = printable(f"{call.model_name}{seat}")
        if len(name) > room:
            kept = room - len(seat) - 1
            name = f"{name[:kept]}…{seat}" if kept > 3 else f"{name[: room - 1]}…"
        return f"{name:<{room}}{tail}".rstrip()

    def _cut(self, line: str, width: int, style: str) -> Text:
        room = max(WIDTH_MIN, width) - ECHO_ROOM
        text = Text(self._spell(line), style=style, no_wrap=True, overflow="crop")
        if text.cell_len > room:
            text.truncate(room - 1)
            text.append(self._spell("…")[:1])
        return text

    def _spell(self, line: str) -> str:
        """Spell a line with the letters that the terminal has."""
        if self._has_signs:
            return line
        encoding = self._console.encoding
        return line.replace("·", "-").replace("…", ".").encode(encoding, "replace").decode(encoding)

    @property
    def _has_signs(self) -> bool:
        return self._console.encoding.lower().startswith("utf")


def _describe_document(row: ReceivedContribution) -> str:
    """Describe a finished document; its name contains the model and the stage."""
    cut = " (incomplete)" if row.is_incomplete else ""
    return f"  {name_file(row)}  {row.size_bytes:,} bytes{cut}"
