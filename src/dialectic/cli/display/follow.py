"""Notices that nobody takes up what a session could begin, and says it once.

Nobody keeps a list of workers: they are known by what they do. Knows sessions as they look, and
nothing of how they are followed.

Follow a session to its end: events in, a display and an exit code out.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID

import click

from dialectic.app.sessions import Overview
from dialectic.cli.backend import Backend
from dialectic.cli.error_report import mark
from dialectic.cli.terminal import count, say
from dialectic.core.job import ENDED, WAITING, JobStatus
from dialectic.errors import ExitCode

# A worker that lives takes a job within a second; one that died is taken for that after ten.
IDLE_S = 10.0
DUE = frozenset({JobStatus.PENDING, JobStatus.PENDING_NEXT_STEP, JobStatus.PENDING_CONTINUATION})
# Someone works, or comes back when an endpoint has room.
ALIVE = frozenset({JobStatus.PROCESSING, JobStatus.RETRYING})


def is_unclaimed(overview: Overview) -> bool:
    """Say whether something of a session could begin while nobody works on any of it."""
    statuses = {JobStatus(job["status"]) for job in overview.jobs}
    return bool(statuses & DUE) and not statuses & ALIVE


@dataclass(slots=True)
class StallDetector:
    """For how long a session that is followed has waited for a worker."""

    idle_s: float = IDLE_S
    since_s: float | None = None
    was_told: bool = False

    def notice(self, overview: Overview, now_s: float) -> bool:
        """Take note of how a session looks; true once, when it has waited for too long."""
        if not is_unclaimed(overview):
            self.since_s = None
            return False
        if self.since_s is None:
            self.since_s = now_s
        if self.was_told or now_s < self.since_s + self.idle_s:
            return False
        self.was_told = True
        return True


def describe_stall(session: str, *, is_local: bool) -> str:
    """Say that a session waits for a worker, and who can start one."""
    if is_local:
        how = f"`dialectic worker` starts one, `dialectic resume {session}` works in this terminal"
    else:
        how = "Whoever runs the server starts one with `dialectic worker`"
    return (
        f"Nothing of this session was begun for {IDLE_S:.0f} s: no worker runs, or all have other "
        f"work. {how}."
    )


# How often a session that says nothing is looked at.
LOOK_S = 0.5

FUNDS_REASONS = frozenset({"insufficient_funds", "spend_needs_approval"})
# What a person has paused by its id.
JOB_PAUSED = "job paused"


class Display(Protocol):
    """Shows events to a person or a program."""

    def show(self, event: dict[str, Any]) -> None: ...


@dataclass(slots=True)
class JsonDisplay:
    """One JSON object per event, as the event stream has them."""

    def show(self, event: dict[str, Any]) -> None:
        click.echo(json.dumps(event, ensure_ascii=False))


@dataclass(slots=True)
class LineDisplay:
    """One line per event that a person cares about, on stderr."""

    def show(self, event: dict[str, Any]) -> None:
        if (line := describe_event(event)) is not None:
            say(line)


def describe_event(event: dict[str, Any]) -> str | None:
    """Put an event into words; None for those that only drive views."""
    data, line = event["data"], None
    match event["type"]:
        case "dialectic_contribution_received":
            row = data["contribution"]
            cut = " (incomplete)" if row["is_incomplete"] else ""
            # What a person wrote in a model's place took no tokens.
            who = "a person" if row["tokens_used_output"] is None else row["model_name"]
            line = (
                f"{row['stage']}: {who} wrote {row['size_bytes']:,} bytes{cut}: "
                f"{row['storage_path'].rsplit('/', 1)[-1]}"
            )
        case "contribution_generation_continued":
            row = data["chunk"]
            line = (
                f"{data['stageSlug']}: {row['model_name']} was cut off and goes on, turn "
                f"{data['continuationNumber']}: {row['storage_path'].rsplit('/', 1)[-1]}"
            )
        case "dialectic_progress_update":
            line = f"{data['stageSlug']}: {data['message']}"
        case "contribution_generation_complete":
            # Counted are models here, each with all that it had to write.
            of_models = f"{data['failed']} of {count(data['failed'] + data['completed'], 'model')}"
            line = f"{data['stageSlug']}: {data['status']}"
            line += f", {of_models} failed" if data["failed"] else ""
        case (
            "contribution_generation_retrying"
            | "contribution_generation_failed"
            | "contribution_generation_paused"
        ):
            word = event["type"].rsplit("_", 1)[-1]
            error = data["error"]
            line = f"{data['stageSlug']}: {word}: {mark(_shorten(error), error['code'])}"
        case "session_paused" | "session_cancelled":
            line = event["type"].replace("_", " ")
        case _:
            return None
    return f"  {line}"


def _shorten(error: dict[str, Any]) -> str:
    """Keep the figures of a call that waits for money; what helps them all is said at the end."""
    message: str = error["message"]
    if error["code"] not in FUNDS_REASONS:
        return message
    return f"{message.partition('. ')[0].rstrip('.')}."


@dataclass(frozen=True, slots=True)
class Seen:
    """What of a session is no news: events up to a number, and contributions."""

    seq: int = 0
    contributions: frozenset[UUID] = frozenset()


async def follow_session(
    backend: Backend,
    session_id: UUID,
    display: Display,
    seen: Seen | None = None,
    *,
    awaits_workers: bool,
    idle_s: float = IDLE_S,
) -> ExitCode:
    """Show what happens in a session until it ends or cannot go on by itself.

    Where workers elsewhere must do the work it is said if none seems to be there.
    """
    following, idleness = (
        _Following(backend, session_id, (seen or Seen()).seq),
        StallDetector(idle_s),
    )

    async def find_end() -> ExitCode | None:
        overview = await backend.look(session_id)
        if awaits_workers and idleness.notice(overview, asyncio.get_running_loop().time()):
            say(describe_stall(str(session_id)[:8], is_local=backend.is_local))
        return find_end_of(overview)

    return await following.show(display.show, find_end)


async def follow_job(
    backend: Backend, session_id: UUID, job_id: UUID, display: Display
) -> ExitCode:
    """Show what happens to one job of a session until it has ended."""

    async def find_end_of_job() -> ExitCode | None:
        overview = await backend.look(session_id)
        (job,) = (job for job in overview.jobs if job["id"] == job_id)
        if JobStatus(job["status"]) in ENDED:
            done = job["status"] == JobStatus.COMPLETED
            return ExitCode.DONE if done else ExitCode.FAILED
        if job["status"] == JobStatus.PAUSED:
            return ExitCode.FUNDS if job["status_reason"] in FUNDS_REASONS else ExitCode.FAILED
        return None

    def show(event: dict[str, Any]) -> None:
        if event["data"].get("job_id") == str(job_id):
            display.show(event)

    return await _Following(backend, session_id, 0).show(show, find_end_of_job)


@dataclass(slots=True)
class _Following:
    """The events of a session after a number, shown as they happen."""

    backend: Backend
    session_id: UUID
    seq: int
    looked_at_s: float = 0.0

    async def show(
        self,
        show: Callable[[dict[str, Any]], None],
        find_end: Callable[[], Awaitable[ExitCode | None]],
    ) -> ExitCode:
        async with contextlib.aclosing(self.backend.follow(self.session_id, self.seq)) as told:
            async for news in told:
                self.seq = news.seq
                for event in news.events:
                    show(event)
                if not self._is_time_to_look(news.events):
                    continue
                ended = await find_end()
                # What belongs to the end is shown before we say that it is the end.
                if ended is not None and not await self.backend.has_events(
                    self.session_id, self.seq
                ):
                    return ended
        msg = "a backend tells what happens without an end"
        raise AssertionError(msg)

    def _is_time_to_look(self, events: Sequence[dict[str, Any]]) -> bool:
        now_s = asyncio.get_running_loop().time()
        is_time = (
            not events
            or now_s >= self.looked_at_s + LOOK_S
            or any(event["type"] == "contribution_generation_complete" for event in events)
        )
        if is_time:
            self.looked_at_s = now_s
        return is_time


async def see_all(backend: Backend, session_id: UUID) -> Seen:
    """Take everything so far as seen."""
    last = await backend.get_last_event(session_id)
    overview = await backend.look(session_id)
    return Seen(last, frozenset(row["id"] for row in overview.contributions))


def find_end_of(overview: Overview) -> ExitCode | None:
    """Find out whether a session has come to an end, and which; None while it works."""
    status: str = overview.session["status"]
    if status == "iteration_complete":
        return ExitCode.DONE
    if status.endswith("_generation_complete"):
        is_all = overview.session["current_stage_slug"] == overview.session["until_stage_slug"]
        return ExitCode.DONE if is_all else ExitCode.WAITING
    if status.endswith("_generation_failed") or status == "cancelled":
        return ExitCode.FAILED
    if status == "paused":
        return ExitCode.WAITING
    # What waits for other jobs moves only if one of those does.
    moving = [job for job in overview.jobs if JobStatus(job["status"]) not in ENDED | WAITING]
    if moving and all(job["status"] == JobStatus.PAUSED for job in moving):
        return _decide_pause({job["status_reason"] for job in moving})
    return None


def _decide_pause(reasons: set[str]) -> ExitCode:
    """Decide what it means that nothing moves any more: money, a person, or trouble."""
    if reasons & FUNDS_REASONS:
        return ExitCode.FUNDS
    return ExitCode.WAITING if reasons == {JOB_PAUSED} else ExitCode.FAILED
