"""A project with its first session, made in one commit: the prompt, and what was given beside it.

Knows nothing of what becomes of a session; no stage starts here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID, uuid4

from dialectic.domain.ask import Ask, check_ask, check_name, check_prompt, derive_name, find_lead
from dialectic.domain.path import build_path
from dialectic.domain.place import GeneralResource, InitialPrompt
from dialectic.domain.slug import slugify_name
from dialectic.domain.text import clean_text
from dialectic.engine import Engine
from dialectic.ledger import wallets
from dialectic.publish import publish_project
from dialectic.store import records
from dialectic.store.database import Connection
from dialectic.store.records import SQL, Account, NewResource, Owner
from dialectic.store.slugs import choose_slug


@dataclass(frozen=True, slots=True)
class Begun:
    """A session that has been created."""

    project_id: UUID
    session_id: UUID
    project_slug: str
    notes: list[str] = field(default_factory=list)


async def create_session(engine: Engine, account: Account, ask: Ask) -> Begun:
    """Create a project with its first session; the prompt becomes a file and a resource."""
    prompt, notes = check_prompt(ask.prompt, bytes_max=engine.settings.max_prompt_bytes)
    check_ask(ask.process, until=ask.until, domain=ask.domain)
    find_lead(ask.models, ask.lead)  # refused before anything is written
    cards = [engine.catalog.load_card(name) for name in ask.models]
    project_id, session_id = uuid4(), uuid4()
    name = check_name(ask.name) or derive_name(prompt)

    async def work(connection: Connection) -> Begun:
        if await connection.fetchval(SQL["session_exists"], session_id):
            slug = await connection.fetchval(SQL["find_project_slug"], project_id)
            return Begun(project_id, session_id, slug, notes)
        wanted = slugify_name(name, fallback="project")
        slug = await choose_slug(connection, account.tenant_id, wanted, project_id)
        process_id = await records.pin_process(connection, account.tenant_id, ask.process)
        domain_id = await records.keep_domain(connection, account.tenant_id, ask.domain)
        model_ids = [await records.keep_model(connection, account.tenant_id, c) for c in cards]
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
        await records.put_resources(
            connection,
            account.tenant_id,
            Owner(account.user_id, project_id),
            _build_given(ask, slug, name, prompt, notes),
        )
        await _insert_session(
            engine, connection, account, ask, (project_id, session_id, process_id), model_ids
        )
        return Begun(project_id, session_id, slug, notes)

    begun = await engine.db.transact(account.tenant_id, work)
    await publish_project(engine, account.tenant_id, project_id)
    return begun


async def _insert_session(
    engine: Engine,
    connection: Connection,
    account: Account,
    ask: Ask,
    ids: tuple[UUID, UUID, UUID],
    model_ids: list[UUID],
) -> None:
    """Insert the session of a project, by a process that is pinned, with its budget."""
    project_id, session_id, process_id = ids
    first = ask.process.order[0].slug
    await connection.execute(
        SQL["insert_session"],
        account.tenant_id,
        session_id,
        project_id,
        account.user_id,
        process_id,
        account.wallet_id,
        model_ids,
        find_lead(ask.models, ask.lead),
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


def _build_given(
    ask: Ask, slug: str, name: str, prompt: str, notes: list[str]
) -> list[NewResource]:
    """Build the prompt and whatever else was given, as resources of the project."""
    place = InitialPrompt(slug, slugify_name(name, fallback="prompt"))
    found = [
        NewResource(
            resource_type="initial_user_prompt",
            path=build_path(place),
            text=prompt,
            notes=tuple(notes),
        )
    ]
    taken: set[str] = set()
    for number, given in enumerate(ask.resources, start=1):
        text, said = clean_text(given.text)
        stem = slugify_name(given.name, fallback="resource")
        path = build_path(GeneralResource(slug, given.kind, stem))
        if path in taken:
            path = build_path(GeneralResource(slug, given.kind, f"{stem[:58]}-{number}"))
        taken.add(path)
        found.append(
            NewResource(resource_type=given.kind.value, path=path, text=text, notes=tuple(said))
        )
    return found
