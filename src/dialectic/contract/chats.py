"""Requests and responses about chats with one model. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated
from uuid import UUID

from pydantic import AliasChoices, Field, model_validator
from pydantic.json_schema import SkipJsonSchema

from dialectic.contract.base import (
    Column,
    Dollars,
    Line,
    ModelName,
    Name,
    RequestBody,
    ResponseBody,
)
from dialectic.contract.sessions import OutputTokens

MESSAGES_MAX = 200


class ChatRequest(RequestBody):
    """A question to one model."""

    message: str = Field(min_length=1, examples=["Name a bakery."])
    model: ModelName
    chat_id: UUID | None = Field(
        default=None, description="The chat to continue; absent: a new chat."
    )
    system_instruction: str = Field(
        default="",
        validation_alias=AliasChoices("systemInstruction", "system_instruction"),
        serialization_alias="systemInstruction",
        description="The system instruction of a new chat.",
    )
    system_prompt_id: UUID | None = Field(
        default=None, description="A stored system prompt, instead of `systemInstruction`."
    )
    continue_until_complete: bool = Field(
        default=False, description="Continue a truncated answer, with up to five calls."
    )
    max_output_tokens: OutputTokens | None = None
    rewind_from_message_id: UUID | None = Field(
        default=None, description="The message of yours that this one replaces."
    )
    stream: bool = Field(default=False, description="Stream the answer as events.")

    @model_validator(mode="after")
    def _opens_once(self) -> ChatRequest:
        if self.system_prompt_id is not None and self.system_instruction:
            msg = "give `systemInstruction` or `system_prompt_id`, not both"
            raise ValueError(msg)
        return self


class SystemPrompt(ResponseBody):
    """A prompt of the processes that your sessions have run."""

    id: UUID = Field(description="The `system_prompt_id` of a chat.")
    name: str = Field(examples=["thesis_role"])
    is_role: bool = Field(
        description="A stage uses it as its system prompt. The others are templates: "
        "a chat gets them with their variables as they are."
    )
    processes: list[str] = Field(description="The processes that use it.")
    text: Annotated[str, Column("prompt_text")]
    created_at: datetime


class ChatUsage(ResponseBody):
    """The tokens of all calls that produced an answer."""

    input_tokens: int
    output_tokens: int
    source: str = Field(examples=["reported"])
    calls: int


class ChatDelta(ResponseBody):
    """A piece of a streamed answer."""

    text: str


class ChatReply(ResponseBody):
    """The answer to a question."""

    chat_id: UUID
    question_id: UUID
    message_id: Annotated[UUID, Column("id")]
    model: Annotated[str, Column("model_name")]
    content: str
    finish_reason: str = Field(examples=["stop", "length"])
    incomplete: Annotated[bool, Column("is_incomplete")] = Field(
        description="The answer was truncated at the output limit.",
    )
    flags: list[str]
    usage: Annotated[ChatUsage, Column("token_usage")]


class PendingQuestion(ResponseBody):
    """A question whose answer is being written by this server process."""

    question: str
    model: str
    since: datetime


class ChatEstimate(ResponseBody):
    """What a question is expected to cost."""

    input_tokens: int
    is_play: bool = Field(description="Whether the amounts are play money.")
    expected: Dollars
    worst: Dollars = Field(description="If every call of the answer is as long as it may be.")


class ChatMessage(ResponseBody):
    """One message of a chat."""

    id: UUID
    previous_id: Annotated[UUID | None, Column("previous_message_id")] = Field(
        description="The message before it; messages with the same one are branches."
    )
    role: str = Field(examples=["user"])
    content: str
    model: Annotated[str | None, Column("model_name")]
    usage: Annotated[ChatUsage | None, Column("token_usage")]
    finish_reason: str | None
    incomplete: Annotated[bool, Column("is_incomplete")]
    flags: list[str]
    html: str | None = Field(
        default=None,
        description="An answer as HTML that is safe to put into a page, if requested; "
        "null for a very long one.",
    )
    created_at: datetime


class ChatSummary(ResponseBody):
    """A chat in a list."""

    id: UUID
    title: str
    messages: int
    created_at: datetime
    # When it was last used; the API does not send it.
    last_at: SkipJsonSchema[datetime | None] = Field(default=None, exclude=True)


class Chat(ResponseBody):
    """A chat and its current thread, without rewound messages."""

    id: UUID
    title: str
    system_instruction: Annotated[str, Column("system_prompt")]
    created_at: datetime | None
    messages: list[ChatMessage]
    branches: list[ChatMessage] = Field(
        default=[], description="The messages that are not in the thread, if requested."
    )
    pending: PendingQuestion | None = Field(
        default=None, description="The question that is being answered, by this server process."
    )


class ChatChange(RequestBody):
    """The fields of a chat to change."""

    title: Annotated[Name, Field(examples=["Bakeries"])]


class RewindRequest(RequestBody):
    """The message to rewind a chat to."""

    message_id: UUID = Field(description="Removes this message and all later ones from the thread.")


class BranchRequest(RequestBody):
    """The branch of a chat to go on with."""

    message_id: UUID = Field(description="A message of the branch; its newest end is chosen.")


class ChatProjectRequest(RequestBody):
    """Creates a project from the messages of a chat."""

    name: Line = ""
    domain: Name = "General"
    message_ids: list[UUID] | None = Field(
        default=None,
        max_length=MESSAGES_MAX,
        description="The messages to use; absent: the whole thread.",
    )
