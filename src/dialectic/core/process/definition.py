"""A process as data: stages, steps, inputs and prompts. Uses no files and no database.

A process is checked as a whole when it is loaded, and pinned to a session by the hash of its whole
content: a session keeps the process it started with, even if the files change.

The tables hold a stage's recipe and its expected documents as JSON, with the keys of the process
file. Defaults are written out, so that queries need not know them.
"""

from __future__ import annotations

import enum
import functools
import hashlib
import json
from dataclasses import dataclass
from typing import Annotated, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt

from dialectic.core.strict_json import Json
from dialectic.core.suggestion import suggest
from dialectic.errors import NotFound

Kind: TypeAlias = tuple[str, str]
"""A kind of contribution: the slug of the stage that makes it, and its type."""

FEEDBACK = "feedback"
STAGES_MAX = 20
STEPS_MAX = 20
SHRINK_MAX = 20
SYNONYMS_MAX = 20
ANGLES_MAX = 20
POINTS_MAX = 100
STANCE_CHARS_MAX = 1_000
TEMPERATURE_MAX = 2.0
EXPECTED_TOKENS_MAX = 1_000_000
WORDS_MAX = 1_000_000
# The length in words is rounded: a model cannot count to the last word.
WORDS_STEP = 50

# The prompt that asks for missing sections, or for a document in place of a copy.
REPAIR = "repair"
# The prompt that shows a finished document what it lost, for parts with a second look.
SECOND_LOOK = "second_look"
# Prompts that every process has, and the variables of each. A process without one of them uses
# that of the standard process; `repair` only if the process names it as its `repair_prompt_name`,
# `second_look` only if one of its parts has a second look.
SHARED_PROMPTS = {
    "abstract": frozenset({"purpose", "text", "words"}),
    "continuation": frozenset({"place", "tail"}),
    "merge": frozenset({"inputs", "budget_words"}),
    "merge_system": frozenset[str](),
    REPAIR: frozenset({"sections", "copied"}),
    SECOND_LOOK: frozenset({"request", "document", "omissions", "next_step"}),
}

# The pattern of each kind of name, and its description. Names that become parts of file names
# must also meet the rules of `core.documents.file_paths`; `core.process.check` checks that.
SLUG = r"^[a-z0-9][a-z0-9-]{0,63}$"
STAGE_SLUG = r"^[a-z][a-z0-9-]{0,39}$"
STEP_NAME = r"^[a-z][a-z0-9_]{0,39}$"
OUTPUT_TYPE = r"^[a-z][a-z0-9]*(_[a-z][a-z0-9]*)*$"
DOCUMENT_KEY = r"^[a-z][a-z0-9]*(_[a-z0-9]+)*$"
HEADING = r"^#{1,6} \S([^\r\n]*\S)?$"
ONE_LINE = r"^\S([^\r\n]*\S)?$"
FORMS = {
    SLUG: "1 to 64 of a-z, 0-9 and -",
    STAGE_SLUG: "at most 40 of a-z, 0-9 and -, a letter first",
    STEP_NAME: "at most 40 of a-z, 0-9 and _, a letter first",
    OUTPUT_TYPE: "words of a-z and 0-9 joined by _, each with a letter first",
    DOCUMENT_KEY: "words of a-z and 0-9 joined by _, a letter first",
    HEADING: "a heading as in the answer, such as '## Risks'",
    ONE_LINE: "one line of text without spaces around it",
}


class Strategy(enum.StrEnum):
    """How `pipeline.strategies` distributes the inputs of a step to its child jobs."""

    PER_SOURCE_DOCUMENT = "per_source_document"
    PAIRWISE_BY_ORIGIN = "pairwise_by_origin"
    PER_SOURCE_GROUP = "per_source_group"
    PER_SOURCE_DOCUMENT_BY_LINEAGE = "per_source_document_by_lineage"
    ALL_TO_ONE = "all_to_one"
    PER_MODEL = "per_model"


class Scope(enum.StrEnum):
    """Whose documents are read: the model's own, or those of all models."""

    OWN = "own"
    ALL = "all"


class Makers(enum.StrEnum):
    """Which seats make the documents of a stage."""

    ALL = "all"
    LEAD = "lead"


class OnChildFailure(enum.StrEnum):
    """What a step does when one of its jobs fails permanently."""

    ALL = "all"
    QUORUM = "quorum"
    ANY = "any"


class Angles(enum.StrEnum):
    """Which seats take the angles of a process: those of a repeated model, or all."""

    REPEATED = "repeated"
    ALWAYS = "always"


class Overflow(enum.StrEnum):
    """What a job does when its inputs do not fit the model's context window."""

    COMPRESS = "compress"
    COMBINE = "combine"
    RETRIEVE = "retrieve"


class Compressor(enum.StrEnum):
    """How a text is compressed: by extracting passages, or by a model's summary."""

    EXTRACT = "extract"
    ABSTRACT = "abstract"


class Holds(enum.StrEnum):
    """What the points of a section are: `dialectic.provenance` traces and counts them by it."""

    CLAIM = "claim"
    OBJECTION = "objection"
    REQUIREMENT = "requirement"
    TAKEN = "taken"
    REFUSED = "refused"
    DECISION = "decision"
    QUESTION = "question"
    STEP = "step"
    ASIDE = "aside"  # repeats what other sections say: counts for nothing


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class InputRule(_Part):
    """One kind of document to read: a type of contribution, or the user's feedback."""

    type: str = Field(pattern=OUTPUT_TYPE, max_length=40)
    # The stage that made it; the step's own stage if absent.
    stage_slug: str | None = None
    scope: Scope = Scope.ALL
    # Without such a document the job cannot run.
    required: StrictBool = True
    header: str = Field(pattern=ONE_LINE, max_length=80)

    @property
    def is_feedback(self) -> bool:
        return self.type == FEEDBACK

    def get_kind(self, stage: Stage) -> Kind:
        """Get the kind of contribution that this rule reads in a stage."""
        return (self.stage_slug or stage.slug, self.type)

    def name_awaited(self, model_index: int) -> str:
        """Name what a model's plan job waits for: a type, or the model's own of that type.

        A job that made a document uses this name to find the plan jobs to wake.
        """
        return self.type if self.scope is Scope.ALL else f"{self.type}@{model_index}"


class ExpectedDocument(_Part):
    """A document to extract from a finished answer, by a heading or by a JSON key."""

    key: str = Field(pattern=DOCUMENT_KEY, max_length=40)
    title: str = Field(min_length=1)
    heading: str | None = Field(default=None, pattern=HEADING)
    # Other titles that models give to this section.
    synonyms: tuple[Annotated[str, Field(pattern=ONE_LINE, max_length=80)], ...] = Field(
        default=(), max_length=SYNONYMS_MAX
    )
    json_key: str | None = Field(default=None, min_length=1)
    # For the lead model: each subsection becomes a file of the agreed plan, in Pending/.
    fills_pending: StrictBool = False


class PointsRule(_Part):
    """What a section of an answer holds, by its heading; `claim` where no rule says otherwise."""

    heading: str = Field(pattern=HEADING)
    holds: Holds
    # The step whose answers have the section; all answers of the stage if absent.
    step: str | None = Field(default=None, pattern=STEP_NAME)


class Length(_Part):
    """The least length of an answer, in words: a floor that grows with what is read."""

    words_min: StrictInt = Field(ge=1, le=WORDS_MAX)
    # The words of the answer for each word of its inputs.
    share_of_input: float = Field(default=0, ge=0, le=1, allow_inf_nan=False)
    # The floor never exceeds this, however much is read.
    words_max: StrictInt | None = Field(default=None, ge=1, le=WORDS_MAX)

    def compute_words(self, input_words: float) -> int:
        """Compute the floor for the words that are read, rounded to steps that a model can meet."""
        grown = round(input_words * self.share_of_input / WORDS_STEP) * WORDS_STEP
        floor = max(self.words_min, grown)
        return floor if self.words_max is None else min(floor, self.words_max)


class Step(_Part):
    """One step of a stage: what its jobs read and write."""

    name: str = Field(pattern=STEP_NAME)
    description: str = ""
    # What its jobs do, for progress messages: "Merging critiques".
    progress_label: str | None = Field(default=None, pattern=ONE_LINE, max_length=60)
    prompt_template_name: str
    granularity_strategy: Strategy
    output_type: str = Field(pattern=OUTPUT_TYPE, max_length=40)
    is_intermediate: StrictBool = False
    inputs_required: tuple[InputRule, ...] = Field(min_length=1)
    on_child_failure: OnChildFailure = OnChildFailure.ALL
    quorum_min: StrictInt | None = Field(default=None, ge=1)
    overflow: Overflow = Overflow.COMPRESS
    compressor: Compressor = Compressor.EXTRACT
    # How many models run each of its jobs, and how many documents that descend from one document
    # each model reads. `pipeline.strategies` chooses them.
    readers_max: StrictInt | None = Field(default=None, ge=1)
    per_source_max: StrictInt | None = Field(default=None, ge=1)
    # How long its answers are at least; a prompt gets it as `words`.
    length: Length | None = None
    # Whether a finished document is shown once what it lost of its inputs; of the last step.
    second_look: StrictBool = False
    # The typical length of one answer, for quotes without better data; by default it follows
    # `length`.
    expected_output_tokens: StrictInt | None = Field(default=None, ge=1, le=EXPECTED_TOKENS_MAX)

    @property
    def label(self) -> str:
        """The name of the step in progress messages."""
        return self.progress_label or self.name.replace("_", " ").capitalize()

    def list_sources(self) -> list[InputRule]:
        """List the rules that read contributions, not feedback."""
        return [rule for rule in self.inputs_required if not rule.is_feedback]

    @property
    def is_sampled(self) -> bool:
        """Whether the step leaves out some of its jobs."""
        return self.readers_max is not None or self.per_source_max is not None


class Stage(_Part):
    """One stage: what its makers write, in one call or in steps."""

    slug: str = Field(pattern=STAGE_SLUG)
    display_name: str = Field(min_length=1)
    description: str = ""
    # As in a step, for a stage without steps.
    progress_label: str | None = Field(default=None, pattern=ONE_LINE, max_length=60)
    system_prompt_name: str
    # The template of the seed prompt. In a stage without steps it is the whole prompt.
    prompt_template_name: str
    output_type: str = Field(pattern=OUTPUT_TYPE, max_length=40)
    makers: Makers = Makers.ALL
    inputs_required: tuple[InputRule, ...] = ()
    steps: tuple[Step, ...] = Field(default=(), max_length=STEPS_MAX)
    expected_output_artifacts: tuple[ExpectedDocument, ...] = ()
    points: tuple[PointsRule, ...] = Field(default=(), max_length=POINTS_MAX)
    # As in a step, for a stage without steps.
    compressor: Compressor = Compressor.EXTRACT
    length: Length | None = None
    second_look: StrictBool = False
    expected_output_tokens: StrictInt | None = Field(default=None, ge=1, le=EXPECTED_TOKENS_MAX)

    @property
    def label(self) -> str:
        """The name of the stage in progress messages."""
        return self.progress_label or self.display_name

    @property
    def parts(self) -> tuple[Step, ...] | tuple[Stage]:
        """Its steps; the stage itself if it has none."""
        return self.steps or (self,)

    def list_sources(self) -> list[InputRule]:
        """List the rules that read contributions, not feedback."""
        return [rule for rule in self.inputs_required if not rule.is_feedback]

    @property
    def has_second_look(self) -> bool:
        """Whether its documents are looked at once more when they are finished."""
        return self.parts[-1].second_look

    def list_awaited(self, model_index: int) -> tuple[str, ...]:
        """List what other stages must make before a model can start."""
        rules = [*self.list_sources(), *(r for step in self.steps for r in step.list_sources())]
        names = [
            rule.name_awaited(model_index)
            for rule in rules
            if rule.stage_slug not in (None, self.slug)
        ]
        return tuple(dict.fromkeys(names))

    def list_points(self, output_type: str) -> list[PointsRule]:
        """List what the sections of answers of a type hold."""
        steps = {step.name for step in self.steps if step.output_type == output_type}
        return [rule for rule in self.points if rule.step is None or rule.step in steps]

    def load_step(self, name: str) -> Step:
        return next(step for step in self.steps if step.name == name)

    def list_outputs(self) -> list[str]:
        """List the types of contribution that the stage makes, in order."""
        return [part.output_type for part in self.parts]


class Transition(_Part):
    """A transition between two stages."""

    source: str
    target: str


class Shrink(_Part):
    """A reduction that saves money: a step that reads less."""

    stage_slug: str
    step: str
    readers_max: StrictInt | None = Field(default=None, ge=1)
    per_source_max: StrictInt | None = Field(default=None, ge=1)


class Angle(_Part):
    """What one seat argues for, so that several seats of one model write different documents."""

    name: str = Field(pattern=ONE_LINE, max_length=40)
    stance: str = Field(pattern=ONE_LINE, max_length=STANCE_CHARS_MAX)
    # Sent to the models that accept one.
    temperature: float | None = Field(default=None, ge=0.0, le=TEMPERATURE_MAX)


class ProcessFile(_Part):
    """The process file as it is written."""

    name: str = Field(pattern=SLUG)
    title: str = Field(min_length=1)
    description: str = ""
    starting_stage: str
    # The prompt that asks once for missing sections, or for a document in place of a copy. Without
    # it nothing is asked for again.
    repair_prompt_name: str | None = None
    # The shipped process whose prompts and guidance it uses where its folder has none.
    prompts_from: str | None = Field(default=None, pattern=SLUG)
    domains: tuple[str, ...] = Field(default=("General",), min_length=1)
    stages: tuple[Stage, ...] = Field(min_length=1, max_length=STAGES_MAX)
    transitions: tuple[Transition, ...] = ()
    # In the order in which they are applied.
    shrink: tuple[Shrink, ...] = Field(default=(), max_length=SHRINK_MAX)
    # The angles of the seats, in turn.
    seats: tuple[Angle, ...] = Field(default=(), max_length=ANGLES_MAX)
    angles: Angles = Angles.REPEATED
    # With more seats than this, a stage goes on when this many have finished it and the others
    # have failed; without it every seat must finish.
    seats_min: StrictInt | None = Field(default=None, ge=1)


class Overlay(_Part):
    """What a domain adds to the prompts, by the prompt's name."""

    domain: str = Field(min_length=1)
    guidance: dict[str, str] = Field(default_factory=dict)


@dataclass(frozen=True)
class Process:
    """A checked process with its prompts: everything that a session needs."""

    file: ProcessFile
    prompts: dict[str, str]
    overlays: dict[str, Overlay]
    order: tuple[Stage, ...]

    # Equal content means equal: caches use a process as their key.
    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Process):
            return NotImplemented
        return self is other or self.content_hash == other.content_hash

    def __hash__(self) -> int:
        return hash(self.content_hash)

    @property
    def name(self) -> str:
        return self.file.name

    def as_definition(self) -> Json:
        """Build the complete content that is stored and hashed."""
        return {
            "file": self.file.model_dump(mode="json"),
            "prompts": self.prompts,
            "overlays": {name: o.model_dump(mode="json") for name, o in self.overlays.items()},
        }

    @functools.cached_property
    def content_hash(self) -> str:
        return hash_definition(self.as_definition())

    def load_stage(self, slug: str) -> Stage:
        for stage in self.order:
            if stage.slug == slug:
                return stage
        known = [stage.slug for stage in self.order]
        said = f"Process {self.name!r} has no stage {slug!r}. It has: {', '.join(known)}."
        raise NotFound(
            f"{said} {suggest(slug, known)}".rstrip(),
            reason="no_stage",
            subject=slug,
        )

    def position(self, slug: str) -> int:
        """Find a stage's place in the order, from 1."""
        return self.order.index(self.load_stage(slug)) + 1

    def find_next(self, slug: str) -> Stage | None:
        """Find the stage that follows; None after the last."""
        position = self.position(slug)
        return self.order[position] if position < len(self.order) else None

    def get_guidance(self, domain: str, prompt_name: str) -> str:
        """Get what a domain adds to a prompt; empty if nothing."""
        overlay = self.overlays.get(domain)
        return overlay.guidance.get(prompt_name, "") if overlay else ""


def hash_definition(definition: Json) -> str:
    """Hash the complete content of a process."""
    text = json.dumps(definition, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def build_input_rules(stage: Stage) -> Json:
    """Build a stage's recipe: what its seed prompt reads, then its steps, if it has any."""
    rules: Json = {
        "prompt_template_name": stage.prompt_template_name,
        "makers": stage.makers.value,
        "sources": [_build_source(rule, stage) for rule in stage.inputs_required],
    }
    if stage.steps:
        rules["processing_strategy"] = {"type": "task_isolation"}
        rules["steps"] = [
            _build_step(number, step, stage) for number, step in enumerate(stage.steps, start=1)
        ]
    return rules


def build_expected_output(stage: Stage) -> Json:
    """Build what a stage makes: the type of its contributions, and the documents in them."""
    documents = [
        document.model_dump(mode="json", exclude_none=True)
        for document in stage.expected_output_artifacts
    ]
    return {
        "output_type": stage.output_type,
        "documents": documents,
        "expected_output_tokens": stage.expected_output_tokens,
        "length": stage.length and stage.length.model_dump(mode="json"),
        "second_look": stage.second_look,
        "compressor": stage.compressor.value,
        "progress_label": stage.progress_label,
    }


def _build_step(number: int, step: Step, stage: Stage) -> Json:
    return {
        "step": number,
        **step.model_dump(mode="json", exclude={"inputs_required"}),
        "inputs_required": [_build_source(rule, stage) for rule in step.inputs_required],
    }


def _build_source(rule: InputRule, stage: Stage) -> Json:
    return {**rule.model_dump(mode="json"), "stage_slug": rule.stage_slug or stage.slug}
