"""HTTP routes of projects and their resources: create, list, change, delete."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Response

from dialectic.api.dependencies import Reading, WriteRequest, Writing
from dialectic.api.pagination import Paging, list_page
from dialectic.app import projects
from dialectic.app.transaction import Transaction
from dialectic.contract.base import Page
from dialectic.contract.projects import (
    Project,
    ProjectChange,
    ProjectRequest,
    ProjectSummary,
    Resource,
)
from dialectic.db.tables import lists

router = APIRouter(tags=["projects"])
ProjectId = Annotated[UUID, Path(description="The id of a project.")]


@router.post("/projects", status_code=201, response_model=Project)
async def create_project(body: ProjectRequest, act: Writing) -> Response:
    """Create a project from a prompt. No model is called yet."""
    return await create(body, act)


async def create(body: ProjectRequest, act: WriteRequest) -> Response:
    """Create a project and store its response in one commit."""

    async def run(tx: Transaction) -> Project:
        project_id, _, _ = await projects.create_project(tx, body)
        return await projects.get(tx, project_id)

    return await act.answer(run, status=201)


@router.get("/projects")
async def list_projects(context: Reading, paging: Paging) -> Page[ProjectSummary]:
    """List projects, newest first."""
    return await list_page(
        context, "projects", paging, lists.list_projects, ProjectSummary.model_validate
    )


@router.get("/projects/{project_id}")
async def get_project(project_id: ProjectId, context: Reading) -> Project:
    """Show a project and its prompt."""
    return await context.run(projects.get, project_id)


@router.patch("/projects/{project_id}", response_model=Project)
async def change_project(project_id: ProjectId, body: ProjectChange, act: Writing) -> Response:
    """Rename, archive or unarchive a project."""
    return await act.answer(lambda tx: projects.change(tx, project_id, body))


@router.delete("/projects/{project_id}", status_code=204)
async def delete_project(project_id: ProjectId, act: Writing) -> Response:
    """Delete a project and its contents. Its wallet transactions are kept."""
    await act.context.run(projects.delete, project_id)
    return Response(status_code=204)


@router.get("/projects/{project_id}/resources")
async def list_resources(project_id: ProjectId, context: Reading, paging: Paging) -> Page[Resource]:
    """List a project's resources, including its prompt."""
    return await list_page(
        context,
        "resources",
        paging,
        lambda connection, page: lists.list_resources(connection, page, project_id),
        Resource.model_validate,
        within=lambda tx: projects.get(tx, project_id),
    )
