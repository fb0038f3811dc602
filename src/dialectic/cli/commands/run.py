"""`dialectic run`: one prompt in, a folder of documents out."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path

import click

from dialectic.app.quotes import QuotedRun
from dialectic.cli.backend import Backend, Wanted, open_backend
from dialectic.cli.display.quote import check_funds, is_wanted, show_quote
from dialectic.cli.display.results import prepare_out, telling_unstarted, work_and_follow
from dialectic.cli.input import read_prompt, read_resource
from dialectic.cli.options import name_command
from dialectic.cli.terminal import count, echo_json, load_settings, run_async, say
from dialectic.core.documents.file_locations import ResourceKind
from dialectic.core.models.model import parse_model_list
from dialectic.core.money.price import format_credits, parse_usd
from dialectic.core.process.definition import SHRINK_MAX, Process
from dialectic.core.process.reductions import shrink_process
from dialectic.core.run_request import (
    TOKENS_MAX,
    Given,
    RunRequest,
    check_name,
    check_prompt,
    check_run_request,
)
from dialectic.errors import ExitCode, FundsError
from dialectic.processes.loader import load_process
from dialectic.settings import Settings


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What the command line says."""

    prompt: str
    # What reading the prompt's file had to tell.
    notes: tuple[str, ...]
    models: str
    process: str
    domain: str
    name: str
    until: str
    lead: str
    pause: bool
    resource: tuple[str, ...]
    max_output_tokens: int | None
    no_continue: bool
    out: Path | None
    shrink: int
    budget: str | None
    dry_run: bool
    detach: bool
    as_json: bool
    yes: bool


@click.command()
@click.argument("prompt", required=False)
@click.option(
    "--file",
    "file",
    type=click.Path(path_type=Path),
    metavar="F",
    help="Read the prompt from a text, PDF or DOCX file.",
)
@click.option(
    "--models",
    default="",
    metavar="M,…",
    help="Models, comma separated; `name*3` asks one three times.",
)
@click.option(
    "--process",
    default="standard",
    show_default=True,
    metavar="P",
    help="A process by name or folder.",
)
@click.option(
    "--domain",
    default="General",
    show_default=True,
    metavar="D",
    help="The field the prompt is of.",
)
@click.option(
    "--name",
    default="",
    metavar="N",
    help="The project's name; by default the prompt's first words.",
)
@click.option(
    "--until",
    default="",
    metavar="STAGE",
    help="The last stage to run; by default the process's last.",
)
@click.option("--pause", is_flag=True, help="Wait for you after each stage; `next` goes on.")
@click.option(
    "--lead",
    default="",
    metavar="M",
    help="The model whose last documents count; else the first.",
)
@click.option(
    "--resource",
    multiple=True,
    metavar="KIND=FILE",
    help="Give the project a file that every prompt carries; repeatable. KIND is one of "
    f"{', '.join(kind.value for kind in ResourceKind)}.",
)
@click.option(
    "--max-output-tokens",
    type=click.IntRange(1, TOKENS_MAX),
    metavar="N",
    help="Cap on one answer's length.",
)
@click.option("--no-continue", is_flag=True, help="Leave an answer that is cut off as it is.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Copy documents here.",
)
@click.option(
    "--shrink",
    type=click.IntRange(0, SHRINK_MAX),
    default=0,
    metavar="N",
    help="Leave out the first N things that the process can do without.",
)
@click.option(
    "--budget", metavar="USD", help="The most the session may spend; it is never exceeded."
)
@click.option("--dry-run", is_flag=True, help="Say what it will cost and take, and do nothing.")
@click.option("--detach", is_flag=True, help="Start the work, print the session's id and leave.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per event on stdout.")
@click.option("--yes", is_flag=True, help="Answer yes to every question.")
def run(prompt: str | None, file: Path | None, **options: object) -> None:
    """Let several models argue about PROMPT (or `-` for standard input)."""
    settings = load_settings(knows_server=True)
    text, notes = read_prompt(prompt, file, bytes_max=settings.max_prompt_bytes)
    wish = RunOptions(prompt=text, notes=notes, **options)  # type: ignore[arg-type]
    sys.exit(run_async(_run(settings, wish)))


async def _run(settings: Settings, wish: RunOptions) -> ExitCode:
    # What can be wrong with the words is found before a server is started for them.
    _, notes = check_prompt(wish.prompt, bytes_max=settings.max_prompt_bytes)
    wish = replace(wish, notes=(*wish.notes, *notes))
    check_name(wish.name)
    resources = tuple(
        read_resource(given, bytes_max=settings.max_prompt_bytes) for given in wish.resource
    )
    if not settings.server:
        _check(wish, load_process(wish.process, own=settings.own_processes))
    if wish.models:
        parse_model_list(wish.models)
    if not wish.dry_run:
        prepare_out(wish.out, detach=wish.detach)
    async with open_backend(settings) as backend:
        process = _check(wish, await backend.load_process(wish.process))
        wanted = Wanted(
            ask=_build_ask(wish, process, resources),
            shrunk=wish.shrink,
            takes_defaults=not wish.models,
        )
        return await _begin(backend, wish, wanted)


def _check(wish: RunOptions, process: Process) -> Process:
    """Refuse what the process does not know; leave out of it what is not wished for."""
    smaller = shrink_process(process, wish.shrink)
    check_run_request(smaller, until=wish.until, domain=wish.domain)
    return smaller


def _build_ask(wish: RunOptions, process: Process, resources: tuple[Given, ...]) -> RunRequest:
    return RunRequest(
        prompt=wish.prompt,
        models=parse_model_list(wish.models) if wish.models else [],
        process=process,
        name=wish.name,
        domain=wish.domain,
        until=wish.until,
        lead=wish.lead,
        is_autopilot=not wish.pause,
        resources=resources,
        continue_until_complete=not wish.no_continue,
        max_output_tokens=wish.max_output_tokens,
        budget_credits=None if wish.budget is None else parse_usd(wish.budget),
    )


def _check_fit(wish: RunOptions, ask: RunRequest, quoted: QuotedRun) -> None:
    """Refuse what never fits its budget, whatever is left out; say so if that is only asked."""
    if quoted.fits or ask.budget_credits is None:
        return
    budget = format_credits(ask.budget_credits, is_play=quoted.quote.is_play_money)
    reason = (
        f"Even with all left out that process {ask.process.name!r} can do without, the run is "
        f"expected to cost more than the budget of {budget}."
    )
    if wish.dry_run:
        say(f"{reason} It is refused; with --yes it begins, and pauses when the budget is used.")
    elif not wish.yes:
        raise FundsError(
            f"{reason} --dry-run shows the figures; with --yes it begins, and pauses when the "
            "budget is used."
        )


def _fit(wanted: Wanted, quoted: QuotedRun) -> Wanted:
    """Name the models, and leave out of the process what the budget has no room for."""
    ask = wanted.ask
    process = shrink_process(ask.process, quoted.shrink - wanted.shrunk)
    return Wanted(
        ask=replace(ask, models=list(quoted.models), process=process), shrunk=quoted.shrink
    )


async def _begin(backend: Backend, wish: RunOptions, wanted: Wanted) -> ExitCode:
    """Say what it will cost and, if that is all right, begin."""
    quoted = await backend.quote(wanted, lists_smaller=wish.dry_run)
    _check_fit(wish, wanted.ask, quoted)
    _name_models(quoted)
    quote = quoted.quote
    for left_out in quoted.left_out:
        say(f"  left out: {left_out}")
    if wish.dry_run:
        show_quote(
            quote,
            quoted.smaller,
            budget_credits=wanted.ask.budget_credits,
            fits=quoted.fits,
            as_json=wish.as_json,
        )
        return ExitCode.DONE
    await check_funds(backend, quote)
    limit_usd = backend.settings.confirm_above_usd
    # Whoever names a budget has said what they are ready to spend.
    is_asked = not wish.yes and wanted.ask.budget_credits is None
    if is_asked and not await is_wanted(quote, confirm_above_usd=limit_usd):
        say("Nothing was started.")
        return ExitCode.FUNDS
    session_id = await backend.create(_fit(wanted, quoted))
    with telling_unstarted(session_id):
        await backend.generate(session_id)
    say(f"Session {session_id} ({count(len(quoted.models), 'model')})")
    for note in wish.notes:
        say(f"  prompt: {note}")
    if not wish.detach:
        return await work_and_follow(
            backend, session_id, as_json=wish.as_json, out=wish.out, quote=quote
        )
    if wish.as_json:
        echo_json({"session_id": session_id})
    else:
        click.echo(session_id)
    return ExitCode.DONE


def _name_models(quoted: QuotedRun) -> None:
    """Name models that nobody has named, before they cost anything."""
    if quoted.has_chosen_models:
        names = ", ".join(quoted.models)
        command = name_command("models list")
        say(f"Models: {names}. `{command}` shows which others there are.")
