"""Requests and responses about contributions, their versions and jobs. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import (
    Field,
)

from dialectic.contract.base import (
    RequestBody,
    ResponseBody,
)

RATING_MIN, RATING_MAX = 1, 5


class ContributionSummary(ResponseBody):
    """A contribution in a list, in its newest version."""

    id: UUID
    session_id: UUID
    model: str
    stage: str
    iteration: int
    type: str = Field(examples=["thesis"])
    path: str
    version: int
    is_incomplete: bool = Field(description="The answer was truncated and will not be continued.")
    is_intermediate: bool
    is_stale: bool = Field(description="One of its sources has a newer version.")
    flags: list[str]
    size_bytes: int
    input_tokens: int | None
    output_tokens: int | None
    finish_reason: str | None
    created_at: datetime


class Contribution(ResponseBody):
    """One version of a contribution, with its text and origin."""

    id: UUID
    session_id: UUID
    job_id: UUID | None
    model: str
    stage: str
    iteration: int
    type: str
    path: str
    version: int
    original_id: UUID = Field(description="The id of the first version.")
    is_latest: bool
    is_by_user: bool
    is_incomplete: bool
    is_intermediate: bool
    is_stale: bool
    flags: list[str]
    about_id: UUID | None = Field(description="The contribution that it critiques.")
    source_ids: list[UUID] = Field(description="The contributions it was written from.")
    input_tokens: int | None
    output_tokens: int | None
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
    version: int
    is_latest: bool
    is_by_user: bool
    created_at: datetime


class Job(ResponseBody):
    """A unit of work that a worker runs."""

    id: UUID
    parent_id: UUID | None
    type: str = Field(examples=["execute"])
    stage: str
    iteration: int
    status: str = Field(examples=["processing"])
    status_reason: str | None
    model: str | None
    attempts: int
    retries: int
    errors: list[dict[str, Any]]
    created_at: datetime
    started_at: datetime | None
    completed_at: datetime | None


class Record(ResponseBody):
    """All stored data of one contribution, or of one of its turns."""

    record: dict[str, Any]
