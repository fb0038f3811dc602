"""Load and validate scripts from files and mappings. Errors name file, key and nearest name."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from dialectic.errors import ConfigurationError
from dialectic.tokens.encodings import ENCODINGS
from dialectic_simulator.conversation import Route
from dialectic_simulator.faults import EVERY_WIRE, FAULTS, NO_FAULT, Fault
from dialectic_simulator.script import DEFAULT_ENDPOINT, NAME, Facts, Manner, Rule, Script, Section

_FORMS: dict[str, type[BaseModel]] = {
    "default": Section,
    "endpoints": Section,
    "models": Facts,
    "rules": Rule,
}
AnyManner = TypeVar("AnyManner", bound=Manner)
# A literal header value, or a date this many seconds from now.
_RETRY_AFTER = re.compile(r"date -?\d{1,10}|(?!date )[ -~]{1,100}")
_GOING_ON = ("overlap", "restart", "preamble", "empty")


def load_script(path: Path) -> Script:
    """Load a script from a TOML file; its file names are relative to its folder."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(
            f"{path} cannot be read: {error.strerror}.", reason="unreadable", subject=str(path)
        ) from None
    except ValueError as error:  # not TOML, or not UTF-8
        raise ConfigurationError(
            f"{path} is not valid TOML: {error}. Correct that line.",
            reason="not_toml",
            subject=str(path),
        ) from None
    return build_script(content, place=str(path), folder=path.parent)


def build_script(
    content: Mapping[str, Any], *, place: str = "script", folder: Path | None = None
) -> Script:
    """Build a script from its content, and check what spans several keys."""
    try:
        script = Script.model_validate(dict(content))
    except ValidationError as error:
        raise ConfigurationError(f"{place}: {_describe(error)}") from None
    for trouble in _find_troubles(script):
        raise ConfigurationError(f"{place}: {trouble}")
    return _read_texts(script, place, folder)


def _describe(error: ValidationError) -> str:
    """Describe the first format error: the key, and what is expected there."""
    first = error.errors(include_url=False, include_input=False)[0]
    path = [str(part + 1) if isinstance(part, int) else part for part in first["loc"]]
    form = _FORMS.get(path[0], Script) if len(path) > 1 else Script
    keys = [part for part in path if part != "[key]"]
    where = ": ".join(f"`{part}`" for part in keys) or "the script"
    match first["type"]:
        case "extra_forbidden":
            return f"{where}: unknown key. {_hint(path[-1], form.model_fields)}"
        case "string_pattern_mismatch" if first["ctx"]["pattern"] == NAME:
            return f"{where}: a name is 1 to 40 of a-z, 0-9 and -."
        case "value_error":
            return f"{where}: it {first['ctx']['error']}."
        case _:
            return f"{where}: {first['msg']}."


def _hint(name: str, known: Iterable[str]) -> str:
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    return f"Did you mean `{near[0]}`?" if near else f"Known: {', '.join(names)}."


def _find_troubles(script: Script) -> Iterator[str]:
    if DEFAULT_ENDPOINT in script.endpoints:
        yield f"`endpoints.{DEFAULT_ENDPOINT}`: write it as `[{DEFAULT_ENDPOINT}]`."
    for name, facts in script.models.items():
        yield from _find_model_troubles(name, facts)
    for where, manner in script.manners:
        yield from _find_manner_troubles(where, manner)
    for number, rule in enumerate(script.rules, start=1):
        if rule.endpoint is not None and rule.endpoint not in script.endpoint_names:
            hint = _hint(rule.endpoint, script.endpoint_names)
            yield f"`rules: {number}`: `endpoint`: {rule.endpoint!r} does not exist. {hint}"


def _find_model_troubles(name: str, facts: Facts) -> Iterator[str]:
    kind, _, argument = facts.tokenizer.partition(":")
    is_counted = kind == "chars" and argument.isdecimal() and 0 < int(argument) <= 1_000
    if not is_counted and facts.tokenizer not in ENCODINGS:
        yield (
            f"`models.{name}`: `tokenizer`: {facts.tokenizer!r} is unknown. "
            f"Known: {', '.join(ENCODINGS)}, and chars:N with N characters to a token."
        )


def _find_manner_troubles(where: str, manner: Manner) -> Iterator[str]:
    if manner.text is not None and manner.text_file is not None:
        yield f"`{where}`: `text` and `text_file` are both given; keep one."
    ways = [f"`{name}`" for name in _GOING_ON if getattr(manner, name)]
    if len(ways) > 1:
        yield f"`{where}`: {' and '.join(ways)} exclude each other; keep one."
    if manner.retry_after is not None and not _RETRY_AFTER.fullmatch(manner.retry_after):
        yield f"`{where}`: `retry_after`: it must be the header's value, or `date N`, in seconds."
    if manner.fault == NO_FAULT:
        return
    if (fault := FAULTS.get(manner.fault)) is None:
        hint = _hint(manner.fault, FAULTS)
        yield f"`{where}`: `fault`: unknown fault {manner.fault!r}. {hint}"
    else:
        yield from _find_fault_troubles(where, manner, fault)


def _find_fault_troubles(where: str, manner: Manner, fault: Fault) -> Iterator[str]:
    wires = " and ".join(sorted(fault.wires))
    wire = manner.wire if isinstance(manner, Rule) else None
    if wire is None and fault.wires != EVERY_WIRE:
        yield (
            f"`{where}`: `fault`: {fault.name} works on {wires} only. "
            "Write a rule that names its `wire`."
        )
    elif wire is not None and wire not in fault.wires:
        yield (
            f"`{where}`: `fault`: {fault.name} does not work on {wire}, only on {wires}. "
            "Name another `wire` or another fault."
        )
    route = manner.route if isinstance(manner, Rule) else Route.CHAT
    if route is not Route.CHAT and not fault.is_for_any_route:
        yield f"`{where}`: `fault`: {fault.name} works on the route `chat` only."
    if fault.vectors_only and route is not Route.EMBEDDINGS:
        yield f'`{where}`: `fault`: {fault.name} needs a rule with `route = "embeddings"`.'
    if fault.streams_only and isinstance(manner, Rule) and manner.stream is False:
        yield f"`{where}`: `fault`: {fault.name} works in streams only; `stream` is false."


def _read_texts(script: Script, place: str, folder: Path | None) -> Script:
    """Replace file names by the content of the files."""

    def read(manner: Manner) -> dict[str, Any]:
        assert manner.text_file is not None
        path = (folder or Path()) / manner.text_file
        try:
            return {"text": path.read_text(encoding="utf-8"), "text_file": None}
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise ConfigurationError(
                f"{place}: `text_file`: {path} cannot be read: {reason}."
            ) from None

    def fill(manner: AnyManner) -> AnyManner:
        return manner.model_copy(update=read(manner)) if manner.text_file else manner

    return script.model_copy(
        update={
            "default": fill(script.default),
            "endpoints": {name: fill(section) for name, section in script.endpoints.items()},
            "rules": tuple(fill(rule) for rule in script.rules),
        }
    )
