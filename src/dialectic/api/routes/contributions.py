"""Contributions, documents and jobs over HTTP: read, edit, rate, write anew."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID, uuid5

from fastapi import APIRouter, Header, Path, Query, Response

from dialectic.api.dependencies import JSON, Reading, Spending, Writing
from dialectic.api.fields import build_etag, matches
from dialectic.api.openapi import more_problems
from dialectic.api.pagination import Paging, list_page, list_whole
from dialectic.api.routes.projects import build_resource, describe_resource
from dialectic.api.routes.sessions import SessionId
from dialectic.app import contributions, feedback
from dialectic.contract.base import Page, ResponseBody, Slug
from dialectic.contract.contributions import (
    Contribution,
    ContributionSummary,
    ContributionVersion,
    EditRequest,
    Job,
    RatingRequest,
)
from dialectic.contract.projects import Document, Resource
from dialectic.contract.sessions import CreatedJobs, SavedFeedback
from dialectic.db.pool import Connection
from dialectic.db.tables import lists, records
from dialectic.errors import PreconditionFailed

router = APIRouter(tags=["contributions"])
documents = APIRouter(tags=["documents"])
ContributionId = Annotated[UUID, Path(description="The id of a contribution.")]
DocumentId = Annotated[UUID, Path(description="The id of a document or a resource.")]
IfNoneMatch = Annotated[
    str | None,
    Header(description="`ETag`s you have: 304 if it is still one of them.", max_length=1000),
]
IfMatch = Annotated[
    str | None, Header(description="The `ETag` you have read: 412 if it changed.", max_length=1000)
]
UNCHANGED: dict[int | str, dict[str, Any]] = {304: {"description": "It is as you have it."}}
MARKDOWN: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/markdown": {"schema": {"type": "string"}}}, "description": "The text."}
}


def build_line(row: dict[str, Any]) -> ContributionSummary:
    """Build the view of a contribution in a list."""
    return ContributionSummary(
        **_columns(row), session_id=row["session_id"], size_bytes=row["size_bytes"]
    )


def _columns(row: dict[str, Any]) -> dict[str, Any]:
    same = (
        "id", "stage", "is_incomplete", "is_intermediate", "is_stale", "flags", "finish_reason",
        "created_at",
    )  # fmt: skip
    return {
        **{key: row[key] for key in same},
        "model": row["model_name"],
        "iteration": row["iteration_number"],
        "type": row["contribution_type"],
        "path": row["storage_path"],
        "version": row["edit_version"],
        "input_tokens": row["tokens_used_input"],
        "output_tokens": row["tokens_used_output"],
    }


def build_view(row: dict[str, Any]) -> Contribution:
    """Build the view of a contribution."""
    return Contribution(
        **_columns(row),
        session_id=row["session_id"],
        job_id=row["job_id"],
        original_id=row["original_model_contribution_id"] or row["id"],
        is_latest=row["is_latest_edit"],
        is_by_user=row["user_id"] is not None,
        about_id=row["target_contribution_id"],
        source_ids=row["source_contribution_ids"],
        content=row["content"],
    )


def build_job(row: dict[str, Any]) -> Job:
    """Build the view of a job."""
    same = ("id", "status", "status_reason", "created_at", "started_at", "completed_at")
    return Job(
        **{key: row[key] for key in same},
        parent_id=row["parent_job_id"],
        type=row["job_type"],
        stage=row["stage_slug"],
        iteration=row["iteration_number"],
        model=row["model_name"],
        attempts=row["attempt_count"],
        retries=row["retry_count"],
        errors=row["error_details"],
    )


def answer_if_new(view: ResponseBody, if_none_match: str | None) -> Response:
    """Answer with a thing and the name of its state; with nothing if the client has that state."""
    body = view.model_dump_json(by_alias=True).encode()
    etag = build_etag(body)
    headers = {"ETag": etag, "Cache-Control": "private, no-cache"}
    if matches(if_none_match, etag):
        return Response(status_code=304, headers=headers)
    return Response(body, headers=headers, media_type=JSON)


@router.get("/sessions/{session_id}/contributions")
async def list_contributions(
    session_id: SessionId,
    context: Reading,
    paging: Paging,
    stage: Annotated[Slug | None, Query(description="Of this stage only.")] = None,
) -> Page[ContributionSummary]:
    """List a session's contributions in their newest versions, as they were written."""
    return await list_page(
        context,
        "contributions",
        paging,
        lambda connection, page: lists.list_contributions(connection, page, session_id, stage),
        build_line,
        within=lambda connection: records.load_session(connection, session_id),
    )


@router.get("/contributions/{contribution_id}", response_model=Contribution, responses=UNCHANGED)
async def get_contribution(
    contribution_id: ContributionId, context: Reading, if_none_match: IfNoneMatch = None
) -> Response:
    """Read one version of a contribution."""
    row = await context.transact(lambda c: contributions.load_in(c, contribution_id))
    return answer_if_new(build_view(row), if_none_match)


@router.get("/contributions/{contribution_id}/content", response_class=Response, responses=MARKDOWN)
async def read_contribution(contribution_id: ContributionId, context: Reading) -> Response:
    """Read the text of a contribution alone."""
    row = await context.transact(lambda c: contributions.load_in(c, contribution_id))
    return Response(row["content"], media_type="text/markdown; charset=utf-8")


@router.get("/contributions/{contribution_id}/versions")
async def list_versions(
    contribution_id: ContributionId, context: Reading
) -> Page[ContributionVersion]:
    """List all versions of a contribution, the first one first."""

    async def work(connection: Connection) -> lists.Rows:
        row = await contributions.load_in(connection, contribution_id)
        first_id = row["original_model_contribution_id"] or row["id"]
        return await lists.list_versions(connection, first_id)

    return list_whole(
        [
            ContributionVersion(
                id=row["id"],
                version=row["edit_version"],
                is_latest=row["is_latest_edit"],
                is_by_user=row["is_by_user"],
                created_at=row["created_at"],
            )
            for row in await context.transact(work)
        ]
    )


@router.put(
    "/contributions/{contribution_id}",
    response_model=Contribution,
    responses=more_problems(412),
)
async def edit_contribution(
    contribution_id: ContributionId, body: EditRequest, act: Writing, if_match: IfMatch = None
) -> Response:
    """Put your version in the place of a contribution; the old one is kept."""
    project_ids: list[UUID] = []

    async def work(connection: Connection, effect_id: UUID) -> Contribution:
        await contributions.lock_in(connection, contribution_id)
        seen = build_view(await contributions.load_in(connection, contribution_id))
        etag = build_etag(seen.model_dump_json(by_alias=True).encode())
        if if_match is not None and not matches(if_match, etag):
            raise PreconditionFailed
        new_id = uuid5(effect_id, "contribution")
        edited = await contributions.edit_in(
            act.engine, connection, act.account, contribution_id, body.content, new_id
        )
        project_ids.append(edited.project_id)
        return build_view(await contributions.load_in(connection, edited.id))

    return await act.answer(work, has_etag=True, then=lambda: act.publish(project_ids))


@router.post(
    "/contributions/{contribution_id}/regenerate",
    status_code=202,
    response_model=CreatedJobs,
    responses=more_problems(402),
)
async def regenerate_contribution(contribution_id: ContributionId, act: Spending) -> Response:
    """Let the same model write a contribution anew, from what it reads now."""
    asked = contributions.Regeneration()

    async def work(connection: Connection, _effect_id: UUID) -> CreatedJobs:
        job_id = await contributions.regenerate_in(connection, act.account, contribution_id, asked)
        return CreatedJobs(job_ids=[job_id])

    return await act.answer(work, status=202)


@router.post(
    "/contributions/{contribution_id}/rating", status_code=201, response_model=SavedFeedback
)
async def rate_contribution(
    contribution_id: ContributionId, body: RatingRequest, act: Writing
) -> Response:
    """Rate a contribution; later prompts tell it."""
    project_ids: list[UUID] = []

    async def work(connection: Connection, effect_id: UUID) -> SavedFeedback:
        rated = feedback.Rating(contribution_id, body.rating, uuid5(effect_id, "rating"))
        kept = await feedback.rate_in(act.engine, connection, act.account, rated)
        project_ids.append(kept.project_id)
        return SavedFeedback(path=kept.path)

    return await act.answer(work, status=201, then=lambda: act.publish(project_ids))


@router.get("/sessions/{session_id}/jobs")
async def list_jobs(session_id: SessionId, context: Reading, paging: Paging) -> Page[Job]:
    """List a session's jobs, the oldest first."""
    return await list_page(
        context,
        "jobs",
        paging,
        lambda connection, page: lists.list_jobs(connection, page, session_id),
        build_job,
        within=lambda connection: records.load_session(connection, session_id),
    )


@documents.get("/sessions/{session_id}/documents")
async def list_documents(session_id: SessionId, context: Reading, paging: Paging) -> Page[Resource]:
    """List what stands beside a session's contributions: documents cut out of them, prompts."""
    return await list_page(
        context,
        "documents",
        paging,
        lambda connection, page: lists.list_documents(connection, page, session_id),
        build_resource,
        within=lambda connection: records.load_session(connection, session_id),
    )


@documents.get("/documents/{document_id}", response_model=Document, responses=UNCHANGED)
async def get_document(
    document_id: DocumentId, context: Reading, if_none_match: IfNoneMatch = None
) -> Response:
    """Read a document or a resource."""
    row = await context.transact(lambda c: lists.load_document(c, document_id))
    view = Document(**describe_resource(row), content=row["content"])
    return answer_if_new(view, if_none_match)


@documents.get("/documents/{document_id}/content", response_class=Response, responses=MARKDOWN)
async def read_document(document_id: DocumentId, context: Reading) -> Response:
    """Read the text of a document alone."""
    row = await context.transact(lambda c: lists.load_document(c, document_id))
    return Response(row["content"], media_type="text/markdown; charset=utf-8")
