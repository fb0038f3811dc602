"""What a session page shows: the board, and the parts of it that events carry. Pure.

Each part has one shape in the board and in the events that replace it. Ids are those of the newest
version; a document is replaced by its `original_id`, everything else by its `id`.
"""

from __future__ import annotations

import enum
from datetime import UTC, datetime
from typing import Annotated, Literal, TypeAlias
from uuid import UUID

from pydantic import Field, PlainSerializer, WithJsonSchema

from dialectic.contract.base import Author, Column, Dollars, ResponseBody
from dialectic.contract.feedback import FeedbackKind, RulingVerdict
from dialectic.contract.problems import KnownRemedy
from dialectic.core.job_status import JobPhase, JobStatus
from dialectic.core.process.definition import Strategy
from dialectic.core.session_state import NeedCode, NeedStep, SessionAction

# To the millisecond.
Millisecond: TypeAlias = Annotated[
    datetime,
    PlainSerializer(
        lambda at: at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        return_type=str,
        when_used="json",
    ),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
CURSOR = "Continue the event stream here: send it as `after` or `Last-Event-ID`."


class BoardProject(ResponseBody):
    """The project of a session."""

    id: UUID
    name: str
    prompt_excerpt: str = Field(description="The beginning of its prompt, as plain text.")


class BoardProcess(ResponseBody):
    """The process of a session."""

    name: str
    title: str


class BoardSeat(ResponseBody):
    """One entry of a session's models; the same model may have several seats."""

    index: int = Field(description="Its number, from 1; a seat keeps it for the whole session.")
    model: str
    label: str = Field(description="The model without its provider, for narrow places.")
    angle: str | None = Field(description="What it argues for, if the process says so.")
    is_lead: bool
    is_play: bool = Field(description="It costs play money.")
    has_left: bool = Field(description="It was dropped, or it failed and the others go on.")


class BoardSession(ResponseBody):
    """A session, with what it waits for and what a user can do with it."""

    id: UUID
    project: BoardProject
    status: str = Field(examples=["generating_antithesis"])
    status_text: str = Field(description="The status in words, for people.")
    current_stage: str
    blocked_by: NeedCode | None = Field(
        description="Why nothing goes on by itself, although no user paused it; null if it does."
    )
    iteration: int = Field(description="The iteration that is shown.")
    iterations: int
    until: str
    process: BoardProcess
    is_autopilot: bool
    pause_on_dissent: bool
    continue_until_complete: bool
    wait_for_all: bool
    full_answers_only: bool
    max_output_tokens: int | None
    seats: list[BoardSeat]
    allowed: list[SessionAction] = Field(description="What its state allows a user to do.")
    created_at: datetime
    updated_at: datetime = Field(description="When something of it last happened.")


class BoardStep(ResponseBody):
    """A step of a stage; a stage without steps has one of its own name."""

    key: str = Field(examples=["pairwise"])
    title: str
    strategy: Strategy = Field(description="How the inputs are dealt to the calls.")
    output_type: str
    is_intermediate: bool
    planned: int
    finished: int


class StageState(enum.StrEnum):
    """Where a stage is."""

    NOT_BEGUN = "not_begun"
    WAITING = "waiting"
    GENERATING = "generating"
    COMPLETE = "complete"
    FAILED = "failed"
    CANCELLED = "cancelled"


class BoardStage(ResponseBody):
    """A stage of the process, also one that has not begun."""

    slug: str
    title: str
    description: str
    position: int
    iteration: int
    status: StageState
    waits_for_person_after: bool = Field(description="The session stops after it for feedback.")
    planned: int = Field(description="How many documents it will have, drafts included.")
    finished: int
    running: int
    failed: int
    seats: list[int] = Field(description="The seats that take part.")
    lost_seats: list[int] = Field(description="Those of them without which it goes on.")
    started_at: datetime | None
    completed_at: datetime | None
    steps: list[BoardStep]


class NeedFigures(ResponseBody):
    """The numbers of a reason or a need."""

    needed: Dollars | None = Field(default=None, description="What one call may cost at most.")
    left: Dollars | None = Field(default=None, description="What is left of the limit.")
    of: Literal["budget", "wallet"] | None = Field(default=None, description="Which limit.")
    limit: Dollars | None = Field(default=None, description="The budget, if it is the limit.")
    is_play: bool = False
    count: int | None = Field(default=None, description="How many documents or calls.")


class Reason(ResponseBody):
    """Why a call failed or waits. People read words made of code and figures."""

    code: str = Field(examples=["insufficient_funds"])
    message: str
    at: datetime | None = None
    attempt: int | None = None
    figures: NeedFigures | None = None
    remedy: KnownRemedy = None


class JobKind(enum.StrEnum):
    """What a job does: one model call, shortening for one, or planning calls."""

    CALL = "call"
    COMBINE = "combine"
    PLAN = "plan"


# Fields that differ between rows come first, those that are mostly equal last: it packs better.


class BoardJob(ResponseBody):
    """A call, or a job that shortens inputs for one."""

    id: UUID
    document_id: UUID | None = Field(description="The document that it has written.")
    about_id: UUID | None = Field(description="The document that its own is about.")
    reads: list[UUID] = Field(description="The documents that it reads, by their first versions.")
    seat: int | None
    rank: int | None
    words: int = Field(description="Words received so far, while it is running.")
    charged: Dollars
    created_at: Millisecond
    started_at: Millisecond | None
    first_token_at: Millisecond | None
    completed_at: Millisecond | None
    stage: Annotated[str, Column("stage_slug")]
    step: str
    kind: JobKind
    iteration: Annotated[int, Column("iteration_number")]
    status: JobStatus
    phase: JobPhase | None = Field(description="What it is doing or waiting for; null if neither.")
    waits_for: list[UUID] = Field(description="The jobs that must end before it runs.")
    turn: int = Field(description="How many turns are saved; one more may be running.")
    attempt: Annotated[int, Column("attempt_count")]
    retries: Annotated[int, Column("retry_count")]
    retry_at: Millisecond | None
    reason: Reason | None = Field(description="Why it waits or failed.")
    errors: list[Reason]


class Shortened(ResponseBody):
    """How far the inputs of a document were shortened."""

    items: int
    before: int = Field(description="Tokens of the prompt before shortening.")
    after: int


class Points(ResponseBody):
    """What a critique says of the points of its subject."""

    keep: int
    change: int


class Ratings(ResponseBody):
    """The ratings of a document by all users."""

    count: int
    mean: float | None


class DocumentPart(ResponseBody):
    """A promised document, extracted from a document."""

    key: str
    id: UUID
    title: str


class BoardDocument(ResponseBody):
    """A document in its newest version, without its text."""

    id: UUID
    original_id: UUID = Field(description="The id of its first version; others refer to it by it.")
    job_id: UUID | None
    about_id: UUID | None
    origin_id: UUID | None = Field(description="The first document that it descends from.")
    source_ids: list[UUID]
    labels: dict[str, UUID] = Field(
        description="What its text calls the documents it read.",
        examples=[{"Thesis B": "…"}],
    )
    title: str
    excerpt: str
    words: int
    size_bytes: int
    input_tokens: Annotated[int | None, Column("tokens_used_input")]
    output_tokens: Annotated[int | None, Column("tokens_used_output")]
    charged: Dollars
    duration_ms: Annotated[int | None, Column("processing_time_ms")]
    created_at: Millisecond
    rank: int | None
    seat: int | None
    model: Annotated[str, Column("model_name")]
    stage: str
    step: str
    type: Annotated[str, Column("contribution_type")]
    iteration: Annotated[int, Column("iteration_number")]
    version: Annotated[int, Column("edit_version")]
    versions: int
    by: Author | None = Field(description="The user who wrote this version; null for a model.")
    finish_reason: str | None
    is_intermediate: bool
    is_incomplete: bool
    is_stale: bool
    flags: list[str]
    shortened: Shortened | None
    points: Points | None = Field(default=None, description="Of a critique, when it is known.")
    my_rating: int | None = Field(
        default=None, description="Yours. Absent in events, which are the same for all users."
    )
    ratings: Ratings
    parts: list[DocumentPart]


class BoardFeedback(ResponseBody):
    """What a user said about a stage or a document, or how they rated it."""

    id: UUID
    session_id: UUID
    stage: Annotated[str, Column("stage_slug")]
    iteration: Annotated[int, Column("iteration_number")]
    kind: Annotated[FeedbackKind, Column("feedback_type")]
    document_id: UUID | None = Field(description="The first version of the document.")
    text: str
    rating: int | None
    subject_id: UUID | None = Field(description="The claim or dissent that a ruling decides.")
    subject: str | None = Field(description="What is said there.")
    position_id: UUID | None = Field(description="The position of a dissent that a ruling is for.")
    verdict: RulingVerdict | None
    withdrawn_at: datetime | None = Field(description="Since when a ruling no longer counts.")
    by: Author
    created_at: datetime


class StageMoney(ResponseBody):
    """What a stage has cost, and what it is expected to cost in all."""

    stage: str
    spent: Dollars
    expected: Dollars | None = Field(description="Null if it cannot be estimated.")


class SeatMoney(ResponseBody):
    """What the calls of a seat have cost."""

    seat: int
    spent: Dollars


class SessionMoney(ResponseBody):
    """What a session has cost and will cost; dollars, or play money if all seats are free."""

    is_play: bool
    spent: Dollars
    play_spent: Dollars = Field(description="Play money, apart from dollars.")
    held: Dollars = Field(description="Reserved for calls in flight.")
    forecast: Dollars | None = Field(description="Expected in all; null if it is unknown.")
    worst: Dollars | None = Field(description="The most that it can cost in all.")
    quoted: Dollars | None = Field(description="What was expected when the session began.")
    budget: Dollars | None
    seconds_left: float | None
    by_stage: list[StageMoney]
    by_seat: list[SeatMoney]


class NeedAction(ResponseBody):
    """One way out of a need."""

    do: NeedStep
    amount: Dollars | None = Field(default=None, description="The new budget, or what to add.")
    price: Dollars | None = Field(default=None, description="What it is expected to cost.")
    seat: int | None = None
    model: str | None = None
    setting: str | None = None


class BoardNeed(ResponseBody):
    """Something that waits for a person."""

    code: NeedCode
    stage: str | None
    jobs: list[UUID]
    documents: list[UUID]
    since: datetime | None
    reason: Reason | None = Field(description="The first of the reasons, if there are several.")
    figures: NeedFigures | None
    actions: list[NeedAction] = Field(description="What helps, the best first.")


class PlanStepFile(ResponseBody):
    """A file of the agreed plan, as it was written; a person may have changed or moved it."""

    path: str
    title: str
    steps: int
    document_id: UUID | None


class Board(ResponseBody):
    """Everything that a session page shows, in one snapshot."""

    cursor: str = Field(description=CURSOR)
    session: BoardSession
    stages: list[BoardStage] = Field(description="All stages of the process, in order.")
    jobs: list[BoardJob]
    documents: list[BoardDocument] = Field(
        description="Without those of intermediate steps, unless they are asked for."
    )
    feedback: list[BoardFeedback]
    money: SessionMoney
    needs: list[BoardNeed]
    plan: list[PlanStepFile]
