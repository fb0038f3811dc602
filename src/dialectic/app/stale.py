"""Documents that rest on something newer: list them with their quote, write them again in order.

One transaction creates all jobs. A job waits for those whose documents it reads, so independent
documents are written at the same time.
"""

from __future__ import annotations

from uuid import UUID

import asyncpg

from dialectic.app import contributions
from dialectic.app.quotes import quote_rewrites
from dialectic.app.transaction import Tenant, Transaction
from dialectic.contract.sessions import QuoteTotals, StaleDocument, StaleDocuments
from dialectic.core.documents.staleness import Rewrite, plan_rewrites
from dialectic.core.documents.staleness import StaleDocument as Stale
from dialectic.core.job import COMBINED
from dialectic.db.tables import records
from dialectic.db.tables.records import SQL


async def look(tenant: Tenant, session_id: UUID) -> StaleDocuments:
    """List the stale documents of a session in the order of writing, with a quote."""
    rows, rewrites = await tenant.run(_plan, session_id)
    by_id = {row["first_id"]: row for row in rows}
    again = [by_id[one.first_id] for one in rewrites]
    quote = await quote_rewrites(
        tenant.engine, tenant.account, session_id, [row for row in again if row["job_id"] is None]
    )
    kept = [row for row in rows if _build(row).kept is not None]
    return StaleDocuments(
        documents=[_describe(row) for row in again],
        kept=[_describe(row) for row in kept],
        quote=QuoteTotals.model_validate(quote.as_dict()),
        lines=quote,
    )


async def regenerate(tx: Transaction, session_id: UUID) -> list[UUID]:
    """Let the models write every stale document again, each after what it reads; return the jobs.

    A document that is being written again already is not written twice. Documents whose newest
    version a person wrote are left alone.
    """
    # Two requests at once must not write a document twice.
    await tx.connection.execute(SQL["lock_slug"], tx.account.tenant_id, f"stale {session_id}")
    session = await records.load_session(tx.connection, session_id)
    rows, rewrites = await _plan(tx, session_id)
    by_id = {row["first_id"]: row for row in rows}
    job_ids: dict[UUID, UUID] = {}
    for one in rewrites:
        open_job: UUID | None = by_id[one.first_id]["job_id"]
        job_ids[one.first_id] = open_job or await contributions.create_edition(
            tx, session, one.first_id, after=[job_ids[each] for each in one.after]
        )
    return list(job_ids.values())


async def _plan(tx: Transaction, session_id: UUID) -> tuple[list[asyncpg.Record], list[Rewrite]]:
    await records.load_session(tx.connection, session_id)  # raises if it does not exist
    rows = await tx.connection.fetch(SQL["list_stale"], session_id)
    return rows, plan_rewrites([_build(row) for row in rows])


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
