"""Requests and responses of the search over everything. Pure."""

from __future__ import annotations

from enum import StrEnum
from uuid import UUID

from pydantic import Field

from dialectic.contract.base import ResponseBody

HITS_DEFAULT, HITS_MAX = 20, 50
QUERY_CHARS_MAX = 200


class SearchKind(StrEnum):
    """What can be found."""

    PROJECT = "project"
    SESSION = "session"
    DOCUMENT = "document"
    PASSAGE = "passage"
    CHAT = "chat"


class Hit(ResponseBody):
    """Something that was found."""

    kind: SearchKind
    id: UUID = Field(description="Of a passage: the id of its document.")
    title: str
    excerpt: str = Field(description="The text around the first word that was found.")
    path: str = Field(description="The page that shows it.", examples=["/documents/7f94…#b-12"])
    score: float = Field(ge=0, le=1, description="Best first; comparable within one response.")


class Hits(ResponseBody):
    """What was found, best first."""

    items: list[Hit]
