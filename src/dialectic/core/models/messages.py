"""Requests to a model and its replies. Independent of vendor and database.

A request is complete: system instruction, alternating turns, output limit. Its tokens are counted
over exactly this value, so nothing may be added after the count.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise


class Role(enum.StrEnum):
    """Who speaks in a turn."""

    USER = "user"
    ASSISTANT = "assistant"


class FinishReason(enum.StrEnum):
    """Why an answer ended; the vendor's own value is stored too."""

    STOP = "stop"
    LENGTH = "length"
    TOOL = "tool"
    FILTER = "filter"
    ERROR = "error"


class UsageSource(enum.StrEnum):
    """Where the token counts of an answer come from."""

    REPORTED = "reported"
    COUNTED = "counted"


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation."""

    role: Role
    content: str


@dataclass(frozen=True, slots=True)
class Request:
    """Everything that is sent in one call."""

    model: str
    system: str
    messages: tuple[Message, ...]
    max_output_tokens: int
    # Distinguishes several answers of one model to the same question.
    variant: int = 1

    def __post_init__(self) -> None:
        roles = [message.role for message in self.messages]
        assert roles, "a request has at least one message"
        assert roles[0] is Role.USER, "the user speaks first"
        assert roles[-1] is Role.USER, "the user speaks last"
        assert all(a is not b for a, b in pairwise(roles)), "roles alternate"
        assert self.max_output_tokens > 0, "an answer needs room"


# The highest token count that is accepted; no real call comes near it.
COUNT_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call; the input count includes cached tokens."""

    input_tokens: int
    output_tokens: int
    source: UsageSource


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer. `raw` is the vendor's response as JSON, for the audit."""

    text: str
    finish_reason: FinishReason
    raw_finish_reason: str | None
    usage: Usage
    request_id: str | None
    raw: Mapping[str, object] = field(default_factory=dict)
    # The reported input and output tokens if they are invalid; then `usage` is our own count.
    odd_usage: tuple[object, object] | None = None
