"""Projects, sessions, contributions and files as rows. Statements stand in sql/queries/records.sql.

Knows no job states and no money. Functions take the connection of a tenant's transaction, so that
several of them make one commit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid5

import asyncpg

from dialectic.domain.job import Job
from dialectic.domain.message import Reply
from dialectic.domain.model import ModelCard
from dialectic.domain.process import Process
from dialectic.errors import NotFound, UsageError
from dialectic.store.database import Connection, Database
from dialectic.store.queries import load_queries

SQL = load_queries("records")
MARKDOWN = "text/markdown"


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


async def insert_files(
    connection: Connection, tenant_id: UUID, project_id: UUID, files: Sequence[File]
) -> None:
    """Insert files; their bytes wait in the rows until they are in storage."""
    await connection.execute(
        SQL["insert_files"],
        tenant_id,
        project_id,
        [file.path for file in files],
        [file.mime_type for file in files],
        [hashlib.sha256(file.data).hexdigest() for file in files],
        [file.data for file in files],
    )


async def pin_process(connection: Connection, tenant_id: UUID, process: Process) -> UUID:
    """Copy a process into the tables, once per content; return the id of that version."""
    process_id = uuid5(tenant_id, f"process:{process.name}:{process.content_hash}")
    prompt_ids: dict[str, UUID] = {}
    for name, text in process.prompts.items():
        content_hash = hashlib.sha256(text.encode()).hexdigest()
        prompt_ids[name] = uuid5(tenant_id, f"prompt:{name}:{content_hash}")
        await connection.execute(
            SQL["upsert_prompt"], tenant_id, prompt_ids[name], name, content_hash, text
        )
    is_new = await connection.fetchval(
        SQL["upsert_process"],
        tenant_id,
        process_id,
        process.name,
        process.file.description,
        process.content_hash,
        process.as_definition(),
    )
    if is_new:
        await _insert_stages(connection, tenant_id, process_id, process, prompt_ids)
    return process_id


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
            {"prompt_template_name": stage.prompt_template_name},
            {"output_type": stage.output_type},
        )
    for arrow in process.file.transitions:
        await connection.execute(
            SQL["insert_transition"],
            tenant_id,
            process_id,
            uuid5(process_id, arrow.source),
            uuid5(process_id, arrow.target),
        )


async def keep_model(connection: Connection, tenant_id: UUID, card: ModelCard) -> UUID:
    """Keep the facts about a model as they are now; return its id."""
    model_id = uuid5(tenant_id, f"model:{card.name}")
    await connection.execute(
        SQL["upsert_model"], tenant_id, model_id, card.name, card.provider, card.as_config()
    )
    return model_id


async def keep_domain(connection: Connection, tenant_id: UUID, name: str) -> UUID:
    """Keep a domain by its name; return its id."""
    domain_id = uuid5(tenant_id, f"domain:{name}")
    await connection.execute(SQL["upsert_domain"], tenant_id, domain_id, name)
    return domain_id


async def find_session_id(connection: Connection, text: str) -> UUID:
    """Find a session by its id or by the beginning of it, if that means only one."""
    if not text or text.strip("0123456789abcdefABCDEF-"):
        raise UsageError(f"{text!r} is not the id of a session. `dialectic status` lists them.")
    rows = await connection.fetch(SQL["find_session_ids"], text.lower())
    if not rows:
        raise NotFound(f"There is no session {text!r}. `dialectic status` lists them.")
    if len(rows) > 1:
        raise UsageError(f"More than one session begins with {text!r}. Give more of its id.")
    found: UUID = rows[0]["id"]
    return found


async def load_session(connection: Connection, session_id: UUID) -> asyncpg.Record:
    """Load a session with its project, process and models."""
    row = await connection.fetchrow(SQL["load_session"], session_id)
    if row is None:
        raise NotFound(f"There is no session {session_id}.")
    return row


@dataclass(frozen=True, slots=True, kw_only=True)
class NewContribution:
    """What a job wrote, with where it stands and how it came about."""

    id: UUID
    model_id: UUID
    model_name: str
    contribution_type: str
    prompt_template_name: str
    reply: Reply
    file: File
    raw_file: File
    is_incomplete: bool
    flags: tuple[str, ...]
    processing_time_ms: int


async def insert_contribution(connection: Connection, job: Job, new: NewContribution) -> None:
    """Insert what a job wrote and tell those who follow its session, in the caller's commit."""
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
        new.id,
        0,
        new.is_incomplete,
        new.reply.text,
        new.file.path,
        new.raw_file.path,
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
    )


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


async def insert_resource(
    connection: Connection, account: Account, project_id: UUID, new: NewResource
) -> None:
    """Insert a resource and its file."""
    file = File(new.path, new.text.encode(), MARKDOWN)
    await insert_files(connection, account.tenant_id, project_id, [file])
    await connection.execute(
        SQL["insert_resource"],
        account.tenant_id,
        uuid5(project_id, new.path),
        project_id,
        account.user_id,
        new.resource_type,
        new.session_id,
        new.iteration_number,
        new.stage_slug,
        new.text,
        new.path,
        MARKDOWN,
        len(file.data),
        list(new.notes),
    )


async def announce(
    connection: Connection, session_id: UUID, kind: str, data: dict[str, Any]
) -> None:
    """Write one event of a session."""
    await connection.execute(SQL["announce"], session_id, kind, data)


async def read_events(
    connection: Connection, *, after_seq: int, session_id: UUID | None, limit: int = 500
) -> list[asyncpg.Record]:
    """Read what is new, in order, after the last number seen."""
    return await connection.fetch(SQL["read_notifications"], after_seq, session_id, limit)
