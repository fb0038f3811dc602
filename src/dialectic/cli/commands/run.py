"""`dialectic run`: one prompt in, a folder of documents out."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import click

from dialectic.cli.aliases import expand, expand_model, load_aliases
from dialectic.cli.backend import Backend, get_id_to_change, open_backend
from dialectic.cli.display.quote import check_funds, describe_limits, is_wanted, show_quote
from dialectic.cli.display.results import prepare_out, work_and_follow
from dialectic.cli.input import read_overlay, read_prompt, read_resource
from dialectic.cli.options import FollowOptions, follow_options, name_command, strict_option
from dialectic.cli.pausing import leaving_paused
from dialectic.cli.preflight import check_models
from dialectic.cli.setup import require_models
from dialectic.cli.terminal import count, echo_json, load_settings, run_async, say
from dialectic.contract.projects import Kind, ResourceRequest
from dialectic.contract.sessions import RunQuote, RunRequest
from dialectic.core.documents.file_paths import ResourceKind
from dialectic.core.models.model import format_model_list, parse_model_list
from dialectic.core.money.price import format_credits, format_roughly, parse_usd
from dialectic.core.process.definition import SHRINK_MAX
from dialectic.core.run_request import TOKENS_MAX
from dialectic.core.suggestion import find_near
from dialectic.core.text import clean_text
from dialectic.errors import ExitCode, FundsError, UsageError
from dialectic.providers.catalog import build_catalog
from dialectic.settings import Settings


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
    strict: bool
    as_json: bool
    yes: bool
    follow: FollowOptions
    preflight: bool


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
    default="standard",
    show_default=True,
    metavar="P",
    help="A process by name or folder.",
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
    models: str,
    resource: tuple[str, ...],
    overlay: str,
    out: Path | None,
    *,
    project: str | None,
    domain: str | None,
    pause: bool,
    no_continue: bool,
    dry_run: bool,
    shows_max: bool,
    detach: bool,
    strict: bool,
    as_json: bool,
    yes: bool,
    no_preflight: bool,
    **options: Any,
) -> None:
    """Let several models argue about PROMPT (or a pipe's text) and write a plan."""
    settings = load_settings(knows_server=True)
    if prompt is None and file is None and project is None and not sys.stdin.isatty():
        prompt = "-"
    follow = FollowOptions.take(options)
    text, notes = "", tuple[str, ...]()
    if project is None or prompt is not None or file is not None:
        text, notes = read_prompt(prompt, file, bytes_max=settings.max_prompt_bytes)
    _refuse_project_options(project, domain, options["name"], overlay)
    if options["lead"]:
        options["lead"] = expand_model(options["lead"], settings.home)
    # The backend checks it: the same request over HTTP has the same errors.
    request = RunRequest.model_construct(
        prompt=text,
        domain=domain or "General",
        models=_parse_models(settings, models) if models else None,
        resources=[read_resource(one, bytes_max=settings.max_prompt_bytes) for one in resource],
        overlay=read_overlay(overlay),
        is_autopilot=not pause,
        continue_until_complete=not no_continue,
        approve_spend=yes,
        **options,
    )
    run_options = RunOptions(
        notes=(*notes, *clean_text(text)[1]),
        budget_credits=None if request.budget is None else parse_usd(request.budget),
        project=project,
        out=out,
        dry_run=dry_run or shows_max,
        shows_max=shows_max,
        detach=detach,
        strict=strict,
        as_json=as_json,
        yes=yes,
        follow=follow,
        preflight=settings.preflight and not no_preflight,
    )
    if not run_options.dry_run:
        prepare_out(out, detach=detach)
        if not models:
            settings = require_models(settings, yes=yes)
    if sys.stderr.isatty() and not as_json and not follow.quiet:
        say("Preparing the run: process, models and cost.")  # the rest takes a moment to load
    sys.exit(run_async(_run(settings, run_options, request)))


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
        project_id, asked = None, request
        if run_options.project is not None:
            project_id = await get_id_to_change(backend, Kind.PROJECT, run_options.project)
            request, asked = await _extend(backend, project_id, request)
        quoted = await backend.quote(asked, lists_smaller=run_options.dry_run)
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
        await check_funds(backend, quoted.lines)
        checked = await _check_models(backend, run_options, asked, quoted)
        if checked is None or not await _is_confirmed(settings, run_options, request, checked):
            say("Nothing was started.")
            return ExitCode.FUNDS
        quoted = checked
        lead = request.lead if request.lead in quoted.models else None
        fitted = {"models": quoted.models, "shrink": quoted.shrink, "lead": lead}
        wanted = request.model_copy(update=fitted)
        if project_id is None:
            session_id = await backend.create(wanted)
        else:
            session_id = await backend.add_session(project_id, wanted)
        async with leaving_paused(backend, session_id):
            await backend.generate(session_id)
            say(f"Session {session_id} ({count(len(quoted.models), 'model')})")
            for note in run_options.notes:
                say(f"  prompt: {note}")
            return await _follow(backend, run_options, session_id, quoted)


async def _check_models(
    backend: Backend, run_options: RunOptions, asked: RunRequest, quoted: RunQuote
) -> RunQuote | None:
    """See that each model answers; return the quote of the run with those that do.

    None if the person stops.
    """
    if not run_options.preflight or not backend.is_local:
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
    return await is_wanted(quoted.lines, confirm_above_usd=settings.confirm_above_usd)


async def _extend(
    backend: Backend, project_id: UUID, request: RunRequest
) -> tuple[RunRequest, RunRequest]:
    """Build the request for another session of a project, and the one to quote for it."""
    project = await backend.load_project(project_id)
    kinds = {kind.value for kind in ResourceKind}
    listed = [one for one in await backend.list_resources(project_id) if one.kind in kinds]
    given = [
        ResourceRequest.model_construct(
            kind=ResourceKind(one.kind),
            name=Path(one.path).stem,
            text=(await backend.load_document(one.id)).content,
        )
        for one in listed
    ]
    shared = {"name": project.name, "domain": project.domain, "overlay": project.overlay}
    more = request.prompt.strip()
    wanted = request.model_copy(update={**shared, "session_description": more})
    prompt = "\n\n".join(filter(None, (project.prompt, more)))
    resources = [*given, *request.resources]
    return wanted, wanted.model_copy(update={"prompt": prompt, "resources": resources})


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
            quote=quoted.lines,
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
    budget = format_credits(budget_credits, is_play=quoted.lines.is_play_money)
    is_play = quoted.lines.is_play_money
    smallest = format_roughly(quoted.lines.paid.likely.credits, is_play=is_play)
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
