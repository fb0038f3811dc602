"""Finds a row by the beginning of its id, as people type it. Knows which nouns there are, not what
they mean.

Projects, sessions, contributions and files as rows. Statements stand in sql/queries/records.sql.

Knows no job states and no money. Functions take the connection of a tenant's transaction, so that
several of them make one commit.

The folder that a project gets: no two projects of a tenant share one. Knows nothing of files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from uuid import UUID, uuid4, uuid5

import asyncpg

from dialectic.core.job import Job
from dialectic.core.models.messages import Reply
from dialectic.core.models.model import ModelCard
from dialectic.core.process.definition import Process, build_expected_output, build_input_rules
from dialectic.core.slug import disambiguate
from dialectic.db.pool import Connection, Database
from dialectic.db.queries import load_queries
from dialectic.errors import NotFound, Remedy, RemedyAction, UsageError


@dataclass(frozen=True, slots=True)
class Noun:
    """What an id is of: its name, the statement that finds it, and what lists all of them."""

    name: str
    statement: str
    remedy: Remedy


async def get_id(connection: Connection, noun: Noun, text: str) -> UUID:
    """Find an id by its beginning, if that means only one; raise what else it means."""
    digits = text.replace("-", "").lower()
    if not digits or digits.strip("0123456789abcdef"):
        raise UsageError(
            f"{text!r} is not the id of a {noun.name}.",
            reason="not_an_id",
            subject=text,
            remedy=noun.remedy,
        )
    rows = await connection.fetch(noun.statement, digits)
    if not rows:
        raise NotFound(
            f"There is no {noun.name} {text!r}.",
            reason=f"no_{noun.name}",
            subject=text,
            remedy=noun.remedy,
        )
    if len(rows) > 1:
        ids = ", ".join(str(row["id"]) for row in rows)
        raise UsageError(
            f"More than one {noun.name} begins with {text!r}: {ids}. Give one whole.",
            reason="ambiguous_id",
            subject=text,
        )
    found: UUID = rows[0]["id"]
    return found


SQL = load_queries("records")
MARKDOWN = "text/markdown"
SESSION = Noun("session", SQL["find_session_ids"], Remedy(RemedyAction.LIST_SESSIONS))


@dataclass(frozen=True, slots=True)
class Account:
    """In whose name something is done."""

    tenant_id: UUID
    user_id: UUID
    wallet_id: UUID


async def open_account(db: Database, user_name: str) -> Account:
    """Load a user's account; at the first call it is made."""
    row = (await db.fetch(SQL["open_account"], user_name))[0]
    return Account(row["tenant_id"], row["user_id"], row["wallet_id"])


@dataclass(frozen=True, slots=True)
class File:
    """A file that is about to exist: its bytes are committed with the rows that speak of it."""

    path: str
    data: bytes
    mime_type: str

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()


async def insert_files(
    connection: Connection, tenant_id: UUID, project_id: UUID, files: Sequence[File]
) -> None:
    """Insert new files; their bytes wait in the rows until they are in storage."""
    await connection.execute(SQL["insert_files"], tenant_id, project_id, *_bind_files(files))


def _bind_files(files: Sequence[File]) -> tuple[list[str], list[str], list[str], list[bytes]]:
    return (
        [file.path for file in files],
        [file.mime_type for file in files],
        [file.sha256 for file in files],
        [file.data for file in files],
    )


async def pin_process(connection: Connection, tenant_id: UUID, process: Process) -> UUID:
    """Copy a process into the tables, once per content; return the id of that version."""
    process_id = derive_process_id(tenant_id, process)
    is_new = await connection.fetchval(
        SQL["insert_process"],
        tenant_id,
        process_id,
        process.name,
        process.file.title,
        process.file.description,
        process.content_hash,
        process.as_definition(),
        uuid5(process_id, process.order[0].slug),
    )
    if is_new:
        prompt_ids = await _keep_prompts(connection, tenant_id, process_id, process)
        await _insert_stages(connection, tenant_id, process_id, process, prompt_ids)
        await _insert_domains(connection, tenant_id, process_id, process, prompt_ids)
    return process_id


async def _keep_prompts(
    connection: Connection, tenant_id: UUID, process_id: UUID, process: Process
) -> dict[str, UUID]:
    """Keep the words of a process; a text that another version has already is shared with it."""
    hashes = {name: _hash_text(text) for name, text in process.prompts.items()}
    prompt_ids = {name: uuid5(tenant_id, f"prompt:{name}:{hashes[name]}") for name in hashes}
    await connection.execute(
        SQL["upsert_prompts"],
        tenant_id,
        list(prompt_ids.values()),
        list(prompt_ids),
        list(hashes.values()),
        list(process.prompts.values()),
    )
    await connection.execute(
        SQL["insert_process_prompts"], tenant_id, process_id, list(prompt_ids.values())
    )
    return prompt_ids


async def _insert_stages(
    connection: Connection,
    tenant_id: UUID,
    process_id: UUID,
    process: Process,
    prompt_ids: dict[str, UUID],
) -> None:
    for position, stage in enumerate(process.order, start=1):
        await connection.execute(
            SQL["insert_stage"],
            tenant_id,
            uuid5(process_id, stage.slug),
            process_id,
            stage.slug,
            stage.display_name,
            stage.description,
            position,
            prompt_ids[stage.system_prompt_name],
            prompt_ids[stage.prompt_template_name],
            build_input_rules(stage),
            build_expected_output(stage),
        )
    for source, target in pairwise(process.order):
        await connection.execute(
            SQL["insert_transition"],
            tenant_id,
            process_id,
            uuid5(process_id, source.slug),
            uuid5(process_id, target.slug),
        )


def derive_model_id(tenant_id: UUID, name: str) -> UUID:
    """Derive the id under which a tenant keeps a model."""
    return uuid5(tenant_id, f"model:{name}")


def derive_process_id(tenant_id: UUID, process: Process) -> UUID:
    """Derive the id under which a tenant keeps a version of a process."""
    return uuid5(tenant_id, f"process:{process.name}:{process.content_hash}")


def derive_domain_id(tenant_id: UUID, name: str) -> UUID:
    """Derive the id under which a tenant keeps a domain."""
    return uuid5(tenant_id, f"domain:{name}")


async def _insert_domains(
    connection: Connection,
    tenant_id: UUID,
    process_id: UUID,
    process: Process,
    prompt_ids: dict[str, UUID],
) -> None:
    # In the order of names, so that two who keep the same domains meet, and do not cross.
    for domain in sorted(set(process.file.domains)):
        domain_id = await upsert_domain(connection, tenant_id, domain)
        await connection.execute(SQL["insert_domain_association"], tenant_id, domain_id, process_id)
        overlay = process.overlays.get(domain)
        for prompt_name, guidance in sorted(overlay.guidance.items()) if overlay else ():
            prompt_id, content_hash = prompt_ids[prompt_name], _hash_text(guidance)
            overlay_id = uuid5(prompt_id, f"overlay:{domain_id}:{content_hash}")
            await connection.execute(
                SQL["upsert_overlay"],
                tenant_id,
                overlay_id,
                prompt_id,
                domain_id,
                {"guidance": guidance},
                content_hash,
            )
            await connection.execute(
                SQL["insert_process_overlay"], tenant_id, process_id, overlay_id
            )


def _hash_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


async def upsert_model(connection: Connection, tenant_id: UUID, card: ModelCard) -> UUID:
    """Keep the facts about a model as they are now; return its id."""
    model_id = derive_model_id(tenant_id, card.name)
    await connection.execute(
        SQL["upsert_model"], tenant_id, model_id, card.name, card.provider, card.as_config()
    )
    return model_id


async def upsert_domain(connection: Connection, tenant_id: UUID, name: str) -> UUID:
    """Keep a domain by its name; return its id."""
    domain_id = derive_domain_id(tenant_id, name)
    await connection.execute(SQL["upsert_domain"], tenant_id, domain_id, name)
    return domain_id


async def get_session_id(connection: Connection, text: str) -> UUID:
    """Find a session by its id or by the beginning of it, if that means only one."""
    return await get_id(connection, SESSION, text)


async def load_session(connection: Connection, session_id: UUID) -> asyncpg.Record:
    """Load a session with its project, process and models."""
    row = await connection.fetchrow(SQL["load_session"], session_id)
    if row is None:
        raise NotFound(
            f"There is no session {session_id}.", reason="no_session", subject=str(session_id)
        )
    return row


@dataclass(frozen=True, slots=True, kw_only=True)
class NewContribution:
    """What a job wrote, with where it stands and how it came about."""

    id: UUID
    model_id: UUID
    model_name: str
    model_index: int
    contribution_type: str
    prompt_template_name: str
    reply: Reply
    file: File
    raw_path: str
    is_incomplete: bool
    is_intermediate: bool
    flags: tuple[str, ...]
    processing_time_ms: int
    rank: int
    origin: int
    source_group: UUID | None
    target_contribution_id: UUID | None
    source_contribution_ids: tuple[UUID, ...]
    edit_version: int
    # The first version, if this is a later one: all who read it go by that id.
    original_model_contribution_id: UUID | None
    # What the prompt of its last turn was made of.
    manifest: dict[str, Any] | None = None


async def insert_contribution(
    connection: Connection, job: Job, project_id: UUID, new: NewContribution, files: Sequence[File]
) -> None:
    """Insert what a job wrote, with all its files, and tell those who follow its session."""
    first_id = new.original_model_contribution_id
    if first_id is not None:
        await supersede(connection, first_id)
    await connection.execute(
        SQL["insert_contribution"],
        job.tenant_id,
        new.id,
        job.session_id,
        job.id,
        new.model_id,
        new.model_name,
        job.stage_slug,
        job.iteration_number,
        new.contribution_type,
        first_id or new.id,
        0,
        new.is_incomplete,
        new.reply.text,
        new.file.path,
        new.raw_path,
        len(new.file.data),
        new.prompt_template_name,
        new.reply.usage.input_tokens,
        new.reply.usage.output_tokens,
        new.reply.usage.source,
        new.reply.finish_reason,
        new.reply.raw_finish_reason,
        new.reply.request_id,
        new.processing_time_ms,
        list(new.flags),
        False,
        new.source_group,
        new.target_contribution_id,
        new.is_intermediate,
        new.model_index,
        new.rank,
        new.origin,
        list(new.source_contribution_ids),
        new.edit_version,
        first_id,
        new.manifest,
        project_id,
        *_bind_files(files),
    )


async def supersede(connection: Connection, first_id: UUID) -> int:
    """Make room for a newer version; what was made from the old one is stale. Return how many."""
    await connection.execute(SQL["supersede"], first_id)
    return len(await connection.fetch(SQL["mark_stale"], first_id))


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose a resource is, and to which project it belongs."""

    user_id: UUID
    project_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class NewResource:
    """A text that belongs to a project and is not a contribution; some belong to one stage."""

    resource_type: str
    path: str
    text: str
    notes: tuple[str, ...] = ()
    session_id: UUID | None = None
    iteration_number: int | None = None
    stage_slug: str | None = None
    source_contribution_id: UUID | None = None
    document_key: str | None = None

    def as_file(self) -> File:
        return File(self.path, self.text.encode(), MARKDOWN)


def derive_resource_id(project_id: UUID, path: str) -> UUID:
    """Derive the id of a resource from where it stands."""
    return uuid5(project_id, path)


async def put_resources(
    connection: Connection, tenant_id: UUID, owner: Owner, resources: Sequence[NewResource]
) -> None:
    """Put resources and their files in their places; a newer text takes the place of an older."""
    if not resources:
        return
    rows = [
        {
            "id": str(derive_resource_id(owner.project_id, new.path)),
            "resource_type": new.resource_type,
            "session_id": str(new.session_id) if new.session_id else None,
            "iteration_number": new.iteration_number,
            "stage_slug": new.stage_slug,
            "content": new.text,
            "storage_path": new.path,
            "mime_type": MARKDOWN,
            "notes": list(new.notes),
            "source_contribution_id": (
                str(new.source_contribution_id) if new.source_contribution_id else None
            ),
            "document_key": new.document_key,
        }
        for new in resources
    ]
    await connection.execute(SQL["put_resources"], tenant_id, owner.project_id, owner.user_id, rows)


async def record_event(
    connection: Connection, session_id: UUID, kind: str, data: dict[str, Any]
) -> None:
    """Write one event of a session."""
    await connection.execute(SQL["announce"], session_id, kind, data)


async def choose_slug(connection: Connection, tenant_id: UUID, slug: str, project_id: UUID) -> str:
    """Choose the slug itself if it is free, else one like it; it is held until the commit."""
    chosen, unique = slug, project_id
    while True:
        await connection.execute(SQL["lock_slug"], tenant_id, chosen)
        if not await connection.fetchval(SQL["slug_is_taken"], chosen):
            return chosen
        chosen, unique = disambiguate(slug, unique), uuid4()
