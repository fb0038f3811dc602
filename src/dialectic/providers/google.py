"""Adapter for Google's Gemini API. Does not retry or handle money.

The key goes into a header, never into the URL, which logs would keep. Each chunk has the form of a
whole response; the model's thoughts come in separate parts, which are dropped.
"""

from __future__ import annotations

from urllib.parse import quote

from dialectic.core.models.messages import FinishReason, Request, Role
from dialectic.core.models.model import ModelCard
from dialectic.core.strict_json import (
    JsonObject,
    MalformedJson,
    add_counts,
    find_count,
    find_text,
    read_object,
    read_objects,
    read_text,
    require_object,
)
from dialectic.providers.base import ListedModel
from dialectic.providers.exchange import HttpProvider, Reader, fold_system
from dialectic.providers.finish_reasons import Vendor

_ROLES = {Role.USER: "user", Role.ASSISTANT: "model"}
_PROMPT_NAMES = ("contents", "systemInstruction", "system_instruction")
_OUTPUT_COUNTS = ("candidatesTokenCount", "thoughtsTokenCount")


class ContentReader(Reader):
    """Reads chunks of generated content, or a whole response."""

    def take(self, data: JsonObject) -> None:
        self.draft.check_id("responseId", data.get("responseId"))
        self.draft.note({name: fact for name, fact in data.items() if name != "candidates"})
        for candidate in _list_candidates(data):
            self._take_candidate(candidate)
        self._take_usage(data.get("usageMetadata"))
        blocked = read_object(data, "promptFeedback").get("blockReason")
        if blocked is not None and not self.draft.has_ended:
            self.draft.end(Vendor.GEMINI, blocked)
            # Whatever the reason is called, only a filter blocks a prompt.
            self.draft.overrule(FinishReason.FILTER, blocked)

    def take_whole(self, body: object) -> None:
        # Without `alt=sse` a stream is one list of chunks.
        pieces = body if isinstance(body, list) else [body]
        chunks = [require_object(piece, "answer") for piece in pieces]
        for chunk in chunks:
            self.take(chunk)
        if not self.draft.has_ended:
            if not any(_list_candidates(chunk) for chunk in chunks):
                raise MalformedJson("it holds no candidate")
            self.draft.end(Vendor.GEMINI, None)

    def _take_candidate(self, candidate: JsonObject) -> None:
        for part in read_objects(read_object(candidate, "content"), "parts"):
            self._called_tool |= bool(part.get("functionCall"))
            if part.get("thought") is not True:
                self.draft.write(read_text(part, "text"))
        self.draft.note({name: fact for name, fact in candidate.items() if name != "content"})
        if (reason := candidate.get("finishReason")) not in (None, ""):
            self.draft.end(Vendor.GEMINI, reason)
            if self._called_tool:
                # Calls of functions end with STOP.
                self.draft.overrule(FinishReason.TOOL, "functionCall")

    def _take_usage(self, usage: object) -> None:
        """Each chunk reports the totals so far; thoughts are billed as output."""
        if not isinstance(usage, dict):
            return
        counts = [usage[name] for name in _OUTPUT_COUNTS if usage.get(name) is not None]
        if not counts and self.draft.has_text:
            counts = [None]
        self.draft.report(usage.get("promptTokenCount"), add_counts(counts))


def _list_candidates(data: JsonObject) -> list[JsonObject]:
    """List the parts of the requested answer: the candidate of index 0."""
    return [c for c in read_objects(data, "candidates") if c.get("index") in (0, None)]


class GoogleProvider(HttpProvider):
    """A provider that speaks the Gemini API."""

    reader = ContentReader
    models_path, models_key = "/models?pageSize=1000", "models"

    def sign(self, key: str) -> dict[str, str]:
        return {"x-goog-api-key": key}

    def build_call(self, card: ModelCard, request: Request) -> tuple[str, JsonObject]:
        return _build_path(card, "streamGenerateContent?alt=sse"), build_body(card, request)

    async def count_tokens(self, card: ModelCard, request: Request) -> int | None:
        # In this wrapper, Google counts the system instruction too.
        asked = {"model": f"models/{_wire_name(card)}", **build_prompt(card, request)}
        return await self._count(
            card,
            _build_path(card, "countTokens"),
            {"generateContentRequest": asked},
            lambda answer: find_count(answer.get("totalTokens")),
        )

    def find_model(self, entry: JsonObject) -> ListedModel | None:
        name, methods = find_text(entry.get("name")), entry.get("supportedGenerationMethods")
        # Other models embed, or draw.
        if name is None or (isinstance(methods, list) and "generateContent" not in methods):
            return None
        limits = (entry.get("inputTokenLimit"), entry.get("outputTokenLimit"))
        return ListedModel(name.removeprefix("models/"), *map(find_count, limits))

    def find_next_page(self, page: JsonObject) -> str | None:
        token = find_text(page.get("nextPageToken"))
        return None if token is None else f"&pageToken={quote(token, safe='')}"


def build_body(card: ModelCard, request: Request) -> JsonObject:
    """Build the request body; the operator's `extra_body` cannot override what was paid for."""
    extra = {name: value for name, value in card.extra_body.items() if name not in _PROMPT_NAMES}
    config = extra.pop("generationConfig", {})
    asked = {} if request.temperature is None else {"temperature": request.temperature}
    config = {
        **asked,
        **(config if isinstance(config, dict) else {}),
        "maxOutputTokens": request.max_output_tokens,
    }
    return {**extra, **build_prompt(card, request), "generationConfig": config}


def build_prompt(card: ModelCard, request: Request) -> JsonObject:
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
