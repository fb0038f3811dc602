"""`dialectic plan`: the files of the agreed plan, in storage on a disk or in a bucket."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import NoReturn
from uuid import UUID

import click

from dialectic.cli.backend import Backend, open_backend, run_with_backend, with_backend
from dialectic.cli.display.results import update_copy
from dialectic.cli.editor import can_edit, edit_text, keeping
from dialectic.cli.input import read_text
from dialectic.cli.options import name_command
from dialectic.cli.terminal import echo_json, load_settings, printable, run_async, say
from dialectic.contract.projects import Kind, PlanFile, PlanFileState
from dialectic.core.documents.file_paths import WorkStatus
from dialectic.core.documents.plan_files import strip_project
from dialectic.errors import ExitCode, NotFound, UsageError

STATUSES = {status.value.lower(): status for status in WorkStatus}
WORDS = {
    PlanFileState.AS_WRITTEN: "",
    PlanFileState.CHANGED: "changed by you",
    PlanFileState.SUPERSEDED: "superseded, kept because you changed it",
    PlanFileState.OWN: "yours",
}


@click.group()
def plan() -> None:
    """The files of the agreed plan. They are yours: tick, change, move or delete them freely."""


@plan.command(name="list")
@click.argument("project")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@with_backend
async def list_(backend: Backend, project: str, *, as_json: bool) -> None:
    """List the files in Pending/, Current/ and Complete/ of PROJECT."""
    files = await backend.list_plan(await backend.get_id(Kind.PROJECT, project))
    if as_json:
        echo_json(files)
        return
    for file in files:
        click.echo(printable(describe_file(file)))
    if not files:
        say("No plan yet: the last stage writes it.")


def describe_file(file: PlanFile) -> str:
    """Describe a file of the plan on one line."""
    notes = [WORDS[file.state], f"the new version of {file.replaces}" if file.replaces else ""]
    said = ", ".join(filter(None, notes))
    return strip_project(file.path) + (f"  ({said})" if said else "")


@plan.command()
@click.argument("project")
@click.argument("file")
@with_backend
async def show(backend: Backend, project: str, file: str) -> None:
    """Print a file of PROJECT's plan.

    FILE is a name, or the beginning of one.
    """
    project_id = await backend.get_id(Kind.PROJECT, project)
    found = get_file(await backend.list_plan(project_id), file)
    data = await backend.read_file(project_id, found.path)
    click.echo(data, nl=False)


@plan.command()
@click.argument("project")
@click.argument("file")
@click.option(
    "--file",
    "source",
    type=click.Path(path_type=Path),
    help="Read the text from a file, `-` for stdin.",
)
def edit(project: str, file: str, source: Path | None) -> None:
    """Change a file of PROJECT's plan in your editor, or replace it.

    FILE is a name, or the beginning of one.
    """
    if source is None and can_edit():
        edited = edit_text(run_async(_read(project, file)))
        if edited is None:
            say("Nothing was changed.")
            return
        with keeping(edited, name_command(f"plan edit {quote(project)} {quote(file)}")):
            _replace(project, file, edited)
    _replace(project, file, read_text(None, source, what="text", has_argument=False))


async def _read(project: str, file: str) -> str:
    async with open_backend(load_settings(knows_server=True)) as backend:
        project_id = await backend.get_id(Kind.PROJECT, project)
        found = get_file(await backend.list_plan(project_id), file)
        data = await backend.read_file(project_id, found.path)
        return data.decode("utf-8", "replace")


def _replace(project: str, file: str, text: str) -> NoReturn:
    async def act(backend: Backend) -> ExitCode:
        project_id = await backend.get_id(Kind.PROJECT, project)
        found = get_file(await backend.list_plan(project_id), file)
        replaced = await backend.replace_plan_file(project_id, found.path, text)
        await _finish(backend, project_id, replaced)
        return ExitCode.DONE

    run_with_backend(act)


@plan.command()
@click.argument("project")
@click.argument("file")
@click.argument("status", type=click.Choice(list(STATUSES), case_sensitive=False))
@with_backend
async def move(backend: Backend, project: str, file: str, status: str) -> None:
    """Move a file of PROJECT's plan to another folder.

    FILE is a name, or the beginning of one.
    """
    project_id = await backend.get_id(Kind.PROJECT, project)
    found = get_file(await backend.list_plan(project_id), file)
    wanted = STATUSES[status.lower()]
    moved = await backend.move_plan_file(project_id, found.path, wanted)
    await _finish(backend, project_id, moved)


@plan.command()
@click.argument("project")
@click.argument("file")
@with_backend
async def delete(backend: Backend, project: str, file: str) -> None:
    """Delete a file of PROJECT's plan.

    FILE is a name, or the beginning of one. No later plan brings its text back.
    """
    project_id = await backend.get_id(Kind.PROJECT, project)
    found = get_file(await backend.list_plan(project_id), file)
    await backend.delete_plan_file(project_id, found.path)
    await update_copy(backend, project_id, found.path.partition("/")[0])
    say(f"Deleted {strip_project(found.path)}.")


async def _finish(backend: Backend, project_id: UUID, file: PlanFile) -> None:
    """Print where a changed file is, and bring the project's copy up to date."""
    await update_copy(backend, project_id, file.path.partition("/")[0])
    click.echo(printable(backend.locate(file.path)))


def get_file(files: list[PlanFile], text: str) -> PlanFile:
    """Find a file by its path or name, or by the beginning of its name."""
    wanted = text.strip().casefold()
    named = [(file, file.name.casefold()) for file in files]
    tries = (
        [file for file in files if strip_project(file.path).casefold() == wanted],
        [file for file, name in named if name == wanted],
        [file for file, name in named if name.startswith(wanted)],
    )
    found = next(filter(None, tries), [])
    if not wanted or not found:
        raise NotFound(
            f"The plan has no file {text!r}. `{name_command('plan list')}` lists its files.",
            reason="no_file",
            subject=text,
        )
    if len(found) > 1:
        names = ", ".join(strip_project(file.path) for file in found[:5])
        raise UsageError(
            f"{text!r} matches more than one file of the plan: {names}. Give more of the name.",
            reason="ambiguous_name",
            subject=text,
        )
    return found[0]
