"""Requests and responses about projects, their files, search and transfer. Pure."""

from __future__ import annotations

import enum
from datetime import datetime
from typing import Annotated, TypeAlias
from uuid import UUID

from pydantic import (
    Field,
    StringConstraints,
)
from pydantic.json_schema import SkipJsonSchema

from dialectic.contract.base import (
    Column,
    Line,
    Name,
    RequestBody,
    ResponseBody,
)
from dialectic.contract.summaries import Kind as Kind
from dialectic.core.documents.file_paths import ResourceKind, WorkStatus
from dialectic.core.run_request import OVERLAY_CHARS_MAX

RESOURCES_MAX = 50

Overlay: TypeAlias = Annotated[str, StringConstraints(max_length=OVERLAY_CHARS_MAX)]


class ResourceRequest(RequestBody):
    """A text that accompanies a project's prompt."""

    kind: ResourceKind = Field(examples=["reference_documents"])
    name: Name = Field(examples=["Opening hours"])
    text: str = Field(min_length=1, examples=["The hall is open from 8 to 22."])


class ProjectFields(RequestBody):
    """What a project has in addition to its prompt."""

    name: Line = Field(
        default="",
        description="If empty, the first sentence of the prompt.",
        examples=["Village hall"],
    )
    domain: Name = Field(
        default="General",
        description="A domain of the installed processes, in any letter case.",
        examples=["General"],
    )
    overlay: Overlay = Field(
        default="",
        description="What every prompt of the project says in addition to the process's prompts.",
        examples=["Write for volunteers who meet once a month."],
    )
    resources: list[ResourceRequest] = Field(default=[], max_length=RESOURCES_MAX)


class ProjectRequest(ProjectFields):
    """Creates a project."""

    prompt: str = Field(
        min_length=1,
        description="The question or task for the models.",
        examples=["A booking service for a village hall that volunteers can run."],
    )


class ProjectChange(RequestBody):
    """The fields of a project to change; absent fields stay as they are."""

    name: Name | None = Field(default=None, examples=["Village hall, second try"])
    domain: Name | None = Field(
        default=None,
        description="The guidance of this domain is in all later prompts.",
        examples=["Software Development"],
    )
    is_archived: bool | None = None
    overlay: Overlay | None = Field(
        default=None,
        description="What every prompt says in addition from now on; empty removes it.",
    )


class ProjectSummary(ResponseBody):
    """A project in a list."""

    id: UUID
    name: Annotated[str, Column("project_name")]
    slug: str = Field(description="The name of its folder; never changes.")
    domain: str
    status: str = Field(examples=["active"])
    created_at: datetime


class Project(ProjectSummary):
    """A project."""

    prompt: Annotated[str, Column("initial_user_prompt")]
    overlay: str = Field(description="What every prompt of the project says in addition.")


class Resource(ResponseBody):
    """A document or a resource, without its text."""

    id: UUID
    project_id: UUID
    session_id: UUID | None
    kind: Annotated[str, Column("resource_type")] = Field(examples=["reference_documents"])
    document_key: str | None = Field(
        description="The process's key for this document of the stage."
    )
    stage: Annotated[str | None, Column("stage_slug")]
    iteration: Annotated[int | None, Column("iteration_number")]
    path: Annotated[str, Column("storage_path")] = Field(
        description="The path in storage and in an export."
    )
    mime_type: str
    size_bytes: int
    contribution_id: Annotated[UUID | None, Column("source_contribution_id")] = Field(
        description="The contribution it was extracted from.",
    )
    created_at: datetime


class Document(Resource):
    """A document or a resource, with its text."""

    content: str


class FoundId(ResponseBody):
    """The object that the id prefix matched."""

    id: UUID


class UploadedText(ResponseBody):
    """The text of an uploaded file."""

    name: str = Field(description="The file's name.", examples=["rules.docx"])
    kind: str = Field(examples=["docx"])
    text: str
    notes: list[str] = Field(description="What the text lacks or lost, in sentences.")


class ProjectFile(ResponseBody):
    """A file of a project."""

    path: str = Field(description="The path in storage and in an export.")
    sha256: str | None = Field(
        default=None,
        description="The hash of its bytes; null for a file that a person has changed or added.",
    )


class PlanFileState(enum.StrEnum):
    """Whose text a file in a work folder holds."""

    AS_WRITTEN = "as_written"  # the agreed plan, as it was written
    CHANGED = "changed"  # the agreed plan, and a person has changed it
    SUPERSEDED = "superseded"  # an earlier plan, kept because a person has worked on it
    OWN = "own"  # a person's own file


class PlanStep(ResponseBody):
    """A step of a file of the plan: a task item of its text."""

    number: int = Field(description="Its place among the steps of the file, from 1.")
    text: str
    is_done: bool


class PlanFile(ResponseBody):
    """A file in `Pending/`, `Current/` or `Complete/`. It belongs to the person who works on it."""

    path: str = Field(description="The path in storage and in an export.")
    status: WorkStatus = Field(description="The folder it is in.")
    name: str = Field(description="Its name in that folder.", examples=["01-rooms.md"])
    state: PlanFileState
    replaces: str | None = Field(
        description="The file whose new version it is: a person had changed, moved or deleted that."
    )
    size_bytes: int
    etag: str = Field(description="For `If-Match`; changes with its content.")
    title: str = Field(description="Its first heading, else its name.")
    steps: list[PlanStep] = Field(description="Its task items, in order.")


class PlanFileContent(RequestBody):
    """The new content of a file in a work folder."""

    content: str = Field(examples=["# Rooms\n\n- [x] 1. Ask who has keys.\n"])


class PlanFileTicks(RequestBody):
    """Ticks of steps of a file of the plan, by number."""

    steps: dict[int, bool] = Field(min_length=1, max_length=1000, examples=[{"3": True}])


class PlanFileMove(RequestBody):
    """The folder that a file of the plan moves to."""

    status: WorkStatus = Field(examples=["Current"])


class ExportedProject(ResponseBody):
    """An archive of a project."""

    project_id: UUID
    project: str = Field(description="The name of its folder.")
    path: str = Field(description="Where the archive is.")
    contents: str
    files: int
    size_bytes: int
    left_out: list[str] = Field(
        default_factory=list,
        description="Files of the work folders that the archive could not take: too large, or "
        "not readable.",
    )


class ImportedProject(ResponseBody):
    """An imported project."""

    project_id: UUID
    name: str
    slug: str
    session_ids: list[UUID]
    files: int
    is_copy: bool = Field(
        description="The project got new ids because its own were already in use."
    )
    # Files that the database holds until storage has room; known only where the import runs.
    waiting: SkipJsonSchema[int] = Field(default=0, exclude=True)


class SearchHit(ResponseBody):
    """A matching passage and its document."""

    document_id: UUID
    session_id: UUID | None
    path: str = Field(description="The document's path in the project's folder.")
    heading_path: list[str] = Field(description="The headings above the passage, outermost first.")
    text: str
    start: int = Field(description="The passage's first character, as an offset in the document.")
    end: int
    block: str | None = Field(
        description="The block of the document's HTML that it begins in.", examples=["b-12"]
    )
    score: float


class SearchResults(ResponseBody):
    """The results of a search, and the tokens it used."""

    items: list[SearchHit]
    next_cursor: str | None
    documents: int = Field(description="The number of documents searched.")
    embedder: str
    embedded_tokens: int
