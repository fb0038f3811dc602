"""Calls for projects, resources, files and search. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, TypeVar
from uuid import UUID

from dialectic.client.call import Call, act, fill, get, get_bytes, ignore_body
from dialectic.contract.base import Page
from dialectic.contract.lists import ProjectLine, ProjectSort
from dialectic.contract.projects import (
    Document,
    FoundId,
    ImportedProject,
    PlanFile,
    PlanFileContent,
    PlanFileMove,
    PlanFileTicks,
    Project,
    ProjectChange,
    ProjectFile,
    ProjectRequest,
    Resource,
    ResourceRequest,
    SearchResults,
)
from dialectic.core.session_state import Phase

# Timeout for a server that exports or imports a whole project.
TRANSFER_TIMEOUT_S = 600.0
T = TypeVar("T")
Noun = Literal["project", "session", "contribution", "chunk", "chat"]


def create_project(
    prompt: str,
    *,
    name: str = "",
    domain: str = "General",
    overlay: str = "",
    resources: Sequence[Mapping[str, str]] = (),
    key: str | None = None,
) -> Call[Project]:
    """Create a project from a prompt. A resource has `kind`, `name` and `text`."""
    given = [fill(ResourceRequest, **resource) for resource in resources]
    body = fill(
        ProjectRequest, prompt=prompt, name=name, domain=domain, overlay=overlay, resources=given
    )
    return act("/projects", Project, body, key=key)


def list_projects(
    *,
    archived: bool | None = None,
    text: str | None = None,
    status: Phase | None = None,
    mine: bool | None = None,
    sort: ProjectSort | None = None,
) -> Call[Page[ProjectLine]]:
    """List projects, newest first: all, the archived ones (True) or the others (False).

    `text` is in their name or prompt; `status` is the phase of their last session.
    """
    return get(
        "/projects",
        Page[ProjectLine],
        archived=archived,
        q=text,
        status=status,
        mine=mine,
        sort=sort,
    )


def get_project(project_id: UUID) -> Call[Project]:
    """Show a project and its prompt."""
    return get(f"/projects/{project_id}", Project)


def change_project(
    project_id: UUID,
    *,
    name: str | None = None,
    domain: str | None = None,
    is_archived: bool | None = None,
    overlay: str | None = None,
) -> Call[Project]:
    """Rename, archive or unarchive a project, or change its domain or overlay."""
    body = fill(ProjectChange, name=name, domain=domain, is_archived=is_archived, overlay=overlay)
    return act(f"/projects/{project_id}", Project, body, method="PATCH")


def delete_project(project_id: UUID) -> Call[None]:
    """Delete a project and its contents."""
    return Call(method="DELETE", path=f"/projects/{project_id}", read=ignore_body)


def add_resource(
    project_id: UUID, *, kind: str, name: str, text: str, key: str | None = None
) -> Call[Resource]:
    """Add a resource to a project."""
    body = fill(ResourceRequest, kind=kind, name=name, text=text)
    return act(f"/projects/{project_id}/resources", Resource, body, key=key)


def list_resources(project_id: UUID) -> Call[Page[Resource]]:
    """List a project's resources."""
    return get(f"/projects/{project_id}/resources", Page[Resource])


def remove_resource(project_id: UUID, resource_id: UUID) -> Call[None]:
    """Remove a resource from a project."""
    path = f"/projects/{project_id}/resources/{resource_id}"
    return Call(method="DELETE", path=path, read=ignore_body)


def get_document(document_id: UUID) -> Call[Document]:
    """Show a document or a resource."""
    return get(f"/documents/{document_id}", Document)


def list_files(project_id: UUID) -> Call[Page[ProjectFile]]:
    """List the files of a project."""
    return get(f"/projects/{project_id}/files", Page[ProjectFile])


def read_file(project_id: UUID, path: str) -> Call[bytes]:
    """Download one file of a project."""
    return get_bytes(f"/projects/{project_id}/file", path=path)


def list_plan(project_id: UUID) -> Call[Page[PlanFile]]:
    """List the files in `Pending/`, `Current/` and `Complete/`."""
    return get(f"/projects/{project_id}/plan", Page[PlanFile])


def replace_plan_file(
    project_id: UUID, path: str, content: str, *, etag: str | None = None, key: str | None = None
) -> Call[PlanFile]:
    """Replace a file of the plan, or add one; with an ETag, only if it is unchanged."""
    body = fill(PlanFileContent, content=content)
    call = act(f"/projects/{project_id}/plan/file", PlanFile, body, key=key, method="PUT")
    return _on_file(call, path, etag)


def tick_plan_steps(
    project_id: UUID,
    path: str,
    steps: Mapping[int, bool],
    *,
    etag: str | None = None,
    key: str | None = None,
) -> Call[PlanFile]:
    """Tick or untick steps of a file of the plan, by their numbers."""
    body = fill(PlanFileTicks, steps=dict(steps))
    call = act(f"/projects/{project_id}/plan/file", PlanFile, body, key=key, method="PATCH")
    return _on_file(call, path, etag)


def move_plan_file(
    project_id: UUID, path: str, status: str, *, etag: str | None = None, key: str | None = None
) -> Call[PlanFile]:
    """Move a file of the plan to `Pending`, `Current` or `Complete`."""
    body = fill(PlanFileMove, status=status)
    call = act(f"/projects/{project_id}/plan/move", PlanFile, body, key=key)
    return _on_file(call, path, etag)


def delete_plan_file(project_id: UUID, path: str, *, etag: str | None = None) -> Call[None]:
    """Delete a file of the plan; with an ETag, only if it is unchanged."""
    place = f"/projects/{project_id}/plan/file"
    return _on_file(Call(method="DELETE", path=place, read=ignore_body), path, etag)


def _on_file(call: Call[T], path: str, etag: str | None) -> Call[T]:
    headers = {} if etag is None else {"If-Match": etag}
    return replace(call, query={"path": path}, headers=headers)


def search_project(project_id: UUID, query: str, *, limit: int = 10) -> Call[SearchResults]:
    """Search all documents of a project, best matches first."""
    return get(f"/projects/{project_id}/search", SearchResults, q=query, limit=limit)


def find(kind: Noun, text: str) -> Call[FoundId]:
    """Find the record whose id starts with a prefix; a project also by folder or name."""
    return get("/find", FoundId, kind=kind, text=text)


def export_project(project_id: UUID, *, finished: bool = False) -> Call[bytes]:
    """Export a project as one zip file."""
    call = get_bytes(f"/projects/{project_id}/export", finished=finished or None)
    return replace(call, timeout_s=TRANSFER_TIMEOUT_S)


def import_project(path: Path, *, key: str | None = None) -> Call[ImportedProject]:
    """Import a project from a zip file, streaming it."""
    call = act("/projects/import", ImportedProject, key=key, timeout_s=TRANSFER_TIMEOUT_S)
    return replace(call, file=path)
