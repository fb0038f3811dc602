"""Gather what one job needs: its stage's words and its own inputs. Reads only; decides nothing."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from dialectic.domain.job import ExecutePayload, Job, PlanPayload
from dialectic.domain.place import ContributionName, StageFolder
from dialectic.domain.process import Process, build_process
from dialectic.domain.slug import short_id, slugify_name
from dialectic.engine import Engine
from dialectic.errors import NotFound
from dialectic.store.database import Connection
from dialectic.store.records import SQL


@dataclass(frozen=True, slots=True)
class Material:
    """Everything a turn is made of, before it becomes a request."""

    payload: PlanPayload | ExecutePayload
    project_id: UUID
    folder: StageFolder
    name: ContributionName
    system: str
    prompt: str
    prompt_template_name: str
    output_type: str
    max_output_tokens: int | None


async def gather(engine: Engine, job: Job, payload: PlanPayload | ExecutePayload) -> Material:
    """Load the stage as the session pinned it and the prompt that was rendered for it."""

    async def look(connection: Connection) -> tuple[dict[str, object], Process]:
        row = await connection.fetchrow(
            SQL["load_turn"], job.session_id, job.stage_slug, job.iteration_number
        )
        if row is None:
            raise NotFound(
                f"Session {job.session_id} has no seed prompt for stage {job.stage_slug!r}, "
                f"iteration {job.iteration_number}."
            )
        return dict(row), await load_pinned(engine, connection, row["process_template_id"])

    row, process = await engine.db.transact(job.tenant_id, look)
    stage = process.load_stage(job.stage_slug)
    folder = StageFolder(
        project=str(row["project_slug"]),
        session=short_id(job.session_id),
        iteration=job.iteration_number,
        position=process.position(stage.slug),
        stage=stage.slug,
    )
    limit = row["max_output_tokens"]
    return Material(
        payload=payload,
        project_id=UUID(str(row["project_id"])),
        folder=folder,
        name=ContributionName(
            model=slugify_name(payload.model_name, fallback="model"),
            n=payload.ordinal,
            contribution_type=stage.output_type,
        ),
        system=process.prompts[stage.system_prompt_name],
        prompt=str(row["seed_prompt"]),
        prompt_template_name=stage.prompt_template_name,
        output_type=stage.output_type,
        max_output_tokens=limit if isinstance(limit, int) else None,
    )


async def load_pinned(engine: Engine, connection: Connection, process_id: UUID) -> Process:
    """Load a process as it was pinned. A version never changes, so it is read once."""
    if process_id not in engine.processes:
        definition = await connection.fetchval(SQL["load_process"], process_id)
        engine.processes[process_id] = build_process(
            definition["file"], definition["prompts"], place=f"pinned process {process_id}"
        )
    return engine.processes[process_id]
