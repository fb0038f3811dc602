"""Shows a quote as a table, and asks for confirmation to spend.

Also prints the messages about money before a run and when it pauses for lack of it.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Iterator, Sequence
from uuid import UUID

import click

from dialectic.cli.backend import Backend
from dialectic.cli.display.session_end import FUNDS_REASONS, NEEDS_APPROVAL
from dialectic.cli.error_report import advise, mark
from dialectic.cli.options import name_command
from dialectic.cli.terminal import ask_yes, count, echo_lines, say
from dialectic.contract.base import read_credits
from dialectic.contract.quotes import ProcessPrice, RunQuote
from dialectic.contract.sessions import SessionDetail
from dialectic.core.job import JobStatus
from dialectic.core.money.price import (
    CREDITS_PER_USD,
    advise_top_up,
    format_credits,
    format_roughly,
)
from dialectic.core.money.quote import (
    Amount,
    AnswerLimit,
    Line,
    Quote,
    add_figures,
    list_steps,
)
from dialectic.errors import DialecticError, FundsError, Remedy, RemedyAction, UsageError

# With the longest shipped step name, the table is 80 columns wide.
_ROW = "{:>6}{:>12}{:>11}{:>13}{:>13}{:>11}"


def format_time(seconds: float) -> str:
    """Format a duration with no more precision than the estimate has."""
    if seconds <= 1:
        return "1 s"
    if seconds < 90:
        return f"{math.ceil(seconds)} s"
    minutes = math.ceil(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def show_quote(
    quoted: RunQuote,
    *,
    budget_credits: int | None = None,
    full_answers_only: bool = False,
    shows_max: bool = False,
    as_json: bool,
) -> None:
    """Print a quote and the optional parts: tables for people, one object for programs."""
    if as_json:
        click.echo(quoted.model_dump_json())
        return
    quote, smaller = quoted.work, quoted.smaller
    limits = describe_limits(quoted.answer_limits, full_answers_only=full_answers_only)
    lines = [*draw_quote(quote, budget_credits, shows_max=shows_max), *limits]
    if smaller:
        lines.append("\nWhat can be left out with --shrink N, each with all before it:")
    for one in smaller:
        calls = count(one.calls, "call")
        price = format_roughly(read_credits(one.expected), is_play=one.is_play)
        lines.append(f"  {one.shrink} {calls:>10} {price:>12}  {one.left_out}")
    lines += [f"\n{describe_other(one)}" for one in quoted.others]
    echo_lines(lines)


def describe_other(other: ProcessPrice) -> str:
    """Describe the same run with another process: its calls and its price."""
    price = format_roughly(read_credits(other.expected), is_play=other.is_play)
    return f"With --process {other.process}: {count(other.calls, 'call')} for about {price}."


def _format(quote: Quote, amount: Amount) -> str:
    """Format a price; it is play money only if nothing costs real money."""
    return format_roughly(amount.credits, is_play=quote.is_play_money)


def draw_quote(
    quote: Quote, budget_credits: int | None = None, *, shows_max: bool = False
) -> Iterator[str]:
    """Format a quote as a table per stage and step, followed by its assumptions.

    The bound is what 19 of 20 runs do not exceed; `shows_max` shows what no run can exceed.
    """
    yield f"Process {quote.process_name}, {count(len(quote.models), 'model')}: " + ", ".join(
        quote.models
    )
    yield ""
    bound = "worst case" if shows_max else "rarely above"
    head = _ROW.format("calls", "tokens in", "tokens out", "expected", bound, "time")
    rows = [("", head), *_list_rows(quote, shows_max=shows_max)]
    width = max(len(name) for name, _ in rows)
    yield from (f"{name:<{width}}  {figures}".rstrip() for name, figures in rows)
    yield ""
    if shows_max:
        yield from _draw_bounds(quote, budget_credits)
    else:
        yield from _describe_bound(quote, budget_credits)
    yield from _describe_further(quote)
    yield from _draw_notes(quote, shows_max=shows_max)


def _list_rows(quote: Quote, *, shows_max: bool) -> Iterator[tuple[str, str]]:
    draw = functools.partial(_draw_figures, quote, shows_max=shows_max)
    for slug, lines in quote.list_stages():
        yield slug, draw(lines, format_time(quote.durations[slug].expected_s))
        if len(steps := list_steps(lines)) > 1:
            for name, some in steps:
                yield f"  {name}", draw(some, "")
    yield "in all", draw(quote.lines, format_time(quote.duration.expected_s))


def _draw_figures(quote: Quote, lines: tuple[Line, ...], time: str, *, shows_max: bool) -> str:
    """Format a row: calls and tokens of all models, and the price of those with one."""
    figures = add_figures(lines)
    paid = add_figures(line for line in lines if line.is_play is quote.is_play_money)
    bound = paid.worst.credits if shows_max else quote.compute_bound(paid).credits
    return _ROW.format(
        f"{figures.planned_calls:,}",
        f"{figures.expected.input_tokens:,}",
        f"{figures.expected.output_tokens:,}",
        _format(quote, paid.expected),
        format_roughly(bound, is_play=quote.is_play_money),
        time,
    )


def _describe_bound(quote: Quote, budget_credits: int | None) -> Iterator[str]:
    """Say what the run rarely exceeds, and where the budget stops it."""
    bound = quote.compute_bound(quote.paid)
    price = format_roughly(bound.credits, is_play=quote.is_play_money)
    yield (
        f"It rarely costs more than {price}: with longer answers and "
        f"{count(bound.extra_calls, 'more call')},"
    )
    yield "to complete or repeat answers. --max shows what it can cost at most."
    if budget_credits is not None and budget_credits < quote.paid.ceiling.credits:
        budget = format_credits(budget_credits, is_play=quote.is_play_money)
        yield f"The budget stops it at {budget}."


def _draw_bounds(quote: Quote, budget_credits: int | None) -> Iterator[str]:
    """List the possible extra calls, which have a limit but no expected number."""
    figures, paid = quote.figures, quote.paid
    planned, turns, retries = figures.planned_calls, figures.continuations, figures.retries
    yield f"On top of {count(planned, 'planned call')}, only where it is needed:"
    for name, bound, price, among, reason in (
        ("continuations", turns, paid.continuations, planned, "unfinished answer"),
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


def _describe_further(quote: Quote) -> Iterator[str]:
    """Say how many further turns are expected because answers are longer than the cap."""
    if further := quote.figures.further.calls:
        verb = "is" if further == 1 else "are"
        yield (
            f"Expected {verb} {count(further, 'continuation')} for "
            f"{_format(quote, quote.paid.further)}: answers are longer than the cap."
        )


def _draw_notes(quote: Quote, *, shows_max: bool) -> Iterator[str]:
    duration = quote.duration
    longest = f", or {format_time(duration.worst_s)} if every answer is as long as it may be"
    yield (f"Time is an estimate: about {format_time(duration.expected_s)}{longest * shows_max}.")
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


def describe_forecast(spent_credits: int, whole_credits: int, *, is_play: bool) -> str:
    """Describe the cost so far and the expected total."""
    spent, whole = (
        format_roughly(amount, is_play=is_play) for amount in (spent_credits, whole_credits)
    )
    return f"{spent} so far, about {whole} in the end"


# -- may it? --------------------------------------------------------------------------------------


async def is_wanted(
    quote: Quote, *, confirm_above_usd: float, others: Sequence[ProcessPrice] = ()
) -> bool:
    """Ask the user to confirm the expected cost of a run; name a process that costs less.

    Play money and small amounts need no confirmation. Without a terminal, the run is rejected.
    """
    figures = quote.only(is_play=False).figures
    expected = figures.likely.credits
    if expected <= confirm_above_usd * CREDITS_PER_USD:
        return True
    cheaper = [one for one in others if read_credits(one.expected) < expected]
    hint = "".join(f" {describe_other(one)}" for one in cheaper)
    bound = format_roughly(quote.compute_bound(figures).credits)
    price = f"{format_roughly(expected)} (rarely above {bound})"
    if not sys.stdin.isatty():
        raise UsageError(
            f"This run is expected to cost {price}, and standard input is not a terminal, so it "
            "cannot ask. Add --yes to run it, --budget USD to limit it, or --dry-run to see the "
            f"details.{hint} "
            f"(DIALECTIC_CONFIRM_ABOVE_USD is {confirm_above_usd:g}.)",
            reason="unconfirmed",
            subject="--yes",
        )
    return await ask_yes(f"This run is expected to cost {price}.{hint} Go on? [y/N] ")


# These remedies resume the session themselves.
RESUMING = frozenset({RemedyAction.RESUME, RemedyAction.APPROVE_SPEND, RemedyAction.RAISE_BUDGET})


async def check_funds(backend: Backend, quote: Quote) -> None:
    """Reject a run if the wallet is empty; warn if it holds less than the run needs."""
    expected = quote.only(is_play=False).figures.likely.credits
    if not expected:
        return
    wallet = await backend.load_wallet()
    available = read_credits(wallet.money.available)
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


async def say_limits(backend: Backend, session_id: UUID) -> None:
    """Say before a session goes on how far the available money will limit its answers."""
    try:
        detail = await backend.look(session_id, quote=True)
    except DialecticError:
        return  # it cannot be quoted, for example without one of its models: its jobs will say why
    if detail.quote is not None:
        full_answers_only = detail.session.full_answers_only
        command = name_command(f"resume {str(session_id)[:8]} --full-answers")
        for line in describe_limits(
            detail.quote.answer_limits, full_answers_only=full_answers_only, how=f"`{command}`"
        ):
            say(line)


def describe_limits(
    answer_limits: Sequence[AnswerLimit],
    *,
    full_answers_only: bool,
    how: str = "With --full-answers it",
) -> Iterator[str]:
    """Say before a run how far the available money will limit each model's answers.

    `how` is the beginning of the sentence that tells how to get full answers.
    """
    by_model: dict[str, list[AnswerLimit]] = {}
    for one in answer_limits:
        by_model.setdefault(one.model_name, []).append(one)
    for name, limits in by_model.items():
        least = min(one.max_output_tokens for one in limits)
        most = max(one.limited_from_tokens for one in limits)
        if full_answers_only:
            yield (
                f"The available money does not cover full answers of {name} ({most:,} tokens) from "
                f"{limits[0].stage_slug} on: it will pause there."
            )
        else:
            yield (
                f"Answers of {name} will be limited to {least:,} of {most:,} tokens by the "
                f"available money, from {limits[0].stage_slug} on. {how} pauses instead."
            )


def describe_shortage(detail: SessionDetail) -> Iterator[str]:
    """Describe the money that a session waits for, and how to resume it."""
    waiting = [
        job
        for job in detail.jobs
        if job.status is JobStatus.PAUSED and job.status_reason in FUNDS_REASONS
    ]
    is_one = len(waiting) == 1
    what = f"{'waits' if is_one else 'wait'} for money"
    if all(job.status_reason == NEEDS_APPROVAL for job in waiting):
        what = f"{'needs' if is_one else 'need'} your approval"
    yield (
        f"Paused: {count(len(waiting), 'call')} {what}. Saved work will not be repeated or paid "
        "for again."
    )
    # One reason of each kind: calls with the same reason differ only in amounts.
    said = {job.status_reason: job.error_details[-1] for job in waiting}
    for entry in said.values():
        yield f"  {mark(entry.message, entry.code)}"
        if (advice := advise(entry.known_remedy)) is not None:
            yield f"  {advice}"
    command = name_command(f"resume {str(detail.session.id)[:8]}")
    remedies = [entry.known_remedy for entry in said.values()]
    if not all(remedy is not None and remedy.action in RESUMING for remedy in remedies):
        yield f"Then `{command}` continues."
    if detail.session.full_answers_only:
        yield f"Or `{command} --short-answers` continues with shorter answers."
