"""Drafts as rows: the text of calls that are still being answered, for those who watch.

The statements are in sql/queries/drafts.sql. A worker writes the drafts of all its calls at once; a
process with followers reads those of all watched sessions at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias
from uuid import UUID

from dialectic.core.job import JobKey
from dialectic.db.pool import Connection, Database
from dialectic.db.queries import build_row, find_row, load_queries

SQL = load_queries("drafts")
# How long a session counts as watched after someone asked for its drafts.
WATCHED_S = 30.0

SessionKey: TypeAlias = tuple[UUID, UUID]
"""The tenant and the id of a session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewDraft:
    """What a running call has reported since it was last written."""

    key: JobKey
    attempt: int
    turn: int
    phase: str
    # Where the text begins, in characters of the whole.
    at: int
    text: str
    words: int
    # How long ago its first text arrived; None if none has.
    text_age_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftPiece:
    """What is new in a draft, and where it begins; without text if only the phase is new."""

    tenant_id: UUID
    session_id: UUID
    job_id: UUID
    attempt: int
    turn: int
    phase: str
    at: int
    text: str
    words: int

    @property
    def end(self) -> int:
        return self.at + len(self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDraft:
    """The whole draft of a running job; without text if none was written."""

    job_id: UUID
    session_id: UUID
    attempt: int
    turn: int
    at: int
    text: str
    words: int
    phase: str | None
    first_token_at: datetime | None
    updated_at: datetime | None


async def watch(db: Database, sessions: Iterable[SessionKey], *, for_s: float = WATCHED_S) -> None:
    """Ask workers for the drafts of sessions, for a while."""
    keys = list(sessions)
    tenant_ids, session_ids = [key[0] for key in keys], [key[1] for key in keys]
    await db.fetch(SQL["watch"], tenant_ids, session_ids, timedelta(seconds=for_s), patience_s=0.0)


async def watch_one(connection: Connection, tenant_id: UUID, session_id: UUID) -> None:
    """Ask workers for the drafts of one session, for a while."""
    for_a_while = timedelta(seconds=WATCHED_S)
    await connection.execute(SQL["watch"], [tenant_id], [session_id], for_a_while)


async def write(db: Database, new: Sequence[NewDraft]) -> dict[JobKey, int]:
    """Write drafts in one statement; return how much is stored of those that someone watches.

    Never retried: the next write has all that this one had.
    """
    ages = [None if d.text_age_s is None else timedelta(seconds=d.text_age_s) for d in new]
    rows = await db.fetch(
        SQL["write"],
        [d.key[0] for d in new],
        [d.key[1] for d in new],
        [d.attempt for d in new],
        [d.turn for d in new],
        [d.phase for d in new],
        [d.at for d in new],
        [d.text for d in new],
        [d.words for d in new],
        ages,
        patience_s=0.0,
    )
    return {(row["tenant_id"], row["job_id"]): row["chars"] for row in rows}


async def read(
    db: Database,
    sessions: Iterable[SessionKey],
    known: Mapping[UUID, DraftPiece],
    *,
    chars_max: int,
) -> list[DraftPiece]:
    """Read what is new in the drafts of sessions; of an unknown draft, its end."""
    keys = list(sessions)
    rows = await db.fetch(
        SQL["read"],
        [key[0] for key in keys],
        [key[1] for key in keys],
        list(known),
        [piece.attempt for piece in known.values()],
        [piece.turn for piece in known.values()],
        [piece.end for piece in known.values()],
        [piece.phase for piece in known.values()],
        chars_max,
        patience_s=0.0,
    )
    return [build_row(DraftPiece, row) for row in rows]


async def find(connection: Connection, job_id: UUID) -> StoredDraft | None:
    """Find the draft of a job; None if no attempt of it runs."""
    return await find_row(connection, StoredDraft, SQL["find"], job_id)


async def sweep(connection: Connection) -> int:
    """Delete drafts whose attempt is over, and ended watches; return how many."""
    count: int = await connection.fetchval(SQL["sweep"])
    return count
