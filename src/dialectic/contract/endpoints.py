"""Requests and responses about the endpoints that a tenant added. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, TypeAlias

from pydantic import Field, StringConstraints

from dialectic.contract.base import Line, RequestBody, ResponseBody
from dialectic.core.models.endpoint import WireFormat
from dialectic.core.models.endpoint_config import TOKENS_MAX

KEY_CHARS_MAX = 1_000
MODELS_MAX = 50
URL_CHARS_MAX = 500
# An estimate that is rather too high: most vocabularies need fewer tokens.
TOKENIZER = "o200k_base*1.2"

EndpointName: TypeAlias = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z0-9][a-z0-9_.-]*$", max_length=40),
    Field(examples=["acme"], description="Its models are called `@NAME/model`."),
]
Tokens: TypeAlias = Annotated[int, Field(ge=1, le=TOKENS_MAX, strict=True)]


class OwnModel(RequestBody):
    """A model of an endpoint. Its window and limits decide how prompts are cut to size."""

    name: Line = Field(examples=["llama-3.3-70b"], min_length=1, description="The provider's name.")
    context_window_tokens: Tokens = Field(examples=[128_000])
    max_output_tokens: Tokens = Field(examples=[8_000])
    max_input_tokens: Tokens | None = Field(default=None, description="The window if absent.")
    tokenizer: Line = Field(default=TOKENIZER, description="How its tokens are counted.")
    supports_system_prompt: bool = True
    is_reasoning: bool = Field(default=False, description="It may send nothing for minutes.")


class EndpointRequest(RequestBody):
    """Adds an endpoint that only this tenant can use. The tenant pays its provider itself."""

    name: EndpointName
    kind: WireFormat = Field(description="The protocol it speaks.")
    base_url: str = Field(
        min_length=1,
        max_length=URL_CHARS_MAX,
        examples=["https://llm.example.com/v1"],
        description="A public https address, or one that the operator allows.",
    )
    api_key: str | None = Field(
        default=None,
        min_length=1,
        max_length=KEY_CHARS_MAX,
        repr=False,
        description="Stored encrypted and never shown again; absent if it needs none.",
    )
    models: list[OwnModel] = Field(min_length=1, max_length=MODELS_MAX)
    max_concurrency: int | None = Field(default=None, ge=1, le=10_000)
    requests_per_minute: int | None = Field(default=None, ge=1, le=10_000_000)
    tokens_per_minute: int | None = Field(default=None, ge=1, le=1_000_000_000_000)
    replace: bool = Field(default=False, description="Replace an endpoint of this name.")


class OwnEndpoint(ResponseBody):
    """An endpoint that the tenant added, without its key."""

    name: str
    kind: WireFormat
    base_url: str
    has_key: bool
    models: list[str] = Field(examples=[["@acme/llama-3.3-70b"]])
    max_concurrency: int | None
    requests_per_minute: int | None
    tokens_per_minute: int | None
    created_at: datetime
    problem: str | None = Field(description="Why it cannot be called.")


class EndpointTestRequest(RequestBody):
    """Which model to call for the test."""

    model: Line | None = Field(default=None, description="`@NAME/model`; the first if absent.")


class EndpointTest(ResponseBody):
    """The answer of a real, short call."""

    model: str
    answer: str
    finish_reason: str
    elapsed_ms: int
    input_tokens: int
    output_tokens: int
    usage_source: str
