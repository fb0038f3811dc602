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
from dialectic.core.documents.file_paths import ResourceKind
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
    """The options of the command line."""

    prompt: str
    # Notes from reading the prompt's file.
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
    help="Models, comma separated; `name*3` uses one three times.",
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
    help="The prompt's domain.",
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
@click.option("--pause", is_flag=True, help="Wait for you after each stage; `next` continues.")
@click.option(
    "--lead",
    default="",
    metavar="M",
    help="The model whose last documents are final; default: the first.",
)
@click.option(
    "--resource",
    multiple=True,
    metavar="KIND=FILE",
    help="Add a file that every prompt includes; repeatable. KIND is one of "
    f"{', '.join(kind.value for kind in ResourceKind)}.",
)
@click.option(
    "--max-output-tokens",
    type=click.IntRange(1, TOKENS_MAX),
    metavar="N",
    help="Maximum length of one response.",
)
@click.option("--no-continue", is_flag=True, help="Do not continue a truncated response.")
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
    help="Leave out the first N optional parts of the process.",
)
@click.option("--budget", metavar="USD", help="Spending limit of the session; never exceeded.")
@click.option("--dry-run", is_flag=True, help="Print the expected cost and time, and stop.")
@click.option("--detach", is_flag=True, help="Start the session, print its id and exit.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per event on stdout.")
@click.option("--yes", is_flag=True, help="Answer yes to every question.")
def run(prompt: str | None, file: Path | None, **options: object) -> None:
    """Let several models argue about PROMPT (or `-` for standard input)."""
    settings = load_settings(knows_server=True)
    text, notes = read_prompt(prompt, file, bytes_max=settings.max_prompt_bytes)
    run_options = RunOptions(prompt=text, notes=notes, **options)  # type: ignore[arg-type]
    sys.exit(run_async(_run(settings, run_options)))


async def _run(settings: Settings, run_options: RunOptions) -> ExitCode:
    # Check the options before starting a database server.
    _, notes = check_prompt(run_options.prompt, bytes_max=settings.max_prompt_bytes)
    run_options = replace(run_options, notes=(*run_options.notes, *notes))
    check_name(run_options.name)
    resources = tuple(
        read_resource(given, bytes_max=settings.max_prompt_bytes) for given in run_options.resource
    )
    if not settings.server:
        _check(run_options, load_process(run_options.process, own=settings.own_processes))
    if run_options.models:
        parse_model_list(run_options.models)
    if not run_options.dry_run:
        prepare_out(run_options.out, detach=run_options.detach)
    async with open_backend(settings) as backend:
        process = _check(run_options, await backend.load_process(run_options.process))
        wanted = Wanted(
            ask=_build_ask(run_options, process, resources),
            shrunk=run_options.shrink,
            takes_defaults=not run_options.models,
        )
        return await _begin(backend, run_options, wanted)


def _check(run_options: RunOptions, process: Process) -> Process:
    """Reject options that the process does not have; remove the parts left out."""
    smaller = shrink_process(process, run_options.shrink)
    check_run_request(smaller, until=run_options.until, domain=run_options.domain)
    return smaller


def _build_ask(
    run_options: RunOptions, process: Process, resources: tuple[Given, ...]
) -> RunRequest:
    return RunRequest(
        prompt=run_options.prompt,
        models=parse_model_list(run_options.models) if run_options.models else [],
        process=process,
        name=run_options.name,
        domain=run_options.domain,
        until=run_options.until,
        lead=run_options.lead,
        is_autopilot=not run_options.pause,
        resources=resources,
        continue_until_complete=not run_options.no_continue,
        max_output_tokens=run_options.max_output_tokens,
        budget_credits=None if run_options.budget is None else parse_usd(run_options.budget),
    )


def _check_fit(run_options: RunOptions, ask: RunRequest, quoted: QuotedRun) -> None:
    """Reject a run that cannot fit its budget; a dry run only reports it."""
    if quoted.fits or ask.budget_credits is None:
        return
    budget = format_credits(ask.budget_credits, is_play=quoted.quote.is_play_money)
    reason = (
        f"Even without the optional parts of process {ask.process.name!r}, the run is expected "
        f"to cost more than the budget of {budget}."
    )
    if run_options.dry_run:
        say(f"{reason} Without --yes it is rejected; with --yes it pauses at the budget.")
    elif not run_options.yes:
        raise FundsError(
            f"{reason} Use --dry-run to see the costs. With --yes it starts, and pauses when the "
            "budget is used."
        )


def _fit(wanted: Wanted, quoted: QuotedRun) -> Wanted:
    """Choose the models, and remove optional parts until the run fits the budget."""
    ask = wanted.ask
    process = shrink_process(ask.process, quoted.shrink - wanted.shrunk)
    return Wanted(
        ask=replace(ask, models=list(quoted.models), process=process), shrunk=quoted.shrink
    )


async def _begin(backend: Backend, run_options: RunOptions, wanted: Wanted) -> ExitCode:
    """Print the expected cost, ask for confirmation, and start."""
    quoted = await backend.quote(wanted, lists_smaller=run_options.dry_run)
    _check_fit(run_options, wanted.ask, quoted)
    _name_models(quoted)
    quote = quoted.quote
    for left_out in quoted.left_out:
        say(f"  left out: {left_out}")
    if run_options.dry_run:
        show_quote(
            quote,
            quoted.smaller,
            budget_credits=wanted.ask.budget_credits,
            fits=quoted.fits,
            as_json=run_options.as_json,
        )
        return ExitCode.DONE
    await check_funds(backend, quote)
    limit_usd = backend.settings.confirm_above_usd
    # A given budget counts as consent to spend it.
    is_asked = not run_options.yes and wanted.ask.budget_credits is None
    if is_asked and not await is_wanted(quote, confirm_above_usd=limit_usd):
        say("Nothing was started.")
        return ExitCode.FUNDS
    session_id = await backend.create(_fit(wanted, quoted))
    with telling_unstarted(session_id):
        await backend.generate(session_id)
    say(f"Session {session_id} ({count(len(quoted.models), 'model')})")
    for note in run_options.notes:
        say(f"  prompt: {note}")
    if not run_options.detach:
        return await work_and_follow(
            backend, session_id, as_json=run_options.as_json, out=run_options.out, quote=quote
        )
    if run_options.as_json:
        echo_json({"session_id": session_id})
    else:
        click.echo(session_id)
    return ExitCode.DONE


def _name_models(quoted: QuotedRun) -> None:
    """Print the default models before they cost anything."""
    if quoted.has_chosen_models:
        names = ", ".join(quoted.models)
        command = name_command("models list")
        say(f"Models: {names}. `{command}` lists all models.")
