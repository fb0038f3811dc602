"""Load what one job needs, in one transaction. Reads only; decides nothing.

A plan job gets the documents and the plan jobs of its iteration. A turn gets the newest text of
each of its inputs: a version that a person edited replaces the model's own. A later turn of a
document gets its earlier turns and the prompt of the first one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

from dialectic.core.documents.file_paths import ResourceKind, StageFolder
from dialectic.core.documents.stitching import Chunk
from dialectic.core.job import (
    AnyPayload,
    CombinePayload,
    ExecutePayload,
    Job,
    MergePayload,
    PlanPayload,
    derive_contribution_id,
)
from dialectic.core.process.check import build_process
from dialectic.core.process.definition import Angle, Process, Stage
from dialectic.core.seats import describe_seat, find_angle, list_active, list_makers
from dialectic.core.slug import short_id
from dialectic.db.pool import Connection
from dialectic.db.queries import build_row, list_rows
from dialectic.db.tables import contributions
from dialectic.db.tables.records import SQL, Owner
from dialectic.engine import Engine
from dialectic.errors import NotFound
from dialectic.pipeline.outline import (
    Outline,
    StageSeats,
    build_outline,
    count_documents,
    seat_stages,
    select_partial,
)
from dialectic.pipeline.plan import Progress, Situation, list_missing, read_inputs
from dialectic.pipeline.strategies import Document


@dataclass(frozen=True, slots=True)
class Text(Document):
    """A document that a turn reads; `id` is that of its first version."""

    version_id: UUID
    path: str
    content: str


@dataclass(frozen=True, slots=True)
class Feedback:
    """What a person said about a stage, or about one document of it (the target)."""

    stage: str
    iteration: int
    content: str
    rating: int | None
    target: Target | None


@dataclass(frozen=True, slots=True)
class Ruling:
    """What a person decided about a claim or a dissent of a stage."""

    stage: str
    iteration: int
    subject: str
    verdict: str
    upheld: str | None
    content: str


@dataclass(frozen=True, slots=True)
class Target:
    """The document that a person's feedback is about."""

    type: str
    origin: int
    model_index: int
    is_origin: bool


@dataclass(frozen=True, slots=True)
class GivenText:
    """A text that a person gave to the project, and the type of resource it is."""

    type: str
    content: str


@dataclass(frozen=True, slots=True)
class SeatedStage:
    """Who takes part in a stage of the iteration, and who was lost in it."""

    stage_slug: str
    seats: tuple[int, ...]
    lost_seats: tuple[int, ...]
    planned_units: int


@dataclass(frozen=True, slots=True)
class JobContext:
    """The session's shared data, and what one job reads."""

    session_id: UUID
    iteration: int
    project_id: UUID
    project_slug: str
    project_name: str
    # Whether this is the oldest session of the project: its plan files get no name prefix.
    is_first: bool
    user_id: UUID
    wallet_id: UUID
    request: str
    domain: str
    # What the project's owner adds to every prompt.
    overlay: str
    models: tuple[str, ...]
    model_ids: tuple[UUID, ...]
    lead_model_index: int
    process: Process
    outline: Outline
    is_autopilot: bool
    continues: bool
    max_output_tokens: int | None
    max_retries: int
    # Stages of this iteration that have a seed prompt, and those that have not begun.
    seeded: frozenset[str]
    waiting: frozenset[str]
    feedback: tuple[Feedback, ...]
    context: tuple[GivenText, ...]
    # What people decided in this iteration and all before it, oldest first.
    rulings: tuple[Ruling, ...] = ()
    # Whether a call waits for money rather than accept a shorter answer.
    full_answers_only: bool = False
    # Whether all calls above the automatic spending limit are approved.
    approve_spend: bool = False
    # The seats that have left; the number of seats at the start; the stages that were created.
    dropped_seats: tuple[int, ...] = ()
    seats_first: int | None = None
    seated: tuple[SeatedStage, ...] = ()
    situation: Situation | None = None
    texts: Mapping[UUID, Text] = field(default_factory=dict)
    # The earlier turns of the document that the job writes.
    chunks: tuple[Chunk, ...] = ()

    @property
    def owner(self) -> Owner:
        return Owner(self.user_id, self.project_id)

    @property
    def active_seats(self) -> tuple[int, ...]:
        """The numbers of the seats that have not left."""
        return list_active(len(self.models), self.dropped_seats)

    def get_seats(self, stage_slug: str) -> tuple[int, ...]:
        """Get the seats of a stage: those it was created with, or those it would get now."""
        found = [stage.seats for stage in self.seated if stage.stage_slug == stage_slug]
        if found:
            return found[0]
        stage = self.process.load_stage(stage_slug)
        return list_makers(stage, self.active_seats, self.lead_model_index)

    def find_angle(self, seat: int) -> Angle | None:
        """Find the angle of a seat; None if it has none."""
        return find_angle(self.process.file, self.models, seat)

    def list_lost(self, stage: Stage) -> list[str]:
        """Describe the seats that were lost up to a stage, and the stages that lack them."""
        last, lacking = self.process.position(stage.slug), dict[int, list[str]]()
        for each in self.seated:
            if self.process.position(each.stage_slug) <= last:
                for seat in each.lost_seats:
                    lacking.setdefault(seat, []).append(each.stage_slug)
        return [
            f"{', '.join(stages)}: {describe_seat(seat, self.models[seat - 1])} failed or left"
            for seat, stages in sorted(lacking.items())
        ]

    def count_calls(self, stage_slug: str) -> Counter[str]:
        """Count the documents that a stage will have, by type, now that seats may be lost."""
        return count_documents(
            self.process,
            stage_slug,
            models=len(self.models),
            seats=self.stage_seats,
            lost=self.lost_seats,
        )

    def has_other_total(self, stage_slug: str) -> bool:
        """Tell whether a stage was created with another number of documents than it will have."""
        planned = {stage.stage_slug: stage.planned_units for stage in self.seated}
        return planned.get(stage_slug) not in (None, self.count_calls(stage_slug).total())

    @property
    def stage_seats(self) -> StageSeats:
        """The seats of each stage."""
        return tuple((stage.slug, self.get_seats(stage.slug)) for stage in self.process.order)

    @property
    def lost_seats(self) -> StageSeats:
        """The lost seats of each stage that has any."""
        return tuple((each.stage_slug, each.lost_seats) for each in self.seated if each.lost_seats)

    def build_folder(self, stage: Stage) -> StageFolder:
        """Build the folder of a stage's files."""
        return StageFolder(
            project=self.project_slug,
            session=short_id(self.session_id),
            iteration=self.iteration,
            position=self.process.position(stage.slug),
            stage=stage.slug,
        )


async def load_job_context(engine: Engine, job: Job, payload: AnyPayload) -> JobContext:
    """Load everything that a claimed job needs."""

    async def work(connection: Connection) -> JobContext:
        context = await load_session_context(
            engine, connection, job.session_id, job.iteration_number
        )
        is_turn = isinstance(payload, ExecutePayload | MergePayload)
        is_turn = is_turn or not context.process.load_stage(job.stage_slug).steps
        # A first attempt has no saved turns of its own.
        if is_turn and (job.attempt > 1 or payload.continues):
            said = await contributions.read_chunks(connection, derive_contribution_id(job.id))
            begun = await contributions.read_begun(connection, payload.continues)
            if begun or said:
                return replace(context, chunks=(*begun, *said))
        if isinstance(payload, PlanPayload):
            return await list_siblings(connection, context, job.stage_slug, payload.model_index)
        ids = [given.contribution_id for given in payload.inputs]
        if isinstance(payload, MergePayload | CombinePayload):
            found = await read_versions(connection, context.session_id, ids)
            _require(context, ids, texts := {text.version_id: text for text in found})
            return replace(context, texts=texts)
        return await read_texts(connection, context, ids)

    return await engine.db.transact(job.tenant_id, work)


async def list_siblings(
    connection: Connection, context: JobContext, stage_slug: str, model_index: int
) -> JobContext:
    """Load the planning situation, and the inputs of a stage that can start as one call."""
    stage = context.process.load_stage(stage_slug)
    if not stage.steps and not stage.list_sources():
        ids = await list_outcomes(connection, context) if context.iteration > 1 else []
        return await read_texts(connection, context, ids)
    situation = await read_situation(connection, context)
    context = replace(context, situation=situation)
    if list_missing(stage, stage.inputs_required, model_index, situation):
        return context
    found = read_inputs(stage.inputs_required, stage, model_index, situation)
    return await read_texts(connection, context, [d.id for kind in found for d in kind.documents])


async def load_session_context(
    engine: Engine, connection: Connection, session_id: UUID, iteration: int
) -> JobContext:
    """Load the data that all jobs of an iteration share."""
    kinds = [kind.value for kind in ResourceKind]
    row = await connection.fetchrow(SQL["load_scene"], session_id, iteration, kinds)
    if row is None:
        raise NotFound(f"Session {session_id} does not exist.")
    process = await load_pinned(engine, connection, row["process_template_id"])
    models = len(row["models"])
    active = list_active(models, row["dropped_seats"])
    created = {stage["stage_slug"]: tuple(stage["seats"]) for stage in row["seated"]}
    seats = dict(seat_stages(process, active, row["lead_model_index"])) | created
    partial = select_partial(tuple(seats.items()), models)
    shared = {
        "iteration": iteration,
        "process": process,
        "outline": build_outline(process, models=models, seats=partial),
    }
    return build_row(JobContext, {**row, **shared})


async def load_pinned(engine: Engine, connection: Connection, process_id: UUID) -> Process:
    """Load a pinned process. A version never changes, so it is cached after the first read.

    Sessions that pin the same content under different ids share one object.
    """
    if process_id not in engine.processes:
        row = await connection.fetchrow(SQL["load_process"], process_id)
        assert row is not None, "a session's process is never deleted"
        known = {process.content_hash: process for process in engine.processes.values()}
        engine.processes[process_id] = known.get(row["content_hash"]) or build_process(
            row["definition"]["file"],
            row["definition"]["prompts"],
            list(row["definition"]["overlays"].values()),
            place=f"pinned process {process_id}",
        )
    return engine.processes[process_id]


async def read_situation(connection: Connection, context: JobContext) -> Situation:
    """Read the documents and plan jobs of an iteration, in one snapshot."""
    row = await connection.fetchrow(SQL["read_situation"], context.session_id, context.iteration)
    assert row is not None, "the query returns one row of lists"
    progress = [build_row(Progress, each) for each in row["progress"]]
    return Situation(
        documents=[build_row(Document, each) for each in row["documents"]],
        progress=[*progress, *_list_imported(context, progress, row["over"])],
        models=context.models,
        outline=context.outline,
        seats={stage.slug: context.get_seats(stage.slug) for stage in context.process.order},
        writers={UUID(each["id"]): each["model_name"] for each in row["documents"]},
    )


def _list_imported(
    context: JobContext, progress: Sequence[Progress], over: Sequence[str]
) -> Iterator[Progress]:
    """List the ended stages of an imported project: they have stage runs, but no jobs."""
    planned = {each.stage_slug for each in progress}
    for stage_slug in over:
        if stage_slug not in planned:
            for model_index in context.get_seats(stage_slug):
                yield Progress(stage_slug, model_index, current_step=1, has_ended=True)


async def list_outcomes(connection: Connection, context: JobContext) -> list[UUID]:
    """List the final documents of the previous iteration."""
    rows = await connection.fetch(SQL["list_outcomes"], context.session_id, context.iteration - 1)
    return [row["id"] for row in rows]


async def read_texts(
    connection: Connection, context: JobContext, ids: Collection[UUID]
) -> JobContext:
    """Read the newest text of each of these documents."""
    if not ids:
        return context
    found = await list_rows(connection, Text, SQL["read_documents"], context.session_id, list(ids))
    _require(context, ids, texts := {text.id: text for text in found})
    return replace(context, texts=texts)


def _require(context: JobContext, ids: Collection[UUID], texts: Mapping[UUID, Text]) -> None:
    if missing := [str(wanted) for wanted in ids if wanted not in texts]:
        raise NotFound(
            f"Document(s) {', '.join(missing)} of session {context.session_id} do not exist."
        )


async def read_versions(
    connection: Connection, session_id: UUID, ids: Collection[UUID]
) -> list[Text]:
    """Read exactly these versions of documents, in this order; missing ones are left out."""
    found = await list_rows(connection, Text, SQL["read_versions"], session_id, list(ids))
    texts = {text.version_id: text for text in found}
    return [texts[wanted] for wanted in ids if wanted in texts]
