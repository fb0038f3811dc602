"""Lines of the lists that people look at: projects, sessions, and what waits for a person. Pure."""

from __future__ import annotations

import enum
from datetime import datetime
from uuid import UUID

from pydantic import Field

from dialectic.contract.base import Dollars, ResponseBody
from dialectic.contract.projects import ProjectSummary
from dialectic.contract.summaries import SessionSummary


class ProjectSort(enum.StrEnum):
    """The order of a list of projects."""

    CREATED = "created"  # the newest first
    ACTIVITY = "activity"  # what moved last first
    NAME = "name"


class SeatLine(ResponseBody):
    """A seat of a session."""

    index: int
    model: str
    label: str = Field(description="The model without its endpoint.", examples=["architect"])
    is_lead: bool
    is_dropped: bool


class StageLine(ResponseBody):
    """A stage of the process, and how far it is in the current iteration."""

    slug: str
    title: str
    status: str = Field(
        examples=["not_begun", "waiting", "generating", "complete", "failed", "cancelled"]
    )
    planned: int
    finished: int
    running: int = Field(description="How many calls are under way.")


class ListedNeed(ResponseBody):
    """Something that waits for a person, and in which session."""

    session_id: UUID
    project_id: UUID
    project_name: str
    code: str = Field(examples=["feedback", "funds", "budget", "approval", "key", "failure"])
    stage: str
    stage_title: str
    jobs: list[UUID] = Field(description="The calls that wait for it, or have failed.")
    since: datetime | None


class SessionLine(SessionSummary):
    """A session in a list, with all that a row shows."""

    seats: list[SeatLine]
    stages: list[StageLine] = Field(description="All stages of the process, in order.")
    running: int = Field(description="How many calls are under way.")
    is_play: bool = Field(description="All its spending so far was play money.")
    spent: Dollars
    budget: Dollars | None
    updated_at: datetime = Field(description="When it last moved.")
    needs: list[ListedNeed]


class ProjectLine(ProjectSummary):
    """A project in a list, with its last session."""

    prompt_excerpt: str
    updated_at: datetime = Field(description="When one of its sessions last moved.")
    sessions: int = Field(description="How many it has.")
    spent: Dollars
    play_spent: Dollars
    last_session: SessionLine | None


class NeedList(ResponseBody):
    """What waits for a person in all sessions, the longest first."""

    items: list[ListedNeed]
