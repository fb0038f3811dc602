"""HTTP routes of contributions, documents and jobs: read, edit, rate, regenerate."""

from __future__ import annotations

from functools import partial
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Query, Response

from dialectic.api.dependencies import (
    JSON,
    IfMatch,
    IfNoneMatch,
    Reading,
    RequestContext,
    Spending,
    Writing,
    build_etag,
    matches,
    names_version,
    respond_if_new,
)
from dialectic.api.openapi import UNCHANGED, describe_response, more_problems
from dialectic.api.pagination import Listing, list_whole
from dialectic.api.routes.sessions import SessionId
from dialectic.app import contributions, feedback, rendering
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
from dialectic.contract.documents import DocumentDiff, RenderedDocument, RenderRequest
from dialectic.contract.projects import Document, Resource
from dialectic.contract.sessions import CreatedJobs, SavedFeedback
from dialectic.db.tables import lists, records

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
    user_id = listing.context.account.user_id
    fetch = partial(lists.list_contributions, stage=stage, user_id=user_id)
    return await listing.page_of(
        records.load_session, session_id, "contributions", fetch, ContributionSummary.model_validate
    )


@router.get("/contributions/{contribution_id}", response_model=Contribution, responses=UNCHANGED)
async def get_contribution(
    contribution_id: ContributionId, context: Reading, if_none_match: IfNoneMatch = None
) -> Response:
    """Show one version of a contribution."""
    found = await context.run(contributions.get, contribution_id)
    return respond_if_new(found, if_none_match, found.id)


@router.get("/contributions/{contribution_id}/content", response_class=Response, responses=CONTENT)
async def read_contribution(contribution_id: ContributionId, context: Reading) -> Response:
    """Read only the text of a contribution."""
    found = await context.run(contributions.get, contribution_id)
    return Response(found.content, media_type=f"{MARKDOWN}; charset=utf-8")


@router.get(
    "/contributions/{contribution_id}/html", response_model=RenderedDocument, responses=UNCHANGED
)
async def render_contribution(
    contribution_id: ContributionId, context: Reading, if_none_match: IfNoneMatch = None
) -> Response:
    """Show the text of a contribution as HTML that is safe to put into a page."""
    found = await context.run(contributions.get, contribution_id)
    return await _respond_html(context, found.content, if_none_match)


@router.get("/contributions/{contribution_id}/diff")
async def compare_contributions(
    contribution_id: ContributionId,
    context: Reading,
    other_id: Annotated[
        UUID, Query(alias="with", description="The older one: a version or a contribution.")
    ],
) -> DocumentDiff:
    """Show what changed from another contribution or version to this one, section by section."""
    before, after = [
        await context.run(contributions.get, one) for one in (other_id, contribution_id)
    ]
    return await rendering.compare(context.engine, before, after)


@router.get("/contributions/{contribution_id}/versions")
async def list_versions(
    contribution_id: ContributionId, context: Reading
) -> Page[ContributionVersion]:
    """List all versions of a contribution with their authors, oldest first."""
    return list_whole(await context.run(contributions.list_versions, contribution_id))


@router.put(
    "/contributions/{contribution_id}",
    response_model=Contribution,
    responses=more_problems(412),
)
async def edit_contribution(
    contribution_id: ContributionId, body: EditRequest, write: Writing, if_match: IfMatch = None
) -> Response:
    """Replace a contribution with your version. The old version is kept.

    With `If-Match`, only if the newest version is the one you read; otherwise `current` of the
    problem names the newest version and its author.
    """

    async def edit(tx: Transaction) -> Contribution:
        await contributions.lock(tx, contribution_id)
        if if_match is not None:
            is_seen = partial(names_version, if_match)
            await contributions.check_newest(tx, contribution_id, is_seen)
        edited = await contributions.edit(tx, contribution_id, body.content)
        return await contributions.get(tx, edited.id)

    response = await write.answer(edit)
    saved = bytes(response.body)
    response.headers["ETag"] = build_etag(saved, Contribution.model_validate_json(saved).id)
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
    """Rate a contribution; your earlier rating is replaced. Later prompts include the rating."""
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


@documents.get(
    "/documents/{document_id}/html", response_model=RenderedDocument, responses=UNCHANGED
)
async def render_document(
    document_id: DocumentId, context: Reading, if_none_match: IfNoneMatch = None
) -> Response:
    """Show the text of a document or a resource as HTML that is safe to put into a page."""
    row = await context.transact(lambda c: lists.load_document(c, document_id))
    return await _respond_html(context, row["content"], if_none_match)


@documents.post("/render", response_model=RenderedDocument)
async def render_text(body: RenderRequest, context: Reading) -> Response:
    """Show a text as HTML, as it would look in a document. Saves nothing."""
    tenant_id = context.account.tenant_id
    rendered = await rendering.render_preview(context.engine, tenant_id, body.text)
    return Response(rendered, media_type=JSON)


async def _respond_html(context: RequestContext, text: str, if_none_match: str | None) -> Response:
    """Respond with a rendered text, or with 304 before it is rendered."""
    headers = {
        "ETag": f'"{rendering.name_version(text)}"',
        "Cache-Control": "private, no-cache",
    }
    if matches(if_none_match, headers["ETag"]):
        return Response(status_code=304, headers=headers)
    rendered = await rendering.render(context.engine, text)
    return Response(rendered, headers=headers, media_type=JSON)


@documents.get("/documents/{document_id}/content", response_class=Response, responses=CONTENT)
async def read_document(document_id: DocumentId, context: Reading) -> Response:
    """Read only the text of a document."""
    row = await context.transact(lambda c: lists.load_document(c, document_id))
    return Response(row["content"], media_type=f"{MARKDOWN}; charset=utf-8")
