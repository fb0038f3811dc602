"""The format of a script: which calls are answered how. Knows no files and runs nothing.

A script is data, written in TOML: facts about models, one section for each endpoint, and rules.
For every key of a call's manner, the first matching rule that sets it decides, then the section of
its endpoint, then the default.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
)

from dialectic_simulator.conversation import Route, WireName
from dialectic_simulator.faults import NO_FAULT

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
