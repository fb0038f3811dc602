"""The rows of a project that an export writes and an import reads. Pure.

Each class is a table, and its fields are the columns that travel, in the order in which they are
written. Tenants, users, wallets, jobs and the times of files stay behind: they belong to the
installation, not to the project.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, TypeVar
from uuid import UUID

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from dialectic.core.documents.prompts import check_manifest
from dialectic.core.seats import SEATS_MAX
from dialectic.core.session_state import Phase, SessionState
from dialectic.core.strict_json import Json
from dialectic.core.text import clean_line
from dialectic.core.transfer.bundle_format import Several

# Columns that belong to the installation: whose a row is, and in which transaction it changed.
OWNERS = frozenset({"tenant_id", "user_id", "changed_in"})
# A file of the largest size has about this many, with each on a line of its own.
VALUES_MAX = 2_000_000

RowT = TypeVar("RowT", bound="Row")


@dataclass(frozen=True, slots=True)
class Ref:
    """Marks a column that holds ids of a table's rows; `is_loose` if the row may be missing."""

    table: str
    is_loose: bool = False


class InStorage:
    """Marks a column that holds the path of a file."""


class NamesSources:
    """Marks a column that holds a manifest, which names contributions."""


Moment = Annotated[AwareDatetime, AfterValidator(lambda moment: moment.astimezone(UTC))]
ManifestJson = Annotated[Annotated[Json, AfterValidator(check_manifest)] | None, NamesSources()]
Count = Annotated[int, Field(ge=0, lt=2**31, strict=True)]
Nth = Annotated[int, Field(ge=1, lt=2**31, strict=True)]
Slug = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
SizeBytes = Annotated[int, Field(ge=0)]
# Where a row's text is: it is the whole file, or the file without its front matter, or neither.
ContentIn = Literal["file", "body", "row"]

_Domain = Ref("dialectic_domains")
_Process = Ref("dialectic_process_templates")
_Model = Ref("ai_providers")
_Project = Ref("dialectic_projects")
_Session = Ref("dialectic_sessions")
_Contribution = Ref("dialectic_contributions")
_Chunk = Ref("dialectic_chunks")
_Feedback = Ref("dialectic_feedback")
_Resource = Ref("dialectic_project_resources")


class Row(BaseModel):
    """A row of some table."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    table: ClassVar[str]
    # Columns that stay behind, in addition to the owners.
    left_behind: ClassVar[frozenset[str]] = frozenset()
    # Fields that describe the row and are not columns of it.
    added: ClassVar[frozenset[str]] = frozenset()
    # Fields that bundles of earlier versions have; they are ignored.
    retired: ClassVar[frozenset[str]] = frozenset()

    @model_validator(mode="before")
    @classmethod
    def _ignore_retired(cls, given: Any) -> Any:
        if not cls.retired or not isinstance(given, dict):
            return given
        return {name: value for name, value in given.items() if name not in cls.retired}

    @classmethod
    def pick(cls: type[RowT], columns: Json) -> RowT:
        """Take the columns that travel from a row of the database."""
        return cls.model_validate({name: columns[name] for name in cls.model_fields})

    @classmethod
    def marked(cls, kind: type[Ref | InStorage | NamesSources]) -> Iterator[tuple[str, Any]]:
        for name, field in cls.model_fields.items():
            for mark in field.metadata:
                if isinstance(mark, kind):
                    yield name, mark


class DomainRow(Row):
    """The domain of a project."""

    table = "dialectic_domains"

    id: Annotated[UUID, _Domain]
    name: str = Field(min_length=1, max_length=200)
    description: str
    is_enabled: bool


class ProcessRow(Row):
    """A process as a session pinned it."""

    table = "dialectic_process_templates"
    left_behind = frozenset({"created_at"})

    id: Annotated[UUID, _Process]
    name: str
    description: str
    # These two follow from the definition; they are written for readers.
    title: str
    starting_stage_id: UUID | None
    content_hash: Sha256
    definition: Json


class ModelRow(Row):
    """A model and the facts about it."""

    table = "ai_providers"
    left_behind = frozenset({"updated_at"})

    id: Annotated[UUID, _Model]
    api_identifier: str = Field(pattern=r"^[^/]+/.+$", max_length=200)
    provider: str
    config: Json


class ProjectRow(Row):
    """The project itself."""

    table = "dialectic_projects"

    id: Annotated[UUID, _Project]
    project_name: str = Field(min_length=1, max_length=500)
    slug: Slug
    domain_id: Annotated[UUID, _Domain]
    user_domain_overlay_values: Json
    initial_user_prompt: str = Field(min_length=1)
    status: Literal["new", "active", "archived"]
    created_at: Moment

    @field_validator("project_name")
    @classmethod
    def _clean_name(cls, name: str) -> str:
        if not (cleaned := clean_line(name)):
            raise ValueError("it has no visible character")
        return cleaned


class SessionRow(Row):
    """One run of a process, without running work."""

    table = "dialectic_sessions"
    # An approval to spend is that of the wallet's owner.
    left_behind = frozenset(
        {"wallet_id", "approve_spend", "idempotency_key", "phase", "phase_before_pause"}
    )
    added = frozenset({"status"})

    id: Annotated[UUID, _Session]
    project_id: Annotated[UUID, _Project]
    process_template_id: Annotated[UUID, _Process]
    session_description: str
    selected_model_ids: Annotated[Several[UUID], _Model, Field(min_length=1, max_length=SEATS_MAX)]
    dropped_seats: Several[Nth] = ()  # bundles of earlier versions do not have it
    lead_model_index: Nth
    current_stage_slug: str
    until_stage_slug: str
    iteration_count: Nth
    # What people know of the phase; an import reads the phase from it.
    status: str
    is_autopilot: bool
    pause_on_dissent: bool = False
    continue_until_complete: bool
    wait_for_all: bool = False  # nor this
    max_output_tokens: Nth | None
    full_answers_only: bool = False  # nor this
    max_retries: Count
    created_at: Moment

    @field_validator("status")
    @classmethod
    def _refuse_running_work(cls, status: str, info: ValidationInfo) -> str:
        state = SessionState.parse(status, info.data.get("current_stage_slug", ""))
        if state.phase in (Phase.GENERATING, Phase.PAUSED):
            raise ValueError("a bundle must not contain running work")
        return status

    @property
    def phase(self) -> Phase:
        return SessionState.parse(self.status, self.current_stage_slug).phase


class StageRunRow(Row):
    """One stage of one iteration that has ended."""

    table = "dialectic_stage_runs"
    left_behind = frozenset({"step_units"})

    session_id: Annotated[UUID, _Session]
    iteration_number: Nth
    stage_slug: str
    position: Nth
    is_last: bool
    status: Literal["complete", "failed", "cancelled"]
    planned_units: Nth
    finished_units: Count
    seats: Annotated[Several[Nth], Field(min_length=1)]
    lost_seats: Several[Nth] = ()
    started_at: Moment | None
    completed_at: Moment


class FileRow(Row):
    """A file; the archive holds its bytes."""

    table = "dialectic_files"
    left_behind = frozenset(
        {
            "project_id",
            "content",
            "written_at",
            "tried_at",
            "created_at",
            "earlier_sha256",
            "is_withdrawn",
        }
    )

    path: Annotated[str, InStorage()]
    mime_type: str
    size_bytes: SizeBytes
    sha256: Sha256


def _match_sources(versions: tuple[UUID, ...], info: ValidationInfo) -> tuple[UUID, ...]:
    if versions and len(versions) != len(info.data.get("source_contribution_ids", versions)):
        raise ValueError("it must have one version for each source")
    return versions


class ContributionRow(Row):
    """A document that a model wrote, or a person's edit of one."""

    table = "dialectic_contributions"
    left_behind = frozenset({"job_id"})
    added = frozenset({"is_by_user", "content_in"})
    retired = frozenset({"root_contribution_id", "turn_index"})

    id: Annotated[UUID, _Contribution]
    session_id: Annotated[UUID, _Session]
    is_by_user: bool
    model_id: Annotated[UUID | None, _Model]
    model_name: str
    model_index: Nth | None
    stage: str
    iteration_number: Nth
    contribution_type: str
    rank: Nth | None
    origin: Nth | None
    source_group: Annotated[UUID | None, _Contribution]
    source_contribution_ids: Annotated[Several[UUID], Ref("dialectic_contributions", is_loose=True)]
    # Bundles of earlier versions do not have these two.
    read_version_ids: Annotated[
        Several[UUID], Ref("dialectic_contributions", is_loose=True), AfterValidator(_match_sources)
    ] = ()
    words_hash: Sha256 | None = None
    target_contribution_id: Annotated[UUID | None, _Contribution]
    is_intermediate: bool
    is_incomplete: bool
    is_stale: bool
    flags: Several[str]
    storage_path: Annotated[str, InStorage()]
    raw_response_storage_path: Annotated[str | None, InStorage()]
    mime_type: str
    size_bytes: SizeBytes
    prompt_template_name: str | None
    tokens_used_input: Count | None
    tokens_used_output: Count | None
    usage_source: str | None
    finish_reason: str | None
    raw_finish_reason: str | None
    provider_request_id: str | None
    processing_time_ms: Count | None
    edit_version: Nth
    is_latest_edit: bool
    original_model_contribution_id: Annotated[UUID | None, _Contribution]
    # Bundles of earlier versions have none.
    manifest: ManifestJson = None
    # Bundles of earlier versions have none: an import makes them of the text.
    title: str = ""
    excerpt: str = ""
    words: Count = 0
    created_at: Moment
    content_in: ContentIn
    content: str | None


class ChunkRow(Row):
    """One turn of a document that took several, also of one that was never finished."""

    table = "dialectic_chunks"
    # The raw answer holds what the first turn was asked; an import cannot continue the turn.
    left_behind = frozenset({"job_id", "opening"})
    added = frozenset({"content_in"})

    id: Annotated[UUID, _Chunk]
    session_id: Annotated[UUID, _Session]
    root_contribution_id: Annotated[UUID, Ref("dialectic_contributions", is_loose=True)]
    turn_index: Count
    stage: str
    iteration_number: Nth
    model_name: str
    storage_path: Annotated[str, InStorage()]
    raw_response_storage_path: Annotated[str, InStorage()]
    mime_type: str
    size_bytes: SizeBytes
    tokens_used_input: Count
    tokens_used_output: Count
    usage_source: str
    finish_reason: str
    raw_finish_reason: str | None
    provider_request_id: str | None
    processing_time_ms: Count
    flags: Several[str]
    manifest: ManifestJson = None
    created_at: Moment
    content_in: ContentIn
    content: str | None


class FeedbackRow(Row):
    """A person's words about a stage or a contribution."""

    table = "dialectic_feedback"

    id: Annotated[UUID, _Feedback]
    session_id: Annotated[UUID, _Session]
    stage_slug: str
    iteration_number: Nth
    target_contribution_id: Annotated[UUID | None, _Contribution]
    feedback_type: Literal["stage", "response", "rating", "ruling"]
    content: str
    rating: Annotated[int, Field(ge=1, le=5)] | None
    subject_id: UUID | None = None
    subject: str | None = None
    verdict: Literal["keep", "change", "drop", "own"] | None = None
    position_id: UUID | None = None
    upheld: str | None = None
    rejected: tuple[str, ...] | None = None
    withdrawn_at: Moment | None = None
    created_at: Moment
    updated_at: Moment | None = None


class ResourceRow(Row):
    """Any other text of the project."""

    table = "dialectic_project_resources"
    added = frozenset({"content_in"})

    id: Annotated[UUID, _Resource]
    project_id: Annotated[UUID, _Project]
    resource_type: str
    session_id: Annotated[UUID | None, _Session]
    iteration_number: Nth | None
    stage_slug: str | None
    source_contribution_id: Annotated[UUID | None, _Contribution]
    document_key: str | None
    storage_path: Annotated[str, InStorage()]
    mime_type: str
    size_bytes: SizeBytes
    notes: Several[str]
    created_at: Moment
    content_in: ContentIn
    content: str | None


TextRow: TypeAlias = ContributionRow | ChunkRow | ResourceRow


class ProjectRows(BaseModel):
    """A whole project, by table: the content of `project_settings.json`."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    dialectic_projects: Annotated[Several[ProjectRow], Field(min_length=1, max_length=1)]
    dialectic_domains: Several[DomainRow]
    dialectic_process_templates: Several[ProcessRow]
    # These five are for readers: an import derives them from the definition of the process.
    dialectic_stages: Several[Json]
    dialectic_stage_transitions: Several[Json]
    domain_process_associations: Several[Json]
    domain_specific_prompt_overlays: Several[Json]
    system_prompts: Several[Json]
    ai_providers: Several[ModelRow]
    dialectic_sessions: Several[SessionRow]
    dialectic_stage_runs: Several[StageRunRow]
    dialectic_contributions: Several[ContributionRow]
    # Bundles of earlier versions have none.
    dialectic_chunks: Several[ChunkRow] = ()
    dialectic_feedback: Several[FeedbackRow]
    dialectic_project_resources: Several[ResourceRow]
    dialectic_files: Several[FileRow]

    @model_validator(mode="before")
    @classmethod
    def _seat_all(cls, given: Any) -> Any:
        """Let all models of a session take part in stages of bundles of earlier versions."""
        try:
            counts = {
                session["id"]: len(session["selected_model_ids"])
                for session in given["dialectic_sessions"]
            }
            runs = [
                {"seats": list(range(1, counts[run["session_id"]] + 1)), **run}
                for run in given["dialectic_stage_runs"]
            ]
        except (KeyError, TypeError):
            return given  # it is refused for what it lacks
        return {**given, "dialectic_stage_runs": runs}

    @property
    def project(self) -> ProjectRow:
        return self.dialectic_projects[0]

    @property
    def texts(self) -> tuple[TextRow, ...]:
        return (
            *self.dialectic_contributions,
            *self.dialectic_chunks,
            *self.dialectic_project_resources,
        )

    @property
    def own(self) -> tuple[ProjectRow | SessionRow | FeedbackRow | TextRow, ...]:
        """The rows that belong to this project alone and have an id."""
        return (self.project, *self.dialectic_sessions, *self.dialectic_feedback, *self.texts)

    def as_bytes(self) -> bytes:
        """Write the rows as JSON; equal rows make equal bytes."""
        text = json.dumps(self.model_dump(mode="json"), ensure_ascii=False, indent=2)
        return text.encode() + b"\n"

    def each(self) -> Iterator[Row]:
        """Yield every row that an import inserts."""
        for name in type(self).model_fields:
            yield from (row for row in getattr(self, name) if isinstance(row, Row))


ROW_TYPES = tuple(Row.__subclasses__())
TEXT_TABLES = ("dialectic_contributions", "dialectic_chunks", "dialectic_project_resources")
# The other tables are for readers.
READ_BY_PEOPLE = tuple(ProjectRows.model_fields.keys() - {kind.table for kind in ROW_TYPES})
