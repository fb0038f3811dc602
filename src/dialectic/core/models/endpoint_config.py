"""Parse endpoints and models from TOML, with precise errors. Pure.

The shipped catalogue has the same format as `[endpoints.NAME.models.MODEL]` in config.toml. An
error never shows a value that could be an API key.
"""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

from dialectic.core.models.endpoint import BUILT_IN, RESERVED, Endpoint, WireFormat
from dialectic.core.models.model import KNOWN, ModelCard, parse_tokenizer
from dialectic.errors import ConfigurationError

TOKENS_MAX = 1_000_000_000
PRICE_MAX = 1_000_000
SECONDS_MAX = 86_400.0
# The limit of a pgvector column; and the shortest input worth embedding, about a paragraph.
DIMENSIONS_MAX = 16_000
EMBEDDING_TOKENS_MIN = 64

_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,39}", re.ASCII)
_VARIABLE = re.compile(r"(?!DIALECTIC_)[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_BARE = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)

Check = Callable[[Any], Any]
"""Returns the checked value, or raises ValueError with what it must be."""


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


def parse_endpoints(value: Any, place: Place) -> dict[str, Declared]:
    """Read all endpoints of a file, by their names."""
    tables = _require_table(value, place)
    return {name: _parse_endpoint(name, table, place.below(name)) for name, table in tables.items()}


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
            raise ConfigurationError(
                f"{place.below('kind')} cannot be {values['kind'].value!r}: {name} is built in and "
                f"speaks {known.kind.value!r}. Remove the line, or declare the endpoint under "
                "another name.",
                reason="built_in",
                subject=".".join(place.below("kind").keys),
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
        raise ConfigurationError(
            f"{place.below('max_output_tokens')} is {values['max_output_tokens']}, which leaves no "
            f"room for a prompt in the window of {window} tokens. Use a smaller number.",
            reason="no_room",
            subject=".".join(place.below("max_output_tokens").keys),
        )
    if values.setdefault("max_input_tokens", window) > window:
        raise ConfigurationError(
            f"{place.below('max_input_tokens')} is {values['max_input_tokens']}, more than the "
            f"window of {window} tokens. Use a smaller number, or remove it.",
            reason="beyond_window",
            subject=".".join(place.below("max_input_tokens").keys),
        )
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
        raise ConfigurationError(
            f"{place} is not a valid model name: it must not contain a space, comma or `*`. "
            "If the endpoint uses such a name, set it as `wire_name`.",
            reason="not_a_name",
            subject=".".join(place.keys),
        )


def _check_name(name: str, place: Place) -> None:
    if name in RESERVED:
        raise ConfigurationError(
            f"{place}: the name {name!r} is reserved. Choose another one.",
            reason="name_taken",
            subject=name,
        )
    if "/" in name:
        raise ConfigurationError(
            f"{place}: the name of an endpoint must not contain a slash, because its models are "
            "called `NAME/model`. Choose another one.",
            reason="name_with_slash",
            subject=name,
        )
    if name != name.lower():
        raise ConfigurationError(
            f"{place}: the name of an endpoint must be lower case. Use {name.lower()!r}.",
            reason="name_not_lower",
            subject=name,
        )
    if not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"{place}: the name of an endpoint has at most 40 letters from a to z, digits, `-`, "
            "`_` and `.`, and begins with a letter or digit. Choose another one.",
            reason="bad_name",
            subject=name,
        )


# -- tables ---------------------------------------------------------------------------------------


def _require_table(value: Any, place: Place) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ConfigurationError(
            f"{place} must be a table, written as `[{'.'.join(place.keys)}]`.",
            reason="not_a_table",
            subject=".".join(place.keys),
        )
    return value


def _read(value: Any, place: Place, checks: Mapping[str, Check]) -> dict[str, Any]:
    """Read a table whose keys are all known."""
    values = {}
    for key, given in _require_table(value, place).items():
        here = place.below(key)
        if key not in checks:
            raise ConfigurationError(
                f"Unknown key {here}. {_hint(key, given, place, checks)}",
                reason="unknown_key",
                subject=".".join(here.keys),
            )
        try:
            values[key] = checks[key](given)
        except ValueError as error:
            is_shown = key not in SECRETIVE and not isinstance(given, dict | list)
            what = f"is {given!r}; it" if is_shown else "cannot be used; it"
            raise ConfigurationError(
                f"The value of {here} {what} must be {error}.",
                reason="bad_value",
                subject=".".join(here.keys),
            ) from None
    return values


def _hint(key: str, given: Any, place: Place, checks: Mapping[str, Check]) -> str:
    if isinstance(given, dict) and (checks is MODEL_KEYS or checks is EMBEDDING_KEYS):
        whole = f"{place.keys[-1]}.{key}"
        return f'If the model is called {whole!r}, write the name in quotes: `"{whole}"`.'
    near = difflib.get_close_matches(key, checks, n=1, cutoff=0.65)
    return f"Did you mean `{near[0]}`?" if near else f"Known there: {', '.join(checks)}."


def _require(
    values: Mapping[str, Any], keys: tuple[str, ...], place: Place, checks: Mapping[str, Check]
) -> None:
    for key in keys:
        if key not in values:
            raise ConfigurationError(
                f"{place.below(key)} is missing. Set it to {_describe(checks[key])}.",
                reason="missing",
                subject=".".join(place.below(key).keys),
            )


def _describe(check: Check) -> str:
    """Get the words of a check by giving it None, which every check rejects."""
    try:
        check(None)
    except ValueError as error:
        return str(error)
    raise AssertionError("every check rejects None")


# -- values ---------------------------------------------------------------------------------------


def _whole(low: int, high: int) -> Check:
    def check(value: Any) -> int:
        if type(value) is not int or not low <= value <= high:
            raise ValueError(f"a whole number from {low} to {high}")
        return value

    return check


def _seconds(value: Any) -> float:
    if type(value) not in (int, float) or not 0 < value <= SECONDS_MAX:
        raise ValueError(f"a number of seconds above 0, up to {SECONDS_MAX:g}")
    return float(value)


def _price(value: Any) -> Decimal:
    """Read a price as it was written: the shortest decimal of that float."""
    if type(value) not in (int, float) or not 0 <= value <= PRICE_MAX or not math.isfinite(value):
        raise ValueError(f"US dollars per million tokens, from 0 (if it is free) to {PRICE_MAX}")
    return Decimal(str(value))


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("true or false")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise ValueError("a non-empty text of one line")
    return value


def _kind(value: Any) -> WireFormat:
    kinds = [kind.value for kind in WireFormat]
    if value not in kinds:
        raise ValueError(f"one of {', '.join(kinds)}")
    return WireFormat(value)


def _address(value: Any) -> str:
    words = "an address such as http://127.0.0.1:8080/v1, with http:// or https:// in front"
    if not isinstance(value, str) or not value.isprintable() or " " in value:
        raise ValueError(words)
    try:
        parts = urlsplit(value)
        _ = parts.port
    except ValueError:
        raise ValueError(words) from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(words)
    if "@" in parts.netloc:
        raise ValueError("an address without user and password: set the key with `api_key_env`")
    if "?" in value or "#" in value:
        raise ValueError("an address without `?` or `#`: nothing after them is sent")
    return value.rstrip("/")


def _variable(value: Any) -> str:
    if not isinstance(value, str) or not _VARIABLE.fullmatch(value):
        raise ValueError(
            "the name of an environment variable that holds the key, not beginning with DIALECTIC_;"
            " never write the key itself into this file"
        )
    return value


def _tokenizer(value: Any) -> str:
    try:
        parse_tokenizer(value if isinstance(value, str) else "")
    except ConfigurationError:
        raise ValueError(KNOWN) from None
    assert isinstance(value, str)
    return value


def _table(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("a table")
    return value


def _body(value: Any) -> dict[str, Any]:
    try:
        json.dumps(_table(value), allow_nan=False)
    except (TypeError, ValueError):
        raise ValueError("a table that JSON can hold: no dates, no infinite numbers") from None
    return _table(value)


ENDPOINT_KEYS: dict[str, Check] = {
    "kind": _kind,
    "base_url": _address,
    "api_key_env": _variable,
    "max_concurrency": _whole(1, 10_000),
    "requests_per_minute": _whole(1, 10_000_000),
    "tokens_per_minute": _whole(1, 1_000_000_000_000),
    "timeout_s": _seconds,
    "first_byte_s": _seconds,
    "idle_s": _seconds,
    "models": _table,
    "embeddings": _table,
}
MODEL_KEYS: dict[str, Check] = {
    "context_window_tokens": _whole(2, TOKENS_MAX),
    "max_input_tokens": _whole(1, TOKENS_MAX),
    "max_output_tokens": _whole(1, TOKENS_MAX),
    "input_usd_per_million": _price,
    "output_usd_per_million": _price,
    "tokenizer": _tokenizer,
    "wire_name": _text,
    "supports_system_prompt": _truth,
    "is_reasoning": _truth,
    "extra_body": _body,
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
    "input_usd_per_million": _price,
    "tokenizer": _tokenizer,
    "wire_name": _text,
    "extra_body": _body,
}
EMBEDDING_KEYS_REQUIRED = ("dimensions", "max_input_tokens", "input_usd_per_million", "tokenizer")
# Errors do not show these values: they may contain a key.
SECRETIVE = ("base_url", "api_key_env", "extra_body")
