"""The parts of a board, built from rows: session, stages, jobs, documents, feedback, plan. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from dialectic.app.board_money import build_reason, sum_charges
from dialectic.app.seats import list_seats
from dialectic.contract.base import Author, show_dollars
from dialectic.contract.board import (
    BoardDocument,
    BoardFeedback,
    BoardJob,
    BoardProcess,
    BoardProject,
    BoardSeat,
    BoardSession,
    BoardStage,
    BoardStep,
    DocumentPart,
    JobKind,
    PlanStepFile,
    Ratings,
    Reason,
    Shortened,
    StageState,
)
from dialectic.core.documents.excerpt import build_excerpt
from dialectic.core.documents.offline_notice import is_offline
from dialectic.core.job_phase import derive_phase
from dialectic.core.job_status import ENDED, JobStatus
from dialectic.core.needs import FAILED
from dialectic.core.process.definition import Process, Stage, Step, Strategy
from dialectic.core.seats import list_active, list_makers
from dialectic.core.session_state import NeedCode, Phase, SessionState, list_allowed
from dialectic.errors import PlanError
from dialectic.pipeline.outline import StageSeats, count_documents

if TYPE_CHECKING:
    from dialectic.app.board import Scene
    from dialectic.db.tables.board import JobRow

PROMPT_CHARS_MAX = 240


def build_session(scene: Scene, blocked_by: NeedCode | None) -> BoardSession:
    """Build the session of a board."""
    row, extras = scene.session, scene.extras
    state = SessionState.from_row(row)
    return BoardSession(
        id=row["id"],
        project=BoardProject(
            id=row["project_id"],
            name=row["project_name"],
            prompt_excerpt=build_excerpt(extras.prompt, chars_max=PROMPT_CHARS_MAX),
        ),
        status=state.status,
        status_text=state.describe(row["until_stage_slug"]),
        current_stage=state.stage,
        blocked_by=blocked_by,
        iteration=scene.iteration,
        iterations=row["iteration_count"],
        until=row["until_stage_slug"],
        process=BoardProcess(name=row["process_name"], title=extras.process_title),
        is_autopilot=row["is_autopilot"],
        pause_on_dissent=row["pause_on_dissent"],
        continue_until_complete=row["continue_until_complete"],
        wait_for_all=row["wait_for_all"],
        full_answers_only=row["full_answers_only"],
        max_output_tokens=row["max_output_tokens"],
        seats=build_seats(scene),
        allowed=list_allowed(
            state,
            row["until_stage_slug"],
            [Phase(each) for each in extras.moves],
            has_open_jobs=extras.has_open_jobs,
            has_paused_jobs=extras.has_paused_jobs,
        ),
        created_at=row["created_at"],
        updated_at=max(_list_times(scene)),
    )


def _list_times(scene: Scene) -> Iterable[datetime]:
    """List when something of the session happened."""
    yield scene.session["created_at"]
    rows: list[Any] = [*scene.stages, *scene.documents, *scene.feedback]
    for name in ("created_at", "started_at", "completed_at"):
        yield from (row[name] for row in rows if row.get(name) is not None)
        times = (getattr(job, name) for job in scene.jobs)
        yield from (each for each in times if each is not None)


def build_seats(scene: Scene) -> list[BoardSeat]:
    """Build the seats of a session, those that left included."""
    return [
        BoardSeat(
            index=seat.seat,
            model=seat.model,
            label=seat.model.rpartition("/")[2],
            angle=seat.angle,
            is_lead=seat.is_lead,
            is_play=is_offline(seat.model),
            has_left=seat.has_left,
        )
        for seat in list_seats(scene.session, scene.process)
    ]


# -- stages ---------------------------------------------------------------------------------------


def build_stages(scene: Scene) -> list[BoardStage]:
    """Build all stages of the process; those that were not created have planned counts."""
    created = {row["stage_slug"]: row for row in scene.stages}
    counts = _count_jobs(scene)
    return [
        _build_stage(scene, stage, position, created.get(stage.slug), counts)
        for position, stage in enumerate(scene.process.order, start=1)
    ]


def _count_jobs(scene: Scene) -> Counter[tuple[str, str]]:
    """Count the running and the failed calls of each stage."""
    counts = Counter[tuple[str, str]]()
    for job in scene.jobs:
        if name_kind(scene.process, job) is JobKind.PLAN:
            continue
        counts[(job.stage_slug, "running")] += job.status is JobStatus.PROCESSING
        counts[(job.stage_slug, "failed")] += job.status in FAILED
    return counts


def _build_stage(
    scene: Scene,
    stage: Stage,
    position: int,
    row: Any,
    counts: Counter[tuple[str, str]],
) -> BoardStage:
    planned = _count_planned(scene, stage)
    units = (row["step_units"] if row else None) or {}
    is_last = position == len(scene.process.order)
    seats = _list_seated(scene, stage.slug)
    return BoardStage(
        slug=stage.slug,
        title=stage.display_name,
        description=stage.description,
        position=position,
        iteration=scene.iteration,
        status=StageState(row["status"]) if row else StageState.NOT_BEGUN,
        waits_for_person_after=not is_last
        and (not scene.session["is_autopilot"] or stage.slug == scene.session["until_stage_slug"]),
        planned=row["planned_units"] if row else planned.total(),
        finished=row["finished_units"] if row else 0,
        running=counts[(stage.slug, "running")],
        failed=counts[(stage.slug, "failed")],
        seats=list(row["seats"] if row else seats),
        lost_seats=list(row["lost_seats"]) if row else [],
        started_at=row["started_at"] if row else None,
        completed_at=row["completed_at"] if row else None,
        steps=[
            _build_step(stage, part, units.get(part.output_type) or {}, planned)
            for part in stage.parts
        ],
    )


def _build_step(
    stage: Stage, part: Step | Stage, units: dict[str, Any], planned: Counter[str]
) -> BoardStep:
    step = part if isinstance(part, Step) else None
    return BoardStep(
        key=stage.slug if step is None else step.name,
        title=part.label,
        strategy=Strategy.PER_MODEL if step is None else step.granularity_strategy,
        output_type=part.output_type,
        is_intermediate=step is not None and step.is_intermediate,
        planned=units.get("planned", planned[part.output_type]),
        finished=units.get("finished", 0),
    )


def _list_seated(scene: Scene, slug: str) -> tuple[int, ...]:
    """List the seats of a stage: those it was created with, or those it would get now."""
    for row in scene.stages:
        if row["stage_slug"] == slug:
            return tuple(row["seats"])
    active = list_active(len(scene.session["model_names"]), scene.session["dropped_seats"])
    return list_makers(scene.process.load_stage(slug), active, scene.session["lead_model_index"])


def _count_planned(scene: Scene, stage: Stage) -> Counter[str]:
    """Count the documents that a stage will have, by type."""
    process, models = scene.process, len(scene.session["model_names"])
    seats: StageSeats = tuple((each.slug, _list_seated(scene, each.slug)) for each in process.order)
    lost = tuple((row["stage_slug"], tuple(row["lost_seats"])) for row in scene.stages)
    try:
        return count_documents(
            process,
            stage.slug,
            models=models,
            seats=seats,
            lost=tuple((slug, gone) for slug, gone in lost if gone),
        )
    except PlanError:  # too few seats are left for this stage
        return Counter()


# -- jobs -----------------------------------------------------------------------------------------


def build_jobs(
    scene: Scene, *, plans: bool = False, only: Collection[UUID] | None = None
) -> list[BoardJob]:
    """Build the calls of an iteration, or some of them; with plan jobs if wanted."""
    charges = sum_charges(scene.charges)
    found = []
    for job in scene.jobs:
        kind = name_kind(scene.process, job)
        if (plans or kind is not JobKind.PLAN) and (only is None or job.id in only):
            found.append(_build_job(scene, job, kind, charges.get(job.id, 0)))
    return found


def name_kind(process: Process, job: JobRow) -> JobKind:
    """Name what a job does; the plan job of a stage without steps makes its call itself."""
    if job.job_type == "combine":
        return JobKind.COMBINE
    is_plan = job.job_type == "plan" and bool(process.load_stage(job.stage_slug).steps)
    return JobKind.PLAN if is_plan else JobKind.CALL


def _build_job(scene: Scene, job: JobRow, kind: JobKind, charged: int) -> BoardJob:
    errors = [build_reason(entry) for entry in job.error_details]
    told = scene.told.get(job.id)
    return BoardJob(
        id=job.id,
        kind=kind,
        stage=job.stage_slug,
        step=job.step_name or job.stage_slug,
        iteration=job.iteration_number,
        seat=job.seat,
        rank=job.rank,
        status=job.status,
        phase=derive_phase(
            job.status,
            job.status_reason,
            is_calling=job.is_calling,
            told=None if told is None else told.phase,
        ),
        about_id=job.about_id,
        reads=[UUID(each["contribution_id"]) for each in job.inputs or []],
        document_id=job.document_id,
        waits_for=job.waits_for,
        turn=job.turn,
        attempt=job.attempt_count,
        retries=job.retry_count,
        retry_at=job.run_at if job.status is JobStatus.RETRYING else None,
        words=0 if told is None else told.words,
        charged=show_dollars(charged),
        reason=_find_reason(job, errors),
        errors=errors,
        created_at=job.created_at,
        started_at=job.started_at,
        first_token_at=None if told is None else told.first_token_at,
        completed_at=job.completed_at,
    )


def _find_reason(job: JobRow, errors: list[Reason]) -> Reason | None:
    """Find why a job waits or failed: its last error, or what it was put off for."""
    if job.status in ENDED and job.status not in FAILED:
        return None
    if job.status_reason is None or job.status in (JobStatus.PROCESSING, JobStatus.PENDING):
        return None
    last = errors[-1] if errors else None
    if last is not None and last.code == job.status_reason:
        return last
    return build_reason({"code": job.status_reason, "figures": job.reason_figures})


# -- documents, feedback, plan --------------------------------------------------------------------


def build_documents(
    scene: Scene,
    *,
    user_id: UUID | None = None,
    drafts: bool = False,
    only: Collection[UUID] | None = None,
) -> list[BoardDocument]:
    """Build the documents of an iteration, or those whose first version is named.

    Those of intermediate steps are many, and most readers need only their jobs.
    """
    charges = sum_charges(scene.charges)
    ratings = _collect_ratings(scene)
    titles = {
        (stage.slug, one.key): one.title
        for stage in scene.process.order
        for one in stage.expected_output_artifacts
    }
    return [
        _build_document(scene, row, charges, ratings.get(row["original_id"], {}), titles, user_id)
        for row in scene.documents
        if (drafts or not row["is_intermediate"]) and (only is None or row["original_id"] in only)
    ]


def _collect_ratings(scene: Scene) -> dict[UUID, dict[UUID, int]]:
    """Collect the newest rating of each document by each user."""
    found: dict[UUID, dict[UUID, int]] = {}
    for row in scene.feedback:  # oldest first
        if row["rating"] is not None:
            found.setdefault(row["document_id"], {})[row["by_user_id"]] = row["rating"]
    return found


def _build_document(
    scene: Scene,
    row: Any,
    charges: dict[UUID, int],
    rated: dict[UUID, int],
    titles: dict[tuple[str, str], str],
    user_id: UUID | None,
) -> BoardDocument:
    mean = round(sum(rated.values()) / len(rated), 2) if rated else None
    own = {} if user_id is None else {"my_rating": rated.get(user_id)}
    return BoardDocument.model_validate(
        {
            **row,
            **own,
            "step": _name_step(scene.process, row),
            "by": _name_author(row),
            "labels": {each["label"]: each["contribution_id"] for each in row["read"] or []},
            "charged": show_dollars(charges.get(row["job_id"], 0)),
            "shortened": _build_shortened(row),
            "ratings": Ratings(count=len(rated), mean=mean),
            "parts": [
                DocumentPart(
                    key=part["key"],
                    id=part["id"],
                    title=titles.get((row["stage"], part["key"]), part["key"]),
                )
                for part in row["parts"] or []
            ],
        }
    )


def _name_step(process: Process, row: Any) -> str:
    """Name the step that writes a document: its job may be unknown, as after an import."""
    name: str | None = row["step_name"]
    if name is not None:
        return name
    parts = process.load_stage(row["stage"]).parts
    written = [part for part in parts if part.output_type == row["contribution_type"]]
    return next((part.name for part in written if isinstance(part, Step)), row["stage"])


def _name_author(row: Any) -> Author | None:
    if row["by_user_id"] is None:
        return None
    return Author(user_id=row["by_user_id"], name=row["by_user_name"])


def _build_shortened(row: Any) -> Shortened | None:
    if not row["shortened_items"]:
        return None
    return Shortened(
        items=row["shortened_items"], before=row["tokens_before"], after=row["tokens_after"]
    )


def build_feedback(scene: Scene, *, only: Collection[UUID] | None = None) -> list[BoardFeedback]:
    """Build what users said about an iteration, or some of it."""
    return [
        BoardFeedback.model_validate({**row, "by": _name_author(row)})
        for row in scene.feedback
        if only is None or row["id"] in only
    ]


def build_plan(scene: Scene) -> list[PlanStepFile]:
    """Build the files of the agreed plan, in their order."""
    return [
        PlanStepFile(
            path=row["path"],
            title=build_excerpt(row["heading"] or "") or row["path"].rpartition("/")[2],
            steps=row["steps"],
            document_id=row["document_id"],
        )
        for row in scene.plan
    ]
