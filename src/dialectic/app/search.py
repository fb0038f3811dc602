"""Search all documents of a project; index new documents just in time.

Used by the command line and the API; independent of both. A built-in embedder is free. With a paid
embedder, each new text is paid for once, and the query on every search.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeAlias
from uuid import UUID, uuid4

from dialectic.contract.projects import SearchHit, SearchResults
from dialectic.contract.summaries import PASSAGES_DEFAULT, PASSAGES_MAX
from dialectic.core.documents.markdown_blocks import find_block_at
from dialectic.core.models.messages import Counted, judge_usage
from dialectic.core.models.model import ModelCard
from dialectic.core.money.price import Rates, check_spend, decide_hold, is_play
from dialectic.db.pool import Connection
from dialectic.db.tables import memory
from dialectic.db.tables.memory import Document, Match, Scope
from dialectic.db.tables.records import Account
from dialectic.engine import Engine
from dialectic.errors import DialecticError, UsageError
from dialectic.ledger import holds, wallets
from dialectic.ledger.holds import Purpose
from dialectic.pipeline.call import call_embedder
from dialectic.pipeline.reserve import (
    DirectCaller,
    Payment,
    build_hold,
    reserve_fixed,
    resolve_open,
)
from dialectic.retrieval.embedders import Embedded, Embedder
from dialectic.retrieval.index import Indexed, Pay, Source, prepare, split, store
from dialectic.retrieval.search import Angle, build_queries, find

QUERY_CHARS_MAX = 10_000
# Invalid vectors are requested once more, and both calls may cost money.
ATTEMPTS_MAX = 2
# The tokens embedded per payment: about one request.
PART_TOKENS_MAX = 50_000

Keep: TypeAlias = Callable[[Embedded, Pay | None], Awaitable[Indexed]]
"""Saves vectors and pays for them in the same commit."""


async def search_project(
    engine: Engine,
    account: Account,
    project_id: UUID,
    query: str,
    limit: int = PASSAGES_DEFAULT,
    *,
    part_tokens_max: int = PART_TOKENS_MAX,
) -> SearchResults:
    """Find passages in the documents of a project, best first.

    New documents are embedded and paid for in batches of at most `part_tokens_max`.
    """
    asked = check_query(query, limit)
    embedder = engine.embedder
    documents = await _load_documents(engine, account, project_id)
    sources = [Source(d.id, project_id, d.session_id, d.text) for d in documents.values()]
    queries = await asyncio.to_thread(build_queries, asked, embedder, (Angle.BROAD,))
    texts = [each.text for each in queries]
    read_tokens = await _index(
        engine, account, embedder, project_id, sources, texts, part_tokens_max=part_tokens_max
    )
    embedded = await embed_paid(engine, account, embedder, texts)
    found = await find(
        engine.db,
        account.tenant_id,
        embedder,
        Scope(project_id=project_id, source_ids=tuple(documents)),
        queries,
        embedded.rows,
        limit=limit,
    )
    # In a thread: finding the blocks of passages parses their documents.
    hits = await asyncio.to_thread(
        lambda: [_build_hit(piece, documents[piece.source_id]) for piece in found]
    )
    return SearchResults(
        items=hits,
        next_cursor=None,
        documents=len(documents),
        embedder=embedder.name,
        embedded_tokens=read_tokens + embedded.tokens,
    )


async def _load_documents(
    engine: Engine, account: Account, project_id: UUID
) -> dict[UUID, Document]:
    """Load the documents of a project; raise if none has a text."""

    async def look(connection: Connection) -> list[Document]:
        return await memory.list_searchable(connection, project_id)

    documents = {d.id: d for d in await engine.db.transact(account.tenant_id, look)}
    if not any(document.text.strip() for document in documents.values()):
        raise UsageError(
            "The project has no documents yet. Let a stage finish, then search.",
            reason="no_documents",
        )
    return documents


async def _index(
    engine: Engine,
    account: Account,
    embedder: Embedder,
    project_id: UUID,
    sources: Sequence[Source],
    questions: Sequence[str],
    *,
    part_tokens_max: int,
) -> int:
    """Embed the documents that are not indexed yet; return the number of tokens.

    Another search of the same project waits and then finds them indexed. Each batch is saved when
    it is paid for, so earlier batches are kept if a later one fails.
    """
    tenant_id, db = account.tenant_id, engine.db
    spent = 0
    async with engine.turns.lock((tenant_id, embedder.name, project_id)):
        missing = await prepare(db, tenant_id, embedder, sources)
        known = dict(missing.known)
        if missing.readings:
            await judge_all(engine, account, embedder, [*missing.readings.values(), *questions])
        for part in await asyncio.to_thread(split, missing, embedder, part_tokens_max):
            keep = functools.partial(store, db, tenant_id, replace(part, known=dict(known)))
            texts = list(part.readings.values())
            made = await embed_paid(engine, account, embedder, texts, keep)
            known |= dict(zip(part.readings, made.rows.tolist(), strict=True))
            spent += made.tokens
    return spent


def check_query(query: str, limit: int) -> str:
    """Clean a query; raise if it is empty or too long."""
    asked = " ".join(query.split())
    if not asked:
        raise UsageError(
            "The query is empty. Enter what to search for.", reason="empty", subject="query"
        )
    if len(asked) > QUERY_CHARS_MAX:
        raise UsageError(
            f"The query has {len(asked):,} characters; the limit is {QUERY_CHARS_MAX:,}. "
            "Shorten it.",
            reason="too_long",
            subject="query",
            limit=QUERY_CHARS_MAX,
        )
    if not 1 <= limit <= PASSAGES_MAX:
        raise UsageError(
            f"The limit must be a number from 1 to {PASSAGES_MAX}, not {limit}.",
            reason="out_of_range",
            subject="limit",
            limit=PASSAGES_MAX,
        )
    return asked


def _build_hit(piece: Match, document: Document) -> SearchHit:
    return SearchHit(
        document_id=document.id,
        session_id=document.session_id,
        path=document.path,
        heading_path=list(piece.heading_path),
        text=piece.text,
        start=piece.start,
        end=piece.end,
        block=find_block_at(document.text, piece.start),
        score=piece.score,
    )


# -- paying for vectors ----------------------------------------------------------------------------


async def judge_all(
    engine: Engine, account: Account, embedder: Embedder, texts: Sequence[str]
) -> None:
    """Raise, before the first call, if the total cost exceeds the funds or the spending limit."""
    if (card := embedder.card) is None:
        return
    amount = _decide_amount(card, await _count(embedder, texts))
    funds = await wallets.load_funds(
        engine.db, account.tenant_id, account.wallet_id, None, is_play=is_play(card)
    )
    check_spend(amount, funds, engine.spend_fraction, what="Indexing the new documents")


async def _count(embedder: Embedder, texts: Sequence[str]) -> int:
    return await asyncio.to_thread(lambda: sum(map(embedder.count, texts)))


def _decide_amount(card: ModelCard, tokens: int) -> int:
    return decide_hold(ATTEMPTS_MAX * tokens, 0, Rates.of(card))


async def embed_paid(
    engine: Engine,
    account: Account,
    embedder: Embedder,
    texts: Sequence[str],
    keep: Keep | None = None,
) -> Embedded:
    """Reserve money, embed texts outside any job, and settle.

    The commit that saves the vectors pays for them. If it fails, nothing is charged.
    """
    if (card := embedder.card) is None or not texts:
        embedded = await embedder.embed(texts)
        if keep is not None:
            await keep(embedded, None)
        return embedded
    counted = await _count(embedder, texts)
    caller = DirectCaller(account.tenant_id, uuid4())
    key = f"search:{caller.id}"
    payment = Payment(account.wallet_id, key, Purpose.EMBEDDING)
    new = build_hold(payment, caller, card, counted, 0)
    new = replace(new, amount_credits=_decide_amount(card, counted))

    async def settle(embedded: Embedded, connection: Connection) -> None:
        actual = judge_usage((embedded.tokens, 0), Counted(counted, 0, 0))
        await holds.settle(connection, key, actual, caller.id)

    try:
        embedded = await call_embedder(
            engine,
            caller,
            embedder,
            texts,
            counted_tokens=counted,
            hold=lambda: reserve_fixed(engine, account.tenant_id, new),
        )
        pay = functools.partial(settle, embedded)
        if keep is None:
            await engine.db.transact(account.tenant_id, pay)
        else:
            await keep(embedded, pay)
    except (DialecticError, asyncio.CancelledError) as error:
        with contextlib.suppress(DialecticError):  # the sweeper resolves the hold later
            await resolve_open(engine, account.tenant_id, [key], card, error)
        raise
    return embedded
