"""What a person asks of the engine: create, generate, pause, resume, cancel, look.

Each action is one transaction. Knows nothing of how a job is carried out; the jobs it makes find
their way to a worker by themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

import asyncpg

from dialectic.domain.job import PlanPayload, derive_root_job_id
from dialectic.domain.path import build_path
from dialectic.domain.place import InitialPrompt, SeedPrompt, StageFolder
from dialectic.domain.process import Process
from dialectic.domain.prompt import build_block, render_template
from dialectic.domain.slug import disambiguate, short_id, slugify_name
from dialectic.domain.text import clean_text
from dialectic.engine import Engine
from dialectic.errors import Conflict, UsageError
from dialectic.publish import publish_project
from dialectic.store import jobs, records
from dialectic.store.database import Connection
from dialectic.store.records import SQL, Account

NAME_CHARS_MAX = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What a person wants argued, by whom, and how far."""

    prompt: str
    models: list[str]
    process: Process
    name: str = ""
    domain: str = "General"
    until: str = ""
    continue_until_complete: bool = True
    max_output_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Begun:
    """A session that has been created."""

    project_id: UUID
    session_id: UUID
    project_slug: str
    notes: list[str] = field(default_factory=list)


def check_prompt(prompt: str, *, bytes_max: int) -> tuple[str, list[str]]:
    """Clean a prompt and refuse one that is empty or too long, before anything else is done."""
    size = len(prompt.encode("utf-8", errors="replace"))
    if size > bytes_max:
        raise UsageError(
            f"The prompt has {size:,} bytes; MAX_PROMPT_BYTES allows {bytes_max:,}. "
            "Shorten it, or raise DIALECTIC_MAX_PROMPT_BYTES."
        )
    text, notes = clean_text(prompt)
    if not text.strip():
        raise UsageError(
            "The prompt is empty. Give it as an argument, with --file, or on standard input as `-`."
        )
    return text, notes


async def create_session(engine: Engine, account: Account, ask: Ask) -> Begun:
    """Create a project with its first session; the prompt becomes a file and a resource."""
    prompt, notes = check_prompt(ask.prompt, bytes_max=engine.settings.max_prompt_bytes)
    cards = [engine.catalog.load_card(name) for name in ask.models]
    until = ask.process.load_stage(ask.until or ask.process.order[-1].slug)
    project_id, session_id = uuid4(), uuid4()
    name = ask.name.strip() or derive_name(prompt)

    async def work(connection: Connection) -> Begun:
        if await connection.fetchval(SQL["session_exists"], session_id):
            slug = await connection.fetchval(SQL["find_project_slug"], project_id)
            return Begun(project_id, session_id, slug, notes)
        slug = await _choose_slug(connection, account, name, project_id)
        domain_id = await records.keep_domain(connection, account.tenant_id, ask.domain)
        process_id = await records.pin_process(connection, account.tenant_id, ask.process)
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
        place = InitialPrompt(slug, slugify_name(name, fallback="prompt"))
        original = records.NewResource(
            resource_type="initial_user_prompt",
            path=build_path(place),
            text=prompt,
            notes=tuple(notes),
        )
        await records.insert_resource(connection, account, project_id, original)
        await connection.execute(
            SQL["insert_session"],
            account.tenant_id,
            session_id,
            project_id,
            account.user_id,
            process_id,
            account.wallet_id,
            model_ids,
            ask.process.order[0].slug,
            until.slug,
            f"pending_{ask.process.order[0].slug}",
            True,
            ask.continue_until_complete,
            ask.max_output_tokens,
            engine.settings.max_retries,
        )
        await _write_seed_prompt(connection, account, session_id, ask, prompt, (project_id, slug))
        return Begun(project_id, session_id, slug, notes)

    begun = await engine.db.transact(account.tenant_id, work)
    await publish_project(engine, account.tenant_id, project_id)
    return begun


def derive_name(prompt: str) -> str:
    """Name a project by the first words of its prompt."""
    first_line = next(line for line in prompt.splitlines() if line.strip())
    words = " ".join(first_line.strip("#*- \t").split()) or "project"
    if len(words) <= NAME_CHARS_MAX:
        return words
    return words[:NAME_CHARS_MAX].rsplit(" ", 1)[0]


async def _choose_slug(
    connection: Connection, account: Account, name: str, project_id: UUID
) -> str:
    slug = slugify_name(name, fallback="project")
    await connection.execute(SQL["lock_slug"], account.tenant_id, slug)
    if await connection.fetchval(SQL["slug_is_taken"], slug):
        return disambiguate(slug, project_id)
    return slug


async def _write_seed_prompt(
    connection: Connection,
    account: Account,
    session_id: UUID,
    ask: Ask,
    prompt: str,
    project: tuple[UUID, str],
) -> None:
    """Render the first stage's prompt; in a stage without steps it is all that is sent."""
    stage, (project_id, slug) = ask.process.order[0], project
    folder = StageFolder(
        slug, short_id(session_id), 1, ask.process.position(stage.slug), stage.slug
    )
    text = render_template(
        stage.prompt_template_name,
        ask.process.prompts[stage.prompt_template_name],
        {"domain": ask.domain, "request": build_block("Original request", prompt), "resources": []},
    )
    seed = records.NewResource(
        resource_type="seed_prompt",
        path=build_path(SeedPrompt(folder)),
        text=text,
        session_id=session_id,
        iteration_number=1,
        stage_slug=stage.slug,
    )
    await records.insert_resource(connection, account, project_id, seed)


async def generate(engine: Engine, account: Account, session_id: UUID) -> list[UUID]:
    """Start the session's current stage: one plan job per model. Asking twice starts it once."""

    async def work(connection: Connection) -> list[UUID]:
        session = await records.load_session(connection, session_id)
        stage_slug, iteration = session["current_stage_slug"], session["iteration_count"]
        if session["status"] in ("paused", "cancelled"):
            raise Conflict(f"Session {session_id} is {session['status']}; resume it first.")
        planned = _plan_roots(session)
        is_new = await connection.fetchval(
            SQL["insert_stage_run"],
            account.tenant_id,
            session_id,
            iteration,
            stage_slug,
            len(planned),
        )
        if is_new:
            await connection.execute(
                SQL["set_session_status"], session_id, f"generating_{stage_slug}"
            )
            progress = {
                "sessionId": str(session_id),
                "stageSlug": stage_slug,
                "iterationNumber": iteration,
                "current_step": 0,
                "total_steps": len(planned),
                "message": f"0 of {len(planned)} documents",
            }
            await records.announce(connection, session_id, "dialectic_progress_update", progress)
            for job in planned:
                await jobs.insert_job(connection, account.tenant_id, job)
        return [job.id for job in planned]

    return await engine.db.transact(account.tenant_id, work)


def _plan_roots(session: asyncpg.Record) -> list[jobs.NewJob]:
    stage_slug, iteration = session["current_stage_slug"], session["iteration_count"]
    seen: dict[str, int] = {}
    planned = []
    pairs = zip(session["selected_model_ids"], session["model_names"], strict=True)
    for index, (model_id, model_name) in enumerate(pairs, start=1):
        # Counted by slug, not by name: two models whose names slug alike get different files.
        slug = slugify_name(model_name, fallback="model")
        seen[slug] = seen.get(slug, 0) + 1
        planned.append(
            jobs.NewJob(
                id=derive_root_job_id(
                    session["id"], iteration=iteration, stage_slug=stage_slug, model_index=index
                ),
                session_id=session["id"],
                stage_slug=stage_slug,
                iteration_number=iteration,
                payload=PlanPayload(
                    model_id=model_id,
                    model_name=model_name,
                    model_index=index,
                    ordinal=seen[slug],
                ),
                max_retries=session["max_retries"],
            )
        )
    return planned


async def pause(engine: Engine, account: Account, session_id: UUID) -> None:
    """Start nothing more of this session; what runs finishes its turn."""

    async def work(connection: Connection) -> None:
        if await connection.fetchval(SQL["pause_session"], session_id) is None:
            raise Conflict(f"Session {session_id} is paused or cancelled already.")
        await jobs.pause_session(connection, session_id)
        await records.announce(
            connection, session_id, "session_paused", {"sessionId": str(session_id)}
        )

    await engine.db.transact(account.tenant_id, work)


async def resume(engine: Engine, account: Account, session_id: UUID) -> None:
    """Let everything that is paused go on; harmless when nothing is."""

    async def work(connection: Connection) -> None:
        session = await records.load_session(connection, session_id)
        if session["status"] == "cancelled":
            raise Conflict(f"Session {session_id} is cancelled and stays so. Start a new one.")
        await connection.fetchval(SQL["resume_session"], session_id)
        await jobs.resume_session(connection, session_id)

    await engine.db.transact(account.tenant_id, work)


async def cancel(engine: Engine, account: Account, session_id: UUID) -> None:
    """End a session for good; what is written stays."""

    async def work(connection: Connection) -> None:
        if await connection.fetchval(SQL["cancel_session"], session_id) is None:
            raise Conflict(f"Session {session_id} is cancelled already.")
        await jobs.cancel_session(connection, session_id)
        await connection.execute(SQL["cancel_stage_runs"], session_id)
        await records.announce(
            connection, session_id, "session_cancelled", {"sessionId": str(session_id)}
        )

    await engine.db.transact(account.tenant_id, work)


async def find(engine: Engine, account: Account, text: str) -> UUID:
    """Find a session by its id or the beginning of it."""

    async def work(connection: Connection) -> UUID:
        return await records.find_session_id(connection, text)

    return await engine.db.transact(account.tenant_id, work)


@dataclass(frozen=True, slots=True)
class Overview:
    """A session as a person looks at it."""

    session: dict[str, Any]
    stages: list[dict[str, Any]]
    jobs: list[dict[str, Any]]
    contributions: list[dict[str, Any]]


async def look(engine: Engine, account: Account, session_id: UUID) -> Overview:
    """Load everything about a session that a person may want to see at a glance."""

    async def work(connection: Connection) -> Overview:
        session = await records.load_session(connection, session_id)
        stages = await connection.fetch(SQL["list_stage_runs"], session_id)
        written = await connection.fetch(SQL["list_contributions"], session_id)
        return Overview(
            session=dict(session),
            stages=[dict(row) for row in stages],
            jobs=await jobs.list_of_session(connection, session_id),
            contributions=[dict(row) for row in written],
        )

    return await engine.db.transact(account.tenant_id, work)
