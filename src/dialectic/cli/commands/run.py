"""`dialectic run`: one prompt in, a folder of documents out."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import UUID

import click

from dialectic.cli.aliases import expand, expand_model, load_aliases
from dialectic.cli.backend import Backend, get_id_to_change, open_backend
from dialectic.cli.browsers import show_page
from dialectic.cli.display.quote import check_funds, describe_limits, is_wanted, show_quote
from dialectic.cli.display.results import prepare_out, work_and_follow
from dialectic.cli.input import read_overlay, read_prompt, read_resource
from dialectic.cli.options import FollowOptions, follow_options, name_command, strict_option
from dialectic.cli.pausing import leaving_paused
from dialectic.cli.preflight import check_models
from dialectic.cli.setup import choose_process, require_models
from dialectic.cli.terminal import count, echo_json, has_person, load_settings, run_async, say
from dialectic.contract.projects import Kind
from dialectic.contract.quotes import RunQuote
from dialectic.contract.sessions import RunRequest
from dialectic.core.models.model import format_model_list, parse_model_list
from dialectic.core.money.price import format_credits, format_roughly, parse_usd
from dialectic.core.process.definition import SHRINK_MAX
from dialectic.core.run_request import TOKENS_MAX
from dialectic.core.suggestion import find_near
from dialectic.core.text import clean_text
from dialectic.errors import ExitCode, FundsError, UsageError
from dialectic.providers.catalog import build_catalog
from dialectic.settings import Settings

STANDARD = "standard"
# Options that are about the command, not about the session.
OWN_OPTIONS = ("out", "detach", "opens_page", "strict", "as_json")


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options that do not describe the run, and what was read from the others."""

    # Notes from reading and cleaning the prompt.
    notes: tuple[str, ...]
    budget_credits: int | None
    # An existing project, as the user named it.
    project: str | None
    out: Path | None
    dry_run: bool
    shows_max: bool
    detach: bool
    opens_page: bool
    strict: bool
    as_json: bool
    yes: bool
    # Whether neither an option nor a setting names the process.
    is_process_open: bool
    follow: FollowOptions
    preflight: bool

    @property
    def asks_process(self) -> bool:
        """Whether a person at a terminal is asked for the process of their runs."""
        is_silent = self.yes or self.dry_run or self.as_json
        return self.is_process_open and not is_silent and has_person()


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
    help="Models, comma separated; `name*3` takes one 3 times.",
)
@click.option(
    "--process",
    metavar="P",
    help="A process by name or folder; default: standard.",
)
@click.option(
    "--domain",
    metavar="D",
    help="The prompt's domain, in any letter case.",
)
@click.option(
    "--name",
    default="",
    metavar="N",
    help="The project's name; default: the first sentence.",
)
@click.option(
    "--project",
    metavar="P",
    help="Another session of this project; PROMPT adds to it.",
)
@click.option(
    "--until",
    metavar="STAGE",
    callback=lambda _context, _option, slug: slug and slug.lower(),
    help="The last stage to run, in any letter case.",
)
@click.option("--pause", is_flag=True, help="Wait for you after each stage; `next` continues.")
@click.option(
    "--pause-on-dissent", is_flag=True, help="Wait for you after a stage that left open dissent."
)
@click.option(
    "--lead",
    metavar="M",
    help="Whose last documents are final; default: the first.",
)
@click.option(
    "--resource",
    multiple=True,
    metavar="KIND=FILE",
    help="A file for every prompt; docs/cli.md has the KINDs.",
)
@click.option(
    "--overlay",
    default="",
    metavar="TEXT|FILE",
    help="What every prompt says too, as text or in a file.",
)
@click.option(
    "--max-output-tokens",
    type=click.IntRange(1, TOKENS_MAX),
    metavar="N",
    help="Maximum length of one response.",
)
@click.option("--no-continue", is_flag=True, help="Do not continue a truncated response.")
@click.option(
    "--full-answers",
    "full_answers_only",
    is_flag=True,
    help="Pause for money rather than accept shorter responses.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Copy documents here, and keep the copy current.",
)
@click.option(
    "--shrink",
    type=click.IntRange(0, SHRINK_MAX),
    default=0,
    metavar="N",
    help="Skip N parts that --dry-run lists.",
)
@click.option("--budget", metavar="USD", help="Spending limit of the session; never exceeded.")
@click.option("--dry-run", is_flag=True, help="Print the expected cost and time, and stop.")
@click.option(
    "--max", "shows_max", is_flag=True, help="As --dry-run, with the most that it can cost."
)
@click.option("--detach", is_flag=True, help="Start the session, print its id and exit.")
@click.option(
    "--open", "opens_page", is_flag=True, help="Show the session in your browser while it runs."
)
@strict_option
@follow_options
@click.option("--json", "as_json", is_flag=True, help="One JSON object per event on stdout.")
@click.option("--yes", is_flag=True, help="Answer yes to every question.")
@click.option("--no-preflight", is_flag=True, help="Do not ask each model a short question first.")
@click.option(
    "--wait-for-all", is_flag=True, help="Stop if a model fails, even if others could go on."
)
def run(
    prompt: str | None,
    file: Path | None,
    resource: tuple[str, ...],
    overlay: str,
    *,
    project: str | None,
    domain: str | None,
    process: str | None,
    pause: bool,
    no_continue: bool,
    dry_run: bool,
    shows_max: bool,
    yes: bool,
    no_preflight: bool,
    **options: Any,
) -> None:
    """Let several models argue about PROMPT (or a pipe's text) and write a plan."""
    settings = load_settings(knows_server=True)
    follow = FollowOptions.take(options)
    own = {name: options.pop(name) for name in OWN_OPTIONS}
    named = process or settings.default_process
    text, notes = _read_given(settings, prompt, file, is_needed=project is None)
    _refuse_project_options(project, domain, options["name"], overlay)
    request = _build_request(
        settings,
        prompt=text,
        domain=domain or "General",
        process=named or STANDARD,
        resources=resource,
        overlay=overlay,
        is_autopilot=not pause,
        continue_until_complete=not no_continue,
        approve_spend=yes,
        **options,
    )
    run_options = RunOptions(
        notes=(*notes, *clean_text(text)[1]),
        budget_credits=None if request.budget is None else parse_usd(request.budget),
        project=project,
        dry_run=dry_run or shows_max,
        shows_max=shows_max,
        yes=yes,
        is_process_open=not named,
        follow=follow,
        preflight=settings.preflight and not no_preflight,
        **own,
    )
    sys.exit(run_async(_run(*_prepare(settings, run_options, request), request)))


def _build_request(
    settings: Settings,
    *,
    models: str,
    resources: Sequence[str],
    overlay: str,
    lead: str | None,
    **options: Any,
) -> RunRequest:
    """Build the request. The backend checks it: over HTTP it has the same errors."""
    bytes_max = settings.max_prompt_bytes
    return RunRequest.model_construct(
        models=_parse_models(settings, models) if models else None,
        resources=[read_resource(one, bytes_max=bytes_max) for one in resources],
        overlay=read_overlay(overlay),
        lead=lead and expand_model(lead, settings.home),
        **options,
    )


def _prepare(
    settings: Settings, options: RunOptions, request: RunRequest
) -> tuple[Settings, RunOptions]:
    """Check the copy's folder and the choice of models, unless it is a dry run."""
    if not options.dry_run:
        prepare_out(options.out, detach=options.detach)
        if not request.models:
            known = settings.default_models
            settings = require_models(settings, yes=options.yes)
            if settings.default_models != known:
                # One question is enough for a first run; the next one asks for the process.
                options = replace(options, is_process_open=False)
    if sys.stderr.isatty() and not options.as_json and not options.follow.quiet:
        say("Preparing the run: process, models and cost.")  # the rest takes a moment to load
    return settings, options


def _read_given(
    settings: Settings, prompt: str | None, file: Path | None, *, is_needed: bool
) -> tuple[str, tuple[str, ...]]:
    """Read the prompt and the notes about it; a session of an existing project may have none."""
    if prompt is None and file is None:
        if not is_needed:
            return "", ()
        if not sys.stdin.isatty():
            prompt = "-"
    return read_prompt(prompt, file, bytes_max=settings.max_prompt_bytes)


def _parse_models(settings: Settings, text: str) -> list[str]:
    """Parse a list of models and aliases; for a name without its provider, suggest one."""
    aliases = load_aliases(settings.home)
    try:
        return parse_model_list(expand(text, aliases))
    except UsageError as error:
        slip = error.subject or ""
        near = [*filter(None, [find_near(slip, aliases)]), *build_catalog(settings).list_near(slip)]
        if error.reason != "not_a_name" or not near:
            raise
        raise UsageError(
            f"{error.subject!r} is not a model name. Did you mean `{near[0]}`?",
            reason=error.reason,
            subject=error.subject,
        ) from None


async def _run(settings: Settings, run_options: RunOptions, request: RunRequest) -> ExitCode:
    """Print the expected cost, check the models, ask for confirmation, and start."""
    async with open_backend(settings) as backend:
        if run_options.project is not None:
            project_id = await get_id_to_change(backend, Kind.PROJECT, run_options.project)
            request = _extend(project_id, request)
        quoted = await backend.quote(request, lists_smaller=run_options.dry_run)
        if run_options.asks_process and quoted.others:
            chosen = await choose_process(settings, quoted)
            if chosen != quoted.process:
                request = request.model_copy(update={"process": chosen})
                quoted = await backend.quote(request, lists_smaller=False)
        _check_fit(run_options, quoted)
        _name_models(quoted)
        for left_out in quoted.left_out:
            say(f"  left out: {left_out}")
        if run_options.dry_run:
            show_quote(
                quoted,
                budget_credits=run_options.budget_credits,
                full_answers_only=request.full_answers_only,
                shows_max=run_options.shows_max,
                as_json=run_options.as_json,
            )
            return ExitCode.DONE
        await check_funds(backend, quoted.work)
        checked = await _check_models(backend, run_options, request, quoted)
        if checked is None or not await _is_confirmed(settings, run_options, request, checked):
            say("Nothing was started.")
            return ExitCode.FUNDS
        quoted = checked
        lead = request.lead if request.lead in quoted.models else None
        fitted = {"models": quoted.models, "shrink": quoted.shrink, "lead": lead}
        return await _start(backend, run_options, request.model_copy(update=fitted), quoted)


async def _start(
    backend: Backend, run_options: RunOptions, request: RunRequest, quoted: RunQuote
) -> ExitCode:
    """Start the session and follow it, with its page open in a browser if that is wanted."""
    async with contextlib.AsyncExitStack() as stack:
        pages = None
        if run_options.opens_page:
            opened = backend.open_pages(may_start=not run_options.detach)
            pages = await stack.enter_async_context(opened)
        session_id = await backend.start(request)
        await stack.enter_async_context(leaving_paused(backend, session_id))
        say(f"Session {session_id} ({count(len(quoted.models), 'model')})")
        for note in run_options.notes:
            say(f"  prompt: {note}")
        if pages is not None:
            await show_page(f"{pages}/sessions/{session_id}")
        return await _follow(backend, run_options, session_id, quoted)


async def _check_models(
    backend: Backend, run_options: RunOptions, asked: RunRequest, quoted: RunQuote
) -> RunQuote | None:
    """See that each model answers; return the quote of the run with those that do.

    None if the person stops.
    """
    if not run_options.preflight:
        return quoted
    process = await backend.load_process(str(asked.process))
    seats_min = process.definition["file"]["seats_min"] or 1
    models = await check_models(backend, quoted.models, seats_min=seats_min)
    if models is None or models == quoted.models:
        return None if models is None else quoted
    lead = asked.lead if asked.lead in models else None
    changed = await backend.quote(
        asked.model_copy(update={"models": models, "lead": lead}), lists_smaller=False
    )
    _check_fit(run_options, changed)
    say(f"Models: {format_model_list(changed.models)}.")
    return changed


async def _is_confirmed(
    settings: Settings, run_options: RunOptions, request: RunRequest, quoted: RunQuote
) -> bool:
    """Say how money limits the run, and ask if it is expected to cost much."""
    full_answers_only = request.full_answers_only
    for line in describe_limits(quoted.answer_limits, full_answers_only=full_answers_only):
        say(line)
    # A given budget counts as consent to spend it.
    if run_options.yes or run_options.budget_credits is not None:
        return True
    return await is_wanted(
        quoted.work, confirm_above_usd=settings.confirm_above_usd, others=quoted.others
    )


def _extend(project_id: UUID, request: RunRequest) -> RunRequest:
    """Build the request for another session of a project: the prompt adds to the project's."""
    more = {"project_id": project_id, "prompt": "", "session_description": request.prompt.strip()}
    return request.model_copy(update=more)


def _refuse_project_options(
    project: str | None, domain: str | None, name: str, overlay: str
) -> None:
    """Reject options that an existing project has already."""
    for option, value in (("--domain", domain), ("--name", name), ("--overlay", overlay)):
        if project is not None and value:
            raise UsageError(
                f"{option} belongs to the project, which exists already. Omit it, or change the "
                "project.",
                reason="of_the_project",
                subject=option,
            )


async def _follow(
    backend: Backend, run_options: RunOptions, session_id: UUID, quoted: RunQuote
) -> ExitCode:
    """Work on the session; a detached one is only named."""
    as_json = run_options.as_json
    if not run_options.detach:
        return await work_and_follow(
            backend,
            session_id,
            as_json=as_json,
            out=run_options.out,
            quote=quoted.work,
            strict=run_options.strict,
            options=run_options.follow,
        )
    if as_json:
        echo_json({"session_id": session_id})
    else:
        click.echo(session_id)
    return ExitCode.DONE


def _check_fit(run_options: RunOptions, quoted: RunQuote) -> None:
    """Reject a run that cannot fit its budget; a dry run only reports it."""
    budget_credits = run_options.budget_credits
    if quoted.fits or budget_credits is None:
        return
    budget = format_credits(budget_credits, is_play=quoted.work.is_play_money)
    is_play = quoted.work.is_play_money
    smallest = format_roughly(quoted.work.paid.likely.credits, is_play=is_play)
    reason = (
        f"The smallest version of this run is expected to cost {smallest}; your budget is {budget}."
    )
    if run_options.dry_run:
        say(f"{reason} Without --yes it is rejected; with --yes it pauses at the budget.")
    elif not run_options.yes:
        raise FundsError(
            f"{reason} Use --dry-run to see the costs. With --yes it starts, and pauses when the "
            "budget is used."
        )


def _name_models(quoted: RunQuote) -> None:
    """Print the default models before they cost anything."""
    if quoted.has_chosen_models:
        names = format_model_list(quoted.models).replace(",", ", ")
        command = name_command("models list")
        say(f"Models: {names}. `{command}` lists all models.")
