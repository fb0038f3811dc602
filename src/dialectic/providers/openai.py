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
from typing import Any
from urllib.parse import urlsplit

from dialectic.core.access import Secret
from dialectic.core.models.endpoint import Endpoint
from dialectic.core.models.messages import FinishReason, Reply, Request
from dialectic.core.models.model import ModelCard
from dialectic.core.strict_json import (
    MalformedJson,
    find_count,
    find_text,
    require_list,
    require_object,
    require_text,
)
from dialectic.errors import PartialResponse
from dialectic.providers.base import ListedModel, OnText, Vectors
from dialectic.providers.error_taxonomy import is_error, read_complaint
from dialectic.providers.errors import build_refusal
from dialectic.providers.exchange import (
    Caps,
    build_break,
    build_garble,
    build_sending,
    check_content_type,
    check_status,
    converse,
    fold_system,
    load_page,
    parse_body,
)
from dialectic.providers.finish_reasons import Vendor
from dialectic.providers.http import HttpConnection, OutgoingRequest, TransportFailure
from dialectic.providers.response import ResponseBuilder


async def load_vectors(
    line: HttpConnection, sending: OutgoingRequest, card: ModelCard, count: int, caps: Caps
) -> Vectors:
    """Request the vectors of `count` texts once."""
    remains = PartialResponse(was_sent=True)
    try:
        async with line.open(sending) as incoming:
            remains = PartialResponse(was_sent=True, request_id=incoming.request_id)

            def patience_s() -> float:
                return line.endpoint.idle_s

            await check_status(line, card.sent_name, incoming, patience_s)
            await check_content_type(line, incoming, patience_s, "application/json")
            body = parse_body(await incoming.read(patience_s, bytes_max=caps.body_bytes))
            if is_error(body):
                complaint = read_complaint(200, body)
                raise build_refusal(line.endpoint, line.key, card.sent_name, complaint, remains)
            return _read(require_object(body, "answer"), count)
    except TransportFailure as broken:
        raise build_break(line.endpoint, broken, remains) from broken
    except MalformedJson as garbled:
        raise build_garble(line.endpoint, garbled, remains) from garbled


def _read(answer: dict[str, Any], count: int) -> Vectors:
    entries = [require_object(entry, "data") for entry in require_list(answer.get("data"), "data")]
    rows: dict[int, Any] = {}
    for place, entry in enumerate(entries):
        # Servers that send no index send the vectors in order.
        index = find_count(entry.get("index", place))
        if index is None or index in rows:
            raise MalformedJson("two vectors have the same index, or an index is not a number")
        rows[index] = _decode(entry.get("embedding"))
    if sorted(rows) != list(range(count)):
        raise MalformedJson(f"it holds {len(rows)} vectors for {count} texts")
    usage = require_object(answer.get("usage"), "usage")
    tokens = find_count(usage.get("prompt_tokens", usage.get("total_tokens")))
    return Vectors([rows[index] for index in range(count)], tokens)


def _decode(vector: Any) -> Any:
    """Decode little-endian 32-bit floats; return a list unchanged."""
    if isinstance(vector, list):
        return vector
    import numpy as np

    try:
        packed = base64.b64decode(vector if isinstance(vector, str) else "?", validate=True)
        return np.frombuffer(packed, dtype="<f4")
    except (binascii.Error, ValueError):
        raise MalformedJson("a vector is neither a list of numbers nor base64") from None


OPENAI_HOST = "api.openai.com"
# OpenAI renamed the output limit; most other servers know only the old name.
NEW_CAP, OLD_CAP = "max_completion_tokens", "max_tokens"

# Where servers state the limits of a model.
_WINDOW_NAMES = ("context_window", "context_length", "max_context_length", "max_model_len")
_OUTPUT_NAMES = ("max_completion_tokens", "max_output_tokens")
# The answer itself, and padding against traffic analysis.
_NOT_KEPT = ("choices", "obfuscation")


class OpenAIProvider:
    """A provider that speaks Chat Completions."""

    def __init__(self, endpoint: Endpoint, key: Secret | None, caps: Caps) -> None:
        self.endpoint = endpoint
        self._caps = caps
        self._line = HttpConnection(endpoint, key, lambda word: {"authorization": f"Bearer {word}"})

    async def complete(self, card: ModelCard, request: Request, on_text: OnText) -> Reply:
        body = build_body(self.endpoint, card, request)
        sending = build_sending(self.endpoint, card, "/chat/completions", body)
        reader = ChatReader(ResponseBuilder(card, request, on_text, self._line.key))
        return await converse(self._line, sending, card, reader, self._caps)

    async def embed(self, card: ModelCard, texts: Sequence[str]) -> Vectors:
        body = {
            "encoding_format": "base64",
            **card.extra_body,
            "model": card.sent_name,
            "input": list(texts),
        }
        sending = build_sending(self.endpoint, card, "/embeddings", body)
        return await load_vectors(self._line, sending, card, len(texts), self._caps)

    # Chat Completions cannot count tokens.
    async def count_tokens(self, card: ModelCard, request: Request) -> int | None:  # noqa: ARG002
        return None

    async def list_models(self) -> list[ListedModel]:
        listed, _ = await load_page(self._line, "/models", "data", self._caps)
        return [
            ListedModel(name, _find_limit(entry, _WINDOW_NAMES), _find_limit(entry, _OUTPUT_NAMES))
            for entry in listed
            if (name := find_text(entry.get("id"))) is not None
        ]

    async def close(self) -> None:
        await self._line.close()


def build_body(endpoint: Endpoint, card: ModelCard, request: Request) -> dict[str, Any]:
    """Build the body of a request.

    The operator's `extra_body` is applied first, so it cannot override what was counted and paid
    for. An empty table, such as `stream_options = {}`, removes a field that a server does not know.
    """
    system, turns = fold_system(card, request)
    messages = [{"role": turn.role.value, "content": turn.content} for turn in turns]
    if system:
        messages.insert(0, {"role": "system", "content": system})
    asked = {"stream": True, "stream_options": {"include_usage": True}, **card.extra_body}
    cap_name, paid_for = _choose_cap_name(endpoint, card), request.max_output_tokens
    cap = min(find_count(asked.get(cap_name)) or paid_for, paid_for)
    kept = {
        name: value
        for name, value in asked.items()
        if value != {} and name not in (NEW_CAP, OLD_CAP)
    }
    return {**kept, "model": card.sent_name, "messages": messages, cap_name: cap}


def _choose_cap_name(endpoint: Endpoint, card: ModelCard) -> str:
    """Choose the name of the output limit: the operator's if given, else by endpoint."""
    for name in (NEW_CAP, OLD_CAP):
        if name in card.extra_body:
            return name
    host = urlsplit(endpoint.base_url).hostname or ""
    is_openai = host == OPENAI_HOST or host.endswith(f".{OPENAI_HOST}")
    return NEW_CAP if is_openai else OLD_CAP


class ChatReader:
    """Reads chunks of a chat completion, or a whole one."""

    def __init__(self, draft: ResponseBuilder) -> None:
        self.draft = draft
        self.is_done = False
        self._refusal: list[str] = []
        self._called_tool = False

    def take(self, data: dict[str, Any]) -> None:
        for choice in _list_choices(data):
            # All chunks of a response share its id; a different id means mixed responses.
            self.draft.check_id("id", data.get("id"))
            self._take_message(require_object(choice.get("delta"), "delta"))
            self._end(choice.get("finish_reason"))
        self._take_facts(data)

    def take_whole(self, body: Any) -> None:
        data = require_object(body, "answer")
        self._take_facts(data)
        choices = _list_choices(data)
        if not choices:
            raise MalformedJson("it holds no choice")
        self._take_message(require_object(choices[0].get("message"), "message"))
        self.draft.end(Vendor.CHAT, choices[0].get("finish_reason"))
        self._overrule()

    def _take_facts(self, data: dict[str, Any]) -> None:
        self.draft.note({name: fact for name, fact in data.items() if name not in _NOT_KEPT})
        usage = data.get("usage")
        if isinstance(usage, dict):
            self.draft.report(usage.get("prompt_tokens"), usage.get("completion_tokens"))

    def _take_message(self, message: dict[str, Any]) -> None:
        self._called_tool |= bool(message.get("tool_calls") or message.get("function_call"))
        if refusal := require_text(message.get("refusal"), "refusal"):
            self._refusal.append(refusal)
        self.draft.write(_join_content(message.get("content")))

    def _end(self, raw: Any) -> None:
        # Until the last chunk the reason is null, or empty.
        if raw not in (None, ""):
            self.draft.note({"finish_reason": raw})
            self.draft.end(Vendor.CHAT, raw)
            self._overrule()

    def _overrule(self) -> None:
        """Correct the reason: some servers send `stop` after a refusal or a tool call."""
        if self._refusal:
            self.draft.note({"refusal": "".join(self._refusal)})
            self.draft.overrule(FinishReason.FILTER, "refusal")
        elif self._called_tool:
            self.draft.overrule(FinishReason.TOOL, "tool_calls")


def _list_choices(data: dict[str, Any]) -> list[dict[str, Any]]:
    """List the parts of the requested answer: the choice of index 0."""
    choices = [
        require_object(choice, "choice") for choice in require_list(data.get("choices"), "choices")
    ]
    return [choice for choice in choices if choice.get("index") in (0, None)]


def _join_content(content: Any) -> str:
    """Join content that comes as one text or in parts; drop thoughts."""
    if not isinstance(content, list):
        return require_text(content, "content")
    parts = [part if isinstance(part, dict) else {"text": part} for part in content]
    return "".join(
        require_text(part.get("text"), "text")
        for part in parts
        if part.get("type", "text") == "text"
    )


def _find_limit(entry: dict[str, Any], names: tuple[str, ...]) -> int | None:
    return next((count for name in names if (count := find_count(entry.get(name)))), None)
