"""Gather the texts of one turn: instructions, request, feedback and its own inputs. Pure.

Each text by a person or a model stays a separate item with a neutral label until `assemble` builds
the request. A turn sees nothing else of its stage. Later turns of a document reuse the texts of the
first one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import UUID, uuid5

from pydantic_core import to_jsonable_python

from dialectic.core.documents.file_paths import (
    ContributionName,
    Relation,
    StageFolder,
)
from dialectic.core.documents.prompts import Entry, build_label, order_for_reader, tell_apart
from dialectic.core.documents.stitching import Chunk
from dialectic.core.documents.turns import Ask, list_base, read_ask
from dialectic.core.job import ExecutePayload, Job, PlanPayload, TurnPayload
from dialectic.core.process.definition import (
    Compressor,
    ExpectedDocument,
    InputRule,
    Length,
    Process,
    Stage,
    Step,
)
from dialectic.core.process.reductions import list_left_out
from dialectic.core.seats import slugify_model
from dialectic.core.strict_json import Json
from dialectic.db.queries import build_row
from dialectic.db.tables.records import Owner
from dialectic.errors import PlanError
from dialectic.pipeline.basis import BASIS, UNKNOWN, Basis, Source, gather_basis
from dialectic.pipeline.load import Feedback, JobContext, Target, Text
from dialectic.pipeline.looks import Look, find_look
from dialectic.pipeline.rulings import RULINGS, build_rulings
from dialectic.processes.loader import get_shared_prompt

CONTINUATION = "continuation"
SELF_CRITIQUE = "self_critique"


@dataclass(frozen=True, slots=True)
class Item:
    """A text with its label in the prompt; the ids of a contribution and of the version read."""

    label: str
    text: str
    source_id: UUID | None = None
    version_id: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """Everything that a prompt template needs."""

    template_name: str
    template: str
    domain: str
    guidance: str
    # The angle of the seat and what it argues for; empty if it has none.
    seat: str = ""
    stance: str = ""
    request: Item
    context: tuple[Item, ...] = ()
    feedback: tuple[Item, ...] = ()
    inputs: tuple[Item, ...] = ()
    listing: tuple[str, ...] = ()
    # What the project's owner adds to every prompt.
    overlay: str = ""
    # The label of the input that the lead wrote, if exactly one is.
    base: str = ""
    # The least length of the answer.
    length: Length | None = None
    # For the prompt of a stage with steps: the name and the words of each step.
    steps: tuple[tuple[str, Words], ...] = ()
    # The approximate maximum length of the answer, if the template asks for it.
    budget_words: int | None = None

    @property
    def words_min(self) -> int:
        """The least length of the answer; it grows with the inputs as they are in the prompt."""
        read = sum(len(item.text.split()) for item in self.inputs)
        return 0 if self.length is None else self.length.compute_words(read)

    def as_opening(self) -> Json:
        """Serialize everything but the template, which is pinned by its name."""
        assert not self.steps, "the prompt of a stage with steps is not sent"
        opening: Json = to_jsonable_python(self)
        del opening["template"], opening["steps"]
        return opening

    @classmethod
    def from_opening(cls, opening: Json, process: Process, template: str | None = None) -> Words:
        """Deserialize the words of a first turn."""
        if template is None:
            template = process.prompts[opening["template_name"]]
        return build_row(cls, opening | {"template": template})


@dataclass(frozen=True, slots=True)
class Repair:
    """The template that asks for missing sections or for a copied document, with its name."""

    name: str
    template: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """Everything that a turn needs before `assemble` builds its request."""

    payload: TurnPayload
    owner: Owner
    folder: StageFolder
    name: ContributionName
    system: str
    words: Words
    is_first_session: bool
    rank: int
    origin: int
    source_group: UUID | None = None
    target_contribution_id: UUID | None = None
    is_intermediate: bool = False
    is_lead: bool = False
    flags: tuple[str, ...] = ()
    expected: tuple[ExpectedDocument, ...] = ()
    max_output_tokens: int | None = None
    temperature: float | None = None
    # How to shorten texts that do not fit.
    compressor: Compressor = Compressor.EXTRACT
    # The template of the request to continue a truncated answer; None for the standard one.
    continuation: str | None = None
    # What the steps that lead to this document left out: by sampling, or because a seat failed.
    left_out: tuple[str, ...] = ()
    # The earlier turns of this document.
    chunks: tuple[Chunk, ...] = ()
    basis: Basis = UNKNOWN
    # The prompt, if any, that asks once for missing sections or for a copied document.
    repair: Repair | None = None
    # What a second look at the finished document needs, if there is one.
    look: Look | None = None
    # The texts that its answer must not merely repeat.
    originals: tuple[Item, ...] = ()
    # The manifest entries of searched inputs, and what embedding the queries cost.
    searched: tuple[Entry, ...] = ()
    searching_credits: int = 0

    @property
    def sources(self) -> tuple[Source, ...]:
        """What the document was made from: what its model read, then its assigned inputs.

        The two differ when inputs were combined, or when a search found no passage in one of them.
        The document still depends on all of them.
        """
        read = [
            Source(item.source_id, item.version_id or item.source_id)
            for item in self.words.inputs
            if item.source_id is not None
        ]
        found: dict[UUID, Source] = {}
        for source in (*read, *self.basis.given):
            found.setdefault(source.id, source)
        return tuple(found.values())

    def build_opening(self) -> Json:
        """Serialize what further turns of the document need of the first one."""
        return self.words.as_opening() | {BASIS: self.basis.as_json()}

    @property
    def said(self) -> tuple[str, ...]:
        return tuple(chunk.text for chunk in self.chunks)

    @property
    def base(self) -> list[Chunk]:
        """The earlier turns that its text consists of so far."""
        return list_base(self.chunks)

    @property
    def ask(self) -> Ask:
        """What this turn is asked for."""
        return read_ask(self.chunks)


def gather(context: JobContext, job: Job, payload: PlanPayload | ExecutePayload) -> Material:
    """Gather the material of one turn."""
    stage = context.process.load_stage(job.stage_slug)
    relation, system = Relation(), context.process.prompts[stage.system_prompt_name]
    words = _gather_words(context, stage, job.id, payload)
    if isinstance(payload, PlanPayload):
        rank, origin, source_group, target = 1, payload.model_index, None, None
        is_intermediate, compressor = False, stage.compressor
        part: Stage | Step = stage
    else:
        relation = payload.naming
        rank, origin = payload.rank, payload.origin
        source_group, target = payload.source_group, payload.target_contribution_id
        part = step = stage.load_step(payload.step_name)
        is_intermediate, compressor = step.is_intermediate, step.compressor
    angle = context.find_angle(payload.model_index)
    return Material(
        payload=payload,
        owner=context.owner,
        folder=context.build_folder(stage),
        name=build_name(payload, relation),
        system=system,
        words=words,
        basis=gather_basis(context, payload, words, system),
        is_intermediate=is_intermediate,
        is_lead=payload.model_index == context.lead_model_index,
        is_first_session=context.is_first,
        rank=rank,
        origin=origin,
        source_group=source_group,
        target_contribution_id=target,
        flags=() if context.chunks else _flag(context, payload),
        expected=stage.expected_output_artifacts
        if payload.output_type == stage.output_type
        else (),
        max_output_tokens=context.max_output_tokens,
        temperature=None if angle is None else angle.temperature,
        compressor=compressor,
        chunks=context.chunks,
        continuation=get_shared_prompt(context.process, CONTINUATION),
        repair=_find_repair(context.process),
        look=find_look(context.process, stage, part),
        originals=_list_originals(words, is_about_one=target is not None),
        left_out=_list_left_out(context, stage, payload),
    )


def _list_left_out(
    context: JobContext, stage: Stage, payload: PlanPayload | ExecutePayload
) -> tuple[str, ...]:
    """List what is missing from the work that leads to a document."""
    sampled = list_left_out(
        context.process,
        models=len(context.get_seats(stage.slug)),
        until=(stage.slug, payload.output_type),
    )
    return (*sampled, *context.list_lost(stage))


def _find_repair(process: Process) -> Repair | None:
    name = process.file.repair_prompt_name
    return None if name is None else Repair(name, process.prompts[name])


def _list_originals(words: Words, *, is_about_one: bool) -> tuple[Item, ...]:
    """List the texts that an answer must not merely repeat.

    What is made from one document alone, and is not about it, may be that document: merging it with
    nothing changes nothing.
    """
    has_several = is_about_one or len(words.inputs) > 1
    return (words.request, *(words.inputs if has_several else ()))


def build_name(payload: TurnPayload, relation: Relation) -> ContributionName:
    """Build the name of the files that a turn writes."""
    return ContributionName(
        model=payload.seat_name or slugify_model(payload.model_name),
        n=payload.ordinal,
        contribution_type=payload.output_type,
        relation=relation,
        version=payload.edition,
    )


def _gather_words(
    context: JobContext, stage: Stage, job_id: UUID, payload: PlanPayload | ExecutePayload
) -> Words:
    if context.chunks:
        return resume_words(context)
    if isinstance(payload, PlanPayload):
        words = gather_stage_words(context, stage)
    else:
        words = _gather_step_words(context, stage, job_id, payload)
    angle = context.find_angle(payload.model_index)
    return words if angle is None else replace(words, seat=angle.name, stance=angle.stance)


def resume_words(context: JobContext, template: str | None = None) -> Words:
    """Read the words of the first turn, for a later one."""
    opening = context.chunks[0].opening
    assert opening is not None, "the first turn keeps its prompt"
    return Words.from_opening(opening, context.process, template)


def gather_stage_words(context: JobContext, stage: Stage) -> Words:
    """Gather the words of a stage's own prompt.

    In a stage without steps, every seat gets this prompt, and its angle if it has one. In a stage
    with steps, it only lists the earlier outputs, and each job has its own prompt.
    """
    rules = stage.list_sources()
    if stage.steps:
        listing = tuple(
            _place(text) for rule in rules for text in _sort(_select(context, stage, rule))
        )
        steps = tuple(
            (step.name, _build_instructions(context, stage, step)) for step in stage.steps
        )
        words = build_words(context, stage, stage, listing=listing)
        return replace(words, steps=steps)
    seed = uuid5(context.session_id, f"{context.iteration}:{stage.slug}")
    inputs: list[Item] = []
    for rule in rules:
        texts = _select(context, stage, rule)
        if rule.required and not texts:
            raise PlanError(
                f"Stage {stage.slug!r} cannot start: its input {rule.type!r} is missing.",
                reason="nothing_to_read",
                subject=rule.type,
            )
        inputs.extend(label_all(context, rule.header, texts, seed))
    if not rules:
        header = f"Outcome of iteration {context.iteration - 1}"
        inputs.extend(label_all(context, header, list(context.texts.values()), seed))
    return build_words(context, stage, stage, inputs=tuple(inputs))


def _build_instructions(context: JobContext, stage: Stage, step: Step) -> Words:
    """Build the words of a step for readers: its inputs are named and not given."""
    named = tuple(Item(rule.header, "") for rule in step.list_sources())
    return build_words(context, stage, step, inputs=named)


def _gather_step_words(
    context: JobContext, stage: Stage, job_id: UUID, payload: ExecutePayload
) -> Words:
    step = stage.load_step(payload.step_name)
    inputs: list[Item] = []
    for number, rule in enumerate(step.inputs_required):
        given = [context.texts[i.contribution_id] for i in payload.inputs if i.rule == number]
        inputs.extend(label_all(context, rule.header, given, job_id))
    return build_words(context, stage, step, inputs=tuple(inputs))


def build_words(
    context: JobContext,
    stage: Stage,
    part: Stage | Step,
    *,
    inputs: tuple[Item, ...] = (),
    listing: tuple[str, ...] = (),
) -> Words:
    """Build the words of the prompt of a stage or step: the shared texts and its own inputs."""
    template_name = part.prompt_template_name
    return Words(
        template_name=template_name,
        template=context.process.prompts[template_name],
        domain=context.domain,
        guidance=context.process.get_guidance(context.domain, template_name),
        request=Item("Original request", context.request),
        context=tuple(
            Item(given.type.replace("_", " ").capitalize(), given.content)
            for given in context.context
        ),
        feedback=(*_gather_feedback(context, stage), *_gather_rulings(context, stage)),
        inputs=inputs,
        listing=listing,
        overlay=context.overlay,
        base=_name_base(context, inputs),
        length=part.length,
    )


def _name_base(context: JobContext, inputs: Sequence[Item]) -> str:
    """Name the only input that the lead wrote, by its label; empty for none or several."""
    by_lead = [
        item.label
        for item in inputs
        if item.source_id is not None
        and item.source_id in context.texts
        and context.texts[item.source_id].model_index == context.lead_model_index
    ]
    return by_lead[0] if len(by_lead) == 1 < len(inputs) else ""


def _select(context: JobContext, stage: Stage, rule: InputRule) -> list[Text]:
    kind = rule.get_kind(stage)
    return [text for text in context.texts.values() if (text.stage_slug, text.type) == kind]


def _sort(texts: Sequence[Text]) -> list[Text]:
    return sorted(texts, key=lambda text: (text.origin, text.model_index, text.rank))


def _place(text: Text) -> str:
    return text.path.rsplit("/", 1)[-1]


def label_all(context: JobContext, header: str, texts: Sequence[Text], reader: UUID) -> list[Item]:
    """Label documents neutrally, in an order that differs for each reader."""
    by_id = {text.id: text for text in texts}
    order = [by_id[i] for i in order_for_reader(reader, [text.id for text in _sort(texts)])]
    labels = tell_apart([_label(context, header, text) for text in order])
    return [label_text(label, text) for label, text in zip(labels, order, strict=True)]


def label_text(label: str, text: Text) -> Item:
    """Build the item of a document that a turn reads."""
    return Item(label, text.content, text.id, text.version_id)


def _label(context: JobContext, header: str, text: Text | Target) -> str:
    return build_label(
        header,
        session_id=context.session_id,
        models=context.seats_first or len(context.models),
        origin=text.origin,
        model_index=text.model_index,
        is_origin=text.is_origin,
    )


# -- feedback ------------------------------------------------------------------------------------


def _gather_feedback(context: JobContext, stage: Stage) -> list[Item]:
    """List one item for each earlier stage with user feedback, oldest first.

    The first stage of an iteration reads the feedback on all stages of the previous iteration.
    """
    position = context.process.position(stage.slug)
    headers = {
        rule.stage_slug: rule.header
        for rule in stage.inputs_required
        if rule.is_feedback and rule.stage_slug
    }
    items = []
    for iteration in (context.iteration - 1, context.iteration):
        for earlier in context.process.order:
            is_now = iteration == context.iteration
            if is_now and context.process.position(earlier.slug) >= position:
                break
            entries = [
                said
                for said in context.feedback
                if (said.iteration, said.stage) == (iteration, earlier.slug)
            ]
            if not entries:
                continue
            header = headers.get(earlier.slug, f"User feedback on the stage {earlier.display_name}")
            label = header if is_now else f"{header}, iteration {iteration}"
            items.append(Item(label, "\n\n".join(_say(context, said) for said in entries)))
    return items


def _gather_rulings(context: JobContext, stage: Stage) -> list[Item]:
    """List one item with the rulings on all earlier stages, of any iteration; none without."""
    here = context.iteration, context.process.position(stage.slug)
    made = [
        one
        for one in context.rulings
        if (one.iteration, context.process.position(one.stage)) < here
    ]
    return [Item(RULINGS, build_rulings(made))] if made else []


def _say(context: JobContext, entry: Feedback) -> str:
    """Render one feedback entry, with a neutral label for its target."""
    said = entry.content.strip()
    if entry.rating is not None:
        said = f"Rated {entry.rating} of 5. {said}".strip()
    if entry.target is None:
        return said
    header = entry.target.type.replace("_", " ").capitalize()
    return f"On {_label(context, header, entry.target)}: {said}"


# -- names and marks ------------------------------------------------------------------------------


def _flag(context: JobContext, payload: PlanPayload | ExecutePayload) -> tuple[str, ...]:
    """Flag a document that a model wrote about its own document."""
    match payload:
        case ExecutePayload(inputs=(one,), target_contribution_id=target):
            is_own = context.texts[one.contribution_id].model_index == payload.model_index
            return (SELF_CRITIQUE,) if is_own and one.contribution_id == target else ()
        case _:
            return ()
