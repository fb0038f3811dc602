"""Finish reasons of all vendors in one table. Pure; knows no wire format and no response.

A word missing from the table is an error, never a stop: a response that may be incomplete must
not become a document.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType

from dialectic.core.models.messages import FinishReason

_STOP, _LENGTH, _TOOL = FinishReason.STOP, FinishReason.LENGTH, FinishReason.TOOL
_FILTER, _ERROR = FinishReason.FILTER, FinishReason.ERROR


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


_OPENAI_CHAT = {
    "stop": _STOP,
    "length": _LENGTH,
    "tool_calls": _TOOL,
    "function_call": _TOOL,
    "content_filter": _FILTER,
    # The model refused; the vendor sent `stop`.
    "refusal": _FILTER,
}
_OPENAI_RESPONSES = {
    "completed": _STOP,
    # A status and, after the slash, its reason.
    "incomplete/max_output_tokens": _LENGTH,
    "incomplete/content_filter": _FILTER,
    "refusal": _FILTER,
    "function_call": _TOOL,
    "failed": _ERROR,
    "cancelled": _ERROR,
    "queued": _ERROR,
    "in_progress": _ERROR,
}
_ANTHROPIC = {
    "end_turn": _STOP,
    "stop_sequence": _STOP,
    "max_tokens": _LENGTH,
    "model_context_window_exceeded": _LENGTH,
    # The server compacted the conversation and stopped; the response continues.
    "compaction": _LENGTH,
    "tool_use": _TOOL,
    # A server-side tool paused; only requests with tools get this.
    "pause_turn": _TOOL,
    "refusal": _FILTER,
}
_GEMINI = {
    "stop": _STOP,
    "max_tokens": _LENGTH,
    "safety": _FILTER,
    "recitation": _FILTER,
    "blocklist": _FILTER,
    "prohibited_content": _FILTER,
    "spii": _FILTER,
    "image_safety": _FILTER,
    "image_prohibited_content": _FILTER,
    "image_recitation": _FILTER,
    "model_armor": _FILTER,
    "finish_reason_unspecified": _ERROR,
    "language": _ERROR,
    "other": _ERROR,
    "malformed_function_call": _ERROR,
    "unexpected_tool_call": _ERROR,
    "too_many_tool_calls": _ERROR,
    "no_image": _ERROR,
    "image_other": _ERROR,
    "malformed_response": _ERROR,
}
_BEDROCK = {
    "end_turn": _STOP,
    "stop_sequence": _STOP,
    "max_tokens": _LENGTH,
    "model_context_window_exceeded": _LENGTH,
    "tool_use": _TOOL,
    "guardrail_intervened": _FILTER,
    "content_filtered": _FILTER,
    "malformed_model_output": _ERROR,
    "malformed_tool_use": _ERROR,
}
_MISTRAL = {
    "stop": _STOP,
    "length": _LENGTH,
    "model_length": _LENGTH,
    "tool_calls": _TOOL,
    "error": _ERROR,
}
_OLLAMA = {
    "stop": _STOP,
    "length": _LENGTH,
    # The connection to the model was closed.
    "": _ERROR,
    "load": _ERROR,
    "unload": _ERROR,
}
_COHERE = {
    "complete": _STOP,
    "stop_sequence": _STOP,
    "max_tokens": _LENGTH,
    "tool_call": _TOOL,
    "error_toxic": _FILTER,
    "error": _ERROR,
}
_GROQ = {
    "stop": _STOP,
    "length": _LENGTH,
    "tool_calls": _TOOL,
    "function_call": _TOOL,
    "content_filter": _FILTER,
}
_TGI = {
    "stop": _STOP,
    "eos_token": _STOP,
    "stop_sequence": _STOP,
    "length": _LENGTH,
    "tool_calls": _TOOL,
}
_OPENROUTER = {
    "stop": _STOP,
    "length": _LENGTH,
    "tool_calls": _TOOL,
    "content_filter": _FILTER,
    "error": _ERROR,
}
_ZHIPU = {
    "stop": _STOP,
    "length": _LENGTH,
    "tool_calls": _TOOL,
    "sensitive": _FILTER,
    "network_error": _ERROR,
}

FINISH_REASONS: Mapping[Vendor, Mapping[str, FinishReason]] = MappingProxyType(
    {
        Vendor.OPENAI_CHAT: _OPENAI_CHAT,
        Vendor.OPENAI_RESPONSES: _OPENAI_RESPONSES,
        Vendor.ANTHROPIC: _ANTHROPIC,
        Vendor.GEMINI: _GEMINI,
        Vendor.BEDROCK: _BEDROCK,
        Vendor.MISTRAL: _MISTRAL,
        Vendor.OLLAMA: _OLLAMA,
        Vendor.COHERE: _COHERE,
        Vendor.GROQ: _GROQ,
        Vendor.TGI: _TGI,
        Vendor.OPENROUTER: _OPENROUTER,
        Vendor.ZHIPU: _ZHIPU,
        # An endpoint does not name its vendor; the tables do not contradict each other.
        Vendor.CHAT: {
            **_OPENAI_CHAT,
            **_MISTRAL,
            **_OLLAMA,
            **_GROQ,
            **_TGI,
            **_OPENROUTER,
            **_ZHIPU,
        },
    }
)


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
