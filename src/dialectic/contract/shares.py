"""Requests and responses about links to reports. Pure."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from pydantic import Field

from dialectic.contract.base import Author, RequestBody, ResponseBody

DAYS_MAX = 365
DAYS_DEFAULT = 30
PASS_PHRASE_CHARS_MIN, PASS_PHRASE_CHARS_MAX = 8, 200


class ShareRequest(RequestBody):
    """A link to a session's report, for people without an account."""

    days: int = Field(
        default=DAYS_DEFAULT, ge=1, le=DAYS_MAX, strict=True, description="How long it works."
    )
    pass_phrase: str | None = Field(
        default=None,
        min_length=PASS_PHRASE_CHARS_MIN,
        max_length=PASS_PHRASE_CHARS_MAX,
        description="What a reader must enter first.",
    )
    drafts: bool = Field(
        default=False, strict=True, description="Include the drafts of later steps."
    )
    names: bool = Field(
        default=True, strict=True, description="Name the models; else only their seats."
    )


class Share(ResponseBody):
    """A link to a report, without its secret."""

    id: UUID
    session_id: UUID
    has_pass_phrase: bool
    has_drafts: bool
    has_names: bool
    by: Author
    created_at: datetime
    expires_at: datetime


class IssuedShare(Share):
    """A new link. Its path is shown once."""

    path: str = Field(description="The page of the report, on this server.", examples=["/s/Zm9v…"])
