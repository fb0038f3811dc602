"""Projects over HTTP: made, listed, changed, deleted; what is given to them."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID, uuid5

from fastapi import APIRouter, Path, Response

from dialectic.api.dependencies import Reading, WriteRequest, Writing, run_after_response
from dialectic.api.pagination import Paging, list_page
from dialectic.app import projects
from dialectic.contract.base import Page
from dialectic.contract.projects import (
    Project,
    ProjectChange,
    ProjectRequest,
    ProjectSummary,
    Resource,
    ResourceRequest,
)
from dialectic.core.run_request import Given
from dialectic.db.pool import Connection
from dialectic.db.tables import lists
from dialectic.publishing.deletion import delete_files

router = APIRouter(tags=["projects"])
ProjectId = Annotated[UUID, Path(description="The id of a project.")]


def build_line(row: dict[str, Any]) -> ProjectSummary:
    """Build the view of a project in a list."""
    return ProjectSummary(**_columns(row))


def build_view(row: dict[str, Any]) -> Project:
    """Build the view of a project."""
    return Project(**_columns(row), prompt=row["initial_user_prompt"])


def _columns(row: dict[str, Any]) -> dict[str, Any]:
    same = {key: row[key] for key in ("id", "slug", "domain", "status", "created_at")}
    return {**same, "name": row["project_name"]}


def build_resource(row: dict[str, Any]) -> Resource:
    """Build the view of a document or a resource."""
    return Resource(**describe_resource(row))


def describe_resource(row: dict[str, Any]) -> dict[str, Any]:
    """Name the columns of a resource as clients know them."""
    same = (
        "id",
        "project_id",
        "session_id",
        "document_key",
        "mime_type",
        "size_bytes",
        "created_at",
    )
    return {
        **{key: row[key] for key in same},
        "kind": row["resource_type"],
        "stage": row["stage_slug"],
        "iteration": row["iteration_number"],
        "path": row["storage_path"],
        "contribution_id": row["source_contribution_id"],
    }


def build_given(body: ResourceRequest) -> Given:
    """Build what is given to a project."""
    return Given(body.kind, body.name, body.text)


@router.post("/projects", status_code=201, response_model=Project)
async def create_project(body: ProjectRequest, act: Writing) -> Response:
    """Make a project of a prompt. Nothing is asked of any model yet."""
    return await create(body, act)


async def create(body: ProjectRequest, act: WriteRequest) -> Response:
    """Make a project, in one commit with its answer."""

    async def work(connection: Connection, effect_id: UUID) -> Project:
        new = projects.NewProject(
            prompt=body.prompt,
            name=body.name,
            domain=body.domain,
            resources=tuple(build_given(one) for one in body.resources),
            id=uuid5(effect_id, "project"),
        )
        await projects.create_project_in(act.engine, connection, act.account, new)
        made.append(new.id)
        return build_view(await projects.load_in(connection, new.id))

    made: list[UUID] = []
    return await act.answer(work, status=201, then=lambda: act.publish(made))


@router.get("/projects")
async def list_projects(context: Reading, paging: Paging) -> Page[ProjectSummary]:
    """List projects, the newest first."""
    return await list_page(context, "projects", paging, lists.list_projects, build_line)


@router.get("/projects/{project_id}")
async def get_project(project_id: ProjectId, context: Reading) -> Project:
    """Look at a project and its prompt."""
    return build_view(await context.transact(lambda c: projects.load_in(c, project_id)))


@router.patch("/projects/{project_id}", response_model=Project)
async def change_project(project_id: ProjectId, body: ProjectChange, act: Writing) -> Response:
    """Rename a project, put it away, or take it out again."""

    async def work(connection: Connection, _effect_id: UUID) -> Project:
        await projects.change_in(
            connection, project_id, name=body.name, is_archived=body.is_archived
        )
        return build_view(await projects.load_in(connection, project_id))

    return await act.answer(work)


@router.delete("/projects/{project_id}", status_code=204)
async def delete_project(project_id: ProjectId, act: Writing) -> Response:
    """Delete a project with everything in it. What was paid stays in the books."""
    paths = await act.context.transact(lambda c: projects.delete_in(c, project_id))
    behind = run_after_response(lambda: delete_files(act.engine, act.account.tenant_id, paths))
    return Response(status_code=204, background=behind)


@router.get("/projects/{project_id}/resources")
async def list_resources(project_id: ProjectId, context: Reading, paging: Paging) -> Page[Resource]:
    """List what was given to a project, and its prompt."""
    return await list_page(
        context,
        "resources",
        paging,
        lambda connection, page: lists.list_resources(connection, page, project_id),
        build_resource,
        within=lambda connection: projects.load_in(connection, project_id),
    )
