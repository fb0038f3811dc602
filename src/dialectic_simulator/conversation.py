"""Requests and answers, independent of any vendor. Knows no bytes and no script."""

from __future__ import annotations

import enum
import hashlib
import json
from dataclasses import dataclass
from typing import TypeAlias

from dialectic.core.models.messages import FinishReason, Message, Role


class WireName(enum.StrEnum):
    """The supported protocols."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"
    GOOGLE = "google"
    OLLAMA = "ollama"

    @property
    def refuses_large_caps(self) -> bool:
        """Whether it rejects an output limit that does not fit; the others lower it silently."""
        return self in (WireName.OPENAI, WireName.ANTHROPIC)


class Route(enum.StrEnum):
    """What a call is for."""

    CHAT = "chat"
    EMBEDDINGS = "embeddings"
    COUNT_TOKENS = "count_tokens"
    MODELS = "models"


@dataclass(frozen=True, slots=True)
class Ask:
    """One request for text, for vectors or for a token count."""

    model: str
    system: str = ""
    turns: tuple[Message, ...] = ()
    max_tokens: int | None = None
    is_stream: bool = False
    # Selects one of several answers to the same question; empty on most wires.
    variant: str = ""
    # OpenAI reports usage in a stream only on request.
    wants_usage: bool = True
    # Texts to embed, the size of the vectors, and their encoding.
    inputs: tuple[str, ...] = ()
    dimensions: int | None = None
    is_base64: bool = False
    is_batch: bool = False

    @property
    def assistant_turns(self) -> int:
        return sum(turn.role is Role.ASSISTANT for turn in self.turns)

    @property
    def words(self) -> str:
        """The whole text of the request, for rules that search it."""
        said = [turn.content for turn in self.turns if turn.role is Role.USER]
        return "\n".join([self.system, *said, *self.inputs])

    def hash_messages(self) -> str:
        """Hash the messages with their roles, in order; equal conversations have equal hashes."""
        said = [[turn.role.value, turn.content] for turn in self.turns]
        text = json.dumps([self.system, said, self.inputs])
        return hashlib.sha256(text.encode()).hexdigest()


class Shape(enum.StrEnum):
    """The form of an answer's text; all but the first are faults."""

    PLAIN = enum.auto()
    NO_CHOICES = enum.auto()
    NULL_CONTENT = enum.auto()
    PARTS = enum.auto()
    TOOL_CALL = enum.auto()
    BLOCKED = enum.auto()
    REFUSAL = enum.auto()


class FinishForm(enum.StrEnum):
    """The form of a finish reason; all but the first are faults."""

    WORD = enum.auto()
    UNKNOWN = enum.auto()
    NULL = enum.auto()
    NUMBER = enum.auto()
    OTHER_CASE = enum.auto()
    ABSENT = enum.auto()


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a text that is sent at once, and its number of tokens."""

    text: str
    tokens: int


Figures: TypeAlias = tuple[int | str, int | str]
"""Input and output tokens as reported, which may be nonsense."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer, ready to be written in a vendor's format."""

    id: str
    model: str
    pieces: tuple[Piece, ...]
    finish: FinishReason
    usage: Figures | None
    shape: Shape = Shape.PLAIN
    finish_form: FinishForm = FinishForm.WORD
    wants_usage: bool = True

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.pieces)

    def word_finish(self, word: str) -> str | int | None:
        """Return a vendor's word for the finish reason, or an invalid one."""
        match self.finish_form:
            case FinishForm.WORD | FinishForm.ABSENT:
                return word
            case FinishForm.UNKNOWN:
                return "banana"
            case FinishForm.NULL:
                return None
            case FinishForm.NUMBER:
                return 7
            case FinishForm.OTHER_CASE:
                return word.swapcase()


class TroubleKind(enum.StrEnum):
    """The kinds of vendor errors."""

    RATE = "rate"
    SPEND = "spend"
    PAYMENT = "payment"
    KEY = "key"
    KEY_INVALID = "key_invalid"
    FORBIDDEN = "forbidden"
    CONTEXT = "context"
    MODEL = "model"
    TOO_LARGE = "too_large"
    BAD_REQUEST = "bad_request"
    TIMEOUT = "timeout"
    SERVER = "server"
    GATEWAY = "gateway"
    UNAVAILABLE = "unavailable"
    OVERLOADED = "overloaded"


STATUS = {
    TroubleKind.RATE: 429,
    TroubleKind.SPEND: 429,
    TroubleKind.PAYMENT: 402,
    TroubleKind.KEY: 401,
    TroubleKind.KEY_INVALID: 400,
    TroubleKind.FORBIDDEN: 403,
    TroubleKind.CONTEXT: 400,
    TroubleKind.MODEL: 404,
    TroubleKind.TOO_LARGE: 413,
    TroubleKind.BAD_REQUEST: 400,
    TroubleKind.TIMEOUT: 408,
    TroubleKind.SERVER: 500,
    TroubleKind.GATEWAY: 502,
    TroubleKind.UNAVAILABLE: 503,
    TroubleKind.OVERLOADED: 529,
}


@dataclass(frozen=True, slots=True)
class Trouble:
    """An error, before a vendor words it. An empty message means the vendor's usual one."""

    kind: TroubleKind
    model: str = ""
    words: str = ""
    retry_after: str | None = None
    # The counted and the allowed tokens, if the error is about them.
    tokens: int = 0
    tokens_max: int = 0

    @property
    def status(self) -> int:
        return STATUS[self.kind]

    def say(self, usual: str) -> str:
        """Build the message: its own, or the vendor's usual one with the figures."""
        return self.words or usual.format(
            model=self.model, tokens=self.tokens, tokens_max=self.tokens_max
        )


class Refused(Exception):
    """A call that a real vendor would reject too."""

    def __init__(self, trouble: Trouble) -> None:
        super().__init__(trouble.kind.value)
        self.trouble = trouble


@dataclass(frozen=True, slots=True)
class Allowance:
    """What is left of a limit: shown in headers."""

    limit: int
    remaining: int
    reset_s: float


@dataclass(frozen=True, slots=True)
class Allowances:
    """What is left of an endpoint's limits, if it has any."""

    requests: Allowance | None = None
    tokens: Allowance | None = None

    @property
    def named(self) -> dict[str, Allowance]:
        both = {"requests": self.requests, "tokens": self.tokens}
        return {name: allowance for name, allowance in both.items() if allowance is not None}
