"""Requests that name themselves, and what was answered. Statements in sql/queries/idempotency.sql.

Knows nothing of what a request does. A name is taken in the transaction of the effect, or, for work
of several commits, in one of its own, for as long as the claim is renewed.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID, uuid4

import asyncpg

from dialectic.db.pool import Connection
from dialectic.db.queries import load_queries
from dialectic.errors import InProgress, KeyReused

SQL = load_queries("idempotency")


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """What is sent back, byte for byte."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    # Whether it is told again; the answer is the same.
    is_repeated: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class RequestKey:
    """The name of a request, and a hash of all that it asks."""

    user_id: UUID
    key: str
    request_sha256: bytes


@dataclass(frozen=True, slots=True)
class Claim:
    """A request that is ours to answer. What it makes takes its ids from the effect's."""

    name: RequestKey
    effect_id: UUID
    # None: it lives and dies with the transaction it was made in.
    id: UUID | None


class _State(enum.Enum):
    TAKEN = "taken"
    ANSWERED = "answered"
    BUSY = "busy"
    OTHER = "other"


async def claim(
    connection: Connection, name: RequestKey, *, lease: timedelta | None = None
) -> Claim | StoredResponse:
    """Take a name: a claim if the work is ours, the answer if it was done.

    With a lease the claim outlives this transaction. Whoever comes while another one works waits
    for its commit, and is told after a while that it is in progress.
    """
    claim_id = None if lease is None else uuid4()
    try:
        row = await connection.fetchrow(
            SQL["claim"], name.user_id, name.key, name.request_sha256, uuid4(), claim_id, lease
        )
    except asyncpg.LockNotAvailableError as error:
        raise InProgress from error
    assert row is not None
    match _State(row["state"]):
        case _State.TAKEN:
            return Claim(name, row["effect_id"], claim_id)
        case _State.ANSWERED:
            return StoredResponse(row["status"], row["body"], row["headers"], is_repeated=True)
        case _State.BUSY:
            raise InProgress
        case _State.OTHER:
            raise KeyReused


async def save_response(connection: Connection, held: Claim, answer: StoredResponse) -> None:
    """Keep the answer to a claimed request. Whoever has lost the claim can write nothing."""
    name = held.name
    kept = await connection.fetchval(
        SQL["remember"],
        name.user_id,
        name.key,
        held.id,
        answer.status,
        dict(answer.headers),
        answer.body,
    )
    if kept is None:
        raise InProgress("Another process has taken this request over. Send it again.")


async def renew(connection: Connection, held: Claim, lease: timedelta) -> bool:
    """Keep a claim for another while; False if it is lost."""
    name = held.name
    return bool(await connection.fetchval(SQL["renew"], name.user_id, name.key, held.id, lease))


async def release(connection: Connection, held: Claim) -> None:
    """Give a name free whose request came to nothing."""
    await connection.execute(SQL["forget"], held.name.user_id, held.name.key, held.id)
