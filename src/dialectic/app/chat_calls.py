"""The calls of one chat question: reserve, send, then settle or release.

A cut-off answer is continued if the person asked for that. If a further call fails, the text so far
is the answer. A failed question releases its holds, even if the client has disconnected.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID, uuid5

from dialectic.core.models.messages import FinishReason, Request
from dialectic.core.models.model import ModelCard
from dialectic.core.text import clean_text
from dialectic.db.pool import Connection
from dialectic.db.tables.records import Account
from dialectic.engine import Engine
from dialectic.errors import (
    ContextWindowError,
    DialecticError,
    EndpointBusy,
    FundsError,
    PartialResponse,
    ProviderError,
    ProviderTransient,
)
from dialectic.ledger.holds import Purpose
from dialectic.pipeline.assemble import build_history, fit
from dialectic.pipeline.call import Answer, call
from dialectic.pipeline.interpret import WINDOW_FULL, Continue, Finish, Limits, close, interpret
from dialectic.pipeline.reserve import DirectCaller, Payment, Reservation, resolve_open, settle
from dialectic.providers.base import OnText

CALLS_MAX = 5
# The flag of an answer that the person stopped.
STOPPED = "stopped"
# If a further call fails with one of these, keep the text so far.
INTERRUPTIONS = (ProviderError, ContextWindowError, FundsError, EndpointBusy)


@dataclass(frozen=True, slots=True)
class Turn:
    """An answered call and the hold that pays for it."""

    held: Reservation
    answer: Answer


@dataclass(frozen=True, slots=True)
class ChatCalls:
    """One question and its calls."""

    engine: Engine
    account: Account
    card: ModelCard
    request: Request
    call_id: UUID
    on_text: OnText
    # Set when the person wants no more of the answer.
    stopping: asyncio.Event

    async def converse(self, *, continues: bool) -> tuple[list[Turn], Finish]:
        """Call until the answer is complete or the call limit is reached."""
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
                if self.stopping.is_set() and isinstance(error, ProviderError):
                    said = [*said, error.remains.partial_text]
                if not any(said):
                    raise
                return turns, close(said, self._describe_end(error))
            turns.append(turn)
            match outcome:
                case Finish():
                    return turns, outcome
                case Continue():
                    continue

    @contextlib.asynccontextmanager
    async def paying(self) -> AsyncIterator[None]:
        """Release all holds if the block fails, even if the client has disconnected."""
        has_ended = False
        try:
            yield
            has_ended = True
        finally:
            if not has_ended:
                with contextlib.suppress(DialecticError):  # the sweeper resolves the hold later
                    await self._resolve(range(CALLS_MAX))

    async def settle(self, connection: Connection, turns: Sequence[Turn], answer_id: UUID) -> None:
        """Pay for the calls of an answer in the commit that saves it."""
        for number, turn in enumerate(turns):
            # The first call is settled with the answer's id; further calls have their own ids.
            paid_id = uuid5(answer_id, str(number)) if number else answer_id
            await settle(connection, self.card, turn.held, turn.answer.reply, paid_id)

    async def _call(self, said: list[str]) -> Turn:
        asked = replace(self.request, messages=(*self.request.messages, *build_history(said)))
        request, key = fit(asked, self.card, gives_way=True), self._key(len(said))
        caller = DirectCaller(self.account.tenant_id, self.call_id, len(said) + 1)
        # A chat has no approved spending: the error itself asks the person for approval.
        payment = Payment(self.account.wallet_id, key, Purpose.CHAT)
        pieces: list[str] = []

        def hear(piece: str) -> None:
            pieces.append(piece)
            self.on_text(piece)

        calling = asyncio.ensure_future(
            call(self.engine, caller, self.card, request, payment, hear)
        )
        await self._wait_or_stop(calling, pieces)
        return Turn(*await calling)

    async def _wait_or_stop(self, calling: asyncio.Future[Any], pieces: list[str]) -> None:
        """Wait for a call. If the person stops it, raise with the text that arrived: it is paid."""
        stop = asyncio.ensure_future(self.stopping.wait())
        try:
            await asyncio.wait({calling, stop}, return_when=asyncio.FIRST_COMPLETED)
            if calling.done():
                return
        finally:
            stop.cancel()
            if not calling.done():
                calling.cancel()
                await asyncio.wait({calling})
        text = clean_text("".join(pieces))[0]
        remains = PartialResponse(was_sent=True, partial_text=text)
        raise ProviderTransient("The answer was stopped.", reason=STOPPED, remains=remains)

    def _describe_end(self, error: DialecticError) -> str:
        return STOPPED if self.stopping.is_set() else describe_interruption(error)

    def _key(self, turn: int) -> str:
        return f"chat:{self.call_id}:{turn}"

    async def _resolve(self, calls: range, error: DialecticError | None = None) -> None:
        """Resolve the holds of calls that failed with this error or whose answers are abandoned."""
        keys = [self._key(number) for number in calls]
        await resolve_open(self.engine, self.account.tenant_id, keys, self.card, error)


def describe_interruption(error: DialecticError) -> str:
    """Build the flag that names why an answer was not continued."""
    return WINDOW_FULL if isinstance(error, ContextWindowError) else f"interrupted:{error.code}"
