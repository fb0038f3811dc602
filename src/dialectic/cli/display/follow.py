"""Follows a session to its end: events in, a display and an exit code out.

Also warns once if no worker claims the session's jobs. Workers are not registered anywhere, so
their absence is inferred from unclaimed jobs.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

import click

from dialectic.cli.backend import Backend, IsBusy
from dialectic.cli.display.session_end import (
    ALIVE,
    DUE,
    FUNDS_REASONS,
    decide_end_of_jobs,
    find_end_of,
)
from dialectic.cli.error_report import mark
from dialectic.cli.terminal import count, say
from dialectic.contract.events import (
    AnswerLimited,
    ContributionContinued,
    ContributionReceived,
    DocumentLacking,
    Event,
    EventError,
    JobFailed,
    JobPaused,
    JobRetrying,
    PlanTakenOver,
    ReceivedContribution,
    SavedChunk,
    SeatChanged,
    SessionCancelled,
    SessionPaused,
    SessionResumed,
    StageAdvanced,
    StageEnded,
)
from dialectic.contract.sessions import SessionDetail
from dialectic.core.documents.shortcomings import name_documents
from dialectic.core.seats import describe_seat
from dialectic.core.session_state import Phase
from dialectic.errors import ExitCode

# A live worker claims a job within a second; the job of a dead one is due again after ten.
IDLE_S = 10.0


def is_unclaimed(detail: SessionDetail) -> bool:
    """Return whether a session has runnable jobs, but none is claimed by a worker."""
    statuses = {job.status for job in detail.jobs}
    return bool(statuses & DUE) and not statuses & ALIVE


@dataclass(slots=True)
class StallDetector:
    """Measures how long a followed session has waited for a worker."""

    idle_s: float = IDLE_S
    since_s: float | None = None
    was_told: bool = False

    def notice(self, detail: SessionDetail, now_s: float) -> bool:
        """Update from the session; return True once, when the wait is too long."""
        if not is_unclaimed(detail):
            self.since_s = None
            return False
        if self.since_s is None:
            self.since_s = now_s
        if self.was_told or now_s < self.since_s + self.idle_s:
            return False
        self.was_told = True
        return True


def describe_stall(session: str, *, is_local: bool) -> str:
    """Describe a session that waits for a worker, and how to start one."""
    if is_local:
        how = f"Start one with `dialectic worker`, or run `dialectic resume {session}` here"
    else:
        how = "The server's operator can start one with `dialectic worker`"
    return (
        f"No job of this session has started for {IDLE_S:.0f} s: no worker is running, or all are "
        f"busy. {how}."
    )


# How often a session without events is checked.
LOOK_S = 0.5

# Why another turn of an answer is due.
REASONS = {
    "cut_off": "was cut off and continues",
    "repeated_turn": "repeated itself and is asked to continue",
    "sections_requested": "is asked for missing sections",
    "look_requested": "is shown what its document lost",
    "rewrite_requested": "repeated an input and is asked to write its own document",
}


class Display(Protocol):
    """Shows a session to a user or a program."""

    def show(self, event: Event) -> None:
        """Show an event."""

    def look(self, detail: SessionDetail) -> None:
        """Take note of the session's current state."""


class EventDisplay:
    """A display of events only."""

    def look(self, detail: SessionDetail) -> None:
        """Do nothing: the events say it all."""


@dataclass(slots=True)
class QuietDisplay(EventDisplay):
    """Shows nothing."""

    def show(self, event: Event) -> None:
        """Do nothing."""


@dataclass(slots=True)
class JsonDisplay(EventDisplay):
    """Prints one JSON object per event, as in the event stream."""

    def show(self, event: Event) -> None:
        # Only a server adds it, for pages.
        body = event.model_dump(mode="json", exclude_unset=True, exclude={"data": {"document"}})
        click.echo(json.dumps(body, ensure_ascii=False))


@dataclass(slots=True)
class LineDisplay(EventDisplay):
    """Prints one line per relevant event on stderr."""

    def show(self, event: Event) -> None:
        if (line := describe_event(event)) is not None:
            say(line)


def describe_event(event: Event) -> str | None:
    """Describe an event; None for events that only update views."""
    match event.data:
        case ContributionReceived(contribution=row):
            cut = " (incomplete)" if row.is_incomplete else ""
            # An edit by a person used no tokens.
            who = "a person" if row.tokens_used_output is None else row.model_name
            line = f"{row.stage}: {who} wrote {row.size_bytes:,} bytes{cut}: {name_file(row)}"
        case ContributionContinued(chunk=chunk) as data:
            line = (
                f"{data.stage_slug}: {chunk.model_name} {describe_reason(data.reason)}, "
                f"turn {data.continuation_number}: {name_file(chunk)}"
            )
        case DocumentLacking() | PlanTakenOver() | AnswerLimited() | SeatChanged() as data:
            warning = describe_warning(data)
            if warning is None:
                return None
            line = f"{data.stage_slug}: {warning}"
        case StageAdvanced() as data:
            line = f"{data.stage_slug}: {data.message}"
        case StageEnded() as data:
            # These counts are models, not documents.
            of_models = f"{data.failed} of {count(data.failed + data.completed, 'model')}"
            line = f"{data.stage_slug}: {data.status}"
            line += f", {of_models} failed" if data.failed else ""
        case JobRetrying() | JobFailed() | JobPaused() as data:
            word = data.type.rsplit("_", 1)[-1]
            line = f"{data.stage_slug}: {word}: {mark(_shorten(data.error), data.error.code)}"
            if isinstance(data, JobRetrying) and data.retry_in_s is not None:
                line += f", next try in {data.retry_in_s:.0f} s"
        case SessionPaused() | SessionResumed() | SessionCancelled() as data:
            line = data.type.replace("_", " ")
        case _:
            return None
    return f"  {line}"


def describe_warning(
    data: DocumentLacking | PlanTakenOver | AnswerLimited | SeatChanged,
) -> str | None:
    """Describe what is not as planned; None if the line of the contribution says it."""
    match data:
        case SeatChanged():
            return describe_change(data)
        case DocumentLacking():
            lacks = [f"lacks {name_documents(data.missing)}"] if data.missing else []
            lacks += ["repeats an input"] if data.is_copy else []
            return f"warning: {data.model_name} {' and '.join(lacks)}" if lacks else None
        case PlanTakenOver():
            return f"warning: the lead wrote no checklist; Pending/ has that of {data.model_name}"
        case AnswerLimited():
            return (
                f"the available money limited an answer of {data.model_name} to "
                f"{data.max_output_tokens:,} of {data.limited_from_tokens:,} tokens"
            )


def describe_reason(reason: str) -> str:
    """Describe why another turn is due; a newer server may have other reasons."""
    return REASONS.get(reason, "is asked for more")


def describe_change(data: SeatChanged) -> str:
    """Describe a seat that left, or that has another model."""
    who = describe_seat(data.seat, data.model_name)
    rest = f"the session goes on with {count(data.remaining, 'seat')}"
    if data.error is not None:
        return f"warning: {who} failed; {rest}: {mark(data.error.message, data.error.code)}"
    return f"{who} is new" if data.change == "replaced" else f"{who} was {data.change}; {rest}"


def name_file(row: ReceivedContribution | SavedChunk) -> str:
    """Return the name of a document's file, without its folder."""
    return row.storage_path.rsplit("/", 1)[-1]


def _shorten(error: EventError) -> str:
    """Shorten an error about money to its amounts; the remedy is printed once at the end."""
    if error.code not in FUNDS_REASONS:
        return error.message
    return f"{error.message.partition('. ')[0].rstrip('.')}."


@dataclass(frozen=True, slots=True)
class Seen:
    """What was already shown of a session: events up to a number, and contributions."""

    seq: int = 0
    contributions: frozenset[UUID] = frozenset()


async def follow_session(
    backend: Backend,
    session_id: UUID,
    display: Display,
    seen: Seen | None = None,
    *,
    awaits_workers: bool,
    is_busy: IsBusy = lambda: False,
    idle_s: float = IDLE_S,
) -> ExitCode:
    """Show a session's events until it ends or needs a user.

    If other workers must do the work, warn when none seems to run. While `is_busy`, a paused
    session still finishes turns.
    """
    following, idleness = (
        _Following(backend, session_id, (seen or Seen()).seq),
        StallDetector(idle_s),
    )

    async def find_end() -> ExitCode | None:
        detail = await backend.look(session_id)
        if awaits_workers and idleness.notice(detail, asyncio.get_running_loop().time()):
            say(describe_stall(str(session_id)[:8], is_local=backend.is_local))
        display.look(detail)
        is_paused = detail.session.state.phase is Phase.PAUSED
        return None if is_paused and is_busy() else find_end_of(detail)

    return await following.show(display.show, find_end)


async def follow_jobs(
    backend: Backend,
    session_id: UUID,
    job_ids: Collection[UUID],
    display: Display,
    *,
    is_busy: IsBusy = lambda: False,
) -> ExitCode:
    """Show the events of some jobs until all of them have ended, or none can go on."""
    wanted = {str(job_id) for job_id in job_ids}

    async def find_end_of_jobs() -> ExitCode | None:
        detail = await backend.look(session_id)
        ended = decide_end_of_jobs(detail.jobs, job_ids)
        if detail.session.state.phase is Phase.PAUSED and not is_busy():
            return ended if ended is ExitCode.DONE else ExitCode.WAITING
        display.look(detail)
        return ended

    def show(event: Event) -> None:
        if str(getattr(event.data, "job_id", None)) in wanted:
            display.show(event)

    return await _Following(backend, session_id, 0).show(show, find_end_of_jobs)


@dataclass(slots=True)
class _Following:
    """Shows the events of a session after a number as they arrive."""

    backend: Backend
    session_id: UUID
    seq: int
    looked_at_s: float = 0.0

    async def show(
        self,
        show: Callable[[Event], None],
        find_end: Callable[[], Awaitable[ExitCode | None]],
    ) -> ExitCode:
        async with contextlib.aclosing(self.backend.follow(self.session_id, self.seq)) as pages:
            async for news in pages:
                self.seq = news.seq
                for event in news.events:
                    show(event)
                if not self._is_time_to_look(news.events):
                    continue
                ended = await find_end()
                # Show the last events before reporting the end.
                if ended is not None and not await self._has_news():
                    return ended
        msg = "the event stream of a backend ended"
        raise AssertionError(msg)

    async def _has_news(self) -> bool:
        return (await self.backend.look(self.session_id, after=self.seq)).has_news

    def _is_time_to_look(self, events: Sequence[Event]) -> bool:
        now_s = asyncio.get_running_loop().time()
        is_time = (
            not events
            or now_s >= self.looked_at_s + LOOK_S
            or any(isinstance(event.data, StageEnded) for event in events)
        )
        if is_time:
            self.looked_at_s = now_s
        return is_time


async def see_all(backend: Backend, session_id: UUID) -> Seen:
    """Mark everything so far as shown."""
    detail = await backend.look(session_id)
    return Seen(detail.last_event, frozenset(one.id for one in detail.contributions))
