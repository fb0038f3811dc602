"""Parse endpoints and models from TOML, with precise errors. Pure.

The shipped catalogue has the same format as `[endpoints.NAME.models.MODEL]` in config.toml. An
error never shows a value that could be an API key.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from uuid import UUID

from dialectic.core.models.endpoint import (
    BUILT_IN,
    OWN,
    RESERVED,
    Endpoint,
    WireFormat,
    parse_origin,
)
from dialectic.core.models.model import KNOWN, ModelCard, parse_tokenizer
from dialectic.core.strict_json import Json
from dialectic.core.suggestion import suggest
from dialectic.errors import ConfigurationError

TOKENS_MAX = 1_000_000_000
PRICE_MAX = 1_000_000
SECONDS_MAX = 86_400.0
# The limit of a pgvector column; and the shortest input worth embedding, about a paragraph.
DIMENSIONS_MAX = 16_000
EMBEDDING_TOKENS_MIN = 64

_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,39}", re.ASCII)
_VARIABLE_NAME = re.compile(r"(?!DIALECTIC_)[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_BARE = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


class Check(NamedTuple):
    """What a value must be, in words; and the function that reads it, or raises ValueError."""

    words: str
    read: Callable[[Any], Any]


def build_check(
    words: str, holds: Callable[[Any], bool], convert: Callable[[Any], Any] = lambda value: value
) -> Check:
    """Build a check of a value for which a condition must hold."""

    def read(value: Any) -> Any:
        if not holds(value):
            raise ValueError
        return convert(value)

    return Check(words, read)


@dataclass(frozen=True, slots=True)
class Declared:
    """A declared endpoint with its declared models."""

    endpoint: Endpoint
    cards: tuple[ModelCard, ...] = ()
    # Embedding models.
    embeddings: tuple[ModelCard, ...] = ()


@dataclass(frozen=True, slots=True)
class Place:
    """The location of a key in a file."""

    file: str
    keys: tuple[str, ...] = ()

    def below(self, *keys: str) -> Place:
        return Place(self.file, (*self.keys, *keys))

    def __str__(self) -> str:
        dotted = ".".join(k if _BARE.fullmatch(k) else json.dumps(k) for k in self.keys)
        return f"`{dotted}` in {self.file}"

    def build_error(self, message: str, reason: str) -> ConfigurationError:
        """Build the error about the key at this place."""
        return ConfigurationError(message, reason=reason, subject=".".join(self.keys))


def parse_endpoints(value: Any, place: Place) -> dict[str, Declared]:
    """Read all endpoints of a file, by their names."""
    tables = _require_table(value, place)
    return {name: _parse_endpoint(name, table, place.below(name)) for name, table in tables.items()}


def parse_own_endpoint(
    tenant_id: UUID, name: str, value: Any, place: Place, *, allowed: Collection[str] = ()
) -> Declared:
    """Read a tenant's own endpoint; `allowed` are origins that may be private or without TLS.

    Its models are free here: the tenant pays the provider, not the operator.
    """
    _check_name(name, place)
    values = _read(value, place, OWN_KEYS)
    _require(values, ("kind", "base_url"), place, OWN_KEYS)
    models = {model: {**table, **FREE} for model, table in values.pop("models", {}).items()}
    endpoint = Endpoint(
        name=f"{OWN}{name}",
        tenant_id=tenant_id,
        is_guarded=parse_origin(values["base_url"]) not in allowed,
        **values,
    )
    return Declared(endpoint, parse_models(endpoint.name, models, place.below("models")))


def parse_models(endpoint: str, value: Any, place: Place) -> tuple[ModelCard, ...]:
    """Read the models of one endpoint."""
    tables = _require_table(value, place)
    return tuple(
        _parse_model(endpoint, name, table, place.below(name)) for name, table in tables.items()
    )


def parse_embeddings(endpoint: str, value: Any, place: Place) -> tuple[ModelCard, ...]:
    """Read the embedding models of one endpoint."""
    tables = _require_table(value, place)
    return tuple(
        _parse_embedding(endpoint, name, table, place.below(name)) for name, table in tables.items()
    )


def _parse_endpoint(name: str, value: Any, place: Place) -> Declared:
    _check_name(name, place)
    values = _read(value, place, ENDPOINT_KEYS)
    models, embeddings = values.pop("models", {}), values.pop("embeddings", {})
    if (known := BUILT_IN.get(name)) is not None:
        if values.get("kind", known.kind) is not known.kind:
            here = place.below("kind")
            raise here.build_error(
                f"{here} cannot be {values['kind'].value!r}: {name} is built in and speaks "
                f"{known.kind.value!r}. Remove the line, or declare the endpoint under another "
                "name.",
                "built_in",
            )
        endpoint = replace(known, **values)
    else:
        _require(values, ("kind", "base_url"), place, ENDPOINT_KEYS)
        endpoint = Endpoint(name=name, **values)
    return Declared(
        endpoint,
        parse_models(name, models, place.below("models")),
        parse_embeddings(name, embeddings, place.below("embeddings")),
    )


def _parse_model(endpoint: str, name: str, value: Any, place: Place) -> ModelCard:
    _check_model_name(name, place)
    values = _read(value, place, MODEL_KEYS)
    _require(values, MODEL_KEYS_REQUIRED, place, MODEL_KEYS)
    window = values["context_window_tokens"]
    if values["max_output_tokens"] >= window:
        here = place.below("max_output_tokens")
        raise here.build_error(
            f"{here} is {values['max_output_tokens']}, which leaves no room for a prompt in the "
            f"window of {window} tokens. Use a smaller number.",
            "no_room",
        )
    if values.setdefault("max_input_tokens", window) > window:
        here = place.below("max_input_tokens")
        raise here.build_error(
            f"{here} is {values['max_input_tokens']}, more than the window of {window} tokens. "
            "Use a smaller number, or remove it.",
            "beyond_window",
        )
    values.setdefault("accepts_temperature", not values.get("is_reasoning", False))
    return ModelCard(
        name=f"{endpoint}/{name}",
        input_credits_per_token=values.pop("input_usd_per_million"),
        output_credits_per_token=values.pop("output_usd_per_million"),
        **values,
    )


def _parse_embedding(endpoint: str, name: str, value: Any, place: Place) -> ModelCard:
    _check_model_name(name, place)
    values = _read(value, place, EMBEDDING_KEYS)
    _require(values, EMBEDDING_KEYS_REQUIRED, place, EMBEDDING_KEYS)
    return ModelCard(
        name=f"{endpoint}/{name}",
        context_window_tokens=values["max_input_tokens"],
        max_output_tokens=0,
        input_credits_per_token=values.pop("input_usd_per_million"),
        output_credits_per_token=Decimal(0),
        embedding_dimensions=values.pop("dimensions"),
        **values,
    )


def _check_model_name(name: str, place: Place) -> None:
    if not name or not name.isprintable() or any(c in " ,*" for c in name) or len(name) > 200:
        raise place.build_error(
            f"{place} is not a valid model name: it must not contain a space, comma or `*`. "
            "If the endpoint uses such a name, set it as `wire_name`.",
            "not_a_name",
        )


def _check_name(name: str, place: Place) -> None:
    faults = (
        (name in RESERVED, "name_taken", f"the name {name!r} is reserved"),
        (
            "/" in name,
            "name_with_slash",
            "the name of an endpoint must not contain a slash, because its models are called "
            "`NAME/model`",
        ),
        (
            name != name.lower(),
            "name_not_lower",
            f"the name of an endpoint must be lower case, such as {name.lower()!r}",
        ),
        (
            _NAME.fullmatch(name) is None,
            "bad_name",
            "the name of an endpoint has at most 40 letters from a to z, digits, `-`, `_` and `.`, "
            "and begins with a letter or digit",
        ),
    )
    for is_so, reason, words in faults:
        if is_so:
            message = f"{place}: {words}. Choose another one."
            raise ConfigurationError(message, reason=reason, subject=name)


# -- tables ---------------------------------------------------------------------------------------


def _require_table(value: Any, place: Place) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        message = f"{place} must be a table, written as `[{'.'.join(place.keys)}]`."
        raise place.build_error(message, "not_a_table")
    return value


def _read(value: Any, place: Place, checks: Mapping[str, Check]) -> Json:
    """Read a table whose keys are all known."""
    values = {}
    for key, given in _require_table(value, place).items():
        here = place.below(key)
        if key not in checks:
            hint = _hint(key, given, place, checks)
            raise here.build_error(f"Unknown key {here}. {hint}", "unknown_key")
        try:
            values[key] = checks[key].read(given)
        except ValueError as error:
            is_shown = key not in SECRETIVE and not isinstance(given, dict | list)
            what = f"is {given!r}; it" if is_shown else "cannot be used; it"
            wanted = str(error) or checks[key].words
            message = f"The value of {here} {what} must be {wanted}."
            raise here.build_error(message, "bad_value") from None
    return values


def _hint(key: str, given: Any, place: Place, checks: Mapping[str, Check]) -> str:
    if isinstance(given, dict) and (checks is MODEL_KEYS or checks is EMBEDDING_KEYS):
        whole = f"{place.keys[-1]}.{key}"
        return f'If the model is called {whole!r}, write the name in quotes: `"{whole}"`.'
    return suggest(key, checks, f"Known there: {', '.join(checks)}.", cutoff=0.65)


def _require(
    values: Mapping[str, Any], keys: tuple[str, ...], place: Place, checks: Mapping[str, Check]
) -> None:
    for key in keys:
        if key not in values:
            here = place.below(key)
            message = f"{here} is missing. Set it to {checks[key].words}."
            raise here.build_error(message, "missing")


# -- values ---------------------------------------------------------------------------------------


def _whole(low: int, high: int) -> Check:
    words = f"a whole number from {low} to {high}"
    return build_check(words, lambda value: type(value) is int and low <= value <= high)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)


def _read_address(value: Any) -> str:
    if not isinstance(value, str) or not value.isprintable() or " " in value:
        raise ValueError
    try:
        parts = urlsplit(value)
        _ = parts.port
    except ValueError:
        raise ValueError from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError
    if "@" in parts.netloc:
        raise ValueError("an address without user and password: set the key with `api_key_env`")
    if "?" in value or "#" in value:
        raise ValueError("an address without `?` or `#`: nothing after them is sent")
    return value.rstrip("/")


def _is_tokenizer(value: Any) -> bool:
    try:
        return isinstance(value, str) and bool(parse_tokenizer(value))
    except ConfigurationError:
        return False


def _is_json_object(value: Any) -> bool:
    try:
        return isinstance(value, dict) and bool(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError):
        return False


_SECONDS = build_check(
    f"a number of seconds above 0, up to {SECONDS_MAX:g}",
    lambda value: _is_number(value) and 0 < value <= SECONDS_MAX,
    float,
)
# A price is read as it was written: the shortest decimal of that float.
_PRICE = build_check(
    f"US dollars per million tokens, from 0 (if it is free) to {PRICE_MAX}",
    lambda value: _is_number(value) and 0 <= value <= PRICE_MAX,
    lambda value: Decimal(str(value)),
)
_TRUTH = build_check("true or false", lambda value: isinstance(value, bool))
_TEXT = build_check(
    "a non-empty text of one line",
    lambda value: isinstance(value, str) and value.strip() != "" and value.isprintable(),
)
_KIND = build_check(
    f"one of {', '.join(WireFormat)}", lambda value: value in list(WireFormat), WireFormat
)
_ADDRESS = Check(
    "an address such as http://127.0.0.1:8080/v1, with http:// or https:// in front", _read_address
)
_VARIABLE = build_check(
    "the name of an environment variable that holds the key, not beginning with DIALECTIC_;"
    " never write the key itself into this file",
    lambda value: isinstance(value, str) and _VARIABLE_NAME.fullmatch(value) is not None,
)
_TOKENIZER = build_check(KNOWN, _is_tokenizer)
_TABLE = build_check("a table", lambda value: isinstance(value, dict))
_BODY = build_check("a table that JSON can hold: no dates, no infinite numbers", _is_json_object)

ENDPOINT_KEYS: dict[str, Check] = {
    "kind": _KIND,
    "base_url": _ADDRESS,
    "api_key_env": _VARIABLE,
    "max_concurrency": _whole(1, 10_000),
    "requests_per_minute": _whole(1, 10_000_000),
    "tokens_per_minute": _whole(1, 1_000_000_000_000),
    "timeout_s": _SECONDS,
    "first_byte_s": _SECONDS,
    "idle_s": _SECONDS,
    "models": _TABLE,
    "embeddings": _TABLE,
}
# What a tenant may set.
OWN_KEYS = {
    key: ENDPOINT_KEYS[key]
    for key in (
        *("kind", "base_url", "models"),
        *("max_concurrency", "requests_per_minute", "tokens_per_minute"),
    )
}
FREE = {"input_usd_per_million": 0, "output_usd_per_million": 0}
MODEL_KEYS: dict[str, Check] = {
    "context_window_tokens": _whole(2, TOKENS_MAX),
    "max_input_tokens": _whole(1, TOKENS_MAX),
    "max_output_tokens": _whole(1, TOKENS_MAX),
    "input_usd_per_million": _PRICE,
    "output_usd_per_million": _PRICE,
    "tokenizer": _TOKENIZER,
    "wire_name": _TEXT,
    "supports_system_prompt": _TRUTH,
    "is_reasoning": _TRUTH,
    "accepts_temperature": _TRUTH,
    "extra_body": _BODY,
}
MODEL_KEYS_REQUIRED = (
    "context_window_tokens",
    "max_output_tokens",
    "input_usd_per_million",
    "output_usd_per_million",
    "tokenizer",
)
EMBEDDING_KEYS: dict[str, Check] = {
    "dimensions": _whole(1, DIMENSIONS_MAX),
    "max_input_tokens": _whole(EMBEDDING_TOKENS_MIN, TOKENS_MAX),
    "input_usd_per_million": _PRICE,
    "tokenizer": _TOKENIZER,
    "wire_name": _TEXT,
    "extra_body": _BODY,
}
EMBEDDING_KEYS_REQUIRED = ("dimensions", "max_input_tokens", "input_usd_per_million", "tokenizer")
# Errors do not show these values: they may contain a key.
SECRETIVE = ("base_url", "api_key_env", "extra_body")
