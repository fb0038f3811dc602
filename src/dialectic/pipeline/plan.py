"""Plan a stage: a plan job creates child jobs as soon as their inputs exist.

Planning is pure (`decide_plan`); the caller loads the situation and saves the decision in one
commit. Planning is idempotent: a child's id is derived from its work, so planning again only adds
new children. A plan job wakes when an awaited document has arrived or a step has ended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

from dialectic.core.documents.file_paths import Relation, fold_sources
from dialectic.core.job import ExecutePayload, Input, PlanPayload, derive_child_job_id
from dialectic.core.process.definition import InputRule, Kind, Scope, Stage, Step, Strategy
from dialectic.core.seats import name_seats, number_name
from dialectic.core.slug import short_id
from dialectic.errors import PlanError
from dialectic.pipeline.outline import Outline
from dialectic.pipeline.strategies import Child, Document, InputSet, choose_substitute, deal


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of one plan job of the session."""

    stage_slug: str
    model_index: int
    current_step: int
    has_ended: bool


@dataclass(frozen=True, slots=True)
class Situation:
    """The documents and plan jobs of an iteration, as a plan job sees them."""

    documents: Sequence[Document]
    progress: Sequence[Progress]
    models: Sequence[str]
    outline: Outline
    # The seats of each stage where not all take part.
    seats: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    # The models that wrote the documents: a seat may have had another model.
    writers: Mapping[UUID, str] = field(default_factory=dict)

    def get_seats(self, stage_slug: str) -> Sequence[int]:
        """Get the numbers of the seats that take part in a stage."""
        return self.seats.get(stage_slug) or range(1, len(self.models) + 1)

    def name_writer(self, document: Document) -> str:
        """Name the author of a document as its file does."""
        seat = document.model_index
        seated = self.models[seat - 1]
        writer = self.writers.get(document.id, seated)
        return name_seats(self.models)[seat - 1] if writer == seated else number_name(writer, seat)


@dataclass(frozen=True, slots=True)
class PlannedChild:
    """A child job to create: its id, its step and its payload."""

    id: UUID
    step_number: int
    payload: ExecutePayload


@dataclass(frozen=True, slots=True)
class Decision:
    """What a plan job does now."""

    children: tuple[PlannedChild, ...]
    awaits: tuple[str, ...]
    is_step_open: bool


def read_inputs(
    rules: Sequence[InputRule], stage: Stage, model_index: int, situation: Situation
) -> list[InputSet]:
    """Find the documents that input rules select, and whether each set is complete."""
    return [_read(rule, stage, model_index, situation) for rule in rules if not rule.is_feedback]


def list_missing(
    stage: Stage, rules: Sequence[InputRule], model_index: int, situation: Situation
) -> tuple[str, ...]:
    """List the names of the inputs that are not complete yet."""
    kinds = [rule.name_awaited(model_index) for rule in rules if not rule.is_feedback]
    found = read_inputs(rules, stage, model_index, situation)
    missing = [kind for kind, has in zip(kinds, found, strict=True) if not has.is_complete]
    return tuple(dict.fromkeys(missing))


def _read(rule: InputRule, stage: Stage, model_index: int, situation: Situation) -> InputSet:
    kind = rule.get_kind(stage)
    figures = situation.outline.load_step(*kind)
    makers = situation.get_seats(kind[0]) if rule.scope is Scope.ALL else [model_index]
    documents = tuple(
        document
        for document in situation.documents
        if document.kind == kind and document.model_index in makers
    )
    made = Counter(document.model_index for document in documents)
    done = _list_done(kind, stage, situation)
    return InputSet(
        documents=documents,
        is_complete=all(m in done or made[m] >= len(figures.get_ranks(m)) for m in makers),
        per_model=figures.per_model,
        group_size=figures.group_size(rule.scope),
    )


def _list_done(kind: Kind, stage: Stage, situation: Situation) -> set[int]:
    """List the models that will write no more of a kind: they have ended or passed its step."""
    source, output_type = kind
    makers = [maker for maker in situation.progress if maker.stage_slug == source]
    if source == stage.slug:
        step = stage.list_outputs().index(output_type) + 1
        return {m.model_index for m in makers if m.has_ended or m.current_step > step}
    ended = {maker.model_index for maker in makers if maker.has_ended}
    # A model that ended early may have failed the stage: wait until all models have ended.
    return ended if ended >= set(situation.get_seats(source)) else set()


def decide_plan(
    plan_id: UUID, payload: PlanPayload, stage: Stage, current_step: int, situation: Situation
) -> Decision:
    """Plan every child that can start, in the current step and in later ones."""
    children: list[PlannedChild] = []
    awaits: list[str] = []
    is_step_open = False
    for number, step in enumerate(stage.steps, start=1):
        if number < current_step:
            continue
        rules = step.list_sources()
        inputs = read_inputs(rules, stage, payload.model_index, situation)
        awaited = [
            rule.name_awaited(payload.model_index)
            for rule, found in zip(rules, inputs, strict=True)
            if not found.is_complete
        ]
        awaits.extend(name for name in awaited if name not in awaits)
        dealt = _deal_step(step, rules, inputs, models=len(situation.models))
        if step.is_sampled:
            figures = situation.outline.load_step(stage.slug, step.output_type)
            planned = figures.get_ranks(payload.model_index)
            dealt = _sample(step, dealt, planned, payload.model_index, is_open=bool(awaited))
        if number == current_step:
            is_step_open = bool(awaited)
            if not awaited and not dealt:
                raise _nothing_to_do(stage, step, rules, inputs)
        sources = _list_sources(step, inputs)
        children.extend(
            _build_child(plan_id, payload, stage, step, child, sources=sources, situation=situation)
            for child in dealt
        )
    return Decision(tuple(children), tuple(awaits), is_step_open)


def _sample(
    step: Step, dealt: Sequence[Child], planned: Sequence[int], model_index: int, *, is_open: bool
) -> list[Child]:
    """Keep the children that the outline planned; if their documents failed, one in their place."""
    kept = [child for child in dealt if child.rank in planned]
    can_change = step.granularity_strategy is Strategy.PER_SOURCE_DOCUMENT and bool(planned)
    if kept or is_open or not can_change:
        return kept
    other = choose_substitute(dealt, planned[0], model_index)
    return [] if other is None else [replace(other, rank=planned[0])]


def _deal_step(
    step: Step, rules: Sequence[InputRule], inputs: Sequence[InputSet], *, models: int
) -> list[Child]:
    """Plan the children of a step; none if a required input will never exist."""
    for rule, found in zip(rules, inputs, strict=True):
        if rule.required and found.is_complete and not found.documents:
            return []
    return deal(step.granularity_strategy, inputs, models=models)


def _nothing_to_do(
    stage: Stage, step: Step, rules: Sequence[InputRule], inputs: Sequence[InputSet]
) -> PlanError:
    counts = ", ".join(
        f"{len(found.documents)} of {rule.type!r}"
        for rule, found in zip(rules, inputs, strict=True)
    )
    return PlanError(
        f"Step {step.name!r} of stage {stage.slug!r} has no inputs: "
        f"{step.granularity_strategy} found {counts}.",
        reason="nothing_to_read",
        subject=step.name,
    )


def _list_sources(step: Step, inputs: Sequence[InputSet]) -> dict[UUID, tuple[int, Document]]:
    """Map each document to the input rule that selected it, counted from 0."""
    numbers = [n for n, rule in enumerate(step.inputs_required) if not rule.is_feedback]
    return {d.id: (n, d) for n, found in zip(numbers, inputs, strict=True) for d in found.documents}


def _build_child(
    plan_id: UUID,
    payload: PlanPayload,
    stage: Stage,
    step: Step,
    child: Child,
    *,
    sources: Mapping[UUID, tuple[int, Document]],
    situation: Situation,
) -> PlannedChild:
    """Build a child job's payload. No other code does."""
    _, first = sources[child.sources[0]]
    figures = situation.outline.load_step(stage.slug, step.output_type)
    rank = figures.get_ranks(payload.model_index).index(child.rank) + 1
    return PlannedChild(
        id=derive_child_job_id(plan_id, step_name=step.name, sources=child.sources),
        step_number=stage.steps.index(step) + 1,
        payload=ExecutePayload(
            model_id=payload.model_id,
            model_name=payload.model_name,
            model_index=payload.model_index,
            slot=payload.slot,
            seat_name=payload.seat_name,
            ordinal=rank,
            output_type=step.output_type,
            step_name=step.name,
            inputs=tuple(Input(contribution_id=s, rule=sources[s][0]) for s in child.sources),
            rank=rank,
            origin=first.origin if child.source_group else payload.model_index,
            source_group=child.source_group,
            target_contribution_id=child.target,
            naming=_build_naming(step, child, [sources[s][1] for s in child.sources], situation),
        ),
    )


def _build_naming(
    step: Step, child: Child, read: Sequence[Document], situation: Situation
) -> Relation:
    match step.granularity_strategy:
        case Strategy.PER_SOURCE_DOCUMENT:
            return Relation("about", (situation.name_writer(read[0]),))
        case Strategy.PAIRWISE_BY_ORIGIN:
            return Relation("from", fold_sources([situation.name_writer(d) for d in read]))
        case Strategy.PER_SOURCE_GROUP | Strategy.PER_SOURCE_DOCUMENT_BY_LINEAGE:
            assert child.source_group is not None
            return Relation("reducing", (short_id(child.source_group),))
        case Strategy.ALL_TO_ONE | Strategy.PER_MODEL:
            return Relation()
