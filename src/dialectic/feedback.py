"""What a person says about a stage or a contribution, and how they rate it. Later prompts tell it.

Knows nothing of how prompts are made of it. What ends in `_in` works in the transaction of whoever
asks for it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

from dialectic.contributions import load_in as load_contribution
from dialectic.domain.path import build_path
from dialectic.domain.place import UserFeedback
from dialectic.domain.text import clean_text
from dialectic.engine import Engine
from dialectic.errors import Conflict, UsageError
from dialectic.pipeline.look import load_scene
from dialectic.publish import publish_project
from dialectic.store import records
from dialectic.store.database import Connection
from dialectic.store.records import SQL, Account, NewResource

RATING_MIN, RATING_MAX = 1, 5


async def give_feedback(
    engine: Engine,
    account: Account,
    session_id: UUID,
    stage_slug: str,
    text: str,
    *,
    target_id: UUID | None = None,
) -> str:
    """Keep what a person says about a stage, or about one of its contributions; return the path."""
    said = Said(stage_slug, content=text, target_id=target_id)

    async def work(connection: Connection) -> Kept:
        return await give_feedback_in(engine, connection, account, session_id, said)

    kept = await engine.db.transact(account.tenant_id, work)
    await publish_project(engine, account.tenant_id, kept.project_id)
    return kept.path


async def rate(engine: Engine, account: Account, contribution_id: UUID, rating: int) -> str:
    """Keep a person's rating of a contribution; later prompts tell it."""
    feedback_id = uuid4()

    async def work(connection: Connection) -> Kept:
        return await rate_in(engine, connection, account, contribution_id, rating, feedback_id)

    kept = await engine.db.transact(account.tenant_id, work)
    await publish_project(engine, account.tenant_id, kept.project_id)
    return kept.path


@dataclass(frozen=True, slots=True)
class Said:
    """What a person says about a stage, or about one of its contributions."""

    stage_slug: str
    content: str
    target_id: UUID | None = None
    # Given before it is tried, so that trying again says it once.
    id: UUID = field(default_factory=uuid4)


@dataclass(frozen=True, slots=True)
class Kept:
    """Where feedback stands."""

    path: str
    project_id: UUID


async def give_feedback_in(
    engine: Engine, connection: Connection, account: Account, session_id: UUID, said: Said
) -> Kept:
    """Keep what a person says in the caller's transaction."""
    content, _ = clean_text(said.content)
    if not content.strip():
        raise UsageError("The feedback is empty. Give it as an argument or with --file.")
    if said.target_id is None:
        feedback = _Feedback("stage", content=content, id=said.id)
    else:
        target = await load_contribution(connection, said.target_id)
        if (target["session_id"], target["stage"]) != (session_id, said.stage_slug):
            raise UsageError(
                f"Contribution {said.target_id} is of stage {target['stage']!r} of session "
                f"{target['session_id']}, not of {said.stage_slug!r} of session {session_id}."
            )
        feedback = _Feedback.about(target, "response", content=content, id=said.id)
    return await _keep_feedback(
        engine, connection, account, (session_id, said.stage_slug), feedback
    )


async def rate_in(
    engine: Engine,
    connection: Connection,
    account: Account,
    contribution_id: UUID,
    rating: int,
    feedback_id: UUID,
) -> Kept:
    """Keep a rating in the caller's transaction."""
    if not RATING_MIN <= rating <= RATING_MAX:
        raise UsageError(f"A rating is a number from {RATING_MIN} to {RATING_MAX}.")
    row = await load_contribution(connection, contribution_id)
    rated = _Feedback.about(row, "rating", rating=rating, id=feedback_id)
    place = (row["session_id"], row["stage"])
    return await _keep_feedback(engine, connection, account, place, rated)


@dataclass(frozen=True, slots=True)
class _Feedback:
    kind: str
    content: str = ""
    rating: int | None = None
    target_id: UUID | None = None
    # That of the contribution it is about; the session's current one if it is about a stage.
    iteration: int | None = None
    id: UUID = field(default_factory=uuid4)

    @classmethod
    def about(cls, row: dict[str, Any], kind: str, **said: Any) -> _Feedback:
        """Speak of a contribution: of all its versions, and of the iteration it was made in."""
        first_id = row["original_model_contribution_id"] or row["id"]
        return cls(kind, target_id=first_id, iteration=row["iteration_number"], **said)


async def _keep_feedback(
    engine: Engine,
    connection: Connection,
    account: Account,
    place: tuple[UUID, str],
    said: _Feedback,
) -> Kept:
    session_id, stage_slug = place
    # The file is written anew from all that was said: two who speak do so one after another.
    await connection.execute(SQL["lock_session"], session_id)
    session = await records.load_session(connection, session_id)
    iteration = said.iteration or session["iteration_count"]
    scene = await load_scene(engine, connection, session_id, iteration)
    stage = scene.process.load_stage(stage_slug)
    status = await connection.fetchval(SQL["find_stage_status"], session_id, iteration, stage_slug)
    if status in (None, "waiting"):
        raise Conflict(
            f"Stage {stage_slug!r} has not begun in iteration {iteration}: there is nothing to "
            "say about it yet."
        )
    await connection.execute(
        SQL["insert_feedback"],
        account.tenant_id,
        said.id,
        session_id,
        account.user_id,
        stage_slug,
        iteration,
        said.target_id,
        said.kind,
        said.content,
        said.rating,
    )
    rows = await connection.fetch(SQL["list_feedback"], session_id)
    entries = [
        _describe(row)
        for row in rows
        if (row["stage_slug"], row["iteration_number"]) == (stage_slug, iteration)
    ]
    resource = NewResource(
        resource_type="user_feedback",
        path=build_path(UserFeedback(scene.build_folder(stage))),
        text="\n\n".join(entries) + "\n",
        session_id=session_id,
        iteration_number=iteration,
        stage_slug=stage_slug,
    )
    await records.put_resources(connection, account.tenant_id, scene.owner, [resource])
    return Kept(resource.path, scene.project_id)


def _describe(row: Any) -> str:
    about = row["target_contribution_id"]
    head = f"On contribution {about}: " if about else ""
    if row["rating"] is not None:
        return f"{head}rated {row['rating']} of {RATING_MAX}."
    return f"{head}{row['content'].strip()}"
