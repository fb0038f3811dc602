"""Where the passages of a document come from, and what became of the points of an iteration.

Loads what was read, compares it in a thread, and keeps what was found: nothing here calls a model,
embeds with a paid embedder or runs in the commit of a turn. A link says that two texts say the
same, never that something is true.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from dialectic.app.lineage import Scene, load_scene, load_scene_of
from dialectic.app.transaction import Tenant, Transaction
from dialectic.contract.base import ResponseBody
from dialectic.contract.claims import Claims, ClaimsState
from dialectic.contract.dissents import Dissents
from dialectic.contract.feedback import Ruling
from dialectic.contract.provenance import Coverage, Depth, FigureLedger, Provenance
from dialectic.core.points import Obedience
from dialectic.db.tables import provenance as table
from dialectic.db.tables.provenance import ReportKey, Version
from dialectic.provenance import METHOD
from dialectic.provenance.ruled_words import RuledWords

if TYPE_CHECKING:
    from dialectic.provenance.report import Report

Body = TypeVar("Body", bound=ResponseBody)
# How long a request waits for what is computed before it is told to ask again.
WAIT_S = 5.0


async def trace(tenant: Tenant, contribution_id: UUID, depth: Depth = "origin") -> Provenance:
    """Find where the passages of a document come from."""
    scene = await tenant.run(load_scene_of, contribution_id)

    def build(report: Report) -> Provenance:
        return report.build_provenance(report.get_place(contribution_id), depth)

    key = scene.build_key(contribution_id, depth, scene.list_closure([contribution_id]))
    return await _load_or_compute(tenant, scene, key, Provenance, build)


async def cover(
    tenant: Tenant, session_id: UUID, iteration: int | None = None, of: UUID | None = None
) -> Coverage:
    """Find what became of every point, objection and requirement of an iteration.

    It is judged by one document: the lead's of the last stage that merges, if none is named.
    """
    scene = await tenant.run(load_scene, session_id, iteration, of)
    target = of or scene.find_target()

    def build(report: Report) -> Coverage:
        place = None if target is None else report.get_place(target)
        return report.build_coverage(session_id, scene.context.iteration, place)

    wanted = [one.id for one in scene.versions if one.is_latest_edit and scene.is_origin(one)]
    closure = scene.list_closure([*wanted, *([] if target is None else [target])])
    key = None if target is None else scene.build_key(target, "coverage", closure)
    return await _load_or_compute(tenant, scene, key, Coverage, build, closure)


async def list_figures(
    tenant: Tenant, session_id: UUID, iteration: int | None = None, of: UUID | None = None
) -> FigureLedger:
    """List the figures of a document with the text that has each first; a part of its coverage."""
    found = await cover(tenant, session_id, iteration, of)
    return FigureLedger(
        session_id=session_id,
        iteration=found.iteration,
        method=found.method,
        versions=found.versions,
        of=found.of,
        figures=found.figures,
        made_up=sum(one.is_made_up for one in found.figures),
        differing=sum(bool(one.others) for one in found.figures),
    )


async def list_claims(
    tenant: Tenant, session_id: UUID, iteration: int | None = None, *, wait_s: float | None = WAIT_S
) -> Claims:
    """List the claims of an iteration's theses, with their critics and what became of them.

    What takes longer than `wait_s` goes on, and the answer says that it is being computed.
    """
    scene = (await tenant.run(load_scene, session_id, iteration)).without_rulings()
    theses = scene.list_theses()
    if not theses:
        return _build_claims(scene, ClaimsState.NONE)
    closure = scene.list_closure([one.id for one in scene.list_whole()])
    # Any document will do to keep it by; the theses are there first.
    key = scene.build_key(theses[0].id, "claims", closure)
    target = scene.find_target()

    def build(report: Report) -> Claims:
        place = None if target is None else report.get_place(target)
        stages = [stage.slug for stage in scene.process.order]
        claims, counts = report.build_claims(place, stages)
        return _build_claims(scene, ClaimsState.READY).model_copy(
            update={"claims": claims, "coverage": counts}
        )

    compute = functools.partial(_load_or_compute, tenant, scene, key, Claims, build, closure)
    found = await share(tenant, key, compute, wait_s)
    return found or _build_claims(scene, ClaimsState.COMPUTING)


def _build_claims(scene: Scene, state: ClaimsState) -> Claims:
    return Claims(
        session_id=scene.context.session_id,
        iteration=scene.context.iteration,
        state=state,
        method=METHOD,
        versions=scene.versions_known,
        claims=[],
        coverage=[],
    )


async def list_dissents(
    tenant: Tenant, session_id: UUID, iteration: int | None = None, *, wait_s: float | None = WAIT_S
) -> Dissents:
    """List what the documents of an iteration do not agree on, without what people decided."""
    scene = (await tenant.run(load_scene, session_id, iteration)).without_rulings()
    theses, number = scene.list_theses(), scene.context.iteration
    blank = Dissents(
        session_id=session_id,
        iteration=number,
        state=ClaimsState.NONE,
        method=METHOD,
        versions=scene.versions_known,
        dissents=[],
    )
    if not theses:
        return blank
    closure = scene.list_closure([one.id for one in scene.list_whole()])
    key = scene.build_key(theses[0].id, "dissents", closure)

    def build(report: Report) -> Dissents:
        stages = [stage.slug for stage in scene.process.order]
        found = report.build_dissents(stages, session_id, number)
        return blank.model_copy(update={"state": ClaimsState.READY, "dissents": found})

    compute = functools.partial(_load_or_compute, tenant, scene, key, Dissents, build, closure)
    found = await share(tenant, key, compute, wait_s)
    return found or blank.model_copy(update={"state": ClaimsState.COMPUTING})


async def judge_rulings(
    tenant: Tenant, session_id: UUID, made: Sequence[Ruling]
) -> dict[UUID, Obedience]:
    """Judge whether the lead's newest document follows the rulings that it was to follow."""
    scene = (await tenant.run(load_scene, session_id)).without_rulings()
    target = scene.find_target()
    words = [
        RuledWords(one.id, one.text or one.upheld or "", tuple(one.rejected or ()))
        for one in made
        if target is not None and scene.is_after(scene.by_id[target], one.iteration, one.stage)
    ]
    if target is None or not words:
        return {}
    members = scene.list_closure([target])
    contents = await tenant.run(_read, [one.id for one in members])
    texts = [*scene.build_texts(members, contents), *(t for one in words for t in one.list_texts())]

    def compute() -> dict[UUID, Obedience]:
        from dialectic.provenance.align import Alignment
        from dialectic.provenance.obedience import judge_obedience
        from dialectic.provenance.score import limit_threads
        from dialectic.provenance.texts import build_lineage

        with limit_threads():
            alignment = Alignment(build_lineage(texts))
            place = alignment.lineage.find(target)
            assert place is not None, "the document is one of the texts"
            return judge_obedience(alignment, place, words)

    return await asyncio.to_thread(compute)


async def share(
    tenant: Tenant, key: object, compute: Callable[[], Awaitable[Body]], wait_s: float | None
) -> Body | None:
    """Wait for what is computed, once for all who ask at a time; None if it takes longer."""
    running: dict[object, asyncio.Future[Body]] = tenant.engine.made.setdefault("reports", {})
    name = tenant.account.tenant_id, key
    if name not in running:
        running[name] = asyncio.ensure_future(compute())
        running[name].add_done_callback(lambda _: running.pop(name))
    task = running[name]
    done, _ = await asyncio.wait([task], timeout=wait_s)
    return task.result() if done else None


async def _load_or_compute(
    tenant: Tenant,
    scene: Scene,
    key: ReportKey | None,
    body: type[Body],
    build: Callable[[Report], Body],
    closure: Sequence[Version] | None = None,
) -> Body:
    """Load a report that was kept; else compute it in a thread and keep it."""
    if key is not None and (kept := await tenant.run(_find, key)) is not None:
        return body.model_validate_json(kept)
    members = closure or scene.list_closure([key.contribution_id] if key is not None else [])
    contents = await tenant.run(_read, [one.id for one in members])
    texts = scene.build_texts(members, contents)

    def compute() -> Body:
        from dialectic.provenance.align import Alignment
        from dialectic.provenance.chain import Chains
        from dialectic.provenance.report import Report
        from dialectic.provenance.score import limit_threads
        from dialectic.provenance.texts import build_lineage

        with limit_threads():
            return build(Report(Chains(Alignment(build_lineage(texts))), scene.versions_known))

    # In a thread: it takes seconds of processor time.
    made = await asyncio.to_thread(compute)
    if key is not None:
        await tenant.run(_save, key, made.model_dump_json())
    return made


async def _find(tx: Transaction, key: ReportKey) -> str | None:
    return await table.find_report(tx.connection, key)


async def _save(tx: Transaction, key: ReportKey, report: str) -> None:
    await table.save_report(tx.connection, key, report)


async def _read(tx: Transaction, ids: Sequence[UUID]) -> dict[UUID, str]:
    return await table.read_contents(tx.connection, ids)
