"""Chats and their messages as rows. See sql/queries/chats.sql."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from dialectic.core.models.messages import FinishReason, Usage
from dialectic.core.strict_json import Json
from dialectic.db.pool import Connection
from dialectic.db.queries import find_row, list_plain, load_queries
from dialectic.db.tables.records import Noun, get_id
from dialectic.errors import NotFound, Remedy, RemedyAction

SQL = load_queries("chats")
CHAT = Noun("chat", SQL["find_chat_ids"], Remedy(RemedyAction.LIST_CHATS))


@dataclass(frozen=True, slots=True)
class Chat:
    """A conversation with its system prompt; a new one has not been saved yet."""

    id: UUID
    title: str
    system: str
    is_new: bool = False
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A question and its answer."""

    question_id: UUID
    question: str
    answer_id: UUID
    answer: str
    model_name: str
    usage: Usage
    calls: int
    finish_reason: FinishReason
    is_incomplete: bool
    flags: tuple[str, ...]


async def get_chat_id(connection: Connection, text: str) -> UUID:
    """Find a chat by its id or by a prefix of it."""
    return await get_id(connection, CHAT, text)


async def load_chat(connection: Connection, chat_id: UUID) -> Chat:
    """Load a chat."""
    found = await find_row(connection, Chat, SQL["load_chat"], chat_id)
    if found is None:
        raise NotFound(
            f"Chat {chat_id} does not exist.",
            reason="no_chat",
            subject=str(chat_id),
            remedy=CHAT.remedy,
        )
    return found


async def lock(connection: Connection, chat_id: UUID) -> bool:
    """Lock a chat against deletion until the transaction ends; say whether it exists."""
    return await connection.fetchval(SQL["lock_chat"], chat_id) is not None


async def list_chats(connection: Connection, *, limit: int) -> list[Json]:
    """List the chats with the newest messages."""
    return await list_plain(connection, SQL["list_chats"], limit)


async def list_messages(
    connection: Connection, chat_id: UUID, *, rewound: bool = False
) -> list[Json]:
    """List the messages of a chat's thread, oldest first; or those that are not in it."""
    return await list_plain(connection, SQL["list_messages"], chat_id, rewound)


async def switch_branch(connection: Connection, chat_id: UUID, message_id: UUID) -> bool:
    """Make the thread of a message the current one; say whether the chat has the message."""
    return bool(await connection.fetch(SQL["switch_branch"], chat_id, message_id))


async def find_message(connection: Connection, message_id: UUID) -> Json | None:
    """Find a message, including one that was rewound."""
    found = await list_plain(connection, SQL["find_message"], message_id)
    return found[0] if found else None


async def rewind(connection: Connection, chat_id: UUID, message_id: UUID) -> int:
    """Remove a message and all later ones from the thread; return how many."""
    return len(await connection.fetch(SQL["rewind"], chat_id, message_id))


async def rename(connection: Connection, chat_id: UUID, title: str) -> None:
    """Rename a chat."""
    await connection.execute(SQL["rename_chat"], chat_id, title)


async def delete(connection: Connection, chat_id: UUID) -> None:
    """Delete a chat with its messages; the ledger keeps their cost."""
    await connection.execute(SQL["delete_chat"], chat_id)


async def load_system_prompt(connection: Connection, prompt_id: UUID) -> str:
    """Load the text of a system prompt of one of the tenant's processes."""
    text: str | None = await connection.fetchval(SQL["load_system_prompt"], prompt_id)
    if text is None:
        raise NotFound(f"System prompt {prompt_id} does not exist.")
    return text


async def save_exchange(
    connection: Connection, *, tenant_id: UUID, user_id: UUID, chat: Chat, said: Exchange
) -> None:
    """Save a question with its answer; the first one creates the chat."""
    if chat.is_new:
        await connection.execute(
            SQL["insert_chat"], tenant_id, chat.id, user_id, chat.title, chat.system
        )
    usage = {
        "input_tokens": said.usage.input_tokens,
        "output_tokens": said.usage.output_tokens,
        "source": said.usage.source.value,
        "calls": said.calls,
    }
    await connection.execute(
        SQL["insert_exchange"],
        tenant_id,
        said.question_id,
        chat.id,
        user_id,
        said.question,
        said.answer_id,
        said.answer,
        said.model_name,
        usage,
        said.finish_reason.value,
        said.is_incomplete,
        list(said.flags),
    )
