"""Search everything of a tenant by words: projects, sessions, documents, passages, chats.

Free and bounded in time: only words are compared, in the newest rows and in what the search index
holds already; nothing is embedded. `app.search` answers questions about one project.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from dialectic.app.transaction import Transaction
from dialectic.contract.search import QUERY_CHARS_MAX, Hit, Hits, SearchKind
from dialectic.core.documents.markdown_blocks import find_block_at
from dialectic.core.strict_json import Json
from dialectic.db.tables import search as store
from dialectic.errors import UsageError

WORDS_MAX = 10
EXCERPT_CHARS = 240
BEFORE_CHARS = 60
PAGES = {
    SearchKind.PROJECT: "/projects/",
    SearchKind.SESSION: "/sessions/",
    SearchKind.DOCUMENT: "/documents/",
    SearchKind.PASSAGE: "/documents/",
    SearchKind.CHAT: "/chat/",
}
# What has all words in its title comes first, then by kind.
TITLE_SCORE = 0.5
KIND_SCORES = {
    SearchKind.PROJECT: 0.5,
    SearchKind.SESSION: 0.4,
    SearchKind.DOCUMENT: 0.3,
    SearchKind.PASSAGE: 0.35,
    SearchKind.CHAT: 0.2,
}


async def search(tx: Transaction, query: str, kinds: Sequence[SearchKind], limit: int) -> Hits:
    """Find what has all words of a query, best first."""
    words = _read_words(query)
    found: list[tuple[SearchKind, Json]] = []
    for kind in dict.fromkeys(kinds):
        if kind is SearchKind.PASSAGE:
            embedder = tx.engine.settings.embedder
            rows = await store.search_passages(tx.connection, " ".join(words), limit, embedder)
        else:
            rows = await store.search_rows(tx.connection, kind, words, limit)
        found += [(kind, row) for row in rows]
    # In a thread: finding the blocks of passages parses their documents.
    hits = await asyncio.to_thread(lambda: [_build_hit(*one, words) for one in found])
    return Hits(items=sorted(hits, key=lambda hit: -hit.score)[:limit])


def _read_words(query: str) -> list[str]:
    words = query.split()[:WORDS_MAX]
    if not words or len(query) > QUERY_CHARS_MAX or "\0" in query:
        raise UsageError(
            f"The query must have 1 to {QUERY_CHARS_MAX} characters, and a word.",
            reason="empty" if not words else "too_long",
            subject="q",
            limit=QUERY_CHARS_MAX,
        )
    return words


def _build_hit(kind: SearchKind, row: Json, words: Sequence[str]) -> Hit:
    path = f"{PAGES[kind]}{row['id']}"
    title, score = str(row["title"]), KIND_SCORES[kind]
    if kind is SearchKind.PASSAGE:
        path += _name_anchor(row["content"], row["start"])
        title = " / ".join([title, *row["heading_path"]])
        score += min(0.1, row["share"])
    elif row["is_title"]:
        score += TITLE_SCORE
    excerpt = _cut_excerpt(row["text"] or "", words)
    return Hit(kind=kind, id=row["id"], title=title, excerpt=excerpt, path=path, score=score)


def _name_anchor(content: str | None, start: int) -> str:
    """Name the block that a passage begins in; none in a document that is too long to look."""
    block = None if content is None else find_block_at(content, start)
    return "" if block is None else f"#{block}"


def _cut_excerpt(text: str, words: Sequence[str]) -> str:
    """Cut the text around the first word that is in it, on one line."""
    line = " ".join(text.split())
    lower = line.lower()
    places = [place for word in words if (place := lower.find(word.lower())) >= 0]
    start = max(0, min(places, default=0) - BEFORE_CHARS)
    if start:  # begin with a whole word
        start = line.find(" ", start) + 1
    excerpt = line[start : start + EXCERPT_CHARS]
    is_cut = start + EXCERPT_CHARS < len(line)
    return f"{'… ' if start else ''}{excerpt}{'…' if is_cut else ''}"
