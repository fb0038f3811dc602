"""Find a record by the beginning of its id, and show all of a session. Reads only."""

from __future__ import annotations

from uuid import UUID

from dialectic.app.contributions import CHUNK, CONTRIBUTION
from dialectic.app.quotes import quote_session
from dialectic.app.sessions import get_detail
from dialectic.app.transaction import Tenant, Transaction
from dialectic.contract.projects import Kind
from dialectic.contract.sessions import SessionDetail
from dialectic.db.tables.chats import CHAT
from dialectic.db.tables.records import SESSION
from dialectic.db.tables.records import get_id as get_by_prefix
from dialectic.db.tables.transfer import get_project_id

NOUNS = {
    Kind.SESSION: SESSION,
    Kind.CONTRIBUTION: CONTRIBUTION,
    Kind.CHUNK: CHUNK,
    Kind.CHAT: CHAT,
}


async def get_id(tx: Transaction, kind: Kind, text: str) -> UUID:
    """Get the id of the one record whose id begins with a text.

    A project is also found by its folder or its name, or by the beginning of one of them.
    """
    if kind is Kind.PROJECT:
        return await get_project_id(tx.connection, text)
    return await get_by_prefix(tx.connection, NOUNS[kind], text)


async def look(
    tenant: Tenant, session_id: UUID, *, after: int = 0, quote: bool = False
) -> SessionDetail:
    """Load all of a session, with the quote for its rest if wanted.

    `after` asks whether the session has an event later than that one.
    """
    detail = await tenant.run(get_detail, session_id, after=after)
    if quote:
        detail.quote = await quote_session(tenant.engine, tenant.account, session_id)
    return detail
