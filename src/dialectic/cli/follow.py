"""Follow a session to its end: events in, a display and an exit code out."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID

import click

from dialectic import sessions
from dialectic.cli.terminal import Desk, say
from dialectic.domain.job import ENDED, WAITING, JobStatus
from dialectic.errors import ExitCode
from dialectic.store import jobs, records
from dialectic.store.database import Connection

POLL_S = 0.1
LOOK_EVERY = 5

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


def as_event(row: Any) -> dict[str, Any]:
    """Build the event as programs see it."""
    return {
        "id": row["seq"],
        "type": row["type"],
        "created_at": row["created_at"].isoformat(),
        "is_internal_event": row["is_internal_event"],
        "data": row["data"],
    }


@dataclass(frozen=True, slots=True)
class Seen:
    """What of a session is no news: events up to a number, and contributions."""

    seq: int = 0
    contributions: frozenset[UUID] = frozenset()


async def follow_session(
    desk: Desk, session_id: UUID, display: Display, seen: Seen | None = None
) -> ExitCode:
    """Show what happens in a session until it ends or cannot go on by itself."""
    seq, looks = (seen or Seen()).seq, 0
    while True:
        ended = await find_end(desk, session_id) if looks % LOOK_EVERY == 0 else None
        # Read after looking: what belongs to the end is shown before we say that it is the end.
        events = await _read(desk, session_id, seq)
        for event in events:
            seq = event["id"]
            display.show(event)
        if ended is not None and not events:
            return ended
        if any(event["type"] == "contribution_generation_complete" for event in events):
            looks = 0
            continue
        looks = looks + 1 if ended is None else 0
        await asyncio.sleep(POLL_S)


async def follow_job(desk: Desk, job_id: UUID, display: Display) -> ExitCode:
    """Show what happens to one job until it has ended."""

    async def find(connection: Connection) -> dict[str, Any]:
        job = await jobs.load_job(connection, job_id)
        assert job is not None, "the job was just made"
        return job

    seq = 0
    while True:
        job = await desk.engine.db.transact(desk.account.tenant_id, find)
        for event in await _read(desk, job["session_id"], seq):
            seq = event["id"]
            if event["data"].get("job_id") == str(job_id):
                display.show(event)
        if JobStatus(job["status"]) in ENDED:
            done = job["status"] == JobStatus.COMPLETED
            return ExitCode.DONE if done else ExitCode.FAILED
        if job["status"] == JobStatus.PAUSED:
            return ExitCode.FUNDS if job["status_reason"] in FUNDS_REASONS else ExitCode.FAILED
        await asyncio.sleep(POLL_S)


async def see_all(desk: Desk, session_id: UUID) -> Seen:
    """Take everything so far as seen."""
    seq = 0
    while events := await _read(desk, session_id, seq):
        seq = events[-1]["id"]
    overview = await sessions.look(desk.engine, desk.account, session_id)
    return Seen(seq, frozenset(row["id"] for row in overview.contributions))


async def _read(desk: Desk, session_id: UUID, seq: int) -> list[dict[str, Any]]:
    async def work(connection: Connection) -> list[dict[str, Any]]:
        rows = await records.read_events(connection, after_seq=seq, session_id=session_id)
        return [as_event(row) for row in rows]

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
