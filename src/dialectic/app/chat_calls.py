"""The calls of one question in a chat: held, made, and settled or given up. Knows nothing of chats.

A cut-off answer is gone on with if that is wished. If a further call fails, what was said until
then is the answer. Of a question that comes to nothing no money stays set aside, also if whoever
asked has left.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from uuid import UUID, uuid5

from dialectic.core.models.messages import FinishReason, Request
from dialectic.core.models.model import ModelCard
from dialectic.core.money.price import Rates, check_spend, decide_hold, decide_output_cap, is_play
from dialectic.db.pool import Connection
from dialectic.db.tables.records import Account
from dialectic.engine import Engine
from dialectic.errors import (
    ContextWindowError,
    DialecticError,
    EndpointBusy,
    FundsError,
    ProviderError,
)
from dialectic.ledger import holds, wallets
from dialectic.ledger.holds import HoldState, NewHold, Purpose
from dialectic.pipeline.assemble import build_history, fit
from dialectic.pipeline.call import Answer, call
from dialectic.pipeline.interpret import WINDOW_FULL, Continue, Finish, Limits, close, interpret
from dialectic.pipeline.reserve import Reservation, judge_reply, resolve_failed
from dialectic.providers.base import OnText
from dialectic.tokens.counting import count_request_tokens_aside

CALLS_MAX = 5
# What a further call may fail with without taking away what was said.
INTERRUPTIONS = (ProviderError, ContextWindowError, FundsError, EndpointBusy)


@dataclass(frozen=True, slots=True)
class Caller:
    """One call of a question, for the limits of its endpoint."""

    tenant_id: UUID
    id: UUID
    attempt: int


@dataclass(frozen=True, slots=True)
class Turn:
    """A call that was answered, and the hold it is paid out of."""

    held: Reservation
    answer: Answer


@dataclass(frozen=True, slots=True)
class ChatCalls:
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
            replies = [turn.answer.reply for turn in turns]
            said = [reply.text for reply in replies]
            has_stopped = any(reply.finish_reason is FinishReason.STOP for reply in replies)
            try:
                turn = await self._call(said)
                outcome = interpret(turn.answer.reply, said, limits, has_stopped=has_stopped)
            except INTERRUPTIONS as error:
                await self._resolve(range(len(said), len(said) + 1), error)
                if not said:
                    raise
                return turns, close(said, describe_interruption(error))
            turns.append(turn)
            match outcome:
                case Finish():
                    return turns, outcome
                case Continue():
                    continue

    @contextlib.asynccontextmanager
    async def paying(self) -> AsyncIterator[None]:
        """Let nothing stay set aside unless all of it comes to its end, whoever has left."""
        has_ended = False
        try:
            yield
            has_ended = True
        finally:
            if not has_ended:
                with contextlib.suppress(DialecticError):  # then it is swept some time later
                    await self._resolve(range(CALLS_MAX))

    async def settle(self, connection: Connection, turns: Sequence[Turn], answer_id: UUID) -> None:
        """Pay for the calls of an answer in the commit that saves it."""
        for number, turn in enumerate(turns):
            reply = turn.answer.reply
            await holds.settle(
                connection,
                turn.held.key,
                judge_reply(self.card, turn.held, reply),
                # An answer is paid for once: the further calls for it have names of their own.
                uuid5(answer_id, str(number)) if number else answer_id,
                request_id=reply.request_id,
            )

    async def _call(self, said: list[str]) -> Turn:
        asked = replace(self.request, messages=(*self.request.messages, *build_history(said)))
        request, key = fit(asked, self.card, gives_way=True), self._key(len(said))
        caller = Caller(self.account.tenant_id, self.call_id, len(said) + 1)
        held, answer = await call(
            self.engine, caller, self.card, request, lambda: self._hold(request, key), self.on_text
        )
        return Turn(held, answer)

    def _key(self, turn: int) -> str:
        return f"chat:{self.call_id}:{turn}"

    async def _hold(self, request: Request, key: str) -> Reservation:
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
            check_spend(amount, purse, fraction)
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
        return Reservation(replace(request, max_output_tokens=cap), key, counted)

    async def _resolve(self, calls: range, error: DialecticError | None = None) -> None:
        """Resolve the holds of calls that failed with this error, or whose answers are given up."""

        async def work(connection: Connection) -> None:
            for number in calls:
                found = await holds.find_hold(connection, self._key(number))
                if found is None or found.state is not HoldState.PENDING:
                    continue
                if error is None:
                    await holds.lose(connection, found.key)
                else:
                    await resolve_failed(connection, found, self.card, error)

        await self.engine.db.transact(self.account.tenant_id, work)


def describe_interruption(error: DialecticError) -> str:
    """Name what kept an answer from going on, as a flag."""
    return WINDOW_FULL if isinstance(error, ContextWindowError) else f"interrupted:{error.code}"
