"""How each wire says the same things: the only place where the suite knows vendors."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from dialectic.core.models.endpoint import WireFormat

INPUT_TOKENS, OUTPUT_TOKENS = 11, 7
Data = dict[str, Any]


class Dialect(ABC):
    """One wire's phrases."""

    kind: ClassVar[WireFormat]
    version: ClassVar[str]
    # The wire's own words for each way to end.
    words: ClassVar[Mapping[str, str]]
    # Where a request goes, and which header carries the key.
    path: ClassVar[str]
    key_header: ClassVar[str]
    id_name: ClassVar[str] = "id"

    @abstractmethod
    def usage(self, read: Any = INPUT_TOKENS, written: Any = OUTPUT_TOKENS) -> Data: ...

    @abstractmethod
    def begin(self) -> list[Data]:
        """The events before any text."""

    @abstractmethod
    def text(self, piece: Any, answer_id: str = "answer-1") -> Data:
        """The event that brings a piece of text."""

    @abstractmethod
    def end(self, word: Any, usage: Data | None) -> list[Data]:
        """The events after the text, up to the last word."""

    @abstractmethod
    def whole(self, text: Any, word: Any = None, usage: Data | None = None) -> Data:
        """An answer in one piece."""

    @abstractmethod
    def error(self, *, status: int, code: str, message: str = "Something is wrong.") -> Data:
        """The body of an error."""

    @abstractmethod
    def reported(self, raw: Mapping[str, Any]) -> Any:
        """The usage as a reply's record keeps it."""

    def encode(self, data: Data) -> bytes:
        return b"data: " + json.dumps(data, ensure_ascii=False).encode() + b"\n\n"

    def last_word(self) -> bytes:
        return b""

    def stream(
        self, *pieces: str, word: Any = None, usage: Data | None = None, last_word: bool = True
    ) -> bytes:
        """A whole stream, well formed."""
        events = [
            *self.begin(),
            *(self.text(piece) for piece in pieces),
            *self.end(self.words["stop"] if word is None else word, usage or self.usage()),
        ]
        return self.encode_all(events) + (self.last_word() if last_word else b"")

    def beginning(self, *pieces: str) -> bytes:
        """The same, without an end."""
        return self.encode_all([*self.begin(), *(self.text(piece) for piece in pieces)])

    def encode_all(self, events: list[Data]) -> bytes:
        return b"".join(map(self.encode, events))


class Chat(Dialect):
    kind = WireFormat.OPENAI
    version = "v1"
    words: ClassVar = {
        "stop": "stop",
        "length": "length",
        "filter": "content_filter",
        "tool": "tool_calls",
    }
    path = "/v1/chat/completions"
    key_header = "authorization"

    def usage(self, read: Any = INPUT_TOKENS, written: Any = OUTPUT_TOKENS) -> Data:
        return {"prompt_tokens": read, "completion_tokens": written}

    def chunk(self, delta: Data, finish: Any = None, answer_id: str = "answer-1") -> Data:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return {
            "id": answer_id,
            "object": "chat.completion.chunk",
            "model": "m-1",
            "choices": [choice],
        }

    def begin(self) -> list[Data]:
        return [self.chunk({"role": "assistant", "content": ""})]

    def text(self, piece: Any, answer_id: str = "answer-1") -> Data:
        return self.chunk({"content": piece}, answer_id=answer_id)

    def end(self, word: Any, usage: Data | None) -> list[Data]:
        last: Data = {"id": "answer-1", "model": "m-1", "choices": [], "usage": usage}
        return [self.chunk({}, word), *([last] if usage else [])]

    def last_word(self) -> bytes:
        return b"data: [DONE]\n\n"

    def whole(self, text: Any, word: Any = None, usage: Data | None = None) -> Data:
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "finish_reason": word or self.words["stop"]}
        return {
            "id": "answer-1",
            "model": "m-1",
            "choices": [choice],
            "usage": usage or self.usage(),
        }

    def error(self, *, status: int, code: str, message: str = "Something is wrong.") -> Data:
        return {"error": {"message": message, "type": "invalid_request_error", "code": code}}

    def reported(self, raw: Mapping[str, Any]) -> Any:
        return raw["usage"]


class Messages(Dialect):
    kind = WireFormat.ANTHROPIC
    version = "v1"
    words: ClassVar = {
        "stop": "end_turn",
        "length": "max_tokens",
        "filter": "refusal",
        "tool": "tool_use",
    }
    path = "/v1/messages"
    key_header = "x-api-key"

    def usage(self, read: Any = INPUT_TOKENS, written: Any = OUTPUT_TOKENS) -> Data:
        # Some of the input is read from a cache and some written into it.
        if type(read) is int and read >= 3:
            cached = {"cache_read_input_tokens": 2, "cache_creation_input_tokens": 1}
            return {"input_tokens": read - 3, **cached, "output_tokens": written}
        return {"input_tokens": read, "output_tokens": written}

    def encode(self, data: Data) -> bytes:
        return f"event: {data['type']}\n".encode() + super().encode(data)

    def begin(self) -> list[Data]:
        message = {"id": "answer-1", "type": "message", "model": "m-1", "content": []}
        return [
            {"type": "message_start", "message": message | {"usage": {"output_tokens": 1}}},
            {
                "type": "content_block_start",
                "index": 0,
                "content_block": {"type": "text", "text": ""},
            },
            {"type": "ping"},
        ]

    def text(self, piece: Any, answer_id: str = "answer-1") -> Data:
        if answer_id != "answer-1":  # only the start of a message has an id
            return {"type": "message_start", "message": {"id": answer_id}}
        delta = {"type": "text_delta", "text": piece}
        return {"type": "content_block_delta", "index": 0, "delta": delta}

    def end(self, word: Any, usage: Data | None) -> list[Data]:
        delta = {"stop_reason": word, "stop_sequence": None}
        return [
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": delta, **({"usage": usage} if usage else {})},
            {"type": "message_stop"},
        ]

    def whole(self, text: Any, word: Any = None, usage: Data | None = None) -> Data:
        parts = text if isinstance(text, list) else [{"type": "text", "text": text}]
        return {
            "id": "answer-1",
            "type": "message",
            "model": "m-1",
            "content": parts,
            "stop_reason": word or self.words["stop"],
            "usage": usage or self.usage(),
        }

    def error(self, *, status: int, code: str, message: str = "Something is wrong.") -> Data:
        return {"type": "error", "error": {"type": code, "message": message}}

    def reported(self, raw: Mapping[str, Any]) -> Any:
        return raw["usage"]


class Content(Dialect):
    kind = WireFormat.GOOGLE
    version = "v1beta"
    words: ClassVar = {
        "stop": "STOP",
        "length": "MAX_TOKENS",
        "filter": "SAFETY",
        "tool": "UNEXPECTED_TOOL_CALL",
    }
    path = "/v1beta/models/m-1:streamGenerateContent?alt=sse"
    key_header = "x-goog-api-key"
    id_name = "responseId"

    def usage(self, read: Any = INPUT_TOKENS, written: Any = OUTPUT_TOKENS) -> Data:
        # What it thought is output, too.
        if type(written) is int and written >= 2:
            parts = {"candidatesTokenCount": written - 2, "thoughtsTokenCount": 2}
            return {"promptTokenCount": read, **parts}
        return {"promptTokenCount": read, "candidatesTokenCount": written}

    def begin(self) -> list[Data]:
        thought = {"text": "Let me think.", "thought": True}
        return [{"candidates": [{"content": {"parts": [thought]}}], "responseId": "answer-1"}]

    def text(self, piece: Any, answer_id: str = "answer-1") -> Data:
        content = {"role": "model", "parts": [{"text": piece}]}
        return {"candidates": [{"index": 0, "content": content}], "responseId": answer_id}

    def end(self, word: Any, usage: Data | None) -> list[Data]:
        last = {"candidates": [{"index": 0, "finishReason": word}], "modelVersion": "m-1"}
        return [last | ({"usageMetadata": usage} if usage else {})]

    def whole(self, text: Any, word: Any = None, usage: Data | None = None) -> Data:
        parts = text if isinstance(text, list) else [{"text": text}]
        candidate = {"content": {"parts": parts}, "finishReason": word or self.words["stop"]}
        return {
            "candidates": [candidate],
            "responseId": "answer-1",
            "modelVersion": "m-1",
            "usageMetadata": usage or self.usage(),
        }

    def error(self, *, status: int, code: str, message: str = "Something is wrong.") -> Data:
        return {"error": {"code": status, "message": message, "status": code.upper()}}

    def reported(self, raw: Mapping[str, Any]) -> Any:
        return raw["usageMetadata"]


DIALECTS: tuple[Dialect, ...] = (Chat(), Messages(), Content())
