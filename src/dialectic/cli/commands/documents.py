"""`dialectic show, list, diff, search, export, import`: read contributions and whole projects."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

import click

from dialectic.cli.backend import Backend, with_backend
from dialectic.cli.commands.provenance import show_sources
from dialectic.cli.commands.sessions import show_list, show_session
from dialectic.cli.options import archived_option
from dialectic.cli.terminal import count, echo_json, printable, say
from dialectic.contract.summaries import PASSAGES_DEFAULT, Kind
from dialectic.core.strict_json import Json
from dialectic.errors import DialecticError, NotFound, Remedy, RemedyAction, UsageError

if TYPE_CHECKING:
    from dialectic.contract.contributions import (
        ChunkRecord,
        ContributionLine,
        ContributionRecord,
        ReadVersion,
    )
    from dialectic.contract.projects import SearchHit, SearchResults
    from dialectic.core.models.messages import Request


@click.command()
@click.argument("found", metavar="ID")
@click.option("--prompt", is_flag=True, help="Show the prompt sent to the model instead.")
@click.option("--sources", is_flag=True, help="Mark where each passage comes from.")
@click.option("--json", "as_json", is_flag=True, help="The whole record as JSON.")
@with_backend
async def show(backend: Backend, found: str, *, prompt: bool, sources: bool, as_json: bool) -> None:
    """Show the plan of a session, or a document or turn, by its ID (or a prefix of it)."""
    try:
        written, facts = await _find_written(backend, found)
    except NotFound:
        await _show_plan(backend, await _get_session_id(backend, found), as_json=as_json)
        return
    if sources:
        await show_sources(backend, await backend.get_id(Kind.CONTRIBUTION, found), written.content)
    elif prompt:
        request = await _read_request(backend, written)
        if as_json:
            echo_json(asdict(request))
        else:
            _show_text(_format_prompt(request))
    elif as_json:
        echo_json(written)
    else:
        for line in facts:
            say(line)
        _show_text(written.content)


async def _show_plan(backend: Backend, session_id: UUID, *, as_json: bool) -> None:
    """Show the plan of a session; its progress as JSON, or while it has no plan."""
    try:
        plan = None if as_json else await backend.load_session_plan(session_id)
    except NotFound as error:
        if error.reason != "no_plan":
            raise
        say("No iteration of this session is finished, so it has no plan yet. Its progress:")
        plan = None
    if plan is None:
        await show_session(backend, session_id, as_json=as_json)
        return
    if backend.is_local and plan.path is not None:
        say(f"The plan is in {backend.locate(plan.path)}")
    from dialectic.cli.display.markdown import show_markdown

    await show_markdown(plan.content)


def _show_text(text: str) -> None:
    """Print a text unchanged; on a terminal, without control characters."""
    click.echo(printable(text) if sys.stdout.isatty() else text)


async def _find_written(
    backend: Backend, text: str
) -> tuple[ContributionRecord | ChunkRecord, list[str]]:
    """Find a contribution or one turn, and its description."""
    try:
        contribution_id = await backend.get_id(Kind.CONTRIBUTION, text)
    except NotFound:
        chunk = await backend.get_chunk(text)
        return chunk, _describe_chunk(chunk)
    record = await backend.load_contribution(contribution_id)
    return record, _describe(record)


async def _get_session_id(backend: Backend, text: str) -> UUID:
    try:
        return await backend.get_id(Kind.SESSION, text)
    except DialecticError:
        raise NotFound(
            f"No contribution or session matches {text!r}.",
            reason="no_session",
            subject=text,
            remedy=Remedy(RemedyAction.LIST_SESSIONS),
        ) from None


def _describe(record: ContributionRecord) -> list[str]:
    """Build a document's description for stderr; stdout has only the document."""
    by = f"{record.model_name}, version {record.edit_version}"
    lines = [
        f"{record.contribution_type} {record.id} by {by}",
        f"  {record.stage}, iteration {record.iteration_number}: {record.storage_path}",
    ]
    lines += _describe_sources(record)
    if not record.chunks:
        lines += _describe_manifest(record.manifest)
    for chunk in record.chunks:
        took = f"{chunk.tokens_used_output:,} tokens, {chunk.finish_reason}"
        lines.append(f"  turn {chunk.turn_index}: {chunk.id} ({took})")
        lines += [f"  {line}" for line in _describe_manifest(chunk.manifest)]
    marks = [*record.flags, *(["stale"] if record.is_stale else [])]
    if marks:
        lines.append(f"  {', '.join(marks)}")
    if not record.is_latest_edit:
        lines.append("  a newer version exists")
    return lines


def _describe_sources(record: ContributionRecord) -> Iterator[str]:
    """Name what a document is about and what it was written from, in the versions read."""
    told = (record.results or {}).get("read", [])
    labels = {entry["contribution_id"]: entry["label"] for entry in told}
    by_id = {one.contribution_id: one for one in record.read_versions}
    if (about := record.target_contribution_id) is not None:
        yield f"  about {_name_version(by_id[about]) if about in by_id else about}"
    for one in record.read_versions:
        label = labels.get(str(one.contribution_id))
        yield f"  read {f'{label}: ' if label else ''}{_name_version(one)}"


def _name_version(one: ReadVersion) -> str:
    """Name the version that was read; say so if a person edited it, or if it is unknown."""
    if one.version_id is None:
        return f"{one.contribution_id} (which version is unknown)"
    if one.version is None or one.version == 1:
        return str(one.version_id)
    made = "edited by a person" if one.is_by_user else "regenerated"
    return f"{one.version_id} (version {one.version}, {made})"


def _describe_manifest(manifest: Json | None) -> list[str]:
    """Describe how the texts of a too long prompt were shortened."""
    from dialectic.core.documents.prompts import describe_manifest

    return [f"  {line}" for line in describe_manifest(manifest)] if manifest else []


def _describe_chunk(chunk: ChunkRecord) -> list[str]:
    return [
        f"turn {chunk.turn_index} {chunk.id} by {chunk.model_name}",
        f"  of contribution {chunk.root_contribution_id}",
        f"  {chunk.stage}, iteration {chunk.iteration_number}: {chunk.storage_path}",
        f"  {chunk.tokens_used_output:,} tokens, {chunk.finish_reason}",
        *_describe_manifest(chunk.manifest),
        *([f"  {', '.join(chunk.flags)}"] if chunk.flags else []),
    ]


async def _read_request(backend: Backend, written: ContributionRecord | ChunkRecord) -> Request:
    """Read the prompt of a document or of one turn."""
    path = written.raw_response_storage_path
    if path is None:
        raise UsageError("A person wrote this version, so it has no prompt.")
    detail = await backend.look(written.session_id)
    from dialectic.core.models.call_record import read_call_record

    return read_call_record(await backend.read_file(detail.session.project_id, path)).request


def _format_prompt(request: Request) -> str:
    parts = [f"# System\n\n{request.system}"]
    parts += [f"# {m.role.value.capitalize()}\n\n{m.content}" for m in request.messages]
    return "\n\n".join(parts)


@click.command(name="list")
@click.argument("session", required=False)
@click.option("--all", "everything", is_flag=True, help="Include drafts.")
@archived_option
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@with_backend
async def list_(
    backend: Backend, session: str | None, *, everything: bool, archived: bool, as_json: bool
) -> None:
    """List all sessions, or the contributions of SESSION with their ids."""
    if session is None:
        await show_list(backend, as_json=as_json, archived=archived)
        return
    session_id = await backend.get_id(Kind.SESSION, session)
    detail = await backend.look(session_id)
    rows = [r for r in detail.contributions if everything or not r.is_intermediate]
    if as_json:
        echo_json(rows)
        return
    for row in rows:
        click.echo(printable(_line(row)))
    for warning in detail.list_warnings():
        say(f"Warning: {warning}")
    if not rows:
        say("No documents yet.")


def _line(row: ContributionLine) -> str:
    edits = [str(one.version_id)[:8] for one in row.read_versions if one.is_by_user]
    marks = [
        *(["incomplete"] if row.is_incomplete else []),
        *(["stale"] if row.is_stale else []),
        *(f for f in row.flags if f != "cut_off"),
        *([f"read edited {', '.join(edits)}"] if edits else []),
    ]
    version = f" v{row.edit_version}" if row.edit_version > 1 else ""
    note = f"  ({', '.join(marks)})" if marks else ""
    name = row.storage_path.rsplit("/", 1)[-1]
    return f"{row.id}  {row.iteration_number}/{row.stage:<12} {name}{version}{note}"


@click.command()
@click.argument("before", metavar="A")
@click.argument("after", metavar="B")
@with_backend
async def diff(backend: Backend, before: str, after: str) -> None:
    """Show what changed from contribution A to B, section by section; exits 0 even if they differ.

    Removed words are in [-…-], added ones in {+…+}.
    """
    old, new = [
        await backend.load_contribution(await backend.get_id(Kind.CONTRIBUTION, text))
        for text in (before, after)
    ]
    from dialectic.cli.display.text_diff import list_lines
    from dialectic.core.documents.text_diff import compare_texts

    for line in list_lines(compare_texts(old.content, new.content)):
        click.echo(printable(line))


EXCERPT_CHARS = 320
WIDTH = 96


@click.command()
@click.argument("project")
@click.argument("query")
@click.option("--limit", type=int, default=PASSAGES_DEFAULT, help="Maximum number of passages.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
@with_backend
async def search(backend: Backend, project: str, query: str, *, limit: int, as_json: bool) -> None:
    """Search PROJECT (a folder, a name, or an id of it or of a session) for QUERY."""
    from dialectic.app.search import check_query

    check_query(query, limit)
    results = await backend.search(await backend.get_id(Kind.PROJECT, project), query, limit)
    if as_json:
        echo_json(describe_results(results))
        return
    for number, hit in enumerate(results.items, 1):
        click.echo(printable(build_entry(number, hit)))
    passages = count(len(results.items), "passage")
    say(f"{passages} in {count(results.documents, 'document')}, by {results.embedder}.")


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
@with_backend
async def export(
    backend: Backend, project: str, out: Path | None, *, finished: bool, as_json: bool
) -> None:
    """Export PROJECT (a folder, a name, or an id of it or of a session) to a zip file."""
    project_id = await backend.get_id(Kind.PROJECT, project)
    exported = await backend.export(project_id, out, finished=finished)
    if as_json:
        echo_json(exported)
    else:
        click.echo(printable(exported.path))
        say(f"Exported {exported.project}: {exported.files} files.")
    if exported.left_out:
        from dialectic.core.documents.plan_files import strip_project
        from dialectic.core.transfer.bundle_format import LIMITS

        limit = LIMITS.entry_bytes_max // 1024**2
        say(f"Warning: left out, because larger than {limit} MiB or not readable:")
        for path in exported.left_out:
            say(f"  {strip_project(path)}")


@click.command(name="import")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
@with_backend
async def import_(backend: Backend, file: Path, *, as_json: bool) -> None:
    """Import a project from FILE, written by `dialectic export`."""
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
        waiting = count(taken.waiting, "file")
        say(f"Until storage has room, the database keeps {waiting} of it.")
