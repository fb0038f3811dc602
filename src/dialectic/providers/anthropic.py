"""Adapter for Anthropic's Messages API and compatible servers. Does not retry or handle money.

A response arrives in numbered blocks, each opened, filled and closed. Only text blocks are the
answer; thinking is dropped. Input tokens read from or written to a cache are counted as input.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from dialectic.core.access import Secret
from dialectic.core.models.endpoint import Endpoint
from dialectic.core.models.messages import FinishReason, Reply, Request
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

API_VERSION = "2023-06-01"
_TOOL_BLOCKS = ("tool_use", "server_tool_use", "mcp_tool_use")
_CACHE_COUNTS = ("cache_creation_input_tokens", "cache_read_input_tokens")


class AnthropicProvider:
    """A provider that speaks the Messages API."""

    def __init__(self, endpoint: Endpoint, key: Secret | None, caps: Caps) -> None:
        self.endpoint = endpoint
        self._caps = caps
        self._line = HttpConnection(
            endpoint, key, lambda word: {"x-api-key": word}, {"anthropic-version": API_VERSION}
        )

    async def complete(self, card: ModelCard, request: Request, on_text: OnText) -> Reply:
        sending = build_sending(self.endpoint, card, "/messages", build_body(card, request))
        reader = MessageReader(ResponseBuilder(card, request, on_text, self._line.key))
        return await converse(self._line, sending, card, reader, self._caps)

    async def count_tokens(self, card: ModelCard, request: Request) -> int | None:
        body = encode_body(card, build_prompt(card, request))
        path = "/messages/count_tokens"
        answer = await find_answer(self._line, path, body, card.sent_name, self._caps)
        return None if answer is None else find_count(answer.get("input_tokens"))

    async def list_models(self) -> list[ListedModel]:
        listed: list[ListedModel] = []
        path = "/models?limit=1000"
        for _ in range(PAGES_MAX):
            page, answer = await load_page(self._line, path, "data", self._caps)
            listed += [
                ListedModel(
                    name,
                    find_count(entry.get("max_input_tokens")),
                    find_count(entry.get("max_tokens")),
                )
                for entry in page
                if (name := find_text(entry.get("id"))) is not None
            ]
            last = find_text(answer.get("last_id"))
            if answer.get("has_more") is not True or last is None:
                break
            path = f"/models?limit=1000&after_id={quote(last, safe='')}"
        return listed

    async def close(self) -> None:
        await self._line.close()


def build_body(card: ModelCard, request: Request) -> dict[str, Any]:
    """Build the request body; the operator's `extra_body` cannot override what was paid for."""
    extra = {name: value for name, value in card.extra_body.items() if name != "system"}
    cap = {"max_tokens": request.max_output_tokens}
    return {"stream": True, **extra, **build_prompt(card, request), **cap}


def build_prompt(card: ModelCard, request: Request) -> dict[str, Any]:
    """Build the part of a request that is counted: model, system instruction and turns."""
    system, turns = fold_system(card, request)
    messages = [{"role": turn.role.value, "content": turn.content} for turn in turns]
    prompt = {"model": card.sent_name, "messages": messages}
    return {**prompt, "system": system} if system else prompt


class MessageReader:
    """Reads the events of a streamed message, or a whole message."""

    def __init__(self, draft: ResponseBuilder) -> None:
        self.draft = draft
        self.is_done = False
        # The type of each block that was opened, by its number; None once it is closed.
        self._blocks: list[str | None] = []
        self._called_tool = False
        self._usage: dict[str, Any] = {}

    def take(self, data: dict[str, Any]) -> None:
        match data.get("type"):
            case "message_start":
                self._take_message(require_object(data.get("message"), "message"))
            case "content_block_start":
                self._open_block(data)
            case "content_block_delta":
                self._fill_block(data)
            case "content_block_stop":
                self._blocks[self._load_index(data)] = None
            case "message_delta":
                self._take_end(data)
            case "message_stop":
                self.is_done = True
            case _:  # a ping, or an event type added later
                pass

    def take_whole(self, body: Any) -> None:
        message = require_object(body, "answer")
        if message.get("content") is None:
            raise MalformedJson("it holds no content")
        self._take_message(message)
        for part in require_list(message.get("content"), "content"):
            block = require_object(part, "content")
            self._note_kind(block.get("type"))
            if block.get("type") == "text":
                self.draft.write(require_text(block.get("text"), "text"))
        self._report(whole=True)
        self._end(message.get("stop_reason"))

    def _take_message(self, message: dict[str, Any]) -> None:
        self.draft.check_id("id", message.get("id"))
        self.draft.note({name: fact for name, fact in message.items() if name != "content"})
        self._usage |= require_object(message.get("usage"), "usage")

    def _open_block(self, data: dict[str, Any]) -> None:
        index, block = data.get("index"), require_object(data.get("content_block"), "content_block")
        kind = require_text(block.get("type"), "type")
        if type(index) is not int or not 0 <= index <= len(self._blocks):
            raise MalformedJson(f"block {index!r} was opened after {len(self._blocks)} others")
        if index < len(self._blocks):
            return  # opened before: a duplicate event
        self._blocks.append(kind)
        self._note_kind(kind)
        if kind == "text":
            self.draft.write(require_text(block.get("text"), "text"))

    def _fill_block(self, data: dict[str, Any]) -> None:
        index = self._load_index(data)
        if self._blocks[index] is None:
            raise MalformedJson(f"block {index} was filled after it had been closed")
        delta = require_object(data.get("delta"), "delta")
        if delta.get("type") == "text_delta":
            self.draft.write(require_text(delta.get("text"), "text"))

    def _load_index(self, data: dict[str, Any]) -> int:
        index = data.get("index")
        if type(index) is not int or not 0 <= index < len(self._blocks):
            raise MalformedJson(f"block {index!r} was never opened")
        return index

    def _take_end(self, data: dict[str, Any]) -> None:
        usage = require_object(data.get("usage"), "usage")
        self._usage |= {name: count for name, count in usage.items() if count is not None}
        self._report(whole=usage.get("output_tokens") is not None)
        reason = require_object(data.get("delta"), "delta").get("stop_reason")
        if reason not in (None, ""):
            self._end(reason)

    def _report(self, *, whole: bool) -> None:
        """Report the token counts; the counts in the first event do not include the output yet."""
        self.draft.note({"usage": self._usage})
        if whole:
            cached = [self._usage[name] for name in _CACHE_COUNTS if self._usage.get(name)]
            read = add_counts([self._usage.get("input_tokens"), *cached])
            self.draft.report(read, self._usage.get("output_tokens"))

    def _note_kind(self, kind: Any) -> None:
        self._called_tool |= kind in _TOOL_BLOCKS

    def _end(self, reason: Any) -> None:
        self.draft.note({"stop_reason": reason})
        self.draft.end(Vendor.ANTHROPIC, reason)
        if self._called_tool:
            self.draft.overrule(FinishReason.TOOL, "tool_use")
