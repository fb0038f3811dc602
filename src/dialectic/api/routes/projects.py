"""HTTP routes of projects and their resources: create, list, change, delete, search."""

from __future__ import annotations

from functools import partial
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Query, Response

from dialectic.api.dependencies import Reading, Writing
from dialectic.api.pagination import Archived, Listing, Phases
from dialectic.app import lists as app_lists
from dialectic.app import projects, search
from dialectic.app.transaction import Transaction
from dialectic.contract.base import Page
from dialectic.contract.lists import ProjectLine, ProjectSort
from dialectic.contract.projects import (
    Project,
    ProjectChange,
    ProjectRequest,
    Resource,
    SearchResults,
)
from dialectic.contract.summaries import PASSAGES_DEFAULT, PASSAGES_MAX
from dialectic.core.access import Scope
from dialectic.db.tables import lists, records
from dialectic.db.tables.lists import ProjectFilter

router = APIRouter(tags=["projects"])
NO_NUL = r"^[^\x00]*$"
ProjectId = Annotated[UUID, Path(description="The id of a project.")]


@router.post("/projects", status_code=201, response_model=Project)
async def create_project(body: ProjectRequest, write: Writing) -> Response:
    """Create a project from a prompt. No model is called yet."""
    return await write.answer(create, body)


async def create(tx: Transaction, body: ProjectRequest) -> Project:
    """Create a project from a request."""
    project_id, _, _ = await projects.create_project(tx, body)
    return await projects.get(tx, project_id)


@router.get("/projects")
async def list_projects(
    listing: Listing,
    archived: Archived = None,
    q: Annotated[
        str | None,
        Query(max_length=200, pattern=NO_NUL, description="Only with this text in name or prompt."),
    ] = None,
    status: Phases = None,
    *,
    mine: Annotated[bool, Query(description="Only those that you created.")] = False,
    sort: Annotated[
        ProjectSort, Query(description="The newest first, the last moved first, or by name.")
    ] = ProjectSort.CREATED,
) -> Page[ProjectLine]:
    """List projects with their last sessions."""
    user_id = listing.context.account.user_id if mine else None
    fetch = partial(
        app_lists.list_projects,
        wanted=ProjectFilter(sort.value, archived, q or None, status, user_id),
    )
    is_named = sort is ProjectSort.NAME
    return await listing.page_of_lines(
        "projects" if sort is ProjectSort.CREATED else f"projects:{sort}",
        fetch,
        ProjectLine.model_validate,
        ("sort_name" if is_named else "sort_at", "id"),
    )


@router.get("/projects/{project_id}")
async def get_project(project_id: ProjectId, context: Reading) -> Project:
    """Show a project and its prompt."""
    return await context.run(projects.get, project_id)


@router.patch("/projects/{project_id}", response_model=Project)
async def change_project(project_id: ProjectId, body: ProjectChange, write: Writing) -> Response:
    """Rename, archive or unarchive a project, or change its domain or overlay."""
    return await write.answer(projects.change, project_id, body)


@router.delete("/projects/{project_id}", status_code=204)
async def delete_project(project_id: ProjectId, write: Writing) -> Response:
    """Delete a project and its contents. Its wallet transactions are kept."""
    await write.run(projects.delete, project_id)
    return Response(status_code=204)


@router.get("/projects/{project_id}/resources")
async def list_resources(project_id: ProjectId, listing: Listing) -> Page[Resource]:
    """List a project's resources, including its prompt."""
    return await listing.page_of(
        records.load_project, project_id, "resources", lists.list_resources, Resource.model_validate
    )


@router.delete("/projects/{project_id}/resources/{resource_id}", status_code=204)
async def remove_resource(
    project_id: ProjectId,
    resource_id: Annotated[UUID, Path(description="The id of a resource.")],
    write: Writing,
) -> Response:
    """Remove a resource from a project; later prompts do not include it."""
    await write.run(projects.remove_resource, project_id, resource_id)
    return Response(status_code=204)


@router.get("/projects/{project_id}/search")
async def search_project(
    project_id: ProjectId,
    context: Reading,
    q: Annotated[
        str,
        Query(
            min_length=1,
            max_length=500,
            pattern=r"^[^\x00]+$",
            description="A question or search terms.",
        ),
    ],
    limit: Annotated[int, Query(ge=1, le=PASSAGES_MAX)] = PASSAGES_DEFAULT,
) -> SearchResults:
    """Search all documents of a project, best matches first.

    If the embedder has a price, the caller's wallet pays, and the token needs the scope `spend`.
    """
    if context.engine.embedder.card is not None:
        context.caller.require(Scope.SPEND)
    await context.run(projects.get, project_id)
    return await search.search_project(context.engine, context.account, project_id, q, limit)
