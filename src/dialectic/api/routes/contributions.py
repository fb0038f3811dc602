"""HTTP routes of contributions, documents and jobs: read, edit, rate, regenerate."""

from __future__ import annotations

from functools import partial
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Query, Response

from dialectic.api.dependencies import (
    IfMatch,
    IfNoneMatch,
    Reading,
    Spending,
    Writing,
    build_etag,
    matches,
    render,
    respond_if_new,
)
from dialectic.api.openapi import UNCHANGED, describe_response, more_problems
from dialectic.api.pagination import Listing, list_whole
from dialectic.api.routes.sessions import SessionId
from dialectic.app import contributions, feedback
from dialectic.app.transaction import Transaction
from dialectic.contract.base import Page, Slug
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
MARKDOWN = "text/markdown"
CONTENT = describe_response(MARKDOWN, "The text.")


@router.get("/sessions/{session_id}/contributions")
async def list_contributions(
    session_id: SessionId,
    listing: Listing,
    stage: Annotated[Slug | None, Query(description="Only this stage.")] = None,
) -> Page[ContributionSummary]:
    """List the latest version of each contribution of a session, oldest first."""
    fetch = partial(lists.list_contributions, stage=stage)
    return await listing.page_of(
        records.load_session, session_id, "contributions", fetch, ContributionSummary.model_validate
    )


@router.get("/contributions/{contribution_id}", response_model=Contribution, responses=UNCHANGED)
async def get_contribution(
    contribution_id: ContributionId, context: Reading, if_none_match: IfNoneMatch = None
) -> Response:
    """Show one version of a contribution."""
    found = await context.run(contributions.get, contribution_id)
    return respond_if_new(found, if_none_match)


@router.get("/contributions/{contribution_id}/content", response_class=Response, responses=CONTENT)
async def read_contribution(contribution_id: ContributionId, context: Reading) -> Response:
    """Read only the text of a contribution."""
    found = await context.run(contributions.get, contribution_id)
    return Response(found.content, media_type=f"{MARKDOWN}; charset=utf-8")


@router.get("/contributions/{contribution_id}/versions")
async def list_versions(
    contribution_id: ContributionId, context: Reading
) -> Page[ContributionVersion]:
    """List all versions of a contribution, oldest first."""
    return list_whole(await context.run(contributions.list_versions, contribution_id))


@router.put(
    "/contributions/{contribution_id}",
    response_model=Contribution,
    responses=more_problems(412),
)
async def edit_contribution(
    contribution_id: ContributionId, body: EditRequest, write: Writing, if_match: IfMatch = None
) -> Response:
    """Replace a contribution with your version. The old version is kept."""

    async def edit(tx: Transaction) -> Contribution:
        await contributions.lock(tx, contribution_id)
        seen = await contributions.get(tx, contribution_id)
        if if_match is not None and not matches(if_match, build_etag(render(seen))):
            raise PreconditionFailed
        edited = await contributions.edit(tx, contribution_id, body.content)
        return await contributions.get(tx, edited.id)

    response = await write.answer(edit)
    response.headers["ETag"] = build_etag(bytes(response.body))
    return response


@router.post(
    "/contributions/{contribution_id}/regenerate",
    status_code=202,
    response_model=CreatedJobs,
    responses=more_problems(402),
)
async def regenerate_contribution(contribution_id: ContributionId, write: Spending) -> Response:
    """Regenerate a contribution with the same model and the current inputs."""

    async def regenerate(tx: Transaction) -> CreatedJobs:
        return CreatedJobs(job_ids=[await contributions.regenerate(tx, contribution_id)])

    return await write.answer(regenerate)


@router.post(
    "/contributions/{contribution_id}/rating", status_code=201, response_model=SavedFeedback
)
async def rate_contribution(
    contribution_id: ContributionId, body: RatingRequest, write: Writing
) -> Response:
    """Rate a contribution. Later prompts include the rating."""
    return await write.answer(feedback.rate, contribution_id, body.rating)


@router.get("/sessions/{session_id}/jobs")
async def list_jobs(session_id: SessionId, listing: Listing) -> Page[Job]:
    """List a session's jobs, oldest first."""
    return await listing.page_of(
        records.load_session, session_id, "jobs", lists.list_jobs, Job.model_validate
    )


@documents.get("/sessions/{session_id}/documents")
async def list_documents(session_id: SessionId, listing: Listing) -> Page[Resource]:
    """List a session's other documents: those extracted from contributions, and prompts."""
    return await listing.page_of(
        records.load_session, session_id, "documents", lists.list_documents, Resource.model_validate
    )


@documents.get("/documents/{document_id}", response_model=Document, responses=UNCHANGED)
async def get_document(
    document_id: DocumentId, context: Reading, if_none_match: IfNoneMatch = None
) -> Response:
    """Show a document or a resource."""
    row = await context.transact(lambda c: lists.load_document(c, document_id))
    return respond_if_new(Document.model_validate(row), if_none_match)


@documents.get("/documents/{document_id}/content", response_class=Response, responses=CONTENT)
async def read_document(document_id: DocumentId, context: Reading) -> Response:
    """Read only the text of a document."""
    row = await context.transact(lambda c: lists.load_document(c, document_id))
    return Response(row["content"], media_type=f"{MARKDOWN}; charset=utf-8")
