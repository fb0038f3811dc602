"""`dialectic run`: one prompt in, a folder of documents out."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import click

from dialectic.cli.backend import Backend, open_backend
from dialectic.cli.display.quote import check_funds, describe_limits, is_wanted, show_quote
from dialectic.cli.display.results import prepare_out, telling_unstarted, work_and_follow
from dialectic.cli.input import read_overlay, read_prompt, read_resource
from dialectic.cli.options import name_command, strict_option
from dialectic.cli.terminal import count, echo_json, load_settings, run_async, say
from dialectic.contract.sessions import RunQuote, RunRequest
from dialectic.core.documents.file_paths import ResourceKind
from dialectic.core.models.model import parse_model_list
from dialectic.core.money.price import format_credits, parse_usd
from dialectic.core.process.definition import SHRINK_MAX
from dialectic.core.run_request import TOKENS_MAX
from dialectic.core.text import clean_text
from dialectic.errors import ExitCode, FundsError
from dialectic.settings import Settings


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options that do not describe the run, and what was read from the others."""

    # Notes from reading and cleaning the prompt.
    notes: tuple[str, ...]
    budget_credits: int | None
    out: Path | None
    dry_run: bool
    detach: bool
    strict: bool
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
    metavar="STAGE",
    help="The last stage to run; by default the process's last.",
)
@click.option("--pause", is_flag=True, help="Wait for you after each stage; `next` continues.")
@click.option(
    "--lead",
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
    "--overlay",
    default="",
    metavar="TEXT|FILE",
    help="What every prompt says in addition, as text or in a file.",
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
    help="Leave out the first N optional parts of the process.",
)
@click.option("--budget", metavar="USD", help="Spending limit of the session; never exceeded.")
@click.option("--dry-run", is_flag=True, help="Print the expected cost and time, and stop.")
@click.option("--detach", is_flag=True, help="Start the session, print its id and exit.")
@strict_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object per event on stdout.")
@click.option("--yes", is_flag=True, help="Answer yes to every question.")
def run(
    prompt: str | None,
    file: Path | None,
    models: str,
    resource: tuple[str, ...],
    overlay: str,
    out: Path | None,
    *,
    pause: bool,
    no_continue: bool,
    dry_run: bool,
    detach: bool,
    strict: bool,
    as_json: bool,
    yes: bool,
    **options: Any,
) -> None:
    """Let several models argue about PROMPT (or `-` for standard input)."""
    settings = load_settings(knows_server=True)
    text, notes = read_prompt(prompt, file, bytes_max=settings.max_prompt_bytes)
    # The backend checks it: the same request over HTTP has the same errors.
    request = RunRequest.model_construct(
        prompt=text,
        models=parse_model_list(models) if models else None,
        resources=[read_resource(one, bytes_max=settings.max_prompt_bytes) for one in resource],
        overlay=read_overlay(overlay),
        is_autopilot=not pause,
        continue_until_complete=not no_continue,
        **options,
    )
    run_options = RunOptions(
        notes=(*notes, *clean_text(text)[1]),
        budget_credits=None if request.budget is None else parse_usd(request.budget),
        out=out,
        dry_run=dry_run,
        detach=detach,
        strict=strict,
        as_json=as_json,
        yes=yes,
    )
    if not dry_run:
        prepare_out(out, detach=detach)
    sys.exit(run_async(_run(settings, run_options, request)))


async def _run(settings: Settings, run_options: RunOptions, request: RunRequest) -> ExitCode:
    """Print the expected cost, ask for confirmation, and start."""
    budget_credits = run_options.budget_credits
    async with open_backend(settings) as backend:
        quoted = await backend.quote(request, lists_smaller=run_options.dry_run)
        _check_fit(run_options, quoted)
        _name_models(quoted)
        for left_out in quoted.left_out:
            say(f"  left out: {left_out}")
        if run_options.dry_run:
            show_quote(
                quoted,
                budget_credits=budget_credits,
                full_answers_only=request.full_answers_only,
                as_json=run_options.as_json,
            )
            return ExitCode.DONE
        await check_funds(backend, quoted.lines)
        full_answers_only = request.full_answers_only
        for line in describe_limits(quoted.answer_limits, full_answers_only=full_answers_only):
            say(line)
        # A given budget counts as consent to spend it.
        is_asked = not run_options.yes and budget_credits is None
        limit_usd = settings.confirm_above_usd
        if is_asked and not await is_wanted(quoted.lines, confirm_above_usd=limit_usd):
            say("Nothing was started.")
            return ExitCode.FUNDS
        fitted = {"models": quoted.models, "shrink": quoted.shrink}
        session_id = await backend.create(request.model_copy(update=fitted))
        with telling_unstarted(session_id):
            await backend.generate(session_id)
        say(f"Session {session_id} ({count(len(quoted.models), 'model')})")
        for note in run_options.notes:
            say(f"  prompt: {note}")
        return await _follow(backend, run_options, session_id, quoted)


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
    reason = (
        f"Even without the optional parts of process {quoted.lines.process_name!r}, the run is "
        f"expected to cost more than the budget of {budget}."
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
        names = ", ".join(quoted.models)
        command = name_command("models list")
        say(f"Models: {names}. `{command}` lists all models.")
