"""Copy the text of running calls to the database, for those who watch from other processes.

One statement at most a second holds all calls of a worker. It says which sessions someone watches;
only their text is sent, from where the database has it. No job waits for it, and nothing is lost if
it fails: the next statement has what this one had.
"""

from __future__ import annotations

import asyncio
import logging
import time

import asyncpg

from dialectic.core.job import JobKey
from dialectic.db.tables import drafts
from dialectic.db.tables.drafts import NewDraft
from dialectic.engine import Engine, Outage
from dialectic.errors import DialecticError
from dialectic.live_calls import LiveCall

logger = logging.getLogger(__name__)

WRITE_INTERVAL_S = 1.0


async def write_drafts(engine: Engine, *, interval_s: float = WRITE_INTERVAL_S) -> None:
    """Copy drafts at an interval until cancelled."""
    copies, outage = Copies(), Outage()
    while True:
        await asyncio.sleep(interval_s)
        if not (new := copies.list_new(engine.live_calls.list_documents())):
            continue
        try:
            copies.note(new, await drafts.write(engine.db, new))
            outage.ends()
        except (DialecticError, asyncpg.PostgresError) as error:
            if outage.begins(error):
                logger.info("drafts cannot be shown now: %s", error)


class Copies:
    """What the database has of each running call. Pure state, without I/O."""

    def __init__(self) -> None:
        # By job: its attempt and turn, the stored characters, and what was told last.
        self._stored: dict[JobKey, tuple[int, int, int]] = {}
        self._told: dict[JobKey, NewDraft] = {}

    def list_new(self, calls: list[LiveCall]) -> list[NewDraft]:
        """List the calls to tell of: watched ones that have changed, and all unwatched ones.

        Of an unwatched call only its key counts: its text is sent when someone watches it.
        """
        keys = {(call.tenant_id, call.job_id) for call in calls}
        self._stored = {key: stored for key, stored in self._stored.items() if key in keys}
        self._told = {key: told for key, told in self._told.items() if key in keys}
        found = [self._build(call) for call in calls]
        return [new for new in found if self._has_changed(new)]

    def note(self, new: list[NewDraft], stored: dict[JobKey, int]) -> None:
        """Remember how much is stored; a call that is missing there has no watcher."""
        for told in new:
            if (chars := stored.get(told.key)) is None:
                self._stored.pop(told.key, None)
            else:
                self._stored[told.key] = told.attempt, told.turn, chars
                self._told[told.key] = told

    def _build(self, call: LiveCall) -> NewDraft:
        key = call.tenant_id, call.job_id
        attempt, turn, chars = self._stored.get(key, (0, 0, 0))
        is_watched = (attempt, turn) == (call.attempt, call.turn)
        at = chars if is_watched else 0
        age_s = None if call.first_text_s is None else time.monotonic() - call.first_text_s
        return NewDraft(
            key=key,
            attempt=call.attempt,
            turn=call.turn,
            phase=call.phase.value,
            at=at,
            text=make_storable(call.read_text(at)) if is_watched else "",
            words=call.words,
            text_age_s=age_s,
        )

    def _has_changed(self, new: NewDraft) -> bool:
        stored, told = self._stored.get(new.key), self._told.get(new.key)
        if stored is None or told is None or stored[:2] != (new.attempt, new.turn):
            return True
        return bool(new.text) or (told.phase, told.words) != (new.phase, new.words)


def make_storable(text: str) -> str:
    """Replace what PostgreSQL cannot store, character by character, so that lengths stay."""
    if "\x00" in text:
        text = text.replace("\x00", "\ufffd")
    try:
        text.encode()
    except UnicodeEncodeError:
        return "".join("\ufffd" if "\ud800" <= each <= "\udfff" else each for each in text)
    return text
