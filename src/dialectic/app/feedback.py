"""A person's feedback on a stage or a contribution, and ratings: given, read, changed, taken back.

`pipeline.gather` puts feedback into later prompts, as it is when their jobs are loaded. What a
model has read already is not rewritten: its request is kept in the record of the call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID, uuid4

import asyncpg

from dialectic.app.lookup import load_contribution
from dialectic.app.transaction import Transaction
from dialectic.contract.contributions import RATING_MAX, RATING_MIN, ContributionRecord
from dialectic.contract.feedback import Feedback, FeedbackChange, FeedbackKind
from dialectic.contract.sessions import SavedFeedback
from dialectic.core.documents.file_paths import UserFeedback, build_path
from dialectic.core.text import clean_text
from dialectic.db.tables import lists, records
from dialectic.db.tables.records import SQL, NewResource
from dialectic.errors import Conflict, Forbidden, InvalidValue, NotFound, UsageError
from dialectic.pipeline.load import JobContext, Ruling, load_session_context
from dialectic.pipeline.rulings import describe_ruling

# What the file of a stage says when everything in it was taken back.
NOTHING_LEFT = "All feedback on this stage was taken back."


@dataclass(frozen=True, slots=True)
class Comment:
    """Feedback on a stage or on one of its contributions."""

    stage_slug: str
    content: str
    target_id: UUID | None = None
    # Chosen by the caller before the first try, so that a retry saves it once.
    id: UUID = field(default_factory=uuid4)


@dataclass(frozen=True, slots=True)
class Rating:
    """A person's rating of a contribution."""

    contribution_id: UUID
    rating: int
    id: UUID = field(default_factory=uuid4)


async def give_feedback(
    tx: Transaction,
    session_id: UUID,
    stage_slug: str,
    text: str,
    *,
    target_id: UUID | None = None,
) -> SavedFeedback:
    """Save feedback on a stage or on one of its contributions."""
    comment = Comment(stage_slug, text, target_id, tx.derive_id("feedback"))
    return await save(tx, session_id, [comment])


async def rate(tx: Transaction, contribution_id: UUID, rating: int) -> SavedFeedback:
    """Save a person's rating of a contribution, in its session."""
    record = await load_contribution(tx, contribution_id)
    rated = Rating(contribution_id, rating, tx.derive_id("rating"))
    return await save(tx, record.session_id, [rated])


async def save(
    tx: Transaction, session_id: UUID, said: Sequence[Comment | Rating]
) -> SavedFeedback:
    """Save several feedback entries of a session; return the location of the last one.

    The file of each stage is written once, for any number of entries.
    """
    connection, account = tx.connection, tx.account
    # Serialize writers: each rewrites the file from all feedback.
    await connection.execute(SQL["lock_session"], session_id)
    session = await records.load_session(connection, session_id)
    targets = await _load_targets(tx, session_id, said)
    found = [_understand(one, targets, session["iteration_count"]) for one in said]
    contexts = {
        place: await _load_stage(tx, session_id, place)
        for place in dict.fromkeys((one.stage_slug, one.iteration) for one in found)
    }
    rated = [one.target_id for one in found if one.rating is not None]
    await connection.execute(
        SQL["delete_own_ratings"], session_id, account.user_id, rated, [one.id for one in found]
    )
    await connection.executemany(
        SQL["insert_feedback"],
        [
            (
                account.tenant_id,
                one.id,
                session_id,
                account.user_id,
                one.stage_slug,
                one.iteration,
                one.target_id,
                one.kind,
                one.content,
                one.rating,
            )
            for one in found
        ],
    )
    paths = await _write_files(tx, session_id, contexts)
    return SavedFeedback(ids=[one.id for one in found], path=paths[-1])


async def _write_files(
    tx: Transaction, session_id: UUID, contexts: Mapping[tuple[str, int], JobContext]
) -> list[str]:
    """Write the feedback files of stages again; return their paths."""
    rows = await tx.connection.fetch(SQL["list_feedback"], session_id)
    files = [_build_file(session_id, place, contexts[place], rows) for place in contexts]
    owner = next(iter(contexts.values())).owner
    await records.put_resources(tx.connection, tx.account.tenant_id, owner, files)
    tx.publish(owner.project_id)
    return [file.path for file in files]


async def _load_targets(
    tx: Transaction, session_id: UUID, said: Sequence[Comment | Rating]
) -> dict[UUID, ContributionRecord]:
    """Load the target contributions; raise if one belongs to another session."""
    ids = [one.contribution_id if isinstance(one, Rating) else one.target_id for one in said]
    found = {
        target_id: await load_contribution(tx, target_id)
        for target_id in dict.fromkeys(ids)
        if target_id is not None
    }
    for target_id, record in found.items():
        if record.session_id != session_id:
            raise UsageError(
                f"Contribution {target_id} is in session {record.session_id}, not {session_id}.",
                reason="other_session",
                subject=str(target_id),
            )
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Feedback:
    """Stored feedback: on a stage, or on all versions of a contribution."""

    id: UUID
    kind: str
    stage_slug: str
    iteration: int
    target_id: UUID | None = None
    content: str = ""
    rating: int | None = None

    @classmethod
    def about(
        cls,
        feedback_id: UUID,
        kind: str,
        target: ContributionRecord,
        *,
        content: str = "",
        rating: int | None = None,
    ) -> _Feedback:
        """Build feedback on a contribution, in its stage and iteration."""
        return cls(
            id=feedback_id,
            kind=kind,
            stage_slug=target.stage,
            iteration=target.iteration_number,
            target_id=target.first_id,
            content=content,
            rating=rating,
        )


def _understand(
    one: Comment | Rating, targets: Mapping[UUID, ContributionRecord], iteration: int
) -> _Feedback:
    """Find the stage and the iteration of feedback: the contribution's, else the session's."""
    if isinstance(one, Rating):
        if not RATING_MIN <= one.rating <= RATING_MAX:
            raise UsageError(
                f"The rating must be a number from {RATING_MIN} to {RATING_MAX}.",
                reason="out_of_range",
                subject="rating",
                limit=RATING_MAX,
            )
        return _Feedback.about(one.id, "rating", targets[one.contribution_id], rating=one.rating)
    content = _read_comment(one.content)
    if one.target_id is None:
        stage = one.stage_slug
        return _Feedback(
            id=one.id, kind="stage", stage_slug=stage, iteration=iteration, content=content
        )
    target = targets[one.target_id]
    if target.stage != one.stage_slug:
        raise UsageError(
            f"Contribution {one.target_id} belongs to stage {target.stage!r}, not to "
            f"{one.stage_slug!r}.",
            reason="other_stage",
            subject=str(one.target_id),
        )
    return _Feedback.about(one.id, "response", target, content=content)


def _read_comment(text: str) -> str:
    content, _ = clean_text(text)
    if not content.strip():
        raise UsageError(
            "The feedback is empty. Write what the models should change.",
            reason="empty",
            subject="text",
        )
    return content


async def _load_stage(tx: Transaction, session_id: UUID, place: tuple[str, int]) -> JobContext:
    """Load the context of a started stage."""
    stage_slug, iteration = place
    context = await load_session_context(tx.engine, tx.connection, session_id, iteration)
    context.process.load_stage(stage_slug)  # raises if the stage does not exist
    status = await tx.connection.fetchval(
        SQL["find_stage_status"], session_id, iteration, stage_slug
    )
    if status in (None, "waiting"):
        raise Conflict(
            f"Stage {stage_slug!r} has not begun in iteration {iteration}: there is nothing to "
            "say about it yet.",
            reason="stage_not_begun",
            subject=stage_slug,
        )
    return context


def _build_file(
    session_id: UUID, place: tuple[str, int], context: JobContext, rows: Sequence[asyncpg.Record]
) -> NewResource:
    """Build the feedback file of a stage."""
    stage_slug, iteration = place
    entries = [
        _describe(row) for row in rows if (row["stage_slug"], row["iteration_number"]) == place
    ]
    folder = context.build_folder(context.process.load_stage(stage_slug))
    return NewResource(
        resource_type="user_feedback",
        path=build_path(UserFeedback(folder)),
        text="\n\n".join(entries or [NOTHING_LEFT]) + "\n",
        session_id=session_id,
        iteration_number=iteration,
        stage_slug=stage_slug,
    )


def _describe(row: asyncpg.Record) -> str:
    if row["verdict"] is not None:
        place = row["stage_slug"], row["iteration_number"]
        words = row["subject"], row["verdict"], row["upheld"], row["content"]
        return f"Ruling. {describe_ruling(Ruling(*place, *words))}"
    about = row["target_contribution_id"]
    head = f"On contribution {about}: " if about else ""
    if row["rating"] is not None:
        return f"{head}rated {row['rating']} of {RATING_MAX}."
    return f"{head}{row['content'].strip()}"


# -- reading and changing --------------------------------------------------------------------------


async def list_entries(tx: Transaction, session_id: UUID) -> list[Feedback]:
    """List what people said about a session, in order, with what the caller may do with it."""
    await records.load_session(tx.connection, session_id)
    user_id = tx.account.user_id
    rows = await lists.list_feedback(tx.connection, user_id, session_id=session_id)
    return [Feedback.model_validate(row) for row in rows]


async def change(tx: Transaction, feedback_id: UUID, wanted: FeedbackChange) -> Feedback:
    """Replace the text of feedback, or the number of a rating; only its author may."""
    row = await _load_locked(tx, feedback_id)
    if row["feedback_type"] == FeedbackKind.RULING:
        raise Conflict(
            "A ruling is not changed. Rule again on what it decides.",
            reason="is_ruling",
            subject=str(feedback_id),
        )
    if row["user_id"] != tx.account.user_id:
        raise Forbidden(
            "Only its author can change feedback. Add feedback of your own instead.",
            reason="not_yours",
            subject=str(feedback_id),
        )
    content, rating = _decide_change(row, wanted)
    await tx.connection.execute(SQL["change_feedback"], feedback_id, content, rating)
    await _write_file_of(tx, row)
    rows = await lists.list_feedback(tx.connection, tx.account.user_id, feedback_id=feedback_id)
    return Feedback.model_validate(rows[0])


async def remove(tx: Transaction, feedback_id: UUID) -> None:
    """Take feedback back: its author may, and so may the owner of the session."""
    row = await _load_locked(tx, feedback_id)
    session = await records.load_session(tx.connection, row["session_id"])
    if tx.account.user_id not in (row["user_id"], session["user_id"]):
        raise Forbidden(
            "Only its author and the owner of the session can remove feedback.",
            reason="not_yours",
            subject=str(feedback_id),
        )
    # A ruling was read by models and is kept; it no longer counts.
    is_ruling = row["feedback_type"] == FeedbackKind.RULING
    statement = SQL["withdraw_ruling"] if is_ruling else SQL["delete_feedback"]
    await tx.connection.execute(statement, feedback_id)
    await _write_file_of(tx, row)


async def _load_locked(tx: Transaction, feedback_id: UUID) -> asyncpg.Record:
    """Load an entry; lock its session first, as every writer of the file does."""
    row = await tx.connection.fetchrow(SQL["load_feedback"], feedback_id)
    if row is not None:
        await tx.connection.execute(SQL["lock_session"], row["session_id"])
        row = await tx.connection.fetchrow(SQL["load_feedback"], feedback_id)
    if row is None:
        raise NotFound(
            f"Feedback {feedback_id} does not exist.",
            reason="no_feedback",
            subject=str(feedback_id),
        )
    return row


def _decide_change(row: asyncpg.Record, wanted: FeedbackChange) -> tuple[str, int | None]:
    """Decide the new text and number of an entry: a rating has a number, all else a text."""
    is_rating = row["rating"] is not None
    field, other = ("rating", "text") if is_rating else ("text", "rating")
    if getattr(wanted, field) is None or getattr(wanted, other) is not None:
        kind = "a rating" if is_rating else "a text"
        raise InvalidValue(
            f"This entry is {kind}. Send `{field}` alone.", reason="other_kind", subject=field
        )
    if is_rating:
        return row["content"], wanted.rating
    return _read_comment(wanted.text or ""), None


async def _write_file_of(tx: Transaction, row: asyncpg.Record) -> None:
    await write_file(tx, row["session_id"], (row["stage_slug"], row["iteration_number"]))


async def write_file(tx: Transaction, session_id: UUID, place: tuple[str, int]) -> None:
    """Write the feedback file of a stage and an iteration again; the session is locked."""
    contexts = {place: await _load_stage(tx, session_id, place)}
    await _write_files(tx, session_id, contexts)
