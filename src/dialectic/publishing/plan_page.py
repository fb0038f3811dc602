"""Write `PLAN.md`, the page about the latest finished iteration, and read what it is made of.

The page is assembled when the project's description is written, from the texts in the database. It
belongs to the person who reads it, like the files in the work folders: one that they have changed
stays, and its newer version is written next to it. A page whose documents have not changed is not
assembled again, so that one that came with an import keeps what only its origin knows.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from dialectic.core.documents.plan_files import PLAN_PAGE, REPLACES, name_plan_page
from dialectic.core.documents.plan_page import PlanPage, build_plan_page
from dialectic.core.documents.plan_sources import Finished, list_finished, list_used
from dialectic.core.money.price import format_roughly
from dialectic.core.transfer.rows import ProjectRows
from dialectic.db.pool import Connection
from dialectic.db.tables import plan_files, records, transfer
from dialectic.db.tables.records import NewResource, Owner
from dialectic.engine import Engine
from dialectic.ledger import audit
from dialectic.publishing.plan_files import settle_project

# Notes of the page: a hash of what it is made of, and what its session has cost.
BASIS = "basis:"
COST = "cost:"


async def assemble_page(
    engine: Engine, tenant_id: UUID, rows: ProjectRows, finished: Finished, cost: str | None
) -> PlanPage:
    """Assemble the page of a finished iteration from the texts in the database."""
    ids = [row.id for row in list_used(rows, finished)]
    read = functools.partial(transfer.read_texts, row_ids=ids)
    texts = await engine.db.transact(tenant_id, read)
    # In a thread: a plan of many long documents would block the event loop.
    return await asyncio.to_thread(build_plan_page, rows, finished, texts, cost)


async def find_cost(engine: Engine, tenant_id: UUID, session_id: UUID) -> str | None:
    """Find what a session has cost, for people; None if the ledger knows no call of it."""
    look = functools.partial(audit.report_costs, session_id=session_id)
    costs = await engine.db.transact(tenant_id, look)
    if not costs:
        return None
    amounts = " and ".join(
        format_roughly(
            sum(one.charged_credits for one in costs if one.is_play is is_play), is_play=is_play
        )
        for is_play in sorted({one.is_play for one in costs})
    )
    calls = sum(one.calls for one in costs)
    return f"{amounts} for {calls:,} call{'' if calls == 1 else 's'}"


async def update_page(engine: Engine, tenant_id: UUID, rows: ProjectRows) -> bool:
    """Store the page of the session that finished an iteration last; return whether it changed.

    Nothing happens if the page is made of the same documents as before.
    """
    finished = next(iter(list_finished(rows)), None)
    if finished is None:
        return False
    look = functools.partial(plan_files.find_page, project_id=rows.project.id)
    found = await engine.db.transact(tenant_id, look)
    if found is None:  # the project was deleted meanwhile
        return False
    cost = await find_cost(engine, tenant_id, finished.session.id) or read_cost(found.notes)
    page = await assemble_page(engine, tenant_id, rows, finished, cost)
    if f"{BASIS}{page.basis}" in found.notes:
        return False
    new = NewResource(
        resource_type=PLAN_PAGE,
        path=name_plan_page(rows.project.slug),
        text=page.text,
        notes=(f"{BASIS}{page.basis}", *([f"{COST}{cost}"] if cost else [])),
        session_id=page.session_id,
        iteration_number=page.iteration_number,
    )
    owner = Owner(found.user_id, rows.project.id)
    put = functools.partial(_put, tenant_id=tenant_id, owner=owner, new=new)
    await engine.db.transact(tenant_id, put)
    # Now: it may move next to a page that a person changed, and its row with it.
    await settle_project(engine, tenant_id, rows.project.slug)
    return True


def read_cost(notes: Sequence[str]) -> str | None:
    """Read what a session has cost from the notes of its page."""
    return next((note.removeprefix(COST) for note in notes if note.startswith(COST)), None)


async def _put(connection: Connection, tenant_id: UUID, owner: Owner, new: NewResource) -> None:
    """Store the page, one change of the plan after the other.

    A page that was written next to one that a person changed stays where it is.
    """
    await plan_files.lock_plan(connection, tenant_id, owner.project_id)
    found = await plan_files.find_page(connection, owner.project_id)
    if found is not None and found.path is not None:
        first = [note for note in found.notes if note.startswith(REPLACES)]
        new = replace(new, path=found.path, notes=(*first, *new.notes))
    await records.put_resources(connection, tenant_id, owner, [new])
