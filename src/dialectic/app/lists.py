"""The lists that people look at: projects, sessions, and what waits for a person.

A page takes a few statements, however many rows it has.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from dialectic.app.transaction import Transaction
from dialectic.contract.lists import ListedNeed, NeedList, SessionLine
from dialectic.core.documents.excerpt import build_excerpt
from dialectic.core.job_status import JobStatus
from dialectic.core.needs import JobState, SessionFacts, decide_needs
from dialectic.core.session_state import Phase
from dialectic.core.strict_json import Json
from dialectic.db.tables import lists
from dialectic.db.tables.lists import PageQuery, ProjectFilter, Rows

EXCERPT_CHARS_MAX = 160
NEVER = datetime.max.replace(tzinfo=UTC)


# -- needs ----------------------------------------------------------------------------------------


async def find_needs(
    tx: Transaction, session_ids: Sequence[UUID] | None = None
) -> dict[UUID, list[ListedNeed]]:
    """Find what waits for a person, by session: of these sessions, or of all."""
    rows = await lists.list_waiting(tx.connection, session_ids)
    found: dict[UUID, list[ListedNeed]] = {}
    for need in build_needs(rows):
        found.setdefault(need.session_id, []).append(need)
    return found


async def list_needs(tx: Transaction) -> NeedList:
    """List what waits for a person in all sessions, the longest first."""
    found = [need for needs in (await find_needs(tx)).values() for need in needs]
    return NeedList(items=sorted(found, key=lambda need: need.since or NEVER))


def build_needs(rows: Iterable[Json]) -> list[ListedNeed]:
    """Build what the sessions of these rows need; rows of a session follow each other."""
    return [
        need
        for _, group in itertools.groupby(rows, key=lambda row: row["session_id"])
        for need in _build_session_needs(list(group))
    ]


def _build_session_needs(rows: list[Json]) -> Iterator[ListedNeed]:
    session = rows[0]
    titles = {row["stage"]: row["stage_title"] for row in rows}
    facts = SessionFacts(
        phase=Phase(session["phase"]),
        stage=session["current_stage_slug"],
        is_complete=session["current_stage_slug"] == session["until_stage_slug"],
        stage_ended_at=session["stage_ended_at"],
        jobs=[_build_job(row) for row in rows if row["job_id"] is not None],
        documents=(),
    )
    for need in decide_needs(facts):
        yield ListedNeed(
            session_id=session["session_id"],
            project_id=session["project_id"],
            project_name=session["project_name"],
            code=need.code,
            stage=need.stage or facts.stage,
            stage_title=titles[need.stage or facts.stage],
            jobs=[job.id for job in need.jobs],
            since=need.since,
        )


def _build_job(row: Json) -> JobState:
    return JobState(
        id=row["job_id"],
        stage=row["stage"],
        seat=None,
        status=JobStatus(row["status"]),
        status_reason=row["status_reason"],
        error=row["error"],
    )


# -- sessions -------------------------------------------------------------------------------------


async def list_sessions(
    tx: Transaction,
    page: PageQuery,
    *,
    project_id: UUID | None = None,
    archived: bool | None = None,
    phases: Sequence[Phase] | None = None,
    needs: bool = False,
) -> Rows:
    """List sessions with all that their lines show, newest first."""
    ids = list(await find_needs(tx)) if needs else None
    rows = await lists.list_sessions(
        tx.connection, page, project_id, archived=archived, phases=phases, ids=ids
    )
    return await _describe(tx, rows)


async def _describe(tx: Transaction, rows: Rows) -> Rows:
    ids = [row["id"] for row in rows]
    details = {row["id"]: row for row in await lists.list_session_details(tx.connection, ids)}
    needs = await find_needs(tx, ids)
    return [
        {**row, **_build_details(details[row["id"]]), "needs": needs.get(row["id"], [])}
        for row in rows
    ]


def _build_details(row: Json) -> Json:
    spent, play = row["spent_credits"], row["play_spent_credits"]
    stages: list[Any] = row["stages"] or []
    return {
        "seats": [
            {
                "index": index,
                "model": model,
                "label": model.partition("/")[2],
                "is_lead": index == row["lead_model_index"],
                "is_dropped": index in row["dropped_seats"],
            }
            for index, model in enumerate(row["model_names"], start=1)
        ],
        "stages": stages,
        "running": sum(stage["running"] for stage in stages),
        "is_play": play > 0 and spent == 0,
        "spent": play if play > 0 and spent == 0 else spent,
        "budget": row["budget_credits"],
        "updated_at": row["updated_at"],
    }


# -- projects -------------------------------------------------------------------------------------


async def list_projects(tx: Transaction, page: PageQuery, wanted: ProjectFilter) -> Rows:
    """List projects with their last sessions, in the wanted order."""
    rows = await lists.list_project_lines(tx.connection, page, wanted)
    ids = [row["last_session_id"] for row in rows if row["last_session_id"] is not None]
    last = await _list_by_id(tx, ids)
    return [_build_project(row, last) for row in rows]


async def _list_by_id(tx: Transaction, ids: Sequence[UUID]) -> dict[UUID, Json]:
    rows = await lists.list_sessions(tx.connection, PageQuery(len(ids)), None, ids=ids)
    return {row["id"]: row for row in await _describe(tx, rows)}


def _build_project(row: Json, last: dict[UUID, Json]) -> Json:
    found = last.get(row["last_session_id"])
    moved = found["updated_at"] if found is not None else row["updated_at"]
    return {
        **row,
        "prompt_excerpt": build_excerpt(row["prompt"], chars_max=EXCERPT_CHARS_MAX),
        "spent": row["spent_credits"],
        "play_spent": row["play_spent_credits"],
        "updated_at": max(moved, row["updated_at"]),
        "last_session": None if found is None else SessionLine.model_validate(found),
    }
