"""Requests and responses about notifications: messages to users. Pure."""

from __future__ import annotations

import enum
from datetime import datetime
from uuid import UUID

from pydantic import Field

from dialectic.contract.base import Page, RequestBody, ResponseBody
from dialectic.contract.problems import KnownRemedy
from dialectic.core.strict_json import Json

ID_MAX = 2**63 - 1


class NotificationType(enum.StrEnum):
    """What a notification is about. Values are added, never changed."""

    SESSION_DONE = "session_done"
    SESSION_WAITS_FOR_YOU = "session_waits_for_you"  # to read a stage and give feedback
    SESSION_FAILED = "session_failed"
    RULING_BROKEN = "ruling_broken"  # a document says only what a person ruled against
    SESSION_SEAT_LOST = "session_seat_lost"  # it goes on without one of its models
    SESSION_STOPPED = "session_stopped"  # someone cancelled it
    SESSION_NEEDS_MONEY = "session_needs_money"
    SESSION_NEEDS_APPROVAL = "session_needs_approval"
    SESSION_NEEDS_KEY = "session_needs_key"
    SESSION_BLOCKED = "session_blocked"  # until the operator has removed an obstacle


class Notification(ResponseBody):
    """A notification to a user."""

    id: int
    # A newer server may send another type.
    type: str = Field(examples=[NotificationType.SESSION_FAILED.value])
    title: str | None = Field(examples=["Village hall: Synthesis failed"])
    message: str | None = Field(description="What happened, and what to do.")
    link_path: str | None = Field(
        description="What it is about, below the address of the API.", examples=["/sessions/{id}"]
    )
    session_id: UUID | None
    remedy: KnownRemedy = Field(description="The next step, if there is one.")
    data: Json
    read_at: datetime | None
    resolved_at: datetime | None = Field(description="When its cause ended.")
    created_at: datetime


class NotificationPage(Page[Notification]):
    """One page of your notifications."""

    unread_count: int = Field(description="How many you have not read, on all pages.")


class ReadRequest(RequestBody):
    """Which notifications to mark as read: all that meet every given condition."""

    up_to: int | None = Field(
        default=None, ge=0, le=ID_MAX, description="This notification and older ones."
    )
    session_id: UUID | None = Field(default=None, description="Those about this session.")


class ReadResult(ResponseBody):
    """How many notifications were marked as read, and how many are still unread."""

    read_count: int
    unread_count: int
