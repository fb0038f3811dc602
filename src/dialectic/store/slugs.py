"""The folder that a project gets: no two projects of a tenant share one. Knows nothing of files."""

from __future__ import annotations

from uuid import UUID, uuid4

from dialectic.domain.slug import disambiguate
from dialectic.store.database import Connection
from dialectic.store.records import SQL


async def choose_slug(connection: Connection, tenant_id: UUID, slug: str, project_id: UUID) -> str:
    """Choose the slug itself if it is free, else one like it; it is held until the commit."""
    chosen, unique = slug, project_id
    while True:
        await connection.execute(SQL["lock_slug"], tenant_id, chosen)
        if not await connection.fetchval(SQL["slug_is_taken"], chosen):
            return chosen
        chosen, unique = disambiguate(slug, unique), uuid4()
