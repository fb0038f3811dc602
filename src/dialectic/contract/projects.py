"""Requests and responses about projects, their files, search and transfer. Pure."""

from __future__ import annotations

import enum
from datetime import datetime
from uuid import UUID

from pydantic import (
    Field,
)

from dialectic.contract.base import (
    Line,
    Name,
    RequestBody,
    ResponseBody,
)
from dialectic.core.documents.file_locations import ResourceKind

RESOURCES_MAX = 50


class ResourceRequest(RequestBody):
    """A text that is given to a project beside its prompt."""

    kind: ResourceKind = Field(examples=["reference_documents"])
    name: Name = Field(examples=["Opening hours"])
    text: str = Field(min_length=1, examples=["The hall is open from 8 to 22."])


class ProjectRequest(RequestBody):
    """What a project begins with."""

    prompt: str = Field(
        min_length=1,
        description="What is to be argued about.",
        examples=["A booking service for a village hall that volunteers can run."],
    )
    name: Line = Field(
        default="",
        description="Taken from the first words of the prompt if it is empty.",
        examples=["Village hall"],
    )
    domain: Name = Field(default="General", examples=["General"])
    resources: list[ResourceRequest] = Field(default=[], max_length=RESOURCES_MAX)


class ProjectChange(RequestBody):
    """What is to be different in a project; what is absent stays."""

    name: Name | None = Field(default=None, examples=["Village hall, second try"])
    is_archived: bool | None = None


class ProjectSummary(ResponseBody):
    """A project in a list."""

    id: UUID
    name: str
    slug: str = Field(description="The name of its folder, which never changes.")
    domain: str
    status: str = Field(examples=["active"])
    created_at: datetime


class Project(ProjectSummary):
    """A project."""

    prompt: str


class Resource(ResponseBody):
    """A document or a resource, without its text."""

    id: UUID
    project_id: UUID
    session_id: UUID | None
    kind: str = Field(examples=["reference_documents"])
    document_key: str | None = Field(
        description="Which document of a stage, as its process names it."
    )
    stage: str | None
    iteration: int | None
    path: str = Field(description="Where it stands in storage and in an export.")
    mime_type: str
    size_bytes: int
    contribution_id: UUID | None = Field(description="The contribution it was cut out of.")
    created_at: datetime


class Document(Resource):
    """A document or a resource, with its text."""

    content: str


class Kind(enum.StrEnum):
    """What can be found by the beginning of its id."""

    PROJECT = "project"
    SESSION = "session"
    CONTRIBUTION = "contribution"
    CHUNK = "chunk"
    CHAT = "chat"


class FoundId(ResponseBody):
    """What was found."""

    id: UUID


class ProjectFile(ResponseBody):
    """A file of a project."""

    path: str = Field(description="Where it stands in storage and in an export.")


class ImportedProject(ResponseBody):
    """A project that was taken in."""

    project_id: UUID
    name: str
    slug: str
    session_ids: list[UUID]
    files: int
    is_copy: bool = Field(description="Its ids were taken already, so it has new ones.")


class SearchHit(ResponseBody):
    """A passage that was found, and the document it stands in."""

    document_id: UUID
    session_id: UUID | None
    path: str = Field(description="Where the document lies in the project's folder.")
    heading_path: list[str] = Field(description="The headings above the passage, outermost first.")
    text: str
    start: int = Field(description="Where the passage begins, in characters of the document.")
    end: int
    score: float


class SearchResults(ResponseBody):
    """What a search found, and what it took."""

    items: list[SearchHit]
    next_cursor: str | None
    documents: int = Field(description="How many documents were searched.")
    embedder: str
    embedded_tokens: int
