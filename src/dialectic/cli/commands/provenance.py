"""`dialectic trace, coverage, figures, strength`: what is derived from documents."""

from __future__ import annotations

from uuid import UUID

import click

from dialectic.cli.backend import Backend, with_backend
from dialectic.cli.terminal import echo_json, printable, say
from dialectic.contract.summaries import Kind
from dialectic.core.points import Status
from dialectic.core.suggestion import suggest
from dialectic.errors import ExitCode, UsageError


@click.command()
@click.argument("contribution")
@click.argument("text", required=False)
@click.option("--direct", is_flag=True, help="What its author read, not where it began.")
@click.option("--json", "as_json", is_flag=True, help="Everything as JSON.")
@with_backend
async def trace(
    backend: Backend, contribution: str, text: str | None, *, direct: bool, as_json: bool
) -> None:
    """Show the passages that say the same in what CONTRIBUTION was written from.

    With TEXT, only those passages of it that contain TEXT.
    """
    from dialectic.provenance.pages import count_relations, describe_passage

    record = await backend.load_contribution(await backend.get_id(Kind.CONTRIBUTION, contribution))
    found = await backend.trace(record.id, "direct" if direct else "origin")
    wanted = None if text is None else text.casefold()
    found.passages = [
        one
        for one in found.passages
        if wanted is None or wanted in record.content[one.start : one.end].casefold()
    ]
    if as_json:
        echo_json(found)
        return
    if wanted is not None and not found.passages:
        say(f"No passage of it contains {text!r}.")
    for passage in found.passages:
        for line in describe_passage(passage, record.content):
            click.echo(printable(line))
    counts = count_relations(found.passages)
    say(", ".join(f"{number} {relation.value}" for relation, number in counts.items() if number))
    if found.versions == "unknown":
        say("Which versions were read is not recorded, so the newest were compared.")


async def show_sources(backend: Backend, contribution_id: UUID, content: str) -> None:
    """Print a document with marks, and the passages that say the same below it."""
    from dialectic.provenance.pages import build_sourced_text

    found = await backend.trace(contribution_id, "origin")
    click.echo(printable(build_sourced_text(found, content)))


def _read_statuses(given: str | None) -> list[Status]:
    if given is None:
        return list(Status)
    statuses = []
    for name in given.split(","):
        try:
            statuses.append(Status(name.strip()))
        except ValueError:
            known = [status.value for status in Status]
            said = f"{name.strip()!r} is not a status. Known: {', '.join(known)}."
            raise UsageError(
                f"{said} {suggest(name.strip(), known)}".rstrip(),
                reason="unknown_status",
                subject="status",
            ) from None
    return statuses


@click.command()
@click.argument("session")
@click.option("--iteration", type=click.IntRange(min=1), help="The last one by default.")
@click.option("--of", metavar="ID", help="The document to judge by; by default the lead's last.")
@click.option("--status", metavar="NAMES", help="Only points with these statuses, by commas.")
@click.option("--strict", is_flag=True, help="Exit 1 if anything is dropped or unanswered.")
@click.option("--json", "as_json", is_flag=True, help="Everything as JSON.")
@with_backend
async def coverage(
    backend: Backend,
    session: str,
    *,
    iteration: int | None,
    of: str | None,
    status: str | None,
    strict: bool,
    as_json: bool,
) -> ExitCode:
    """Show what became of every point, objection and requirement of SESSION."""
    from dialectic.provenance.pages import build_coverage_page
    from dialectic.provenance.report import is_whole

    statuses = _read_statuses(status)
    session_id = await backend.get_id(Kind.SESSION, session)
    target = None if of is None else await backend.get_id(Kind.CONTRIBUTION, of)
    found = await backend.cover(session_id, iteration=iteration, of=target)
    is_good = is_whole(found)
    found.points = [one for one in found.points if one.status in statuses]
    if as_json:
        echo_json(found)
    else:
        click.echo(printable(build_coverage_page(found)))
    return ExitCode.FAILED if strict and not is_good else ExitCode.DONE


@click.command()
@click.argument("session")
@click.option("--iteration", type=click.IntRange(min=1), help="The last one by default.")
@click.option("--of", metavar="ID", help="The document; by default the lead's last.")
@click.option("--json", "as_json", is_flag=True, help="Everything as JSON.")
@with_backend
async def figures(
    backend: Backend, session: str, *, iteration: int | None, of: str | None, as_json: bool
) -> None:
    """Show the figures of the final document of SESSION, and which text has each first."""
    from dialectic.provenance.pages import describe_figures

    session_id = await backend.get_id(Kind.SESSION, session)
    target = None if of is None else await backend.get_id(Kind.CONTRIBUTION, of)
    found = await backend.list_figures(session_id, iteration=iteration, of=target)
    if as_json:
        echo_json(found)
        return
    for line in describe_figures(found.figures):
        click.echo(printable(line))
    say(f"{len(found.figures)} figures; no text that was given or argued has {found.made_up}.")


@click.command()
@click.argument("contribution")
@click.option("--json", "as_json", is_flag=True, help="Everything as JSON.")
@with_backend
async def strength(backend: Backend, contribution: str, *, as_json: bool) -> None:
    """Show what CONTRIBUTION rests on: who took part, what is missing, shortened or cut off."""
    from dialectic.provenance.pages import describe_strength

    found = await backend.weigh(await backend.get_id(Kind.CONTRIBUTION, contribution))
    if as_json:
        echo_json(found)
        return
    for line in describe_strength(found):
        click.echo(printable(line))
