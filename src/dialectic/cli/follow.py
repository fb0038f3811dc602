"""Follow a session to its end: events in, a display and an exit code out."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID

import click

from dialectic import sessions
from dialectic.cli.terminal import Desk, say
from dialectic.domain.event import FROM_THE_START, State, format_id
from dialectic.domain.job import ENDED, WAITING, JobStatus
from dialectic.errors import ExitCode
from dialectic.notify.hub import Hub, open_hub
from dialectic.notify.stream import Follower
from dialectic.store import jobs
from dialectic.store.database import Connection
from dialectic.store.notifications import Page, read_events

# How often a session that says nothing is looked at.
LOOK_S = 0.5

FUNDS_REASONS = frozenset({"insufficient_funds", "spend_needs_approval"})


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
            line = (
                f"{row['stage']}: {row['model_name']} wrote {row['size_bytes']:,} bytes{cut}: "
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
            line = (
                f"{data['stageSlug']}: {data['status']}, {data['completed']} completed, "
                f"{data['failed']} failed"
            )
        case (
            "contribution_generation_retrying"
            | "contribution_generation_failed"
            | "contribution_generation_paused"
        ):
            word = event["type"].rsplit("_", 1)[-1]
            line = f"{data['stageSlug']}: {word}: {_shorten(data['error'])}"
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
    desk: Desk, session_id: UUID, display: Display, seen: Seen | None = None
) -> ExitCode:
    """Show what happens in a session until it ends or cannot go on by itself."""
    following = _Following(desk, session_id, (seen or Seen()).seq)
    return await following.show(display.show, lambda: find_end(desk, session_id))


async def follow_job(desk: Desk, job_id: UUID, display: Display) -> ExitCode:
    """Show what happens to one job until it has ended."""

    async def load(connection: Connection) -> dict[str, Any]:
        job = await jobs.load_job(connection, job_id)
        assert job is not None, "the job was just made"
        return job

    async def find_end_of_job() -> ExitCode | None:
        job = await desk.engine.db.transact(desk.account.tenant_id, load)
        if JobStatus(job["status"]) in ENDED:
            done = job["status"] == JobStatus.COMPLETED
            return ExitCode.DONE if done else ExitCode.FAILED
        if job["status"] == JobStatus.PAUSED:
            return ExitCode.FUNDS if job["status_reason"] in FUNDS_REASONS else ExitCode.FAILED
        return None

    def show(event: dict[str, Any]) -> None:
        if event["data"].get("job_id") == str(job_id):
            display.show(event)

    job = await desk.engine.db.transact(desk.account.tenant_id, load)
    return await _Following(desk, job["session_id"], 0).show(show, find_end_of_job)


@dataclass(slots=True)
class _Following:
    """The events of a session after a number, shown as they happen."""

    desk: Desk
    session_id: UUID
    seq: int
    looked_at_s: float = 0.0

    async def show(
        self,
        show: Callable[[dict[str, Any]], None],
        find_end: Callable[[], Awaitable[ExitCode | None]],
    ) -> ExitCode:
        async with open_hub(self.desk.engine.address) as hub:
            while True:  # a stream that the hub has ended is taken up again
                async with contextlib.aclosing(self._follow(hub)) as told:
                    async for events in told:
                        for event in events:
                            show(event)
                        if not self._is_time_to_look(events):
                            continue
                        ended = await find_end()
                        # What belongs to the end is shown before we say that it is the end.
                        if ended is not None and not await self._is_behind():
                            return ended

    async def _follow(self, hub: Hub) -> AsyncGenerator[list[dict[str, Any]], None]:
        account = self.desk.account
        follower = Follower(
            hub=hub,
            db=self.desk.engine.db,
            account=account,
            after=format_id(account.tenant_id, self.seq) if self.seq else FROM_THE_START,
            session_id=self.session_id,
            heartbeat_s=LOOK_S,
        )
        async with contextlib.aclosing(follower.follow()) as told:
            async for part in told:
                self.seq = follower.seq
                yield [] if isinstance(part, State) else [event.body for event in part]

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

    async def _is_behind(self) -> bool:
        return bool((await _read(self.desk, self.session_id, self.seq)).rows)


async def see_all(desk: Desk, session_id: UUID) -> Seen:
    """Take everything so far as seen."""
    page = await _read(desk, session_id, 0)
    overview = await sessions.look(desk.engine, desk.account, session_id)
    return Seen(page.last_seq, frozenset(row["id"] for row in overview.contributions))


async def _read(desk: Desk, session_id: UUID, seq: int) -> Page:
    async def work(connection: Connection) -> Page:
        return await read_events(connection, after_seq=seq, session_id=session_id, limit=1)

    return await desk.engine.db.transact(desk.account.tenant_id, work)


async def find_end(desk: Desk, session_id: UUID) -> ExitCode | None:
    """Find out whether a session has come to an end, and which; None while it works."""
    overview = await sessions.look(desk.engine, desk.account, session_id)
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
        reasons = {job["status_reason"] for job in moving}
        return ExitCode.FUNDS if reasons & FUNDS_REASONS else ExitCode.FAILED
    return None
