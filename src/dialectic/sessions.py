"""What a person asks of a session: create, generate, go on, iterate, retry, pause, cancel, look.

Each action is one transaction. Knows nothing of how a job is carried out; the jobs it makes find
their way to a worker by themselves. What is done to single contributions stands in `contributions`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

import asyncpg

from dialectic.domain.job import JobStatus, PlanPayload, derive_root_job_id
from dialectic.domain.path import build_path
from dialectic.domain.place import GeneralResource, InitialPrompt, ResourceKind
from dialectic.domain.process import Process, Stage
from dialectic.domain.slug import disambiguate, slugify_name
from dialectic.domain.text import clean_text
from dialectic.engine import Engine
from dialectic.errors import Conflict, UsageError
from dialectic.pipeline.look import Scene, load_scene, look_around
from dialectic.pipeline.seed import build_seed_prompt
from dialectic.publish import publish_project
from dialectic.store import jobs, records
from dialectic.store.database import Connection
from dialectic.store.records import SQL, Account, NewResource, Owner

DERIVED_NAME_CHARS_MAX = 60
NAME_CHARS_MAX = 500
TOKENS_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Given:
    """Material that a person gives to a project beside the prompt."""

    kind: ResourceKind
    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What a person wants argued, by whom, and how far."""

    prompt: str
    models: list[str]
    process: Process
    name: str = ""
    domain: str = "General"
    until: str = ""
    # The model whose last documents are the agreed ones; the first one if none is named.
    lead: str = ""
    # Whether stages follow each other by themselves, or wait for a person between them.
    is_autopilot: bool = True
    continue_until_complete: bool = True
    max_output_tokens: int | None = None
    resources: tuple[Given, ...] = ()


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


def check_name(name: str) -> str:
    """Clean a project's name and refuse one that is too long; one that is empty is derived."""
    text = " ".join(clean_text(name)[0].split())
    if len(text) > NAME_CHARS_MAX:
        raise UsageError(
            f"The project's name has {len(text):,} characters; {NAME_CHARS_MAX} are the most. "
            "Shorten --name."
        )
    return text


def check_ask(process: Process, *, until: str, domain: str) -> None:
    """Refuse a stage or a domain that the process does not know."""
    process.load_stage(until or process.order[-1].slug)
    if domain not in process.file.domains:
        known = ", ".join(process.file.domains)
        raise UsageError(
            f"Process {process.name!r} has no domain {domain!r}. It has: {known}. "
            "Choose one with --domain."
        )


def find_lead(models: Sequence[str], lead: str) -> int:
    """Find the lead among the models, from 1."""
    if not lead:
        return 1
    if lead not in models:
        raise UsageError(f"The lead {lead!r} is not among the models: {', '.join(models)}.")
    return list(models).index(lead) + 1


async def create_session(engine: Engine, account: Account, ask: Ask) -> Begun:
    """Create a project with its first session; the prompt becomes a file and a resource."""
    prompt, notes = check_prompt(ask.prompt, bytes_max=engine.settings.max_prompt_bytes)
    check_ask(ask.process, until=ask.until, domain=ask.domain)
    lead = find_lead(ask.models, ask.lead)
    cards = [engine.catalog.load_card(name) for name in ask.models]
    until = ask.until or ask.process.order[-1].slug
    first = ask.process.order[0].slug
    project_id, session_id = uuid4(), uuid4()
    name = check_name(ask.name) or derive_name(prompt)

    async def work(connection: Connection) -> Begun:
        if await connection.fetchval(SQL["session_exists"], session_id):
            slug = await connection.fetchval(SQL["find_project_slug"], project_id)
            return Begun(project_id, session_id, slug, notes)
        slug = await _choose_slug(connection, account, name, project_id)
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
            until,
            f"pending_{first}",
            ask.is_autopilot,
            ask.continue_until_complete,
            ask.max_output_tokens,
            engine.settings.max_retries,
        )
        return Begun(project_id, session_id, slug, notes)

    begun = await engine.db.transact(account.tenant_id, work)
    await publish_project(engine, account.tenant_id, project_id)
    return begun


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


def derive_name(prompt: str) -> str:
    """Name a project by the first words of its prompt."""
    first_line = next(line for line in prompt.splitlines() if line.strip())
    words = " ".join(first_line.strip("#*- \t").split()) or "project"
    if len(words) <= DERIVED_NAME_CHARS_MAX:
        return words
    return words[:DERIVED_NAME_CHARS_MAX].rsplit(" ", 1)[0]


async def _choose_slug(
    connection: Connection, account: Account, name: str, project_id: UUID
) -> str:
    slug = slugify_name(name, fallback="project")
    await connection.execute(SQL["lock_slug"], account.tenant_id, slug)
    if await connection.fetchval(SQL["slug_is_taken"], slug):
        return disambiguate(slug, project_id)
    return slug


# -- stages ---------------------------------------------------------------------------------------


async def generate(engine: Engine, account: Account, session_id: UUID) -> list[UUID]:
    """Start the session's current stage: one plan job per model. Asking twice starts it once.

    On autopilot the stages after it are made too, and wait for what they read.
    """

    async def work(connection: Connection) -> list[UUID]:
        session = await _lock(connection, session_id)
        _refuse_standing(session)
        return await _begin_stages(engine, connection, account, session)

    job_ids = await engine.db.transact(account.tenant_id, work)
    await _publish(engine, account, session_id)
    return job_ids


async def start_next(engine: Engine, account: Account, session_id: UUID) -> str:
    """Submit what a person said about the current stage, and start the next one."""

    async def work(connection: Connection) -> str:
        session = await _lock(connection, session_id)
        _refuse_standing(session)
        stage_slug, status = session["current_stage_slug"], session["status"]
        if status == "iteration_complete":
            raise Conflict(
                f"Session {session_id} has come to the end of its process. "
                "`dialectic iterate` begins another iteration."
            )
        if status != f"{stage_slug}_generation_complete":
            raise Conflict(
                f"Session {session_id} is {status}: the next stage starts when stage "
                f"{stage_slug!r} is complete. {_advise(status)}"
            )
        scene = await load_scene(engine, connection, session_id, session["iteration_count"])
        following = scene.process.find_next(stage_slug)
        assert following is not None, "the last stage ends an iteration"
        until = session["until_stage_slug"]
        if scene.process.position(until) < scene.process.position(following.slug):
            until = following.slug
        await _set_stage(connection, session, following, until, session["iteration_count"])
        session = await records.load_session(connection, session_id)
        await _begin_stages(engine, connection, account, session)
        return following.slug

    slug = await engine.db.transact(account.tenant_id, work)
    await _publish(engine, account, session_id)
    return slug


async def iterate(engine: Engine, account: Account, session_id: UUID) -> int:
    """Begin the next iteration, with the last outputs and all feedback; return its number."""

    async def work(connection: Connection) -> int:
        session = await _lock(connection, session_id)
        _refuse_standing(session)
        status = session["status"]
        if status != "iteration_complete" and not status.endswith("_generation_complete"):
            raise Conflict(
                f"Session {session_id} is {status}: an iteration begins when the one before it "
                f"has ended. {_advise(status)}"
            )
        iteration: int = session["iteration_count"] + 1
        scene = await load_scene(engine, connection, session_id, iteration)
        first = scene.process.order[0]
        await _set_stage(connection, session, first, session["until_stage_slug"], iteration)
        session = await records.load_session(connection, session_id)
        await _begin_stages(engine, connection, account, session)
        return iteration

    iteration = await engine.db.transact(account.tenant_id, work)
    await _publish(engine, account, session_id)
    return iteration


async def retry(engine: Engine, account: Account, session_id: UUID) -> list[str]:
    """Run again only what failed, and what could not run because of it; return the stages."""

    async def work(connection: Connection) -> list[str]:
        session = await _lock(connection, session_id)
        _refuse_standing(session)
        iteration, stage_slug = session["iteration_count"], session["current_stage_slug"]
        if session["status"] != f"{stage_slug}_generation_failed":
            raise Conflict(
                f"Session {session_id} is {session['status']}: nothing failed that could be run "
                "again."
            )
        await connection.execute(SQL["reopen_stages"], session_id, iteration, stage_slug)
        await connection.execute(SQL["set_session_status"], session_id, f"generating_{stage_slug}")
        return await jobs.rerun_failed(connection, session_id, iteration)

    return await engine.db.transact(account.tenant_id, work)


async def _lock(connection: Connection, session_id: UUID) -> asyncpg.Record:
    await connection.fetchval(SQL["lock_session"], session_id)
    return await records.load_session(connection, session_id)


def _refuse_standing(session: asyncpg.Record) -> None:
    if session["status"] == "cancelled":
        raise Conflict(f"Session {session['id']} is cancelled and stays so. Start a new one.")
    if session["status"] == "paused":
        raise Conflict(f"Session {session['id']} is paused; resume it first.")


def _advise(status: str) -> str:
    if status.endswith("_generation_failed"):
        return "`dialectic retry` runs again what failed."
    return "`dialectic watch` follows it."


async def _set_stage(
    connection: Connection, session: asyncpg.Record, stage: Stage, until: str, iteration: int
) -> None:
    status = f"pending_{stage.slug}"
    await connection.execute(
        SQL["begin_stage"], session["id"], stage.slug, until, iteration, status
    )


async def _begin_stages(
    engine: Engine, connection: Connection, account: Account, session: asyncpg.Record
) -> list[UUID]:
    """Make the stage that is due and, on autopilot, those that follow by themselves."""
    scene = await load_scene(engine, connection, session["id"], session["iteration_count"])
    process, stage_slug = scene.process, session["current_stage_slug"]
    first = process.load_stage(stage_slug)
    last = process.load_stage(session["until_stage_slug"]) if scene.is_autopilot else first
    stages = process.order[process.position(first.slug) - 1 : process.position(last.slug)]
    roots = {stage.slug: _plan_roots(scene, stage, is_due=stage is first) for stage in stages}
    for stage in stages:
        is_new = await _insert_stage_run(connection, account, scene, stage, is_due=stage is first)
        if not is_new:
            break
        if stage is first:
            await connection.execute(
                SQL["set_session_status"], scene.session_id, f"generating_{stage.slug}"
            )
            around = await look_around(connection, scene, stage.slug, model_index=1)
            seed = build_seed_prompt(around, stage)
            await records.put_resources(connection, account.tenant_id, scene.owner, [seed])
        await jobs.insert_jobs(connection, account.tenant_id, roots[stage.slug])
    return [job.id for job in roots[first.slug]]


async def _insert_stage_run(
    connection: Connection, account: Account, scene: Scene, stage: Stage, *, is_due: bool
) -> bool:
    planned = scene.outline.count_units(stage.slug)
    is_new = await connection.fetchval(
        SQL["insert_stage_run"],
        account.tenant_id,
        scene.session_id,
        scene.iteration,
        stage.slug,
        scene.process.position(stage.slug),
        stage is scene.process.order[-1],
        planned,
        "generating" if is_due else "waiting",
    )
    if is_new is None:
        return False
    progress = {
        "sessionId": str(scene.session_id),
        "stageSlug": stage.slug,
        "iterationNumber": scene.iteration,
        "current_step": 0,
        "total_steps": planned,
        "message": f"0 of {planned} documents",
    }
    await records.announce(connection, scene.session_id, "dialectic_progress_update", progress)
    return True


def _plan_roots(scene: Scene, stage: Stage, *, is_due: bool) -> list[jobs.NewJob]:
    """Plan one job per model. One whose inputs others still have to make waits for the first."""
    awaits = () if is_due else stage.list_awaited()
    slots: dict[str, int] = {}
    planned = []
    pairs = zip(scene.model_ids, scene.models, strict=True)
    for index, (model_id, model_name) in enumerate(pairs, start=1):
        # Counted by slug, not by name: two models whose names slug alike get different files.
        slug = slugify_name(model_name, fallback="model")
        slots[slug] = slots.get(slug, 0) + 1
        planned.append(
            jobs.NewJob(
                id=derive_root_job_id(
                    scene.session_id,
                    iteration=scene.iteration,
                    stage_slug=stage.slug,
                    model_index=index,
                ),
                session_id=scene.session_id,
                stage_slug=stage.slug,
                iteration_number=scene.iteration,
                payload=PlanPayload(
                    model_id=model_id,
                    model_name=model_name,
                    model_index=index,
                    ordinal=slots[slug],
                    slot=slots[slug],
                    output_type=stage.output_type,
                ),
                max_retries=scene.max_retries,
                total_steps=max(1, len(stage.steps)),
                status=JobStatus.WAITING_FOR_PREREQUISITE if awaits else JobStatus.PENDING,
                status_reason=jobs.describe_awaited(awaits) if awaits else None,
                awaits=awaits,
            )
        )
    return planned


async def _publish(engine: Engine, account: Account, session_id: UUID) -> None:
    async def find_project(connection: Connection) -> UUID:
        project_id: UUID = (await records.load_session(connection, session_id))["project_id"]
        return project_id

    project_id = await engine.db.transact(account.tenant_id, find_project)
    await publish_project(engine, account.tenant_id, project_id)


# -- standing still -------------------------------------------------------------------------------


async def pause(engine: Engine, account: Account, session_id: UUID) -> bool:
    """Start nothing more of this session; what runs finishes its turn.

    Say whether that is new: it may be paused already, also by a try whose answer was lost.
    """

    async def work(connection: Connection) -> bool:
        session = await _lock(connection, session_id)
        if session["status"] == "paused":
            return False
        if session["status"] == "cancelled":
            raise Conflict(f"Session {session_id} is cancelled and stays so. Start a new one.")
        await _refuse_finished(connection, session, "paused")
        await connection.fetchval(SQL["pause_session"], session_id)
        await jobs.pause_session(connection, session_id)
        await records.announce(
            connection, session_id, "session_paused", {"sessionId": str(session_id)}
        )
        return True

    return await engine.db.transact(account.tenant_id, work)


async def resume(engine: Engine, account: Account, session_id: UUID) -> None:
    """Let everything that is paused go on; harmless when nothing is."""

    async def work(connection: Connection) -> None:
        session = await records.load_session(connection, session_id)
        if session["status"] == "cancelled":
            raise Conflict(f"Session {session_id} is cancelled and stays so. Start a new one.")
        await connection.fetchval(SQL["resume_session"], session_id)
        await jobs.resume_session(connection, session_id)

    await engine.db.transact(account.tenant_id, work)


async def cancel(engine: Engine, account: Account, session_id: UUID) -> bool:
    """End a session for good; what is written stays. Say whether that is new."""

    async def work(connection: Connection) -> bool:
        session = await _lock(connection, session_id)
        if session["status"] == "cancelled":
            return False
        await _refuse_finished(connection, session, "cancelled")
        await connection.fetchval(SQL["cancel_session"], session_id)
        await jobs.cancel_session(connection, session_id)
        await connection.execute(SQL["cancel_stage_runs"], session_id)
        await records.announce(
            connection, session_id, "session_cancelled", {"sessionId": str(session_id)}
        )
        return True

    return await engine.db.transact(account.tenant_id, work)


async def _refuse_finished(connection: Connection, session: asyncpg.Record, word: str) -> None:
    """Refuse to change the end of a session that has come to one and has nothing left to do."""
    stage_slug, status = session["current_stage_slug"], session["status"]
    is_complete = status == "iteration_complete" or (
        status == f"{stage_slug}_generation_complete" and stage_slug == session["until_stage_slug"]
    )
    if not is_complete and status != f"{stage_slug}_generation_failed":
        return
    if await connection.fetchval(SQL["session_has_open_jobs"], session["id"]):
        return
    end = "is complete" if is_complete else "has failed"
    raise Conflict(f"Session {session['id']} {end} already: there is nothing to be {word}.")


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
