"""What changed for the followers of a tenant, and how often it is told. Knows no rows.

The hub reads changes through a function that it is given: what a page shows is built above here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias
from uuid import UUID

from dialectic.contract.events import ContributionReceived
from dialectic.core.strict_json import Json
from dialectic.db.pool import Connection
from dialectic.db.tables.board import Moment
from dialectic.db.tables.notifications import PAGE, EventPage, StoredEvent, read_events

# Jobs are told at most four times a second, money once a second; the newest state wins.
CHANGES_S = 0.25
MONEY_S = 1.0


@dataclass(frozen=True, slots=True)
class Change:
    """One change event, before it has a position in a stream."""

    type: str
    session_id: UUID | None
    # The only user who may see it; None: every user of the tenant.
    user_id: UUID | None
    data: Json
    # The first transaction that it tells of.
    since: int


@dataclass(frozen=True, slots=True)
class ChangePage:
    """What changed between two snapshots."""

    moment: Moment
    changes: Sequence[Change]
    # More changed than a stream tells: the client must load everything again.
    is_too_long: bool = False


@dataclass(slots=True)
class Told:
    """What the followers of a tenant were told last, so that nothing is told without need."""

    # By session: its state as JSON, and when its money was told.
    states: dict[UUID, str] = field(default_factory=dict)
    money: dict[UUID, str] = field(default_factory=dict)
    money_at_s: dict[UUID, float] = field(default_factory=dict)
    # Sessions whose money is told when a second has passed.
    owed: set[UUID] = field(default_factory=set)

    def list_due(self, now_s: float) -> set[UUID]:
        """List the sessions whose money may be told now."""
        return {each for each in self.owed if self.can_tell_money(each, now_s)}

    def can_tell_money(self, session_id: UUID, now_s: float) -> bool:
        """Tell whether a second has passed since the session's money was told."""
        return now_s >= self.money_at_s.get(session_id, -MONEY_S) + MONEY_S


@dataclass(frozen=True, slots=True)
class Question:
    """What to read: the changes of a tenant since a snapshot."""

    tenant_id: UUID
    seen: str
    told: Told
    now_s: float


ReadChanges: TypeAlias = Callable[[Connection, Question], Awaitable[ChangePage]]
LoadDocuments: TypeAlias = Callable[
    [Connection, Mapping[UUID, Sequence[UUID]]], Awaitable[Mapping[UUID, Json]]
]
"""Loads documents as a board shows them: their ids by session; found by these ids."""


@dataclass(frozen=True, slots=True)
class ChangeSource:
    """Reads what pages show: what changed, and the documents of events."""

    read: ReadChanges
    load_documents: LoadDocuments

    async def read_page(
        self,
        connection: Connection,
        *,
        after_seq: int,
        session_id: UUID | None = None,
        limit: int = PAGE,
    ) -> EventPage:
        """Read events, with the documents of those that tell of new ones."""
        page = await read_events(
            connection, after_seq=after_seq, session_id=session_id, limit=limit
        )
        return replace(page, events=await self.add_documents(connection, page.events))

    async def add_documents(
        self, connection: Connection, events: Sequence[StoredEvent]
    ) -> list[StoredEvent]:
        """Add the documents, as a board shows them now, to the events that tell of new ones."""
        wanted: dict[UUID, list[UUID]] = {}
        for event in events:
            if event.type == ContributionReceived.type and event.session_id is not None:
                wanted.setdefault(event.session_id, []).append(_get_document_id(event))
        if not wanted:
            return list(events)
        found = await self.load_documents(connection, wanted)
        return [
            replace(event, data={**event.data, "document": found[_get_document_id(event)]})
            if event.type == ContributionReceived.type
            and isinstance(event.data, dict)
            and _get_document_id(event) in found
            else event
            for event in events
        ]


def _get_document_id(event: StoredEvent) -> UUID:
    """Get the id of the contribution that an event tells of."""
    data: Any = event.data
    return UUID(data["contribution"]["id"])
