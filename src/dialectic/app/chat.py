"""Chat: ask one model a question, with as many calls as its answer needs.

Used by the command line and the API; independent of both. One commit after the last call saves the
question with its answer, so a failed question leaves no row. If a further call fails, the text so
far is saved as an incomplete answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from uuid import UUID, uuid4, uuid5

from dialectic.app import projects
from dialectic.app.chat_calls import CALLS_MAX, STOPPED, ChatCalls, Turn
from dialectic.app.transaction import Transaction
from dialectic.contract import chats as contract
from dialectic.contract.chats import (
    ChatEstimate,
    ChatMessage,
    ChatProjectRequest,
    ChatReply,
    ChatRequest,
    ChatUsage,
)
from dialectic.contract.projects import Project, ProjectRequest
from dialectic.core.models.messages import FinishReason, Message, Request, Role, Usage, UsageSource
from dialectic.core.models.model import ModelCard
from dialectic.core.money.price import is_play, price_call
from dialectic.core.text import clean_line, clean_text
from dialectic.db.pool import Connection
from dialectic.db.tables import chats
from dialectic.db.tables.chats import Chat, Exchange
from dialectic.db.tables.records import Account
from dialectic.engine import Engine
from dialectic.errors import NotFound, TooLarge, UsageError
from dialectic.pipeline.assemble import fit
from dialectic.pipeline.interpret import Finish
from dialectic.pipeline.own_models import load_card
from dialectic.providers.base import OnText
from dialectic.tokens.counting import count_request_tokens_aside, get_counter

TITLE_CHARS = 80
# The length of an answer, while a chat has none.
USUAL_ANSWER_TOKENS = 600


async def send(
    engine: Engine,
    account: Account,
    question: ChatRequest,
    on_text: OnText = lambda _piece: None,
    *,
    question_id: UUID | None = None,
    on_begin: Callable[[UUID], None] = lambda _chat_id: None,
    stopping: asyncio.Event | None = None,
) -> ChatReply:
    """Ask a question and save it with its answer. A prompt that is too long fails before any call.

    `on_begin` is told the chat as soon as the question is accepted. When `stopping` is set, the
    text so far becomes the answer.

    Each call has its own hold; the commit that saves the answer settles all of them. For a question
    without an answer, the person pays only for the output that arrived before the call failed.
    An answered question with the same id is not asked again.
    """
    question_id = question_id or uuid4()
    card = await load_card(engine, account.tenant_id, question.model)
    message = check_message(question.message, bytes_max=engine.settings.max_prompt_bytes)
    answered = await _find_reply(engine, account, question_id)
    if answered is not None:
        return answered
    chat, earlier = await _open(engine, account, question, question_id, message)
    request = build_request(card, chat.system, earlier, message, question.max_output_tokens)
    fit(request, card, gives_way=True)
    on_begin(chat.id)
    # A new id for each try, so that the holds of an aborted try are not taken for ours.
    asking = ChatCalls(
        engine, account, card, request, uuid4(), on_text, stopping or asyncio.Event()
    )
    async with asking.paying():
        turns, outcome = await asking.converse(continues=question.continue_until_complete)
        said = build_exchange(question_id, message, card, turns, outcome)

        async def work(connection: Connection) -> bool:
            is_kept = await _save(
                connection, account, chat, said, replaces_id=question.rewind_from_message_id
            )
            await asking.settle(connection, turns, said.answer_id)
            return is_kept

        is_kept = await engine.db.transact(account.tenant_id, work)
    if not is_kept:
        # The answer was paid for, but its chat does not exist any more.
        raise NotFound(f"Chat {chat.id} was deleted before its answer was saved.")
    return _describe(chat.id, said)


async def _save(
    connection: Connection, account: Account, chat: Chat, said: Exchange, replaces_id: UUID | None
) -> bool:
    """Save a question with its answer; return False if the chat does not exist any more."""
    if not chat.is_new and not await chats.lock(connection, chat.id):
        return False
    if replaces_id is not None:
        await chats.rewind(connection, chat.id, replaces_id)
    await chats.save_exchange(
        connection, tenant_id=account.tenant_id, user_id=account.user_id, chat=chat, said=said
    )
    return True


async def estimate(engine: Engine, account: Account, question: ChatRequest) -> ChatEstimate:
    """Estimate the cost of a question. Reads only; a prompt that is too long fails as when sent."""
    card = await load_card(engine, account.tenant_id, question.model)
    message = check_message(question.message, bytes_max=engine.settings.max_prompt_bytes)
    chat, earlier = await _open(engine, account, question, uuid4(), message)
    request = build_request(card, chat.system, earlier, message, question.max_output_tokens)
    cap = fit(request, card, gives_way=True).max_output_tokens
    read = (await count_request_tokens_aside(request, card)).tokens
    known = [one.usage.output_tokens for one in earlier if one.usage is not None]
    usual = sum(known) // len(known) if known else USUAL_ANSWER_TOKENS
    calls_max = CALLS_MAX if question.continue_until_complete else 1
    # A further call reads the question and all of the answer so far.
    worst = sum(price_call(card, read + number * cap, cap) for number in range(calls_max))
    return ChatEstimate.model_validate(
        {
            "input_tokens": read,
            "is_play": is_play(card),
            "expected": price_call(card, read, min(usual, cap)),
            "worst": worst,
        }
    )


def _describe(chat_id: UUID, said: Exchange) -> ChatReply:
    return ChatReply(
        chat_id=chat_id,
        question_id=said.question_id,
        message_id=said.answer_id,
        content=said.answer,
        model=said.model_name,
        finish_reason=said.finish_reason,
        incomplete=said.is_incomplete,
        flags=list(said.flags),
        usage=ChatUsage(
            input_tokens=said.usage.input_tokens,
            output_tokens=said.usage.output_tokens,
            source=said.usage.source,
            calls=said.calls,
        ),
    )


async def _find_reply(engine: Engine, account: Account, question_id: UUID) -> ChatReply | None:
    """Find the saved answer of a question from an earlier try whose response was lost."""
    row = await engine.db.transact(
        account.tenant_id, lambda c: chats.find_message(c, derive_answer_id(question_id))
    )
    return None if row is None else ChatReply.model_validate({**row, "question_id": question_id})


async def get(tx: Transaction, chat_id: UUID, *, with_branches: bool = False) -> contract.Chat:
    """Load a chat with its messages; with its branches, also those that are not in the thread."""
    found = await chats.load_chat(tx.connection, chat_id)
    return contract.Chat(
        id=found.id,
        title=found.title,
        system_instruction=found.system,
        created_at=found.created_at,
        messages=await list_messages(tx.connection, chat_id),
        branches=await list_messages(tx.connection, chat_id, rewound=True) if with_branches else [],
    )


async def list_messages(
    connection: Connection, chat_id: UUID, *, rewound: bool = False
) -> list[ChatMessage]:
    """List the messages of a chat's current thread, oldest first; or those that are not in it."""
    rows = await chats.list_messages(connection, chat_id, rewound=rewound)
    return [ChatMessage.model_validate(row) for row in rows]


async def rename(tx: Transaction, chat_id: UUID, title: str) -> contract.Chat:
    """Rename a chat."""
    await chats.load_chat(tx.connection, chat_id)
    await chats.rename(tx.connection, chat_id, check_title(title))
    return await get(tx, chat_id)


async def rewind(tx: Transaction, chat_id: UUID, message_id: UUID) -> contract.Chat:
    """Remove a message and all later ones from the thread."""
    await chats.load_chat(tx.connection, chat_id)
    if not await chats.rewind(tx.connection, chat_id, message_id):
        raise NotFound(f"Message {message_id} is not in the thread of this chat.")
    return await get(tx, chat_id)


async def switch(tx: Transaction, chat_id: UUID, message_id: UUID) -> contract.Chat:
    """Go on with the branch of a message: its thread becomes the current one."""
    await chats.load_chat(tx.connection, chat_id)
    if not await chats.switch_branch(tx.connection, chat_id, message_id):
        raise NotFound(
            f"Message {message_id} does not exist in this chat.",
            reason="no_message",
            subject=str(message_id),
        )
    return await get(tx, chat_id)


async def delete(tx: Transaction, chat_id: UUID) -> None:
    """Delete a chat; its wallet transactions are kept."""
    await chats.load_chat(tx.connection, chat_id)
    await chats.delete(tx.connection, chat_id)


async def make_project(tx: Transaction, chat_id: UUID, wanted: ChatProjectRequest) -> Project:
    """Create a project whose prompt is the text of a chat, or of some of its messages."""
    found, ids = await get(tx, chat_id), wanted.message_ids
    chosen = [one for one in found.messages if ids is None or one.id in ids]
    if ids is not None and len(chosen) < len(set(ids)):
        raise NotFound("One of the messages is not in the thread of this chat.")
    if not chosen:
        raise UsageError("The chat has no text for a project. Send a message first.")
    new = ProjectRequest(
        prompt=build_prompt(chosen), name=wanted.name or found.title, domain=wanted.domain
    )
    project_id, _, _ = await projects.create_project(tx, new)
    return await projects.get(tx, project_id)


def derive_answer_id(question_id: UUID) -> UUID:
    """Derive the id of an answer from its question's."""
    return uuid5(question_id, "answer")


def check_message(text: str, *, bytes_max: int) -> str:
    """Clean a message; raise if it is empty or too long."""
    size = len(text.encode(errors="replace"))
    if size > bytes_max:
        raise TooLarge(
            f"The message has {size:,} bytes; the limit is {bytes_max:,} "
            "(DIALECTIC_MAX_PROMPT_BYTES). Shorten it."
        )
    clean, _ = clean_text(text)
    if not clean.strip():
        raise UsageError("The message is empty. Enter a text.", reason="empty", subject="message")
    return clean


def check_title(title: str) -> str:
    """Clean a chat's title like a project's name; raise if it is empty."""
    text = clean_line(title)
    if not text:
        raise UsageError(
            "The chat's title is empty. Enter a title.", reason="empty", subject="title"
        )
    return text


async def _open(
    engine: Engine, account: Account, question: ChatRequest, question_id: UUID, message: str
) -> tuple[Chat, list[ChatMessage]]:
    chat_id, prompt_id = question.chat_id, question.system_prompt_id
    system = question.system_instruction
    if prompt_id is not None:
        system = await engine.db.transact(
            account.tenant_id, lambda c: chats.load_system_prompt(c, prompt_id)
        )
    if chat_id is None:
        if question.rewind_from_message_id is not None:
            raise UsageError(
                "A replacement needs a chat. Name the chat of the message to replace.",
                reason="no_chat_named",
                subject="chat_id",
            )
        title = message.strip().splitlines()[0][:TITLE_CHARS]
        return Chat(uuid5(question_id, "chat"), title, clean_text(system)[0], is_new=True), []
    if system:
        raise UsageError(
            "The system prompt of a chat cannot change. Start a new chat.",
            reason="chat_has_begun",
            subject="system_instruction",
        )

    async def work(connection: Connection) -> tuple[Chat, list[ChatMessage]]:
        chat = await chats.load_chat(connection, chat_id)
        messages = await list_messages(connection, chat_id)
        return chat, cut_thread(messages, question.rewind_from_message_id)

    return await engine.db.transact(account.tenant_id, work)


def cut_thread(messages: list[ChatMessage], replaces_id: UUID | None) -> list[ChatMessage]:
    """Keep the messages before the replaced one; all of them if none is replaced."""
    if replaces_id is None:
        return messages
    for number, said in enumerate(messages):
        if said.id == replaces_id:
            if said.role != Role.USER:
                raise UsageError("Only your own messages can be replaced.", reason="not_a_question")
            return messages[:number]
    raise NotFound(f"Message {replaces_id} does not exist in the current thread of this chat.")


def build_prompt(messages: Sequence[ChatMessage]) -> str:
    """Build the prompt of a project from the messages of a chat."""
    if len(messages) == 1:
        return messages[0].content
    heads = {Role.USER: "Question", Role.ASSISTANT: "Answer"}
    parts = [f"## {heads[Role(one.role)]}\n\n{one.content.strip()}" for one in messages]
    return "\n\n".join(parts) + "\n"


def build_request(
    card: ModelCard,
    system: str,
    earlier: Sequence[ChatMessage],
    message: str,
    max_output_tokens: int | None,
) -> Request:
    """Build the first request of an exchange: all earlier messages and the question."""
    history = [Message(Role(one.role), one.content) for one in earlier]
    return Request(
        model=card.name,
        system=system,
        messages=(*history, Message(Role.USER, message)),
        max_output_tokens=min(max_output_tokens or card.max_output_tokens, card.max_output_tokens),
    )


def build_exchange(
    question_id: UUID, message: str, card: ModelCard, turns: Sequence[Turn], outcome: Finish
) -> Exchange:
    """Build the record of an exchange with the usage of all its calls."""
    answers = [turn.answer for turn in turns]
    usages = [answer.reply.usage for answer in answers]
    # The output of a stopped call is counted, because its provider reported nothing.
    is_stopped = STOPPED in outcome.flags
    is_reported = not is_stopped and all(u.source is UsageSource.REPORTED for u in usages)
    output_tokens = sum(usage.output_tokens for usage in usages)
    if is_stopped:
        output_tokens = max(output_tokens, get_counter(card.tokenizer)(outcome.text))
    flags = [flag for answer in answers for flag in answer.flags]
    last = answers[-1].reply.finish_reason if answers else FinishReason.LENGTH
    return Exchange(
        question_id=question_id,
        question=message,
        answer_id=derive_answer_id(question_id),
        answer=outcome.text,
        model_name=card.name,
        usage=Usage(
            sum(usage.input_tokens for usage in usages),
            output_tokens,
            UsageSource.REPORTED if is_reported else UsageSource.COUNTED,
        ),
        calls=len(answers) + is_stopped,
        finish_reason=FinishReason.LENGTH if outcome.is_incomplete else last,
        is_incomplete=outcome.is_incomplete,
        flags=(*outcome.flags, *dict.fromkeys(flags)),
    )
