"""Delete the files of deleted projects from storage.

Deletion is idempotent, so any worker may finish what another process began. Knows nothing of the
content of files.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections import defaultdict
from collections.abc import Sequence
from uuid import UUID

from dialectic.core.transfer.bundle_format import list_archives
from dialectic.db.pool import Connection
from dialectic.db.tables import files
from dialectic.engine import Engine
from dialectic.errors import StorageUnavailable
from dialectic.publishing.publish import AGAIN_AFTER, LEFT_BEHIND_AFTER

logger = logging.getLogger(__name__)

# How many files are deleted concurrently, and the timeout of one.
AT_ONCE = 20
DELETE_TIMEOUT_S = 10.0


async def discard_files_in(connection: Connection, project_id: UUID, slug: str) -> list[str]:
    """Record the files of a project in the transaction that deletes it; return their paths.

    The caller may delete them after its commit; any worker deletes the rest a little later.
    """
    return await files.discard_files(
        connection,
        project_id,
        list_archives(slug),
        due_after=LEFT_BEHIND_AFTER,
        # A worker that writes a file holds it exclusively for this long.
        settled_after=AGAIN_AFTER,
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
    for first in range(0, len(paths), AT_ONCE):
        some = paths[first : first + AT_ONCE]
        gone = await asyncio.gather(
            *(_delete(engine, f"{tenant_id}/{path}", delete_timeout_s) for path in some)
        )
        deleted = [path for path, is_gone in zip(some, gone, strict=True) if is_gone]
        forget = functools.partial(files.forget_files, paths=deleted)
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
        taken = await files.take_files(engine.db, again_after=AGAIN_AFTER, limit=AT_ONCE)
        of_tenants: dict[UUID, list[str]] = defaultdict(list)
        for tenant_id, path in taken:
            of_tenants[tenant_id].append(path)
        for tenant_id, paths in of_tenants.items():
            done += await delete_files(engine, tenant_id, paths, delete_timeout_s=delete_timeout_s)
        if len(taken) < AT_ONCE:
            return done
