"""Routing: the endpoint, wire and route of a request path. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from dialectic_simulator.conversation import Route, WireName
from dialectic_simulator.script import DEFAULT_ENDPOINT
from dialectic_simulator.wire import Wire
from dialectic_simulator.wire_anthropic import AnthropicWire
from dialectic_simulator.wire_google import GoogleWire
from dialectic_simulator.wire_ollama import OllamaWire
from dialectic_simulator.wire_openai import OpenAIWire

WIRES: dict[WireName, Wire] = {
    wire.name: wire for wire in (OpenAIWire(), AnthropicWire(), GoogleWire(), OllamaWire())
}

BASE_PATHS = {
    WireName.OPENAI: "/v1",
    WireName.ANTHROPIC: "/v1",
    WireName.GOOGLE: "/v1beta",
    WireName.OLLAMA: "/api",
}
ANTHROPIC_VERSION = "anthropic-version"
# Google's clients send both, also to its stable API at /v1.
GOOGLE_HEADERS = ("x-goog-api-key", "x-goog-api-client")

_FIXED = {
    ("POST", "/v1/chat/completions"): (WireName.OPENAI, Route.CHAT),
    ("POST", "/v1/embeddings"): (WireName.OPENAI, Route.EMBEDDINGS),
    ("POST", "/v1/messages"): (WireName.ANTHROPIC, Route.CHAT),
    ("POST", "/v1/messages/count_tokens"): (WireName.ANTHROPIC, Route.COUNT_TOKENS),
    ("POST", "/api/chat"): (WireName.OLLAMA, Route.CHAT),
    ("GET", "/api/tags"): (WireName.OLLAMA, Route.MODELS),
}
_GOOGLE_METHODS = {
    "generateContent": Route.CHAT,
    "streamGenerateContent": Route.CHAT,
    "countTokens": Route.COUNT_TOKENS,
    "embedContent": Route.EMBEDDINGS,
    "batchEmbedContents": Route.EMBEDDINGS,
}


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a request."""

    endpoint: str
    wire: WireName
    route: Route
    # The model and whether to stream, if the path says so.
    model: str = ""
    is_stream: bool = False


def find_target(method: str, path: str, headers: Mapping[str, str]) -> Target | None:
    """Find the target of a request; None for a path that no vendor has."""
    endpoint, inner = split_endpoint(path)
    if (fixed := _FIXED.get((method, inner))) is not None:
        return Target(endpoint, *fixed)
    version, _, rest = inner.removeprefix("/").partition("/")
    name, slash, model = rest.partition("/")
    if version not in ("v1", "v1beta") or name != "models" or bool(slash) != bool(model):
        return None
    if method == "POST":
        return _find_google_method(endpoint, model)
    if method != "GET":
        return None
    return Target(endpoint, _tell_vendor(version, headers), Route.MODELS, model)


def _tell_vendor(version: str, headers: Mapping[str, str]) -> WireName:
    """Tell whose list of models is asked for: three vendors have the same path."""
    if version == "v1beta" or any(name in headers for name in GOOGLE_HEADERS):
        return WireName.GOOGLE
    return WireName.ANTHROPIC if ANTHROPIC_VERSION in headers else WireName.OPENAI


def _find_google_method(endpoint: str, path: str) -> Target | None:
    model, _, method = path.rpartition(":")
    if not model or method not in _GOOGLE_METHODS:
        return None
    target = Target(endpoint, WireName.GOOGLE, _GOOGLE_METHODS[method], model)
    return replace(target, is_stream=method == "streamGenerateContent")


def split_endpoint(path: str) -> tuple[str, str]:
    """Split `/e/NAME/v1/...` into the endpoint's name and the path there."""
    if not path.startswith("/e/"):
        return DEFAULT_ENDPOINT, path
    name, slash, rest = path.removeprefix("/e/").partition("/")
    return name, slash + rest


def build_base_path(wire: WireName, endpoint: str) -> str:
    """Build the path prefix of an endpoint's clients."""
    prefix = "" if endpoint == DEFAULT_ENDPOINT else f"/e/{endpoint}"
    return prefix + BASE_PATHS[wire]


def has_key(headers: Mapping[str, str], query: Mapping[str, str]) -> bool:
    """Return whether a request carries a key, in any vendor's way; its value does not matter."""
    bearer = headers.get("authorization", "").removeprefix("Bearer").strip()
    given = (headers.get("x-api-key"), headers.get("x-goog-api-key"), query.get("key"))
    return bool(bearer) or any(given)
