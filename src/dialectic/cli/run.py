"""`dialectic run`: one prompt in, a folder of documents out."""

from __future__ import annotations

import itertools
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import click

from dialectic.cli.desk import Desk, Wanted, open_desk
from dialectic.cli.follow import Seen, follow_session
from dialectic.cli.funds import check_funds, describe_shortage
from dialectic.cli.given import read_prompt, read_resource
from dialectic.cli.progress import open_display
from dialectic.cli.quote import is_wanted, show_quote
from dialectic.cli.server_option import name_command
from dialectic.cli.terminal import count, load_settings, printable, run_async, say
from dialectic.domain.ask import TOKENS_MAX, Ask, Given, check_ask, check_name, check_prompt
from dialectic.domain.bundle import readme_path
from dialectic.domain.model import parse_model_list
from dialectic.domain.place import ResourceKind
from dialectic.domain.price import format_credits, parse_usd
from dialectic.domain.process import SHRINK_MAX, Process
from dialectic.domain.quote import Quote
from dialectic.domain.shrink import shrink_process
from dialectic.errors import ExitCode, FundsError, UsageError
from dialectic.process_files import load_process
from dialectic.quote import Quoted
from dialectic.sessions import Overview
from dialectic.settings import Settings


@dataclass(frozen=True, slots=True)
class Wish:
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
    wish = Wish(prompt=text, notes=notes, **options)  # type: ignore[arg-type]
    sys.exit(run_async(_run(settings, wish)))


async def _run(settings: Settings, wish: Wish) -> ExitCode:
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
    if wish.out is not None and not wish.dry_run:
        prepare_out(wish.out)
    async with open_desk(settings) as desk:
        process = _check(wish, await desk.load_process(wish.process))
        wanted = Wanted(
            ask=_build_ask(wish, process, resources),
            shrunk=wish.shrink,
            takes_defaults=not wish.models,
        )
        return await _begin(desk, wish, wanted)


def _check(wish: Wish, process: Process) -> Process:
    """Refuse what the process does not know; leave out of it what is not wished for."""
    smaller = shrink_process(process, wish.shrink)
    check_ask(smaller, until=wish.until, domain=wish.domain)
    return smaller


def _build_ask(wish: Wish, process: Process, resources: tuple[Given, ...]) -> Ask:
    return Ask(
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


def _check_fit(wish: Wish, ask: Ask, quoted: Quoted) -> None:
    """Refuse what never fits its budget, whatever is left out."""
    if quoted.fits or wish.yes or wish.dry_run or ask.budget_credits is None:
        return
    raise FundsError(
        f"Even with all left out that process {ask.process.name!r} can do without, the run is "
        f"expected to cost more than the budget of {format_credits(ask.budget_credits)}. "
        "--dry-run shows the figures; with --yes it begins, and pauses when the budget is used."
    )


def _fit(wanted: Wanted, quoted: Quoted) -> Wanted:
    """Name the models, and leave out of the process what the budget has no room for."""
    ask = wanted.ask
    process = shrink_process(ask.process, quoted.shrink - wanted.shrunk)
    return Wanted(
        ask=replace(ask, models=list(quoted.models), process=process), shrunk=quoted.shrink
    )


async def _begin(desk: Desk, wish: Wish, wanted: Wanted) -> ExitCode:
    """Say what it will cost and, if that is all right, begin."""
    quoted = await desk.quote(wanted, lists_smaller=wish.dry_run)
    _check_fit(wish, wanted.ask, quoted)
    _name_models(quoted)
    quote = quoted.quote
    for left_out in quoted.left_out:
        say(f"  left out: {left_out}")
    if wish.dry_run:
        show_quote(quote, quoted.smaller, as_json=wish.as_json)
        return ExitCode.DONE
    await check_funds(desk, quote)
    limit_usd = desk.settings.confirm_above_usd
    # Whoever names a budget has said what they are ready to spend.
    is_asked = not wish.yes and wanted.ask.budget_credits is None
    if is_asked and not await is_wanted(quote, confirm_above_usd=limit_usd):
        say("Nothing was started.")
        return ExitCode.FUNDS
    session_id = await desk.create(_fit(wanted, quoted))
    await desk.generate(session_id)
    say(f"Session {session_id} ({count(len(quoted.models), 'model')})")
    for note in wish.notes:
        say(f"  prompt: {note}")
    if wish.detach:
        click.echo(session_id)
        return ExitCode.DONE
    return await work_and_follow(desk, session_id, as_json=wish.as_json, out=wish.out, quote=quote)


def _name_models(quoted: Quoted) -> None:
    """Name models that nobody has named, before they cost anything."""
    if quoted.has_chosen_models:
        names = ", ".join(quoted.models)
        command = name_command("models list")
        say(f"Models: {names}. `{command}` shows which others there are.")


async def work_and_follow(
    desk: Desk,
    session_id: UUID,
    *,
    as_json: bool,
    out: Path | None,
    seen: Seen | None = None,
    quote: Quote | None = None,
) -> ExitCode:
    """Carry out jobs in this process until the session ends, showing what is new."""

    async def follow() -> ExitCode:
        with open_display(desk, as_json=as_json, quote=quote) as display:
            return await follow_session(desk, session_id, display, seen)

    async def conclude(code: ExitCode) -> ExitCode:
        overview = await desk.look(session_id)
        project_id, slug = overview.session["project_id"], overview.session["project_slug"]
        await desk.finish(project_id, session_id)
        if out is not None:
            await copy_out(desk, project_id, slug, out)
        if not as_json:
            known = seen.contributions if seen is not None else frozenset()
            _name_documents(desk, slug, overview, known, out)
        if code is ExitCode.DONE and not as_json:
            _say_where(desk, slug, session_id, out)
        if code is ExitCode.WAITING:
            say_what_next(overview.session)
        if code is ExitCode.FUNDS:
            say("\n".join(describe_shortage(overview)))
        if code is ExitCode.FAILED:
            command = name_command(f"status {str(session_id)[:8]}")
            say(f"Not everything succeeded: `{command}` says what.")
        return code

    code = await desk.attend(follow(), session_id=session_id, conclude=conclude)
    if code is ExitCode.INTERRUPTED:
        tell_left(desk, session_id)
    return code


def tell_left(desk: Desk, session_id: UUID) -> None:
    """Say what becomes of a session whose command was interrupted."""
    short = str(session_id)[:8]
    if desk.works_here:
        say(f"Interrupted. `{name_command(f'resume {short}')}` goes on.")
        return
    say(
        f"Left; the server goes on. `{name_command(f'watch {short}')}` follows it again, "
        f"`{name_command(f'pause {short}')}` holds it up."
    )


def _name_documents(
    desk: Desk, slug: str, overview: Overview, known: frozenset[UUID], out: Path | None
) -> None:
    """Name the finished documents that are new: whole paths for programs, a list for people."""
    rows = [
        row
        for row in overview.contributions
        if not row["is_intermediate"] and row["id"] not in known
    ]
    paths = [row["storage_path"] for row in rows]
    if not sys.stdout.isatty():
        for path in paths:
            click.echo(_locate(desk, path, out))
    elif paths:
        click.echo(printable(f"Documents in {_locate(desk, slug, out)}:"))
        click.echo(printable("\n".join(build_tree([p.removeprefix(f"{slug}/") for p in paths]))))


def build_tree(paths: list[str]) -> list[str]:
    """List paths as people read them: each folder once, its files below it."""
    lines: list[str] = []
    for folder, inside in itertools.groupby(paths, lambda path: path.rpartition("/")[0]):
        lines += [f"  {folder}/", *(f"    {path.rpartition('/')[2]}" for path in inside)]
    return lines


def _say_where(desk: Desk, slug: str, session_id: UUID, out: Path | None) -> None:
    if desk.works_here or out is not None:
        say(f"Begin with {_locate(desk, readme_path(slug), out)}, which leads to all of them.")
    else:
        command = name_command(f"export {str(session_id)[:8]}")
        say(f"They are kept at the server; `{command}` brings them here, and so does --out DIR.")


def say_what_next(session: dict[str, Any]) -> None:
    """Say how a session that waits for a person goes on."""
    stage, short = session["current_stage_slug"], str(session["id"])[:8]
    if session["status"] == "paused":
        say(f"Paused. `{name_command(f'resume {short}')}` goes on.")
        return
    say(f"Stage {stage} is complete and waits for you. Read, then say what you think of it:")
    say(f'  {name_command(f"feedback {short} {stage}")} "…"    (also: edit, rate)')
    say(f"  {name_command(f'next {short}')}    starts the next stage")


def _locate(desk: Desk, path: str, out: Path | None) -> str:
    if out is not None:
        return str(out / path)
    return desk.locate(path)


def prepare_out(out: Path) -> None:
    """Make sure that documents can be written to a folder, before anything is paid for them."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise UsageError(
            f"--out {out} cannot be written: {error.strerror}. Choose another folder."
        ) from None


async def copy_out(desk: Desk, project_id: UUID, slug: str, out: Path) -> None:
    """Copy a project's files below a folder, in the same layout."""
    for path in await desk.list_files(project_id, slug):
        data = await desk.read_file(project_id, path)
        target = out / path
        try:
            _put(target, data)
        except OSError as error:
            raise UsageError(
                f"{target} cannot be written: {error.strerror}. The documents are safe in "
                f"{desk.locate(slug)}."
            ) from None


def _put(target: Path, data: bytes) -> None:
    """Write a file whole or not at all: an interruption leaves no half of one under its name."""
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".draft-{uuid4().hex}")
    try:
        draft.write_bytes(data)
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)
