"""Create, change and delete projects, their resources and their sessions.

No stage starts here. Ids derive from the request, so that a retry creates nothing twice.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from dialectic.app.transaction import Transaction
from dialectic.contract.projects import Project, ProjectSummary
from dialectic.core.documents.file_paths import GeneralResource, InitialPrompt, build_path
from dialectic.core.models.model import ModelCard
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
from dialectic.db.tables import files, records
from dialectic.db.tables.records import SQL, NewResource, Owner, choose_slug
from dialectic.errors import Conflict, TooLarge, UsageError
from dialectic.ledger import wallets
from dialectic.publishing.publish import delete_files, discard_files_in


@dataclass(frozen=True, slots=True)
class CreatedSession:
    """A new session."""

    project_id: UUID
    session_id: UUID
    project_slug: str
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewProject:
    """The inputs of a new project; without a name, it is taken from the prompt."""

    prompt: str
    name: str = ""
    domain: str = "General"
    resources: tuple[Given, ...] = ()


async def create_session(tx: Transaction, ask: RunRequest) -> CreatedSession:
    """Create a project with its first session; the prompt becomes a file and a resource."""
    new = NewProject(prompt=ask.prompt, name=ask.name, domain=ask.domain, resources=ask.resources)
    _check_session(tx, ask)  # raise before any write
    project_id, slug, notes = await create_project(tx, new)
    session_id = await add_session(tx, project_id, ask)
    return CreatedSession(project_id, session_id, slug, notes)


async def create_project(tx: Transaction, new: NewProject) -> tuple[UUID, str, list[str]]:
    """Create a project; return its id, its folder and notes on its prompt."""
    connection, account, project_id = tx.connection, tx.account, tx.derive_id("project")
    tx.publish(project_id)
    prompt, notes = check_prompt(new.prompt, bytes_max=tx.engine.settings.max_prompt_bytes)
    name = check_name(new.name) or derive_name(prompt)
    made: str | None = await connection.fetchval(SQL["find_project_slug"], project_id)
    if made is not None:  # an earlier try has committed
        return project_id, made, notes
    wanted = slugify_name(name, fallback="project")
    slug = await choose_slug(connection, account.tenant_id, wanted, project_id)
    domain_id = await records.upsert_domain(connection, account.tenant_id, new.domain)
    await connection.execute(
        SQL["insert_project"],
        account.tenant_id,
        project_id,
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
    owner = Owner(account.user_id, project_id)
    await records.put_resources(connection, account.tenant_id, owner, [first, *given])
    return project_id, slug, notes


def _check_session(tx: Transaction, ask: RunRequest) -> tuple[int, list[ModelCard]]:
    """Check the request for a session; return the index of its lead model and its models."""
    check_run_request(ask.process, until=ask.until, domain=ask.domain)
    lead = get_lead(ask.models, ask.lead)
    return lead, [tx.engine.catalog.load_card(name) for name in ask.models]


async def add_session(tx: Transaction, project_id: UUID, ask: RunRequest) -> UUID:
    """Create a session in a project, with a pinned process and a budget."""
    lead, cards = _check_session(tx, ask)
    connection, account, session_id = tx.connection, tx.account, tx.derive_id("session")
    first = ask.process.order[0].slug
    if await connection.fetchval(SQL["session_exists"], session_id):
        return session_id  # an earlier try has committed
    process_id = await records.pin_process(connection, account.tenant_id, ask.process)
    tx.engine.processes[process_id] = ask.process  # cache it for the session's jobs
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
        ask.is_autopilot,
        ask.continue_until_complete,
        ask.max_output_tokens,
        tx.engine.settings.max_retries,
    )
    if ask.budget_credits is not None:
        await wallets.set_budget(connection, session_id, ask.budget_credits)
    return session_id


def _build_given(given: Sequence[Given], slug: str, taken: set[str]) -> list[NewResource]:
    """Build the resources of a new project, each at an unused path."""
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


# -- existing projects-----------------------------------------------------------------------------


async def load(tx: Transaction, project_id: UUID) -> dict[str, Any]:
    """Load a project, with its prompt and its domain."""
    return dict(await records.load_project(tx.connection, project_id))


async def change(
    tx: Transaction, project_id: UUID, *, name: str | None, is_archived: bool | None
) -> None:
    """Rename, archive or restore a project; its folder keeps its name."""
    row = await load(tx, project_id)
    named = row["project_name"] if name is None else check_name(name)
    if not named:
        raise UsageError(
            "The project's name is empty. Enter a name, or omit the field.",
            reason="empty",
            subject="name",
        )
    status = row["status"]
    if is_archived is not None:
        status = "archived" if is_archived else "active"
    await tx.connection.execute(SQL["change_project"], project_id, named, status)
    await files.make_due(tx.connection, project_id)


async def add_resource(tx: Transaction, project_id: UUID, given: Given) -> UUID:
    """Add a resource to a project; running sessions read it from their next prompt on."""
    connection, account = tx.connection, tx.account
    size, bytes_max = len(given.text.encode(errors="replace")), tx.engine.settings.max_prompt_bytes
    if size > bytes_max:
        raise TooLarge(
            f"The resource has {size:,} bytes; the limit is {bytes_max:,} "
            "(MAX_PROMPT_BYTES). Shorten it."
        )
    if not clean_text(given.text)[0].strip():
        raise UsageError("The resource is empty. Enter a text.", reason="empty", subject="content")
    row = await load(tx, project_id)
    # Serialize concurrent requests that add resources of the same name.
    await connection.execute(SQL["lock_slug"], account.tenant_id, row["slug"])
    taken = {
        file["path"]
        for file in await connection.fetch(SQL["list_files_of_project"], project_id, row["slug"])
    }
    (resource,) = _build_given([given], row["slug"], taken)
    owner = Owner(account.user_id, project_id)
    await records.put_resources(connection, account.tenant_id, owner, [resource])
    await files.make_due(connection, project_id)
    tx.publish(project_id)
    return records.derive_resource_id(project_id, resource.path)


async def delete(tx: Transaction, project_id: UUID) -> None:
    """Delete a project with all its data; its files are deleted after the commit.

    Ledger entries stay. A project with running work cannot be deleted, and no work can start
    during the deletion.
    """
    connection = tx.connection
    # Lock in this order, like a session start: the sessions first, then the project.
    await connection.execute(SQL["lock_sessions_of_project"], project_id)
    await connection.execute(SQL["lock_project"], project_id)
    row = await load(tx, project_id)
    if await connection.fetchval(SQL["project_has_open_jobs"], project_id):
        raise Conflict(
            f"Project {project_id} has running work. Cancel its sessions first.",
            reason="work_under_way",
        )
    paths = await discard_files_in(connection, project_id, row["slug"])
    tx.after_commit[project_id] = functools.partial(
        delete_files, tx.engine, tx.account.tenant_id, paths
    )
    await connection.execute(SQL["delete_project"], project_id)


def build_run_request(project: dict[str, Any], ask: RunRequest) -> RunRequest:
    """Build the request of another session of a project: the project's own prompt."""
    return replace(ask, prompt=project["initial_user_prompt"], domain=project["domain"])


async def list_files(tx: Transaction, project_id: UUID, slug: str) -> list[str]:
    """List the paths of a project's files."""
    rows = await tx.connection.fetch(SQL["list_files_of_project"], project_id, f"{slug}/")
    return [row["path"] for row in rows]


async def get(tx: Transaction, project_id: UUID) -> Project:
    """Load a project and its prompt."""
    row = await load(tx, project_id)
    return Project(**_columns(row), prompt=row["initial_user_prompt"])


def build_summary(row: dict[str, Any]) -> ProjectSummary:
    """Build a list entry of a project from its row."""
    return ProjectSummary(**_columns(row))


def _columns(row: dict[str, Any]) -> dict[str, Any]:
    same = {key: row[key] for key in ("id", "slug", "domain", "status", "created_at")}
    return {**same, "name": row["project_name"]}
