"""A session played through without a database: documents arrive, plan jobs look, children run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from uuid import UUID, uuid5

from hypothesis import strategies as st

from dialectic.core.job import (
    ExecutePayload,
    PlanPayload,
    derive_contribution_id,
    derive_root_job_id,
)
from dialectic.core.process.definition import Process, Stage
from dialectic.core.seats import name_seats
from dialectic.errors import PlanError
from dialectic.pipeline.outline import build_outline
from dialectic.pipeline.plan import (
    Decision,
    PlannedChild,
    Progress,
    Situation,
    decide_plan,
    read_inputs,
)
from dialectic.pipeline.strategies import Document
from tests.unit.small_process import (
    Content,
    build,
    build_content,
    build_input,
    build_stage,
    build_step,
)

SESSION = UUID("00000000-0000-4000-8000-00000000000a")


@dataclass
class PlanJob:
    """One model's part in a stage."""

    id: UUID
    stage: Stage
    payload: PlanPayload
    current_step: int = 1
    has_ended: bool = False
    children: dict[UUID, PlannedChild] = field(default_factory=dict)


def never(child_id: UUID) -> bool:
    return False


@dataclass
class PlayedSession:
    """A session on autopilot whose every event is chosen by the test; `fails` is asked by job."""

    process: Process
    models: Sequence[str]
    fails: Callable[[UUID], bool] = never
    chance: Random = field(default_factory=lambda: Random(0))
    documents: dict[UUID, Document] = field(default_factory=dict)
    ended: set[UUID] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.outline = build_outline(self.process, models=len(self.models))
        self.plans = [
            self._build_plan(stage, index)
            for stage in self.process.order
            for index in range(1, len(self.models) + 1)
        ]

    def _build_plan(self, stage: Stage, index: int) -> PlanJob:
        name = self.models[index - 1]
        slot = self.models[:index].count(name)
        payload = PlanPayload(
            model_id=uuid5(SESSION, name),
            model_name=name,
            model_index=index,
            ordinal=1,
            output_type=stage.output_type,
            slot=slot,
            seat_name=name_seats(self.models)[index - 1],
        )
        plan_id = derive_root_job_id(SESSION, iteration=1, stage_slug=stage.slug, model_index=index)
        return PlanJob(plan_id, stage, payload)

    def find_plan(self, stage_slug: str, model_index: int) -> PlanJob:
        return next(
            plan
            for plan in self.plans
            if (plan.stage.slug, plan.payload.model_index) == (stage_slug, model_index)
        )

    def look(self) -> Situation:
        """What a plan job sees now, in no particular order."""
        documents = list(self.documents.values())
        progress = [
            Progress(p.stage.slug, p.payload.model_index, p.current_step, p.has_ended)
            for p in self.plans
        ]
        self.chance.shuffle(documents)
        self.chance.shuffle(progress)
        return Situation(documents, progress, self.models, self.outline)

    def decide(self, plan: PlanJob) -> Decision:
        return decide_plan(plan.id, plan.payload, plan.stage, plan.current_step, self.look())

    # What can happen, each any number of times -------------------------------------------------

    def replan(self, plan: PlanJob) -> bool:
        """Let a plan job look; tell whether anything came of it. A second look only adds."""
        if plan.has_ended:
            return False
        if not plan.stage.steps:
            return self._run_simple(plan)
        try:
            decision = self.decide(plan)
        except PlanError:
            plan.has_ended = True
            return True
        for child in decision.children:
            known = plan.children.setdefault(child.id, child)
            assert known == child, "planning again changed a child"
        mine = [c for c in plan.children.values() if c.step_number == plan.current_step]
        if decision.is_step_open or not all(child.id in self.ended for child in mine):
            return False
        # The step is over; it has failed if nothing came of it.
        saved = [child for child in mine if derive_contribution_id(child.id) in self.documents]
        plan.current_step += 1
        plan.has_ended = not saved or plan.current_step > len(plan.stage.steps)
        return True

    def replan_all(self) -> bool:
        return [self.replan(plan) for plan in self.plans].count(True) > 0

    def _run_simple(self, plan: PlanJob) -> bool:
        """A stage without steps is one call, when all it reads is there."""
        rules = plan.stage.inputs_required
        inputs = read_inputs(rules, plan.stage, plan.payload.model_index, self.look())
        if not all(found.is_complete for found in inputs):
            return False
        plan.has_ended = True
        is_hopeless = bool(inputs) and not any(found.documents for found in inputs)
        if not is_hopeless and not self.fails(plan.id):
            index = plan.payload.model_index
            self._save(plan.id, plan.stage, plan.payload.output_type, (index, 1, None, index))
        return True

    def run(self, plan: PlanJob, child: PlannedChild) -> None:
        self.ended.add(child.id)
        if not self.fails(child.id):
            payload: ExecutePayload = child.payload
            place = (payload.model_index, payload.rank, payload.source_group, payload.origin)
            self._save(child.id, plan.stage, payload.output_type, place)

    def _save(
        self, job_id: UUID, stage: Stage, kind: str, place: tuple[int, int, UUID | None, int]
    ) -> None:
        document = Document(derive_contribution_id(job_id), stage.slug, kind, *place)
        self.documents[document.id] = document

    def list_waiting(self) -> list[tuple[PlanJob, PlannedChild]]:
        return [
            (plan, child)
            for plan in self.plans
            for child in plan.children.values()
            if child.id not in self.ended and not plan.has_ended
        ]

    # Ways to play -------------------------------------------------------------------------------

    def play_in_order(self) -> PlayedSession:
        """Plan when everything there can be is there, then run everything."""
        while self.replan_all() or self.list_waiting():
            for plan, child in self.list_waiting():
                self.run(plan, child)
        return self

    def play_at_random(self) -> PlayedSession:
        """Let anything that can happen happen, with looks at any moment and in any number."""
        while True:
            if self.chance.random() < 0.5 and (waiting := self.list_waiting()):
                self.run(*self.chance.choice(waiting))
            elif self.chance.random() < 0.9:
                self.replan(self.chance.choice(self.plans))
            elif not self.replan_all() and not self.list_waiting():
                return self

    # What came of it ----------------------------------------------------------------------------

    @property
    def children(self) -> dict[UUID, PlannedChild]:
        return {child.id: child for plan in self.plans for child in plan.children.values()}

    def list_payloads(self, output_type: str) -> list[ExecutePayload]:
        children = self.children.values()
        return [c.payload for c in children if c.payload.output_type == output_type]

    def count_documents(self) -> list[int]:
        kinds = [d.kind for d in self.documents.values()]
        return [kinds.count((step.stage_slug, step.output_type)) for step in self.outline.steps]


def with_failures_allowed(content: Content) -> Content:
    for stage in content["stages"]:
        for step in stage["steps"]:
            step["on_child_failure"] = "any"
    return content


@st.composite
def processes(draw: st.DrawFn, *, sampled: bool = False) -> Process:
    """Any small process that the check lets pass: every strategy, scope and lineage.

    A sampled one leaves out some of what its steps could do.
    """
    # Each kind made so far, with the kind its lineage begins with.
    origins: dict[tuple[str, str], tuple[str, str]] = {}
    stages: list[Content] = []
    steps_left = draw(st.integers(1, 5))
    while steps_left > 0 or not stages:
        slug = f"stage{len(stages) + 1}"
        steps: list[Content] = []
        for _ in range(min(draw(st.sampled_from([1, 2, 3, 0])), steps_left) if stages else 0):
            step = _draw_step(draw, slug, len(steps) + 1, origins)
            steps.append(_draw_sample(draw, step) if sampled else step)
        steps_left -= max(1, len(steps))
        if not steps:
            origins[(slug, slug)] = (slug, slug)
        stages.append(build_stage(slug, *steps))
    return build(build_content(*stages), overlays=[])


def _draw_step(
    draw: st.DrawFn, slug: str, number: int, origins: dict[tuple[str, str], tuple[str, str]]
) -> Content:
    def read(kind: tuple[str, str]) -> Content:
        return build_input(kind[1], kind[0], scope=draw(st.sampled_from(["own", "all"])))

    grown = [kind for kind, origin in origins.items() if kind != origin]
    strategies = ["per_source_document", "per_source_document", "all_to_one", "per_model"]
    if grown:
        lineal = ["pairwise_by_origin", "per_source_group", "per_source_document_by_lineage"]
        strategies += lineal * 3
    strategy = draw(st.sampled_from(strategies))
    made = (slug, f"kind{chr(96 + number)}")
    if strategy in ("all_to_one", "per_model"):
        kinds = draw(
            st.lists(st.sampled_from(sorted(origins)), min_size=1, unique=True, max_size=3)
        )
        origins[made] = made
    elif strategy == "per_source_document":
        kinds = [draw(st.sampled_from(sorted(origins)))]
        origins[made] = origins[kinds[0]]
    else:
        second = draw(st.sampled_from(grown))
        origins[made] = origins[second]
        kinds = [origins[second], second] if strategy == "pairwise_by_origin" else [second]
    inputs = [read(kind) for kind in kinds]
    if draw(st.booleans()):
        inputs.insert(0, build_input("feedback", "stage1"))
    return build_step(f"step{number}", strategy, made[1], *inputs)


def _draw_sample(draw: st.DrawFn, step: Content) -> Content:
    if step["granularity_strategy"] not in ("per_source_document", "pairwise_by_origin"):
        return step
    if draw(st.booleans()):
        step = {**step, "per_source_max": draw(st.integers(1, 2))}
    if draw(st.booleans()):
        inputs = [{**rule, "scope": "all"} for rule in step["inputs_required"]]
        step = {**step, "inputs_required": inputs, "readers_max": draw(st.integers(1, 2))}
    return step


def is_hit(rate: int) -> Callable[[UUID], bool]:
    """Let about `rate` of a hundred jobs fail, always the same ones."""
    return lambda job_id: job_id.int % 100 < rate
