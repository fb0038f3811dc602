"""Find a record by the beginning of its id, and show all of a session or a contribution.

Short commands read with it, so it imports little.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

import asyncpg

from dialectic.app.transaction import Tenant, Transaction
from dialectic.contract.contributions import ChunkRecord, ContributionRecord, TurnSummary
from dialectic.contract.summaries import Kind
from dialectic.core.session_state import show_status
from dialectic.db.pool import Connection
from dialectic.db.queries import list_plain
from dialectic.db.tables import records
from dialectic.db.tables.records import CHUNK, CONTRIBUTION, SESSION, SQL
from dialectic.db.tables.records import get_id as get_by_prefix
from dialectic.errors import NotFound

if TYPE_CHECKING:
    from dialectic.contract.session_detail import SessionDetail

NOUNS = {Kind.SESSION: SESSION, Kind.CONTRIBUTION: CONTRIBUTION, Kind.CHUNK: CHUNK}


async def get_id(tx: Transaction, kind: Kind, text: str) -> UUID:
    """Get the id of the one record whose id begins with a text.

    A project is also found by its folder or its name, or by the beginning of one of them.
    """
    if kind is Kind.PROJECT:
        from dialectic.db.tables.transfer import get_project_id

        return await get_project_id(tx.connection, text)
    if kind is Kind.CHAT:
        from dialectic.db.tables.chats import CHAT

        return await get_by_prefix(tx.connection, CHAT, text)
    return await get_by_prefix(tx.connection, NOUNS[kind], text)


# -- sessions --------------------------------------------------------------------------------------


async def look(
    tenant: Tenant, session_id: UUID, *, after: int = 0, quote: bool = False
) -> SessionDetail:
    """Load all of a session, with the quote for its rest if wanted.

    `after` asks whether the session has an event later than that one.
    """
    detail = await tenant.run(get_detail, session_id, after=after)
    if quote:
        from dialectic.app.session_quotes import describe_rest

        detail.quote = await describe_rest(tenant, session_id, with_lines=True)
    return detail


async def get_detail(tx: Transaction, session_id: UUID, *, after: int = 0) -> SessionDetail:
    """Load all of a session; `after` asks whether it has a later event."""
    from dialectic.contract.session_detail import SessionDetail
    from dialectic.db.tables.notifications import read_events

    connection = tx.connection
    # Read first: a later change may be reported twice, but never missed.
    news = await read_events(connection, after_seq=after, session_id=session_id, limit=1)
    session = await records.load_session(connection, session_id)
    written = await connection.fetch(SQL["list_contributions"], session_id)
    return SessionDetail.model_validate(
        {
            "session": show_status(session),
            "stages": await list_stages(connection, session_id),
            "jobs": await list_plain(connection, SQL["list_jobs"], session_id),
            "contributions": list(map(dict, written)),
            "plans": list(map(dict, await connection.fetch(SQL["list_plan_sources"], session_id))),
            "last_event": news.last_seq,
            "has_news": bool(news.events),
            "quote": None,
        }
    )


async def list_stages(connection: Connection, session_id: UUID) -> list[dict[str, object]]:
    """List the stages of a session with their progress."""
    return list(map(dict, await connection.fetch(SQL["list_stage_runs"], session_id)))


# -- contributions ---------------------------------------------------------------------------------


async def load_record(tx: Transaction, contribution_id: UUID) -> ContributionRecord:
    """Load a contribution with its turns."""
    record = await load_contribution(tx, contribution_id)
    chunks = await list_plain(tx.connection, SQL["list_chunks"], contribution_id)
    record.chunks = [TurnSummary.model_validate(chunk) for chunk in chunks]
    return record


async def load_contribution(tx: Transaction, contribution_id: UUID) -> ContributionRecord:
    """Load a contribution with its text and its provenance, without its turns."""
    return ContributionRecord.model_validate(dict(await load_row(tx, contribution_id)))


async def load_row(tx: Transaction, contribution_id: UUID) -> asyncpg.Record:
    """Load the row of a contribution."""
    row = await tx.connection.fetchrow(SQL["load_contribution"], contribution_id)
    if row is None:
        raise NotFound(
            f"Contribution {contribution_id} does not exist.",
            reason="no_contribution",
            subject=str(contribution_id),
        )
    return row


async def load_chunk(tx: Transaction, text: str) -> ChunkRecord:
    """Load one turn of a document by its id or a prefix of it."""
    chunk_id = await get_by_prefix(tx.connection, CHUNK, text)
    row = await tx.connection.fetchrow(SQL["load_chunk"], chunk_id)
    assert row is not None, "the turn was just found"
    return ChunkRecord.model_validate(dict(row))
