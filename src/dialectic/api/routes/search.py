"""HTTP route of the search over everything."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from dialectic.api.dependencies import Reading
from dialectic.app import global_search
from dialectic.contract.search import (
    HITS_DEFAULT,
    HITS_MAX,
    QUERY_CHARS_MAX,
    Hits,
    SearchKind,
)
from dialectic.errors import InvalidValue

router = APIRouter(tags=["projects"])


@router.get("/search")
async def search_all(
    context: Reading,
    q: Annotated[
        str,
        Query(
            min_length=1,
            max_length=QUERY_CHARS_MAX,
            pattern=r"^[^\x00]*[^\s\x00][^\x00]*$",
            description="Words that all must be found.",
        ),
    ],
    kinds: Annotated[
        str,
        Query(
            max_length=100,
            description="What to look for, separated by commas.",
            examples=["project,session"],
        ),
    ] = ",".join(SearchKind),
    limit: Annotated[int, Query(ge=1, le=HITS_MAX)] = HITS_DEFAULT,
) -> Hits:
    """Find projects, sessions, documents, passages and chats by words, best first."""
    return await context.run(global_search.search, q, _read_kinds(kinds), limit)


def _read_kinds(text: str) -> list[SearchKind]:
    try:
        return [SearchKind(name.strip()) for name in text.split(",")]
    except ValueError:
        raise InvalidValue(
            f"`kinds` must be some of {', '.join(SearchKind)}, separated by commas.",
            reason="unknown_kind",
            subject="kinds",
        ) from None
