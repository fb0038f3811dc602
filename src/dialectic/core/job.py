"""A job: its statuses, its payload, its id. Uses no database.

The table dialectic_job_moves defines the legal changes of status; this module only names the
statuses. A job's id is derived from its work, so that planning the same work twice yields the same
job.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias
from uuid import UUID, uuid5

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from dialectic.core.documents.file_paths import Relation
from dialectic.core.job_status import ENDED as ENDED
from dialectic.core.job_status import WAITING as WAITING
from dialectic.core.job_status import JobStatus as JobStatus
from dialectic.core.job_status import describe_status as describe_status
from dialectic.errors import InvalidPayload, UsageError

SLOT_STRIDE = 10_000
EDITION_STRIDE = 1_000_000
# The type of contribution that a merge writes; reserved, steps may not use it.
COMBINED = "combined"
# The error code of an attempt whose worker died.
WORKER_LOST = "worker_lost"


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class _Payload(_Part):
    model_id: UUID
    model_name: str = Field(min_length=3)
    # The number of the seat: the position in the session's list of models, from 1.
    model_index: int = Field(ge=1)
    # Numbers the seats of the same model, from 1.
    slot: int = Field(default=1, ge=1)
    # The seat in file names, if its model has several; else the model names it.
    seat_name: str = ""
    # Numbers the contributions of one kind by this seat, from 1; part of the file's name.
    ordinal: int = Field(ge=1)
    output_type: str
    # 1 for the planned job; a later edition replaces the contribution named below.
    edition: int = Field(default=1, ge=1)
    replaces: UUID | None = None
    # Jobs whose documents it reads: it runs when all of them have completed.
    after: tuple[UUID, ...] = ()
    # The cut off versions whose turns it goes on with, oldest first.
    continues: tuple[UUID, ...] = ()

    @property
    def variant(self) -> int:
        """Distinguishes repeated requests to one model."""
        seat = (self.slot - 1) * SLOT_STRIDE
        return self.ordinal + seat + (self.edition - 1) * EDITION_STRIDE


class PlanPayload(_Payload):
    """One model's part in a stage. In a stage without steps it is one call."""

    job_type: Literal["plan"] = "plan"


class Input(_Part):
    """One document that a job reads, and the number of the step's rule that selected it."""

    contribution_id: UUID
    rule: int = Field(ge=0)


class ExecutePayload(_Payload):
    """One document by one model, from listed inputs."""

    job_type: Literal["execute"] = "execute"
    step_name: str
    inputs: tuple[Input, ...] = Field(min_length=1)
    rank: int = Field(ge=1)
    origin: int = Field(ge=1)
    source_group: UUID | None
    target_contribution_id: UUID | None
    # How its file name tells its sources.
    naming: Relation


class Labelled(_Part):
    """A version of a document, and the label under which it is read."""

    contribution_id: UUID
    label: str


class CombinePayload(_Payload):
    """Shortens documents that are too long for a reader, by merging them level by level.

    Its inputs are ids of versions, whose text never changes.
    """

    job_type: Literal["combine"] = "combine"
    step_name: str
    inputs: tuple[Input, ...] = Field(min_length=2)
    # The room in the reader's prompt.
    room_tokens: int = Field(ge=1)


class MergePayload(_Payload):
    """One call that merges documents into one, as a part of a combine job."""

    job_type: Literal["merge"] = "merge"
    step_name: str
    inputs: tuple[Labelled, ...] = Field(min_length=1)
    combine_id: UUID
    # The approximate length of the answer.
    budget_tokens: int = Field(ge=1)
    source_group: UUID | None


TurnPayload: TypeAlias = PlanPayload | ExecutePayload | MergePayload
"""Payloads that run as a model call, turn by turn."""

AnyPayload: TypeAlias = TurnPayload | CombinePayload
_PAYLOAD: TypeAdapter[AnyPayload] = TypeAdapter(
    Annotated[AnyPayload, Field(discriminator="job_type")]
)


def parse_payload(raw: Any) -> AnyPayload:
    """Read a payload once, when the worker claims the job; later code trusts the types."""
    try:
        return _PAYLOAD.validate_python(raw)
    except UsageError as error:  # its relation cannot be part of a file name
        message = f"The job's payload is not valid: {error.message}"
        raise InvalidPayload(message, reason="bad_form", subject="naming") from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "payload"
        raise InvalidPayload(
            f"The job's payload is not valid at `{place}`: {first['msg']}. "
            f"{error.error_count()} error(s) in total; the job cannot run.",
            reason="bad_form",
            subject=place,
        ) from None


JobKey: TypeAlias = tuple[UUID, UUID]
"""Tenant and job id: ids are derived from work, so two tenants may have the same id."""


@dataclass(frozen=True, slots=True)
class Job:
    """A claimed job: its tenant, its payload, and the attempt number that fences its writes."""

    tenant_id: UUID
    id: UUID
    session_id: UUID
    stage_slug: str
    iteration_number: int
    attempt: int
    retry_count: int
    max_retries: int
    current_step: int
    # For how long its provider has throttled it without a break, by the database's clock.
    throttled_s: float
    payload_json: Any
    # The error codes of its attempts so far, oldest first.
    error_codes: tuple[str, ...] = ()
    # A user has approved calls above the automatic spending limit.
    is_spend_approved: bool = False

    @property
    def key(self) -> JobKey:
        return (self.tenant_id, self.id)

    def count_repeats(self, code: str) -> int:
        """Count how often this error came last in a row, ignoring attempts of lost workers."""
        met = [each for each in self.error_codes if each != WORKER_LOST]
        return next((n for n, each in enumerate(reversed(met)) if each != code), len(met))


def derive_root_job_id(
    session_id: UUID, *, iteration: int, stage_slug: str, model_index: int
) -> UUID:
    """Derive the id of one model's plan job in a stage; idempotent."""
    return uuid5(session_id, f"plan:{iteration}:{stage_slug}:{model_index}")


def derive_child_job_id(parent_id: UUID, *, step_name: str, sources: Sequence[UUID]) -> UUID:
    """Derive the id of a child job from its work; planning it again yields the same id."""
    return uuid5(parent_id, f"child:{step_name}:{','.join(sorted(map(str, sources)))}")


def derive_combine_job_id(
    session_id: UUID, *, stage_slug: str, step_name: str, model_name: str, versions: Sequence[UUID]
) -> UUID:
    """Derive the id of a combine job, shared by all jobs that need the same combination.

    They do if the same model reads the same versions in the same step.
    """
    read = ",".join(map(str, versions))
    return uuid5(session_id, f"combine:{stage_slug}:{step_name}:{model_name}:{read}")


def derive_merge_job_id(combine_id: UUID, *, level: int, versions: Sequence[UUID]) -> UUID:
    """Derive the id of one merge within a combine job."""
    return uuid5(combine_id, f"merge:{level}:{','.join(map(str, versions))}")


def derive_edition_job_id(job_id: UUID, *, edition: int) -> UUID:
    """Derive the id of the job that writes a new edition of another job's document."""
    return uuid5(job_id, f"edition:{edition}")


def derive_contribution_id(job_id: UUID) -> UUID:
    """Derive the id of a job's contribution; the same for every attempt."""
    return uuid5(job_id, "contribution")


def derive_chunk_id(job_id: UUID, *, turn: int) -> UUID:
    """Derive the id of one turn of a job's answer; each turn is saved once."""
    return uuid5(job_id, f"chunk:{turn}")
