"""Compute which jobs a process creates for n models, before the first one runs. Pure.

It simulates the process with placeholder documents and the same strategies that plan the real ones,
so the numbers always match the work.
"""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias
from uuid import UUID, uuid5

from dialectic.core.process.definition import (
    InputRule,
    Kind,
    Process,
    Scope,
    Stage,
    Step,
    Strategy,
)
from dialectic.core.seats import list_makers
from dialectic.errors import PlanError
from dialectic.pipeline.strategies import (
    Child,
    Document,
    InputSet,
    choose_substitute,
    deal,
    keep_sample,
)

# Twenty models in the standard process make 8,000 pairs in one step.
STEP_CALLS_MAX = 10_000

_PLACEHOLDERS = UUID(int=0)
# Children of these strategies need each of their documents.
_READ_ALL = (Strategy.PER_SOURCE_DOCUMENT, Strategy.PAIRWISE_BY_ORIGIN)

StageSeats: TypeAlias = tuple[tuple[str, tuple[int, ...]], ...]
"""The numbers of the seats that take part in a stage, for each stage where not all do."""


@dataclass(frozen=True, slots=True)
class StepOutline:
    """The numbers of a step; a stage without steps is one step with one call per model."""

    stage_slug: str
    name: str
    output_type: str
    # The most documents per model; all models have the same number unless sampling differs.
    per_model: int
    calls: int
    # The documents per thesis, of one model and of all models; 0 if theses differ.
    group_own: int
    group_all: int
    # How many of the documents may get a second look: one more call for each that lost something.
    looks: int
    # For each seat, the ranks of its children if no job fails, in order; none if it sits out.
    ranks: tuple[tuple[int, ...], ...]

    def group_size(self, scope: Scope) -> int:
        """Return the number of documents per thesis in a scope; 0 if theses differ."""
        return self.group_own if scope is Scope.OWN else self.group_all

    def get_ranks(self, model_index: int) -> tuple[int, ...]:
        """Get the ranks of one model's children, in order, without those that sampling left out."""
        return self.ranks[model_index - 1]


@dataclass(frozen=True, slots=True)
class Outline:
    """The numbers of a process for n models."""

    models: int
    steps: tuple[StepOutline, ...]

    @property
    def calls(self) -> int:
        return sum(step.calls for step in self.steps)

    @property
    def looks(self) -> int:
        return sum(step.looks for step in self.steps)

    def count_calls(self, stage_slug: str) -> Counter[str]:
        """Count the planned documents of a stage, by type."""
        return Counter({s.output_type: s.calls for s in self.steps if s.stage_slug == stage_slug})

    def load_step(self, stage_slug: str, output_type: str) -> StepOutline:
        for step in self.steps:
            if (step.stage_slug, step.output_type) == (stage_slug, output_type):
                return step
        message = f"no step of stage {stage_slug!r} makes {output_type!r}"
        raise AssertionError(message)


class DocumentKey(NamedTuple):
    """The key of a document in an iteration, known before the document exists."""

    stage_slug: str
    output_type: str
    model_index: int
    rank: int

    @property
    def kind(self) -> Kind:
        return (self.stage_slug, self.output_type)


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """A planned call: the document it writes and those it reads."""

    step_name: str
    makes: DocumentKey
    reads: tuple[DocumentKey, ...]


class _Played(NamedTuple):
    figures: StepOutline
    # Each placeholder document with its sources.
    documents: dict[Document, tuple[UUID, ...]]


@functools.lru_cache(maxsize=64)  # takes tens of ms for 12 models, and every job needs it
def build_outline(
    process: Process, *, models: int, until: str | None = None, seats: StageSeats = ()
) -> Outline:
    """Simulate a process for n models, up to and including a stage."""
    played = _play_all(process, models, until, seats)
    return Outline(models, tuple(each.figures for each in played.values()))


def list_calls(
    process: Process, *, models: int, until: str | None = None, seats: StageSeats = ()
) -> list[PlannedCall]:
    """List every call of a process; each document comes before its readers."""
    calls: list[PlannedCall] = []
    keys: dict[UUID, DocumentKey] = {}
    for (slug, output_type), (figures, documents) in _play_all(
        process, models, until, seats
    ).items():
        for document, sources in documents.items():
            key = DocumentKey(slug, output_type, document.model_index, document.rank)
            keys[document.id] = key
            calls.append(PlannedCall(figures.name, key, tuple(keys[s] for s in sources)))
    return calls


def seat_stages(process: Process, active: Sequence[int], lead: int) -> StageSeats:
    """List who would make each stage's documents if it were created now."""
    return tuple((stage.slug, list_makers(stage, active, lead)) for stage in process.order)


def select_partial(seats: StageSeats, models: int) -> StageSeats:
    """Select the stages in which not all seats take part."""
    full = tuple(range(1, models + 1))
    return tuple((slug, seated) for slug, seated in seats if seated != full)


def count_documents(
    process: Process, stage_slug: str, *, models: int, seats: StageSeats, lost: StageSeats
) -> Counter[str]:
    """Count the documents that a stage will have, by type, now that seats may be lost."""
    if not lost:
        partial = select_partial(seats, models)
        return build_outline(process, models=models, seats=partial).count_calls(stage_slug)
    calls = list_calls(process, models=models, until=stage_slug, seats=seats)
    kept = leave_out_lost(process, calls, lost)
    return Counter(call.makes.output_type for call in kept if call.makes.stage_slug == stage_slug)


def leave_out_lost(
    process: Process,
    calls: Sequence[PlannedCall],
    lost: StageSeats,
    existing: Collection[DocumentKey] = (),
) -> list[PlannedCall]:
    """Leave out the calls of lost seats, and those that have nothing to read without them.

    What a lost seat had written before exists, and is read.
    """
    gone: set[DocumentKey] = set()
    kept = []
    for call in calls:
        stage = process.load_stage(call.makes.stage_slug)
        missing = [read in gone for read in call.reads]
        needs_each = bool(stage.steps) and (
            stage.load_step(call.step_name).granularity_strategy in _READ_ALL
        )
        is_idle = any(missing) if needs_each else bool(missing) and all(missing)
        is_lost = call.makes.model_index in dict(lost).get(stage.slug, ())
        if is_idle and not is_lost and (other := _find_other(process, calls, call, gone)):
            call, is_idle = dataclasses.replace(call, reads=(other,)), False
        if call.makes not in existing and (is_idle or is_lost):
            gone.add(call.makes)
        else:
            reads = tuple(read for read in call.reads if read not in gone)
            kept.append(dataclasses.replace(call, reads=reads))
    return kept


def _find_other(
    process: Process, calls: Sequence[PlannedCall], call: PlannedCall, gone: Collection[DocumentKey]
) -> DocumentKey | None:
    """Find what a call reads instead of a document that is gone, as `plan` will choose it."""
    stage = process.load_stage(call.makes.stage_slug)
    step = stage.load_step(call.step_name) if stage.steps else None
    if step is None or not step.is_sampled or len(call.reads) != 1:
        return None
    seat = (*call.makes.kind, call.makes.model_index)
    own = [c for c in calls if (*c.makes.kind, c.makes.model_index) == seat]
    if own[0] is not call or any(read not in gone for c in own for read in c.reads):
        return None
    kind = call.reads[0].kind
    ordered = sorted(c.makes for c in calls if c.makes.kind == kind)
    children = {
        key: Child((), rank, None, None, (key.model_index,)) for rank, key in enumerate(ordered)
    }
    alive = [child for key, child in children.items() if key not in gone]
    missing = children[call.reads[0]].rank
    other = choose_substitute(alive, missing, call.makes.model_index)
    return None if other is None else ordered[other.rank]


def _play_all(
    process: Process, models: int, until: str | None, seats: StageSeats
) -> dict[Kind, _Played]:
    assert models >= 1, "a process needs at least one model"
    made: dict[Kind, _Played] = {}
    everyone = range(1, models + 1)
    for stage in process.order:
        seated = dict(seats).get(stage.slug) or list_makers(stage, everyone, lead=1)
        for part in stage.parts:
            made[(stage.slug, part.output_type)] = _play(stage, part, made, models, seated)
        if stage.slug == until:
            break
    return made


def _play(
    stage: Stage,
    part: Stage | Step,
    made: Mapping[Kind, _Played],
    models: int,
    seats: Sequence[int],
) -> _Played:
    name = part.name if isinstance(part, Step) else stage.slug
    output_type = part.output_type
    documents: dict[Document, tuple[UUID, ...]] = {}
    ranks: list[tuple[int, ...]] = [()] * models
    for model_index in seats:
        inputs = [_read(rule, stage, made, model_index) for rule in part.list_sources()]
        origins = {d.id: d.origin for read in inputs for d in read.documents}
        if isinstance(part, Step):
            children = _deal(stage, part, inputs, model_index, models)
        else:
            children = [Child(tuple(origins), 1, None, None, ())]
        for number, child in enumerate(children, start=1):
            document_id = uuid5(_PLACEHOLDERS, f"{stage.slug}:{output_type}:{model_index}:{number}")
            origin = origins[child.sources[0]] if child.source_group else model_index
            place = (stage.slug, output_type, model_index, number, child.source_group, origin)
            documents[Document(document_id, *place)] = child.sources
        ranks[model_index - 1] = tuple(child.rank for child in children)
        if len(documents) > STEP_CALLS_MAX:
            raise PlanError(
                f"Step {name!r} of stage {stage.slug!r} would make more than {STEP_CALLS_MAX} "
                f"calls with {models} model(s). Choose fewer models, or let the step read less.",
                reason="too_many_calls",
                subject=name,
                limit=STEP_CALLS_MAX,
            )
    figures = StepOutline(
        stage_slug=stage.slug,
        name=name,
        output_type=output_type,
        per_model=max(len(own) for own in ranks),
        calls=len(documents),
        group_own=_get_common(Counter((d.model_index, d.origin) for d in documents)),
        group_all=_get_common(Counter(d.origin for d in documents)),
        looks=len(documents) if part.second_look else 0,
        ranks=tuple(ranks),
    )
    return _Played(figures, documents)


def _get_common(counts: Mapping[object, int]) -> int:
    """Get the common value of all counts; 0 if they differ."""
    found = set(counts.values())
    return found.pop() if len(found) == 1 else 0


def _deal(
    stage: Stage, step: Step, inputs: Sequence[InputSet], model_index: int, models: int
) -> list[Child]:
    """Plan the children of one model in a step."""
    dealt = deal(step.granularity_strategy, inputs, models=models)
    kept = keep_sample(step, dealt, model_index=model_index, models=models)
    if not kept:
        raise PlanError(
            f"Step {step.name!r} of stage {stage.slug!r} leaves model {model_index} of {models} "
            "nothing to do: sampling left out its inputs. Raise `readers_max` or "
            "`per_source_max` of the steps it reads from.",
            reason="nothing_to_do",
            subject=step.name,
        )
    return kept


def _read(
    rule: InputRule, stage: Stage, made: Mapping[Kind, _Played], model_index: int
) -> InputSet:
    figures, documents = made[rule.get_kind(stage)]
    is_all = rule.scope is Scope.ALL
    return InputSet(
        documents=tuple(d for d in documents if is_all or d.model_index == model_index),
        is_complete=True,
        per_model=figures.per_model,
        group_size=figures.group_size(rule.scope),
    )
