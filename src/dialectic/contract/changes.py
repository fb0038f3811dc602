"""Change events: parts of a board and of lists that replace what a page shows. Pure.

They are not stored: the hub builds them from rows that changed, so the newest state wins and one
may come twice. The other events are in `events`; a reader of streams imports this module when the
first change comes.
"""

from __future__ import annotations

import functools
from typing import Annotated, Any, ClassVar, Union
from uuid import UUID

from pydantic import Field, TypeAdapter

from dialectic.contract.board import (
    BoardDocument,
    BoardFeedback,
    BoardJob,
    BoardNeed,
    BoardSession,
    BoardStage,
    SessionMoney,
)
from dialectic.contract.chats import ChatSummary
from dialectic.contract.events import CHANGES, Event, EventPart, build_event_model
from dialectic.contract.projects import ProjectSummary
from dialectic.contract.summaries import Wallet

GONE = "It was deleted, and the object is null."


class Changed(EventPart):
    """The data of a change event."""

    type: ClassVar[str]


class JobsChanged(Changed):
    """Calls of a session were planned, began, wait, or ended; with all stages of the iteration."""

    type = "jobs_changed"

    session_id: UUID
    jobs: list[BoardJob]
    stages: list[BoardStage]


class SessionChanged(Changed):
    """A session, what it needs, or its budget changed."""

    type = "session_changed"

    session: BoardSession
    needs: list[BoardNeed]
    money: SessionMoney


class DocumentChanged(Changed):
    """A document was saved, edited or rated, or is stale. Drafts are told by their jobs."""

    type = "document_changed"

    session_id: UUID
    document: BoardDocument


class MoneyChanged(Changed):
    """A session or your wallet has other amounts; the other field is null."""

    type = "money_changed"

    session_id: UUID | None = None
    money: SessionMoney | None = None
    wallet: Wallet | None = None


class FeedbackChanged(Changed):
    """A user said something, or took it back."""

    type = "feedback_changed"

    session_id: UUID | None
    feedback_id: UUID
    feedback: BoardFeedback | None
    is_gone: bool = Field(default=False, description=GONE)


class ProjectChanged(Changed):
    """A project was made, renamed, archived or deleted, or a person has worked on its plan."""

    type = "project_changed"

    project_id: UUID
    project: ProjectSummary | None
    is_gone: bool = Field(default=False, description=GONE)


class ChatChanged(Changed):
    """A chat was made, renamed, continued or deleted."""

    type = "chat_changed"

    chat_id: UUID
    chat: ChatSummary | None
    is_gone: bool = Field(default=False, description=GONE)


CHANGE_TYPES: tuple[type[Changed], ...] = (
    JobsChanged,
    SessionChanged,
    DocumentChanged,
    MoneyChanged,
    FeedbackChanged,
    ProjectChanged,
    ChatChanged,
)
assert {kind.type for kind in CHANGE_TYPES} == CHANGES


@functools.cache
def build_change_adapter() -> TypeAdapter[Event]:
    """Build the union of all change events; their `type` tells them apart."""
    known: Any = Union[tuple(map(build_event_model, CHANGE_TYPES))]  # noqa: UP007  from a list
    return TypeAdapter(Annotated[known, Field(discriminator="type")])
