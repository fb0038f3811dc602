"""Search a tenant by words: projects, sessions, documents, chats, passages. Bounded in time.

See sql/queries/search.sql. Functions take the connection of a tenant's transaction.
"""

from __future__ import annotations

from collections.abc import Sequence

from dialectic.core.strict_json import Json
from dialectic.db.pool import Connection
from dialectic.db.queries import list_plain, load_queries

SQL = load_queries("search")
BY_KIND = {
    "project": SQL["search_projects"],
    "session": SQL["search_sessions"],
    "document": SQL["search_documents"],
    "chat": SQL["search_chats"],
}


async def search_rows(
    connection: Connection, kind: str, words: Sequence[str], limit: int
) -> list[Json]:
    """Find the rows of a kind whose title and text have all words, newest first."""
    patterns = [f"%{_escape(word)}%" for word in words]
    return await list_plain(connection, BY_KIND[kind], patterns, limit)


async def search_passages(
    connection: Connection, text: str, limit: int, embedder: str
) -> list[Json]:
    """Find indexed passages that have all words of a text, best first."""
    return await list_plain(connection, SQL["search_passages"], text, limit, embedder)


def _escape(word: str) -> str:
    return word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
