"""What the API answers, typed. Frozen; what a newer server tells beside it is left unread."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Generic, TypeVar
from uuid import UUID

from pydantic import BaseModel

T = TypeVar("T")


class Answer(BaseModel, frozen=True):
    """Something that the API shows."""


class Page(Answer, Generic[T], frozen=True):
    """One page of a list."""

    items: list[T]
    next_cursor: str | None


# -- projects -------------------------------------------------------------------------------------


class ProjectLine(Answer, frozen=True):
    """A project in a list."""

    id: UUID
    name: str
    slug: str
    domain: str
    status: str
    created_at: datetime


class Project(ProjectLine, frozen=True):
    """A project."""

    prompt: str


class Resource(Answer, frozen=True):
    """A document or a resource, without its text."""

    id: UUID
    project_id: UUID
    session_id: UUID | None
    kind: str
    document_key: str | None
    stage: str | None
    iteration: int | None
    path: str
    mime_type: str
    size_bytes: int
    contribution_id: UUID | None
    created_at: datetime


class Document(Resource, frozen=True):
    """A document or a resource, with its text."""

    content: str


class FileLine(Answer, frozen=True):
    """A file of a project, by its path in storage and in an export."""

    path: str


class Imported(Answer, frozen=True):
    """A project that was taken in."""

    project_id: UUID
    name: str
    slug: str
    session_ids: list[UUID]
    files: int
    is_copy: bool


class Found(Answer, frozen=True):
    """A passage that was found, and the document it stands in."""

    document_id: UUID
    session_id: UUID | None
    path: str
    heading_path: list[str]
    text: str
    start: int
    end: int
    score: float


class Search(Answer, frozen=True):
    """What a search found, the best first, and what it took."""

    items: list[Found]
    next_cursor: str | None
    documents: int
    embedder: str
    embedded_tokens: int


# -- sessions -------------------------------------------------------------------------------------


class Stage(Answer, frozen=True):
    """One stage of one iteration, and how far it is."""

    stage: str
    iteration: int
    status: str
    planned: int
    finished: int
    started_at: datetime | None
    completed_at: datetime | None


class SessionLine(Answer, frozen=True):
    """A session in a list."""

    id: UUID
    project_id: UUID
    project_name: str
    status: str
    current_stage: str
    iteration: int
    model_count: int
    created_at: datetime


class Session(SessionLine, frozen=True):
    """A session. Money is in US dollars, as exact digits."""

    models: list[str]
    lead: str
    process: str
    until: str
    is_autopilot: bool
    continue_until_complete: bool
    max_output_tokens: int | None
    budget: str | None
    spent: str
    play_spent: str
    stages: list[Stage]


class Quote(Answer, frozen=True, extra="allow"):
    """What is left of a session, reckoned."""

    process: str
    models: list[str]
    planned_calls: int
    expected: dict[str, int]
    worst: dict[str, int]
    money: dict[str, Any]
    time_s: dict[str, float]
    stages: list[dict[str, Any]]
    forecast: dict[str, Any]


class Overview(Answer, frozen=True):
    """Everything about a session at a glance, as records."""

    session: dict[str, Any]
    stages: list[dict[str, Any]]
    jobs: list[dict[str, Any]]
    contributions: list[dict[str, Any]]
    last_event: int
    has_news: bool
    quote: dict[str, Any] | None


class Smaller(Answer, frozen=True):
    """A run from which more is left out."""

    rungs: int
    left_out: str
    lines: dict[str, Any]


class Quoted(Answer, frozen=True):
    """What a run would cost that nobody has started."""

    quote: dict[str, Any]
    lines: dict[str, Any]
    models: list[str]
    has_chosen_models: bool
    shrink: int
    fits: bool
    left_out: list[str]
    smaller: list[Smaller]


class Jobs(Answer, frozen=True):
    """Jobs that were made."""

    job_ids: list[UUID]


class Job(Answer, frozen=True):
    """A piece of work."""

    id: UUID
    parent_id: UUID | None
    type: str
    stage: str
    iteration: int
    status: str
    status_reason: str | None
    model: str | None
    attempts: int
    retries: int
    errors: list[dict[str, Any]]
    created_at: datetime
    started_at: datetime | None
    completed_at: datetime | None


class Kept(Answer, frozen=True):
    """Feedback that was kept, and where."""

    path: str


class FoundId(Answer, frozen=True):
    """What the beginning of an id, or a name, stands for."""

    id: UUID


class Record(Answer, frozen=True):
    """One contribution, or one turn of it, with all that is known of it."""

    record: dict[str, Any]


# -- contributions --------------------------------------------------------------------------------


class ContributionLine(Answer, frozen=True):
    """A contribution in a list, in its newest version."""

    id: UUID
    session_id: UUID
    model: str
    stage: str
    iteration: int
    type: str
    path: str
    version: int
    is_incomplete: bool
    is_intermediate: bool
    is_stale: bool
    flags: list[str]
    size_bytes: int
    input_tokens: int | None
    output_tokens: int | None
    finish_reason: str | None
    created_at: datetime


class Contribution(Answer, frozen=True):
    """One version of a contribution, with its text and how it came about."""

    id: UUID
    session_id: UUID
    job_id: UUID | None
    model: str
    stage: str
    iteration: int
    type: str
    path: str
    version: int
    original_id: UUID
    is_latest: bool
    is_by_user: bool
    is_incomplete: bool
    is_intermediate: bool
    is_stale: bool
    flags: list[str]
    about_id: UUID | None
    source_ids: list[UUID]
    input_tokens: int | None
    output_tokens: int | None
    finish_reason: str | None
    created_at: datetime
    content: str


class Version(Answer, frozen=True):
    """One of the versions of a contribution."""

    id: UUID
    version: int
    is_latest: bool
    is_by_user: bool
    created_at: datetime


# -- chat -----------------------------------------------------------------------------------------


class Usage(Answer, frozen=True):
    """The tokens of all calls that an answer took."""

    input_tokens: int
    output_tokens: int
    source: str
    calls: int


class Reply(Answer, frozen=True):
    """The answer to a question."""

    chat_id: UUID
    question_id: UUID
    message_id: UUID
    model: str
    content: str
    finish_reason: str
    incomplete: bool
    flags: list[str]
    usage: Usage


class Message(Answer, frozen=True):
    """What was said in a chat."""

    id: UUID
    role: str
    content: str
    model: str | None
    usage: Usage | None
    finish_reason: str | None
    incomplete: bool
    flags: list[str]
    created_at: datetime


class ChatLine(Answer, frozen=True):
    """A chat in a list."""

    id: UUID
    title: str
    messages: int
    created_at: datetime


class Chat(Answer, frozen=True):
    """A chat as its thread stands."""

    id: UUID
    title: str
    system_instruction: str
    created_at: datetime | None
    messages: list[Message]


class Notification(Answer, frozen=True):
    """A message to a person."""

    id: int
    type: str
    title: str | None
    message: str | None
    link_path: str | None
    session_id: UUID | None
    data: dict[str, Any]
    read_at: datetime | None
    created_at: datetime


# -- the account ----------------------------------------------------------------------------------


class Tenant(Answer, frozen=True):
    """An account that the caller belongs to."""

    id: UUID
    name: str
    kind: str
    role: str


class Me(Answer, frozen=True):
    """Who the token acts for."""

    user_id: UUID
    tenant_id: UUID
    wallet_id: UUID
    scopes: list[str]
    token_expires_at: datetime | None
    tenants: list[Tenant]


class Money(Answer, frozen=True):
    """What a wallet holds of one kind of money, in US dollars."""

    balance: str
    held: str
    available: str


class Wallet(Answer, frozen=True):
    """A wallet: real money, and play money apart from it."""

    id: UUID
    user_id: UUID | None
    is_count_only: bool
    money: Money
    play_money: Money


class Transaction(Answer, frozen=True):
    """One transfer, as the wallet saw it."""

    id: int
    type: str
    is_play: bool
    amount: str
    change: str
    balance_after: str
    notes: str | None
    purpose: str | None
    model: str | None
    session_id: UUID | None
    stage: str | None
    created_at: datetime


class Cost(Answer, frozen=True):
    """What calls of one kind to one model came to, in one stage."""

    stage: str | None
    model: str
    purpose: str
    is_play: bool
    calls: int
    input_tokens: int
    output_tokens: int
    charged: str
    held: str


class Model(Answer, frozen=True, extra="allow"):
    """A model, what it costs, and whether it can be asked there."""

    name: str
    state: str
    is_usable: bool
    note: str
    origin: str


class ProcessLine(Answer, frozen=True):
    """A process that has a name."""

    name: str
    title: str
    description: str
    domains: list[str]
    stages: list[str]
    is_shipped: bool
    problem: str | None


class Process(ProcessLine, frozen=True):
    """A process as it was written, with its prompts."""

    content_hash: str
    definition: dict[str, Any]
