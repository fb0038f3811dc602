"""Chat: a question to one model, answered by one call or by as many as its answer takes.

Used by the command line and the API. Knows no terminal and no HTTP. A question and its answer are
saved together, in one commit after the last call: what failed has left nothing behind. If a further
call fails, what was said until then is the answer, and says that it is incomplete.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any
from uuid import UUID, uuid4, uuid5

from dialectic.domain.message import FinishReason, Message, Request, Role, Usage, UsageSource
from dialectic.domain.model import ModelCard
from dialectic.domain.price import Rates, decide_hold, decide_output_cap, is_play, judge_spend
from dialectic.domain.text import clean_text
from dialectic.engine import Engine
from dialectic.errors import (
    ContextWindowError,
    DialecticError,
    FundsError,
    NotFound,
    ProviderError,
    TooLarge,
    UsageError,
)
from dialectic.ledger import holds, wallets
from dialectic.ledger.holds import HoldState, NewHold, Purpose
from dialectic.pipeline.assemble import build_history, fit
from dialectic.pipeline.call import Answer, call
from dialectic.pipeline.follow import WINDOW_FULL, Finish, GoOn, Limits, close, follow
from dialectic.pipeline.hold import Held, judge_reply, price_failure
from dialectic.providers.base import OnText
from dialectic.store import chats
from dialectic.store.chats import Chat, Exchange
from dialectic.store.database import Connection
from dialectic.store.records import Account
from dialectic.tokens import count_request_tokens_aside

CALLS_MAX = 5
TITLE_CHARS = 80
# What a further call may fail with without taking away what was said.
INTERRUPTIONS = (ProviderError, ContextWindowError, FundsError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a person asks, and how they want it answered."""

    message: str
    model: str
    # The chat to go on with; without one a new chat begins, with this system instruction.
    chat_id: UUID | None = None
    system: str = ""
    # Whether a cut-off answer is gone on with, up to CALLS_MAX calls in all.
    continues: bool = False
    max_output_tokens: int | None = None
    # A message of the person's that this one takes the place of: it and what followed are rewound.
    replaces_id: UUID | None = None
    # Asked again under the same id, a question that was answered is not asked anew.
    id: UUID = field(default_factory=uuid4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What came of a question."""

    chat_id: UUID
    question_id: UUID
    message_id: UUID
    text: str
    model_name: str
    finish_reason: FinishReason
    is_incomplete: bool
    flags: tuple[str, ...]
    usage: Usage
    calls: int


@dataclass(frozen=True, slots=True)
class Caller:
    """One call of a question, for the limits of its endpoint."""

    tenant_id: UUID
    id: UUID
    attempt: int


@dataclass(frozen=True, slots=True)
class Turn:
    """A call that was answered, and the hold it is paid out of."""

    held: Held
    answer: Answer


async def send(
    engine: Engine, account: Account, question: Question, on_text: OnText = lambda _piece: None
) -> Reply:
    """Ask a question and save it with its answer. Too long a prompt fails before any call.

    Each call is paid for by itself, all of them in the commit that saves the answer: of a question
    that was never answered the person pays nothing.
    """
    card = engine.catalog.load_card(question.model)
    message = check_message(question.message, bytes_max=engine.settings.max_prompt_bytes)
    answered = await _find_reply(engine, account, question.id)
    if answered is not None:
        return answered
    chat, earlier = await _open(engine, account, question, message)
    request = build_request(card, chat.system, earlier, message, question.max_output_tokens)
    fit(request, card, gives_way=True)
    # Calls have an id of their own: those of a try that died are not mistaken for ours.
    asking = Asking(engine, account, card, request, uuid4(), on_text)
    turns, outcome = await asking.converse(continues=question.continues)
    said = build_exchange(question.id, message, card, turns, outcome)

    async def work(connection: Connection) -> bool:
        is_kept = chat.is_new or await chats.lock(connection, chat.id)
        if is_kept and question.replaces_id is not None:
            await chats.rewind(connection, chat.id, question.replaces_id)
        if is_kept:
            await chats.save_exchange(
                connection,
                tenant_id=account.tenant_id,
                user_id=account.user_id,
                chat=chat,
                said=said,
            )
        for number, turn in enumerate(turns):
            actual = judge_reply(card, turn.held, turn.answer.reply)
            # An answer is paid for once: the further calls for it have names of their own.
            answer_id = uuid5(said.answer_id, str(number)) if number else said.answer_id
            await holds.settle(connection, turn.held.key, actual, answer_id)
        return is_kept

    if not await engine.db.transact(account.tenant_id, work):
        # What was asked was answered and is paid for; there is nowhere to keep it.
        raise NotFound(f"Chat {chat.id} was deleted while its question was answered.")
    return Reply(
        chat_id=chat.id,
        question_id=said.question_id,
        message_id=said.answer_id,
        text=said.answer,
        model_name=said.model_name,
        finish_reason=said.finish_reason,
        is_incomplete=said.is_incomplete,
        flags=said.flags,
        usage=said.usage,
        calls=said.calls,
    )


async def _find_reply(engine: Engine, account: Account, question_id: UUID) -> Reply | None:
    """Find the answer of a question that was asked before, by whoever did not live to tell it."""

    async def work(connection: Connection) -> dict[str, Any] | None:
        return await chats.find_message(connection, derive_answer_id(question_id))

    row = await engine.db.transact(account.tenant_id, work)
    if row is None:
        return None
    usage = row["token_usage"]
    return Reply(
        chat_id=row["chat_id"],
        question_id=question_id,
        message_id=row["id"],
        text=row["content"],
        model_name=row["model_name"],
        finish_reason=FinishReason(row["finish_reason"]),
        is_incomplete=row["is_incomplete"],
        flags=tuple(row["flags"]),
        usage=Usage(usage["input_tokens"], usage["output_tokens"], UsageSource(usage["source"])),
        calls=usage["calls"],
    )


def derive_answer_id(question_id: UUID) -> UUID:
    """Derive the id of an answer from its question's."""
    return uuid5(question_id, "answer")


def check_message(text: str, *, bytes_max: int) -> str:
    """Make a message fit to be sent and kept; refuse one that says nothing or is far too long."""
    size = len(text.encode(errors="replace"))
    if size > bytes_max:
        raise TooLarge(
            f"The message has {size:,} bytes; at most {bytes_max:,} are allowed "
            "(DIALECTIC_MAX_PROMPT_BYTES). Shorten it."
        )
    clean, _ = clean_text(text)
    if not clean.strip():
        raise UsageError("The message is empty. Say something.")
    return clean


async def _open(
    engine: Engine, account: Account, question: Question, message: str
) -> tuple[Chat, list[dict[str, Any]]]:
    chat_id = question.chat_id
    if chat_id is None:
        if question.replaces_id is not None:
            raise UsageError("Name the chat whose message this one takes the place of.")
        title = message.strip().splitlines()[0][:TITLE_CHARS]
        system = clean_text(question.system)[0]
        return Chat(uuid5(question.id, "chat"), title, system, is_new=True), []
    if question.system:
        raise UsageError("A chat keeps the system instruction it began with. Begin a new chat.")

    async def work(connection: Connection) -> tuple[Chat, list[dict[str, Any]]]:
        chat = await chats.load_chat(connection, chat_id)
        messages = await chats.list_messages(connection, chat_id)
        return chat, cut_thread(messages, question.replaces_id)

    return await engine.db.transact(account.tenant_id, work)


def cut_thread(messages: list[dict[str, Any]], replaces_id: UUID | None) -> list[dict[str, Any]]:
    """Keep what was said before a message of the person's; all of it if none is named."""
    if replaces_id is None:
        return messages
    for number, row in enumerate(messages):
        if row["id"] == replaces_id:
            if row["role"] != Role.USER:
                raise UsageError("Only what you said yourself can be said anew.")
            return messages[:number]
    raise NotFound(f"There is no message {replaces_id} in the thread of this chat.")


def build_prompt(messages: Sequence[dict[str, Any]]) -> str:
    """Build the prompt of a project out of what was said in a chat."""
    if len(messages) == 1:
        return str(messages[0]["content"])
    heads = {Role.USER: "Question", Role.ASSISTANT: "Answer"}
    parts = [f"## {heads[Role(row['role'])]}\n\n{row['content'].strip()}" for row in messages]
    return "\n\n".join(parts) + "\n"


def build_request(
    card: ModelCard,
    system: str,
    earlier: Sequence[dict[str, Any]],
    message: str,
    max_output_tokens: int | None,
) -> Request:
    """Build the first request of an exchange: all that was said, and the question."""
    history = [Message(Role(row["role"]), row["content"]) for row in earlier]
    return Request(
        model=card.name,
        system=system,
        messages=(*history, Message(Role.USER, message)),
        max_output_tokens=min(max_output_tokens or card.max_output_tokens, card.max_output_tokens),
    )


@dataclass(frozen=True, slots=True)
class Asking:
    """One question on its way."""

    engine: Engine
    account: Account
    card: ModelCard
    request: Request
    call_id: UUID
    on_text: OnText

    async def converse(self, *, continues: bool) -> tuple[list[Turn], Finish]:
        """Call until the answer is whole, or as often as is allowed."""
        limits = Limits(continues, CALLS_MAX - 1)
        turns: list[Turn] = []
        while True:
            said = [turn.answer.reply.text for turn in turns]
            try:
                turn = await self._call(said)
                outcome = follow(turn.answer.reply, said, limits)
            except INTERRUPTIONS as error:
                await self._let_go(len(said), error)
                if not said:
                    raise
                return turns, close(said, describe_interruption(error))
            turns.append(turn)
            match outcome:
                case Finish():
                    return turns, outcome
                case GoOn():
                    continue

    async def _call(self, said: list[str]) -> Turn:
        asked = replace(self.request, messages=(*self.request.messages, *build_history(said)))
        held = await self._hold(fit(asked, self.card, gives_way=True), self._key(len(said)))
        caller = Caller(self.account.tenant_id, self.call_id, len(said) + 1)
        return Turn(held, await call(self.engine, caller, self.card, held, self.on_text))

    def _key(self, turn: int) -> str:
        return f"chat:{self.call_id}:{turn}"

    async def _hold(self, request: Request, key: str) -> Held:
        """Set aside what a call can cost; a person who chats is asked by the error itself."""
        counted = (await count_request_tokens_aside(request, self.card)).upper_tokens
        rates, wallet_id = Rates.of(self.card), self.account.wallet_id
        fraction = Decimal(str(self.engine.settings.max_spend_fraction))

        async def work(connection: Connection) -> int:
            purse = await wallets.load_purse(
                connection, wallet_id, None, is_play=is_play(self.card)
            )
            cap = decide_output_cap(
                purse, rates, counted, self.card, request.max_output_tokens, fraction=fraction
            )
            amount = decide_hold(counted, cap, rates)
            judge_spend(amount, purse, fraction)
            new = NewHold(
                key=key,
                wallet_id=wallet_id,
                is_play=is_play(self.card),
                purpose=Purpose.CHAT,
                model_name=self.card.name,
                amount_credits=amount,
                rates=rates,
                counted_input_tokens=counted,
                output_cap_tokens=cap,
            )
            await holds.reserve(connection, new)
            return cap

        cap = await self.engine.db.transact(self.account.tenant_id, work)
        return Held(replace(request, max_output_tokens=cap), key, counted)

    async def _let_go(self, turn: int, error: DialecticError) -> None:
        """Resolve the hold of a call that failed, if it came to one."""

        async def work(connection: Connection) -> None:
            found = await holds.find_hold(connection, self._key(turn))
            if found is None or found.state is not HoldState.PENDING:
                return
            actual = price_failure(found, self.card, error)
            if actual is None:
                await holds.void(connection, found.key)
            else:
                await holds.settle(connection, found.key, actual, None)

        await self.engine.db.transact(self.account.tenant_id, work)


def describe_interruption(error: DialecticError) -> str:
    """Name what kept an answer from going on, as a flag."""
    return WINDOW_FULL if isinstance(error, ContextWindowError) else f"interrupted:{error.code}"


def build_exchange(
    question_id: UUID, message: str, card: ModelCard, turns: Sequence[Turn], outcome: Finish
) -> Exchange:
    """Build the record of an exchange; its usage is that of all calls."""
    answers = [turn.answer for turn in turns]
    usages = [answer.reply.usage for answer in answers]
    is_reported = all(usage.source is UsageSource.REPORTED for usage in usages)
    notes = [note for answer in answers for note in answer.notes]
    last = answers[-1].reply.finish_reason
    return Exchange(
        question_id=question_id,
        question=message,
        answer_id=derive_answer_id(question_id),
        answer=outcome.text,
        model_name=card.name,
        usage=Usage(
            sum(usage.input_tokens for usage in usages),
            sum(usage.output_tokens for usage in usages),
            UsageSource.REPORTED if is_reported else UsageSource.COUNTED,
        ),
        calls=len(answers),
        finish_reason=FinishReason.LENGTH if outcome.is_incomplete else last,
        is_incomplete=outcome.is_incomplete,
        flags=(*outcome.flags, *(f"cleaned: {note}" for note in dict.fromkeys(notes))),
    )
