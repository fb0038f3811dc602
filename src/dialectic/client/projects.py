"""Projects, their resources and files, and finding: as they are asked for and answered. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Literal
from uuid import UUID

from dialectic.client.call import Answer, Call, Page, act, drop_none, get, get_bytes, ignore_body

# What a server may take before it has a whole project in one file, or out of one.
TRANSFER_TIMEOUT_S = 600.0
Noun = Literal["project", "session", "contribution", "chunk", "chat"]


class ProjectLine(Answer, frozen=True):
    """A project in a list."""

    id: UUID
    name: str
    slug: str
    domain: str
    status: str
    created_at: datetime


class Project(ProjectLine, frozen=True):
    """A project."""

    prompt: str


class Resource(Answer, frozen=True):
    """A document or a resource, without its text."""

    id: UUID
    project_id: UUID
    session_id: UUID | None
    kind: str
    document_key: str | None
    stage: str | None
    iteration: int | None
    path: str
    mime_type: str
    size_bytes: int
    contribution_id: UUID | None
    created_at: datetime


class Document(Resource, frozen=True):
    """A document or a resource, with its text."""

    content: str


class FileLine(Answer, frozen=True):
    """A file of a project, by its path in storage and in an export."""

    path: str


class Imported(Answer, frozen=True):
    """A project that was taken in."""

    project_id: UUID
    name: str
    slug: str
    session_ids: list[UUID]
    files: int
    is_copy: bool


class Found(Answer, frozen=True):
    """A passage that was found, and the document it stands in."""

    document_id: UUID
    session_id: UUID | None
    path: str
    heading_path: list[str]
    text: str
    start: int
    end: int
    score: float


class Search(Answer, frozen=True):
    """What a search found, the best first, and what it took."""

    items: list[Found]
    next_cursor: str | None
    documents: int
    embedder: str
    embedded_tokens: int


class FoundId(Answer, frozen=True):
    """What the beginning of an id, or a name, stands for."""

    id: UUID


# -- asked -----------------------------------------------------------------------------------------


def create_project(
    prompt: str,
    *,
    name: str = "",
    domain: str = "General",
    resources: Sequence[Mapping[str, str]] = (),
    key: str | None = None,
) -> Call[Project]:
    """Make a project of a prompt. A resource has `kind`, `name` and `text`."""
    given = [dict(resource) for resource in resources]
    body = {"prompt": prompt, "name": name, "domain": domain, "resources": given}
    return act("/projects", Project, body, key=key)


def list_projects() -> Call[Page[ProjectLine]]:
    """List projects, the newest first."""
    return get("/projects", Page[ProjectLine])


def get_project(project_id: UUID) -> Call[Project]:
    """Look at a project and its prompt."""
    return get(f"/projects/{project_id}", Project)


def change_project(
    project_id: UUID, *, name: str | None = None, is_archived: bool | None = None
) -> Call[Project]:
    """Rename a project, put it away, or take it out again."""
    body = drop_none({"name": name, "is_archived": is_archived})
    return act(f"/projects/{project_id}", Project, body, method="PATCH")


def delete_project(project_id: UUID) -> Call[None]:
    """Delete a project with everything in it."""
    return Call(method="DELETE", path=f"/projects/{project_id}", read=ignore_body)


def add_resource(
    project_id: UUID, *, kind: str, name: str, text: str, key: str | None = None
) -> Call[Resource]:
    """Give a project a text beside its prompt."""
    body = {"kind": kind, "name": name, "text": text}
    return act(f"/projects/{project_id}/resources", Resource, body, key=key)


def list_resources(project_id: UUID) -> Call[Page[Resource]]:
    """List what was given to a project."""
    return get(f"/projects/{project_id}/resources", Page[Resource])


def get_document(document_id: UUID) -> Call[Document]:
    """Read a document or a resource."""
    return get(f"/documents/{document_id}", Document)


def list_files(project_id: UUID) -> Call[Page[FileLine]]:
    """List the files of a project."""
    return get(f"/projects/{project_id}/files", Page[FileLine])


def read_file(project_id: UUID, path: str) -> Call[bytes]:
    """Read one file of a project."""
    return get_bytes(f"/projects/{project_id}/file", path=path)


def search_project(project_id: UUID, query: str, *, limit: int = 10) -> Call[Search]:
    """Find passages in all documents of a project, the best first."""
    return get(f"/projects/{project_id}/search", Search, q=query, limit=limit)


def find(kind: Noun, text: str) -> Call[FoundId]:
    """Find what the beginning of an id stands for; a project also by folder or name."""
    return get("/find", FoundId, kind=kind, text=text)


def export_project(project_id: UUID, *, finished: bool = False) -> Call[bytes]:
    """Take a project away as one zip file."""
    call = get_bytes(f"/projects/{project_id}/export", finished=finished or None)
    return replace(call, timeout_s=TRANSFER_TIMEOUT_S)


def import_project(*, key: str | None = None) -> Call[Imported]:
    """Take a project in from a zip file, which whoever sends this has at hand."""
    call = act("/projects/import", Imported, key=key)
    return replace(call, timeout_s=TRANSFER_TIMEOUT_S)
