"""`dialectic seat list, drop, replace`: the models of a session, one by one."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import click

from dialectic.cli.aliases import expand_model
from dialectic.cli.backend import Backend, with_backend
from dialectic.cli.commands.session_actions import begin_work, goes_on
from dialectic.cli.preflight import check_replacement
from dialectic.cli.terminal import echo_json, printable, say
from dialectic.contract.projects import Kind
from dialectic.errors import UsageError


@click.group()
def seat() -> None:
    """Show, drop or replace the models of a session."""


@seat.command(name="list")
@click.argument("session")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
@with_backend
async def list_(backend: Backend, session: str, *, as_json: bool) -> None:
    """List the seats of SESSION: number, model, angle."""
    found = await backend.list_seats(await backend.get_id(Kind.SESSION, session))
    if as_json:
        echo_json({"seats": [one.model_dump() for one in found]})
        return
    width = max(len(one.model) for one in found)
    for one in found:
        notes = [one.angle or "", "lead" if one.is_lead else "", "left" if one.has_left else ""]
        shown = ", ".join(note for note in notes if note)
        click.echo(printable(f"{one.seat:>2}  {one.model:<{width}}  {shown}".rstrip()))


@seat.command()
@goes_on
@click.argument("number", type=click.IntRange(min=1), metavar="N")
def drop(session: str, number: int, **options: Any) -> None:
    """Go on without seat N of SESSION; its finished documents are kept."""

    async def begin(backend: Backend, session_id: UUID) -> None:
        await backend.drop_seat(session_id, number)
        say(f"Session {session_id} goes on without seat {number}.")

    begin_work(begin, session, **options)


@seat.command()
@goes_on
@click.argument("number", type=click.IntRange(min=1), metavar="N")
@click.argument("model")
def replace(session: str, number: int, model: str, **options: Any) -> None:
    """Give seat N of SESSION another MODEL for its remaining work."""

    async def begin(backend: Backend, session_id: UUID) -> None:
        meant = await check_replacement(backend, expand_model(model, backend.settings.home))
        if meant is None:
            raise UsageError(
                f"Seat {number} keeps its model: the new one cannot be used.", reason="unusable"
            )
        await backend.replace_seat(session_id, number, meant)
        say(f"Seat {number} of session {session_id} is now {meant}.")

    begin_work(begin, session, **options)
