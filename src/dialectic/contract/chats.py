"""Requests and responses about chats with one model. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated
from uuid import UUID

from pydantic import (
    AliasChoices,
    Field,
    model_validator,
)

from dialectic.contract.base import (
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
        default=None, description="The chat to go on with; else a new one."
    )
    system_instruction: str = Field(
        default="",
        validation_alias=AliasChoices("systemInstruction", "system_instruction"),
        serialization_alias="systemInstruction",
        description="What a new chat opens with.",
    )
    system_prompt_id: UUID | None = Field(
        default=None, description="A system prompt that is kept, instead of `systemInstruction`."
    )
    continue_until_complete: bool = Field(
        default=False, description="Go on with an answer that is cut off, with up to five calls."
    )
    max_output_tokens: OutputTokens | None = None
    rewind_from_message_id: UUID | None = Field(
        default=None, description="A message of yours that this one takes the place of."
    )
    stream: bool = Field(default=False, description="Answer with events as the text comes.")

    @model_validator(mode="after")
    def _opens_once(self) -> ChatRequest:
        if self.system_prompt_id is not None and self.system_instruction:
            msg = "give `systemInstruction` or `system_prompt_id`, not both"
            raise ValueError(msg)
        return self


class ChatUsage(ResponseBody):
    """The tokens of all calls that an answer took."""

    input_tokens: int
    output_tokens: int
    source: str = Field(examples=["reported"])
    calls: int


class ChatReply(ResponseBody):
    """The answer to a question."""

    chat_id: UUID
    question_id: UUID
    message_id: UUID
    model: str
    content: str
    finish_reason: str = Field(examples=["stop", "length"])
    incomplete: bool = Field(description="It was cut off at the limit.")
    flags: list[str]
    usage: ChatUsage


class ChatMessage(ResponseBody):
    """What was said in a chat."""

    id: UUID
    role: str = Field(examples=["user"])
    content: str
    model: str | None
    usage: ChatUsage | None
    finish_reason: str | None
    incomplete: bool
    flags: list[str]
    created_at: datetime


class ChatSummary(ResponseBody):
    """A chat in a list."""

    id: UUID
    title: str
    messages: int
    created_at: datetime


class Chat(ResponseBody):
    """A chat as its thread stands; what was rewound is not part of it."""

    id: UUID
    title: str
    system_instruction: str
    created_at: datetime | None
    messages: list[ChatMessage]


class ChatChange(RequestBody):
    """What is to be different in a chat."""

    title: Annotated[Name, Field(examples=["Bakeries"])]


class RewindRequest(RequestBody):
    """How far a chat is taken back."""

    message_id: UUID = Field(description="This message and all that followed leave the thread.")


class ChatProjectRequest(RequestBody):
    """A project that begins with what was said in a chat."""

    name: Line = ""
    domain: Name = "General"
    message_ids: list[UUID] | None = Field(
        default=None, max_length=MESSAGES_MAX, description="These messages; else the whole thread."
    )
