"""A client that takes nothing for granted: raw requests and raw bytes in four vendors' words."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2

from dialectic_simulator import Simulator, WireName
from tests.waiting import PATIENCE_S

OPENAI, ANTHROPIC, GOOGLE, OLLAMA = WireName
PROMPT = "A booking service for a village hall that volunteers can run in an hour a week."
CONTINUE = "Continue exactly where you stopped."


@dataclass(frozen=True)
class Heard:
    """What came back, taken apart as far as it can be."""

    status: int
    headers: httpx2.Headers
    raw: bytes
    text: str
    finish: Any
    usage: tuple[Any, Any] | None
    events: list[Any] = field(default_factory=list)

    def json(self) -> Any:
        return json.loads(self.raw)


@dataclass(frozen=True)
class Client:
    """One wire of one endpoint."""

    http: httpx2.AsyncClient
    simulator: Simulator
    wire: WireName
    endpoint: str | None = None

    def build(
        self,
        *turns: str,
        stream: bool = False,
        model: str = "architect",
        system: str = "",
        max_tokens: int = 8_000,
        **extra: Any,
    ) -> tuple[str, dict[str, Any]]:
        """Build address and body of a call; turns alternate, the user's first."""
        base = self.simulator.base_url(self.wire, self.endpoint)
        said = list(turns or (PROMPT,))
        if self.wire is GOOGLE:
            method = "streamGenerateContent?alt=sse" if stream else "generateContent"
            contents = [
                {"role": ("user", "model")[i % 2], "parts": [{"text": t}]}
                for i, t in enumerate(said)
            ]
            body: dict[str, Any] = {
                "contents": contents,
                "generationConfig": {"maxOutputTokens": max_tokens},
            }
            if system:
                body["systemInstruction"] = {"parts": [{"text": system}]}
            return f"{base}/models/{model}:{method}", body | extra
        messages = [
            {"role": ("user", "assistant")[i % 2], "content": t} for i, t in enumerate(said)
        ]
        body = {"model": model, "messages": messages, "stream": stream}
        if self.wire is ANTHROPIC:
            body |= {"max_tokens": max_tokens} | ({"system": system} if system else {})
            return f"{base}/messages", body | extra
        if system:
            messages.insert(0, {"role": "system", "content": system})
        if self.wire is OLLAMA:
            return f"{base}/chat", body | {"options": {"num_predict": max_tokens}} | extra
        body |= {"max_completion_tokens": max_tokens}
        if stream:
            body["stream_options"] = {"include_usage": True}
        return f"{base}/chat/completions", body | extra

    @property
    def headers(self) -> dict[str, str]:
        return {"anthropic-version": "2023-06-01"} if self.wire is ANTHROPIC else {}

    async def ask(self, *turns: str, **options: Any) -> Heard:
        """Call, and take the answer apart."""
        address, body = self.build(*turns, **options)
        response = await self.http.post(address, json=body, headers=self.headers)
        return take_apart(self.wire, response, is_stream=options.get("stream", False))

    @asynccontextmanager
    async def listen(self, *turns: str, **options: Any) -> AsyncIterator[httpx2.Response]:
        """Call, and read the stream as it comes."""
        address, body = self.build(*turns, stream=True, **options)
        async with self.http.stream("POST", address, json=body, headers=self.headers) as response:
            yield response


def take_apart(wire: WireName, response: httpx2.Response, *, is_stream: bool) -> Heard:
    """Take a well-formed answer apart; of any other only the bytes are kept."""
    raw = response.content
    heard = Heard(response.status_code, response.headers, raw, "", None, None)
    if response.status_code != 200:
        return heard
    try:
        events = split_events(raw) if is_stream and wire is not OLLAMA else None
        if is_stream and wire is OLLAMA:
            events = [json.loads(line) for line in raw.splitlines() if line]
        read = _READERS[wire](events if events is not None else [json.loads(raw)])
    except (ValueError, LookupError, TypeError):
        return heard
    return Heard(response.status_code, response.headers, raw, *read, events or [])


def split_events(raw: bytes) -> list[Any]:
    """Split server-sent events by the standard's rules; comments and ids are dropped."""
    events: list[Any] = []
    text = raw.decode().replace("\r\n", "\n")
    for block in text.split("\n\n"):
        data = [
            line.removeprefix("data:").removeprefix(" ")
            for line in block.split("\n")
            if line.startswith("data:")
        ]
        if data:
            joined = "\n".join(data)
            events.append(joined if joined == "[DONE]" else json.loads(joined))
    return events


Read = tuple[str, Any, tuple[Any, Any] | None]


def _read_openai(events: list[Any]) -> Read:
    text, finish, usage = "", None, None
    for event in events:
        if event == "[DONE]":
            continue
        for choice in event["choices"]:
            part = choice.get("delta") or choice.get("message") or {}
            text += part.get("content") or ""
            finish = choice.get("finish_reason") or finish
        if event.get("usage"):
            usage = (event["usage"]["prompt_tokens"], event["usage"]["completion_tokens"])
    return text, finish, usage


def _read_anthropic(events: list[Any]) -> Read:
    text, finish, given, made = "", None, None, None
    for event in events:
        match event["type"]:
            case "message":
                text = "".join(block.get("text", "") for block in event["content"])
                finish = event.get("stop_reason")
                given = event.get("usage", {}).get("input_tokens")
                made = event.get("usage", {}).get("output_tokens")
            case "message_start":
                given = event["message"].get("usage", {}).get("input_tokens")
            case "content_block_delta":
                text += event["delta"].get("text", "")
            case "message_delta":
                finish = event["delta"]["stop_reason"]
                made = event.get("usage", {}).get("output_tokens")
            case _:
                pass
    return text, finish, None if given is None else (given, made)


def _read_google(events: list[Any]) -> Read:
    text, finish, usage = "", None, None
    for event in events:
        for candidate in event.get("candidates", []):
            text += "".join(part.get("text", "") for part in candidate["content"]["parts"])
            finish = candidate.get("finishReason") or finish
        if counted := event.get("usageMetadata"):
            usage = (counted["promptTokenCount"], counted.get("candidatesTokenCount"))
    return text, finish, usage


def _read_ollama(events: list[Any]) -> Read:
    text, finish, usage = "", None, None
    for event in events:
        text += event.get("message", {}).get("content") or ""
        if event.get("done"):
            finish = event["done_reason"]
            if "eval_count" in event:
                usage = (event["prompt_eval_count"], event["eval_count"])
    return text, finish, usage


_READERS = {
    OPENAI: _read_openai,
    ANTHROPIC: _read_anthropic,
    GOOGLE: _read_google,
    OLLAMA: _read_ollama,
}

STOP = {OPENAI: "stop", ANTHROPIC: "end_turn", GOOGLE: "STOP", OLLAMA: "stop"}
LENGTH = {OPENAI: "length", ANTHROPIC: "max_tokens", GOOGLE: "MAX_TOKENS", OLLAMA: "length"}


@asynccontextmanager
async def connect(
    simulator: Simulator, wire: WireName, endpoint: str | None = None
) -> AsyncIterator[Client]:
    """A client with a pool of its own."""
    async with open_http() as http:
        yield Client(http, simulator, wire, endpoint)


def open_http() -> httpx2.AsyncClient:
    # Nothing here is encrypted, and reading the machine's certificates takes longer than a test.
    return httpx2.AsyncClient(timeout=PATIENCE_S, verify=False, trust_env=False)
