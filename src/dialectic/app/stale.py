"""Documents that rest on something newer: list them with their quote, write them again in order.

One transaction creates all jobs. A job waits for those whose documents it reads, so independent
documents are written at the same time.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import asyncpg

from dialectic.app import contributions
from dialectic.app.contributions import find_first_versions
from dialectic.app.session_quotes import describe_work, quote_documents
from dialectic.app.transaction import Tenant, Transaction
from dialectic.contract.quotes import Price
from dialectic.contract.sessions import StaleDocument, StaleDocuments
from dialectic.core.documents.staleness import Rewrite, choose_rewrites, plan_rewrites
from dialectic.core.documents.staleness import StaleDocument as Stale
from dialectic.core.job import COMBINED
from dialectic.core.money.quote import Quote
from dialectic.db.tables import records
from dialectic.db.tables.records import SQL
from dialectic.errors import Conflict, Remedy, RemedyAction


async def look(tenant: Tenant, session_id: UUID) -> StaleDocuments:
    """List the stale documents of a session in the order of writing, with a quote."""
    rows, rewrites = await tenant.run(_plan, session_id)
    again = _list_rows(rows, rewrites)
    quote = await _quote(tenant, session_id, again)
    kept = [row for row in rows if _build(row).kept is not None]
    return StaleDocuments(
        documents=[_describe(row) for row in again],
        kept=[_describe(row) for row in kept],
        quote=await describe_work(tenant, session_id, quote),
    )


async def price(
    tenant: Tenant, session_id: UUID, document_ids: Sequence[UUID] | None = None
) -> Price:
    """Price what `regenerate` would write. Reads only."""
    rows, rewrites = await tenant.run(_plan, session_id, document_ids)
    return Price.of(await _quote(tenant, session_id, _list_rows(rows, rewrites)))


async def _quote(tenant: Tenant, session_id: UUID, again: Sequence[asyncpg.Record]) -> Quote:
    new = [row for row in again if row["job_id"] is None]
    return await quote_documents(tenant.engine, tenant.account, session_id, new)


async def regenerate(
    tx: Transaction, session_id: UUID, document_ids: Sequence[UUID] | None = None
) -> list[UUID]:
    """Let the models write stale documents again, each after what it reads; return the jobs.

    All, or the given ones with those that are made from them. A document that is being written
    again already is not written twice. Documents whose newest version a person wrote are left
    alone.
    """
    # Two requests at once must not write a document twice.
    await tx.connection.execute(SQL["lock_slug"], tx.account.tenant_id, f"stale {session_id}")
    session = await records.load_session(tx.connection, session_id)
    rows, rewrites = await _plan(tx, session_id, document_ids)
    by_id = {row["first_id"]: row for row in rows}
    job_ids: dict[UUID, UUID] = {}
    for one in rewrites:
        open_job: UUID | None = by_id[one.first_id]["job_id"]
        job_ids[one.first_id] = open_job or await contributions.create_edition(
            tx, session, one.first_id, after=[job_ids[each] for each in one.after]
        )
    return list(job_ids.values())


async def _plan(
    tx: Transaction, session_id: UUID, document_ids: Sequence[UUID] | None = None
) -> tuple[list[asyncpg.Record], list[Rewrite]]:
    await records.load_session(tx.connection, session_id)  # raises if it does not exist
    rows = await tx.connection.fetch(SQL["list_stale"], session_id)
    rewrites = plan_rewrites([_build(row) for row in rows])
    if document_ids is None:
        return rows, rewrites
    chosen = await find_first_versions(tx, session_id, document_ids)
    current = set(chosen.values()) - {one.first_id for one in rewrites}
    if current:
        raise Conflict(
            f"Document {next(iter(current))} is not stale, or a person wrote its newest version: "
            "there is nothing to refresh.",
            reason="not_stale",
            subject=str(next(iter(current))),
            remedy=Remedy(RemedyAction.LIST_CONTRIBUTIONS, session_id=str(session_id)),
        )
    return rows, choose_rewrites(rewrites, set(chosen.values()))


def _list_rows(rows: Sequence[asyncpg.Record], rewrites: Sequence[Rewrite]) -> list[asyncpg.Record]:
    by_id = {row["first_id"]: row for row in rows}
    return [by_id[one.first_id] for one in rewrites]


def _build(row: asyncpg.Record) -> Stale:
    return Stale(
        first_id=row["first_id"],
        sources=tuple(row["source_contribution_ids"]),
        is_by_user=row["is_by_user"],
        has_job=row["has_job"],
        is_means=row["contribution_type"] == COMBINED,
    )


def _describe(row: asyncpg.Record) -> StaleDocument:
    return StaleDocument.model_validate({**row, "kept": _build(row).kept})
