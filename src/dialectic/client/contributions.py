"""Calls for contributions and their versions. Pure."""

from __future__ import annotations

from uuid import UUID

from dialectic.client.call import Call, act, fill, get
from dialectic.contract.base import Page
from dialectic.contract.contributions import (
    ChunkRecord,
    Contribution,
    ContributionRecord,
    ContributionSummary,
    ContributionVersion,
    EditRequest,
    RatingRequest,
    Record,
)
from dialectic.contract.sessions import CreatedJobs, SavedFeedback

# -- asked -----------------------------------------------------------------------------------------


def list_contributions(
    session_id: UUID, *, stage: str | None = None
) -> Call[Page[ContributionSummary]]:
    """List the latest version of each contribution of a session."""
    path = f"/sessions/{session_id}/contributions"
    return get(path, Page[ContributionSummary], stage=stage)


def get_contribution(contribution_id: UUID) -> Call[Contribution]:
    """Show one version of a contribution."""
    return get(f"/contributions/{contribution_id}", Contribution)


def get_record(contribution_id: UUID) -> Call[Record[ContributionRecord]]:
    """Show a contribution with all its fields and turns."""
    return get(f"/contributions/{contribution_id}/record", Record[ContributionRecord])


def get_chunk(chunk_id: UUID) -> Call[Record[ChunkRecord]]:
    """Show one turn of a contribution."""
    return get(f"/chunks/{chunk_id}", Record[ChunkRecord])


def list_versions(contribution_id: UUID) -> Call[Page[ContributionVersion]]:
    """List all versions of a contribution, oldest first."""
    return get(f"/contributions/{contribution_id}/versions", Page[ContributionVersion])


def edit(
    contribution_id: UUID, content: str, *, etag: str | None = None, key: str | None = None
) -> Call[Contribution]:
    """Replace a contribution with your version; with an ETag, only if it is unchanged."""
    path, kind = f"/contributions/{contribution_id}", Contribution
    return Call(
        method="PUT",
        path=path,
        read=kind.model_validate_json,
        headers={} if etag is None else {"If-Match": etag},
        body=fill(EditRequest, content=content),
        key=key or "",
    )


def regenerate(contribution_id: UUID, *, key: str | None = None) -> Call[CreatedJobs]:
    """Regenerate a contribution with the same model."""
    return act(f"/contributions/{contribution_id}/regenerate", CreatedJobs, key=key)


def rate(contribution_id: UUID, rating: int, *, key: str | None = None) -> Call[SavedFeedback]:
    """Rate a contribution from 1 to 5."""
    path, body = f"/contributions/{contribution_id}/rating", fill(RatingRequest, rating=rating)
    return act(path, SavedFeedback, body, key=key)
