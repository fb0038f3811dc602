"""Counts what a followed session does and costs, and chooses how it is shown."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TypedDict
from uuid import UUID

from dialectic.cli.backend import Backend
from dialectic.cli.display.follow import Display, JsonDisplay, LineDisplay, QuietDisplay
from dialectic.cli.display.live_view import LiveDisplay, SessionView
from dialectic.cli.display.quote import describe_forecast
from dialectic.cli.terminal import count, say
from dialectic.contract.events import (
    ContributionReceived,
    Event,
    ReceivedContribution,
    SessionCancelled,
    StageEnded,
)
from dialectic.contract.sessions import SessionDetail, SessionRecord
from dialectic.core.money.price import OFFLINE_PROVIDER, format_credits, format_roughly
from dialectic.core.money.quote import Amount, LineKey, Quote, add_up, build_forecast
from dialectic.live_calls import LiveCall


@dataclass(slots=True)
class ProgressCounts:
    """Counts the documents, tokens and cost of a followed session; a quote adds a forecast.

    If any model costs real money, only that is shown; otherwise the cost is play money.
    """

    quote: Quote | None = None
    documents: dict[str, int] = field(default_factory=dict)
    done: dict[LineKey, Amount] = field(default_factory=dict)
    # The part that was paid in play money.
    played: set[LineKey] = field(default_factory=set)
    # The most that the whole session may spend.
    budget_credits: int | None = None
    # What the session has spent since it is followed: money, play money. It includes unfinished
    # documents and failed calls.
    spent: tuple[int, int] | None = None

    def add(self, backend: Backend, row: ReceivedContribution) -> None:
        """Count one contribution; an edit by a person has no tokens."""
        name = row.model_name
        self.documents[name] = self.documents.get(name, 0) + 1
        read, written = row.tokens_used_input or 0, row.tokens_used_output or 0
        rates = backend.find_rates(name)
        price = 0 if rates is None else rates.cost(read, written)
        key = (row.stage, row.contribution_type, row.model_index or 0)
        self.done[key] = self.done.get(key, Amount()) + Amount(1, read, written, price)
        if rates is not None and name.startswith(f"{OFFLINE_PROVIDER}/"):
            self.played.add(key)

    def describe(self) -> str:
        """Describe the counts in one line."""
        documents = count(sum(self.documents.values()), "document")
        done = add_up(self.done.values())
        return (
            f"{documents}, {done.input_tokens:,} tokens read, "
            f"{done.output_tokens:,} written, {self.describe_cost()}"
        )

    def describe_cost(self) -> str:
        """Describe the cost so far, against the forecast and the budget."""
        cost = self._describe_spent()
        if self.budget_credits is None:
            return cost
        return f"{cost}, budget {format_credits(self.budget_credits)}"

    def _describe_spent(self) -> str:
        is_all_play = self.done.keys() <= self.played
        if self.quote is not None:
            is_all_play = self.quote.is_play_money
        paid = {key: a for key, a in self.done.items() if (key in self.played) is is_all_play}
        spent = add_up(paid.values())
        if self.spent is not None:
            spent = replace(spent, credits=max(spent.credits, self.spent[is_all_play]))
        if self.quote is not None:
            rest = build_forecast(self.quote.only(is_play=is_all_play), paid).rest
            if rest.calls:
                whole = (spent + rest).credits
                return describe_forecast(spent.credits, whole, is_play=is_all_play)
        return format_roughly(spent.credits, is_play=is_all_play)


class Counting:
    """A display that also counts contributions, and knows what the session has really cost."""

    def __init__(
        self,
        backend: Backend,
        display: Display,
        quote: Quote | None,
        spent_before: tuple[int, int] = (0, 0),
    ) -> None:
        self.counters = ProgressCounts(quote)
        self._spent_before = spent_before
        self._desk, self._display = backend, display
        self._opened_s = time.monotonic()

    def show(self, event: Event) -> None:
        match event.data:
            case ContributionReceived(contribution=row):
                self.counters.add(self._desk, row)
            case StageEnded(status="complete"):
                pass
            case StageEnded() | SessionCancelled():
                self.finish()
            case _:
                pass
        self._display.show(event)

    def look(self, detail: SessionDetail) -> None:
        session, (money, play) = detail.session, self._spent_before
        self.counters.budget_credits = session.budget_credits
        self.counters.spent = (session.spent_credits - money, session.play_spent_credits - play)
        self._display.look(detail)

    def finish(self) -> None:
        """Forget the forecast: what it expected and did not come will not come."""
        self.counters.quote = None

    def describe_total(self) -> str:
        """Describe all that was done and what it took, in one line."""
        return f"{self.counters.describe()}, {time.monotonic() - self._opened_s:.1f} s."

    def say_total(self) -> None:
        """Say it, if anything was done."""
        if self.counters.documents:
            say(self.describe_total())


@contextmanager
def open_display(
    backend: Backend,
    session_id: UUID,
    *,
    as_json: bool,
    quiet: bool = False,
    quote: Quote | None = None,
    begun: SessionRecord | None = None,
) -> Iterator[Counting]:
    """Choose the display: JSON if requested, a live view on a terminal, else plain lines.

    Costs are counted from a state of the session on, or all of them.
    """
    spent = (0, 0) if begun is None else (begun.spent_credits, begun.play_spent_credits)
    if as_json:
        yield Counting(backend, JsonDisplay(), None)
    elif quiet:
        yield Counting(backend, QuietDisplay(), None)
    elif not sys.stderr.isatty():
        yield Counting(backend, LineDisplay(), quote, spent)
    else:
        view = SessionView(
            list_calls=lambda: backend.list_live_calls(session_id),
            durations=dict(quote.durations) if quote is not None else {},
        )
        live = LiveDisplay(view)
        counting = Counting(backend, live, quote, spent)
        view.describe_cost = counting.counters.describe_cost
        with live:
            yield counting


class Prices(TypedDict):
    """What a call in flight will cost in all, and what it has cost so far."""

    price: Callable[[LiveCall], int | None]
    price_so_far: Callable[[LiveCall], int | None]


def build_prices(backend: Backend, quote: Quote | None) -> Prices:
    """Build the prices of calls in flight; a quote knows how long their answers will be."""
    lines = {} if quote is None else {line.key: line.figures for line in quote.lines}

    def price_so_far(call: LiveCall) -> int | None:
        rates = backend.find_rates(call.model_name)
        if rates is None or call.model_name.startswith(f"{OFFLINE_PROVIDER}/"):
            return None
        return rates.cost(call.input_tokens, call.output_tokens)

    def price(call: LiveCall) -> int | None:
        so_far = price_so_far(call)
        figures = lines.get((call.stage_slug, call.output_type, call.seat))
        if so_far is None or figures is None or not figures.planned_calls:
            return so_far
        return max(so_far, figures.likely.credits // figures.planned_calls)

    return Prices(price=price, price_so_far=price_so_far)
