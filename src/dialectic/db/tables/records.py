"""Projects, sessions, contributions, resources and files as rows. See sql/queries/records.sql.

Independent of job status and of money. Functions take the connection of a tenant's transaction, so
several of them share one commit.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING
from uuid import UUID, uuid4, uuid5

import asyncpg
from pydantic_core import to_jsonable_python

from dialectic.core.strict_json import Json
from dialectic.db.pool import Connection, Database
from dialectic.db.queries import get_row, load_queries
from dialectic.db.tables.files import MARKDOWN, File
from dialectic.errors import NotFound, Remedy, RemedyAction, UsageError

if TYPE_CHECKING:
    from dialectic.contract.events import SessionEvent
    from dialectic.core.job import Job
    from dialectic.core.models.model import ModelCard
    from dialectic.core.process.definition import Process


@dataclass(frozen=True, slots=True)
class Noun:
    """A kind of row: its name, the statement that finds ids, and the command that lists them."""

    name: str
    statement: str
    remedy: Remedy


async def get_id(connection: Connection, noun: Noun, text: str) -> UUID:
    """Find an id by its prefix; raise unless exactly one row matches."""
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
            f"{noun.name.capitalize()} {text!r} does not exist.",
            reason=f"no_{noun.name}",
            subject=text,
            remedy=noun.remedy,
        )
    if len(rows) > 1:
        ids = ", ".join(str(row["id"]) for row in rows)
        raise UsageError(
            f"More than one {noun.name} id begins with {text!r}: {ids}. Give a full id.",
            reason="ambiguous_id",
            subject=text,
        )
    found: UUID = rows[0]["id"]
    return found


SQL = load_queries("records")
SESSION = Noun("session", SQL["find_session_ids"], Remedy(RemedyAction.LIST_SESSIONS))
_LIST = Remedy(RemedyAction.LIST_CONTRIBUTIONS)
CONTRIBUTION = Noun("contribution", SQL["find_contribution_ids"], _LIST)
CHUNK = Noun("chunk", SQL["find_chunk_ids"], _LIST)


@dataclass(frozen=True, slots=True)
class Account:
    """The tenant, the user and the wallet of a caller."""

    tenant_id: UUID
    user_id: UUID
    wallet_id: UUID


async def open_account(db: Database, user_name: str, *, is_count_only: bool = False) -> Account:
    """Load a user's account; the first call creates it, with a wallet that may only count."""
    return await get_row(db, Account, SQL["open_account"], user_name, is_count_only)


async def pin_process(connection: Connection, tenant_id: UUID, process: Process) -> UUID:
    """Copy a process into the tables, once per content hash; return that version's id."""
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
    """Insert the prompts of a process; versions with the same text share one row."""
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
    from dialectic.core.process.definition import build_expected_output, build_input_rules

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
    """Derive the id of a model in a tenant."""
    return uuid5(tenant_id, f"model:{name}")


def derive_process_id(tenant_id: UUID, process: Process) -> UUID:
    """Derive the id of a version of a process in a tenant."""
    return uuid5(tenant_id, f"process:{process.name}:{process.content_hash}")


def derive_domain_id(tenant_id: UUID, name: str) -> UUID:
    """Derive the id of a domain in a tenant."""
    return uuid5(tenant_id, f"domain:{name}")


async def _insert_domains(
    connection: Connection,
    tenant_id: UUID,
    process_id: UUID,
    process: Process,
    prompt_ids: dict[str, UUID],
) -> None:
    # Sorted by name, so that two transactions that insert the same domains cannot deadlock.
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
    """Insert or update the facts about a model; return its id."""
    model_id = derive_model_id(tenant_id, card.name)
    await connection.execute(
        SQL["upsert_model"], tenant_id, model_id, card.name, card.provider, card.as_config()
    )
    return model_id


async def upsert_domain(connection: Connection, tenant_id: UUID, name: str) -> UUID:
    """Insert a domain unless its name exists; return its id."""
    domain_id = derive_domain_id(tenant_id, name)
    await connection.execute(SQL["upsert_domain"], tenant_id, domain_id, name)
    return domain_id


async def get_session_id(connection: Connection, text: str) -> UUID:
    """Find a session by its id or by a prefix of it."""
    return await get_id(connection, SESSION, text)


async def load_project(connection: Connection, project_id: UUID) -> asyncpg.Record:
    """Load a project, with its prompt and its domain."""
    row = await connection.fetchrow(SQL["load_project"], project_id)
    if row is None:
        raise NotFound(
            f"Project {project_id} does not exist.", reason="no_project", subject=str(project_id)
        )
    return row


async def change_total(connection: Connection, job: Job, calls: Counter[str]) -> None:
    """Change the number of planned documents of a job's stage, by type, while it has not ended."""
    place = (job.session_id, job.iteration_number, job.stage_slug)
    await connection.execute(SQL["change_total"], *place, calls.total(), dict(calls))


async def load_session(connection: Connection, session_id: UUID) -> asyncpg.Record:
    """Load a session with its project, process and models."""
    row = await connection.fetchrow(SQL["load_session"], session_id)
    if row is None:
        raise NotFound(
            f"Session {session_id} does not exist.", reason="no_session", subject=str(session_id)
        )
    return row


@dataclass(frozen=True, slots=True)
class Owner:
    """The user and the project that a resource belongs to."""

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
    mime_type: str = MARKDOWN

    def as_file(self) -> File:
        return File(self.path, self.text.encode(), self.mime_type)


def derive_resource_id(project_id: UUID, path: str) -> UUID:
    """Derive the id of a resource from its path."""
    return uuid5(project_id, path)


async def put_resources(
    connection: Connection, tenant_id: UUID, owner: Owner, resources: Sequence[NewResource]
) -> None:
    """Insert resources and their files; a newer text replaces an older one."""
    if resources:
        rows = bind_resources(owner, resources)
        given = tenant_id, owner.project_id, owner.user_id, rows
        await connection.execute(SQL["put_resources"], *given)


def bind_resources(owner: Owner, resources: Sequence[NewResource]) -> list[Json]:
    """Bind the columns of resources."""
    return [
        {**to_jsonable_python(new), "id": str(derive_resource_id(owner.project_id, new.path))}
        for new in resources
    ]


async def record_event(connection: Connection, event: SessionEvent) -> None:
    """Record one event of a session."""
    data = event.model_dump(mode="json", exclude_unset=True)
    await connection.execute(SQL["announce"], event.session_id, event.type, data)


async def hold_funded(connection: Connection, wallet_id: UUID) -> None:
    """Hold the sessions with jobs that wait for money in a wallet; call it before money moves."""
    await connection.execute(SQL["hold_funded"], wallet_id)


async def begin_stage_run(
    connection: Connection, session_id: UUID, *, iteration: int, stage_slug: str
) -> None:
    """Begin a planned stage, and announce it; idempotent."""
    await connection.execute(SQL["begin_stage_run"], session_id, iteration, stage_slug)


async def choose_slug(connection: Connection, tenant_id: UUID, slug: str, project_id: UUID) -> str:
    """Choose the slug if it is free, else a similar one; lock it until the commit."""
    from dialectic.core.slug import disambiguate

    chosen, unique = slug, project_id
    while True:
        await connection.execute(SQL["lock_slug"], tenant_id, chosen)
        if not await connection.fetchval(SQL["slug_is_taken"], chosen):
            return chosen
        chosen, unique = disambiguate(slug, unique), uuid4()
