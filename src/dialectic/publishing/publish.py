"""Write files from their rows into storage, and delete the files of deleted projects from it.

Both are idempotent, so any worker may finish what another one began. Knows nothing of the content,
except for the two files that describe a project, `project_readme.md` and `project_settings.json`.
They are built from the project's rows. The end of a stage makes them due, in its own commit: their
rows then hold a ticket instead of bytes, and this module builds the bytes.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import TypeAlias
from uuid import UUID

from dialectic.core.documents.plan_files import is_work_path
from dialectic.core.documents.readme import build_readme
from dialectic.core.transfer.bundle_format import (
    is_description,
    list_archives,
    readme_path,
    settings_path,
)
from dialectic.core.transfer.rows import ContentIn
from dialectic.db.pool import Connection
from dialectic.db.tables.files import (
    SQL,
    File,
    discard_file,
    discard_files,
    forget_files,
    list_tickets,
    make_due,
    mark_done,
    take_files,
)
from dialectic.db.tables.transfer import find_slug
from dialectic.engine import Engine
from dialectic.errors import DialecticError, NotFound, Remedy, RemedyAction, StorageUnavailable
from dialectic.publishing.plan_files import (
    list_work_paths,
    read_work_files,
    settle_files,
    settle_project,
)
from dialectic.publishing.plan_page import update_page
from dialectic.publishing.snapshot import add_texts, read_file, retry_if_changed, take_snapshot

logger = logging.getLogger(__name__)

Prepare: TypeAlias = Callable[[Engine, UUID, UUID], Awaitable[None]]
"""Writes other files of a tenant's project, before it is described."""

# A committing worker writes its own files at once; after this delay other workers take the rest.
LEFT_BEHIND_AFTER = timedelta(seconds=5)
# How many files are written concurrently, the timeout of one, and the delay before a retry. The
# delay is longer: no worker may take a file that another worker is writing.
AT_ONCE = 8
WRITE_TIMEOUT_S = 10.0
AGAIN_AFTER = timedelta(seconds=15)
# How many files are deleted concurrently, and the timeout of one.
DELETIONS_AT_ONCE = 20
DELETE_TIMEOUT_S = 10.0


async def publish_files(
    engine: Engine,
    tenant_id: UUID,
    files: Sequence[File],
    *,
    write_timeout_s: float = WRITE_TIMEOUT_S,
) -> bool:
    """Write files to storage and delete their bytes in the database; return whether that worked.

    With a file of a plan, all files of that plan are settled that wait.
    """
    ours = [file for file in files if not is_work_path(file.path)]
    plans = {file.path.partition("/")[0] for file in files if is_work_path(file.path)}
    is_done = not ours or await _publish_ours(engine, tenant_id, ours, write_timeout_s)
    for slug in sorted(plans):
        is_done &= await settle_project(engine, tenant_id, slug, timeout_s=write_timeout_s)
    return is_done


async def _publish_ours(
    engine: Engine, tenant_id: UUID, files: Sequence[File], write_timeout_s: float
) -> bool:
    """Write files outside of the work folders.

    Full or unreachable storage loses nothing: the bytes stay in their rows, and a worker retries.
    Each file is read again right before it is written: its project may have been deleted by then,
    and a deletion waits for one write, not for all of them.
    """
    some, others = files[:AT_ONCE], files[AT_ONCE:]
    try:
        await _write_all(engine, tenant_id, some, timeout_s=write_timeout_s)
    except StorageUnavailable as error:
        _note_outage(engine, error)
        return False
    if engine.storage_outage.ends():
        logger.info("files can be written to storage again")
    engine.failpoints.reach("after_files")
    paths, hashes = [file.path for file in some], [file.sha256 for file in some]

    rows = await engine.db.fetch(SQL["mark_files_written"], tenant_id, paths, hashes)
    left = [*(row["path"] for row in rows), *(file.path for file in others)]
    if not left:
        return True
    return await publish_waiting(engine, tenant_id, left, write_timeout_s=write_timeout_s)


def _note_outage(engine: Engine, error: StorageUnavailable) -> None:
    """Log why storage cannot be written, once for each cause.

    The message names the file and so the project: user text stays out of logs.
    """
    if engine.storage_outage.begins(error):
        cause = f"{error.code}, {error.reason}" if error.reason else error.code
        logger.warning("files wait in the database until storage can be written: %s", cause)


async def _write_all(
    engine: Engine, tenant_id: UUID, files: Sequence[File], *, timeout_s: float
) -> None:
    """Write files concurrently: each waits for a disk or a network, not for the others.

    It raises only after all of them were tried.
    """
    tried = await asyncio.gather(
        *(_write(engine, f"{tenant_id}/{f.path}", f.data, timeout_s=timeout_s) for f in files),
        return_exceptions=True,
    )
    for failure in filter(None, tried):
        raise failure


async def _write(engine: Engine, key: str, data: bytes, *, timeout_s: float) -> None:
    """Write one file within the timeout: network storage may never respond.

    Not by `wait_for`, which before Python 3.12 loses a cancellation that arrives at the moment
    the file is written.
    """
    try:
        async with asyncio.timeout(timeout_s):
            await engine.files.write(key, data)
    except TimeoutError as error:
        raise StorageUnavailable(
            f"{engine.files.locate(key)} could not be written within {timeout_s:g} s. "
            "Check the disk or the network.",
            reason="timeout",
        ) from error


async def publish_waiting(
    engine: Engine,
    tenant_id: UUID,
    paths: Sequence[str],
    *,
    write_timeout_s: float = WRITE_TIMEOUT_S,
) -> bool:
    """Write files whose bytes are still in the database, in batches."""
    ours = [path for path in paths if not is_work_path(path)]
    for first in range(0, len(ours), AT_ONCE):
        read = functools.partial(_read_waiting, paths=ours[first : first + AT_ONCE])
        files = await engine.db.transact(tenant_id, read)
        if files and not await _publish_ours(engine, tenant_id, files, write_timeout_s):
            return False
    plan = [path for path in paths if is_work_path(path)]
    return await settle_files(engine, tenant_id, plan, timeout_s=write_timeout_s)


async def _read_waiting(connection: Connection, paths: Sequence[str]) -> list[File]:
    rows = await connection.fetch(SQL["read_waiting_files"], paths)
    return [File(row["path"], row["content"], "") for row in rows]


async def publish_project(engine: Engine, tenant_id: UUID, project_id: UUID) -> list[str]:
    """Write a project's pending documents; return those that could not be written."""

    async def waiting(connection: Connection) -> list[str]:
        rows = await connection.fetch(SQL["list_waiting_files_of_project"], project_id)
        return [row["path"] for row in rows if not is_description(row["path"])]

    await publish_waiting(engine, tenant_id, await engine.db.transact(tenant_id, waiting))
    return await engine.db.transact(tenant_id, waiting)


async def require_published(
    engine: Engine, tenant_id: UUID, project_id: UUID, session_id: UUID
) -> None:
    """Ensure that every file of a session's project is in storage, or raise."""
    if left := await publish_project(engine, tenant_id, project_id):
        place = engine.files.locate(f"{tenant_id}/{left[0]}")
        cause = engine.storage_outage.error
        raise StorageUnavailable(
            f"{len(left)} file(s) could not be written to storage. "
            f"{cause.args[0] if cause else f'{place} is still missing.'} "
            "Their content is safe in the database; correct that, then resume the session.",
            reason="unpublished",
            subject=place,
            remedy=Remedy(RemedyAction.RESUME, session_id=str(session_id)),
        )


async def publish_left_behind(
    engine: Engine,
    *,
    prepare: Prepare | None = None,
    write_timeout_s: float = WRITE_TIMEOUT_S,
) -> int:
    """Write pending files, for all tenants; return how many.

    Crashed workers leave documents; the end of a stage leaves descriptions that are due. `prepare`
    writes what a description links to.
    """
    done = 0
    while True:
        rows = await engine.db.fetch(
            SQL["take_waiting_files"], LEFT_BEHIND_AFTER, AGAIN_AFTER, AT_ONCE
        )
        due = {(row["tenant_id"], row["path"]) for row in rows}
        descriptions_due = {
            (tenant_id, path.partition("/")[0]) for tenant_id, path in due if is_description(path)
        }
        # Each by itself: a file that fails must not delay the others.
        done += sum(
            await asyncio.gather(
                *(
                    publish_waiting(engine, tenant_id, [path], write_timeout_s=write_timeout_s)
                    for tenant_id, path in due
                    if not is_description(path)
                )
            )
        )
        for tenant_id, slug in descriptions_due:
            done += await _describe_if_possible(engine, tenant_id, slug, prepare)
        if len(rows) < AT_ONCE:
            return done


# -- descriptions ----------------------------------------------------------------------------------


async def describe_project(
    engine: Engine, tenant_id: UUID, project_id: UUID, prepare: Prepare | None = None
) -> None:
    """Write the description of a project; if that fails, it stays due."""
    mark_due = functools.partial(make_due, project_id=project_id)
    await _describe(engine, tenant_id, await engine.db.transact(tenant_id, mark_due), prepare)


async def describe_if_possible(engine: Engine, tenant_id: UUID, project_id: UUID) -> None:
    """Write the description of a project that is due; if that fails, it stays due."""
    look = functools.partial(find_slug, project_id=project_id)
    if (slug := await engine.db.transact(tenant_id, look)) is not None:
        await _describe_if_possible(engine, tenant_id, slug)


async def _describe_if_possible(
    engine: Engine, tenant_id: UUID, slug: str, prepare: Prepare | None = None
) -> int:
    try:
        return await _describe(engine, tenant_id, slug, prepare)
    except StorageUnavailable as error:
        _note_outage(engine, error)
        return 0
    except DialecticError as error:
        logger.warning("could not describe a project yet: %s", error.code)
        return 0
    except (LookupError, ValueError):
        # Contradictory rows are a bug. It must not stop one worker after the other: all other
        # projects continue.
        logger.exception("a project of tenant %s cannot be described", tenant_id)
        return 0


async def _describe(
    engine: Engine, tenant_id: UUID, slug: str, prepare: Prepare | None = None
) -> int:
    """Build and write the files that are due; return how many no longer are."""
    paths = [readme_path(slug), settings_path(slug)]
    look = functools.partial(list_tickets, paths=paths)
    due = await engine.db.transact(tenant_id, look)
    if not due:
        return 0
    project_id = next(iter(due.values())).project_id
    if prepare is not None:
        await prepare(engine, tenant_id, project_id)
    build = functools.partial(_build_descriptions, engine, tenant_id, project_id)
    made = [(due[file.path], file) for file in await retry_if_changed(build) if file.path in due]
    for _, file in made:
        key = f"{tenant_id}/{file.path}"
        await _write(engine, key, file.data, timeout_s=WRITE_TIMEOUT_S)

    async def mark(connection: Connection) -> int:
        count = await mark_done(connection, made)
        if count < len(made):
            # Another worker has written newer files meanwhile, and ours may have replaced them.
            with contextlib.suppress(NotFound):
                await make_due(connection, project_id)
        return count

    count = await engine.db.transact(tenant_id, mark)
    logger.info("described project %s", project_id)
    return count


async def _build_descriptions(engine: Engine, tenant_id: UUID, project_id: UUID) -> list[File]:
    """Build both files; read only those files whose rows hold a different text."""
    snapshot = await take_snapshot(engine, tenant_id, project_id)
    if await update_page(engine, tenant_id, snapshot.rows):
        snapshot = await take_snapshot(engine, tenant_id, project_id)
    placed: dict[UUID, ContentIn] = {}
    work = []
    async for entry, kept in read_work_files(engine, tenant_id, snapshot.rows.project.slug):
        if kept is not None:
            row = kept.as_row(entry)
            work.append(row)
            placed |= snapshot.place_texts(row, kept.data)
    for file in snapshot.rows.dialectic_files:
        if snapshot.is_text(file):
            placed |= dict.fromkeys(snapshot.hashes.get(file.path, ()), "file")
        else:
            data = await read_file(engine, tenant_id, file)
            placed |= snapshot.place_texts(file, data)
    rows = await add_texts(engine, tenant_id, snapshot.with_work_files(work), placed)
    slug = rows.project.slug
    readme = await asyncio.to_thread(build_readme, rows)
    return [
        File(readme_path(slug), readme.encode(), "text/markdown"),
        File(settings_path(slug), await asyncio.to_thread(rows.as_bytes), "application/json"),
    ]


# -- deleted projects ------------------------------------------------------------------------------


async def discard_files_in(
    engine: Engine, tenant_id: UUID, connection: Connection, project_id: UUID, slug: str
) -> list[str]:
    """Record the files of a project in the transaction that deletes it; return their paths.

    Those that people put into its work folders are among them. The caller may delete them after
    its commit; any worker deletes the rest a little later.
    """
    return await discard_files(
        connection,
        project_id,
        [*list_archives(slug), *await list_work_paths(engine, tenant_id, slug)],
        due_after=LEFT_BEHIND_AFTER,
        # A worker that writes a file holds it exclusively for this long.
        settled_after=AGAIN_AFTER,
    )


async def discard_file_in(connection: Connection, project_id: UUID, path: str) -> None:
    """Record one file of a project in the transaction that removes it, as `discard_files_in`."""
    await discard_file(
        connection, project_id, path, due_after=LEFT_BEHIND_AFTER, settled_after=AGAIN_AFTER
    )


async def delete_files(
    engine: Engine,
    tenant_id: UUID,
    paths: Sequence[str],
    *,
    delete_timeout_s: float = DELETE_TIMEOUT_S,
) -> int:
    """Delete files of deleted projects; return how many are finally deleted.

    Files that cannot be deleted stay recorded and are retried.
    """
    done = 0
    for first in range(0, len(paths), DELETIONS_AT_ONCE):
        some = paths[first : first + DELETIONS_AT_ONCE]
        gone = await asyncio.gather(
            *(_delete(engine, f"{tenant_id}/{path}", delete_timeout_s) for path in some)
        )
        deleted = [path for path, is_gone in zip(some, gone, strict=True) if is_gone]
        forget = functools.partial(forget_files, paths=deleted)
        done += await engine.db.transact(tenant_id, forget)
    return done


async def _delete(engine: Engine, key: str, timeout_s: float) -> bool:
    """Delete one file within the timeout; return whether it is deleted."""
    try:
        async with asyncio.timeout(timeout_s):
            await engine.files.delete(key)
    except (StorageUnavailable, TimeoutError) as error:
        # The message may name the file and so the project: user text stays out of logs.
        logger.warning("could not delete a file of a deleted project yet: %s", type(error).__name__)
        return False
    return True


async def delete_left_behind(engine: Engine, *, delete_timeout_s: float = DELETE_TIMEOUT_S) -> int:
    """Delete the remaining files of deleted projects, for all tenants; return how many files."""
    done = 0
    while True:
        taken = await take_files(engine.db, again_after=AGAIN_AFTER, limit=DELETIONS_AT_ONCE)
        of_tenants: dict[UUID, list[str]] = defaultdict(list)
        for tenant_id, path in taken:
            of_tenants[tenant_id].append(path)
        for tenant_id, paths in of_tenants.items():
            done += await delete_files(engine, tenant_id, paths, delete_timeout_s=delete_timeout_s)
        if len(taken) < DELETIONS_AT_ONCE:
            return done
