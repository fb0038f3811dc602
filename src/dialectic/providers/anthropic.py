"""Adapter for Anthropic's Messages API and compatible servers. Does not retry or handle money.

A response arrives in numbered blocks, each opened, filled and closed. Only text blocks are the
answer; thinking is dropped. Input tokens read from or written to a cache are counted as input.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar
from urllib.parse import quote

from dialectic.core.models.messages import FinishReason, Request
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
from dialectic.providers.exchange import HttpProvider, Reader, Turn, fold_system
from dialectic.providers.finish_reasons import Vendor
from dialectic.providers.response import ResponseBuilder

API_VERSION = "2023-06-01"
# Other vendors allow up to 2.
TEMPERATURE_MAX = 1.0
_TOOL_BLOCKS = ("tool_use", "server_tool_use", "mcp_tool_use")
_CACHE_COUNTS = ("cache_creation_input_tokens", "cache_read_input_tokens")


class MessageReader(Reader):
    """Reads the events of a streamed message, or a whole message."""

    def __init__(self, draft: ResponseBuilder) -> None:
        super().__init__(draft)
        # The type of each block that was opened, by its number; None once it is closed.
        self._blocks: list[str | None] = []
        self._usage: dict[str, object] = {}

    def take(self, data: JsonObject) -> None:
        match data.get("type"):
            case "message_start":
                self._take_message(read_object(data, "message"))
            case "content_block_start":
                self._open_block(data)
            case "content_block_delta":
                self._fill_block(data)
            case "content_block_stop":
                self._blocks[self._get_index(data)] = None
            case "message_delta":
                self._take_end(data)
            case "message_stop":
                self.is_done = True
            case _:  # a ping, or an event type added later
                pass

    def take_whole(self, body: object) -> None:
        message = require_object(body, "answer")
        if message.get("content") is None:
            raise MalformedJson("it holds no content")
        self._take_message(message)
        for block in read_objects(message, "content"):
            self._take_block(block.get("type"), block)
        self._report(whole=True)
        self._end(message.get("stop_reason"))

    def _take_message(self, message: JsonObject) -> None:
        self.draft.check_id("id", message.get("id"))
        self.draft.note({name: fact for name, fact in message.items() if name != "content"})
        self._usage |= read_object(message, "usage")

    def _open_block(self, data: JsonObject) -> None:
        index, block = data.get("index"), read_object(data, "content_block")
        kind = read_text(block, "type")
        if type(index) is not int or not 0 <= index <= len(self._blocks):
            raise MalformedJson(f"block {index!r} was opened after {len(self._blocks)} others")
        if index < len(self._blocks):
            return  # opened before: a duplicate event
        self._blocks.append(kind)
        self._take_block(kind, block)

    def _take_block(self, kind: object, block: JsonObject) -> None:
        self._called_tool |= kind in _TOOL_BLOCKS
        if kind == "text":
            self.draft.write(read_text(block, "text"))

    def _fill_block(self, data: JsonObject) -> None:
        index = self._get_index(data)
        if self._blocks[index] is None:
            raise MalformedJson(f"block {index} was filled after it had been closed")
        delta = read_object(data, "delta")
        if delta.get("type") == "text_delta":
            self.draft.write(read_text(delta, "text"))

    def _get_index(self, data: JsonObject) -> int:
        index = data.get("index")
        if type(index) is not int or not 0 <= index < len(self._blocks):
            raise MalformedJson(f"block {index!r} was never opened")
        return index

    def _take_end(self, data: JsonObject) -> None:
        usage = read_object(data, "usage")
        self._usage |= {name: count for name, count in usage.items() if count is not None}
        self._report(whole=usage.get("output_tokens") is not None)
        reason = read_object(data, "delta").get("stop_reason")
        if reason not in (None, ""):
            self._end(reason)

    def _report(self, *, whole: bool) -> None:
        """Report the token counts; the counts in the first event do not include the output yet."""
        self.draft.note({"usage": self._usage})
        if whole:
            cached = [self._usage[name] for name in _CACHE_COUNTS if self._usage.get(name)]
            read = add_counts([self._usage.get("input_tokens"), *cached])
            self.draft.report(read, self._usage.get("output_tokens"))

    def _end(self, reason: object) -> None:
        self.draft.note({"stop_reason": reason})
        self.draft.end(Vendor.ANTHROPIC, reason)
        if self._called_tool:
            self.draft.overrule(FinishReason.TOOL, "tool_use")


class AnthropicProvider(HttpProvider):
    """A provider that speaks the Messages API."""

    reader = MessageReader
    headers: ClassVar[Mapping[str, str]] = {"anthropic-version": API_VERSION}
    models_path, models_key = "/models?limit=1000", "data"

    def sign(self, key: str) -> dict[str, str]:
        return {"x-api-key": key}

    def build_call(self, card: ModelCard, request: Request) -> tuple[str, JsonObject]:
        """Build the request; the operator's `extra_body` cannot override what was paid for."""
        extra = {name: value for name, value in card.extra_body.items() if name != "system"}
        asked: dict[str, object] = {"stream": True}
        if request.temperature is not None:
            asked["temperature"] = min(request.temperature, TEMPERATURE_MAX)
        cap = {"max_tokens": request.max_output_tokens}
        return "/messages", {**asked, **extra, **build_prompt(card, request), **cap}

    async def count_tokens(self, card: ModelCard, request: Request) -> int | None:
        return await self._count(
            card,
            "/messages/count_tokens",
            build_prompt(card, request),
            lambda answer: find_count(answer.get("input_tokens")),
        )

    def find_model(self, entry: JsonObject) -> ListedModel | None:
        if (name := find_text(entry.get("id"))) is None:
            return None
        limits = (entry.get("max_input_tokens"), entry.get("max_tokens"))
        return ListedModel(name, *map(find_count, limits))

    def find_next_page(self, page: JsonObject) -> str | None:
        last = find_text(page.get("last_id"))
        if page.get("has_more") is not True or last is None:
            return None
        return f"&after_id={quote(last, safe='')}"


def build_prompt(card: ModelCard, request: Request) -> JsonObject:
    """Build the part of a request that is counted: model, system instruction and turns."""
    system, turns = fold_system(card, request)
    messages: list[Turn] = [{"role": turn.role.value, "content": turn.content} for turn in turns]
    prompt = {"model": card.sent_name, "messages": messages}
    return {**prompt, "system": system} if system else prompt
