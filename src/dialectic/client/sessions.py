"""Sessions, looked at and quoted: as they are asked for and answered. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from dialectic.client.call import Answer, Call, Page, act, drop_none, get
from dialectic.client.projects import Resource


class Stage(Answer, frozen=True):
    """One stage of one iteration, and how far it is."""

    stage: str
    iteration: int
    status: str
    planned: int
    finished: int
    started_at: datetime | None
    completed_at: datetime | None


class SessionLine(Answer, frozen=True):
    """A session in a list."""

    id: UUID
    project_id: UUID
    project_name: str
    status: str
    current_stage: str
    iteration: int
    model_count: int
    created_at: datetime


class Session(SessionLine, frozen=True):
    """A session. Money is in US dollars, as exact digits."""

    models: list[str]
    lead: str
    process: str
    until: str
    is_autopilot: bool
    continue_until_complete: bool
    max_output_tokens: int | None
    budget: str | None
    spent: str
    play_spent: str
    stages: list[Stage]


class Quote(Answer, frozen=True, extra="allow"):
    """What is left of a session, reckoned."""

    process: str
    models: list[str]
    planned_calls: int
    expected: dict[str, int]
    worst: dict[str, int]
    money: dict[str, Any]
    time_s: dict[str, float]
    stages: list[dict[str, Any]]
    forecast: dict[str, Any]


class Overview(Answer, frozen=True):
    """Everything about a session at a glance, as records."""

    session: dict[str, Any]
    stages: list[dict[str, Any]]
    jobs: list[dict[str, Any]]
    contributions: list[dict[str, Any]]
    last_event: int
    has_news: bool
    quote: dict[str, Any] | None


class Smaller(Answer, frozen=True):
    """A run from which more is left out."""

    rungs: int
    left_out: str
    lines: dict[str, Any]


class Quoted(Answer, frozen=True):
    """What a run would cost that nobody has started."""

    quote: dict[str, Any]
    lines: dict[str, Any]
    models: list[str]
    has_chosen_models: bool
    shrink: int
    fits: bool
    left_out: list[str]
    smaller: list[Smaller]


class Job(Answer, frozen=True):
    """A piece of work."""

    id: UUID
    parent_id: UUID | None
    type: str
    stage: str
    iteration: int
    status: str
    status_reason: str | None
    model: str | None
    attempts: int
    retries: int
    errors: list[dict[str, Any]]
    created_at: datetime
    started_at: datetime | None
    completed_at: datetime | None


class Cost(Answer, frozen=True):
    """What calls of one kind to one model came to, in one stage."""

    stage: str | None
    model: str
    purpose: str
    is_play: bool
    calls: int
    input_tokens: int
    output_tokens: int
    charged: str
    held: str


# -- asked -----------------------------------------------------------------------------------------


def _build_session_wish(  # noqa: PLR0913  what a session can be begun with
    *,
    models: Sequence[str] | None,
    process: str,
    until: str | None,
    lead: str | None,
    is_autopilot: bool,
    continue_until_complete: bool,
    max_output_tokens: int | None,
    budget: str | None,
    shrink: int,
) -> dict[str, Any]:
    wish = {
        "models": None if models is None else list(models),
        "process": process,
        "until": until,
        "lead": lead,
        "is_autopilot": is_autopilot,
        "continue_until_complete": continue_until_complete,
        "max_output_tokens": max_output_tokens,
        "budget": budget,
        "shrink": shrink,
    }
    return drop_none(wish)


def create_session(  # noqa: PLR0913  what a session can be begun with
    project_id: UUID,
    *,
    models: Sequence[str] | None = None,
    process: str = "standard",
    until: str | None = None,
    lead: str | None = None,
    is_autopilot: bool = True,
    continue_until_complete: bool = True,
    max_output_tokens: int | None = None,
    budget: str | None = None,
    shrink: int = 0,
    key: str | None = None,
) -> Call[Session]:
    """Give a project a session; without models, with those that the server takes by default."""
    body = _build_session_wish(
        models=models,
        process=process,
        until=until,
        lead=lead,
        is_autopilot=is_autopilot,
        continue_until_complete=continue_until_complete,
        max_output_tokens=max_output_tokens,
        budget=budget,
        shrink=shrink,
    )
    return act(f"/projects/{project_id}/sessions", Session, body, key=key)


def quote_run(  # noqa: PLR0913  the same, and what the project would be
    prompt: str,
    *,
    domain: str = "General",
    resources: Sequence[Mapping[str, str]] = (),
    models: Sequence[str] | None = None,
    process: str = "standard",
    until: str | None = None,
    lead: str | None = None,
    is_autopilot: bool = True,
    continue_until_complete: bool = True,
    max_output_tokens: int | None = None,
    budget: str | None = None,
    shrink: int = 0,
    lists_smaller: bool = False,
) -> Call[Quoted]:
    """Say what a run would cost. Makes nothing and asks no model."""
    wish = _build_session_wish(
        models=models,
        process=process,
        until=until,
        lead=lead,
        is_autopilot=is_autopilot,
        continue_until_complete=continue_until_complete,
        max_output_tokens=max_output_tokens,
        budget=budget,
        shrink=shrink,
    )
    given = [dict(resource) for resource in resources]
    project = {"prompt": prompt, "domain": domain, "resources": given}
    body = {**project, **wish, "lists_smaller": lists_smaller}
    return act("/quotes", Quoted, body)


def list_sessions(project_id: UUID | None = None) -> Call[Page[SessionLine]]:
    """List sessions, of a project or all, the newest first."""
    path = "/sessions" if project_id is None else f"/projects/{project_id}/sessions"
    return get(path, Page[SessionLine])


def get_session(session_id: UUID) -> Call[Session]:
    """Look at a session and how far its stages are."""
    return get(f"/sessions/{session_id}", Session)


def change_session(session_id: UUID, **changes: Any) -> Call[Session]:
    """Change `models`, `budget` (None for no limit), `continue_until_complete` or
    `max_output_tokens`; what is absent stays."""
    return act(f"/sessions/{session_id}", Session, changes, method="PATCH")


def quote_session(session_id: UUID) -> Call[Quote]:
    """Say what is left of a session, and what it is expected to cost."""
    return get(f"/sessions/{session_id}/quote", Quote)


def look(session_id: UUID, *, quote: bool = False, after: int | None = None) -> Call[Overview]:
    """Look at everything about a session at once; `after` asks whether an event followed it."""
    path = f"/sessions/{session_id}/overview"
    return get(path, Overview, quote=quote or None, after=after)


def list_costs(session_id: UUID) -> Call[Page[Cost]]:
    """Say what a session has cost so far."""
    return get(f"/sessions/{session_id}/costs", Page[Cost])


def list_jobs(session_id: UUID) -> Call[Page[Job]]:
    """List a session's jobs, the oldest first."""
    return get(f"/sessions/{session_id}/jobs", Page[Job])


def list_documents(session_id: UUID) -> Call[Page[Resource]]:
    """List what stands beside a session's contributions."""
    return get(f"/sessions/{session_id}/documents", Page[Resource])
