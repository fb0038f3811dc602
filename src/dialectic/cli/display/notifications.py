"""Shows notifications: as a list, and as one line at the end of other commands."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING
from uuid import UUID

from dialectic.cli.backend import Backend
from dialectic.cli.error_report import advise
from dialectic.cli.options import name_command
from dialectic.cli.terminal import count, say, show_time
from dialectic.errors import Forbidden, Remedy, read_remedy

if TYPE_CHECKING:
    from dialectic.contract.notifications import Notification
    from dialectic.contract.problems import ProblemRemedy


def describe_notification(one: Notification) -> Iterator[str]:
    """Describe a notification: its title, its message and, if its cause remains, what helps."""
    state = "resolved" if one.resolved_at else "read" if one.read_at else ""
    shown = f"{one.id:>5}  {show_time(one.created_at)}  {one.title or one.type}"
    yield f"{shown}  ({state})" if state else shown
    if one.message:
        yield f"       {one.message}"
    if one.resolved_at is None and (advice := advise(_read(one.remedy))) is not None:
        yield f"       {advice}"


def _read(remedy: ProblemRemedy | None) -> Remedy | None:
    return None if remedy is None else read_remedy(remedy.model_dump())


async def report_unread(backend: Backend, *, shown: UUID | None = None) -> None:
    """Print how many notifications are unread.

    What the command has just shown of a session is read. A token that may not write marks nothing.
    """
    if shown is not None:
        with contextlib.suppress(Forbidden):
            await backend.mark_all_read(session_id=shown)
    unread = await backend.count_unread()
    if unread:
        which = "it" if unread == 1 else "them"
        command = name_command("notifications")
        say(f"{count(unread, 'unread notification')}: `{command}` shows {which}.")
