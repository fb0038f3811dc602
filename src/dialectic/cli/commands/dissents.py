"""`dialectic dissent, rule`: what the models do not agree on, and what you decide."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

import click

from dialectic.cli.backend import Backend, get_id_to_change, run_with_backend, with_backend
from dialectic.cli.input import read_text
from dialectic.cli.terminal import echo_json, printable, say
from dialectic.contract.summaries import Kind
from dialectic.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dialectic.contract.dissents import Dissent


@click.command()
@click.argument("session")
@click.option("--iteration", type=click.IntRange(min=1), help="The last one by default.")
@click.option("--all", "shows_all", is_flag=True, help="Also the lighter ones, beyond 50.")
@click.option("--json", "as_json", is_flag=True, help="Everything as JSON.")
@with_backend
async def dissent(
    backend: Backend, session: str, *, iteration: int | None, shows_all: bool, as_json: bool
) -> None:
    """Show what the models of SESSION do not agree on, the weightiest first."""
    from dialectic.provenance.dissent_page import build_dissent_page

    session_id = await backend.get_id(Kind.SESSION, session)
    found = await backend.list_dissents(session_id, iteration=iteration, shows_all=shows_all)
    if as_json:
        echo_json(found)
        return
    click.echo(printable(build_dissent_page(found)))
    if found.left_out:
        say(f"{found.left_out} lighter ones are not shown. Add --all to see them.")


@click.command()
@click.argument("session")
@click.argument("dissent_id", metavar="DISSENT")
@click.argument("text", required=False)
@click.option(
    "--file", type=click.Path(path_type=Path), help="Read the text from a file, `-` for stdin."
)
@click.option("--for", "position", metavar="POSITION", help="The position that holds.")
@click.option("--iteration", type=click.IntRange(min=1), help="The last one by default.")
@click.option("--withdraw", is_flag=True, help="Later prompts do not have the ruling.")
def rule(
    session: str,
    dissent_id: str,
    text: str | None,
    file: Path | None,
    position: str | None,
    *,
    iteration: int | None,
    withdraw: bool,
) -> None:
    """Decide DISSENT of SESSION: for a position, or by TEXT. Every later prompt has it."""
    has_words = text is not None or file is not None
    if withdraw == (has_words or position is not None):
        raise UsageError(
            "Say what holds: `--for POSITION`, a text, or `--withdraw` alone.",
            reason="no_ruling",
            subject="ruling",
        )
    said = read_text(text, file, what="ruling") if has_words else ""

    async def act(backend: Backend) -> ExitCode:
        session_id = await get_id_to_change(backend, Kind.SESSION, session)
        found = await _load(backend, session_id, iteration, dissent_id)
        if withdraw:
            await backend.withdraw_ruling(session_id, found.id)
            say("Withdrawn. Later prompts do not have it.")
            return ExitCode.DONE
        chosen = None
        if position is not None:
            chosen = choose((one.id for one in found.positions), position, "position")
        await backend.rule(session_id, found.id, chosen, said)
        say(f"Saved. Every prompt after stage {found.stage} has it until you withdraw it.")
        return ExitCode.DONE

    run_with_backend(act)


async def _load(backend: Backend, session_id: UUID, iteration: int | None, wanted: str) -> Dissent:
    found = await backend.list_dissents(session_id, iteration=iteration, shows_all=True)
    chosen = choose((one.id for one in found.dissents), wanted, "dissent")
    return next(one for one in found.dissents if one.id == chosen)


def choose(ids: Iterable[UUID], start: str, what: str) -> UUID:
    """Choose the one id that begins like this."""
    found = [one for one in ids if str(one).startswith(start.lower())]
    if len(found) != 1 or not start:
        count = "No" if not found else "More than one"
        raise UsageError(
            f"{count} {what} begins with {start!r}. `dialectic dissent` lists them.",
            reason=f"no_{what}",
            subject=what,
        )
    return found[0]
