"""A person's actions on single contributions: edit, regenerate, read.

Each action is one transaction. A version is never overwritten: an edit or a new edition adds a row
and a file, and later readers of the document get the newest version.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

import asyncpg

from dialectic.app.lookup import load_contribution, load_row
from dialectic.app.transaction import Tenant, Transaction
from dialectic.contract.base import Author
from dialectic.contract.contributions import (
    Contribution,
    ContributionRecord,
    ContributionVersion,
    EditedContribution,
)
from dialectic.contract.quotes import Price
from dialectic.core.documents.artifacts import extract_documents
from dialectic.core.documents.excerpt import Card, build_card, build_excerpt
from dialectic.core.documents.file_paths import (
    ContributionFile,
    Intermediate,
    build_path,
    parse_path,
)
from dialectic.core.documents.front_matter import render_document, split_document
from dialectic.core.documents.shortcomings import MISSING
from dialectic.core.job import derive_edition_job_id, parse_payload
from dialectic.core.process.reductions import list_left_out
from dialectic.core.session_state import HALTED
from dialectic.core.strict_json import Json
from dialectic.core.text import clean_text
from dialectic.db.pool import Connection
from dialectic.db.tables import jobs, lists, records
from dialectic.db.tables.contributions import supersede
from dialectic.db.tables.files import MARKDOWN, File, insert_files, make_due
from dialectic.db.tables.plan_files import put_plan
from dialectic.db.tables.records import SQL, NewResource
from dialectic.errors import (
    Conflict,
    NotFound,
    PreconditionFailed,
    Remedy,
    RemedyAction,
    UsageError,
)
from dialectic.pipeline.load import load_session_context
from dialectic.pipeline.write import build_plan, build_stage_document, carry_notices
from dialectic.publishing.publish import describe_if_possible

EDITION = "edition"


async def lock(tx: Transaction, contribution_id: UUID) -> UUID:
    """Lock a document until the end of the transaction; return the first version's id.

    Read the document only after this call.
    """
    first_id = (await load_contribution(tx, contribution_id)).first_id
    await tx.connection.fetchval(SQL["lock_versions"], first_id)
    return first_id


async def _load_first(tx: Transaction, contribution_id: UUID) -> ContributionRecord:
    """Load the first version of a document, and lock it so that one writer adds a version."""
    return await load_contribution(tx, await lock(tx, contribution_id))


async def _load_newest(connection: Connection, first_id: UUID) -> asyncpg.Record:
    row = await connection.fetchrow(SQL["load_newest_version"], first_id)
    assert row is not None, "a document has a newest version"
    return row


async def edit(tx: Transaction, contribution_id: UUID, text: str) -> EditedContribution:
    """Save a person's edit as the newest version; keep the old one."""
    connection, account, new_id = tx.connection, tx.account, tx.derive_id("contribution")
    body = _read_body(text)
    first = await _load_first(tx, contribution_id)
    newest = await _load_newest(connection, first.id)
    project_id = first.project_id
    tx.publish(project_id)
    if newest["id"] == new_id:  # an earlier try has committed
        version, path = newest["edit_version"], newest["storage_path"]
        return EditedContribution(id=new_id, version=version, path=path, stale=0)
    if newest["content"].strip() == body.strip():
        raise Conflict(
            f"The text is identical to version {newest['edit_version']}.", reason="unchanged"
        )
    version = 1 + await connection.fetchval(SQL["find_last_version"], first.id, first.session_id)
    edited = await _build_edit(tx, first, new_id, version, body)
    stale = await supersede(connection, first.id)
    await insert_files(connection, account.tenant_id, project_id, [edited.file])
    await connection.execute(
        SQL["insert_edit"],
        first.id,
        new_id,
        account.user_id,
        list(edited.flags),
        body,
        edited.file.path,
        len(edited.file.data),
        version,
        build_excerpt(body),
        edited.card.title,
        edited.card.excerpt,
        edited.card.words,
    )
    owner = records.Owner(account.user_id, project_id)
    await records.put_resources(connection, account.tenant_id, owner, edited.documents)
    await put_plan(connection, account.tenant_id, owner, edited.plan)
    # The plan page is made of the newest versions.
    await make_due(connection, project_id)
    tx.after_commit["description"] = functools.partial(
        describe_if_possible, tx.engine, account.tenant_id, project_id
    )
    return EditedContribution(id=new_id, version=version, path=edited.file.path, stale=stale)


def _read_body(text: str) -> str:
    """Take the text of a document without its front matter, which we generate."""
    cleaned, _ = clean_text(text)
    _, body = split_document(cleaned)
    if not body.strip():
        raise UsageError(
            "The text is empty. Send the whole document.",
            reason="empty",
            subject="text",
        )
    return body


@dataclass(frozen=True, slots=True)
class _Version:
    file: File
    flags: tuple[str, ...]
    documents: list[NewResource]
    plan: list[NewResource]
    card: Card


async def _build_edit(
    tx: Transaction, first: ContributionRecord, new_id: UUID, version: int, body: str
) -> _Version:
    """Build the file of a new version, and the documents and the plan extracted from it."""
    place = parse_path(first.storage_path)
    assert isinstance(place, ContributionFile | Intermediate), "the path is that of a contribution"
    name = replace(place.contribution, version=version)
    context = await load_session_context(
        tx.engine, tx.connection, first.session_id, first.iteration_number
    )
    stage = context.process.load_stage(first.stage)
    is_final = first.contribution_type == stage.output_type
    expected = stage.expected_output_artifacts if is_final else ()
    cut = extract_documents(body, expected)
    template = context.process.prompts.get(first.prompt_template_name or "", "")
    flags = tuple(f"{MISSING}{key}" for key in cut.missing)
    kind = (stage.slug, first.contribution_type)
    left_out = list_left_out(context.process, models=len(context.models), until=kind)
    fields = _build_front_matter(first, new_id, version, flags, left_out)
    path = build_path(replace(place, contribution=name))
    file = File(path, render_document(fields, body).encode(), MARKDOWN)
    documents = [
        build_stage_document(
            wanted,
            cut,
            folder=place.folder,
            name=name,
            session_id=first.session_id,
            contribution_id=new_id,
            model_name=first.model_name,
        )
        for wanted in expected
        if wanted.key in cut.found
    ]
    plan = build_plan(
        expected if first.model_index == context.lead_model_index else (),
        cut.found,
        folder=place.folder,
        is_first_session=context.is_first,
        session_id=first.session_id,
        contribution_id=new_id,
    )
    return _Version(
        file=file,
        flags=flags,
        documents=carry_notices(body, documents),
        plan=carry_notices(body, plan),
        card=build_card(body, expected, template),
    )


def _build_front_matter(
    first: ContributionRecord,
    new_id: UUID,
    version: int,
    flags: Sequence[str],
    left_out: Sequence[str],
) -> dict[str, str | int | bool | list[str] | None]:
    """Build the fields at the top of a new version."""
    return {
        "contribution_id": str(new_id),
        "type": first.contribution_type,
        "stage": first.stage,
        "iteration": first.iteration_number,
        "model": first.model_name,
        "version": version,
        "edited_from": str(first.id),
        **({"flags": list(flags)} if flags else {}),
        **({"left_out": list(left_out)} if left_out else {}),
    }


async def regenerate(tx: Transaction, contribution_id: UUID) -> UUID:
    """Let the same model regenerate a document from its current inputs; return the job's id.

    When the new version is saved, documents made from the old one are marked as stale. A retry
    after a lost response finds the job of the first try, so the document is paid for once.
    """
    connection = tx.connection
    first = await _load_first(tx, contribution_id)
    made = tx.attempts.chosen.get(EDITION)
    if made is not None and await jobs.find_job(connection, made) is not None:
        return made
    session = await records.load_session(connection, first.session_id)
    job_id = await create_edition(tx, session, first.id)
    tx.attempts.chosen[EDITION] = job_id
    return job_id


async def create_edition(
    tx: Transaction,
    session: asyncpg.Record,
    first_id: UUID,
    after: Sequence[UUID] = (),
    continues: Sequence[UUID] = (),
) -> UUID:
    """Create the job that writes a document again, after other jobs; return its id.

    With versions to continue, it goes on with their turns instead of beginning again.
    """
    connection, first = tx.connection, await _load_first(tx, first_id)
    written_by = await _check_rewritable(connection, session, first)
    edition = 1 + await connection.fetchval(SQL["find_last_version"], first.id, first.session_id)
    payload = parse_payload(written_by.payload).model_copy(
        update={
            "edition": edition,
            "replaces": first.id,
            "after": tuple(after),
            "continues": tuple(continues),
        }
    )
    new = jobs.NewJob(
        id=derive_edition_job_id(written_by.id, edition=edition),
        session_id=first.session_id,
        stage_slug=first.stage,
        iteration_number=first.iteration_number,
        payload=payload,
        max_retries=session["max_retries"],
        prerequisite_job_id=next(iter(after), None),
        target_contribution_id=first.target_contribution_id,
    )
    await jobs.insert_job(connection, tx.account.tenant_id, new)
    return new.id


async def _check_rewritable(
    connection: Connection, session: asyncpg.Record, first: ContributionRecord
) -> jobs.StoredJob:
    """Load the job that wrote a document; raise if it cannot be written again now."""
    if session["phase"] in HALTED:
        raise Conflict(
            f"Session {session['id']} is {session['phase']}.",
            reason=f"session_{session['phase']}",
        )
    status = await connection.fetchval(
        SQL["find_stage_status"], session["id"], first.iteration_number, first.stage
    )
    if status in ("waiting", "generating"):
        raise Conflict(
            f"Stage {first.stage!r} is still running. Regenerate its documents when it is "
            "complete.",
            reason="stage_at_work",
            subject=first.stage,
        )
    written_by = None if first.job_id is None else await jobs.find_job(connection, first.job_id)
    if written_by is None:
        raise Conflict(
            "This contribution was imported without its job, so it cannot be regenerated. "
            "Edit it instead.",
            reason="imported",
        )
    return written_by


async def price(tenant: Tenant, contribution_id: UUID) -> Price:
    """Price what `regenerate` would write. Reads only."""
    from dialectic.app.session_quotes import price_documents

    row = await tenant.run(load_row, contribution_id)
    return await price_documents(tenant, row["session_id"], [row])


async def find_first_versions(
    tx: Transaction, session_id: UUID, version_ids: Sequence[UUID]
) -> dict[UUID, UUID]:
    """Find the first versions of documents of a session; raise if one is not of it."""
    rows = await tx.connection.fetch(SQL["list_first_versions"], session_id, list(version_ids))
    found = {row["id"]: row["first_id"] for row in rows}
    for version_id in version_ids:
        if version_id not in found:
            raise NotFound(
                f"Session {session_id} has no contribution {version_id}.",
                reason="no_contribution",
                subject=str(version_id),
                remedy=Remedy(RemedyAction.LIST_CONTRIBUTIONS, session_id=str(session_id)),
            )
    return found


async def get(tx: Transaction, contribution_id: UUID) -> Contribution:
    """Load one version of a contribution, with its text, its provenance and its ratings."""
    row = await load_row(tx, contribution_id)
    found = (row["session_id"], row["first_id"], tx.account.user_id)
    ratings = await lists.load_ratings(tx.connection, *found)
    return Contribution.model_validate({**row, **ratings})


async def list_versions(tx: Transaction, contribution_id: UUID) -> list[ContributionVersion]:
    """List all versions of a contribution with their authors, oldest first."""
    first_id = (await load_row(tx, contribution_id))["first_id"]
    return [_read_version(row) for row in await lists.list_versions(tx.connection, first_id)]


def _read_version(row: Json) -> ContributionVersion:
    author_id = row["author_id"]
    by = None if author_id is None else Author(user_id=author_id, name=row["author_name"])
    return ContributionVersion.model_validate({**row, "by": by})


async def check_newest(
    tx: Transaction, contribution_id: UUID, is_seen: Callable[[UUID], bool]
) -> None:
    """Raise if the caller has not seen the newest version; the error says who wrote it.

    `is_seen` tells whether the caller has seen the version with an id. Call `lock` first.
    """
    newest = (await list_versions(tx, contribution_id))[-1]
    if is_seen(newest.id):
        return
    author = newest.model if newest.by is None else newest.by.name or "a former member"
    raise PreconditionFailed(
        f"{author} has saved version {newest.version} since you read it. Read version "
        f"{newest.id}, then send your text with its ETag.",
        reason="newer_version",
        subject=str(newest.id),
        current=newest.model_dump(mode="json"),
    )
