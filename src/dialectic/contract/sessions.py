"""Requests and responses about sessions, session actions and quotes. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Self
from uuid import UUID

from pydantic import Field, SkipValidation, model_validator

from dialectic.contract.base import (
    Column,
    Dollars,
    DollarsInput,
    ModelName,
    RequestBody,
    ResponseBody,
    Slug,
)
from dialectic.contract.contributions import (
    RATING_MAX,
    RATING_MIN,
)
from dialectic.contract.projects import (
    Project,
    ProjectFields,
)
from dialectic.contract.quotes import WorkQuote
from dialectic.contract.session_detail import PlanSource as PlanSource
from dialectic.contract.session_detail import SessionDetail as SessionDetail
from dialectic.contract.session_detail import SessionRecord as SessionRecord
from dialectic.contract.session_detail import StageRecord as StageRecord
from dialectic.contract.summaries import SessionSummary as SessionSummary
from dialectic.core.documents.staleness import Kept
from dialectic.core.models.model import MODELS_PER_SESSION_MAX
from dialectic.core.process.definition import SHRINK_MAX, Process
from dialectic.core.run_request import TOKENS_MAX

# The route expands `name*3`.
Models = Annotated[
    list[ModelName],
    Field(
        min_length=1,
        max_length=MODELS_PER_SESSION_MAX,
        description="The models; `name*3` or a repeated name asks one model several times.",
        examples=[["offline/architect", "offline/skeptic"]],
    ),
]


OutputTokens = Annotated[
    int, Field(ge=1, le=TOKENS_MAX, strict=True, description="The output limit of one answer.")
]


FULL_ANSWERS = "Whether calls wait for money rather than get a shorter answer for lack of it."


class SessionOptions(RequestBody):
    """The options of a session. Those that are columns of its row have the columns' names."""

    models: Models | None = Field(
        default=None, description="The server's default models if absent."
    )
    session_description: str = Field(
        default="",
        description="What this session is about beyond the project's prompt. Every prompt has it.",
        examples=["This time for the winter months only."],
    )
    until: Slug | None = Field(
        default=None, description="The last stage; the process's last if absent."
    )
    lead: ModelName | None = Field(
        default=None,
        description="The model whose final documents are the result; the first if absent.",
    )
    is_autopilot: bool = Field(
        default=True,
        strict=True,
        description="Whether each stage starts the next one automatically.",
    )
    pause_on_dissent: bool = Field(
        default=False,
        strict=True,
        description="Whether a stage that left a weighty dissent open waits for you, although the "
        "session is on autopilot.",
    )
    continue_until_complete: bool = Field(
        default=True, strict=True, description="Whether truncated answers are continued."
    )
    wait_for_all: bool = Field(
        default=False,
        strict=True,
        description="Whether a stage fails when any seat fails, although the process could go on.",
    )
    max_output_tokens: OutputTokens | None = None
    full_answers_only: bool = Field(default=False, strict=True, description=FULL_ANSWERS)
    approve_spend: bool = Field(
        default=False,
        strict=True,
        description="Whether all calls of the session are approved that cost more than the share "
        "of the balance which needs no approval. Calls inside a budget never need one.",
    )
    budget: DollarsInput | None = None
    shrink: int = Field(
        default=0,
        ge=0,
        le=SHRINK_MAX,
        strict=True,
        description="How many of the process's optional parts to leave out.",
    )


class SessionRequest(SessionOptions):
    """Starts a session: its models, its process and its last stage."""

    process: Slug = Field(default="standard", description="The name of a process on the server.")


# What only a new project has; an existing one has them already.
OF_THE_PROJECT = ("name", "domain", "overlay")


class RunRequest(ProjectFields, SessionOptions):
    """Describes a run: a new project and its first session, or a further session of a project.

    The process is the name or the folder of one, or the process itself.
    """

    prompt: str = Field(
        default="",
        description="The question or task for the models, for a new project.",
        examples=["A booking service for a village hall that volunteers can run."],
    )
    project_id: UUID | None = Field(
        default=None,
        description="Instead of a prompt: the project that gets a further session. `resources` "
        "are added to it.",
    )
    process: SkipValidation[str | Process] = "standard"

    @model_validator(mode="after")
    def _has_one_project(self) -> Self:
        if bool(self.prompt) == (self.project_id is not None):
            msg = "give either a prompt, for a new project, or the id of a project"
            raise ValueError(msg)
        given = [name for name in OF_THE_PROJECT if name in self.model_fields_set]
        if self.project_id is not None and given:
            msg = f"{given[0]}: the project has one already; change the project instead"
            raise ValueError(msg)
        return self


class StartRequest(RunRequest):
    """Creates what a run needs and starts it, in one step."""

    process: Slug = Field(default="standard", description="The name of a process on the server.")
    start: bool = Field(
        default=True, strict=True, description="Whether the first stage starts at once."
    )


class SessionChange(RequestBody):
    """The fields of a session to change; absent fields stay as they are."""

    models: Models | None = Field(
        default=None,
        description="The models of the stages to come; only while no stage runs.",
    )
    budget: DollarsInput | None = Field(default=None, description="US dollars; null for no limit.")
    continue_until_complete: bool | None = Field(default=None, strict=True)
    wait_for_all: bool | None = Field(default=None, strict=True)
    max_output_tokens: OutputTokens | None = Field(default=None, description="Null for no cap.")
    full_answers_only: bool | None = Field(default=None, strict=True, description=FULL_ANSWERS)

    def is_taken_away(self, name: str) -> bool:
        """Tell whether the client set a limit to null, rather than omitting it."""
        return name in self.model_fields_set and getattr(self, name) is None


class SeatRequest(RequestBody):
    """Gives a seat another model."""

    model: ModelName


class Seat(ResponseBody):
    """One entry of a session's models; the same model may have several seats."""

    seat: int = Field(description="Its number, from 1; a seat keeps it for the whole session.")
    model: str
    angle: str | None = Field(description="What it argues for, if the process says so.")
    is_lead: bool
    has_left: bool = Field(description="It was dropped, or it failed and the others go on.")


class StageProgress(ResponseBody):
    """The progress of one stage of one iteration."""

    stage: Annotated[str, Column("stage_slug")]
    iteration: Annotated[int, Column("iteration_number")]
    status: str = Field(examples=["generating"])
    planned: Annotated[int, Column("planned_units")] = Field(
        description="The number of documents planned."
    )
    finished: Annotated[int, Column("finished_units")]
    seats: list[int] = Field(description="The seats that take part.")
    lost_seats: list[int] = Field(description="Those of them without which it goes on.")
    started_at: datetime | None
    completed_at: datetime | None


class Session(SessionSummary):
    """A session."""

    description: Annotated[str, Column("session_description")]
    models: Annotated[list[str], Column("model_names")] = Field(
        description="The models of all seats, by number, those that left included."
    )
    seats: list[Seat]
    lead: str
    process: Annotated[str, Column("process_name")]
    is_autopilot: bool
    pause_on_dissent: bool
    continue_until_complete: bool
    wait_for_all: bool
    max_output_tokens: int | None
    full_answers_only: bool
    budget: Annotated[Dollars | None, Column("budget_credits")]
    spent: Annotated[Dollars, Column("spent_credits")]
    play_spent: Annotated[Dollars, Column("play_spent_credits")] = Field(
        description="Play money spent on models that are free.",
    )
    stages: list[StageProgress]


class StartedRun(ResponseBody):
    """What a run consists of, and the first jobs if it was started."""

    project: Project
    session: Session
    job_ids: list[UUID]


class StaleDocument(ResponseBody):
    """A document that was written from an older version of another."""

    id: UUID = Field(description="Its newest version.")
    stage: str
    iteration: Annotated[int, Column("iteration_number")]
    type: Annotated[str, Column("contribution_type")] = Field(examples=["antithesis"])
    model: Annotated[str, Column("model_name")]
    seat: Annotated[int | None, Column("model_index")]
    path: Annotated[str, Column("storage_path")]
    job_id: UUID | None = Field(description="The open job that writes it again, if there is one.")
    kept: Kept | None = Field(
        description="Why it is left as it is: a person edited it, or its job was not imported."
    )


class StaleDocuments(ResponseBody):
    """The stale documents of a session, and what it costs to write them again."""

    documents: list[StaleDocument] = Field(description="In the order in which they are written.")
    kept: list[StaleDocument] = Field(description="Those that are left as they are.")
    quote: WorkQuote


RESPONSES_MAX = 500


class CreatedJobs(ResponseBody):
    """The new jobs; workers will run them."""

    job_ids: list[UUID]


class ResponseRequest(RequestBody):
    """Your response to one contribution."""

    contribution_id: UUID
    text: str = Field(default="", examples=["Think of winter too."])
    rating: int | None = Field(default=None, ge=RATING_MIN, le=RATING_MAX, strict=True)

    @model_validator(mode="after")
    def _says_something(self) -> ResponseRequest:
        if not self.text.strip() and self.rating is None:
            msg = "give a text or a rating"
            raise ValueError(msg)
        return self


class SubmitRequest(RequestBody):
    """Your responses to a complete stage; submitting them starts the next stage."""

    responses: list[ResponseRequest] = Field(default=[], max_length=RESPONSES_MAX)
    feedback: str = Field(default="", description="About the stage as a whole.")


class ResumeJobRequest(RequestBody):
    """Resumes one job."""

    approve_spend: bool = Field(
        default=False, description="Approve the calls that exceed the automatic spending limit."
    )


class ResumeRequest(ResumeJobRequest):
    """Resumes a session."""

    budget: DollarsInput | None = Field(
        default=None, description="The session's new spending limit, in total."
    )
    full_answers_only: bool | None = Field(default=None, strict=True, description=FULL_ANSWERS)
    stage: Slug | None = Field(
        default=None, description="Resume only the calls of this stage; all if absent."
    )


class DocumentsRequest(RequestBody):
    """Names documents of a session."""

    document_ids: list[UUID] | None = Field(
        default=None,
        min_length=1,
        max_length=RESPONSES_MAX,
        description="Any version of each; all that need it if absent.",
    )


class FeedbackRequest(RequestBody):
    """Your feedback on a stage or on one of its contributions."""

    stage: Slug = Field(examples=["thesis"])
    text: str = Field(min_length=1, examples=["Think of winter too."])
    contribution_id: UUID | None = None


class SavedFeedback(ResponseBody):
    """The saved feedback."""

    ids: list[UUID] = Field(description="The ids of the saved entries, in the order given.")
    path: str = Field(description="The file with all feedback on the stage.")


class SessionPlan(ResponseBody):
    """The plan of a session's last finished iteration, assembled from its documents."""

    session_id: UUID
    project_id: UUID
    iteration_number: int
    path: str | None = Field(
        description="Where the page is in storage; null if another session of the project finished "
        "an iteration later."
    )
    notices: list[str] = Field(description="What readers must know about the models, in sentences.")
    missing: list[str] = Field(description="The parts that no document has, such as `questions`.")
    content: str = Field(description="The page, as Markdown.")


class QuoteRequest(RunRequest):
    """Asks for a quote for a run that has not started."""

    process: Slug = Field(default="standard", description="The name of a process on the server.")
    lists_smaller: bool = Field(default=False, description="Also list smaller runs.")
