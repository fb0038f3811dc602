"""Write the reports of an iteration as files: coverage, dissent, and the sources of documents.

The loop that describes projects calls this after a stage has ended, and so do the commands that
end with a description; never the commit of a turn. Equal work gives equal bytes: no times, no
chance. What was written is known by a hash of all that it depends on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from uuid import UUID

from dialectic.app import dissents, provenance
from dialectic.app.lineage import Scene, load_scene
from dialectic.app.ruling_notices import tell_broken
from dialectic.app.transaction import Tenant, Transaction
from dialectic.contract.base import ResponseBody
from dialectic.contract.dissents import Dissents
from dialectic.contract.provenance import Coverage, Provenance
from dialectic.core.documents.file_paths import (
    ContributionFile,
    IterationFolder,
    IterationPlace,
    IterationReport,
    SourcesFile,
    build_path,
    parse_path,
)
from dialectic.core.documents.offline_notice import list_notices
from dialectic.core.slug import short_id
from dialectic.db.pool import Connection
from dialectic.db.tables import provenance as table
from dialectic.db.tables.files import MARKDOWN, File, put_files
from dialectic.db.tables.provenance import Reported, Version
from dialectic.db.tables.records import Account
from dialectic.engine import Engine
from dialectic.errors import DialecticError
from dialectic.publishing.publish import publish_waiting

logger = logging.getLogger(__name__)

JSON = "application/json"
WRITTEN = "files"


async def write_reports(engine: Engine, tenant_id: UUID, project_id: UUID) -> None:
    """Write the reports of a project's iterations whose documents or rulings have changed.

    A report that cannot be built does not keep the project from being described.
    """

    async def look(connection: Connection) -> list[Reported]:
        return await table.list_reported(connection, project_id)

    for one in await engine.db.transact(tenant_id, look):
        tenant = Tenant(engine, Account(tenant_id, one.user_id, one.wallet_id))
        try:
            await write_iteration(tenant, project_id, one.slug, one)
        except DialecticError as error:
            logger.warning("could not write the reports of an iteration: %s", error.code)
        except (LookupError, ValueError):
            logger.exception("the reports of session %s cannot be built", one.session_id)


async def write_iteration(tenant: Tenant, project_id: UUID, slug: str, one: Reported) -> list[str]:
    """Write the reports of one iteration; list the files that have changed."""
    scene = await tenant.run(load_scene, one.session_id, one.iteration_number)
    if scene.find_target() is None:
        return []
    key = scene.build_key(scene.list_theses()[0].id, WRITTEN, list(scene.versions))
    if await tenant.run(provenance.find, key) is not None:
        return []
    documents = [each for each in scene.list_whole() if not each.is_intermediate]
    coverage, sources = await provenance.report_all(tenant, scene, documents)
    known = await dissents.list_dissents(tenant, one.session_id, one.iteration_number, wait_s=None)
    files = await asyncio.to_thread(_build_files, scene, slug, coverage, sources, known)

    async def put(tx: Transaction) -> list[str]:
        changed = await put_files(tx.connection, tx.account.tenant_id, project_id, files)
        await tell_broken(tx, one.session_id, known.dissents)
        await provenance.save(tx, key, "{}")
        return changed

    changed = await tenant.run(put)
    await publish_waiting(tenant.engine, tenant.account.tenant_id, changed)
    return changed


def _build_files(
    scene: Scene,
    slug: str,
    coverage: Coverage,
    sources: Mapping[UUID, Provenance],
    known: Dissents,
) -> list[File]:
    from dialectic.provenance.dissent_page import build_dissent_page
    from dialectic.provenance.pages import build_coverage_page

    context = scene.context
    folder = IterationFolder(slug, short_id(context.session_id), context.iteration)

    def name(report: IterationReport) -> str:
        return build_path(IterationPlace(folder, report))

    notices = list_notices((one.model_name for one in scene.versions), context.request)

    def write_page(report: IterationReport, page: str) -> File:
        title, _, rest = page.partition("\n")
        said = "".join(f"\n> {notice}\n" for notice in notices)
        return _write_text(name(report), f"{title}\n{said}{rest}")

    return [
        write_page(IterationReport.COVERAGE, build_coverage_page(coverage)),
        _write_json(name(IterationReport.COVERAGE_WHOLE), coverage),
        write_page(IterationReport.DISSENT, build_dissent_page(known) + "\n"),
        *_write_sources(list(scene.versions), sources),
    ]


def _write_sources(versions: Sequence[Version], sources: Mapping[UUID, Provenance]) -> list[File]:
    """Write where the passages of each finished document come from, next to the document."""
    found = []
    for one in versions:
        place = parse_path(one.storage_path)
        if one.id in sources and isinstance(place, ContributionFile):
            path = build_path(SourcesFile(place.folder, place.contribution))
            found.append(_write_json(path, sources[one.id]))
    return found


def _write_text(path: str, text: str) -> File:
    return File(path, text.encode("utf-8", "replace"), MARKDOWN)


def _write_json(path: str, body: ResponseBody) -> File:
    return File(path, body.model_dump_json(indent=1).encode("utf-8", "replace") + b"\n", JSON)
