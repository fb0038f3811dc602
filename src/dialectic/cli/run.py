"""`dialectic run`: one prompt in, a folder of documents out."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import click

from dialectic import sessions
from dialectic.cli.follow import follow_session
from dialectic.cli.progress import open_display
from dialectic.cli.terminal import Desk, load_settings, open_desk, run_async, say
from dialectic.domain.model import parse_model_list
from dialectic.errors import ExitCode, UsageError
from dialectic.process_files import load_process
from dialectic.providers.catalog import choose_default_models
from dialectic.publish import require_published
from dialectic.settings import Settings
from dialectic.store.database import Connection
from dialectic.store.records import SQL


@dataclass(frozen=True, slots=True)
class Wish:
    """What the command line says."""

    prompt: str
    models: str
    process: str
    domain: str
    name: str
    until: str
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
@click.option("--max-output-tokens", type=click.IntRange(min=1), help="Cap on one answer's length.")
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
    wish = Wish(prompt=read_prompt(prompt, file), **options)  # type: ignore[arg-type]
    sys.exit(run_async(_run(load_settings(), wish)))


def read_prompt(prompt: str | None, file: Path | None) -> str:
    """Read the prompt from where it was given; exactly one place must be named."""
    if (prompt is None) == (file is None):
        raise UsageError("Give the prompt either as an argument, or as `-`, or with --file.")
    try:
        if file is not None:
            return file.read_bytes().decode("utf-8-sig")
        if prompt == "-":
            return sys.stdin.buffer.read().decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"The prompt file {file} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        raise UsageError(
            f"The prompt in {file or 'standard input'} is not UTF-8 text (byte {error.start}). "
            "Convert it first."
        ) from None
    assert prompt is not None
    return prompt


async def _run(settings: Settings, wish: Wish) -> ExitCode:
    # What can be wrong with the words is found before a server is started for them.
    sessions.check_prompt(wish.prompt, bytes_max=settings.max_prompt_bytes)
    process = load_process(wish.process)
    process.load_stage(wish.until or process.order[-1].slug)
    if wish.models:
        parse_model_list(wish.models)
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
            continue_until_complete=not wish.no_continue,
            max_output_tokens=wish.max_output_tokens,
        )
        begun = await sessions.create_session(desk.engine, desk.account, ask)
        await sessions.generate(desk.engine, desk.account, begun.session_id)
        say(f"Session {begun.session_id} ({len(names)} models)")
        for note in begun.notes:
            say(f"  prompt: {note}")
        if wish.detach:
            click.echo(begun.session_id)
            return ExitCode.DONE
        return await work_and_follow(desk, begun.session_id, as_json=wish.as_json, out=wish.out)


async def work_and_follow(
    desk: Desk, session_id: UUID, *, as_json: bool, out: Path | None
) -> ExitCode:
    """Carry out jobs in this process until the session ends, showing what happens."""
    from dialectic.cli.host import work_beside  # the queue: 0.3 s that `status` need not pay

    async def follow() -> ExitCode:
        with open_display(as_json=as_json) as display:
            return await follow_session(desk, session_id, display)

    code = await work_beside(desk, follow())
    if code is ExitCode.INTERRUPTED:
        say(f"Interrupted. `dialectic resume {str(session_id)[:8]}` goes on.")
        return code
    overview = await sessions.look(desk.engine, desk.account, session_id)
    project_id, slug = overview.session["project_id"], overview.session["project_slug"]
    await require_published(desk.engine, desk.account.tenant_id, project_id)
    if out is not None:
        await copy_out(desk, project_id, slug, out)
    if not as_json:
        for row in overview.contributions:
            click.echo(_locate(desk, row["storage_path"], out))
    if code is ExitCode.FAILED:
        say(f"Not everything succeeded: `dialectic status {str(session_id)[:8]}` says what.")
    return code


def _locate(desk: Desk, path: str, out: Path | None) -> str:
    if out is not None:
        return str(out / path)
    return desk.engine.files.locate(f"{desk.account.tenant_id}/{path}")


async def copy_out(desk: Desk, project_id: UUID, slug: str, out: Path) -> None:
    """Copy a project's files below a folder, in the same layout."""

    async def work(connection: Connection) -> list[str]:
        rows = await connection.fetch(SQL["list_files_of_project"], project_id, f"{slug}/")
        return [row["path"] for row in rows]

    for path in await desk.engine.db.transact(desk.account.tenant_id, work):
        data = await desk.engine.files.read(f"{desk.account.tenant_id}/{path}")
        target = out / path
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        except OSError as error:
            raise UsageError(
                f"{target} cannot be written: {error.strerror}. The documents are safe in "
                f"{desk.engine.files.locate(f'{desk.account.tenant_id}/{slug}')}."
            ) from None
