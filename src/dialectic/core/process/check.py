"""Check a process as a whole, beyond its single fields. Pure; every error names its place.

A place is the file, then the stage and the step by name, then the field. Errors of form are told
together, the first broken rule by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from dialectic.core.documents.file_paths import ContributionName, StageFolder
from dialectic.core.documents.headings import list_clashes
from dialectic.core.documents.prompts import list_variables
from dialectic.core.job import COMBINED
from dialectic.core.process.definition import (
    FEEDBACK,
    FORMS,
    REPAIR,
    SECOND_LOOK,
    SHARED_PROMPTS,
    Angle,
    ExpectedDocument,
    InputRule,
    Kind,
    Length,
    OnChildFailure,
    Overflow,
    Overlay,
    PointsRule,
    Process,
    ProcessFile,
    Scope,
    Shrink,
    Stage,
    Step,
    Strategy,
    Transition,
)
from dialectic.core.process.makers import list_look_errors, list_reader_errors, makes_own
from dialectic.core.process.points import list_points_errors
from dialectic.core.process.reductions import list_sample_errors, list_shrink_errors
from dialectic.core.strict_json import Json
from dialectic.core.suggestion import find_near
from dialectic.errors import InvalidProcess, UsageError

# The variables of every prompt.
VARIABLES = frozenset(
    "domain request context feedback inputs listing guidance "
    "words base overlay seat stance steps".split()
)

# How many kinds of contribution a strategy reads; None for any number.
KINDS_READ = {
    Strategy.PER_SOURCE_DOCUMENT: 1,
    Strategy.PAIRWISE_BY_ORIGIN: 2,
    Strategy.PER_SOURCE_GROUP: 1,
    Strategy.PER_SOURCE_DOCUMENT_BY_LINEAGE: 1,
    Strategy.ALL_TO_ONE: None,
    Strategy.PER_MODEL: None,
}

# By the name of a list: what an entry is called, and its model.
_ENTRIES: dict[str, tuple[str, type[BaseModel]]] = {
    "stages": ("stage", Stage),
    "steps": ("step", Step),
    "transitions": ("transition", Transition),
    "shrink": ("shrink", Shrink),
    "seats": ("seat", Angle),
    "inputs_required": ("inputs_required", InputRule),
    "expected_output_artifacts": ("expected_output_artifacts", ExpectedDocument),
    "points": ("points", PointsRule),
}

# By the name of a field that holds one object: its model.
_OBJECTS: dict[str, type[BaseModel]] = {"length": Length}

Model = TypeVar("Model", bound=BaseModel)
ERRORS_SHOWN_MAX = 5


def build_process(
    content: Json,
    prompts: dict[str, str],
    overlays: list[Json],
    *,
    place: str,
    overlay_places: Sequence[str] = (),
) -> Process:
    """Check a process and order its stages."""
    file = _parse(ProcessFile, content, place)
    _raise_first(place, _list_errors(file, prompts))
    order = _order_stages(file, place)
    _raise_first(place, _list_input_errors(order))
    names = _list_prompts(file) | (SHARED_PROMPTS.keys() - {REPAIR, SECOND_LOOK}) & prompts.keys()
    used = {name: prompts[name] for name in sorted(names)}
    places = overlay_places or [f"{place}: overlay {n}" for n in range(1, len(overlays) + 1)]
    built: dict[str, Overlay] = {}
    for overlay_content, overlay_place in zip(overlays, places, strict=True):
        overlay = _parse(Overlay, overlay_content, overlay_place)
        _raise_first(overlay_place, _list_overlay_errors(file, overlay, built, used))
        built[overlay.domain] = overlay
    return Process(file, used, dict(sorted(built.items())), order)


def _build_error(place: str, message: str, reason: str) -> InvalidProcess:
    return InvalidProcess(f"{place}: {message}", reason=reason, subject=place)


def _raise_first(place: str, errors: Iterator[str]) -> None:
    for error in errors:
        raise _build_error(place, error, "broken_rule")


def _parse(model: type[Model], content: Json, place: str) -> Model:
    try:
        return model.model_validate(content)
    except ValidationError as error:
        raise _build_error(place, _describe(error, content, model), "bad_form") from None


def _describe(error: ValidationError, content: Any, whole: type[BaseModel]) -> str:
    """Describe the validation errors, up to a few.

    Unknown fields come first: a misspelled one explains why another is missing.
    """
    found = error.errors(include_url=False, include_input=False)
    found.sort(key=lambda one: one["type"] != "extra_forbidden")
    told = [_describe_one(one, content, whole) for one in found[:ERRORS_SHOWN_MAX]]
    if len(found) > len(told):
        told.append(f"There are {len(found) - len(told)} more errors.")
    return " ".join(told)


def _describe_one(first: ErrorDetails, content: Any, whole: type[BaseModel]) -> str:
    """Describe one error: its place, by names, and what is expected there."""
    words: list[str] = []
    holder, last_list = whole, ""
    node = content
    for part in first["loc"]:
        if isinstance(part, int):
            node = node[part]
            word, holder = _ENTRIES.get(last_list, (last_list, whole))
            words[-1] = f"{word} {_name_entry(node, part)}"
        else:
            node = node.get(part) if isinstance(node, dict) else None
            last_list, holder = part, _OBJECTS.get(part, holder)
            words.append(f"`{part}`")
    match first["type"]:
        case "missing":
            wanted = "it is missing"
        case "extra_forbidden":
            near = find_near(last_list, holder.model_fields)
            hint = f"; the nearest is `{near}`" if near is not None else ""
            known = ", ".join(holder.model_fields)
            wanted = f"this field does not exist; known fields: {known}{hint}"
        case "string_pattern_mismatch":
            wanted = f"it must be {FORMS[first['ctx']['pattern']]}"
        case _:
            wanted = first["msg"]
    return f"{': '.join(words) or 'the file'}: {wanted}."


def _name_entry(node: Any, index: int) -> str:
    names = (
        [node.get(key) for key in ("slug", "name", "key", "type", "heading")]
        if type(node) is dict
        else []
    )
    return next((repr(n[:80]) for n in names if isinstance(n, str) and n), str(index + 1))


def _list_prompts(file: ProcessFile) -> set[str]:
    names = {name for s in file.stages for name in (s.system_prompt_name, s.prompt_template_name)}
    names |= {step.prompt_template_name for s in file.stages for step in s.steps}
    names |= {SECOND_LOOK for s in file.stages if s.has_second_look}
    return names | ({file.repair_prompt_name} if file.repair_prompt_name else set())


def _find_double(names: Iterable[str]) -> str | None:
    return next((name for name, count in Counter(names).items() if count > 1), None)


def _list_errors(file: ProcessFile, prompts: Mapping[str, str]) -> Iterator[str]:
    if double := _find_double(file.domains):
        yield f"`domains`: {double!r} appears twice; remove one."
    if double := _find_double(stage.slug for stage in file.stages):
        yield f"stage {double!r}: two stages have this `slug`; rename one."
    for name in sorted(SHARED_PROMPTS.keys() & prompts.keys()):
        known = SHARED_PROMPTS[name]
        yield from _list_template_errors(
            f"shared prompt {name!r}",
            name,
            prompts,
            known=known,
            needed=sorted(known - {"copied", "next_step"}),
        )
    for stage in file.stages:
        where = f"stage {stage.slug!r}"
        yield from _list_name_errors(where, stage.slug, stage.output_type)
        yield from _list_prompt_errors(where, stage, prompts)
        yield from _list_step_order_errors(where, stage)
        yield from list_look_errors(where, stage)
        yield from _list_document_errors(where, stage.expected_output_artifacts)
        yield from list_points_errors(where, stage, prompts)
        for step in stage.steps:
            inner = f"{where}: step {step.name!r}"
            yield from _list_name_errors(inner, stage.slug, step.output_type)
            yield from _list_template_errors(
                f"{inner}: `prompt_template_name`",
                step.prompt_template_name,
                prompts,
                needed=("request", "inputs"),
            )
            yield from _list_length_errors(inner, step, prompts)
            yield from _list_step_errors(inner, step)
            yield from list_sample_errors(inner, step)
    if (repair := file.repair_prompt_name) is not None:
        yield from _list_template_errors(
            "`repair_prompt_name`",
            repair,
            prompts,
            known=SHARED_PROMPTS[REPAIR],
            needed=("sections",),
        )
    yield from list_shrink_errors(file)
    yield from _list_seat_errors(file, prompts)


def _list_seat_errors(file: ProcessFile, prompts: Mapping[str, str]) -> Iterator[str]:
    if double := _find_double(angle.name.casefold() for angle in file.seats):
        yield f"`seats`: two seats have the `name` {double!r}; rename one."
    used = (name for name in _list_prompts(file) if name in prompts)
    if file.seats and not any("stance" in list_variables(name, prompts[name]) for name in used):
        yield (
            "`seats`: no prompt uses 'stance', so no model would see it; write {{ stance }} where "
            "it belongs."
        )


def _list_name_errors(where: str, stage_slug: str, output_type: str) -> Iterator[str]:
    """Check names by the rules for paths that patterns cannot express: device names, lengths."""
    try:
        StageFolder("project", "0" * 8, 1, 1, stage_slug)
    except UsageError as error:
        yield f"{where}: `slug`: {error.message}"
    try:
        ContributionName("model", 1, output_type)
    except UsageError as error:
        yield f"{where}: `output_type`: {error.message}"
    if output_type in (FEEDBACK, COMBINED):
        yield f"{where}: `output_type`: {output_type!r} is reserved; choose another word."


def _list_prompt_errors(where: str, stage: Stage, prompts: Mapping[str, str]) -> Iterator[str]:
    yield from _list_template_errors(
        f"{where}: `system_prompt_name`", stage.system_prompt_name, prompts
    )
    needed: tuple[str, ...] = ()
    if not stage.steps:  # then this prompt is sent to the models, not just shown to readers
        needed = ("request", "inputs") if stage.list_sources() else ("request",)
    yield from _list_template_errors(
        f"{where}: `prompt_template_name`", stage.prompt_template_name, prompts, needed=needed
    )
    yield from _list_length_errors(where, stage, prompts)


def _list_length_errors(
    where: str, part: Stage | Step, prompts: Mapping[str, str]
) -> Iterator[str]:
    """Check that a length and the prompt that gives it to the model belong together."""
    name, length = part.prompt_template_name, part.length
    if isinstance(part, Stage) and part.steps:
        if length is not None:
            yield f"{where}: `length`: the stage has steps; set it in the steps."
        return
    if length is not None and length.words_max is not None and length.words_max < length.words_min:
        yield f"{where}: `length`: `words_max` is less than `words_min`; raise it."
    uses = "words" in list_variables(name, prompts[name])
    if uses and length is None:
        yield f"{where}: prompts/{name}.md uses 'words', but `length` is missing; add it."
    if length is not None and not uses:
        yield (
            f"{where}: `length`: prompts/{name}.md never uses 'words', so the model would not see "
            "it; write {{ words }} where it belongs."
        )


def _list_template_errors(
    where: str,
    name: str,
    prompts: Mapping[str, str],
    *,
    known: frozenset[str] = VARIABLES,
    needed: Sequence[str] = (),
) -> Iterator[str]:
    if name not in prompts:
        yield f"{where} is {name!r}, but prompts/{name}.md does not exist next to the process file."
        return
    try:
        found = list_variables(name, prompts[name])
    except InvalidProcess as error:
        yield f"{where}: prompts/{name}.md: {error.message}"
        return
    if unknown := sorted(found - known):
        names = ", ".join(sorted(known)) or "none"
        yield f"{where}: prompts/{name}.md uses unknown variable {unknown[0]!r}. Known: {names}."
    if lost := [variable for variable in needed if variable not in found]:
        yield (
            f"{where}: prompts/{name}.md never uses {lost[0]!r}, so the model would not see it; "
            f"write {{{{ {lost[0]} }}}} where it belongs."
        )


def _list_step_order_errors(where: str, stage: Stage) -> Iterator[str]:
    if not stage.steps:
        return
    if stage.expected_output_tokens is not None:
        yield (f"{where}: `expected_output_tokens`: the stage has steps; set it in the steps.")
    if double := _find_double(step.name for step in stage.steps):
        yield f"{where}: step {double!r}: two steps have this `name`; rename one."
    if double := _find_double(step.output_type for step in stage.steps):
        yield f"{where}: two steps have the `output_type` {double!r}; each step needs its own."
    *others, last = stage.steps
    if last.output_type != stage.output_type:
        yield (
            f"{where}: `output_type` is {stage.output_type!r}, but the last step {last.name!r} "
            f"makes {last.output_type!r}; they must be equal."
        )
    if last.is_intermediate:
        yield (
            f"{where}: step {last.name!r}: `is_intermediate`: the last step makes the stage's "
            "documents; leave it out."
        )
    for step in others:
        if not step.is_intermediate:
            yield (
                f"{where}: step {step.name!r}: `is_intermediate`: only the last step makes the "
                "stage's documents; set it to true."
            )


def _list_document_errors(where: str, documents: Sequence[ExpectedDocument]) -> Iterator[str]:
    field = f"{where}: `expected_output_artifacts`"
    for document in documents:
        if (document.heading is None) == (document.json_key is None):
            yield f"{field} {document.key!r}: give either `heading` or `json_key`."
    if double := _find_double(document.key for document in documents):
        yield f"{field}: two documents have the `key` {double!r}; rename one."
    for document in documents:
        if document.synonyms and document.heading is None:
            yield f"{field} {document.key!r}: `synonyms` are for a `heading`; remove them."
    for clash in list_clashes(documents):
        yield f"{field}: two documents have the title or synonym {clash!r}; change one."
    if double := _find_double(d.json_key for d in documents if d.json_key is not None):
        yield f"{field}: two documents have the `json_key` {double!r}; change one."


def _list_step_errors(where: str, step: Step) -> Iterator[str]:
    if step.overflow is Overflow.RETRIEVE and not _begins_lineage(step):
        yield (
            f"{where}: `overflow`: {Overflow.RETRIEVE.value!r} searches all inputs together, so it "
            f"goes with {Strategy.ALL_TO_ONE} and {Strategy.PER_MODEL}; use "
            f"{Overflow.COMPRESS.value!r} or {Overflow.COMBINE.value!r}."
        )
    if (step.on_child_failure is OnChildFailure.QUORUM) != (step.quorum_min is not None):
        yield f"{where}: `quorum_min`: required with on_child_failure = 'quorum', and only with it."
    kinds = step.list_sources()
    wanted = KINDS_READ[step.granularity_strategy]
    if wanted is not None and len(kinds) != wanted:
        yield (
            f"{where}: `inputs_required`: {step.granularity_strategy} reads {wanted} kind(s) of "
            f"contribution, but {len(kinds)} are named."
        )
    elif not kinds:
        yield f"{where}: `inputs_required`: no kind of contribution is named; name what it reads."


def _order_stages(file: ProcessFile, place: str) -> tuple[Stage, ...]:
    """Follow the transitions from the starting stage; they must reach every stage once."""
    stages = {stage.slug: stage for stage in file.stages}
    following: dict[str, str] = {}
    for arrow in file.transitions:
        for end in (arrow.source, arrow.target):
            if end not in stages:
                message = f"a transition names {end!r}, which is not a stage."
                raise _build_error(place, message, "no_stage")
        if arrow.source in following:
            message = f"stage {arrow.source!r} has two transitions out of it; remove one."
            raise _build_error(place, message, "two_transitions")
        following[arrow.source] = arrow.target
    slug: str | None = file.starting_stage
    if slug not in stages:
        message = f"`starting_stage` is {slug!r}, which is not a stage."
        raise _build_error(place, message, "no_stage")
    order: dict[str, Stage] = {}
    while slug is not None:
        if slug in order:
            message = f"the transitions form a cycle through {slug!r}; remove one."
            raise _build_error(place, message, "circle")
        order[slug] = stages[slug]
        slug = following.get(slug)
    if lost := stages.keys() - order.keys():
        message = f"stage {min(lost)!r} is not reached from the start; add a transition to it."
        raise _build_error(place, message, "unreached_stage")
    return tuple(order.values())


def _list_input_errors(order: Sequence[Stage]) -> Iterator[str]:
    """Check that every input is made earlier and has the lineage that its strategy needs."""
    origins: dict[Kind, Kind] = {}
    earlier: dict[str, Stage] = {}
    for stage in order:
        where = f"stage {stage.slug!r}"
        yield from _list_rule_errors(where, stage.inputs_required, stage, earlier, origins)
        for step in stage.steps:
            inner = f"{where}: step {step.name!r}"
            yield from _list_rule_errors(inner, step.inputs_required, stage, earlier, origins)
            yield from list_reader_errors(inner, step, stage)
            kinds = [rule.get_kind(stage) for rule in step.list_sources()]
            yield from _list_lineage_errors(inner, step, kinds, origins)
            made = (stage.slug, step.output_type)
            origins[made] = made if _begins_lineage(step) else origins[kinds[0]]
        if not stage.steps:
            made = (stage.slug, stage.output_type)
            origins[made] = made
        earlier[stage.slug] = stage


def _begins_lineage(step: Step) -> bool:
    return step.granularity_strategy in (Strategy.ALL_TO_ONE, Strategy.PER_MODEL)


def _list_rule_errors(
    where: str,
    rules: Sequence[InputRule],
    stage: Stage,
    earlier: Mapping[str, Stage],
    made: Mapping[Kind, Kind],
) -> Iterator[str]:
    where = f"{where}: `inputs_required`"
    named: set[Kind] = set()
    for rule in rules:
        source, _ = kind = rule.get_kind(stage)
        if kind in named:
            yield f"{where}: {rule.type!r} of stage {source!r} is named twice; remove one."
        named.add(kind)
        if source != stage.slug and source not in earlier:
            known = ", ".join(earlier) or "none"
            yield f"{where}: stage {source!r} does not come before this one. Earlier: {known}."
        elif rule.is_feedback and source == stage.slug:
            yield f"{where}: {FEEDBACK!r}: name the earlier stage with `stage_slug`."
        elif not rule.is_feedback and kind not in made:
            known = ", ".join(type_ for slug, type_ in made if slug == source) or "nothing"
            yield (
                f"{where}: no earlier step makes {rule.type!r} in stage {source!r}. "
                f"Made so far: {known}."
            )
        elif rule.scope is Scope.OWN and not makes_own(stage, earlier.get(source, stage)):
            yield (
                f"{where}: `scope`: only the lead makes {rule.type!r} of stage {source!r}, so "
                "other models have none of their own; use 'all'."
            )


def _list_lineage_errors(
    where: str, step: Step, kinds: Sequence[Kind], origins: Mapping[Kind, Kind]
) -> Iterator[str]:
    where = f"{where}: `inputs_required`"
    match step.granularity_strategy:
        case Strategy.PAIRWISE_BY_ORIGIN:
            first, second = kinds
            if first == second or origins[second] != first:
                yield (
                    f"{where}: {second[1]!r} does not descend from {first[1]!r}, so they form "
                    "no pairs; name the origin first and what was made from it second."
                )
        case Strategy.PER_SOURCE_GROUP | Strategy.PER_SOURCE_DOCUMENT_BY_LINEAGE:
            if origins[kinds[0]] == kinds[0]:
                yield (
                    f"{where}: {kinds[0][1]!r} descends from nothing, so it has no groups; use "
                    f"{Strategy.PER_SOURCE_DOCUMENT} or {Strategy.ALL_TO_ONE}."
                )
        case Strategy.PER_SOURCE_DOCUMENT | Strategy.ALL_TO_ONE | Strategy.PER_MODEL:
            pass


def _list_overlay_errors(
    file: ProcessFile, overlay: Overlay, built: Mapping[str, Overlay], prompts: Mapping[str, str]
) -> Iterator[str]:
    if overlay.domain not in file.domains:
        known = ", ".join(file.domains)
        yield f"`domain` is {overlay.domain!r}, which the process does not have. It has: {known}."
    if overlay.domain in built:
        yield f"`domain` is {overlay.domain!r}, which already has an overlay."
    for name in sorted(overlay.guidance):
        if name not in prompts:
            yield f"`guidance`: no stage and no step uses a prompt {name!r}."
        elif "guidance" not in list_variables(name, prompts[name]):
            yield f"`guidance`: prompts/{name}.md never uses 'guidance', so this has no effect."
