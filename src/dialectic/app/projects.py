"""Projects: made with a prompt and what is given beside it, given sessions, renamed, deleted.

Knows nothing of what becomes of a session; no stage starts here. What ends in `_in` works in the
transaction of whoever asks for it; ids are given by the caller, so that trying again makes nothing
twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID, uuid4

from dialectic.core.documents.file_locations import GeneralResource, InitialPrompt
from dialectic.core.documents.file_paths import build_path
from dialectic.core.run_request import (
    Given,
    RunRequest,
    check_name,
    check_prompt,
    check_run_request,
    derive_name,
    get_lead,
)
from dialectic.core.slug import slugify_name
from dialectic.core.text import clean_text
from dialectic.db.pool import Connection
from dialectic.db.tables import descriptions, records
from dialectic.db.tables.records import SQL, Account, NewResource, Owner, choose_slug
from dialectic.engine import Engine
from dialectic.errors import Conflict, NotFound, TooLarge, UsageError
from dialectic.ledger import wallets
from dialectic.publishing.deletion import discard_files_in
from dialectic.publishing.publish import publish_project


@dataclass(frozen=True, slots=True)
class CreatedSession:
    """A session that has been created."""

    project_id: UUID
    session_id: UUID
    project_slug: str
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewProject:
    """What a project begins with; its name is taken from the prompt if there is none."""

    prompt: str
    name: str = ""
    domain: str = "General"
    resources: tuple[Given, ...] = ()
    id: UUID = field(default_factory=uuid4)


async def create_session(engine: Engine, account: Account, ask: RunRequest) -> CreatedSession:
    """Create a project with its first session; the prompt becomes a file and a resource."""
    check_run_request(ask.process, until=ask.until, domain=ask.domain)
    get_lead(ask.models, ask.lead)  # refused before anything is written
    for name in ask.models:
        engine.catalog.load_card(name)
    new = NewProject(prompt=ask.prompt, name=ask.name, domain=ask.domain, resources=ask.resources)
    session_id = uuid4()

    async def work(connection: Connection) -> CreatedSession:
        slug, notes = await create_project_in(engine, connection, account, new)
        await add_session_in(engine, connection, account, new.id, ask, session_id)
        return CreatedSession(new.id, session_id, slug, notes)

    begun = await engine.db.transact(account.tenant_id, work)
    await publish_project(engine, account.tenant_id, new.id)
    return begun


async def create_project_in(
    engine: Engine, connection: Connection, account: Account, new: NewProject
) -> tuple[str, list[str]]:
    """Create a project in the caller's transaction; return its folder and notes on its prompt."""
    prompt, notes = check_prompt(new.prompt, bytes_max=engine.settings.max_prompt_bytes)
    name = check_name(new.name) or derive_name(prompt)
    made: str | None = await connection.fetchval(SQL["find_project_slug"], new.id)
    if made is not None:  # a commit whose answer was lost
        return made, notes
    wanted = slugify_name(name, fallback="project")
    slug = await choose_slug(connection, account.tenant_id, wanted, new.id)
    domain_id = await records.upsert_domain(connection, account.tenant_id, new.domain)
    await connection.execute(
        SQL["insert_project"],
        account.tenant_id,
        new.id,
        account.user_id,
        name,
        slug,
        domain_id,
        prompt,
    )
    place = InitialPrompt(slug, slugify_name(name, fallback="prompt"))
    first = NewResource(
        resource_type="initial_user_prompt",
        path=build_path(place),
        text=prompt,
        notes=tuple(notes),
    )
    given = _build_given(new.resources, slug, set())
    owner = Owner(account.user_id, new.id)
    await records.put_resources(connection, account.tenant_id, owner, [first, *given])
    return slug, notes


async def add_session_in(
    engine: Engine,
    connection: Connection,
    account: Account,
    project_id: UUID,
    ask: RunRequest,
    session_id: UUID,
) -> None:
    """Give a project a session, by a process that is pinned, with its budget."""
    check_run_request(ask.process, until=ask.until, domain=ask.domain)
    lead, first = get_lead(ask.models, ask.lead), ask.process.order[0].slug
    cards = [engine.catalog.load_card(name) for name in ask.models]
    if await connection.fetchval(SQL["session_exists"], session_id):
        return  # a commit whose answer was lost
    process_id = await records.pin_process(connection, account.tenant_id, ask.process)
    engine.processes[process_id] = ask.process  # its jobs need not build it again
    model_ids = [await records.upsert_model(connection, account.tenant_id, card) for card in cards]
    await connection.execute(
        SQL["insert_session"],
        account.tenant_id,
        session_id,
        project_id,
        account.user_id,
        process_id,
        account.wallet_id,
        model_ids,
        lead,
        first,
        ask.until or ask.process.order[-1].slug,
        f"pending_{first}",
        ask.is_autopilot,
        ask.continue_until_complete,
        ask.max_output_tokens,
        engine.settings.max_retries,
    )
    if ask.budget_credits is not None:
        await wallets.set_budget(connection, session_id, ask.budget_credits)


def _build_given(given: Sequence[Given], slug: str, taken: set[str]) -> list[NewResource]:
    """Build what was given beside the prompt, each in a place that is free."""
    found = []
    for number, one in enumerate(given, start=len(taken) + 1):
        text, said = clean_text(one.text)
        stem = slugify_name(one.name, fallback="resource")
        path = build_path(GeneralResource(slug, one.kind, stem))
        if path in taken:
            path = build_path(GeneralResource(slug, one.kind, f"{stem[:58]}-{number}"))
        taken.add(path)
        found.append(
            NewResource(resource_type=one.kind.value, path=path, text=text, notes=tuple(said))
        )
    return found


# -- what exists ----------------------------------------------------------------------------------


async def load_in(connection: Connection, project_id: UUID) -> dict[str, Any]:
    """Load a project, with its prompt and its domain."""
    row = await connection.fetchrow(SQL["load_project"], project_id)
    if row is None:
        raise NotFound(
            f"There is no project {project_id}.", reason="no_project", subject=str(project_id)
        )
    return dict(row)


async def change_in(
    connection: Connection, project_id: UUID, *, name: str | None, is_archived: bool | None
) -> None:
    """Rename a project, put it away or take it out again; its folder keeps its name."""
    row = await load_in(connection, project_id)
    named = row["project_name"] if name is None else check_name(name)
    if not named:
        raise UsageError(
            "The project's name is empty. Give it one, or leave it as it is.",
            reason="empty",
            subject="name",
        )
    status = row["status"]
    if is_archived is not None:
        status = "archived" if is_archived else "active"
    await connection.execute(SQL["change_project"], project_id, named, status)
    await descriptions.make_due(connection, project_id)


async def add_resource_in(
    engine: Engine, connection: Connection, account: Account, project_id: UUID, given: Given
) -> UUID:
    """Give a project a text beside its prompt; what is under way reads it from then on."""
    size, bytes_max = len(given.text.encode(errors="replace")), engine.settings.max_prompt_bytes
    if size > bytes_max:
        raise TooLarge(
            f"The resource has {size:,} bytes; MAX_PROMPT_BYTES allows {bytes_max:,}. Shorten it."
        )
    if not clean_text(given.text)[0].strip():
        raise UsageError(
            "The resource is empty. Give it a text.", reason="empty", subject="content"
        )
    row = await load_in(connection, project_id)
    # Two who give something of one name at the same moment do so one after another.
    await connection.execute(SQL["lock_slug"], account.tenant_id, row["slug"])
    taken = {
        file["path"]
        for file in await connection.fetch(SQL["list_files_of_project"], project_id, row["slug"])
    }
    (resource,) = _build_given([given], row["slug"], taken)
    owner = Owner(account.user_id, project_id)
    await records.put_resources(connection, account.tenant_id, owner, [resource])
    await descriptions.make_due(connection, project_id)
    return records.derive_resource_id(project_id, resource.path)


async def delete_in(connection: Connection, project_id: UUID) -> list[str]:
    """Delete a project with all that belongs to it; list its files, which are noted as to be gone.

    What was paid stays in the books. A project that works is not deleted under its workers, nor
    does any begin to work while it is.
    """
    # In this order: whoever starts a session has it first, and then needs the project to write.
    await connection.execute(SQL["lock_sessions_of_project"], project_id)
    await connection.execute(SQL["lock_project"], project_id)
    row = await load_in(connection, project_id)
    if await connection.fetchval(SQL["project_has_open_jobs"], project_id):
        raise Conflict(
            f"Project {project_id} has work under way: cancel its sessions first.",
            reason="work_under_way",
        )
    paths = await discard_files_in(connection, project_id, row["slug"])
    await connection.execute(SQL["delete_project"], project_id)
    return paths


def build_run_request(project: dict[str, Any], ask: RunRequest) -> RunRequest:
    """Build what a further session of a project argues about: the project's own prompt."""
    return replace(ask, prompt=project["initial_user_prompt"], domain=project["domain"])


async def list_files(engine: Engine, account: Account, project_id: UUID, slug: str) -> list[str]:
    """List the paths of a project's files."""

    async def work(connection: Connection) -> list[str]:
        rows = await connection.fetch(SQL["list_files_of_project"], project_id, f"{slug}/")
        return [row["path"] for row in rows]

    return await engine.db.transact(account.tenant_id, work)
