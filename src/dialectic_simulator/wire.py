"""The interface of every vendor's wire: parse requests, write answers, events and errors.

Also the shared parsing. Knows neither how an event becomes bytes nor the faults.
"""

from __future__ import annotations

import abc
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import ClassVar

from dialectic.core.models.messages import Message, Role
from dialectic.core.strict_json import JsonObject
from dialectic_simulator.conversation import (
    Allowances,
    Answer,
    Ask,
    Refused,
    Trouble,
    TroubleKind,
    WireName,
)
from dialectic_simulator.script import Facts

Headers = dict[str, str]

# All dates are the same: the same script gives the same bytes.
CREATED_S = 1_767_225_600
CREATED = "2026-01-01T00:00:00Z"
_VENDORS = tomllib.loads(files(__package__).joinpath("vendors.toml").read_text("utf-8"))


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a stream. Its data is JSON, or a literal word."""

    data: JsonObject | str
    name: str | None = None
    # The tokens of its text.
    tokens: int = 0
    is_finish: bool = False
    is_terminator: bool = False


@dataclass(frozen=True, slots=True)
class Framing:
    """How events become bytes."""

    is_sse: bool = True
    line_end: str = "\n"
    space: str = " "
    has_comments: bool = False
    has_ids: bool = False

    @property
    def content_type(self) -> str:
        return "text/event-stream; charset=utf-8" if self.is_sse else "application/x-ndjson"


class Wire(abc.ABC):
    """One vendor's protocol. A subclass writes and reads what differs between vendors."""

    name: ClassVar[WireName]
    framing: ClassVar[Framing] = Framing()

    @abc.abstractmethod
    def read_ask(self, body: JsonObject, *, model: str, is_stream: bool) -> Ask:
        """Parse a request for text; raises `Refused`."""

    @abc.abstractmethod
    def build_whole(self, answer: Answer) -> JsonObject: ...

    @abc.abstractmethod
    def build_events(self, answer: Answer) -> list[Event]: ...

    @abc.abstractmethod
    def build_model(self, name: str, facts: Facts) -> JsonObject: ...

    @abc.abstractmethod
    def build_trouble(self, trouble: Trouble) -> JsonObject: ...

    def build_models(self, models: Mapping[str, Facts]) -> JsonObject:
        return {"models": [self.build_model(*item) for item in models.items()]}

    def build_trouble_event(self, trouble: Trouble) -> Event:
        return Event(self.build_trouble(trouble))

    def build_headers(self, request_id: str, allowances: Allowances) -> Headers:  # noqa: ARG002
        return {}

    def word_finish(self, answer: Answer) -> str | int | None:
        """Return the vendor's word for a finish reason, or an invalid one."""
        return answer.word_finish(_VENDORS[self.name]["finish"][answer.finish])

    def word_trouble(self, trouble: Trouble) -> list[str]:
        """Return the vendor's codes for an error, and its message last."""
        *codes, usual = _VENDORS[self.name]["troubles"][trouble.kind]
        return [*codes, trouble.say(usual)]


class CountingWire(Wire):
    """A protocol with a call for counting tokens."""

    @abc.abstractmethod
    def build_count(self, tokens: int) -> JsonObject: ...


class VectorWire(Wire):
    """A protocol with a call for vectors."""

    @abc.abstractmethod
    def read_embedding(self, body: JsonObject, *, model: str) -> Ask:
        """Parse a request for vectors; raises `Refused`."""

    @abc.abstractmethod
    def build_vectors(
        self, ask: Ask, vectors: Sequence[list[float]], tokens: int
    ) -> JsonObject: ...


def refuse(words: str, model: str = "") -> Refused:
    """Build the error for an invalid request."""
    return Refused(Trouble(TroubleKind.BAD_REQUEST, model=model, words=words))


def read_text(body: JsonObject, key: str) -> str:
    """Parse a text; empty if none is given."""
    value = body.get(key, "")
    if not isinstance(value, str):
        raise refuse(f"{key}: must be a string")
    return value


def read_model(body: JsonObject, complaint: str) -> str:
    """Parse the name of the model; without one, raise the vendor's error."""
    name = read_text(body, "model")
    if not name:
        raise refuse(complaint)
    return name


def read_count(body: JsonObject, key: str) -> int | None:
    """Parse a number of tokens; None if none is given."""
    value = body.get(key)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise refuse(f"{key}: must be a whole number of at least 1")
    return value


def read_object(body: JsonObject, key: str) -> JsonObject:
    """Parse an object; empty if none is given."""
    value = body.get(key) or {}
    if not isinstance(value, dict):
        raise refuse(f"{key}: must be an object")
    return value


def read_parts(content: object, where: str) -> str:
    """Join the text of a message that is a string or a list of parts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise refuse(f"{where}: must be a string or a list of parts")
    return "".join(_read_part(part, where) for part in content)


def _read_part(part: object, where: str) -> str:
    text = part.get("text") if isinstance(part, dict) else None
    if not isinstance(text, str):
        raise refuse(f"{where}: this simulator reads parts of text only")
    return text


def read_turns(
    entries: object, where: str, roles: Mapping[str, Role | None], content_key: str
) -> tuple[str, tuple[Message, ...]]:
    """Parse the messages of a conversation; roles that map to None are the system's."""
    if not isinstance(entries, list) or not entries:
        raise refuse(f"{where}: at least one message is required")
    system: list[str] = []
    turns: list[Message] = []
    for index, entry in enumerate(entries):
        place = f"{where}.{index}"
        role = entry.get("role", "user") if isinstance(entry, dict) else None
        if not isinstance(role, str) or role not in roles:
            raise refuse(f"{place}.role: must be one of {', '.join(roles)}")
        text = read_parts(entry.get(content_key), f"{place}.{content_key}")
        speaker = roles[role]
        if speaker is None:
            system.append(text)
        else:
            turns.append(Message(speaker, text))
    if not turns:
        raise refuse(f"{where}: at least one message of the user is required")
    return "\n\n".join(system), tuple(turns)


def read_variant(body: JsonObject, seed: object) -> str:
    """Parse what distinguishes equal questions: a seed, or `variant` among the metadata."""
    metadata = body.get("metadata")
    named = metadata.get("variant") if isinstance(metadata, dict) else None
    return " ".join(str(part) for part in (seed, named) if part is not None)


def add_figures(given: int | str, made: int | str) -> int | str:
    """Add reported counts, even if they are strings."""
    total = int(given) + int(made)
    return total if isinstance(given, int) else str(total)
