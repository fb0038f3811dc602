"""Events and bodies as bytes, and bytes with a time. Knows no vendor; sends nothing."""

from __future__ import annotations

import enum
import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from dialectic.core.strict_json import JsonObject
from dialectic_simulator.wire import Event, Framing, Headers

COMMENT = ": still here"


class End(enum.Enum):
    """What happens to the connection after the last frame."""

    DONE = enum.auto()
    CLOSE = enum.auto()
    RESET = enum.auto()
    HANG = enum.auto()


@dataclass(frozen=True, slots=True)
class Frame:
    """Bytes that are sent at a time, and the tokens they carry."""

    data: bytes
    at_s: float = 0.0
    tokens: int = 0
    # Not to be joined with its neighbours.
    is_apart: bool = False


@dataclass(frozen=True, slots=True)
class Response:
    """The whole response to one call."""

    status: int = 200
    content_type: str = "application/json"
    headers: Headers = field(default_factory=dict)
    frames: tuple[Frame, ...] = ()
    end: End = End.DONE
    # For the log: the finish reason and the fault.
    finish: str | None = None
    input_tokens: int = 0
    # The gates it waits at: before the first byte, and one after a number of tokens.
    gates: tuple[str, ...] = ()
    late_gate: str | None = None
    late_gate_tokens: int = 0


def encode_json(value: JsonObject) -> bytes:
    """Write JSON as vendors do: no blanks, no escaped letters."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def encode_data(event: Event) -> bytes:
    """Write the data of an event."""
    return event.data.encode() if isinstance(event.data, str) else encode_json(event.data)


def frame_event(
    data: bytes, event: Event, framing: Framing, *, number: int, at_s: float = 0.0
) -> Frame:
    """Frame the data of an event with the lines that mark it."""
    end = framing.line_end.encode()
    if not framing.is_sse:
        return Frame(data + end, at_s, event.tokens)
    lines: list[bytes] = []
    if framing.has_comments:
        lines += [COMMENT.encode(), b""]
    if framing.has_ids:
        lines.append(f"id: {number}".encode())
    if event.name is not None:
        lines.append(f"event:{framing.space}{event.name}".encode())
    lines += [f"data:{framing.space}".encode() + data, b"", b""]
    return Frame(end.join(lines), at_s, event.tokens)


def split_frame(frame: Frame, at: int) -> list[Frame]:
    """Split a frame in two that are sent separately; the second carries the tokens."""
    return [
        Frame(frame.data[:at], frame.at_s, 0, is_apart=True),
        Frame(frame.data[at:], frame.at_s, frame.tokens, is_apart=True),
    ]


def join_frames(frames: Sequence[Frame], *, bytes_max: int = 65_536) -> list[Frame]:
    """Join neighbours that are due at the same time, so that they are one packet."""
    joined: list[Frame] = []
    for frame in frames:
        last = joined[-1] if joined else None
        if (
            last is not None
            and not (last.is_apart or frame.is_apart)
            and last.at_s == frame.at_s
            and len(last.data) + len(frame.data) <= bytes_max
        ):
            joined[-1] = Frame(last.data + frame.data, last.at_s, last.tokens + frame.tokens)
        else:
            joined.append(frame)
    return joined
