"""Show a quote as a table, and ask whether that much may be spent.

Also what a run says about money before it begins, and when it pauses for lack of it.
"""

from __future__ import annotations

import asyncio
import json
import math
import sys
from collections.abc import Iterator, Sequence

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
from dialectic.core.money.quote import Amount, Forecast, Line, Quote, add_figures, list_steps
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


def show_quote(
    quote: Quote,
    smaller: Sequence[CheaperRun],
    *,
    budget_credits: int | None = None,
    fits: bool = True,
    as_json: bool,
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
        more = {"shrink": rungs, "budget_credits": budget_credits, "fits": fits}
        click.echo(json.dumps(quote.as_dict() | more, ensure_ascii=False))
        return
    lines = [*draw_quote(quote, budget_credits)]
    if smaller:
        lines.append("\nWhat can be left out with --shrink N, each with all before it:")
    for one in smaller:
        calls = count(one.quote.planned_calls, "call")
        price = _format(one.quote, one.quote.paid.likely)
        lines.append(f"  {one.rungs} {calls:>10} {price:>12}  {one.left_out}")
    echo_lines(lines)


def _format(quote: Quote, amount: Amount) -> str:
    """Write a price of a quote in its money: play money only where nothing costs real money."""
    return format_roughly(amount.credits, is_play=quote.is_play_money)


def draw_quote(quote: Quote, budget_credits: int | None = None) -> Iterator[str]:
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
    yield from _draw_bounds(quote, budget_credits)
    yield from _draw_notes(quote)


def _list_rows(quote: Quote) -> Iterator[tuple[str, str]]:
    for slug, lines in quote.list_stages():
        yield slug, _draw_figures(quote, lines, format_time(quote.durations[slug].expected_s))
        if len(steps := list_steps(lines)) > 1:
            for name, some in steps:
                yield f"  {name}", _draw_figures(quote, some, "")
    yield "in all", _draw_figures(quote, quote.lines, format_time(quote.duration.expected_s))


def _draw_figures(quote: Quote, lines: tuple[Line, ...], time: str) -> str:
    """Draw a row: calls and tokens of all models, and the price of those that cost money."""
    figures = add_figures(lines)
    paid = add_figures(line for line in lines if line.is_play is quote.is_play_money)
    return _ROW.format(
        f"{figures.planned_calls:,}",
        f"{figures.expected.input_tokens:,}",
        f"{figures.expected.output_tokens:,}",
        _format(quote, paid.expected),
        _format(quote, paid.worst),
        time,
    )


def _draw_bounds(quote: Quote, budget_credits: int | None) -> Iterator[str]:
    """Draw what can come on top of the planned calls, which has a limit and no expectation."""
    figures, paid = quote.figures, quote.paid
    planned, turns, retries = figures.planned_calls, figures.continuations, figures.retries
    yield f"On top of {count(planned, 'planned call')}, only where it is needed:"
    for name, bound, price, among, reason in (
        ("continuations", turns, paid.continuations, planned, "cut-off answer"),
        ("retries", retries, paid.retries, planned + turns.calls, "failed call"),
    ):
        each = bound.calls // among if among else 0
        yield (
            f"  {name:<14}at most {bound.calls:>6,} calls {_format(quote, price):>13}   "
            f"{each} for each {reason}"
        )
    stop = ""
    if budget_credits is not None and budget_credits < paid.ceiling.credits:
        budget = format_credits(budget_credits, is_play=quote.is_play_money)
        stop = f", and the budget stops it at {budget}"
    yield f"With all of that it cannot cost more than {_format(quote, paid.ceiling)}{stop}."
    if further := figures.further.calls:
        verb = "is" if further == 1 else "are"
        yield (
            f"Expected {verb} {count(further, 'continuation')} for "
            f"{_format(quote, paid.further)}: answers are longer than the cap."
        )


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
        apart = f"; it is not in the prices above: {_format(played, played.paid.likely)}"
        yield (
            "Offline models cost play money, which is worth nothing"
            f"{'' if quote.is_play_money else apart}."
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

    Play money and small amounts are not asked about. Without a terminal, the run is refused.
    """
    figures = quote.only(is_play=False).figures
    expected = figures.likely.credits
    if expected <= confirm_above_usd * CREDITS_PER_USD:
        return True
    worst = format_roughly(max(figures.worst.credits, expected))
    price = f"{format_roughly(expected)} (worst case {worst})"
    if not sys.stdin.isatty():
        raise UsageError(
            f"This run is expected to cost {price}, and standard input is not a terminal, so it "
            "cannot ask. Say --yes to let it run, --budget USD to cap it, or --dry-run to see what "
            "it is made of. "
            f"(DIALECTIC_CONFIRM_ABOVE_USD is {confirm_above_usd:g}.)",
            reason="unconfirmed",
            subject="--yes",
        )
    return await _ask(f"This run is expected to cost {price}. Go on? [y/N] ")


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
