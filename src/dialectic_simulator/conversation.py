"""What is asked and what is answered, in no vendor's words. Knows no bytes and no script."""

from __future__ import annotations

import enum
import hashlib
import json
from dataclasses import dataclass
from typing import TypeAlias

from dialectic.core.models.messages import FinishReason, Message, Role


class WireName(enum.StrEnum):
    """The protocols that are spoken."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"
    GOOGLE = "google"
    OLLAMA = "ollama"

    @property
    def refuses_large_caps(self) -> bool:
        """Whether it refuses an output cap that does not fit; the others lower it in silence."""
        return self in (WireName.OPENAI, WireName.ANTHROPIC)


class Route(enum.StrEnum):
    """What a call is for."""

    CHAT = "chat"
    EMBEDDINGS = "embeddings"
    COUNT_TOKENS = "count_tokens"
    MODELS = "models"


@dataclass(frozen=True, slots=True)
class Ask:
    """One request for text, for vectors or for a count."""

    model: str
    system: str = ""
    turns: tuple[Message, ...] = ()
    max_tokens: int | None = None
    is_stream: bool = False
    # Which of several answers to the same question; nothing on most wires.
    variant: str = ""
    # OpenAI reports usage in a stream only to those who ask for it.
    wants_usage: bool = True
    # Texts to be turned into vectors, how long those shall be, and in which form they are sent.
    inputs: tuple[str, ...] = ()
    dimensions: int | None = None
    is_base64: bool = False
    is_batch: bool = False

    @property
    def assistant_turns(self) -> int:
        return sum(turn.role is Role.ASSISTANT for turn in self.turns)

    @property
    def words(self) -> str:
        """All that a person or a program said, for rules that look for a text."""
        said = [turn.content for turn in self.turns if turn.role is Role.USER]
        return "\n".join([self.system, *said, *self.inputs])

    def hash_messages(self) -> str:
        """Hash what was said, by whom and in which order; the same talk has the same hash."""
        said = [[turn.role.value, turn.content] for turn in self.turns]
        text = json.dumps([self.system, said, self.inputs])
        return hashlib.sha256(text.encode()).hexdigest()


class Shape(enum.Enum):
    """How an answer's text is wrapped; all but the first are faults."""

    PLAIN = enum.auto()
    NO_CHOICES = enum.auto()
    NULL_CONTENT = enum.auto()
    PARTS = enum.auto()
    TOOL_CALL = enum.auto()
    BLOCKED = enum.auto()
    REFUSAL = enum.auto()


class FinishForm(enum.Enum):
    """How the reason of an answer's end is told; all but the first are faults."""

    WORD = enum.auto()
    UNKNOWN = enum.auto()
    NULL = enum.auto()
    NUMBER = enum.auto()
    OTHER_CASE = enum.auto()
    ABSENT = enum.auto()


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a text that goes out at once, and the tokens it is made of."""

    text: str
    tokens: int


Figures: TypeAlias = tuple[int | str, int | str]
"""Input and output tokens as they are reported, which may be nonsense."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer, ready to be put into a vendor's words."""

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

    def word_finish(self, words: dict[FinishReason, str]) -> str | int | None:
        """Tell why the answer ended, in a vendor's words or in words that make no sense."""
        word = words[self.finish]
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
    """What a vendor complains about."""

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
    """A complaint, before a vendor puts it into words. Empty words mean the vendor's usual ones."""

    kind: TroubleKind
    model: str = ""
    words: str = ""
    retry_after: str | None = None
    # What was counted and what would have been allowed, where a complaint is about that.
    tokens: int = 0
    tokens_max: int = 0

    @property
    def status(self) -> int:
        return STATUS[self.kind]

    def say(self, usual: str) -> str:
        """Put it into words: its own, or the vendor's usual ones with its figures."""
        return self.words or usual.format(
            model=self.model, tokens=self.tokens, tokens_max=self.tokens_max
        )


class Refused(Exception):
    """A call that a real vendor would not carry out either."""

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
    """What is left of an endpoint's limits, where it has any."""

    requests: Allowance | None = None
    tokens: Allowance | None = None

    @property
    def named(self) -> dict[str, Allowance]:
        both = {"requests": self.requests, "tokens": self.tokens}
        return {name: allowance for name, allowance in both.items() if allowance is not None}
