"""Chat answers that are being written in this process, for those who join them.

Knows neither HTTP nor the database. An answer of another process is not here: it appears in its
chat when it is saved.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from uuid import UUID

from dialectic.contract.chats import ChatReply, PendingQuestion
from dialectic.errors import DialecticError, InProgress


@dataclass(slots=True)
class LiveAnswer:
    """One answer: its text so far, and how it ended."""

    question: str
    model: str
    since: datetime = field(default_factory=lambda: datetime.fromtimestamp(time.time(), UTC))
    # Known as soon as the question is accepted.
    chat_id: UUID | None = None
    reply: ChatReply | None = None
    error: DialecticError | None = None
    is_over: bool = False
    # Set when the person wants no more of it.
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    _pieces: list[str] = field(default_factory=list)
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, piece: str) -> None:
        """Add a piece of text."""
        self._pieces.append(piece)
        self._tell()

    def end(self, reply: ChatReply | None, error: DialecticError | None) -> None:
        """End the answer; one without a reply or an error was stopped with its process."""
        self.reply, self.error, self.is_over = reply, error, True
        self._tell()

    async def read(self) -> AsyncIterator[str]:
        """Yield the text from its first word on, in pieces, until the answer is over."""
        seen = 0
        while True:
            news = self._news
            if seen < len(self._pieces):
                text, seen = "".join(self._pieces[seen:]), len(self._pieces)
                yield text
            elif self.is_over:
                return
            else:
                await news.wait()

    def get_reply(self) -> ChatReply:
        """Get the reply of an answer that is over, or raise its error."""
        if self.reply is not None:
            return self.reply
        raise self.error or InProgress("The server stopped. Send the question again.")

    def describe(self) -> PendingQuestion:
        """Describe the question, for those who look at its chat."""
        return PendingQuestion(question=self.question, model=self.model, since=self.since)

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


class LiveAnswers:
    """The answers that this process writes, by tenant and chat."""

    def __init__(self) -> None:
        self._answers: dict[tuple[UUID, UUID], LiveAnswer] = {}

    def begin(self, tenant_id: UUID, chat_id: UUID, answer: LiveAnswer) -> None:
        """Let others find an answer by its chat; of two at once, the later one."""
        answer.chat_id = chat_id
        self._answers[tenant_id, chat_id] = answer

    def find(self, tenant_id: UUID, chat_id: UUID) -> LiveAnswer | None:
        """Find the answer that is being written in a chat."""
        return self._answers.get((tenant_id, chat_id))

    @contextmanager
    def keeping(self, tenant_id: UUID, answer: LiveAnswer) -> Iterator[None]:
        """Forget an answer when it has ended, whatever ended it."""
        try:
            yield
        finally:
            if not answer.is_over:
                answer.end(None, None)
            if answer.chat_id is not None and self.find(tenant_id, answer.chat_id) is answer:
                del self._answers[tenant_id, answer.chat_id]
