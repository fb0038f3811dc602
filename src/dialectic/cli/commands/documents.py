"""`dialectic show, list, diff`: read contributions."""

from __future__ import annotations

import difflib
import json
import sys
from typing import Any
from uuid import UUID

import click

from dialectic.cli.backend import Backend, run_with_backend
from dialectic.cli.commands.sessions import show_list, show_session
from dialectic.cli.terminal import echo_json, printable, say
from dialectic.core.documents.prompts import describe_manifest
from dialectic.errors import DialecticError, ExitCode, NotFound, Remedy, RemedyAction, UsageError


@click.command()
@click.argument("found", metavar="ID")
@click.option("--prompt", is_flag=True, help="Show the prompt sent to the model instead.")
@click.option("--json", "as_json", is_flag=True, help="The whole record as JSON.")
def show(found: str, *, prompt: bool, as_json: bool) -> None:
    """Show the contribution, turn or session with this ID (or prefix of an id)."""

    async def act(backend: Backend) -> ExitCode:
        try:
            row, facts = await _find_written(backend, found)
        except NotFound:
            session_id = await _get_session_id(backend, found)
            await show_session(backend, session_id, as_json=as_json)
            return ExitCode.DONE
        if prompt:
            request = await _read_request(backend, row)
            if as_json:
                echo_json(request)
            else:
                _show_text(_format_prompt(request))
        elif as_json:
            echo_json(row)
        else:
            for line in facts:
                say(line)
            _show_text(row["content"])
        return ExitCode.DONE

    run_with_backend(act)


def _show_text(text: str) -> None:
    """Print a text unchanged; on a terminal, without control characters."""
    click.echo(printable(text) if sys.stdout.isatty() else text)


async def _find_written(backend: Backend, text: str) -> tuple[dict[str, Any], list[str]]:
    """Find a contribution or one turn, and its description."""
    try:
        contribution_id = await backend.get_contribution_id(text)
    except NotFound:
        chunk = await backend.get_chunk(text)
        return chunk, _describe_chunk(chunk)
    row = await backend.load_contribution(contribution_id)
    return row, _describe(row)


async def _get_session_id(backend: Backend, text: str) -> UUID:
    try:
        return await backend.get_session_id(text)
    except DialecticError:
        raise NotFound(
            f"No contribution or session matches {text!r}.",
            reason="no_session",
            subject=text,
            remedy=Remedy(RemedyAction.LIST_SESSIONS),
        ) from None


def _describe(row: dict[str, Any]) -> list[str]:
    """Build a document's description for stderr; stdout has only the document."""
    by = f"{row['model_name']}, version {row['edit_version']}"
    lines = [
        f"{row['contribution_type']} {row['id']} by {by}",
        f"  {row['stage']}, iteration {row['iteration_number']}: {row['storage_path']}",
    ]
    if row["target_contribution_id"]:
        lines.append(f"  about {row['target_contribution_id']}")
    read = (row["results"] or {}).get("read", [])
    lines += [f"  read {entry['label']}: {entry['contribution_id']}" for entry in read]
    if not row["chunks"]:
        lines += _describe_manifest(row)
    for chunk in row["chunks"]:
        took = f"{chunk['tokens_used_output']:,} tokens, {chunk['finish_reason']}"
        lines.append(f"  turn {chunk['turn_index']}: {chunk['id']} ({took})")
        lines += [f"  {line}" for line in _describe_manifest(chunk)]
    marks = [*row["flags"], *(["stale"] if row["is_stale"] else [])]
    if marks:
        lines.append(f"  {', '.join(marks)}")
    if not row["is_latest_edit"]:
        lines.append("  a newer version exists")
    return lines


def _describe_manifest(row: dict[str, Any]) -> list[str]:
    """Describe how the texts of a too long prompt were shortened."""
    manifest = row["manifest"]
    return [f"  {line}" for line in describe_manifest(manifest)] if manifest else []


def _describe_chunk(row: dict[str, Any]) -> list[str]:
    return [
        f"turn {row['turn_index']} {row['id']} by {row['model_name']}",
        f"  of contribution {row['root_contribution_id']}",
        f"  {row['stage']}, iteration {row['iteration_number']}: {row['storage_path']}",
        f"  {row['tokens_used_output']:,} tokens, {row['finish_reason']}",
        *_describe_manifest(row),
        *([f"  {', '.join(row['flags'])}"] if row["flags"] else []),
    ]


async def _read_request(backend: Backend, row: dict[str, Any]) -> dict[str, Any]:
    """Read the prompt of a document or of one turn."""
    path = row["raw_response_storage_path"]
    if path is None:
        raise UsageError("A person wrote this version, so it has no prompt.")
    overview = await backend.look(row["session_id"])
    data = await backend.read_file(overview.session["project_id"], path)
    request: dict[str, Any] = json.loads(data)["request"]
    return request


def _format_prompt(request: dict[str, Any]) -> str:
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
        session_id = await backend.get_session_id(session)
        overview = await backend.look(session_id)
        rows = [r for r in overview.contributions if everything or not r["is_intermediate"]]
        if as_json:
            echo_json(rows)
            return ExitCode.DONE
        for row in rows:
            click.echo(printable(_line(row)))
        if not rows:
            say("No documents yet.")
        return ExitCode.DONE

    run_with_backend(act)


def _line(row: dict[str, Any]) -> str:
    marks = [
        *(["incomplete"] if row["is_incomplete"] else []),
        *(["stale"] if row["is_stale"] else []),
        *(f for f in row["flags"] if f != "cut_off"),
    ]
    version = f" v{row['edit_version']}" if row["edit_version"] > 1 else ""
    note = f"  ({', '.join(marks)})" if marks else ""
    name = row["storage_path"].rsplit("/", 1)[-1]
    return f"{row['id']}  {row['iteration_number']}/{row['stage']:<12} {name}{version}{note}"


@click.command()
@click.argument("before", metavar="A")
@click.argument("after", metavar="B")
def diff(before: str, after: str) -> None:
    """Compare contribution B with contribution A; exits 0 even if they differ."""

    async def act(backend: Backend) -> ExitCode:
        old, new = [
            await backend.load_contribution(await backend.get_contribution_id(text))
            for text in (before, after)
        ]
        lines = difflib.unified_diff(
            old["content"].splitlines(),
            new["content"].splitlines(),
            old["storage_path"],
            new["storage_path"],
            lineterm="",
        )
        for line in lines:
            click.echo(printable(line))
        return ExitCode.DONE

    run_with_backend(act)
