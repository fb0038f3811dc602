"""Adapter for Google's Gemini API. Does not retry or handle money.

The key goes into a header, never into the URL, which logs would keep. Each chunk has the form of a
whole response; the model's thoughts come in separate parts, which are dropped.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from dialectic.core.access import Secret
from dialectic.core.models.endpoint import Endpoint
from dialectic.core.models.messages import FinishReason, Reply, Request, Role
from dialectic.core.models.model import ModelCard
from dialectic.core.strict_json import (
    MalformedJson,
    add_counts,
    find_count,
    find_text,
    require_list,
    require_object,
    require_text,
)
from dialectic.providers.base import ListedModel, OnText
from dialectic.providers.exchange import (
    PAGES_MAX,
    Caps,
    build_sending,
    converse,
    encode_body,
    find_answer,
    fold_system,
    load_page,
)
from dialectic.providers.finish_reasons import Vendor
from dialectic.providers.http import HttpConnection
from dialectic.providers.response import ResponseBuilder

_ROLES = {Role.USER: "user", Role.ASSISTANT: "model"}
_PROMPT_NAMES = ("contents", "systemInstruction", "system_instruction")
_OUTPUT_COUNTS = ("candidatesTokenCount", "thoughtsTokenCount")


class GoogleProvider:
    """A provider that speaks the Gemini API."""

    def __init__(self, endpoint: Endpoint, key: Secret | None, caps: Caps) -> None:
        self.endpoint = endpoint
        self._caps = caps
        self._line = HttpConnection(endpoint, key, lambda word: {"x-goog-api-key": word})

    async def complete(self, card: ModelCard, request: Request, on_text: OnText) -> Reply:
        path = _build_path(card, "streamGenerateContent?alt=sse")
        sending = build_sending(self.endpoint, card, path, build_body(card, request))
        reader = ContentReader(ResponseBuilder(card, request, on_text, self._line.key))
        return await converse(self._line, sending, card, reader, self._caps)

    async def count_tokens(self, card: ModelCard, request: Request) -> int | None:
        # In this wrapper, Google counts the system instruction too.
        asked = {"model": f"models/{_wire_name(card)}", **build_prompt(card, request)}
        body = encode_body(card, {"generateContentRequest": asked})
        path = _build_path(card, "countTokens")
        answer = await find_answer(self._line, path, body, card.sent_name, self._caps)
        return None if answer is None else find_count(answer.get("totalTokens"))

    async def list_models(self) -> list[ListedModel]:
        listed: list[ListedModel] = []
        path = "/models?pageSize=1000"
        for _ in range(PAGES_MAX):
            page, answer = await load_page(self._line, path, "models", self._caps)
            listed += [
                ListedModel(
                    name.removeprefix("models/"),
                    find_count(entry.get("inputTokenLimit")),
                    find_count(entry.get("outputTokenLimit")),
                )
                for entry in page
                if (name := find_text(entry.get("name"))) is not None and _writes(entry)
            ]
            token = find_text(answer.get("nextPageToken"))
            if token is None:
                break
            path = f"/models?pageSize=1000&pageToken={quote(token, safe='')}"
        return listed

    async def close(self) -> None:
        await self._line.close()


def build_body(card: ModelCard, request: Request) -> dict[str, Any]:
    """Build the request body; the operator's `extra_body` cannot override what was paid for."""
    extra = {name: value for name, value in card.extra_body.items() if name not in _PROMPT_NAMES}
    config = extra.pop("generationConfig", {})
    config = {
        **(config if isinstance(config, dict) else {}),
        "maxOutputTokens": request.max_output_tokens,
    }
    return {**extra, **build_prompt(card, request), "generationConfig": config}


def build_prompt(card: ModelCard, request: Request) -> dict[str, Any]:
    """Build the part of a request that is counted: system instruction and turns."""
    system, turns = fold_system(card, request)
    contents = [{"role": _ROLES[turn.role], "parts": [{"text": turn.content}]} for turn in turns]
    if not system:
        return {"contents": contents}
    return {"systemInstruction": {"parts": [{"text": system}]}, "contents": contents}


def _wire_name(card: ModelCard) -> str:
    return card.sent_name.removeprefix("models/")


def _build_path(card: ModelCard, method: str) -> str:
    return f"/models/{quote(_wire_name(card), safe='')}:{method}"


def _writes(entry: dict[str, Any]) -> bool:
    """Whether a listed model writes text; others embed, or draw."""
    methods = entry.get("supportedGenerationMethods")
    return not isinstance(methods, list) or "generateContent" in methods


class ContentReader:
    """Reads chunks of generated content, or a whole response."""

    def __init__(self, draft: ResponseBuilder) -> None:
        self.draft = draft
        self.is_done = False
        self._called_tool = False

    def take(self, data: dict[str, Any]) -> None:
        self.draft.check_id("responseId", data.get("responseId"))
        self.draft.note({name: fact for name, fact in data.items() if name != "candidates"})
        for candidate in _list_candidates(data):
            self._take_candidate(candidate)
        self._take_usage(data.get("usageMetadata"))
        blocked = require_object(data.get("promptFeedback"), "promptFeedback").get("blockReason")
        if blocked is not None and not self.draft.has_ended:
            self.draft.end(Vendor.GEMINI, blocked)
            # Whatever the reason is called, only a filter blocks a prompt.
            self.draft.overrule(FinishReason.FILTER, blocked)

    def take_whole(self, body: Any) -> None:
        # Without `alt=sse` a stream is one list of chunks.
        pieces = body if isinstance(body, list) else [body]
        chunks = [require_object(piece, "answer") for piece in pieces]
        for chunk in chunks:
            self.take(chunk)
        if not self.draft.has_ended:
            if not any(_list_candidates(chunk) for chunk in chunks):
                raise MalformedJson("it holds no candidate")
            self.draft.end(Vendor.GEMINI, None)

    def _take_candidate(self, candidate: dict[str, Any]) -> None:
        content = require_object(candidate.get("content"), "content")
        for part in require_list(content.get("parts"), "parts"):
            part = require_object(part, "part")
            self._called_tool |= bool(part.get("functionCall"))
            if part.get("thought") is not True:
                self.draft.write(require_text(part.get("text"), "text"))
        self.draft.note({name: fact for name, fact in candidate.items() if name != "content"})
        if (reason := candidate.get("finishReason")) not in (None, ""):
            self.draft.end(Vendor.GEMINI, reason)
            if self._called_tool:
                # Calls of functions end with STOP.
                self.draft.overrule(FinishReason.TOOL, "functionCall")

    def _take_usage(self, usage: Any) -> None:
        """Each chunk reports the totals so far; thoughts are billed as output."""
        if not isinstance(usage, dict):
            return
        counts = [usage[name] for name in _OUTPUT_COUNTS if usage.get(name) is not None]
        if not counts and self.draft.has_text:
            counts = [None]
        self.draft.report(usage.get("promptTokenCount"), add_counts(counts))


def _list_candidates(data: dict[str, Any]) -> list[dict[str, Any]]:
    """List the parts of the requested answer: the candidate of index 0."""
    listed = [
        require_object(c, "candidate") for c in require_list(data.get("candidates"), "candidates")
    ]
    return [candidate for candidate in listed if candidate.get("index") in (0, None)]
