"""`dialectic show, list, diff`: read contributions."""

from __future__ import annotations

import difflib
import json
import sys
from uuid import UUID

import click

from dialectic.cli.backend import Backend, run_with_backend
from dialectic.cli.commands.sessions import show_list, show_session
from dialectic.cli.terminal import echo_json, printable, say
from dialectic.contract.contributions import ChunkRecord, ContributionLine, ContributionRecord
from dialectic.contract.projects import Kind
from dialectic.core.documents.prompts import describe_manifest
from dialectic.core.strict_json import Json
from dialectic.errors import DialecticError, ExitCode, NotFound, Remedy, RemedyAction, UsageError


@click.command()
@click.argument("found", metavar="ID")
@click.option("--prompt", is_flag=True, help="Show the prompt sent to the model instead.")
@click.option("--json", "as_json", is_flag=True, help="The whole record as JSON.")
def show(found: str, *, prompt: bool, as_json: bool) -> None:
    """Show the contribution, turn or session with this ID (or prefix of an id)."""

    async def act(backend: Backend) -> ExitCode:
        try:
            written, facts = await _find_written(backend, found)
        except NotFound:
            session_id = await _get_session_id(backend, found)
            await show_session(backend, session_id, as_json=as_json)
            return ExitCode.DONE
        if prompt:
            request = await _read_request(backend, written)
            if as_json:
                echo_json(request)
            else:
                _show_text(_format_prompt(request))
        elif as_json:
            echo_json(written)
        else:
            for line in facts:
                say(line)
            _show_text(written.content)
        return ExitCode.DONE

    run_with_backend(act)


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
    if record.target_contribution_id:
        lines.append(f"  about {record.target_contribution_id}")
    read = (record.results or {}).get("read", [])
    lines += [f"  read {entry['label']}: {entry['contribution_id']}" for entry in read]
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


def _describe_manifest(manifest: Json | None) -> list[str]:
    """Describe how the texts of a too long prompt were shortened."""
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


async def _read_request(backend: Backend, written: ContributionRecord | ChunkRecord) -> Json:
    """Read the prompt of a document or of one turn."""
    path = written.raw_response_storage_path
    if path is None:
        raise UsageError("A person wrote this version, so it has no prompt.")
    detail = await backend.look(written.session_id)
    data = await backend.read_file(detail.session.project_id, path)
    request: Json = json.loads(data)["request"]
    return request


def _format_prompt(request: Json) -> str:
    parts = [f"# System\n\n{request['system']}"]
    parts += [f"# {m['role'].capitalize()}\n\n{m['content']}" for m in request["messages"]]
    return "\n\n".join(parts)


@click.command(name="list")
@click.argument("session", required=False)
@click.option("--all", "everything", is_flag=True, help="Include drafts.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def list_(session: str | None, *, everything: bool, as_json: bool) -> None:
    """List all sessions, or the contributions of SESSION with their ids."""

    async def act(backend: Backend) -> ExitCode:
        if session is None:
            await show_list(backend, as_json=as_json)
            return ExitCode.DONE
        session_id = await backend.get_id(Kind.SESSION, session)
        detail = await backend.look(session_id)
        rows = [r for r in detail.contributions if everything or not r.is_intermediate]
        if as_json:
            echo_json(rows)
            return ExitCode.DONE
        for row in rows:
            click.echo(printable(_line(row)))
        if not rows:
            say("No documents yet.")
        return ExitCode.DONE

    run_with_backend(act)


def _line(row: ContributionLine) -> str:
    marks = [
        *(["incomplete"] if row.is_incomplete else []),
        *(["stale"] if row.is_stale else []),
        *(f for f in row.flags if f != "cut_off"),
    ]
    version = f" v{row.edit_version}" if row.edit_version > 1 else ""
    note = f"  ({', '.join(marks)})" if marks else ""
    name = row.storage_path.rsplit("/", 1)[-1]
    return f"{row.id}  {row.iteration_number}/{row.stage:<12} {name}{version}{note}"


@click.command()
@click.argument("before", metavar="A")
@click.argument("after", metavar="B")
def diff(before: str, after: str) -> None:
    """Compare contribution B with contribution A; exits 0 even if they differ."""

    async def act(backend: Backend) -> ExitCode:
        old, new = [
            await backend.load_contribution(await backend.get_id(Kind.CONTRIBUTION, text))
            for text in (before, after)
        ]
        lines = difflib.unified_diff(
            old.content.splitlines(),
            new.content.splitlines(),
            old.storage_path,
            new.storage_path,
            lineterm="",
        )
        for line in lines:
            click.echo(printable(line))
        return ExitCode.DONE

    run_with_backend(act)
