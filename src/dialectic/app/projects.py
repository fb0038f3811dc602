"""Create, change and delete projects, their resources and their sessions.

No stage starts here. Ids derive from the request, so that a retry creates nothing twice.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TypeAlias
from uuid import UUID

from dialectic.app import installed
from dialectic.app.transaction import Transaction
from dialectic.contract.projects import (
    Project,
    ProjectChange,
    ProjectFile,
    ProjectRequest,
    ResourceRequest,
)
from dialectic.contract.sessions import RunRequest, SessionOptions, SessionRequest
from dialectic.core.documents.file_paths import (
    GeneralResource,
    InitialPrompt,
    ResourceKind,
    build_path,
    name_prompt,
)
from dialectic.core.models.model import ModelCard, parse_model_list
from dialectic.core.money.price import parse_usd
from dialectic.core.process.definition import Process
from dialectic.core.process.reductions import shrink_process
from dialectic.core.run_request import (
    check_name,
    check_overlay,
    check_prompt,
    check_run_request,
    get_domain,
    get_lead,
)
from dialectic.core.slug import slugify_name, slugify_title
from dialectic.core.strict_json import Json
from dialectic.core.text import clean_text
from dialectic.core.title import derive_title
from dialectic.db.pool import Connection
from dialectic.db.tables import files, records
from dialectic.db.tables.records import SQL, NewResource, Owner, choose_slug
from dialectic.engine import Engine
from dialectic.errors import Conflict, InvalidValue, NotFound, TooLarge, UsageError
from dialectic.ledger import wallets
from dialectic.pipeline.own_models import load_cards
from dialectic.processes.loader import load_named
from dialectic.providers.catalog import choose_default_models
from dialectic.publishing.publish import delete_files, discard_file_in, discard_files_in


@dataclass(frozen=True, slots=True)
class CreatedSession:
    """A new session."""

    project_id: UUID
    session_id: UUID
    project_slug: str


AnyRequest: TypeAlias = SessionRequest | RunRequest


@dataclass(frozen=True, slots=True)
class CheckedRun:
    """What a request names, as it exists here: the process without its left out parts, the models.

    The lead is the number of a model, from 1.
    """

    process: Process
    domain: str
    cards: list[ModelCard]
    lead: int
    budget_credits: int | None

    @property
    def models(self) -> list[str]:
        return [card.name for card in self.cards]


async def check_run(
    engine: Engine,
    tenant_id: UUID,
    request: AnyRequest,
    domain: str,
    connection: Connection | None = None,
) -> CheckedRun:
    """Check the options of a session, for every way in; in a transaction, pass it."""
    named = request.process
    if not isinstance(named, Process):
        named = load_named(named, own=engine.settings.own_processes)
    process = shrink_process(named, request.shrink)
    domain = check_run_request(process, until=request.until, domain=domain)
    models = (
        choose_default_models(engine.catalog, engine.settings)
        if request.models is None
        else parse_model_list(",".join(request.models))
    )
    budget = None if request.budget is None else parse_usd(request.budget)
    lead = get_lead(models, request.lead)
    cards = await load_cards(engine, tenant_id, models, connection)
    return CheckedRun(process, domain, cards, lead, budget)


async def create_session(tx: Transaction, request: RunRequest) -> CreatedSession:
    """Create a session: of a new project, whose prompt becomes a file, or of an existing one."""
    if request.project_id is not None:
        session_id = await add_session(tx, request.project_id, request, request.resources)
        project = await get(tx, request.project_id)
        return CreatedSession(project.id, session_id, project.slug)
    # Raise before any write.
    run = await check_run(tx.engine, tx.account.tenant_id, request, request.domain, tx.connection)
    project_id, slug, _ = await create_project(tx, request, domains=run.process.file.domains)
    session_id = await _insert_session(tx, project_id, request, run)
    return CreatedSession(project_id, session_id, slug)


async def create_project(
    tx: Transaction, new: ProjectRequest | RunRequest, *, domains: Collection[str] | None = None
) -> tuple[UUID, str, list[str]]:
    """Create a project; return its id, its folder and notes on its prompt.

    Its domain is one of the given ones, or of any installed process.
    """
    connection, account, project_id = tx.connection, tx.account, tx.derive_id("project")
    tx.publish(project_id)
    domain = await _get_domain(tx, new.domain, domains)
    prompt, notes = check_prompt(new.prompt, bytes_max=tx.engine.settings.max_prompt_bytes)
    name, overlay = check_name(new.name) or derive_title(prompt), check_overlay(new.overlay)
    made: str | None = await connection.fetchval(SQL["find_project_slug"], project_id)
    if made is not None:  # an earlier try has committed
        return project_id, made, notes
    wanted = slugify_title(name, fallback="project")
    slug = await choose_slug(connection, account.tenant_id, wanted, project_id)
    domain_id = await records.upsert_domain(connection, account.tenant_id, domain)
    await connection.execute(
        SQL["insert_project"],
        account.tenant_id,
        project_id,
        account.user_id,
        name,
        slug,
        domain_id,
        prompt,
        _store_overlay(overlay),
    )
    place = InitialPrompt(slug, name_prompt(slugify_title(name, fallback="prompt")))
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


async def _get_domain(tx: Transaction, domain: str, known: Collection[str] | None) -> str:
    if known is None:
        own = tx.engine.settings.own_processes
        known = await asyncio.to_thread(installed.list_domains, own)
    return get_domain(domain, known, "The processes have")


async def add_session(
    tx: Transaction,
    project_id: UUID,
    request: AnyRequest,
    resources: Sequence[ResourceRequest] = (),
) -> UUID:
    """Create another session of a project, after adding resources to the project."""
    for given in resources:
        await add_resource(tx, project_id, given)
    project = await get(tx, project_id)
    run = await check_run(tx.engine, tx.account.tenant_id, request, project.domain, tx.connection)
    return await _insert_session(tx, project_id, request, run)


async def _insert_session(
    tx: Transaction, project_id: UUID, request: AnyRequest, run: CheckedRun
) -> UUID:
    """Insert a session with a pinned process and a budget."""
    connection, account, session_id = tx.connection, tx.account, tx.derive_id("session")
    process, first = run.process, run.process.order[0].slug
    options = request.model_dump(mode="json", include=set(SessionOptions.model_fields))
    if request.pause_on_dissent and not request.is_autopilot:
        raise InvalidValue(
            "A session that waits after each stage cannot also wait for dissent alone. Choose one.",
            reason="two_choices",
            subject="pause_on_dissent",
        )
    if request.session_description.strip():
        bytes_max = tx.engine.settings.max_prompt_bytes
        options["session_description"], _ = check_prompt(
            request.session_description.strip(), bytes_max=bytes_max
        )
    if await connection.fetchval(SQL["session_exists"], session_id):
        return session_id  # an earlier try has committed
    process_id = await records.pin_process(connection, account.tenant_id, process)
    tx.engine.processes[process_id] = process  # cache it for the session's jobs
    model_ids = [
        await records.upsert_model(connection, account.tenant_id, card) for card in run.cards
    ]
    await connection.execute(
        SQL["insert_session"],
        account.tenant_id,
        session_id,
        project_id,
        account.user_id,
        process_id,
        account.wallet_id,
        model_ids,
        run.lead,
        first,
        request.until or process.order[-1].slug,
        tx.engine.settings.max_retries,
        options,
    )
    if run.budget_credits is not None:
        await wallets.set_budget(connection, session_id, run.budget_credits)
    return session_id


def _build_given(given: Sequence[ResourceRequest], slug: str, taken: set[str]) -> list[NewResource]:
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


# -- existing projects ----------------------------------------------------------------------------


async def get(tx: Transaction, project_id: UUID) -> Project:
    """Load a project and its prompt."""
    row = await records.load_project(tx.connection, project_id)
    return Project.model_validate(dict(row))


async def change(tx: Transaction, project_id: UUID, wanted: ProjectChange) -> Project:
    """Rename, archive or restore a project, or change its domain or overlay.

    Its folder keeps its name. Running sessions have the new domain's guidance and the new overlay
    in their next prompts.
    """
    project = await get(tx, project_id)
    named = project.name if wanted.name is None else check_name(wanted.name)
    if not named:
        raise UsageError(
            "The project's name is empty. Enter a name, or omit the field.",
            reason="empty",
            subject="name",
        )
    status = project.status
    if wanted.is_archived is not None:
        status = "archived" if wanted.is_archived else "active"
    domain_id = None
    if wanted.domain is not None:
        domain = await _get_domain(tx, wanted.domain, await _list_domains(tx, project_id))
        domain_id = await records.upsert_domain(tx.connection, tx.account.tenant_id, domain)
    overlay = project.overlay if wanted.overlay is None else check_overlay(wanted.overlay)
    stored = _store_overlay(overlay)
    await tx.connection.execute(SQL["change_project"], project_id, named, status, domain_id, stored)
    await files.make_due(tx.connection, project_id)
    return await get(tx, project_id)


def _store_overlay(overlay: str) -> Json:
    """Build the stored form of what a project adds to every prompt."""
    return {"overlay": overlay} if overlay else {}


async def _list_domains(tx: Transaction, project_id: UUID) -> list[str]:
    """List the domains that all processes of a project's sessions have; else of any process."""
    rows = await tx.connection.fetch(SQL["list_domains_of_sessions"], project_id)
    shared = [row["name"] for row in rows if row["is_shared"]]
    return (
        shared
        if rows
        else await asyncio.to_thread(installed.list_domains, tx.engine.settings.own_processes)
    )


async def add_resource(tx: Transaction, project_id: UUID, given: ResourceRequest) -> UUID:
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
    slug = (await get(tx, project_id)).slug
    # Serialize concurrent requests that add resources of the same name.
    await connection.execute(SQL["lock_slug"], account.tenant_id, slug)
    taken = {
        file["path"]
        for file in await connection.fetch(SQL["list_taken_paths"], project_id, f"{slug}/")
    }
    (resource,) = _build_given([given], slug, taken)
    owner = Owner(account.user_id, project_id)
    await records.put_resources(connection, account.tenant_id, owner, [resource])
    await files.make_due(connection, project_id)
    tx.publish(project_id)
    return records.derive_resource_id(project_id, resource.path)


async def remove_resource(tx: Transaction, project_id: UUID, resource_id: UUID) -> None:
    """Remove a resource that a person gave to a project; later prompts do not include it."""
    row = await tx.connection.fetchrow(SQL["find_resource"], project_id, resource_id)
    if row is None:
        raise NotFound(
            f"Resource {resource_id} does not exist in project {project_id}.",
            reason="no_resource",
            subject=str(resource_id),
        )
    if row["resource_type"] not in [kind.value for kind in ResourceKind]:
        raise Conflict(
            f"{row['storage_path']} is the project's prompt, which cannot be removed.",
            reason="is_prompt",
            subject=str(resource_id),
        )
    path = row["storage_path"]
    await tx.connection.execute(SQL["delete_resource"], project_id, resource_id)
    await discard_file_in(tx.connection, project_id, path)
    await files.make_due(tx.connection, project_id)
    tx.publish(project_id)
    tx.after_commit[path] = functools.partial(delete_files, tx.engine, tx.account.tenant_id, [path])


async def delete(tx: Transaction, project_id: UUID) -> None:
    """Delete a project with all its data; its files are deleted after the commit.

    Ledger entries stay. A project with running work cannot be deleted, and no work can start
    during the deletion.
    """
    connection = tx.connection
    # Lock in this order, like a session start: the sessions first, then the project.
    await connection.execute(SQL["hold_sessions_of_project"], project_id)
    await connection.execute(SQL["lock_sessions_of_project"], project_id)
    await connection.execute(SQL["lock_project"], project_id)
    project = await get(tx, project_id)
    if await connection.fetchval(SQL["project_has_open_jobs"], project_id):
        raise Conflict(
            f"Project {project_id} has running work. Cancel its sessions first.",
            reason="work_under_way",
        )
    paths = await discard_files_in(
        tx.engine, tx.account.tenant_id, connection, project_id, project.slug
    )
    tx.after_commit[project_id] = functools.partial(
        delete_files, tx.engine, tx.account.tenant_id, paths
    )
    await connection.execute(SQL["delete_project"], project_id)


async def list_files(tx: Transaction, project_id: UUID, slug: str) -> list[ProjectFile]:
    """List the files that we wrote for a project."""
    rows = await tx.connection.fetch(SQL["list_files_of_project"], project_id, f"{slug}/")
    return [ProjectFile(path=row["path"], sha256=row["sha256"]) for row in rows]
