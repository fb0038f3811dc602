"""`dialectic export, import`: take a project away, and take one in."""

from __future__ import annotations

from pathlib import Path

import click

from dialectic.cli.desk import Desk, act_at_desk
from dialectic.cli.terminal import echo_json, printable, say
from dialectic.errors import ExitCode


@click.command(name="export")
@click.argument("project")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where to write; by default into the project's folder in storage, or here if it is "
    "a server's.",
)
@click.option("--finished", is_flag=True, help="Finished documents only; cannot be imported.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def export(project: str, out: Path | None, *, finished: bool, as_json: bool) -> None:
    """Write PROJECT (a folder, a name, or an id of it or of a session) into a zip file."""

    async def act(desk: Desk) -> ExitCode:
        project_id = await desk.find_project(project)
        exported, place = await desk.export(project_id, out, finished=finished)
        files = exported.manifest.files
        if as_json:
            told = {
                "project_id": str(exported.project_id),
                "project": exported.slug,
                "path": place,
                "contents": exported.manifest.contents,
                "files": len(files),
                "size_bytes": sum(entry.size_bytes for entry in files),
            }
            echo_json(told)
        else:
            click.echo(printable(place))
            say(f"Exported {exported.slug}: {len(files)} files.")
        return ExitCode.DONE

    act_at_desk(act)


@click.command(name="import")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def import_(file: Path, *, as_json: bool) -> None:
    """Take in a project from FILE, which `dialectic export` has written."""

    async def act(desk: Desk) -> ExitCode:
        taken = await desk.take_in(file)
        folder = desk.locate(taken.slug)
        if as_json:
            told = {
                "project_id": str(taken.project_id),
                "project": taken.slug,
                "path": folder,
                "sessions": [str(session_id) for session_id in taken.session_ids],
                "files": taken.file_count,
                "is_copy": taken.is_copy,
            }
            echo_json(told)
        else:
            click.echo(printable(folder))
            say(f"Imported {taken.name} as {taken.slug}: {taken.file_count} files.")
            for session_id in taken.session_ids:
                say(f"Session {session_id}")
        if taken.waiting:
            say(f"{len(taken.waiting)} file(s) wait in the database until storage has room.")
        return ExitCode.DONE

    act_at_desk(act)
