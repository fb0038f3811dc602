"""Requests and responses about contributions, their versions and jobs. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Generic, TypeVar
from uuid import UUID

from pydantic import BaseModel, Field, computed_field

from dialectic.contract.base import Author, Column, RequestBody, ResponseBody
from dialectic.core.documents.shortcomings import list_missing
from dialectic.core.job_status import JobStatus
from dialectic.core.strict_json import Json
from dialectic.errors import Remedy, read_remedy

T = TypeVar("T")
RATING_MIN, RATING_MAX = 1, 5

# What places a document and a job in the graph of a session.
SeatNumber = Annotated[
    int | None,
    Column("model_index"),
    Field(description="The number of its model among the session's models, from 1."),
]
AboutId = Annotated[
    UUID | None,
    Column("target_contribution_id"),
    Field(description="The contribution that it critiques."),
]
SourceIds = Annotated[
    list[UUID],
    Column("source_contribution_ids"),
    Field(description="The contributions it was written from."),
]
SourceGroup = Annotated[UUID | None, Field(description="The thesis that it descends from.")]


class ReadVersion(ResponseBody):
    """A contribution that another was written from, and the version of it that was read."""

    contribution_id: UUID = Field(description="The id of the first version.")
    version_id: UUID | None = Field(description="Null if it is not known.")
    version: int | None
    is_by_user: bool = Field(description="A user edited this version.")


class Flagged(ResponseBody):
    """A contribution with flags."""

    flags: list[str]

    @computed_field(description="The promised documents that it lacks, by key.")  # type: ignore[prop-decorator]
    @property
    def missing(self) -> list[str]:
        return list_missing(self.flags)


class Rated(ResponseBody):
    """A contribution with its ratings, which are of all its versions."""

    my_rating: int | None = Field(default=None, description="Yours; null if you gave none.")
    rating_count: int = Field(default=0, description="How many users have rated it.")
    rating_mean: float | None = Field(default=None, description="Rounded to two decimals.")


class ContributionSummary(Flagged, Rated):
    """A contribution in a list, in its newest version."""

    id: UUID
    session_id: UUID
    job_id: UUID | None = Field(description="The job that wrote it; null for an edit by a user.")
    model: Annotated[str, Column("model_name")]
    seat: SeatNumber
    stage: str
    iteration: Annotated[int, Column("iteration_number")]
    type: Annotated[str, Column("contribution_type")] = Field(examples=["thesis"])
    about_id: AboutId
    source_ids: SourceIds
    source_group: SourceGroup
    path: Annotated[str, Column("storage_path")]
    version: Annotated[int, Column("edit_version")]
    is_incomplete: bool = Field(description="The answer was truncated and will not be continued.")
    is_intermediate: bool
    is_stale: bool = Field(description="One of its sources has a newer version.")
    flags: list[str]
    size_bytes: int
    input_tokens: Annotated[int | None, Column("tokens_used_input")]
    output_tokens: Annotated[int | None, Column("tokens_used_output")]
    finish_reason: str | None
    created_at: datetime
    read: Annotated[list[ReadVersion], Column("read_versions")] = Field(
        description="What it was written from, in the versions that were read."
    )


class Contribution(Flagged, Rated):
    """One version of a contribution, with its text and origin."""

    id: UUID
    session_id: UUID
    job_id: UUID | None
    model: Annotated[str, Column("model_name")]
    seat: SeatNumber
    stage: str
    iteration: Annotated[int, Column("iteration_number")]
    type: Annotated[str, Column("contribution_type")]
    path: Annotated[str, Column("storage_path")]
    version: Annotated[int, Column("edit_version")]
    original_id: Annotated[UUID, Column("first_id")] = Field(
        description="The id of the first version."
    )
    is_latest: Annotated[bool, Column("is_latest_edit")]
    is_by_user: bool
    is_incomplete: bool
    is_intermediate: bool
    is_stale: bool
    flags: list[str]
    about_id: AboutId
    about_version_id: Annotated[UUID | None, Column("target_version_id")] = Field(
        description="The version of it that was read; null if it was not read, or unknown.",
    )
    source_ids: SourceIds
    source_group: SourceGroup
    read: Annotated[list[ReadVersion], Column("read_versions")] = Field(
        description="The same, with the versions that were read.",
    )
    words_hash: str | None = Field(
        description="A hash of what the model was asked; null for a version by a user.",
    )
    input_tokens: Annotated[int | None, Column("tokens_used_input")]
    output_tokens: Annotated[int | None, Column("tokens_used_output")]
    finish_reason: str | None
    created_at: datetime
    content: str


class EditRequest(RequestBody):
    """The new text of a contribution."""

    content: str = Field(min_length=1)


class RatingRequest(RequestBody):
    """A rating of a contribution."""

    rating: int = Field(ge=RATING_MIN, le=RATING_MAX, strict=True)


class ContributionVersion(ResponseBody):
    """One of the versions of a contribution."""

    id: UUID
    version: Annotated[int, Column("edit_version")]
    is_latest: Annotated[bool, Column("is_latest_edit")]
    is_by_user: bool
    by: Author | None = Field(description="The user who wrote it; null for a model's version.")
    model: Annotated[str, Column("model_name")]
    size_bytes: int
    created_at: datetime


class JobError(BaseModel, extra="allow"):
    """A failed attempt of a job; with a `remedy` if one is known."""

    attempt: int
    code: str
    message: str

    @property
    def known_remedy(self) -> Remedy | None:
        """The next step, if this version knows it."""
        return read_remedy((self.model_extra or {}).get("remedy"))


class Job(ResponseBody):
    """A unit of work that a worker runs."""

    id: UUID
    parent_id: Annotated[UUID | None, Column("parent_job_id")]
    prerequisite_id: Annotated[UUID | None, Column("prerequisite_job_id")] = Field(
        description="The job that must end before this one runs."
    )
    type: Annotated[str, Column("job_type")] = Field(examples=["execute"])
    stage: Annotated[str, Column("stage_slug")]
    step: Annotated[str | None, Column("step_name")] = Field(
        description="The step of its stage; null for a plan job.", examples=["critique"]
    )
    iteration: Annotated[int, Column("iteration_number")]
    target_id: Annotated[UUID | None, Column("target_contribution_id")] = Field(
        description="The contribution that its document is about."
    )
    output: Annotated[str | None, Column("output_type")] = Field(
        description="The type of contribution that it writes.", examples=["antithesis"]
    )
    contribution_id: UUID | None = Field(description="The contribution that it has written.")
    status: str = Field(examples=["processing"])
    status_reason: str | None
    model: Annotated[str | None, Column("model_name")]
    seat: SeatNumber
    attempts: Annotated[int, Column("attempt_count")]
    retries: Annotated[int, Column("retry_count")]
    errors: Annotated[list[JobError], Column("error_details")]
    created_at: datetime
    started_at: datetime | None
    completed_at: datetime | None


class JobDraft(ResponseBody):
    """The text so far of a running job's answer. Empty until its worker has sent some."""

    job_id: UUID
    session_id: UUID
    attempt: int
    turn: int = Field(description="Which turn of the document it is, from 0.")
    at: int = Field(description="Where the text begins in that of the turn: always 0.")
    text: str = Field(description="As the provider sent it: text, never HTML.")
    words: int
    phase: str | None = Field(
        description="What the call does: `preparing`, `waiting_for_endpoint`, `waiting_for_money`, "
        "`calling`, `writing` or `saving`; null if its worker has not reported it yet.",
        examples=["writing"],
    )
    first_token_at: datetime | None
    updated_at: datetime | None = Field(description="Null if its worker has not reported yet.")


class EditedContribution(ResponseBody):
    """A new version, and how many documents were made from the old one."""

    id: UUID
    version: int
    path: str
    stale: int


# -- records, with the names of their columns ------------------------------------------------------


class JobRecord(ResponseBody):
    """All stored data of a job that people see."""

    id: UUID
    parent_job_id: UUID | None
    prerequisite_job_id: UUID | None
    job_type: str | None
    stage_slug: str
    step_name: str | None
    iteration_number: int
    target_contribution_id: UUID | None
    output_type: str | None
    contribution_id: UUID | None
    status: JobStatus
    status_reason: str | None
    model_name: str | None
    model_index: int | None
    attempt_count: int
    retry_count: int
    error_details: list[JobError]
    created_at: datetime
    started_at: datetime | None
    completed_at: datetime | None


class TurnSummary(ResponseBody):
    """One turn of a contribution."""

    id: UUID
    turn_index: int
    storage_path: str
    finish_reason: str
    tokens_used_output: int
    manifest: Json | None = Field(description="The parts of a prompt that was shortened.")


class ChunkRecord(TurnSummary):
    """All stored data of one turn, without its request, which has its own file."""

    tenant_id: UUID
    session_id: UUID
    job_id: UUID | None
    root_contribution_id: UUID
    stage: str
    iteration_number: int
    model_name: str
    content: str
    raw_response_storage_path: str
    mime_type: str
    size_bytes: int
    tokens_used_input: int
    usage_source: str
    raw_finish_reason: str | None
    provider_request_id: str | None
    processing_time_ms: int
    flags: list[str]
    created_at: datetime


class ContributionFields(ResponseBody):
    """The columns of a contribution in lists, records and events."""

    id: UUID
    model_name: str
    stage: str
    iteration_number: int
    contribution_type: str
    storage_path: str
    is_incomplete: bool
    is_intermediate: bool
    is_stale: bool
    flags: list[str]
    edit_version: int
    tokens_used_input: int | None
    tokens_used_output: int | None
    finish_reason: str | None
    created_at: datetime


class ContributionLine(Flagged, ContributionFields):
    """The newest version of a contribution in the list of its session."""

    job_id: UUID | None
    model_index: int | None
    target_contribution_id: UUID | None
    source_contribution_ids: list[UUID]
    source_group: UUID | None
    size_bytes: int
    read_versions: list[ReadVersion]


class ContributionRecord(Flagged, ContributionFields):
    """All stored data of one version of a contribution, with its turns."""

    session_id: UUID
    project_id: UUID
    job_id: UUID | None
    model_id: UUID | None
    model_index: int
    source_group: UUID | None
    target_contribution_id: UUID | None
    rank: int
    origin: int
    source_contribution_ids: list[UUID]
    read_version_ids: list[UUID]
    read_versions: list[ReadVersion]
    target_version_id: UUID | None
    words_hash: str | None
    is_latest_edit: bool
    content: str
    raw_response_storage_path: str | None
    prompt_template_name: str | None
    usage_source: str | None
    original_model_contribution_id: UUID | None
    user_id: UUID | None
    manifest: Json | None
    results: Json | None = Field(description="What its job has read.")
    chunks: list[TurnSummary] = Field(default=[])

    @property
    def first_id(self) -> UUID:
        """The id of the first version."""
        return self.original_model_contribution_id or self.id


class Record(ResponseBody, Generic[T]):
    """All stored data of one contribution, or of one of its turns."""

    record: T
