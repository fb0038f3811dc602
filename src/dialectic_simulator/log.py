"""The log of calls: the requests, the responses and how they ended. Never holds a key.

Tests read it to compare what the provider saw with what the ledger recorded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from typing import Any

from dialectic.core.strict_json import JsonObject
from dialectic_simulator.script import Facts

CALLS_MAX = 100_000
MILLION = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedCall:
    """One call. Open until `ended_s` is set."""

    number: int = 0
    at_s: float
    endpoint: str
    wire: str
    route: str
    model: str = ""
    is_stream: bool = False
    has_key: bool = False
    # How many answers the conversation contained, and which of the equal calls this was.
    assistant_turns: int = 0
    try_number: int = 1
    max_tokens: int | None = None
    messages_hash: str = ""
    # The fault, if any; the status is None if no byte was sent.
    fault: str | None = None
    status: int | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    finish_reason: str | None = None
    client_closed: bool = False
    cost_usd: Decimal = Decimal(0)
    ended_s: float | None = None
    # The exact request, if the script asks for it.
    body: Mapping[str, Any] | None = None

    def as_json(self) -> JsonObject:
        return asdict(self) | {"cost_usd": str(self.cost_usd)}


class CallLog:
    """Calls in the order of arrival. Old calls are dropped beyond a large number."""

    def __init__(self) -> None:
        self._calls: dict[int, LoggedCall] = {}
        self._last = 0
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._calls)

    @property
    def calls(self) -> list[LoggedCall]:
        return list(self._calls.values())

    @property
    def open_calls(self) -> list[LoggedCall]:
        return [call for call in self._calls.values() if call.ended_s is None]

    def begin(self, call: LoggedCall) -> int:
        """Record a call as it arrives, and number it."""
        self._last += 1
        self._calls[self._last] = replace(call, number=self._last)
        if len(self._calls) > CALLS_MAX:
            del self._calls[next(iter(self._calls))]
        self._tell()
        return self._last

    def update(self, number: int, **changes: Any) -> None:
        """Record the end of a call; ignore a call that was cleared meanwhile."""
        if (call := self._calls.get(number)) is not None:
            self._calls[number] = replace(call, **changes)
            self._tell()

    def clear(self) -> None:
        self._calls.clear()
        self._tell()

    async def wait_until(self, is_so: Callable[[CallLog], bool]) -> None:
        """Wait until a condition is true of the log."""
        while not is_so(self):
            await self._changed.wait()

    def _tell(self) -> None:
        """Wake the tasks that wait for a change, and start a new wait."""
        self._changed.set()
        self._changed = asyncio.Event()


def price_call(facts: Facts, input_tokens: int, output_tokens: int) -> Decimal:
    """Price a call in dollars, exactly."""
    given = facts.input_usd_per_million * input_tokens
    made = facts.output_usd_per_million * output_tokens
    return (given + made) / MILLION


@dataclass(slots=True)
class Totals:
    """The sum of some calls: how many, how they ended, tokens, dollars."""

    calls: int = 0
    answered: int = 0
    refused: int = 0
    faults: int = 0
    closed_by_client: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: Decimal = Decimal(0)

    def add(self, call: LoggedCall) -> None:
        self.calls += 1
        self.answered += call.status == 200 and call.finish_reason is not None
        self.refused += call.status is not None and call.status != 200
        self.faults += call.fault is not None
        self.closed_by_client += call.client_closed
        self.input_tokens += call.input_tokens if call.status == 200 else 0
        self.output_tokens += call.output_tokens
        self.cost_usd += call.cost_usd

    def as_json(self) -> JsonObject:
        return asdict(self) | {"cost_usd": str(self.cost_usd)}


@dataclass(frozen=True, slots=True)
class Report:
    """The totals by model, and of all models."""

    models: dict[str, Totals]
    total: Totals

    def as_json(self) -> JsonObject:
        models = {name: row.as_json() for name, row in self.models.items()}
        return {"models": models, "total": self.total.as_json()}


def build_report(calls: Iterable[LoggedCall]) -> Report:
    """Sum up calls by model."""
    models: dict[str, Totals] = {}
    total = Totals()
    for call in calls:
        models.setdefault(call.model, Totals()).add(call)
        total.add(call)
    return Report(dict(sorted(models.items())), total)
