"""Damage events, bytes and connections, by the name of the fault. Pure.

Faults of the answer itself (its shape, finish reason, usage, text) are in `response`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from dialectic_simulator.conversation import Trouble, TroubleKind
from dialectic_simulator.framing import End, Frame, split_frame
from dialectic_simulator.wire import Event, Framing, Wire

HUGE_LINE_BYTES = 10_000_000
TRICKLE_S_PER_BYTE = 1.0
LOGIN_PAGE = (
    b"<!DOCTYPE html>\n<html><head><title>Sign in</title></head>"
    b"<body><h1>Sign in to continue</h1></body></html>\n"
)
GATEWAY_PAGE = (
    b"<html><head><title>502 Bad Gateway</title></head>"
    b"<body><center><h1>502 Bad Gateway</h1></center></body></html>\n"
)

# A placeholder for bytes that no text can contain, until the text is encoded. It is a private use
# character, so no document contains it.
MARK = "\ue5e5"
MARKED = {
    "invalid_utf8": b"\xff\xfe",
    "lone_surrogate": b"\\ud83d",
    "nul": b"\\u0000",
}

_JSON: dict[str, Callable[[bytes], bytes]] = {
    "invalid_json": lambda data: data[:-1] + b',"noise":oops}',
    "cut_json": lambda data: data[: len(data) // 2],
    "nan_json": lambda data: b'{"noise":NaN,' + data[1:],
    "duplicate_keys": lambda data: b"{" + data[1:-1] + b"," + data[1:],
    "huge_line": lambda data: b'{"noise":"' + b"a" * HUGE_LINE_BYTES + b'",' + data[1:],
}

_FRAMINGS: dict[str, Callable[[Framing], Framing]] = {
    "crlf": lambda framing: replace(framing, line_end="\r\n"),
    "comments": lambda framing: replace(framing, has_comments=True),
    "no_space": lambda framing: replace(framing, space=""),
    "duplicated_events": lambda framing: replace(framing, has_ids=True),
    "reordered_events": lambda framing: replace(framing, has_ids=True),
}

_ENDS = {
    "idle_stream": End.HANG,
    "close_mid_stream": End.CLOSE,
    "reset_mid_stream": End.RESET,
}

# The faults produced here; a test compares this with the table of faults.
NAMES = frozenset(
    {
        *MARKED,
        *_JSON,
        *_FRAMINGS,
        *_ENDS,
        *("error_event", "done_missing", "duplicated_end", "stream_without_finish"),
        *("split_utf8", "trickle", "silence", "reset_before_first_byte", "200_html"),
    }
)

Numbered = tuple[int, Event]


def damage_json(data: bytes, fault: str) -> bytes:
    """Damage an encoded JSON object."""
    if mark := MARKED.get(fault):
        return data.replace(MARK.encode(), mark)
    return _JSON[fault](data) if fault in _JSON else data


def is_damaging_json(fault: str) -> bool:
    """Return whether a fault breaks the JSON syntax, not its content."""
    return fault in _JSON


def choose_framing(framing: Framing, fault: str) -> Framing:
    """Choose the framing of events: the vendor's, or another valid one."""
    return _FRAMINGS[fault](framing) if fault in _FRAMINGS else framing


def pick_middle(events: Sequence[Event], after_tokens: int | None) -> int:
    """Find the text event before which a stream fails, by the tokens sent until then."""
    total = sum(event.tokens for event in events)
    wanted = total // 2 if after_tokens is None else after_tokens
    sent = 0
    for index, event in enumerate(events):
        if event.tokens and sent >= wanted:
            return index
        sent += event.tokens
    # With less text than that: before the end of the stream.
    return next((i for i, e in enumerate(events) if e.is_finish or e.is_terminator), len(events))


def damage_events(events: list[Event], fault: str, middle: int, wire: Wire) -> list[Numbered]:
    """Drop, repeat or misplace events; each keeps its number."""
    numbered = list(enumerate(events, start=1))
    match fault:
        case "stream_without_finish":
            numbered = numbered[:middle]
        case "error_event":
            error = wire.build_trouble_event(Trouble(TroubleKind.OVERLOADED))
            numbered = [*numbered[:middle], (middle + 1, error)]
        case "done_missing":
            numbered = [(n, event) for n, event in numbered if not event.is_terminator]
        case "duplicated_events":
            numbered = [pair for pair in numbered for _ in range(2)]
        case "duplicated_end":
            finish = next((n for n, event in numbered if event.is_finish), len(numbered))
            numbered = numbered + numbered[finish - 1 :]
        case "reordered_events":
            numbered = _misplace_last_text(numbered)
        case _:
            pass
    return numbered


def _misplace_last_text(numbered: list[Numbered]) -> list[Numbered]:
    """Move the last text behind the finish reason."""
    texts = [index for index, (_, event) in enumerate(numbered) if event.tokens]
    finish = next((i for i, (_, event) in enumerate(numbered) if event.is_finish), None)
    if not texts or finish is None:
        return numbered
    moved = numbered.pop(texts[-1])
    numbered.insert(finish, moved)
    return numbered


def damage_frames(
    frames: list[Frame], fault: str, middle: int, *, is_stream: bool
) -> tuple[list[Frame], End]:
    """Split, delay or drop bytes, and decide how the connection ends."""
    match fault:
        case "idle_stream" | "close_mid_stream" | "reset_mid_stream":
            kept = frames[:middle] if is_stream else []
            if frames[middle:] and (fault != "idle_stream" or not is_stream):
                broken = frames[middle].data
                kept.append(Frame(broken[: len(broken) // 2], frames[middle].at_s))
            return kept, _ENDS[fault]
        case "silence":
            return [], End.HANG
        case "reset_before_first_byte":
            return [], End.RESET
        case "split_utf8":
            return [part for f in frames for part in split_frame(f, _pick_split(f.data))], End.DONE
        case "trickle":
            return _build_trickle(frames), End.DONE
        case _:
            return frames, End.DONE


def _pick_split(data: bytes) -> int:
    """Find a position inside a character; the middle if all are single bytes."""
    inside = (at for at, byte in enumerate(data) if byte & 0b1100_0000 == 0b1000_0000)
    return next(inside, len(data) // 2)


def _build_trickle(frames: list[Frame]) -> list[Frame]:
    """Send every byte by itself; the last of an event carries its tokens."""
    single = [
        (frame.data[at : at + 1], frame.tokens if at == len(frame.data) - 1 else 0)
        for frame in frames
        for at in range(len(frame.data))
    ]
    start_s = frames[0].at_s if frames else 0.0
    return [
        Frame(byte, start_s + number * TRICKLE_S_PER_BYTE, tokens, is_apart=True)
        for number, (byte, tokens) in enumerate(single)
    ]
