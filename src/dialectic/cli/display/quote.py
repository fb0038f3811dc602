"""A quote as a table, and the question whether that much may be spent.

What a run says of money before it begins, and when it stops for want of it.
"""

from __future__ import annotations

import asyncio
import json
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import click

from dialectic.app.quotes import CheaperRun
from dialectic.app.sessions import Overview
from dialectic.cli.backend import Backend
from dialectic.cli.display.follow import FUNDS_REASONS
from dialectic.cli.error_report import advise_stored, mark
from dialectic.cli.options import name_command
from dialectic.cli.terminal import count, echo_lines, printable, say
from dialectic.core.job import JobStatus
from dialectic.core.money.price import (
    CREDITS_PER_USD,
    advise_top_up,
    format_credits,
    format_roughly,
)
from dialectic.core.money.quote import (
    Amount,
    Duration,
    Figures,
    Forecast,
    Line,
    Quote,
    add_figures,
    list_steps,
)
from dialectic.errors import FundsError, Remedy, RemedyAction, UsageError, read_remedy

# With the longest name of a step that is shipped, as wide as a terminal is at least.
_ROW = "{:>6}{:>12}{:>11}{:>13}{:>13}{:>11}"


def format_time(seconds: float) -> str:
    """Write a time as people say it, not more exactly than it is known."""
    if seconds <= 1:
        return "1 s"
    if seconds < 90:
        return f"{math.ceil(seconds)} s"
    minutes = math.ceil(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


@dataclass(frozen=True, slots=True)
class Budget:
    """The most a run may spend of each kind of money, if there is a limit, and whether it fits."""

    credits: int | None = None
    fits: bool = True


NO_BUDGET = Budget()


def show_quote(
    quote: Quote, smaller: Sequence[CheaperRun], *, budget: Budget = NO_BUDGET, as_json: bool
) -> None:
    """Print a quote and what could be left out: tables for people, one object for programs."""
    if as_json:
        rungs = [
            {
                "rungs": one.rungs,
                "left_out": one.left_out,
                **one.quote.figures.as_dict(),
                "money": one.quote.money(),
            }
            for one in smaller
        ]
        told = {"shrink": rungs, "budget_credits": budget.credits, "fits": budget.fits}
        click.echo(json.dumps(quote.as_dict() | told, ensure_ascii=False))
        return
    echo_lines([*draw_quote(quote, budget), *_draw_smaller(smaller)])


def _draw_smaller(smaller: Sequence[CheaperRun]) -> Iterator[str]:
    if smaller:
        yield "\nWhat can be left out with --shrink N, each with all before it:"
    for one in smaller:
        is_play = not has_money(one.quote)
        price = one.quote.only(is_play=is_play).figures.likely.credits
        calls = count(one.quote.planned_calls, "call")
        shown = format_roughly(price, is_play=is_play)
        yield f"  {one.rungs} {calls:>10} {shown:>12}  {one.left_out}"


def draw_quote(quote: Quote, budget: Budget = NO_BUDGET) -> Iterator[str]:
    """Draw a quote as a table per stage and step, with what it rests on below."""
    yield f"Process {quote.process_name}, {count(len(quote.models), 'model')}: " + ", ".join(
        quote.models
    )
    yield ""
    head = _ROW.format("calls", "tokens in", "tokens out", "expected", "worst case", "time")
    rows = [("", head), *_list_rows(quote)]
    width = max(len(name) for name, _ in rows)
    yield from (f"{name:<{width}}  {figures}".rstrip() for name, figures in rows)
    yield ""
    yield from _draw_bounds(quote, budget)
    yield from _draw_notes(quote)


def _list_rows(quote: Quote) -> Iterator[tuple[str, str]]:
    for slug, lines in quote.list_stages():
        yield slug, _draw_figures(quote, lines, quote.durations[slug])
        steps = list(list_steps(lines))
        if len(steps) > 1:
            for name, some in steps:
                yield f"  {name}", _draw_figures(quote, some, None)
    yield "in all", _draw_figures(quote, quote.lines, quote.duration)


def has_money(quote: Quote) -> bool:
    """Say whether any of it is paid in money."""
    return any(not line.is_play for line in quote.lines)


def _draw_figures(quote: Quote, lines: tuple[Line, ...], duration: Duration | None) -> str:
    """Draw a row: calls and tokens of all models, and the price of those that cost money."""
    figures = add_figures(lines)
    is_play = not has_money(quote)
    paid = add_figures(line for line in lines if line.is_play is is_play)
    return _ROW.format(
        f"{figures.planned_calls:,}",
        f"{figures.expected.input_tokens:,}",
        f"{figures.expected.output_tokens:,}",
        format_roughly(paid.expected.credits, is_play=is_play),
        format_roughly(paid.worst.credits, is_play=is_play),
        format_time(duration.expected_s) if duration else "",
    )


def _draw_bounds(quote: Quote, budget: Budget) -> Iterator[str]:
    """Draw what can come on top of the planned calls, which has a limit and no expectation."""
    is_play = not has_money(quote)
    figures, paid = quote.figures, quote.only(is_play=is_play).figures
    planned = figures.planned_calls
    yield f"On top of {count(planned, 'planned call')}, only where it is needed:"
    yield _draw_bound(
        "continuations",
        figures.continuations,
        format_roughly(paid.continuations.credits, is_play=is_play),
        f"{_divide(figures.continuations.calls, planned)} for each cut-off answer",
    )
    yield _draw_bound(
        "retries",
        figures.retries,
        format_roughly(paid.retries.credits, is_play=is_play),
        f"{_divide(figures.retries.calls, planned + figures.continuations.calls)} "
        "for each failed call",
    )
    ceiling = format_roughly(paid.ceiling.credits, is_play=is_play)
    stop = ""
    if budget.credits is not None and budget.credits < paid.ceiling.credits:
        stop = f", and the budget stops it at {format_credits(budget.credits, is_play=is_play)}"
    yield f"With all of that it cannot cost more than {ceiling}{stop}."
    if figures.further.calls:
        price = format_roughly(paid.further.credits, is_play=is_play)
        verb = "is" if figures.further.calls == 1 else "are"
        yield (
            f"Expected {verb} {count(figures.further.calls, 'continuation')} for {price}: answers "
            "are longer than the cap."
        )


def _draw_bound(name: str, bound: Amount, price: str, reason: str) -> str:
    return f"  {name:<14}at most {bound.calls:>6,} calls {price:>13}   {reason}"


def _divide(calls: int, among: int) -> int:
    return calls // among if among else 0


def _draw_notes(quote: Quote) -> Iterator[str]:
    duration = quote.duration
    yield (
        f"Time is an estimate: about {format_time(duration.expected_s)}, or "
        f"{format_time(duration.worst_s)} if every answer is as long as it may be."
    )
    known = quote.documents_here + quote.documents_earlier
    yield (
        f"Lengths are learned from {count(known, 'document')}: {quote.documents_here:,} of this "
        f"session, {quote.documents_earlier:,} of earlier ones."
        if known
        else "Lengths are those that the process expects; nothing was written with it yet."
    )
    played = quote.only(is_play=True)
    if played.lines:
        apart = format_roughly(played.figures.likely.credits, is_play=True)
        yield "Offline models cost play money, which is worth nothing" + (
            f"; it is not in the prices above: {apart}." if has_money(quote) else "."
        )
    for line in quote.lines:
        if line.too_long:
            yield (
                f"Too long: {count(line.too_long, 'prompt')} of {line.step_name} will not fit the "
                f"window of {line.model_name}, and will be shortened to it."
            )


def describe_forecast(forecast: Forecast, *, is_play: bool) -> str:
    """Say what was paid so far, and what it will be in the end."""
    spent, whole = (
        format_roughly(amount.credits, is_play=is_play)
        for amount in (forecast.spent, forecast.whole)
    )
    return f"{spent} so far, about {whole} in the end"


# -- may it? --------------------------------------------------------------------------------------


async def is_wanted(quote: Quote, *, confirm_above_usd: float) -> bool:
    """Ask the person at the terminal whether a run may cost what it is expected to.

    Play money and small change are not asked about. Where nobody can be asked, it is refused.
    """
    figures = quote.only(is_play=False).figures
    if figures.likely.credits <= confirm_above_usd * CREDITS_PER_USD:
        return True
    price = _describe_price(figures)
    if not sys.stdin.isatty():
        raise UsageError(
            f"This run is expected to cost {price}, and nobody is there to be asked. Say --yes to "
            "let it run, --budget USD to cap it, or --dry-run to see what it is made of. "
            f"(DIALECTIC_CONFIRM_ABOVE_USD is {confirm_above_usd:g}.)",
            reason="unconfirmed",
            subject="--yes",
        )
    return await _ask(f"This run is expected to cost {price}. Go on? [y/N] ")


def _describe_price(figures: Figures) -> str:
    expected = format_roughly(figures.likely.credits, is_play=False)
    worst = max(figures.worst.credits, figures.likely.credits)
    return f"{expected} (worst case {format_roughly(worst, is_play=False)})"


async def _ask(question: str) -> bool:
    """Wait for a line from the terminal in such a way that ^C still ends the command."""
    click.echo(printable(question), err=True, nl=False)
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[str] = loop.create_future()

    def read() -> None:
        loop.remove_reader(sys.stdin.fileno())
        if not answer.done():
            answer.set_result(sys.stdin.readline())

    loop.add_reader(sys.stdin.fileno(), read)
    try:
        return (await answer).strip().lower() in ("y", "yes")
    finally:
        loop.remove_reader(sys.stdin.fileno())


# These resume a session themselves.
RESUMING = frozenset({RemedyAction.RESUME, RemedyAction.APPROVE_SPEND, RemedyAction.RAISE_BUDGET})


async def check_funds(backend: Backend, quote: Quote) -> None:
    """Refuse a run that costs money while there is none; say so if there is less than it needs."""
    expected = quote.only(is_play=False).figures.likely.credits
    if not expected:
        return
    wallet = await backend.load_wallet()
    available = wallet.available_credits
    if wallet.is_count_only or available >= expected:
        return
    price, there = format_roughly(expected), format_credits(available)
    if available <= 0:
        raise FundsError(
            f"This run is expected to cost {price}, and {there} is available. Nothing was started. "
            + advise_top_up(is_play=False),
            reason="wallet",
            remedy=Remedy(RemedyAction.TOP_UP, is_play=False),
        )
    say(
        f"This run is expected to cost {price}, and {there} is available: it will pause when that "
        "is used up."
    )


def describe_shortage(overview: Overview) -> Iterator[str]:
    """Say for which money a session waits, and how it goes on."""
    waiting = [
        job
        for job in overview.jobs
        if job["status"] == JobStatus.PAUSED and job["status_reason"] in FUNDS_REASONS
    ]
    verb = "waits" if len(waiting) == 1 else "wait"
    yield (
        f"Paused: {count(len(waiting), 'call')} {verb} for money. Nothing that is saved will be "
        "called or paid for again."
    )
    # One reason of each kind: calls that wait alike differ in their figures alone.
    said = {job["status_reason"]: job["error_details"][-1] for job in waiting}
    for entry in said.values():
        yield f"  {mark(entry['message'], entry['code'])}"
        if (advice := advise_stored(entry)) is not None:
            yield f"  {advice}"
    remedies = [read_remedy(entry.get("remedy")) for entry in said.values()]
    if not all(remedy is not None and remedy.action in RESUMING for remedy in remedies):
        command = name_command(f"resume {str(overview.session['id'])[:8]}")
        yield f"Then `{command}` goes on."
