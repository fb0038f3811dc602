"""A person's work on the agreed plan: list its files, replace, move or delete one.

Storage holds the truth about the work folders, on a disk or in a bucket, so these use cases read
and write storage. A person may do the same by hand on a disk.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from uuid import UUID

from dialectic.app import projects
from dialectic.app.transaction import Tenant, Transaction
from dialectic.contract.projects import PlanFile, PlanFileState, PlanStep, ProjectFile
from dialectic.core.documents.checklists import find_title, list_steps, tick_steps
from dialectic.core.documents.file_paths import WorkItem, WorkStatus, build_path, parse_path
from dialectic.core.documents.plan_files import (
    FOLDER_README,
    PLAN_PAGE,
    SUPERSEDED_ITEM,
    is_plan_page,
    is_work_path,
    name_first,
    strip_project,
)
from dialectic.core.transfer.bundle_format import LIMITS
from dialectic.db.tables import files, plan_files
from dialectic.db.tables.plan_files import PlanItem
from dialectic.errors import (
    Conflict,
    NotFound,
    PreconditionFailed,
    TooLarge,
    UsageError,
)
from dialectic.publishing.plan_files import (
    WorkFile,
    find_work_file,
    list_work_paths,
    settle_project,
)
from dialectic.publishing.publish import describe_project

# Tells whether a file is still as its reader has seen it; None for one that has gone.
IsSeen = Callable[[WorkFile | None], bool]


async def list_plan(tenant: Tenant, project_id: UUID) -> list[PlanFile]:
    """List the files in the work folders of a project, as they are now."""
    project = await tenant.run(projects.get, project_id)
    engine, tenant_id = tenant.engine, tenant.account.tenant_id
    await settle_project(engine, tenant_id, project.slug)
    look = functools.partial(plan_files.list_plan_items, project_id=project_id)
    written = await engine.db.transact(tenant_id, look)
    items = [item for item in written if item.kind != PLAN_PAGE]
    known = await list_work_paths(engine, tenant_id, project.slug)
    paths = [path for path in known if not is_plan_page(path)]
    found = [await find_work_file(engine, tenant_id, path) for path in paths]
    kept = [file for file in found if file is not None]
    readmes = {(item.path, item.sha256) for item in items if item.kind == FOLDER_README}
    return [
        describe_file(file, items, set(paths))
        for file in kept
        if (file.path, file.sha256) not in readmes
    ]


def describe_file(file: WorkFile, items: Sequence[PlanItem], present: set[str]) -> PlanFile:
    """Describe a file of a work folder; one that was moved is recognised by its text or name."""
    place = parse_path(file.path)
    assert isinstance(place, WorkItem), "it is in a work folder"
    item = _find_item(file, items, present)
    state = PlanFileState.OWN
    if item is not None:
        is_same = item.sha256 == file.sha256
        state = PlanFileState.AS_WRITTEN if is_same else PlanFileState.CHANGED
        state = PlanFileState.SUPERSEDED if item.kind == SUPERSEDED_ITEM else state
    first = None if item is None else name_first(item.path, item.notes)
    text = file.data.decode(errors="replace")
    return PlanFile(
        path=file.path,
        status=place.status,
        name=place.file,
        state=state,
        replaces=None if item is None or first == strip_project(item.path) else first,
        size_bytes=len(file.data),
        etag=file.etag,
        title=find_title(text) or place.file,
        steps=[
            PlanStep(number=step.number, text=step.text, is_done=step.is_done)
            for step in list_steps(text)
        ],
    )


def _find_item(file: WorkFile, items: Sequence[PlanItem], present: set[str]) -> PlanItem | None:
    """Find what we wrote: in its place, or moved elsewhere with its text or at least its name."""
    here = next((item for item in items if item.path == file.path), None)
    if here is not None:
        return here
    moved = [item for item in items if item.path not in present]
    texts = {item.sha256: item for item in moved}
    names: Mapping[str, PlanItem] = {item.path.rpartition("/")[2]: item for item in moved}
    return texts.get(file.sha256) or names.get(file.path.rpartition("/")[2])


async def list_files(tenant: Tenant, project_id: UUID, slug: str) -> list[ProjectFile]:
    """List all files of a project: ours by their rows, those of the work folders by storage.

    A file in a work folder has a hash only while it is as we wrote it.
    """
    engine, tenant_id = tenant.engine, tenant.account.tenant_id
    rows = await tenant.run(projects.list_files, project_id, slug)
    look = functools.partial(plan_files.list_plan_items, project_id=project_id)
    written = {item.path: item.sha256 for item in await engine.db.transact(tenant_id, look)}
    found = [file for file in rows if not is_work_path(file.path)]
    for path in await list_work_paths(engine, tenant_id, slug):
        file = await find_work_file(engine, tenant_id, path)
        if file is not None:
            sha256 = file.sha256 if written.get(path) == file.sha256 else None
            found.append(ProjectFile(path=path, sha256=sha256))
    return sorted(found, key=lambda file: file.path)


async def has_file(tenant: Tenant, project_id: UUID, slug: str, path: str) -> bool:
    """Return whether a project has a file of this path."""
    if is_work_path(path):
        return path in await list_work_paths(tenant.engine, tenant.account.tenant_id, slug)
    return path in {file.path for file in await tenant.run(projects.list_files, project_id, slug)}


# -- changing -------------------------------------------------------------------------------------


async def replace_content(
    tx: Transaction, project_id: UUID, path: str, content: str, is_seen: IsSeen
) -> PlanFile:
    """Replace a file in a work folder, or add one."""
    await _lock(tx, project_id)
    await _check_place(tx, project_id, path)
    data = content.encode(errors="replace")
    if len(data) > LIMITS.entry_bytes_max:
        limit = LIMITS.entry_bytes_max
        raise TooLarge(f"The file has {len(data):,} bytes; the limit is {limit:,}.", limit=limit)
    found = await find_work_file(tx.engine, tx.account.tenant_id, path)
    if not is_seen(found):
        raise PreconditionFailed
    await tx.engine.files.write(f"{tx.account.tenant_id}/{path}", data)
    return await _conclude(tx, project_id, WorkFile(path, data))


async def tick(
    tx: Transaction, project_id: UUID, path: str, ticks: Mapping[int, bool], is_seen: IsSeen
) -> PlanFile:
    """Tick or untick steps of a file. Ticking twice is one tick."""
    await _lock(tx, project_id)
    await _check_place(tx, project_id, path)
    found = await find_work_file(tx.engine, tx.account.tenant_id, path)
    if found is None:
        raise _build_missing(path)
    if not is_seen(found):
        raise PreconditionFailed
    try:
        text = found.data.decode()
    except UnicodeDecodeError:
        raise _build_no_step(path, min(ticks)) from None
    numbers = {step.number for step in list_steps(text)}
    if unknown := sorted(set(ticks) - numbers):
        raise _build_no_step(path, unknown[0])
    data = tick_steps(text, ticks).encode()
    if data != found.data:
        await tx.engine.files.write(f"{tx.account.tenant_id}/{path}", data)
    return await _conclude(tx, project_id, WorkFile(path, data))


def _build_no_step(path: str, number: int) -> NotFound:
    return NotFound(
        f"{path} has no step {number}. List the plan, and give the number of one of its steps.",
        reason="no_step",
        subject=path,
    )


async def move(
    tx: Transaction, project_id: UUID, path: str, status: WorkStatus, is_seen: IsSeen
) -> PlanFile:
    """Move a file to another work folder. Moving it twice is one move."""
    await _lock(tx, project_id)
    place = await _check_place(tx, project_id, path)
    target = build_path(WorkItem(place.project, status, place.file))
    engine, tenant_id = tx.engine, tx.account.tenant_id
    found = await find_work_file(engine, tenant_id, path)
    there = found if target == path else await find_work_file(engine, tenant_id, target)
    current = found or there
    if current is None:
        raise _build_missing(path)
    if not is_seen(current):
        raise PreconditionFailed
    if found is not None and target != path:
        if there is not None and there.data != found.data:
            raise Conflict(
                f"{target} exists and is different. Rename or delete one of the two.",
                reason="other_file",
                subject=target,
            )
        # In this order, so that a process that dies in between loses nothing.
        await engine.files.write(f"{tenant_id}/{target}", found.data)
        await engine.files.delete(f"{tenant_id}/{path}")
    return await _conclude(tx, project_id, WorkFile(target, current.data))


async def delete(tx: Transaction, project_id: UUID, path: str, is_seen: IsSeen) -> None:
    """Delete a file from a work folder, for good: no later plan brings its text back there."""
    await _lock(tx, project_id)
    await _check_place(tx, project_id, path)
    found = await find_work_file(tx.engine, tx.account.tenant_id, path)
    if found is None:
        raise _build_missing(path)
    if not is_seen(found):
        raise PreconditionFailed
    await tx.engine.files.delete(f"{tx.account.tenant_id}/{path}")
    await _describe_later(tx, project_id)


def _build_missing(path: str) -> NotFound:
    return NotFound(
        f"{path} does not exist. List the files of the plan, and give one of them.",
        reason="no_file",
        subject=path,
    )


async def _lock(tx: Transaction, project_id: UUID) -> None:
    """Let one change of a project's plan follow the other."""
    await plan_files.lock_plan(tx.connection, tx.account.tenant_id, project_id)


async def _check_place(tx: Transaction, project_id: UUID, path: str) -> WorkItem:
    """Reject a path outside of the project's work folders."""
    slug = (await projects.get(tx, project_id)).slug
    try:
        place = parse_path(path)
    except UsageError:
        place = None
    if not isinstance(place, WorkItem) or place.project != slug:
        folders = ", ".join(f"{slug}/{status}/" for status in WorkStatus)
        raise UsageError(
            f"{path[:200]!r} is not in a work folder. Give a path in one of {folders}.",
            reason="not_a_plan_file",
            subject=path[:200],
        )
    return place


async def _conclude(tx: Transaction, project_id: UUID, file: WorkFile) -> PlanFile:
    """Describe a changed file, and the project after the commit."""
    await _describe_later(tx, project_id)
    items = await plan_files.list_plan_items(tx.connection, project_id)
    return describe_file(file, items, {file.path})


async def _describe_later(tx: Transaction, project_id: UUID) -> None:
    """Tell followers of the change, and describe the project after the commit."""
    await plan_files.touch_project(tx.connection, project_id)
    await files.make_due(tx.connection, project_id)
    tx.after_commit["description"] = functools.partial(
        describe_project, tx.engine, tx.account.tenant_id, project_id
    )
