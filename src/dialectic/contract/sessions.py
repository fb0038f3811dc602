"""Requests and responses about sessions, what is done with them, and quotes. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import (
    BaseModel,
    Field,
    model_validator,
)

from dialectic.contract.base import (
    Dollars,
    DollarsInput,
    ModelName,
    Name,
    RequestBody,
    ResponseBody,
    Slug,
)
from dialectic.contract.contributions import RATING_MAX, RATING_MIN
from dialectic.contract.projects import RESOURCES_MAX, ResourceRequest
from dialectic.core.models.model import MODELS_PER_SESSION_MAX
from dialectic.core.process.definition import SHRINK_MAX
from dialectic.core.run_request import TOKENS_MAX

# `name*3` is written out by whoever reads it.
Models = Annotated[
    list[ModelName],
    Field(
        min_length=1,
        max_length=MODELS_PER_SESSION_MAX,
        description="Who argues; `name*3` or a name that is repeated asks one several times.",
        examples=[["offline/architect", "offline/skeptic"]],
    ),
]


OutputTokens = Annotated[
    int, Field(ge=1, le=TOKENS_MAX, strict=True, description="Cap on one answer's length.")
]


class SessionRequest(RequestBody):
    """Who argues about a project's prompt, by which process, and how far."""

    models: Models | None = Field(
        default=None, description="The server's default models if absent."
    )
    process: Slug = Field(
        default="standard", description="A process that the server knows by name."
    )
    until: Slug | None = Field(
        default=None, description="The last stage; the process's last if absent."
    )
    lead: ModelName | None = Field(
        default=None, description="The model whose last documents count; else the first."
    )
    is_autopilot: bool = Field(
        default=True, strict=True, description="Whether stages follow each other by themselves."
    )
    continue_until_complete: bool = Field(
        default=True, strict=True, description="Whether answers that are cut off are gone on with."
    )
    max_output_tokens: OutputTokens | None = None
    budget: DollarsInput | None = None
    shrink: int = Field(
        default=0,
        ge=0,
        le=SHRINK_MAX,
        strict=True,
        description="How many of the things to leave out that the process can do without.",
    )


class SessionChange(RequestBody):
    """What is to be different in a session; what is absent stays."""

    models: Models | None = Field(default=None, description="Only before the first stage begins.")
    budget: DollarsInput | None = Field(default=None, description="US dollars; null for no limit.")
    continue_until_complete: bool | None = Field(default=None, strict=True)
    max_output_tokens: OutputTokens | None = Field(default=None, description="Null for no cap.")

    def is_taken_away(self, name: str) -> bool:
        """Say whether a limit was given as null, and not just left as it is."""
        return name in self.model_fields_set and getattr(self, name) is None


class StageProgress(ResponseBody):
    """One stage of one iteration, and how far it is."""

    stage: str
    iteration: int
    status: str = Field(examples=["generating"])
    planned: int = Field(description="How many documents it will have.")
    finished: int
    started_at: datetime | None
    completed_at: datetime | None


class SessionSummary(ResponseBody):
    """A session in a list."""

    id: UUID
    project_id: UUID
    project_name: str
    status: str = Field(examples=["generating_thesis"])
    current_stage: str
    iteration: int
    model_count: int
    created_at: datetime


class Session(SessionSummary):
    """A session."""

    models: list[str]
    lead: str
    process: str
    until: str
    is_autopilot: bool
    continue_until_complete: bool
    max_output_tokens: int | None
    budget: Dollars | None
    spent: Dollars
    play_spent: Dollars = Field(description="Of models that cost nothing.")
    stages: list[StageProgress]


class SessionQuote(BaseModel, extra="allow"):
    """What is left of a session, reckoned: calls, tokens, money and time, in all and by stage."""

    process: str
    models: list[str]
    planned_calls: int
    expected: dict[str, int]
    worst: dict[str, int]
    money: dict[str, Any]
    time_s: dict[str, float]
    stages: list[dict[str, Any]]
    forecast: dict[str, Any]


RESPONSES_MAX = 500


class CreatedJobs(ResponseBody):
    """Jobs that were made; workers carry them out."""

    job_ids: list[UUID]


class ResponseRequest(RequestBody):
    """What you say about one contribution."""

    contribution_id: UUID
    text: str = Field(default="", examples=["Think of winter too."])
    rating: int | None = Field(default=None, ge=RATING_MIN, le=RATING_MAX, strict=True)

    @model_validator(mode="after")
    def _says_something(self) -> ResponseRequest:
        if not self.text.strip() and self.rating is None:
            msg = "say something, or rate it"
            raise ValueError(msg)
        return self


class SubmitRequest(RequestBody):
    """What you say about the stage that is complete, before the next one starts."""

    responses: list[ResponseRequest] = Field(default=[], max_length=RESPONSES_MAX)
    feedback: str = Field(default="", description="About the stage as a whole.")


class ResumeJobRequest(RequestBody):
    """How one job goes on."""

    approve_spend: bool = Field(
        default=False, description="Make the calls that were too dear to be made unasked."
    )


class ResumeRequest(ResumeJobRequest):
    """How a session goes on."""

    budget: DollarsInput | None = Field(
        default=None, description="The most the session may spend in all, from now on."
    )


class FeedbackRequest(RequestBody):
    """What you say about a stage, or about one of its contributions."""

    stage: Slug = Field(examples=["thesis"])
    text: str = Field(min_length=1, examples=["Think of winter too."])
    contribution_id: UUID | None = None


class SavedFeedback(ResponseBody):
    """Feedback that was kept."""

    path: str = Field(description="Where all feedback on the stage stands.")


class SessionDetail(ResponseBody):
    """Everything about a session at a glance, as records."""

    session: dict[str, Any]
    stages: list[dict[str, Any]]
    jobs: list[dict[str, Any]]
    contributions: list[dict[str, Any]]
    last_event: int = Field(description="The number of the last event of all that there is.")
    has_news: bool = Field(description="Whether the session has an event behind `after`.")
    quote: dict[str, Any] | None = Field(description="What is left, line by line, if asked for.")


class QuoteRequest(SessionRequest):
    """A run that nobody has started."""

    prompt: str = Field(min_length=1, examples=["A booking service for a village hall."])
    domain: Name = Field(default="General", examples=["General"])
    resources: list[ResourceRequest] = Field(default=[], max_length=RESOURCES_MAX)
    lists_smaller: bool = Field(default=False, description="Also what can be left out.")


class CheaperRun(ResponseBody):
    """The same run with more left out."""

    rungs: int = Field(description="The `shrink` that it takes.")
    left_out: str
    lines: dict[str, Any]


class RunQuote(ResponseBody):
    """What a run would cost."""

    quote: dict[str, Any] = Field(description="Calls, tokens, money and time, in all and by stage.")
    lines: dict[str, Any] = Field(description="The same line by line, of which all else is sums.")
    models: list[str]
    has_chosen_models: bool = Field(description="Nobody has named models, nor set any.")
    shrink: int = Field(description="How much is left out, so that the budget suffices.")
    fits: bool = Field(description="Whether it then does.")
    left_out: list[str]
    smaller: list[CheaperRun]
