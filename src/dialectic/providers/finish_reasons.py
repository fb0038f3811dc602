"""Finish reasons of all vendors in one table. Pure; knows no wire format and no response.

A word missing from the table is an error, never a stop: a response that may be incomplete must
not become a document.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

from dialectic.core.models.messages import FinishReason


class Vendor(enum.StrEnum):
    """The vendors. `CHAT` is every server that speaks OpenAI's Chat Completions."""

    OPENAI_CHAT = "openai-chat"
    OPENAI_RESPONSES = "openai-responses"
    ANTHROPIC = "anthropic"
    GEMINI = "gemini"
    BEDROCK = "bedrock"
    MISTRAL = "mistral"
    OLLAMA = "ollama"
    COHERE = "cohere"
    GROQ = "groq"
    TGI = "tgi"
    OPENROUTER = "openrouter"
    ZHIPU = "zhipu"
    CHAT = "chat"


def _list_words(
    stop: str, length: str, tool: str = "", filtered: str = "", error: str = ""
) -> dict[str, FinishReason]:
    columns = {
        FinishReason.STOP: stop,
        FinishReason.LENGTH: length,
        FinishReason.TOOL: tool,
        FinishReason.FILTER: filtered,
        FinishReason.ERROR: error,
    }
    return {word: reason for reason, words in columns.items() for word in words.split()}


_VENDORS = {
    # `refusal`: the model refused, and the vendor sent `stop`.
    Vendor.OPENAI_CHAT: _list_words(
        "stop", "length", "tool_calls function_call", "content_filter refusal"
    ),
    # A status and, after the slash, its reason.
    Vendor.OPENAI_RESPONSES: _list_words(
        "completed",
        "incomplete/max_output_tokens",
        "function_call",
        "incomplete/content_filter refusal",
        "failed cancelled queued in_progress",
    ),
    # `compaction`: the server compacted the conversation and stopped; the response continues.
    # `pause_turn`: a server-side tool paused; only requests with tools get this.
    Vendor.ANTHROPIC: _list_words(
        "end_turn stop_sequence",
        "max_tokens model_context_window_exceeded compaction",
        "tool_use pause_turn",
        "refusal",
    ),
    Vendor.GEMINI: _list_words(
        "stop",
        "max_tokens",
        filtered="safety recitation blocklist prohibited_content spii image_safety "
        "image_prohibited_content image_recitation model_armor",
        error="finish_reason_unspecified language other malformed_function_call "
        "unexpected_tool_call too_many_tool_calls no_image image_other malformed_response",
    ),
    Vendor.BEDROCK: _list_words(
        "end_turn stop_sequence",
        "max_tokens model_context_window_exceeded",
        "tool_use",
        "guardrail_intervened content_filtered",
        "malformed_model_output malformed_tool_use",
    ),
    Vendor.MISTRAL: _list_words("stop", "length model_length", "tool_calls", error="error"),
    # The empty word: the connection to the model was closed.
    Vendor.OLLAMA: {"": FinishReason.ERROR, **_list_words("stop", "length", error="load unload")},
    Vendor.COHERE: _list_words(
        "complete stop_sequence", "max_tokens", "tool_call", "error_toxic", "error"
    ),
    Vendor.GROQ: _list_words("stop", "length", "tool_calls function_call", "content_filter"),
    Vendor.TGI: _list_words("stop eos_token stop_sequence", "length", "tool_calls"),
    Vendor.OPENROUTER: _list_words("stop", "length", "tool_calls", "content_filter", "error"),
    Vendor.ZHIPU: _list_words("stop", "length", "tool_calls", "sensitive", "network_error"),
}
FINISH_REASONS: Mapping[Vendor, Mapping[str, FinishReason]] = {
    **_VENDORS,
    # An endpoint does not name its vendor; the tables do not contradict each other.
    Vendor.CHAT: {
        **_VENDORS[Vendor.OPENAI_CHAT],
        **_VENDORS[Vendor.MISTRAL],
        **_VENDORS[Vendor.OLLAMA],
        **_VENDORS[Vendor.GROQ],
        **_VENDORS[Vendor.TGI],
        **_VENDORS[Vendor.OPENROUTER],
        **_VENDORS[Vendor.ZHIPU],
    },
}
_KNOWN = frozenset(word for words in FINISH_REASONS.values() for word in words)


def is_known(word: str | None) -> bool:
    """Say whether any vendor uses that word as a finish reason."""
    return word is not None and word.lower() in _KNOWN


def read_finish(vendor: Vendor, raw: object) -> FinishReason:
    """Parse a vendor's finish reason, in any case. An unknown word is an error."""
    # Lower only ASCII: other letters can turn into one of these words when lowered.
    if not isinstance(raw, str) or not raw.isascii():
        return FinishReason.ERROR
    return FINISH_REASONS[vendor].get(raw.lower(), FinishReason.ERROR)
