"""Build the response to one call: text, truncation, usage, events, bytes, times. Pure.

The caller passes in everything about the call and its manner; equal input gives equal bytes.
"""

from __future__ import annotations

import email.utils
from dataclasses import dataclass, field, replace
from random import Random

from dialectic.core.models.messages import FinishReason
from dialectic.core.strict_json import JsonObject
from dialectic_simulator.conversation import (
    Allowances,
    Answer,
    Ask,
    Figures,
    Refused,
    Shape,
    Trouble,
    TroubleKind,
)
from dialectic_simulator.faults import FAULTS, NO_FAULT, Fault
from dialectic_simulator.framing import End, Frame, Response, encode_data, encode_json, frame_event
from dialectic_simulator.script import Facts, Manner
from dialectic_simulator.stream_damage import (
    GATEWAY_PAGE,
    LOGIN_PAGE,
    MARK,
    MARKED,
    choose_framing,
    damage_events,
    damage_frames,
    damage_json,
    is_damaging_json,
    pick_middle,
)
from dialectic_simulator.text import (
    Author,
    build_dice,
    build_pieces,
    cut_tokens,
    decide_rest,
    is_endless,
    read_written,
    split_tokens,
    write_document,
)
from dialectic_simulator.wire import Headers, Wire

ABOVE_HOLD_TOKENS = 1_000
# The faults produced here; a test compares this with the table of faults.
NAMES = frozenset(
    "filtered empty_content always_length length_no_text continuation_restarts usage_missing "
    "usage_negative usage_zero usage_tenfold usage_string usage_above_hold".split()
)


@dataclass(frozen=True, slots=True)
class Call:
    """One call with everything that decides its answer."""

    wire: Wire
    ask: Ask
    facts: Facts
    manner: Manner
    author: Author
    input_tokens: int
    # The number of this call among equal calls.
    try_number: int = 1
    # Selects the document, if a repeated conversation gets a different one.
    edition: int = 1
    allowances: Allowances = field(default_factory=Allowances)
    now_s: float = 0.0

    @property
    def fault(self) -> Fault | None:
        return None if self.manner.fault == NO_FAULT else FAULTS[self.manner.fault]

    @property
    def id(self) -> str:
        """The id of the answer: different for each try, the same in every run."""
        return f"sim-{self.roll('id').getrandbits(96):024x}"

    def roll(self, purpose: str) -> Random:
        """Return a random generator that depends on the call's words, not on its time."""
        return build_dice(
            self.author.seed, purpose, self.ask.model, self.ask.hash_messages(), self.try_number
        )


def check_window(ask: Ask, facts: Facts, input_tokens: int, wire: Wire) -> None:
    """Reject what does not fit the model, in the same cases as the vendors; raises `Refused`."""
    if input_tokens > facts.input_tokens_max:
        raise Refused(
            Trouble(
                TroubleKind.CONTEXT,
                ask.model,
                tokens=input_tokens,
                tokens_max=facts.input_tokens_max,
            )
        )
    asked = ask.max_tokens
    if asked is None or not wire.name.refuses_large_caps:
        return
    if asked > facts.max_output_tokens:
        words = (
            f"max_tokens: {asked} > {facts.max_output_tokens}, which is the maximum allowed number "
            f"of output tokens for {ask.model}"
        )
        raise Refused(Trouble(TroubleKind.BAD_REQUEST, ask.model, words))
    if input_tokens + asked > facts.context_window_tokens:
        words = (
            f"input length and `max_tokens` exceed context limit: {input_tokens} + {asked} > "
            f"{facts.context_window_tokens}, decrease input length or `max_tokens` and try again. "
            f"This model's maximum context length is {facts.context_window_tokens} tokens."
        )
        raise Refused(Trouble(TroubleKind.CONTEXT, ask.model, words))


def decide_cap(call: Call) -> int:
    """Decide the maximum tokens of the answer."""
    room = max(1, call.facts.context_window_tokens - call.input_tokens)
    return min(call.ask.max_tokens or room, call.facts.max_output_tokens, room)


def decide_answer(call: Call) -> Answer:
    """Decide the text, the finish reason and the reported usage."""
    manner, written = call.manner, read_written(call.ask)
    document = write_document(call.ask, manner, call.author, edition=call.edition)
    tokens = split_tokens(decide_rest(document, written, manner), call.facts.tokenizer)
    cap = decide_cap(call)
    if manner.cut_after_tokens is not None and (manner.cut_each_turn or not written):
        cap = min(cap, manner.cut_after_tokens)
    kept = cut_tokens(tokens, cap)
    is_cut = len(kept) < len(tokens) or is_endless(manner)
    finish = FinishReason.LENGTH if is_cut else FinishReason.STOP
    kept, finish = _spoil_text(call, kept, finish)
    made = cap if manner.fault == "length_no_text" else len(kept)
    fault = call.fault
    answer = Answer(
        id=call.id,
        model=call.ask.model,
        pieces=build_pieces(kept, manner.chunk_tokens),
        finish=finish,
        usage=_spoil_usage((call.input_tokens, made), manner.fault, cap),
        wants_usage=call.ask.wants_usage,
    )
    if fault is None:
        return answer
    return replace(answer, shape=fault.shape, finish_form=fault.finish_form)


def _spoil_text(
    call: Call, kept: list[bytes], finish: FinishReason
) -> tuple[list[bytes], FinishReason]:
    """Apply a fault to the text and to the finish reason."""
    name = call.manner.fault
    shape = call.fault.shape if call.fault is not None else Shape.PLAIN
    half = cut_tokens(kept, call.manner.fault_after_tokens or len(kept) // 2)
    if name in MARKED:
        return [*half, MARK.encode(), *kept[len(half) :]], finish
    if name == "filtered":
        return half, FinishReason.FILTER
    if name == "length_no_text":
        return [], FinishReason.LENGTH
    if shape is Shape.TOOL_CALL:
        return [], FinishReason.TOOL
    if name == "empty_content" or shape not in (Shape.PLAIN, Shape.PARTS):
        return [], FinishReason.STOP
    return kept, finish


def _spoil_usage(usage: tuple[int, int], fault: str, cap: int) -> Figures | None:
    given, made = usage
    spoilt: dict[str, Figures | None] = {
        "usage_missing": None,
        "usage_negative": (-given, -max(1, made)),
        "usage_zero": (0, 0),
        "usage_tenfold": (10 * given, 10 * made),
        "usage_string": (str(given), str(made)),
        "usage_above_hold": (2 * given + ABOVE_HOLD_TOKENS, 2 * cap + ABOVE_HOLD_TOKENS),
    }
    return spoilt.get(fault, usage)


def build_chat(call: Call) -> Response:
    """Build the response to a request for text."""
    answer = decide_answer(call)
    if call.ask.is_stream:
        return _build_stream(call, answer)
    output_tokens = sum(piece.tokens for piece in answer.pieces)
    at_s = _decide_first_byte_s(call) + _decide_writing_s(call, output_tokens)
    body = call.wire.build_whole(answer)
    return replace(
        build_plain(call, body, at_s=at_s, tokens=output_tokens), finish=answer.finish.value
    )


def build_plain(call: Call, body: JsonObject, *, at_s: float = 0.0, tokens: int = 0) -> Response:
    """Build a response that is one JSON body."""
    fault = call.manner.fault
    if fault == "200_html":
        frames, end = [Frame(LOGIN_PAGE, at_s)], End.DONE
    else:
        whole = Frame(damage_json(encode_json(body), fault), at_s, tokens)
        frames, end = damage_frames([whole], fault, 0, is_stream=False)
    return Response(
        content_type="text/html" if fault == "200_html" else "application/json",
        headers=_build_headers(call),
        frames=tuple(frames),
        end=end,
        input_tokens=call.input_tokens,
    )


def _build_stream(call: Call, answer: Answer) -> Response:
    manner, fault = call.manner, call.manner.fault
    if fault == "200_html":
        return build_plain(call, {}, at_s=_decide_first_byte_s(call))
    events = call.wire.build_events(answer)
    middle = pick_middle(events, manner.fault_after_tokens)
    numbered = damage_events(events, fault, middle, call.wire)
    framing = choose_framing(call.wire.framing, fault)
    first_byte_s = _decide_first_byte_s(call)
    frames: list[Frame] = []
    sent = 0
    for index, (number, event) in enumerate(numbered):
        sent += event.tokens
        data = encode_data(event)
        if not is_damaging_json(fault) or index == middle:
            data = damage_json(data, fault)
        at_s = first_byte_s + _decide_writing_s(call, sent)
        frames.append(frame_event(data, event, framing, number=number, at_s=at_s))
    played, end = damage_frames(frames, fault, middle, is_stream=True)
    has_finish = any(event.is_finish for _, event in numbered) and end is End.DONE
    return Response(
        content_type=framing.content_type,
        headers=_build_headers(call),
        frames=tuple(played),
        end=end,
        finish=answer.finish.value if has_finish else None,
        input_tokens=call.input_tokens,
    )


def _build_headers(call: Call) -> Headers:
    date = email.utils.formatdate(call.now_s, usegmt=True)
    return {"date": date, **call.wire.build_headers(call.id, call.allowances)}


def _decide_first_byte_s(call: Call) -> float:
    median_s, spread = call.manner.first_byte_s, call.manner.first_byte_spread
    return median_s * call.roll("latency").lognormvariate(0.0, spread) if spread else median_s


def _decide_writing_s(call: Call, tokens: int) -> float:
    return tokens / call.manner.tokens_per_s if call.manner.tokens_per_s else 0.0


def build_refusal(call: Call, trouble: Trouble, *, is_status_ok: bool = False) -> Response:
    """Build an error response."""
    headers = _build_headers(call)
    if trouble.retry_after is not None:
        headers["retry-after"] = word_retry_after(trouble.retry_after, call.now_s)
    is_page = trouble.kind is TroubleKind.GATEWAY
    data = GATEWAY_PAGE if is_page else encode_json(call.wire.build_trouble(trouble))
    return Response(
        status=200 if is_status_ok else trouble.status,
        content_type="text/html" if is_page else "application/json",
        headers=headers,
        frames=(Frame(data, _decide_first_byte_s(call)),),
    )


def build_fault_trouble(call: Call, fault: Fault) -> Trouble:
    """Build the error response of a fault."""
    assert fault.trouble is not None, "only faults with an error"
    return Trouble(
        fault.trouble,
        call.ask.model,
        retry_after=call.manner.retry_after or fault.retry_after,
        tokens=call.facts.input_tokens_max + 1,
        tokens_max=call.facts.input_tokens_max,
    )


def word_retry_after(value: str, now_s: float) -> str:
    """Write a Retry-After value; `date N` is a date N seconds from now."""
    kind, _, offset = value.partition(" ")
    if kind != "date":
        return value
    return email.utils.formatdate(now_s + float(offset), usegmt=True)
