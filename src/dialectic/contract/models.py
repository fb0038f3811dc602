"""Responses about models and processes. Pure."""

from __future__ import annotations

import enum
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, TypeAlias

from pydantic import Field

from dialectic.contract.base import Column, Dollars, ResponseBody
from dialectic.contract.problems import ProblemRemedy
from dialectic.core.strict_json import Json


class HealthState(enum.StrEnum):
    """Whether calls to a model pass at present."""

    OK = "ok"
    BUSY = "busy"  # its provider asked for a pause
    FAILING = "failing"  # calls failed; they wait for a probe
    KEY_REFUSED = "key_refused"  # its provider rejects the key
    UNKNOWN = "unknown"  # nothing was called yet


class ModelHealth(ResponseBody):
    """What is known of the calls to a model."""

    state: HealthState
    until: datetime | None = Field(description="When calls are tried again, if they wait.")
    p50_ms: int | None = Field(description="The median duration of your latest documents by it.")


class _Model(ResponseBody):
    name: str
    label: str = Field(description="Its name without the provider.", examples=["architect"])
    provider: str = Field(description="The endpoint that serves it.", examples=["offline"])
    state: str = Field(examples=["usable"])
    is_usable: bool
    missing: str | None = Field(description="The variable that must be set to use it.")
    note: str
    origin: str
    is_play: bool = Field(description="Whether it costs play money.")
    health: ModelHealth
    used_by_you: bool = Field(description="Whether it has written for one of your sessions.")
    default_seats: list[int] = Field(
        default=[], description="Its seats in a run that names no models."
    )


class KnownModel(_Model):
    """A model, its prices, and whether this server can call it."""

    facts_of: date | None = Field(description="The date of the facts, unless they are declared.")
    context_window_tokens: int
    max_input_tokens: int
    max_output_tokens: int
    input_usd_per_million: Annotated[Decimal, Column("input_credits_per_token")]
    output_usd_per_million: Annotated[Decimal, Column("output_credits_per_token")]
    tokenizer: str
    is_reasoning: bool
    supports_system_prompt: bool


class ListedModel(_Model):
    """A model that an endpoint lists, but that is not configured."""

    config: str = Field(description="The section of config.toml that configures it.")


Model: TypeAlias = KnownModel | ListedModel


class ProcessSummary(ResponseBody):
    """A process in a list."""

    name: str
    title: str
    description: str
    domains: list[str]
    stages: list[str]
    is_shipped: bool = Field(description="Shipped with Dialectic; false if the server added it.")
    problem: str | None = Field(description="Why it cannot be used.")


class ProcessDetail(ProcessSummary):
    """A process with its definition and prompts."""

    content_hash: str
    definition: Json


class StepOutline(ResponseBody):
    """A step of a process: how many calls it makes, with which prompt."""

    name: str
    title: str = Field(description="What its calls do, for people.")
    description: str
    strategy: str | None = Field(description="How its inputs are dealt; null for a whole stage.")
    output_type: str
    is_intermediate: bool
    prompt: str = Field(description="The name of its prompt template.")
    calls: int
    calls_per_seat: int = Field(description="The most calls of one seat.")


class StageOutline(ResponseBody):
    """A stage of a process and its steps; one without steps is one step."""

    slug: str
    title: str
    description: str
    position: int
    system_prompt: str = Field(description="The name of its system prompt.")
    calls: int
    steps: list[StepOutline]


class ProcessOutline(ResponseBody):
    """What a process does with a number of seats, before anything runs."""

    name: str
    seats: int
    calls: int
    stages: list[StageOutline]


class ModelTestError(ResponseBody):
    """Why a model has not answered."""

    code: str
    reason: str | None
    message: str
    remedy: ProblemRemedy | None


class ModelTest(ResponseBody):
    """What a short question to a model showed. No wallet is charged for it."""

    model: str
    is_usable: bool = Field(description="False if a later try will fail too.")
    was_asked: bool = Field(
        description="False if it needs no question, or answered one in the last ten minutes."
    )
    elapsed_ms: int
    cost_max: Dollars = Field(description="What the provider may charge its payer for a question.")
    error: ModelTestError | None
