"""HTTP routes of contributions, documents and jobs: read, edit, rate, regenerate."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Header, Path, Query, Response

from dialectic.api.dependencies import JSON, Reading, Spending, Writing
from dialectic.api.fields import build_etag, matches
from dialectic.api.openapi import more_problems
from dialectic.api.pagination import Paging, list_page, list_whole
from dialectic.api.routes.sessions import SessionId
from dialectic.app import contributions, feedback
from dialectic.app.transaction import Transaction
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
from dialectic.db.tables import lists, records
from dialectic.errors import PreconditionFailed

router = APIRouter(tags=["contributions"])
documents = APIRouter(tags=["documents"])
ContributionId = Annotated[UUID, Path(description="The id of a contribution.")]
DocumentId = Annotated[UUID, Path(description="The id of a document or a resource.")]
IfNoneMatch = Annotated[
    str | None,
    Header(
        description="The `ETag`s you have. The response is 304 if one is current.", max_length=1000
    ),
]
IfMatch = Annotated[
    str | None, Header(description="The `ETag` you read; 412 if it has changed.", max_length=1000)
]
UNCHANGED: dict[int | str, dict[str, Any]] = {
    304: {"description": "Not changed since you read it."}
}
MARKDOWN: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/markdown": {"schema": {"type": "string"}}}, "description": "The text."}
}


def answer_if_new(view: ResponseBody, if_none_match: str | None) -> Response:
    """Respond with a view and its `ETag`, or with 304 if the client has this version."""
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
    stage: Annotated[Slug | None, Query(description="Only this stage.")] = None,
) -> Page[ContributionSummary]:
    """List the latest version of each contribution of a session, oldest first."""
    return await list_page(
        context,
        "contributions",
        paging,
        lambda connection, page: lists.list_contributions(connection, page, session_id, stage),
        ContributionSummary.model_validate,
        within=lambda tx: records.load_session(tx.connection, session_id),
    )


@router.get("/contributions/{contribution_id}", response_model=Contribution, responses=UNCHANGED)
async def get_contribution(
    contribution_id: ContributionId, context: Reading, if_none_match: IfNoneMatch = None
) -> Response:
    """Show one version of a contribution."""
    found = await context.run(contributions.get, contribution_id)
    return answer_if_new(found, if_none_match)


@router.get("/contributions/{contribution_id}/content", response_class=Response, responses=MARKDOWN)
async def read_contribution(contribution_id: ContributionId, context: Reading) -> Response:
    """Read only the text of a contribution."""
    found = await context.run(contributions.get, contribution_id)
    return Response(found.content, media_type="text/markdown; charset=utf-8")


@router.get("/contributions/{contribution_id}/versions")
async def list_versions(
    contribution_id: ContributionId, context: Reading
) -> Page[ContributionVersion]:
    """List all versions of a contribution, oldest first."""

    async def read(tx: Transaction) -> lists.Rows:
        found = await contributions.get(tx, contribution_id)
        return await lists.list_versions(tx.connection, found.original_id)

    return list_whole([ContributionVersion.model_validate(row) for row in await context.run(read)])


@router.put(
    "/contributions/{contribution_id}",
    response_model=Contribution,
    responses=more_problems(412),
)
async def edit_contribution(
    contribution_id: ContributionId, body: EditRequest, act: Writing, if_match: IfMatch = None
) -> Response:
    """Replace a contribution with your version. The old version is kept."""

    async def edit(tx: Transaction) -> Contribution:
        await contributions.lock(tx, contribution_id)
        seen = await contributions.get(tx, contribution_id)
        etag = build_etag(seen.model_dump_json(by_alias=True).encode())
        if if_match is not None and not matches(if_match, etag):
            raise PreconditionFailed
        edited = await contributions.edit(tx, contribution_id, body.content)
        return await contributions.get(tx, edited.id)

    return await act.answer(edit, has_etag=True)


@router.post(
    "/contributions/{contribution_id}/regenerate",
    status_code=202,
    response_model=CreatedJobs,
    responses=more_problems(402),
)
async def regenerate_contribution(contribution_id: ContributionId, act: Spending) -> Response:
    """Regenerate a contribution with the same model and the current inputs."""

    async def regenerate(tx: Transaction) -> CreatedJobs:
        return CreatedJobs(job_ids=[await contributions.regenerate(tx, contribution_id)])

    return await act.answer(regenerate, status=202)


@router.post(
    "/contributions/{contribution_id}/rating", status_code=201, response_model=SavedFeedback
)
async def rate_contribution(
    contribution_id: ContributionId, body: RatingRequest, act: Writing
) -> Response:
    """Rate a contribution. Later prompts include the rating."""
    return await act.answer(lambda tx: feedback.rate(tx, contribution_id, body.rating), status=201)


@router.get("/sessions/{session_id}/jobs")
async def list_jobs(session_id: SessionId, context: Reading, paging: Paging) -> Page[Job]:
    """List a session's jobs, oldest first."""
    return await list_page(
        context,
        "jobs",
        paging,
        lambda connection, page: lists.list_jobs(connection, page, session_id),
        Job.model_validate,
        within=lambda tx: records.load_session(tx.connection, session_id),
    )


@documents.get("/sessions/{session_id}/documents")
async def list_documents(session_id: SessionId, context: Reading, paging: Paging) -> Page[Resource]:
    """List a session's other documents: those extracted from contributions, and prompts."""
    return await list_page(
        context,
        "documents",
        paging,
        lambda connection, page: lists.list_documents(connection, page, session_id),
        Resource.model_validate,
        within=lambda tx: records.load_session(tx.connection, session_id),
    )


@documents.get("/documents/{document_id}", response_model=Document, responses=UNCHANGED)
async def get_document(
    document_id: DocumentId, context: Reading, if_none_match: IfNoneMatch = None
) -> Response:
    """Show a document or a resource."""
    row = await context.transact(lambda c: lists.load_document(c, document_id))
    return answer_if_new(Document.model_validate(row), if_none_match)


@documents.get("/documents/{document_id}/content", response_class=Response, responses=MARKDOWN)
async def read_document(document_id: DocumentId, context: Reading) -> Response:
    """Read only the text of a document."""
    row = await context.transact(lambda c: lists.load_document(c, document_id))
    return Response(row["content"], media_type="text/markdown; charset=utf-8")
