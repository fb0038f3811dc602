"""The faults by name: a number, the wires each applies to, what happens. Data, and a lookup.

Numbers group faults that a client must treat alike; docs/simulator.md shows the same table.
"""

from __future__ import annotations

from dataclasses import dataclass

from dialectic_simulator.conversation import FinishForm, Shape, TroubleKind, WireName

NO_FAULT = "none"

EVERY_WIRE = frozenset(WireName)
SSE_WIRES = EVERY_WIRE - {WireName.OLLAMA}
VECTOR_WIRES = frozenset({WireName.OPENAI, WireName.GOOGLE})
OPENAI_ONLY = frozenset({WireName.OPENAI})
GOOGLE_ONLY = frozenset({WireName.GOOGLE})
OPENAI_AND_ANTHROPIC = frozenset({WireName.OPENAI, WireName.ANTHROPIC})
OPENAI_AND_OLLAMA = frozenset({WireName.OPENAI, WireName.OLLAMA})


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault. At most one of the last groups of fields says how it is produced."""

    name: str
    number: int
    what: str
    wires: frozenset[WireName] = EVERY_WIRE
    streams_only: bool = False
    vectors_only: bool = False
    # Also applies to calls that request no text.
    any_route: bool = False
    # Rejects the call, or answers 200 with the error inside.
    trouble: TroubleKind | None = None
    retry_after: str | None = None
    is_status_ok: bool = False
    # Changes the answer before it is written in a vendor's format.
    shape: Shape = Shape.PLAIN
    finish_form: FinishForm = FinishForm.WORD
    # `response` and `stream_damage` produce all other faults by name.

    @property
    def is_for_any_route(self) -> bool:
        return self.any_route or self.vectors_only or self.trouble is not None


def _refusal(
    name: str, number: int, what: str, kind: TroubleKind, retry_after: str | None = None
) -> Fault:
    return Fault(name, number, what, trouble=kind, retry_after=retry_after)


RATE = TroubleKind.RATE
TEN_YEARS_S = 315_360_000

# A retry-after that begins with `date` is sent as a date, this many seconds from now.
TABLE: tuple[Fault, ...] = (
    _refusal("429_retry_after", 1, "429, Retry-After: 7", RATE, "7"),
    _refusal("429_retry_after_date", 1, "429, Retry-After: a date in 7 s", RATE, "date 7"),
    _refusal("429_without_retry_after", 1, "429 without Retry-After", RATE),
    _refusal("429_retry_after_past", 2, "429, Retry-After: a date gone by", RATE, "date -3600"),
    _refusal("429_retry_after_negative", 2, "429, Retry-After: -5", RATE, "-5"),
    _refusal("429_retry_after_nan", 2, "429, Retry-After: NaN", RATE, "NaN"),
    _refusal("429_retry_after_ten_years", 2, "429, Retry-After: ten years", RATE, f"{TEN_YEARS_S}"),
    Fault(
        "429_spend_limit",
        3,
        "429, the spend limit is reached; no Retry-After",
        SSE_WIRES,
        trouble=TroubleKind.SPEND,
    ),
    Fault(
        "402_payment",
        3,
        "402, the account has no money left",
        OPENAI_AND_ANTHROPIC,
        trouble=TroubleKind.PAYMENT,
    ),
    _refusal("401_key", 4, "401, the key is not known", TroubleKind.KEY),
    _refusal("403_forbidden", 4, "403, the key may not do this", TroubleKind.FORBIDDEN),
    Fault(
        "400_key",
        4,
        "400, the key is not valid",
        GOOGLE_ONLY,
        trouble=TroubleKind.KEY_INVALID,
    ),
    _refusal("400_context_length", 5, "400, the prompt is too long", TroubleKind.CONTEXT),
    _refusal("404_model", 6, "404, the model does not exist", TroubleKind.MODEL),
    _refusal("413_too_large", 7, "413, the request is too large", TroubleKind.TOO_LARGE),
    _refusal("408_timeout", 8, "408, it took too long", TroubleKind.TIMEOUT),
    _refusal("500_server", 8, "500, an error of the server", TroubleKind.SERVER),
    _refusal("502_gateway", 8, "502, the HTML page of a gateway", TroubleKind.GATEWAY),
    _refusal("503_unavailable", 8, "503, unavailable", TroubleKind.UNAVAILABLE),
    _refusal("529_overloaded", 8, "529, overloaded", TroubleKind.OVERLOADED),
    Fault(
        "200_error_rate",
        9,
        "200 with a rate limit error as its body",
        trouble=RATE,
        retry_after="7",
        is_status_ok=True,
    ),
    Fault(
        "200_error_server",
        9,
        "200 with an error of the server as its body",
        trouble=TroubleKind.SERVER,
        is_status_ok=True,
    ),
    Fault(
        "200_error_context_length",
        9,
        "200 with the complaint of too long a prompt as its body",
        trouble=TroubleKind.CONTEXT,
        is_status_ok=True,
    ),
    Fault("200_html", 10, "200 with the HTML page of a login", any_route=True),
    Fault("empty_choices", 11, "200 without any choice", shape=Shape.NO_CHOICES),
    Fault(
        "prompt_blocked",
        11,
        "no candidates, and a reason why the prompt was blocked",
        GOOGLE_ONLY,
        shape=Shape.BLOCKED,
    ),
    Fault("filtered", 11, "half the text, then ended by a filter", SSE_WIRES),
    Fault(
        "refusal",
        11,
        "ends with stop, but only a refusal was said",
        OPENAI_ONLY,
        shape=Shape.REFUSAL,
    ),
    Fault(
        "null_content",
        12,
        "the content is null, the finish reason stop",
        OPENAI_AND_OLLAMA,
        shape=Shape.NULL_CONTENT,
    ),
    Fault("empty_content", 12, "the content is empty, the finish reason stop"),
    Fault(
        "parts_list",
        13,
        "the text comes as a list of parts",
        SSE_WIRES,
        shape=Shape.PARTS,
    ),
    Fault("tool_call", 13, "calls a tool that was not offered", shape=Shape.TOOL_CALL),
    Fault("invalid_json", 14, "JSON with a word that is none", any_route=True),
    Fault("cut_json", 14, "JSON that stops half-way", any_route=True),
    Fault("nan_json", 14, "JSON with NaN in it", any_route=True),
    Fault("duplicate_keys", 14, "JSON that has every key twice", any_route=True),
    Fault("huge_line", 14, "a line of 10 MB", any_route=True),
    Fault("invalid_utf8", 15, "bytes in the text that are not UTF-8"),
    Fault("lone_surrogate", 15, "half a pair of surrogates in the text"),
    Fault("nul", 15, "a NUL in the text"),
    Fault(
        "stream_without_finish",
        16,
        "ends in order, but without a finish reason",
        finish_form=FinishForm.ABSENT,
    ),
    Fault("close_mid_stream", 16, "the connection is closed half-way", any_route=True),
    Fault("reset_mid_stream", 16, "the connection is reset half-way", any_route=True),
    Fault("idle_stream", 17, "falls silent half-way, and stays connected", any_route=True),
    Fault("silence", 17, "never says a byte, and stays connected", any_route=True),
    Fault("trickle", 18, "one byte per second", any_route=True),
    Fault("error_event", 19, "an error after some text", streams_only=True),
    Fault("split_utf8", 20, "packets that end inside a character"),
    Fault("crlf", 20, "lines that end with CR LF", streams_only=True),
    Fault("comments", 20, "comments between the events", SSE_WIRES, streams_only=True),
    Fault("no_space", 20, "no blank after `data:`", SSE_WIRES, streams_only=True),
    Fault(
        "done_missing",
        20,
        "without [DONE] or message_stop at the end",
        OPENAI_AND_ANTHROPIC,
        streams_only=True,
    ),
    Fault("duplicated_events", 21, "every event twice, with ids", SSE_WIRES, streams_only=True),
    Fault("duplicated_end", 21, "the last events twice", streams_only=True),
    Fault(
        "reordered_events",
        21,
        "text after the finish reason, with ids out of order",
        SSE_WIRES,
        streams_only=True,
    ),
    Fault("reset_before_first_byte", 22, "the connection is reset at once", any_route=True),
    Fault("finish_unknown", 24, "an unknown finish reason", finish_form=FinishForm.UNKNOWN),
    Fault("finish_null", 24, "null as the finish reason", finish_form=FinishForm.NULL),
    Fault("finish_number", 24, "a number as the finish reason", finish_form=FinishForm.NUMBER),
    Fault(
        "finish_other_case",
        24,
        "the finish reason in upper case, or in lower where upper is usual",
        finish_form=FinishForm.OTHER_CASE,
    ),
    Fault("always_length", 25, "always cut off, and never at an end"),
    Fault("length_no_text", 26, "cut off before any text"),
    Fault("continuation_restarts", 27, "a continuation begins again from the start"),
    Fault("usage_missing", 28, "no usage is reported"),
    Fault("usage_negative", 29, "usage below zero"),
    Fault("usage_zero", 29, "usage of zero, with text"),
    Fault("usage_tenfold", 29, "usage ten times as high"),
    Fault("usage_string", 29, "usage as words"),
    Fault("usage_above_hold", 30, "usage above anything that was asked for"),
    Fault("vector_wrong_size", 63, "a vector of another size", VECTOR_WIRES, vectors_only=True),
    Fault("vector_nan", 63, "a vector with NaN in it", VECTOR_WIRES, vectors_only=True),
    Fault("vector_zero", 63, "a vector of zeros", VECTOR_WIRES, vectors_only=True),
)

FAULTS: dict[str, Fault] = {fault.name: fault for fault in TABLE}
