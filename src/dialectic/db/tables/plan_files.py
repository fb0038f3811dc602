"""The files of agreed plans as rows: what we wrote into a project's work folders, and what is due.

A plan's newest version supersedes the earlier one of its session: its files are put, and those that
it does not have any more are withdrawn. `publishing.plan_files` then settles each with storage,
where a person may have changed, moved or deleted it. This module does not access storage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from dialectic.core.documents.plan_files import (
    PLAN_ITEM,
    REPLACES,
    name_first,
    name_successor,
    strip_project,
)
from dialectic.db.pool import Connection
from dialectic.db.queries import find_row, list_rows, load_queries
from dialectic.db.tables import records
from dialectic.db.tables.records import NewResource, Owner, derive_resource_id

SQL = load_queries("plan_files")


@dataclass(frozen=True, slots=True)
class PlanItem:
    """A file that we wrote into a work folder, and the hash of what we wrote."""

    path: str
    kind: str
    session_id: UUID | None
    iteration_number: int | None
    notes: tuple[str, ...]
    sha256: str


@dataclass(frozen=True, slots=True)
class WaitingPlanFile:
    """A file of a work folder that waits to be written, or deleted if it is withdrawn."""

    path: str
    project_id: UUID
    content: bytes
    is_withdrawn: bool
    sha256: str
    earlier: tuple[str, ...]
    session_id: UUID | None
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StoredPage:
    """Where a project's plan page is, if it has one; and whose project it is."""

    path: str | None
    notes: tuple[str, ...]
    user_id: UUID


async def find_page(connection: Connection, project_id: UUID) -> StoredPage | None:
    """Find the plan page of a project; None if the project does not exist."""
    return await find_row(connection, StoredPage, SQL["find_plan_page"], project_id)


async def list_pages(connection: Connection, slug: str) -> list[str]:
    """List the plan pages that we wrote, also those that a person has changed or moved."""
    rows = await connection.fetch(SQL["list_plan_pages"], f"{slug}/")
    return [row["path"] for row in rows]


async def touch_project(connection: Connection, project_id: UUID) -> None:
    """Tell followers that a person has worked on the plan, which only storage holds."""
    await connection.execute(SQL["touch_project"], project_id)


async def list_plan_items(connection: Connection, project_id: UUID) -> list[PlanItem]:
    """List what we wrote into the work folders of a project, also what is superseded."""
    return await list_rows(connection, PlanItem, SQL["list_plan_items"], project_id)


async def lock_plan(connection: Connection, tenant_id: UUID, project_id: UUID) -> None:
    """Let changes of a project's plan follow each other, until the end of the transaction."""
    await connection.execute(records.SQL["lock_slug"], tenant_id, f"plan:{project_id}")


async def put_plan(
    connection: Connection, tenant_id: UUID, owner: Owner, new: Sequence[NewResource]
) -> None:
    """Make these files the plan of their session, in place of an earlier version.

    Nothing changes without files, or if the plan of a later iteration exists.
    """
    session_id = next((item.session_id for item in new if item.session_id is not None), None)
    if session_id is None:
        return
    await lock_plan(connection, tenant_id, owner.project_id)
    known = [
        item
        for item in await list_plan_items(connection, owner.project_id)
        if item.session_id == session_id and item.kind == PLAN_ITEM
    ]
    iteration = max(item.iteration_number or 1 for item in new)
    if any((item.iteration_number or 1) > iteration for item in known):
        return
    # The newer version of a file that a person changed has its own name, and keeps it.
    places = {name_first(item.path, item.notes): item for item in known}
    put = []
    for item in new:
        earlier = places.get(strip_project(item.path))
        moved = item if earlier is None else replace(item, path=earlier.path, notes=earlier.notes)
        put.append(moved)
    await records.put_resources(connection, tenant_id, owner, put)
    paths = [item.path for item in put]
    await connection.execute(SQL["supersede_plan_items"], owner.project_id, session_id, paths)


# -- files that wait ------------------------------------------------------------------------------


async def find_waiting(connection: Connection, path: str) -> WaitingPlanFile | None:
    """Find a plan file that waits; None if it does not wait any more."""
    return await find_row(connection, WaitingPlanFile, SQL["find_waiting_plan_file"], path)


async def list_waiting(connection: Connection, slug: str) -> dict[str, bytes | None]:
    """List the plan files of a project that wait, withdrawn ones first, which have no bytes."""
    rows = await connection.fetch(SQL["list_waiting_plan_files"], f"{slug}/")
    return {row["path"]: None if row["is_withdrawn"] else row["content"] for row in rows}


async def mark_written(connection: Connection, file: WaitingPlanFile) -> bool:
    """Record that storage has a file; return False if a newer version waits meanwhile."""
    marked = await connection.fetchval(SQL["mark_plan_file_written"], file.path, file.sha256)
    if marked is None:
        await connection.execute(SQL["remember_plan_file"], file.path, file.sha256)
    return marked is not None


async def leave(connection: Connection, file: WaitingPlanFile) -> None:
    """Leave a place to the person who changed what was there; our text stays in the database."""
    await connection.execute(SQL["leave_plan_file"], file.path)


async def forget(connection: Connection, file: WaitingPlanFile, *, by_person: bool) -> None:
    """Remove the rows of a withdrawn file that is not in storage any more.

    If a person removed it, its place stays in mind, so that it does not come back.
    """
    await connection.execute(SQL["forget_plan_resource"], file.path)
    statement = SQL["keep_removal_in_mind"] if by_person else SQL["forget_plan_file"]
    await connection.execute(statement, file.path)


async def write_successor(
    connection: Connection, file: WaitingPlanFile, stored: Sequence[str]
) -> str | None:
    """Give a waiting file another name, next to the one that is a person's now; return it.

    `stored` lists the paths in storage. None if the file does not wait any more.
    """
    slug = file.path.partition("/")[0]
    rows = await connection.fetch(SQL["list_taken_plan_paths"], f"{slug}/")
    successor = name_successor(file.path, {*stored, *(row["path"] for row in rows)})
    first = f"{REPLACES}{name_first(file.path, file.notes)}"
    notes = file.notes if first in file.notes else (*file.notes, first)
    moved = await connection.fetchval(
        SQL["write_plan_successor"],
        file.path,
        successor,
        derive_resource_id(file.project_id, successor),
        file.sha256,
        list(notes),
    )
    return None if moved is None else successor
