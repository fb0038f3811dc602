"""Every word of every vendor has its meaning, and no other word has one."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dialectic.core.models.messages import FinishReason
from dialectic.providers.finish_reasons import FINISH_REASONS, Vendor, read_finish
from tests.cases import each_case

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "providers.md"

# Written out once more, by column, as the vendors' own documents have it.
EXPECTED: dict[Vendor, dict[str, str]] = {
    Vendor.OPENAI_CHAT: {
        "stop": "stop",
        "length": "length",
        "tool": "tool_calls function_call",
        "filter": "content_filter refusal",
    },
    Vendor.OPENAI_RESPONSES: {
        "stop": "completed",
        "length": "incomplete/max_output_tokens",
        "tool": "function_call",
        "filter": "incomplete/content_filter refusal",
        "error": "failed cancelled queued in_progress",
    },
    Vendor.ANTHROPIC: {
        "stop": "end_turn stop_sequence",
        "length": "max_tokens model_context_window_exceeded compaction",
        "tool": "tool_use pause_turn",
        "filter": "refusal",
    },
    Vendor.GEMINI: {
        "stop": "STOP",
        "length": "MAX_TOKENS",
        "filter": "SAFETY RECITATION BLOCKLIST PROHIBITED_CONTENT SPII IMAGE_SAFETY "
        "IMAGE_PROHIBITED_CONTENT IMAGE_RECITATION MODEL_ARMOR",
        "error": "FINISH_REASON_UNSPECIFIED LANGUAGE OTHER MALFORMED_FUNCTION_CALL "
        "UNEXPECTED_TOOL_CALL TOO_MANY_TOOL_CALLS NO_IMAGE IMAGE_OTHER MALFORMED_RESPONSE",
    },
    Vendor.BEDROCK: {
        "stop": "end_turn stop_sequence",
        "length": "max_tokens model_context_window_exceeded",
        "tool": "tool_use",
        "filter": "guardrail_intervened content_filtered",
        "error": "malformed_model_output malformed_tool_use",
    },
    Vendor.MISTRAL: {
        "stop": "stop",
        "length": "length model_length",
        "tool": "tool_calls",
        "error": "error",
    },
    Vendor.OLLAMA: {"stop": "stop", "length": "length", "error": "load unload"},
    Vendor.COHERE: {
        "stop": "COMPLETE STOP_SEQUENCE",
        "length": "MAX_TOKENS",
        "tool": "TOOL_CALL",
        "filter": "ERROR_TOXIC",
        "error": "ERROR",
    },
    Vendor.GROQ: {
        "stop": "stop",
        "length": "length",
        "tool": "tool_calls function_call",
        "filter": "content_filter",
    },
    Vendor.TGI: {"stop": "stop eos_token stop_sequence", "length": "length", "tool": "tool_calls"},
    Vendor.OPENROUTER: {
        "stop": "stop",
        "length": "length",
        "tool": "tool_calls",
        "filter": "content_filter",
        "error": "error",
    },
    Vendor.ZHIPU: {
        "stop": "stop",
        "length": "length",
        "tool": "tool_calls",
        "filter": "sensitive",
        "error": "network_error",
    },
}
ROWS = [
    (vendor, word, FinishReason(column))
    for vendor, columns in EXPECTED.items()
    for column, words in columns.items()
    for word in words.split()
]
# Those who speak as OpenAI's chat does.
CHATTERS = [
    Vendor.OPENAI_CHAT,
    Vendor.MISTRAL,
    Vendor.OLLAMA,
    Vendor.GROQ,
    Vendor.TGI,
    Vendor.OPENROUTER,
    Vendor.ZHIPU,
]
every_vendor = each_case("vendor", Vendor)


@each_case(
    ("vendor", "word", "expected"), ROWS, ids=[f"{vendor} {word}" for vendor, word, _ in ROWS]
)
def test_a_word_means_what_its_vendor_says(
    vendor: Vendor, word: str, expected: FinishReason
) -> None:
    for written in (word, word.upper(), word.lower(), word.title()):
        assert read_finish(vendor, written) is expected


@every_vendor
def test_the_table_holds_nothing_that_is_not_written_out_here(vendor: Vendor) -> None:
    vendors = CHATTERS if vendor is Vendor.CHAT else [vendor]
    words = {
        word.lower() for v in vendors for column in EXPECTED[v].values() for word in column.split()
    }
    assert set(FINISH_REASONS[vendor]) - {""} == words


@each_case(
    ("vendor", "word", "expected"),
    [row for row in ROWS if row[0] in CHATTERS],
    ids=lambda value: str(value),
)
def test_every_chat_completions_server_is_understood(
    vendor: Vendor, word: str, expected: FinishReason
) -> None:
    assert read_finish(Vendor.CHAT, word) is expected


def test_no_two_of_those_who_speak_alike_contradict_each_other() -> None:
    for one, other in combinations(CHATTERS, 2):
        first, second = FINISH_REASONS[one], FINISH_REASONS[other]
        assert all(first[word] is second[word] for word in first.keys() & second.keys())


@every_vendor
@each_case(
    "raw",
    [None, "", 0, 1, 1.5, True, False, [], ["stop"], {}, b"stop", " stop", "stop\n", "\u017ftop"],
)
def test_a_value_that_is_not_a_word_is_an_error(vendor: Vendor, raw: Any) -> None:
    assert read_finish(vendor, raw) is FinishReason.ERROR


@given(raw=st.text())
def test_an_unknown_word_is_an_error(raw: str) -> None:
    for vendor in Vendor:
        if raw.isascii() and raw.lower() in FINISH_REASONS[vendor]:
            continue
        assert read_finish(vendor, raw) is FinishReason.ERROR, vendor


def test_the_document_shows_the_table() -> None:
    section = (
        DOCUMENT.read_text(encoding="utf-8").split("\n## Finish reasons\n")[1].split("\n## ")[0]
    )
    shown = {}
    for line in re.findall(r"^\| `.*$", section, re.MULTILINE):
        vendor, *columns = (cell.strip() for cell in line.strip("|").split("|"))
        cells = zip(("stop", "length", "tool", "filter", "error"), columns, strict=True)
        shown[Vendor(vendor.strip("`"))] = {
            column: words.replace("`", "") for column, words in cells if words != "—"
        }
    assert shown == EXPECTED
