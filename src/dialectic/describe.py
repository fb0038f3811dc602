"""`project_readme.md` and `project_settings.json`: what a reader of a project's folder opens first.

They are made of the project's rows and can always be made again. The end of a stage makes them due,
in its own commit: their rows then hold a ticket in the place of bytes. `publish` carries them to
storage like any other file, only that their bytes are made here and then.
"""

from __future__ import annotations

import asyncio
from uuid import UUID

from dialectic.domain.bundle import readme_path, settings_path
from dialectic.domain.readme import build_readme
from dialectic.engine import Engine
from dialectic.errors import Conflict
from dialectic.snapshot import PlacedText, place_texts, read_file, take_snapshot
from dialectic.store.records import File

TRIES = 3


async def build_descriptions(engine: Engine, tenant_id: UUID, project_id: UUID) -> list[File]:
    """Build both files as the project is now; begin again where a file is written meanwhile."""
    for _ in range(TRIES - 1):
        try:
            return await _build_once(engine, tenant_id, project_id)
        except Conflict:
            continue
    return await _build_once(engine, tenant_id, project_id)


async def _build_once(engine: Engine, tenant_id: UUID, project_id: UUID) -> list[File]:
    snapshot = await take_snapshot(engine, tenant_id, project_id)
    placed: dict[UUID, PlacedText] = {}
    for file in snapshot.files:
        found = snapshot.place_by_hash(file)
        if found is None:
            data = await read_file(engine, tenant_id, file)
            found = snapshot.find_texts(file["path"], data)
        placed |= found
    rows = await place_texts(engine, tenant_id, snapshot.rows, placed)
    slug = rows.project.slug
    readme = await asyncio.to_thread(build_readme, rows)
    return [
        File(readme_path(slug), readme.encode(), "text/markdown"),
        File(settings_path(slug), await asyncio.to_thread(rows.as_bytes), "application/json"),
    ]
