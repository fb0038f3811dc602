"""Contributions and their versions: as they are asked for and answered. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from dialectic.client.acting import Jobs, Kept
from dialectic.client.call import Answer, Call, Page, act, get


class ContributionLine(Answer, frozen=True):
    """A contribution in a list, in its newest version."""

    id: UUID
    session_id: UUID
    model: str
    stage: str
    iteration: int
    type: str
    path: str
    version: int
    is_incomplete: bool
    is_intermediate: bool
    is_stale: bool
    flags: list[str]
    size_bytes: int
    input_tokens: int | None
    output_tokens: int | None
    finish_reason: str | None
    created_at: datetime


class Contribution(Answer, frozen=True):
    """One version of a contribution, with its text and how it came about."""

    id: UUID
    session_id: UUID
    job_id: UUID | None
    model: str
    stage: str
    iteration: int
    type: str
    path: str
    version: int
    original_id: UUID
    is_latest: bool
    is_by_user: bool
    is_incomplete: bool
    is_intermediate: bool
    is_stale: bool
    flags: list[str]
    about_id: UUID | None
    source_ids: list[UUID]
    input_tokens: int | None
    output_tokens: int | None
    finish_reason: str | None
    created_at: datetime
    content: str


class Version(Answer, frozen=True):
    """One of the versions of a contribution."""

    id: UUID
    version: int
    is_latest: bool
    is_by_user: bool
    created_at: datetime


class Record(Answer, frozen=True):
    """One contribution, or one turn of it, with all that is known of it."""

    record: dict[str, Any]


# -- asked -----------------------------------------------------------------------------------------


def list_contributions(
    session_id: UUID, *, stage: str | None = None
) -> Call[Page[ContributionLine]]:
    """List a session's contributions in their newest versions."""
    path = f"/sessions/{session_id}/contributions"
    return get(path, Page[ContributionLine], stage=stage)


def get_contribution(contribution_id: UUID) -> Call[Contribution]:
    """Read one version of a contribution."""
    return get(f"/contributions/{contribution_id}", Contribution)


def get_record(contribution_id: UUID) -> Call[Record]:
    """Read a contribution with all that is known of it, its turns too."""
    return get(f"/contributions/{contribution_id}/record", Record)


def get_chunk(chunk_id: UUID) -> Call[Record]:
    """Read one turn of a contribution."""
    return get(f"/chunks/{chunk_id}", Record)


def list_versions(contribution_id: UUID) -> Call[Page[Version]]:
    """List all versions of a contribution, the first one first."""
    return get(f"/contributions/{contribution_id}/versions", Page[Version])


def edit(
    contribution_id: UUID, content: str, *, etag: str | None = None, key: str | None = None
) -> Call[Contribution]:
    """Put your version in the place of a contribution; with an ETag only if it is still that."""
    path, kind = f"/contributions/{contribution_id}", Contribution
    return Call(
        method="PUT",
        path=path,
        read=kind.model_validate_json,
        headers={} if etag is None else {"If-Match": etag},
        body={"content": content},
        key=key or "",
    )


def regenerate(contribution_id: UUID, *, key: str | None = None) -> Call[Jobs]:
    """Let the same model write a contribution anew."""
    return act(f"/contributions/{contribution_id}/regenerate", Jobs, key=key)


def rate(contribution_id: UUID, rating: int, *, key: str | None = None) -> Call[Kept]:
    """Rate a contribution from 1 to 5."""
    path, body = f"/contributions/{contribution_id}/rating", {"rating": rating}
    return act(path, Kept, body, key=key)
