"""Drafts for followers: one reader per process, and only while someone follows.

Reads the drafts of all followed sessions at once, four times a second, and tells workers that
someone watches. Lossy: a follower that lags, or a text that grows too fast, misses pieces; their
offsets show that. Owns no connection: it borrows that of the process's pool for each statement.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field, replace
from uuid import UUID

import asyncpg

from dialectic.contract.events import Draft
from dialectic.db.pool import Database
from dialectic.db.tables import drafts
from dialectic.db.tables.drafts import WATCHED_S, DraftPiece, SessionKey
from dialectic.errors import DialecticError
from dialectic.events.channel import Subscription

logger = logging.getLogger(__name__)

# No draft gets more than one frame in this time.
READ_INTERVAL_S = 0.25
# Workers hear several times that someone watches, before they stop.
WATCH_INTERVAL_S = WATCHED_S / 3
# A frame has at most 2 KB with its text as JSON, in which a character may take six bytes.
TEXT_MAX_BYTES = 1_600


@dataclass(slots=True, eq=False)
class DraftFeed:
    """The drafts that the followers of one process have asked for."""

    _followers: dict[Subscription, frozenset[SessionKey]] = field(default_factory=dict)
    # The newest piece of each draft that was sent: where to go on, and what a new follower gets.
    _known: dict[UUID, DraftPiece] = field(default_factory=dict)
    _reading: asyncio.Task[None] | None = None

    @contextlib.asynccontextmanager
    async def follow(
        self,
        db: Database,
        tenant_id: UUID,
        session_ids: Iterable[UUID],
        subscription: Subscription,
    ) -> AsyncIterator[None]:
        """Give a follower the drafts of sessions, which must be its tenant's."""
        wanted = frozenset((tenant_id, session_id) for session_id in session_ids)
        if not wanted:
            yield
            return
        for piece in self._known.values():
            if (piece.tenant_id, piece.session_id) in wanted:
                subscription.offer_draft(render_draft(piece))
        self._followers[subscription] = wanted
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read_on(db), name="drafts")
        try:
            await self._watch(db, wanted)
            yield
        finally:
            del self._followers[subscription]
            if not self._followers:
                self._reading.cancel()
                self._known.clear()

    async def _read_on(self, db: Database) -> None:
        clock = asyncio.get_running_loop().time
        watched_at_s = clock()
        while True:
            await asyncio.sleep(READ_INTERVAL_S)
            sessions = frozenset[SessionKey]().union(*self._followers.values())
            try:
                if clock() >= watched_at_s + WATCH_INTERVAL_S:
                    watched_at_s = clock()
                    await self._watch(db, sessions)
                found = await drafts.read(db, sessions, self._known, chars_max=TEXT_MAX_BYTES)
            except (DialecticError, asyncpg.PostgresError) as error:
                logger.debug("drafts cannot be read now: %s", error)
                continue
            self._publish([cut_piece(piece) for piece in found])
            self._forget(sessions)

    async def _watch(self, db: Database, sessions: frozenset[SessionKey]) -> None:
        with contextlib.suppress(DialecticError, asyncpg.PostgresError):
            await drafts.watch(db, sessions)

    def _publish(self, pieces: list[DraftPiece]) -> None:
        for piece in pieces:
            self._known.pop(piece.job_id, None)  # the newest last
            self._known[piece.job_id] = piece
            wire = render_draft(piece)
            for subscription, wanted in list(self._followers.items()):
                if (piece.tenant_id, piece.session_id) in wanted:
                    subscription.offer_draft(wire)

    def _forget(self, sessions: frozenset[SessionKey]) -> None:
        """Forget drafts that no one follows, and the oldest of a session with too many."""
        counts: Counter[SessionKey] = Counter()
        for job_id, piece in reversed(list(self._known.items())):
            key = piece.tenant_id, piece.session_id
            counts[key] += 1
            if key not in sessions or counts[key] > KNOWN_MAX:
                del self._known[job_id]


# The drafts of a session that are remembered: more than its calls run at a time.
KNOWN_MAX = 200


def cut_piece(piece: DraftPiece) -> DraftPiece:
    """Cut a piece so that its frame stays small; the rest comes with the next frame."""
    encoded = json.dumps(piece.text, ensure_ascii=False).encode()
    if len(encoded) <= TEXT_MAX_BYTES:
        return piece
    low, high = 0, len(piece.text)
    while low < high:
        middle = (low + high + 1) // 2
        is_small = len(json.dumps(piece.text[:middle], ensure_ascii=False).encode())
        low, high = (middle, high) if is_small <= TEXT_MAX_BYTES else (low, middle - 1)
    return replace(piece, text=piece.text[:low])


def render_draft(piece: DraftPiece) -> bytes:
    """Render a frame without an id line: it moves no position and is not resumed."""
    said = Draft(
        session_id=piece.session_id,
        job_id=piece.job_id,
        attempt=piece.attempt,
        turn=piece.turn,
        phase=piece.phase,
        at=piece.at,
        text=piece.text,
        words=piece.words,
    )
    return f"event: {Draft.type}\ndata: {said.model_dump_json()}\n\n".encode()
