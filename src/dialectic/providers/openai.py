"""Adapter for OpenAI's embeddings and Chat Completions, and for compatible servers.

Does not retry or handle money. Vectors arrive as lists of numbers or as base64 and are sorted by
the index that comes with each; the caller validates the numbers. For chat, this module evens out
how servers differ: one JSON body instead of a stream, content in parts, usage in its own chunk, in
the last chunk or missing, no final event.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from urllib.parse import urlsplit

from dialectic.core.models.endpoint import Endpoint
from dialectic.core.models.messages import FinishReason, Request
from dialectic.core.models.model import ModelCard
from dialectic.core.strict_json import (
    JsonObject,
    MalformedJson,
    find_count,
    find_text,
    read_object,
    read_objects,
    read_text,
    require_object,
    require_text,
)
from dialectic.providers.base import ListedModel, Vectors
from dialectic.providers.exchange import HttpProvider, Reader, Turn, build_sending, fold_system
from dialectic.providers.finish_reasons import Vendor
from dialectic.providers.response import ResponseBuilder

OPENAI_HOST = "api.openai.com"
# OpenAI renamed the output limit; most other servers know only the old name.
NEW_CAP, OLD_CAP = "max_completion_tokens", "max_tokens"

# Where servers state the limits of a model.
_WINDOW_NAMES = ("context_window", "context_length", "max_context_length", "max_model_len")
_OUTPUT_NAMES = ("max_completion_tokens", "max_output_tokens")
# The answer itself, and padding against traffic analysis.
_NOT_KEPT = ("choices", "obfuscation")


class ChatReader(Reader):
    """Reads chunks of a chat completion, or a whole one."""

    def __init__(self, draft: ResponseBuilder) -> None:
        super().__init__(draft)
        self._refusal = ""

    def take(self, data: JsonObject) -> None:
        for choice in _list_choices(data):
            # All chunks of a response share its id; a different id means mixed responses.
            self.draft.check_id("id", data.get("id"))
            self._take_message(read_object(choice, "delta"))
            # Until the last chunk the reason is null, or empty.
            if (reason := choice.get("finish_reason")) not in (None, ""):
                self.draft.note({"finish_reason": reason})
                self._end(reason)
        self._take_facts(data)

    def take_whole(self, body: object) -> None:
        data = require_object(body, "answer")
        self._take_facts(data)
        choices = _list_choices(data)
        if not choices:
            raise MalformedJson("it holds no choice")
        self._take_message(read_object(choices[0], "message"))
        self._end(choices[0].get("finish_reason"))

    def _take_facts(self, data: JsonObject) -> None:
        self.draft.note({name: fact for name, fact in data.items() if name not in _NOT_KEPT})
        usage = data.get("usage")
        if isinstance(usage, dict):
            self.draft.report(usage.get("prompt_tokens"), usage.get("completion_tokens"))

    def _take_message(self, message: JsonObject) -> None:
        self._called_tool |= bool(message.get("tool_calls") or message.get("function_call"))
        self._refusal += read_text(message, "refusal")
        self.draft.write(_join_content(message.get("content")))

    def _end(self, reason: object) -> None:
        """End the draft; some servers send `stop` after a refusal or a tool call."""
        self.draft.end(Vendor.CHAT, reason)
        if self._refusal:
            self.draft.note({"refusal": self._refusal})
            self.draft.overrule(FinishReason.FILTER, "refusal")
        elif self._called_tool:
            self.draft.overrule(FinishReason.TOOL, "tool_calls")


def _list_choices(data: JsonObject) -> list[JsonObject]:
    """List the parts of the requested answer: the choice of index 0."""
    return [c for c in read_objects(data, "choices") if c.get("index") in (0, None)]


def _join_content(content: object) -> str:
    """Join content that comes as one text or in parts; drop thoughts."""
    if not isinstance(content, list):
        return require_text(content, "content")
    parts = [part if isinstance(part, dict) else {"text": part} for part in content]
    return "".join(read_text(part, "text") for part in parts if part.get("type", "text") == "text")


class OpenAIProvider(HttpProvider):
    """A provider that speaks Chat Completions, which cannot count tokens."""

    reader = ChatReader
    models_path, models_key = "/models", "data"

    def sign(self, key: str) -> dict[str, str]:
        return {"authorization": f"Bearer {key}"}

    def build_call(self, card: ModelCard, request: Request) -> tuple[str, JsonObject]:
        return "/chat/completions", build_body(self.endpoint, card, request)

    def find_model(self, entry: JsonObject) -> ListedModel | None:
        if (name := find_text(entry.get("id"))) is None:
            return None
        return ListedModel(
            name, _find_limit(entry, _WINDOW_NAMES), _find_limit(entry, _OUTPUT_NAMES)
        )

    async def embed(self, card: ModelCard, texts: Sequence[str]) -> Vectors:
        """Request the vectors of some texts once."""
        body = {
            "encoding_format": "base64",
            **card.extra_body,
            "model": card.sent_name,
            "input": list(texts),
        }
        sending = build_sending(self.endpoint, card, "/embeddings", body)
        return await self._fetch(
            sending, card.sent_name, lambda answer: _read_vectors(answer, len(texts)), is_paid=True
        )


def build_body(endpoint: Endpoint, card: ModelCard, request: Request) -> JsonObject:
    """Build the body of a request.

    The operator's `extra_body` is applied first, so it cannot override what was counted and paid
    for. An empty table, such as `stream_options = {}`, removes a field that a server does not know.
    """
    system, turns = fold_system(card, request)
    messages: list[Turn] = [{"role": "system", "content": system}] if system else []
    messages += [{"role": turn.role.value, "content": turn.content} for turn in turns]
    asked = {"stream": True, "stream_options": {"include_usage": True}, **card.extra_body}
    cap_name, paid_for = _choose_cap_name(endpoint, card), request.max_output_tokens
    cap = min(find_count(asked.get(cap_name)) or paid_for, paid_for)
    kept = {
        name: value
        for name, value in asked.items()
        if value != {} and name not in (NEW_CAP, OLD_CAP)
    }
    if request.temperature is not None:
        kept.setdefault("temperature", request.temperature)
    return {**kept, "model": card.sent_name, "messages": messages, cap_name: cap}


def _choose_cap_name(endpoint: Endpoint, card: ModelCard) -> str:
    """Choose the name of the output limit: the operator's if given, else by endpoint."""
    for name in (NEW_CAP, OLD_CAP):
        if name in card.extra_body:
            return name
    host = urlsplit(endpoint.base_url).hostname or ""
    is_openai = host == OPENAI_HOST or host.endswith(f".{OPENAI_HOST}")
    return NEW_CAP if is_openai else OLD_CAP


def _find_limit(entry: JsonObject, names: tuple[str, ...]) -> int | None:
    return next((count for name in names if (count := find_count(entry.get(name)))), None)


def _read_vectors(answer: JsonObject, count: int) -> Vectors:
    rows: dict[int, object] = {}
    for place, entry in enumerate(read_objects(answer, "data")):
        # Servers that send no index send the vectors in order.
        index = find_count(entry.get("index", place))
        if index is None or index in rows:
            raise MalformedJson("two vectors have the same index, or an index is not a number")
        rows[index] = _decode(entry.get("embedding"))
    if sorted(rows) != list(range(count)):
        raise MalformedJson(f"it holds {len(rows)} vectors for {count} texts")
    usage = read_object(answer, "usage")
    tokens = find_count(usage.get("prompt_tokens", usage.get("total_tokens")))
    return Vectors([rows[index] for index in range(count)], tokens)


def _decode(vector: object) -> object:
    """Decode little-endian 32-bit floats; return a list unchanged."""
    if isinstance(vector, list):
        return vector
    import numpy as np

    try:
        packed = base64.b64decode(vector if isinstance(vector, str) else "?", validate=True)
        return np.frombuffer(packed, dtype="<f4")
    except (binascii.Error, ValueError):
        raise MalformedJson("a vector is neither a list of numbers nor base64") from None
