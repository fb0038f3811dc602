"""`dialectic run`: one prompt in, a folder of documents out."""

from __future__ import annotations

import codecs
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO
from uuid import UUID, uuid4

import click

from dialectic import bundle, sessions
from dialectic.cli.follow import Seen, follow_session
from dialectic.cli.progress import open_display
from dialectic.cli.terminal import Desk, count, load_settings, open_desk, run_async, say
from dialectic.domain.bundle import readme_path, settings_path
from dialectic.domain.model import parse_model_list
from dialectic.domain.place import ResourceKind
from dialectic.errors import ExitCode, UsageError
from dialectic.process_files import load_process
from dialectic.providers.catalog import choose_default_models
from dialectic.publish import require_published
from dialectic.settings import Settings
from dialectic.store.database import Connection
from dialectic.store.records import SQL

# The longest text that is not a prompt; that one has a setting.
TEXT_BYTES_MAX = 10_000_000


@dataclass(frozen=True, slots=True)
class Wish:
    """What the command line says."""

    prompt: str
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
    detach: bool
    as_json: bool


@click.command()
@click.argument("prompt", required=False)
@click.option(
    "--file", "file", type=click.Path(path_type=Path), help="Read the prompt from a file."
)
@click.option(
    "--models", default="", help="Models, comma separated; `name*3` asks one three times."
)
@click.option(
    "--process", default="standard", show_default=True, help="A process by name or folder."
)
@click.option("--domain", default="General", show_default=True, help="The field the prompt is of.")
@click.option("--name", default="", help="The project's name; by default the prompt's first words.")
@click.option("--until", default="", help="The last stage to run; by default the process's last.")
@click.option("--pause", is_flag=True, help="Wait for you after each stage; `next` goes on.")
@click.option("--lead", default="", help="The model whose last documents count; else the first.")
@click.option(
    "--resource", multiple=True, metavar="KIND=FILE", help="Give the project a text; repeatable."
)
@click.option(
    "--max-output-tokens",
    type=click.IntRange(1, sessions.TOKENS_MAX),
    help="Cap on one answer's length.",
)
@click.option("--no-continue", is_flag=True, help="Leave an answer that is cut off as it is.")
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), help="Copy documents here."
)
@click.option("--detach", is_flag=True, help="Start the work, print the session's id and leave.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per event on stdout.")
@click.option("--yes", is_flag=True, help="Answer yes to every question.")
def run(prompt: str | None, file: Path | None, *, yes: bool, **options: object) -> None:
    """Let several models argue about PROMPT (or `-` for standard input)."""
    del yes  # nothing is asked yet
    settings = load_settings()
    text = read_text(prompt, file, what="prompt", bytes_max=settings.max_prompt_bytes)
    sys.exit(run_async(_run(settings, Wish(prompt=text, **options))))  # type: ignore[arg-type]


def read_text(
    text: str | None, file: Path | None, *, what: str, bytes_max: int = TEXT_BYTES_MAX
) -> str:
    """Read a text from an argument, a file or standard input; exactly one must be named."""
    if (text is None) == (file is None):
        raise UsageError(f"Give the {what} either as an argument, or as `-`, or with --file.")
    try:
        if file is not None and str(file) != "-":
            with file.open("rb") as opened:
                return _read_some(opened, f"{what} in {file}", bytes_max).decode("utf-8-sig")
        if file is not None or text == "-":
            source = f"{what} on standard input"
            return _read_some(sys.stdin.buffer, source, bytes_max).decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"The {what} file {file} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        raise UsageError(
            f"The {what} in {file or 'standard input'} is not UTF-8 text (byte {error.start}). "
            "Convert it first."
        ) from None
    assert text is not None
    return text


def _read_some(source: BinaryIO, name: str, bytes_max: int) -> bytes:
    """Read no more than is allowed: a device, say, has no end."""
    data = source.read(bytes_max + len(codecs.BOM_UTF8) + 1)
    if len(data.removeprefix(codecs.BOM_UTF8)) > bytes_max:
        raise UsageError(
            f"The {name} has more than {bytes_max:,} bytes. Shorten it. (For prompts and resources "
            "DIALECTIC_MAX_PROMPT_BYTES allows more.)"
        )
    return data


def read_resource(given: str, *, bytes_max: int) -> sessions.Given:
    """Read a resource that is given as KIND=FILE."""
    kind, _, file = given.partition("=")
    known = [entry.value for entry in ResourceKind]
    if kind not in known or not file:
        raise UsageError(
            f"--resource {given!r} is not KIND=FILE with one of these kinds: {', '.join(known)}."
        )
    text = read_text(None, Path(file), what="resource", bytes_max=bytes_max)
    return sessions.Given(ResourceKind(kind), Path(file).stem, text)


async def _run(settings: Settings, wish: Wish) -> ExitCode:
    # What can be wrong with the words is found before a server is started for them.
    sessions.check_prompt(wish.prompt, bytes_max=settings.max_prompt_bytes)
    sessions.check_name(wish.name)
    resources = tuple(
        read_resource(given, bytes_max=settings.max_prompt_bytes) for given in wish.resource
    )
    process = load_process(wish.process, own=settings.own_processes)
    sessions.check_ask(process, until=wish.until, domain=wish.domain)
    if wish.models:
        parse_model_list(wish.models)
    if wish.out is not None:
        prepare_out(wish.out)
    async with open_desk(settings) as desk:
        catalog = desk.engine.catalog
        names = (
            parse_model_list(wish.models)
            if wish.models
            else choose_default_models(catalog, settings.default_models)
        )
        ask = sessions.Ask(
            prompt=wish.prompt,
            models=names,
            process=process,
            name=wish.name,
            domain=wish.domain,
            until=wish.until,
            lead=wish.lead,
            is_autopilot=not wish.pause,
            resources=resources,
            continue_until_complete=not wish.no_continue,
            max_output_tokens=wish.max_output_tokens,
        )
        begun = await sessions.create_session(desk.engine, desk.account, ask)
        await sessions.generate(desk.engine, desk.account, begun.session_id)
        say(f"Session {begun.session_id} ({count(len(names), 'model')})")
        for note in begun.notes:
            say(f"  prompt: {note}")
        if wish.detach:
            click.echo(begun.session_id)
            return ExitCode.DONE
        return await work_and_follow(desk, begun.session_id, as_json=wish.as_json, out=wish.out)


async def work_and_follow(
    desk: Desk, session_id: UUID, *, as_json: bool, out: Path | None, seen: Seen | None = None
) -> ExitCode:
    """Carry out jobs in this process until the session ends, showing what is new."""
    from dialectic.cli.host import work_beside  # the queue: 0.3 s that `status` need not pay

    async def follow() -> ExitCode:
        with open_display(desk, as_json=as_json) as display:
            return await follow_session(desk, session_id, display, seen)

    async def conclude(code: ExitCode) -> ExitCode:
        overview = await sessions.look(desk.engine, desk.account, session_id)
        project_id, slug = overview.session["project_id"], overview.session["project_slug"]
        await require_published(desk.engine, desk.account.tenant_id, project_id, session_id)
        await bundle.describe_project(desk.engine, desk.account, project_id)
        if out is not None:
            await copy_out(desk, project_id, slug, out)
        if not as_json:
            known = seen.contributions if seen is not None else frozenset()
            _name_documents(desk, slug, overview, known, out)
        if code is ExitCode.WAITING:
            _say_what_next(overview.session)
        if code is ExitCode.FAILED:
            say(f"Not everything succeeded: `dialectic status {str(session_id)[:8]}` says what.")
        return code

    code = await work_beside(desk, follow(), session_id=session_id, conclude=conclude)
    if code is ExitCode.INTERRUPTED:
        say(f"Interrupted. `dialectic resume {str(session_id)[:8]}` goes on.")
    return code


def _name_documents(
    desk: Desk, slug: str, overview: sessions.Overview, known: frozenset[UUID], out: Path | None
) -> None:
    """Name the finished documents that are new: whole paths for programs, a list for people."""
    rows = [
        row
        for row in overview.contributions
        if not row["is_intermediate"] and row["id"] not in known
    ]
    is_for_people = sys.stdout.isatty()
    if is_for_people and rows:
        click.echo(f"Documents in {_locate(desk, slug, out)}:")
    for row in rows:
        path = row["storage_path"]
        short = f"  {path.removeprefix(f'{slug}/')}"
        click.echo(short if is_for_people else _locate(desk, path, out))


def _say_what_next(session: dict[str, Any]) -> None:
    stage, short = session["current_stage_slug"], str(session["id"])[:8]
    if session["status"] == "paused":
        say(f"Paused. `dialectic resume {short}` goes on.")
        return
    say(f"Stage {stage} is complete and waits for you. Read, then say what you think of it:")
    say(f'  dialectic feedback {short} {stage} "…"    (also: edit, rate)')
    say(f"  dialectic next {short}    starts the next stage")


def _locate(desk: Desk, path: str, out: Path | None) -> str:
    if out is not None:
        return str(out / path)
    return desk.engine.files.locate(f"{desk.account.tenant_id}/{path}")


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

    async def work(connection: Connection) -> list[str]:
        rows = await connection.fetch(SQL["list_files_of_project"], project_id, f"{slug}/")
        return [row["path"] for row in rows]

    described = [readme_path(slug), settings_path(slug)]
    for path in [*await desk.engine.db.transact(desk.account.tenant_id, work), *described]:
        data = await desk.engine.files.read(f"{desk.account.tenant_id}/{path}")
        target = out / path
        try:
            _put(target, data)
        except OSError as error:
            raise UsageError(
                f"{target} cannot be written: {error.strerror}. The documents are safe in "
                f"{desk.engine.files.locate(f'{desk.account.tenant_id}/{slug}')}."
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
