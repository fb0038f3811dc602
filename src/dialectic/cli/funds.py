"""What a run says of money before it begins, and when it stops for want of it."""

from __future__ import annotations

from collections.abc import Iterator

from dialectic.cli.desk import Desk
from dialectic.cli.follow import FUNDS_REASONS
from dialectic.cli.server_option import name_command, name_commands
from dialectic.cli.terminal import count, say
from dialectic.domain.job import JobStatus
from dialectic.domain.price import advise_top_up, format_credits, format_roughly
from dialectic.domain.quote import Quote
from dialectic.errors import FundsError
from dialectic.sessions import Overview


async def check_funds(desk: Desk, quote: Quote) -> None:
    """Refuse a run that costs money while there is none; say so if there is less than it needs."""
    expected = quote.only(is_play=False).figures.likely.credits
    if not expected:
        return
    wallet = await desk.load_wallet()
    available = wallet.available_credits
    if wallet.is_count_only or available >= expected:
        return
    price, there = format_roughly(expected), format_credits(available)
    if available <= 0:
        raise FundsError(
            f"This run is expected to cost {price}, and {there} is available. Nothing was started. "
            + advise_top_up(is_play=False)
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
    said = {job["status_reason"]: job["error_details"][-1]["message"] for job in waiting}
    yield from (f"  {name_commands(message)}" for message in said.values())
    if not all("dialectic resume" in message for message in said.values()):
        command = name_command(f"resume {str(overview.session['id'])[:8]}")
        yield f"Then `{command}` goes on."
