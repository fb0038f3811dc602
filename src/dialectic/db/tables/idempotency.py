"""Idempotency keys and stored responses. The statements are in sql/queries/idempotency.sql.

Independent of what a request does. A key is claimed in the transaction of the effect. Work of
several commits claims it in a transaction of its own, with a lease that it renews.
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
    """A response, byte for byte."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    # Whether this is a replay; the response is the same.
    is_repeated: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class RequestKey:
    """An idempotency key of a user, and a hash of the whole request."""

    user_id: UUID
    key: str
    request_sha256: bytes


@dataclass(frozen=True, slots=True)
class Claim:
    """A request that this process handles. New rows derive their ids from `effect_id`."""

    name: RequestKey
    effect_id: UUID
    # None: the claim belongs to the transaction that made it.
    id: UUID | None


class _State(enum.Enum):
    TAKEN = "taken"
    ANSWERED = "answered"
    BUSY = "busy"
    OTHER = "other"


async def claim(
    connection: Connection, name: RequestKey, *, lease: timedelta | None = None
) -> Claim | StoredResponse:
    """Claim a key: return a claim if this process does the work, else the stored response.

    With a lease the claim outlives this transaction. A second request waits for the first one's
    commit; after a timeout it raises `InProgress`.
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
    """Store the response to a claimed request; raise `InProgress` if the claim was lost."""
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
        raise InProgress("Another process has taken over this request. Send it again.")


async def renew(connection: Connection, held: Claim, lease: timedelta) -> bool:
    """Renew the lease of a claim; False if the claim was lost."""
    name = held.name
    return bool(await connection.fetchval(SQL["renew"], name.user_id, name.key, held.id, lease))


async def release(connection: Connection, held: Claim) -> None:
    """Release a key whose request had no effect."""
    await connection.execute(SQL["forget"], held.name.user_id, held.name.key, held.id)
