"""Every event of a session, its place in a stream, and the one parse of it. Pure.

A class per type says what `data` holds. Fields have one spelling here; on the wire some keep the
names that clients have always known (`WIRE_NAMES`). Clients ignore types and fields that a newer
server adds: an unknown type is an `UnknownEvent`, an unknown field stays in `model_extra`.
"""

from __future__ import annotations

import functools
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, Union
from uuid import UUID

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    PlainSerializer,
    TypeAdapter,
    ValidationError,
    create_model,
)
from pydantic.json_schema import JsonSchemaValue, SkipJsonSchema

from dialectic.contract.board import BoardDocument
from dialectic.contract.contributions import ContributionFields
from dialectic.contract.problems import KnownRemedy
from dialectic.core import sse

# The types of change events, whose classes are in `changes`.
CHANGES = frozenset(
    {
        "jobs_changed",
        "session_changed",
        "document_changed",
        "money_changed",
        "feedback_changed",
        "project_changed",
        "chat_changed",
    }
)

WIRE_NAMES = {
    "session_id": "sessionId",
    "project_id": "projectId",
    "stage_slug": "stageSlug",
    "iteration_number": "iterationNumber",
    "model_id": "modelId",
    "continuation_number": "continuationNumber",
}

# As the stream writes it: with the offset, not with "Z".
Moment: TypeAlias = Annotated[datetime, PlainSerializer(datetime.isoformat, when_used="json")]


# -- what the types of events say -----------------------------------------------------------------


class EventPart(BaseModel):
    """A part of an event; clients keep fields that they do not know."""

    model_config = ConfigDict(frozen=True, extra="allow", defer_build=True)


class SessionEvent(EventPart):
    """The data of an event of a session."""

    model_config = ConfigDict(
        alias_generator=lambda name: WIRE_NAMES.get(name, name),
        validate_by_name=True,
        serialize_by_alias=True,
    )
    type: ClassVar[str]

    session_id: UUID


class StageEvent(SessionEvent):
    """The data of an event of one stage."""

    stage_slug: str
    iteration_number: int


class StageStarted(StageEvent):
    """A stage has begun: its first job has all it needs. A planned stage is not told of."""

    type = "contribution_generation_started"

    total_steps: int = Field(description="How many documents are planned.")


class StageAdvanced(StageEvent):
    """A stage was planned, or one of its documents was written."""

    type = "dialectic_progress_update"

    current_step: int = Field(description="How many documents of the stage are written.")
    total_steps: int = Field(description="How many documents of the stage are planned.")
    message: str = Field(
        description="What is being done, and how far that step is.",
        examples=["Merging critiques: 4 of 9", "39 documents planned"],
    )
    job_id: UUID | None = Field(default=None, description="Absent when the stage was planned.")


class StageEnded(StageEvent):
    """All jobs of a stage have ended."""

    type = "contribution_generation_complete"

    status: str = Field(examples=["complete", "failed", "cancelled"])
    completed: int = Field(description="How many models have finished.")
    failed: int
    cancelled: int


class ReceivedContribution(ContributionFields, EventPart):
    """A contribution's row, with an excerpt in place of its text."""

    excerpt: str = Field(
        description="The beginning of the text, without headings and markup; empty if it has none."
    )

    session_id: UUID
    job_id: UUID | None
    user_id: UUID | None
    model_id: UUID | None
    model_index: int | None
    rank: int | None
    origin: int | None
    source_group: UUID | None
    source_contribution_ids: list[UUID]
    read_version_ids: list[UUID]
    words_hash: str | None
    target_contribution_id: UUID | None
    original_model_contribution_id: UUID | None
    is_latest_edit: bool
    raw_response_storage_path: str | None
    mime_type: str
    size_bytes: int
    prompt_template_name: str | None
    usage_source: str | None
    raw_finish_reason: str | None
    provider_request_id: str | None
    processing_time_ms: int | None
    manifest: dict[str, JsonValue] | None
    created_at: Moment


class ContributionReceived(SessionEvent):
    """A contribution was written by a model or by a user."""

    type = "dialectic_contribution_received"

    job_id: UUID | None = Field(description="Null for an edit by a user.")
    is_continuing: bool
    contribution: ReceivedContribution
    document: BoardDocument | None = Field(
        default=None, description="The same as a board shows it now; absent where no board is."
    )


class SavedChunk(EventPart):
    """One turn of a contribution, without its text."""

    id: UUID
    root_contribution_id: UUID
    turn_index: int
    model_name: str
    storage_path: str
    size_bytes: int
    tokens_used_input: int
    tokens_used_output: int


class ContributionContinued(StageEvent):
    """An answer was cut off or lacks something; it is saved as a chunk, and another turn is due."""

    type = "contribution_generation_continued"

    project_id: UUID
    job_id: UUID
    model_id: UUID
    continuation_number: int = Field(description="The number of the turn that is due.")
    reason: str = Field(
        default="cut_off",
        examples=[
            "cut_off",
            "sections_requested",
            "rewrite_requested",
            "look_requested",
            "repeated_turn",
        ],
    )
    chunk: SavedChunk


class AnswerLimited(StageEvent):
    """The available money allowed only a shorter answer than the model could give."""

    type = "contribution_generation_limited"

    job_id: UUID
    model_id: UUID
    model_name: str
    turn_index: int
    max_output_tokens: int = Field(description="The limit that the answer got.")
    limited_from_tokens: int = Field(description="The limit without the lack of money.")


class DocumentLacking(StageEvent):
    """A contribution lacks promised documents, is incomplete or repeats one of its inputs."""

    type = "contribution_documents_missing"

    job_id: UUID
    contribution_id: UUID
    model_name: str
    missing: list[str] = Field(
        description="The keys of the promised documents.", examples=[["risks"]]
    )
    is_incomplete: bool
    is_copy: bool


class PlanTakenOver(StageEvent):
    """The lead wrote no checklist; that of another model fills Pending/."""

    type = "plan_taken_from_another_model"

    job_id: UUID
    contribution_id: UUID = Field(description="The contribution with the checklist.")
    model_name: str


class EventError(EventPart):
    """Why a job failed, pauses or is retried."""

    code: str
    message: str
    remedy: KnownRemedy


class JobErrorEvent(StageEvent):
    """The data of an event about a job's error."""

    job_id: UUID
    error: EventError


class JobRetrying(JobErrorEvent):
    """A job failed and will be retried."""

    type = "contribution_generation_retrying"

    retry_in_s: float | None = Field(default=None, description="When the next attempt starts.")


class JobFailed(JobErrorEvent):
    """A job failed for good."""

    type = "contribution_generation_failed"


class JobPaused(JobErrorEvent):
    """A job waits for a user."""

    type = "contribution_generation_paused"


class PlanFileKept(SessionEvent):
    """The plan changed, but a person had worked on a file of it: its new version is next to it."""

    type = "plan_file_kept"

    project_id: UUID
    kept_path: str = Field(description="The person's file, or where it was. It is left alone.")
    new_path: str = Field(description="The file's new version.")
    reason: Literal["changed", "moved"] = Field(description="`moved` also if it was deleted.")


class SessionPaused(SessionEvent):
    """A user paused the session."""

    type = "session_paused"


class SessionResumed(SessionEvent):
    """A user resumed the session."""

    type = "session_resumed"


class SessionCancelled(SessionEvent):
    """A user cancelled the session."""

    type = "session_cancelled"


class SeatChanged(SessionEvent):
    """A seat left the session, or has another model; the session goes on."""

    type = "session_seat_changed"

    stage_slug: str
    iteration_number: int
    seat: int
    model_name: str
    change: str = Field(examples=["failed", "dropped", "replaced"])
    remaining: int = Field(description="How many seats the session has now.")
    job_id: UUID | None = Field(default=None, description="The job that failed, if one did.")
    error: EventError | None = Field(default=None, description="Why it failed.")


EVENT_TYPES: tuple[type[SessionEvent], ...] = (
    StageStarted,
    StageAdvanced,
    ContributionReceived,
    ContributionContinued,
    AnswerLimited,
    DocumentLacking,
    PlanTakenOver,
    StageEnded,
    JobRetrying,
    JobFailed,
    JobPaused,
    PlanFileKept,
    SessionPaused,
    SessionResumed,
    SessionCancelled,
    SeatChanged,
)


# -- events in a stream ---------------------------------------------------------------------------


class StreamItem(EventPart):
    """One item of an event stream."""

    # The id of its frame, which is not part of the JSON.
    resume_id: SkipJsonSchema[str | None] = Field(default=None, exclude=True)


class Event(StreamItem):
    """An event with its number, its time and its session."""

    id: int = Field(
        description="Grows by one within a tenant; of a change event, that of the event before it."
    )
    type: str
    created_at: Moment
    session_id: UUID | None
    is_internal_event: bool = Field(description="It updates views; false for a message to a user.")
    data: EventPart


class UnknownEvent(Event):
    """An event whose type this version does not know. All its fields are kept."""


class NotificationEvent(UnknownEvent):
    """A message to a user."""

    is_internal_event: Literal[False]
    notification_id: int
    title: str | None
    message: str | None
    link_path: str | None
    remedy: KnownRemedy = None


class SessionSnapshot(EventPart):
    """The current state of a session."""

    id: UUID
    project_id: UUID
    project_name: str
    status: str
    current_stage_slug: str
    iteration_count: int
    stage_status: str | None
    finished_units: int | None
    planned_units: int | None


class StateReset(StreamItem):
    """The state of sessions, in place of events that are not available. Forget earlier events."""

    type: ClassVar[str] = "state"

    reset: Literal[True] = True
    reason: str = Field(examples=["unknown", "too_old"])
    sessions: list[SessionSnapshot]


class Draft(StreamItem):
    """A piece of an answer that is still being written, for those who asked for drafts.

    It has no id: drafts are not stored, not resumed, and some may be missing.
    """

    type: ClassVar[str] = "draft"

    session_id: UUID
    job_id: UUID
    attempt: int = Field(description="A new attempt begins the text again.")
    turn: int = Field(description="Which turn of the document it is, from 0.")
    phase: str = Field(
        description="What the call does. A new phase comes without text.", examples=["writing"]
    )
    at: int = Field(
        description="Where the piece begins in the text of its turn, in Unicode characters. If it "
        "is beyond what you have, read the whole draft."
    )
    text: str = Field(description="As the provider sent it: text, never HTML.")
    words: int = Field(description="The words of the turn so far.")


# All that a stream may hold; drafts only if they were asked for.
AnyStreamItem: TypeAlias = Event | StateReset | Draft


@functools.cache
def build_event_adapter() -> TypeAdapter[Event]:
    """Build the union of all known events; their `type` tells them apart."""
    known: Any = Union[tuple(map(build_event_model, EVENT_TYPES))]  # noqa: UP007  from a list
    return TypeAdapter(Annotated[known, Field(discriminator="type")])


def build_event_model(data: Any) -> type[Event]:
    """Build the class of an event from that of its data."""
    kind: Any = Literal[data.type]
    name = f"{data.__name__}Event"
    return create_model(name, __base__=Event, __doc__=data.__doc__, type=kind, data=data)


def build_stream_schema(ref_template: str) -> JsonSchemaValue:
    """Describe the JSON of every item of a stream."""
    from dialectic.contract.changes import build_change_adapter

    known = build_event_adapter().json_schema(ref_template=ref_template)
    changes = build_change_adapter().json_schema(ref_template=ref_template)
    other: TypeAdapter[Any] = TypeAdapter(NotificationEvent | StateReset | Draft)
    others = other.json_schema(ref_template=ref_template)
    shapes = {**changes.pop("$defs"), **known.pop("$defs"), **others["$defs"]}
    named = [ref_template.format(model=name) for name in ("KnownEvent", "ChangeEvent")]
    return {
        "$defs": {**shapes, "KnownEvent": known, "ChangeEvent": changes},
        "oneOf": [*({"$ref": name} for name in named), *others["anyOf"]],
        "x-events": {
            **known["discriminator"]["mapping"],
            **changes["discriminator"]["mapping"],
        },
    }


_OTHERS: TypeAdapter[NotificationEvent | UnknownEvent] = TypeAdapter(
    Annotated[NotificationEvent | UnknownEvent, Field(union_mode="left_to_right")]
)


def parse_event(frame: sse.Event) -> Event | StateReset:
    """Parse one stored event of a stream; `ValueError` if a known type lacks a field."""
    item = parse_item(frame)
    if isinstance(item, Draft):
        raise ValueError("a draft is not an event")
    return item


def parse_item(frame: sse.Event) -> AnyStreamItem:
    """Parse one item of a stream; `ValueError` if a known type lacks a field."""
    return _parse(frame.name, frame.text).model_copy(update={"resume_id": frame.id})


def _parse(name: str, text: str) -> AnyStreamItem:
    if name == StateReset.type:
        return StateReset.model_validate_json(text)
    if name == Draft.type:
        return Draft.model_validate_json(text)
    if name in CHANGES:
        from dialectic.contract.changes import build_change_adapter

        return build_change_adapter().validate_json(text)
    try:
        return build_event_adapter().validate_json(text)
    except ValidationError as error:
        if error.errors(include_url=False)[0]["type"] != "union_tag_invalid":
            raise
    return _OTHERS.validate_json(text)
