"""`dialectic search, export, import`: search, export and import projects."""

from __future__ import annotations

import textwrap
from pathlib import Path

import click

from dialectic.app.search import LIMIT_DEFAULT, check_query
from dialectic.cli.backend import Backend, run_with_backend
from dialectic.cli.terminal import count, echo_json, printable, say
from dialectic.contract.projects import Kind, SearchHit, SearchResults
from dialectic.errors import ExitCode

EXCERPT_CHARS = 320
WIDTH = 96


@click.command()
@click.argument("project")
@click.argument("query")
@click.option("--limit", type=int, default=LIMIT_DEFAULT, help="Maximum number of passages.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def search(project: str, query: str, *, limit: int, as_json: bool) -> None:
    """Search PROJECT (a folder, a name, or an id of it or of a session) for QUERY."""

    async def act(backend: Backend) -> ExitCode:
        check_query(query, limit)
        results = await backend.search(await backend.get_id(Kind.PROJECT, project), query, limit)
        if as_json:
            echo_json(describe_results(results))
            return ExitCode.DONE
        for number, hit in enumerate(results.items, 1):
            click.echo(printable(build_entry(number, hit)))
        passages = count(len(results.items), "passage")
        say(f"{passages} in {count(results.documents, 'document')}, by {results.embedder}.")
        return ExitCode.DONE

    run_with_backend(act)


def describe_results(results: SearchResults) -> dict[str, object]:
    """Build the JSON result of a search."""
    hits = [{**hit.model_dump(), "score": round(hit.score, 4)} for hit in results.items]
    return {**results.model_dump(exclude={"items", "next_cursor"}), "hits": hits}


def build_entry(number: int, hit: SearchHit) -> str:
    """Format one passage: its document, its headings, its first lines."""
    words = " ".join(hit.text.split())
    shown = words if len(words) <= EXCERPT_CHARS else f"{words[:EXCERPT_CHARS].rstrip()}…"
    lines = [f"{number}. {hit.path}  ({str(hit.document_id)[:8]})"]
    if hit.heading_path:
        lines.append(f"   {' > '.join(hit.heading_path)}")
    lines.append(textwrap.fill(shown, WIDTH, initial_indent="     ", subsequent_indent="     "))
    return "\n".join([*lines, ""])


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
    """Export PROJECT (a folder, a name, or an id of it or of a session) to a zip file."""

    async def act(backend: Backend) -> ExitCode:
        project_id = await backend.get_id(Kind.PROJECT, project)
        exported = await backend.export(project_id, out, finished=finished)
        if as_json:
            echo_json(exported)
        else:
            click.echo(printable(exported.path))
            say(f"Exported {exported.project}: {exported.files} files.")
        return ExitCode.DONE

    run_with_backend(act)


@click.command(name="import")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def import_(file: Path, *, as_json: bool) -> None:
    """Import a project from FILE, written by `dialectic export`."""

    async def act(backend: Backend) -> ExitCode:
        taken = await backend.import_project(file)
        folder = backend.locate(taken.slug)
        if as_json:
            told = {
                "project_id": taken.project_id,
                "project": taken.slug,
                "path": folder,
                "sessions": taken.session_ids,
                "files": taken.files,
                "is_copy": taken.is_copy,
            }
            echo_json(told)
        else:
            click.echo(printable(folder))
            say(f"Imported {taken.name} as {taken.slug}: {taken.files} files.")
            for session_id in taken.session_ids:
                say(f"Session {session_id}")
        if taken.waiting:
            say(f"{taken.waiting} file(s) wait in the database until storage has room.")
        return ExitCode.DONE

    run_with_backend(act)
