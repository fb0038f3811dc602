"""A person's decisions about claims and dissents: made, replaced, withdrawn.

A ruling is feedback that binds. `pipeline.gather` puts it into every prompt of later stages, in
this and all later iterations. What it decides is derived from texts, so the ruling keeps the words.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from dialectic.app import feedback, provenance
from dialectic.app.sessions import refuse_cancelled
from dialectic.app.transaction import Tenant, Transaction
from dialectic.contract.claims import Claims
from dialectic.contract.feedback import Ruling, RulingRequest, RulingVerdict
from dialectic.core.text import clean_text
from dialectic.db.tables import records
from dialectic.db.tables.records import SQL
from dialectic.errors import Conflict, Forbidden, InvalidValue, NotFound

# What is asked for by its id is waited for.
WAIT_S = 120.0
SUBJECT_CHARS_MAX = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What a ruling decides: the words of a claim or a dissent, and where it was found."""

    id: UUID
    session_id: UUID
    stage: str
    iteration: int
    words: str
    position_id: UUID | None = None
    # The words of the position that it is for, and of those that it is against.
    upheld: str | None = None
    rejected: tuple[str, ...] = ()


async def list_claims(tenant: Tenant, session_id: UUID, iteration: int | None = None) -> Claims:
    """List the claims of an iteration with what people decided about them."""
    found = await provenance.list_claims(tenant, session_id, iteration)
    made = {one.subject_id: one for one in await tenant.run(list_rulings, session_id)}
    for claim in found.claims:
        claim.ruling = made.get(claim.id)
    return found


async def load_claim(tenant: Tenant, session_id: UUID, claim_id: UUID) -> Subject:
    """Load a claim of any iteration of a session, the newest first."""
    for iteration in range(await tenant.run(count_iterations, session_id), 0, -1):
        found = await provenance.list_claims(tenant, session_id, iteration, wait_s=WAIT_S)
        for claim in found.claims:
            if claim.id == claim_id:
                return Subject(
                    id=claim.id,
                    session_id=session_id,
                    stage=claim.stage,
                    iteration=iteration,
                    words=shorten(claim.text),
                )
    raise NotFound(
        f"Session {session_id} has no claim {claim_id}. List its claims again: the document that "
        "made it may have a newer version.",
        reason="no_claim",
        subject=str(claim_id),
    )


async def count_iterations(tx: Transaction, session_id: UUID) -> int:
    """Count the iterations that a session has begun."""
    session = await records.load_session(tx.connection, session_id)
    count: int = session["iteration_count"]
    return count


def shorten(words: str) -> str:
    """Put words on one line, of at most the length that is kept."""
    line = " ".join(words.split())
    return line if len(line) <= SUBJECT_CHARS_MAX else f"{line[: SUBJECT_CHARS_MAX - 1]}…"


async def list_rulings(tx: Transaction, session_id: UUID) -> list[Ruling]:
    """List the rulings of a session that count, oldest first."""
    rows = await tx.connection.fetch(SQL["list_rulings"], session_id)
    return [Ruling.model_validate(dict(row)) for row in rows]


async def rule_on_claim(tx: Transaction, claim: Subject, wanted: RulingRequest) -> Ruling:
    """Decide what is to be done with a claim."""
    kept = Subject(
        id=claim.id,
        session_id=claim.session_id,
        stage=claim.stage,
        iteration=claim.iteration,
        words=claim.words,
        upheld=claim.words if wanted.verdict is RulingVerdict.KEEP else None,
        rejected=() if wanted.verdict is RulingVerdict.KEEP else (claim.words,),
    )
    return await rule(tx, kept, wanted)


async def rule(tx: Transaction, subject: Subject, wanted: RulingRequest) -> Ruling:
    """Save a ruling in place of an earlier one, which is kept and no longer counts.

    That of another user is replaced only by name: two people at once must not undo each other.
    """
    text = _read_text(wanted)
    await tx.connection.execute(SQL["lock_session"], subject.session_id)
    refuse_cancelled(await records.load_session(tx.connection, subject.session_id))
    before = await tx.connection.fetchrow(SQL["find_ruling"], subject.session_id, subject.id)
    ruling_id = tx.derive_id("ruling")
    if before is not None:
        if before["user_id"] != tx.account.user_id and before["id"] != wanted.replaces:
            raise Conflict(
                "Another user has ruled on it meanwhile. Read that ruling, then name it in "
                "`replaces`.",
                reason="ruled_already",
                subject=str(before["id"]),
            )
        await tx.connection.execute(SQL["withdraw_ruling"], before["id"])
    await tx.connection.execute(
        SQL["insert_ruling"],
        ruling_id,
        subject.session_id,
        tx.account.user_id,
        subject.stage,
        subject.iteration,
        text,
        subject.id,
        subject.words,
        wanted.verdict.value,
        subject.position_id,
        subject.upheld,
        list(subject.rejected),
    )
    await feedback.write_file(tx, subject.session_id, (subject.stage, subject.iteration))
    return next(one for one in await list_rulings(tx, subject.session_id) if one.id == ruling_id)


async def withdraw(tx: Transaction, session_id: UUID, subject_id: UUID) -> None:
    """Withdraw a ruling: its author may, and so may the owner of the session."""
    session = await records.load_session(tx.connection, session_id)
    await tx.connection.execute(SQL["lock_session"], session_id)
    row = await tx.connection.fetchrow(SQL["find_ruling"], session_id, subject_id)
    if row is None:
        raise NotFound(
            f"No ruling on {subject_id} counts.", reason="no_ruling", subject=str(subject_id)
        )
    if tx.account.user_id not in (row["user_id"], session["user_id"]):
        raise Forbidden(
            "Only its author and the owner of the session can withdraw a ruling.",
            reason="not_yours",
            subject=str(row["id"]),
        )
    await tx.connection.execute(SQL["withdraw_ruling"], row["id"])
    await feedback.write_file(tx, session_id, (row["stage_slug"], row["iteration_number"]))


def _read_text(wanted: RulingRequest) -> str:
    text, _ = clean_text(wanted.text)
    needs_words = wanted.verdict in (RulingVerdict.CHANGE, RulingVerdict.OWN)
    if needs_words and not text.strip():
        raise InvalidValue(
            f"A ruling `{wanted.verdict.value}` needs words. Write what holds instead.",
            reason="empty",
            subject="text",
        )
    return text.strip()
