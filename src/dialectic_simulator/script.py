"""Scripts: which calls are answered how; their format, and how they are loaded. Runs nothing.

A script is data, written in TOML: facts about models, one section for each endpoint, and rules.
For every key of a call's manner, the first matching rule that sets it decides, then the section of
its endpoint, then the default. An error names the file, the key and the nearest name.
"""

from __future__ import annotations

import difflib
import fnmatch
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    ValidationError,
)

from dialectic.core.models.model import VOCABULARIES
from dialectic.errors import ConfigurationError
from dialectic_simulator.agents import Agent, WorldSettings
from dialectic_simulator.conversation import Route, WireName
from dialectic_simulator.faults import EVERY_WIRE, FAULTS, NO_FAULT, Fault
from dialectic_simulator.world import World, draw_world

DEFAULT_ENDPOINT = "default"
NAME = r"^[a-z0-9][a-z0-9-]{0,39}$"
PER_MINUTE_S = 60.0

Number = StrictInt | StrictFloat
Counted = Annotated[StrictInt, Field(ge=1, le=1_000_000_000)]
Seconds = Annotated[Number, Field(ge=0, le=86_400)]
Usd = Annotated[Decimal, Field(ge=0, le=1_000_000)]


@dataclass(frozen=True, slots=True)
class Numbers:
    """Whole numbers, written as `3`, `1-3`, `5-` or several of these with commas between."""

    spans: tuple[tuple[int, int | None], ...]

    def __contains__(self, number: int) -> bool:
        return any(low <= number and (high is None or number <= high) for low, high in self.spans)


_SPAN = re.compile(r"\s*(\d{1,9})\s*(?:(-)\s*(\d{1,9})?)?\s*")


def parse_numbers(value: Any) -> Numbers:
    """Parse a set of whole numbers."""
    if isinstance(value, Numbers):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return Numbers(((value, value),))
    spans = [_SPAN.fullmatch(part) for part in value.split(",")] if isinstance(value, str) else []
    if not spans or None in spans:
        message = "must be numbers such as 2, '1-3', '5-' or '1,4-6'"
        raise ValueError(message)
    return Numbers(tuple(_read_span(span) for span in spans if span is not None))


def _read_span(span: re.Match[str]) -> tuple[int, int | None]:
    low, dash, high = span.groups()
    if not dash:
        return int(low), int(low)
    return int(low), int(high) if high else None


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Facts(_Part):
    """The facts about a model, or about all models whose names match a pattern."""

    tokenizer: StrictStr = "o200k_base"
    context_window_tokens: Counted = 128_000
    # Defaults to the window.
    max_input_tokens: Counted | None = None
    max_output_tokens: Counted = 16_384
    input_usd_per_million: Usd = Decimal(1)
    output_usd_per_million: Usd = Decimal(2)
    # The size of its vectors.
    dimensions: Annotated[StrictInt, Field(ge=1, le=8_192)] = 256

    @property
    def input_tokens_max(self) -> int:
        return min(self.max_input_tokens or self.context_window_tokens, self.context_window_tokens)


class Manner(_Part):
    """How a call is answered."""

    # The document; without a text, the one that an offline model writes for the conversation.
    text: StrictStr | None = None
    text_file: StrictStr | None = None
    # Whether a repeated conversation gets a different document.
    vary: StrictBool = False
    # Truncates the document after this many tokens: once, or in each turn.
    cut_after_tokens: Counted | None = None
    cut_each_turn: StrictBool = False
    # How a document is continued, if not exactly where it stopped.
    overlap: Annotated[StrictInt, Field(ge=0, le=1_000_000)] = 0
    restart: StrictBool = False
    preamble: StrictStr = ""
    empty: StrictBool = False
    always_length: StrictBool = False
    # The timing. A spread makes the median a log-normal distribution.
    first_byte_s: Seconds = 0.0
    first_byte_spread: Annotated[Number, Field(ge=0, le=5)] = 0.0
    tokens_per_s: Annotated[Number, Field(gt=0, le=1_000_000_000)] | None = None
    chunk_tokens: Counted = 8
    # The gates: before the first byte, or after a number of tokens.
    gate: Annotated[StrictStr, Field(pattern=NAME)] | None = None
    gate_after_tokens: Counted | None = None
    # The fault, and its position in tokens; half-way if absent.
    fault: StrictStr = NO_FAULT
    fault_after_tokens: Counted | None = None
    retry_after: StrictStr | None = None


class Section(Manner):
    """An endpoint: its limits, and the manner of its answers."""

    requests_per_minute: Counted | None = None
    tokens_per_minute: Counted | None = None
    # How much of a minute's allowance may be used at once.
    limit_window_s: Annotated[Number, Field(gt=0, le=PER_MINUTE_S)] = PER_MINUTE_S
    max_concurrency: Counted | None = None
    needs_key: StrictBool = False


class Rule(Manner):
    """A manner for the calls that meet all given conditions."""

    endpoint: StrictStr | None = None
    wire: WireName | None = None
    route: Route = Route.CHAT
    # A name or a pattern such as `sim-*`.
    model: StrictStr | None = None
    stream: StrictBool | None = None
    # Case-sensitive. Searched in the user's and the system's messages.
    contains: StrictStr | None = None
    # How many answers the conversation already contains.
    turns: Annotated[Numbers | None, BeforeValidator(parse_numbers)] = None
    # The number among identical calls: the first, a second try ...
    tries: Annotated[Numbers | None, BeforeValidator(parse_numbers)] = None
    probability: Annotated[Number, Field(ge=0, le=1)] = 1.0
    # The number among the calls that meet all other conditions.
    calls: Annotated[Numbers | None, BeforeValidator(parse_numbers)] = None


class Script(_Part):
    """A whole script."""

    seed: StrictInt = 0
    # Whether the log keeps the exact requests.
    keep_bodies: StrictBool = False
    models: dict[StrictStr, Facts] = Field(default_factory=dict)
    default: Section = Section()
    endpoints: dict[Annotated[StrictStr, Field(pattern=NAME)], Section] = Field(
        default_factory=dict
    )
    rules: tuple[Rule, ...] = ()
    # Planted points, and the models that carry them through their prompts, by name or pattern.
    world: WorldSettings | None = None
    agents: dict[StrictStr, Agent] = Field(default_factory=dict)

    def draw_world(self) -> World | None:
        """Draw the points of the world, if there is one."""
        if self.world is None:
            return None
        settings = self.world
        return draw_world(
            self.seed,
            points=settings.points,
            wrong=float(settings.wrong),
            lone=float(settings.lone),
            owners=max(1, len(self.agents)),
        )

    def find_agent(self, model: str) -> tuple[int, Agent] | None:
        """Find the agent that a model is, with its place: the first name or pattern that fits."""
        for place, (name, agent) in enumerate(self.agents.items()):
            if fnmatch.fnmatchcase(model, name):
                return place, agent
        return None

    def get_facts(self, model: str) -> Facts:
        """Find the facts about a model: by its name, by the first pattern, else the defaults."""
        if (facts := self.models.get(model)) is not None:
            return facts
        fitting = (self.models[name] for name in self.models if fnmatch.fnmatchcase(model, name))
        return next(fitting, Facts())

    def find_section(self, endpoint: str) -> Section | None:
        return self.default if endpoint == DEFAULT_ENDPOINT else self.endpoints.get(endpoint)

    @property
    def endpoint_names(self) -> list[str]:
        return [DEFAULT_ENDPOINT, *self.endpoints]

    @property
    def manners(self) -> Iterable[tuple[str, Manner]]:
        """List every place that sets a manner, with its description."""
        yield "default", self.default
        for name, section in self.endpoints.items():
            yield f"endpoints.{name}", section
        for number, rule in enumerate(self.rules, start=1):
            yield f"rules: {number}", rule


def merge_manners(manners: Iterable[Manner]) -> Manner:
    """Merge manners into one: for each key the first that sets it decides."""
    merged: dict[str, Any] = {}
    for manner in manners:
        for name in manner.model_fields_set & Manner.model_fields.keys():
            merged.setdefault(name, getattr(manner, name))
    return Manner.model_construct(**merged)


# -- loading --------------------------------------------------------------------------------------

_FORMS: dict[str, type[BaseModel]] = {
    "world": WorldSettings,
    "agents": Agent,
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
    if script.agents and script.world is None:
        yield "`agents`: they need a world. Add a section `[world]`."
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
    if not is_counted and facts.tokenizer not in VOCABULARIES:
        yield (
            f"`models.{name}`: `tokenizer`: {facts.tokenizer!r} is unknown. "
            f"Known: {', '.join(VOCABULARIES)}, and chars:N with N characters to a token."
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

    def read(manner: Manner) -> dict[str, str | None]:
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
