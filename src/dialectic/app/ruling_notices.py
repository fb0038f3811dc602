"""Tell the user of a session once that a document does not follow a ruling, and when it does."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from dialectic.app.transaction import Transaction
from dialectic.contract.dissents import Dissent
from dialectic.contract.notifications import NotificationType
from dialectic.core.points import Obedience
from dialectic.core.slug import short_id
from dialectic.db.tables.notifications import SQL

SUBJECT_CHARS_MAX = 120


async def tell_broken(tx: Transaction, session_id: UUID, found: Sequence[Dissent]) -> None:
    """Tell of each ruling that the newest document breaks; what is kept stops being told."""
    for one in found:
        if one.ruling is None or one.obeyed is None:
            continue
        cause = f"ruling {one.ruling.id} broken"
        if one.obeyed is Obedience.BROKEN:
            await tx.connection.execute(
                SQL["notify"],
                session_id,
                NotificationType.RULING_BROKEN.value,
                f"A ruling on {short_id(one.id)} was not followed",
                "The newest document says what you ruled against, and not what you ruled for: "
                f"“{_shorten(one.subject)}” Let the document be written again, or rule otherwise.",
                {"session_id": str(session_id), "action": "list_contributions"},
                cause,
                {"dissentId": str(one.id), "rulingId": str(one.ruling.id)},
                False,
            )
        else:
            await tx.connection.execute(SQL["resolve"], cause)


def _shorten(words: str) -> str:
    line = " ".join(words.split())
    return line if len(line) <= SUBJECT_CHARS_MAX else f"{line[: SUBJECT_CHARS_MAX - 1]}…"
