"""Questions to one model, and chats: as they are asked for and answered. Pure."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from dialectic.client.call import Answer, Call, Page, act, drop_none, get, ignore_body
from dialectic.client.projects import Project

# What a model may take for its answer, with all its turns.
CHAT_TIMEOUT_S = 1800.0


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


# -- asked -----------------------------------------------------------------------------------------


def ask(  # noqa: PLR0913  what a question can say
    message: str,
    model: str,
    *,
    chat_id: UUID | None = None,
    system_instruction: str = "",
    continue_until_complete: bool = False,
    max_output_tokens: int | None = None,
    rewind_from_message_id: UUID | None = None,
    stream: bool = False,
    key: str | None = None,
) -> Call[Reply]:
    """Ask one model."""
    body = {
        "message": message,
        "model": model,
        "chat_id": None if chat_id is None else str(chat_id),
        "systemInstruction": system_instruction,
        "continue_until_complete": continue_until_complete,
        "max_output_tokens": max_output_tokens,
        "rewind_from_message_id": rewind_from_message_id and str(rewind_from_message_id),
        "stream": stream,
    }
    return Call(
        method="POST",
        path="/chat",
        read=Reply.model_validate_json,
        body=drop_none(body),
        key=key or "",
        timeout_s=CHAT_TIMEOUT_S,
    )


def list_chats() -> Call[Page[ChatLine]]:
    """List chats, the newest first."""
    return get("/chats", Page[ChatLine])


def get_chat(chat_id: UUID) -> Call[Chat]:
    """Read a chat."""
    return get(f"/chats/{chat_id}", Chat)


def delete_chat(chat_id: UUID) -> Call[None]:
    """Delete a chat."""
    return Call(method="DELETE", path=f"/chats/{chat_id}", read=ignore_body)


def rewind_chat(chat_id: UUID, message_id: UUID, *, key: str | None = None) -> Call[Chat]:
    """Take a message and all that followed it out of the thread."""
    body = {"message_id": str(message_id)}
    return act(f"/chats/{chat_id}/rewind", Chat, body, key=key)


def make_project_of_chat(
    chat_id: UUID, *, name: str = "", domain: str = "General", key: str | None = None
) -> Call[Project]:
    """Make a project whose prompt is what was said in a chat."""
    body = {"name": name, "domain": domain}
    return act(f"/chats/{chat_id}/project", Project, body, key=key)
