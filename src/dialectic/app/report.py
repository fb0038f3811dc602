"""A session as one page: its plan, and its report with all documents, lineage and costs."""

from __future__ import annotations

import asyncio
import functools
from dataclasses import dataclass
from uuid import UUID

from dialectic.app import accounts, provenance, rulings
from dialectic.app.lineage import load_scene
from dialectic.app.transaction import Tenant
from dialectic.contract.claims import Claim
from dialectic.contract.feedback import Ruling
from dialectic.contract.sessions import SessionPlan
from dialectic.core.access import Caller
from dialectic.core.documents.plan_files import PLAN_PAGE
from dialectic.core.documents.plan_page import PlanPage
from dialectic.core.documents.plan_sources import list_finished
from dialectic.core.documents.report import CostLine, ReportSource, build_report
from dialectic.core.documents.report_map import (
    ReportClaim,
    ReportCritic,
    ReportFate,
    ReportMap,
)
from dialectic.core.documents.report_names import hide_models
from dialectic.core.money.price import format_credits
from dialectic.core.transfer.rows import ProjectRows, ResourceRow
from dialectic.db.pool import Connection
from dialectic.db.tables import records, transfer
from dialectic.engine import Engine
from dialectic.errors import NotFound
from dialectic.ledger import audit
from dialectic.publishing.plan_page import assemble_page, find_cost, read_cost
from dialectic.publishing.snapshot import take_snapshot


async def load_plan(tenant: Tenant, session_id: UUID) -> SessionPlan:
    """Assemble the plan of a session's last finished iteration."""
    engine, tenant_id = tenant.engine, tenant.account.tenant_id
    rows = await _load_rows(engine, tenant_id, session_id)
    page = await _find_page(engine, tenant_id, rows, session_id)
    if page is None:
        raise NotFound(
            f"No iteration of session {session_id} is finished, so it has no plan yet.",
            reason="no_plan",
            subject=str(session_id),
        )
    stored = _find_stored(rows, session_id)
    return SessionPlan(
        session_id=session_id,
        project_id=rows.project.id,
        iteration_number=page.iteration_number,
        path=None if stored is None else stored.storage_path,
        notices=list(page.notices),
        missing=[str(part) for part in page.missing],
        content=page.text,
    )


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """What a report tells: also drafts, and the names of models or only their seats."""

    drafts: bool = True
    names: bool = True


ALL = ReportOptions()


async def build_session_report(
    engine: Engine, tenant_id: UUID, session_id: UUID, options: ReportOptions = ALL
) -> str:
    """Build the report of a session as one HTML file, from the session as it is now."""
    rows = await _load_rows(engine, tenant_id, session_id)
    session = next(row for row in rows.dialectic_sessions if row.id == session_id)
    page = await _find_page(engine, tenant_id, rows, session_id)
    own = [row.id for row in rows.dialectic_contributions if row.session_id == session_id]
    read = functools.partial(transfer.read_texts, row_ids=own)
    texts = await engine.db.transact(tenant_id, read)
    look = functools.partial(audit.report_costs, session_id=session_id)
    costs = [
        CostLine(
            stage=cost.stage_slug or "",
            model=cost.model_name,
            purpose=cost.purpose,
            calls=cost.calls,
            input_tokens=cost.input_tokens,
            output_tokens=cost.output_tokens,
            charged=format_credits(cost.charged_credits, is_play=cost.is_play),
        )
        for cost in await engine.db.transact(tenant_id, look)
    ]
    total = await find_cost(engine, tenant_id, session_id) or _read_stored_cost(rows, session_id)
    claims = await _load_map(engine, tenant_id, session_id)
    source = ReportSource(
        rows, session, page, texts, costs, total, has_drafts=options.drafts, claims=claims
    )
    # In a thread: rendering hundreds of documents would block the event loop.
    return await asyncio.to_thread(_build, source, options)


async def _load_map(engine: Engine, tenant_id: UUID, session_id: UUID) -> ReportMap:
    """Compare the texts of the last iteration, for as long as that takes."""
    tenant = await _open_owner(engine, tenant_id, session_id)
    found = await provenance.list_claims(tenant, session_id, wait_s=None)
    made = {one.subject_id: one for one in await tenant.run(rulings.list_rulings, session_id)}
    scene = await tenant.run(load_scene, session_id)
    order = [stage.slug for stage in scene.process.order]
    judged = {fate.stage for claim in found.claims for fate in claim.fates}
    birth = found.claims[0].stage if found.claims else ""
    critics = next((slug for slug in order if slug not in judged | {birth}), "")
    return ReportMap(
        claims=[_build_claim(claim, made.get(claim.id)) for claim in found.claims],
        birth=birth,
        critics=critics if any(claim.critics for claim in found.claims) else "",
        stages=[slug for slug in order if slug in judged],
        titles={stage.slug: stage.display_name for stage in scene.process.order},
    )


def _build_claim(claim: Claim, ruling: Ruling | None) -> ReportClaim:
    told = "" if ruling is None else f"{ruling.verdict.value}: {ruling.text}".rstrip(": ")
    return ReportClaim(
        seat=claim.seat,
        document_id=claim.document_id,
        text=claim.text,
        critics=[
            ReportCritic(one.seat, one.document_id, one.verdict, one.note) for one in claim.critics
        ],
        fates=[
            ReportFate(one.stage, one.fate, next(iter(one.document_ids), None), one.text)
            for one in claim.fates
        ],
        final=claim.final,
        ruling=told,
    )


async def _open_owner(engine: Engine, tenant_id: UUID, session_id: UUID) -> Tenant:
    """Open the account of the session's owner: a shared report has no caller of its own."""

    async def find(connection: Connection) -> UUID:
        session = await records.load_session(connection, session_id)
        user_id: UUID = session["user_id"]
        return user_id

    owner = Caller(tenant_id, await engine.db.transact(tenant_id, find), frozenset(), token_id=None)
    return Tenant(engine, await accounts.load_account(engine.db, owner))


def _build(source: ReportSource, options: ReportOptions) -> str:
    return build_report(source if options.names else hide_models(source))


async def _load_rows(engine: Engine, tenant_id: UUID, session_id: UUID) -> ProjectRows:
    async def find(connection: Connection) -> UUID:
        session = await records.load_session(connection, session_id)
        project_id: UUID = session["project_id"]
        return project_id

    project_id = await engine.db.transact(tenant_id, find)
    return (await take_snapshot(engine, tenant_id, project_id)).rows


async def _find_page(
    engine: Engine, tenant_id: UUID, rows: ProjectRows, session_id: UUID
) -> PlanPage | None:
    for finished in list_finished(rows):
        if finished.session.id == session_id:
            known = _read_stored_cost(rows, session_id)
            cost = await find_cost(engine, tenant_id, session_id) or known
            return await assemble_page(engine, tenant_id, rows, finished, cost)
    return None


def _find_stored(rows: ProjectRows, session_id: UUID) -> ResourceRow | None:
    """Find the page in the project's folder, if it is that of this session."""
    for row in rows.dialectic_project_resources:
        if row.resource_type == PLAN_PAGE and row.session_id == session_id:
            return row
    return None


def _read_stored_cost(rows: ProjectRows, session_id: UUID) -> str | None:
    stored = _find_stored(rows, session_id)
    return None if stored is None else read_cost(stored.notes)
