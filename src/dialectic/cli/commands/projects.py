"""`dialectic project, rename, archive, delete, resource`: existing projects and their files."""

from __future__ import annotations

import sys
from uuid import UUID

import click

from dialectic.cli.backend import Backend, get_id_to_change, get_to_change, with_backend
from dialectic.cli.copies import find_copy
from dialectic.cli.input import read_overlay, read_resource
from dialectic.cli.options import archived_option, name_command
from dialectic.cli.terminal import ask_yes, count, echo_json, printable, say
from dialectic.contract.projects import Kind, Project, ProjectChange, Resource
from dialectic.contract.sessions import SessionSummary
from dialectic.core.documents.file_paths import ResourceKind
from dialectic.errors import ExitCode, NotFound, UsageError

LISTED_MAX = 50
SESSIONS_SHOWN_MAX = 1_000

_json = click.option("--json", "as_json", is_flag=True, help="As JSON.")


@click.group()
def project() -> None:
    """Projects: list them, change one."""


@project.command("list", short_help="List your projects.")
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=LISTED_MAX,
    show_default=True,
    help="Maximum number of projects.",
)
@archived_option
@_json
@with_backend
async def list_projects(backend: Backend, *, limit: int, archived: bool, as_json: bool) -> None:
    """List your projects, newest first."""
    listed = await backend.list_projects(limit, archived=None if archived else False)
    if as_json:
        echo_json(listed)
        return
    if not listed:
        say("No projects yet.")
    for one in listed:
        mark = "  (archived)" if one.status == "archived" else ""
        click.echo(printable(f"{one.id}  {one.name}  [{one.domain}]{mark}"))


@project.command(short_help="Change a project's name, domain or overlay, or archive it.")
@click.argument("found", metavar="PROJECT")
@click.option("--name", metavar="N", help="The new name; its folder keeps its name.")
@click.option("--domain", metavar="D", help="The new domain, for all later prompts.")
@click.option(
    "--overlay",
    metavar="TEXT|FILE",
    help="What all later prompts say in addition, as text or in a file; empty removes it.",
)
@click.option("--archive/--restore", "is_archived", default=None, help="Archive or restore it.")
@_json
@with_backend
async def change(
    backend: Backend,
    found: str,
    *,
    name: str | None,
    domain: str | None,
    overlay: str | None,
    is_archived: bool | None,
    as_json: bool,
) -> None:
    """Change PROJECT, given by its name or id."""
    text = None if overlay is None else read_overlay(overlay)
    wanted = ProjectChange(name=name, domain=domain, overlay=text, is_archived=is_archived)
    if wanted == ProjectChange():
        raise UsageError(
            "Nothing to change. Give --name, --domain, --overlay, --archive or --restore.",
            reason="no_change",
        )
    project_id = await get_id_to_change(backend, Kind.PROJECT, found)
    changed = await backend.change_project(project_id, wanted)
    if as_json:
        echo_json(changed)
    else:
        say(printable(f"{changed.name}: domain {changed.domain}, {changed.status}."))


@click.command()
@click.argument("found", metavar="PROJECT")
@click.argument("name")
@with_backend
async def rename(backend: Backend, found: str, name: str) -> None:
    """Give PROJECT another NAME; its folder keeps its name."""
    project_id = await get_id_to_change(backend, Kind.PROJECT, found)
    before = await backend.load_project(project_id)
    changed = await backend.change_project(project_id, ProjectChange(name=name))
    say(printable(f"{before.name} is now called {changed.name}."))


@click.command()
@click.argument("found", metavar="PROJECT")
@click.option("--restore", is_flag=True, help="Bring it back into the lists.")
@with_backend
async def archive(backend: Backend, found: str, *, restore: bool) -> None:
    """Take PROJECT out of the lists; nothing is deleted, and its sessions can go on."""
    project_id = await get_id_to_change(backend, Kind.PROJECT, found)
    wanted = ProjectChange(is_archived=not restore)
    changed = await backend.change_project(project_id, wanted)
    if restore:
        say(printable(f"{changed.name} is back."))
        return
    command = name_command(f"archive {str(project_id)[:8]} --restore")
    say(printable(f"{changed.name} is archived. `{command}` brings it back."))


@click.command()
@click.argument("found", metavar="PROJECT")
@click.option("--yes", is_flag=True, help="Do not ask.")
@with_backend
async def delete(backend: Backend, found: str, *, yes: bool) -> ExitCode:
    """Delete PROJECT with all its sessions and documents, for good; asks first.

    What was spent stays in the wallet's history, and copies that --out made stay where they are.
    """
    project_id = await get_id_to_change(backend, Kind.PROJECT, found)
    doomed = await backend.load_project(project_id)
    sessions = await backend.list_sessions(SESSIONS_SHOWN_MAX, project_id=project_id)
    if yes:
        _refuse_session_id(doomed, sessions, found)
    elif not await _confirm(doomed, sessions):
        say("Nothing was deleted.")
        return ExitCode.DONE
    await backend.delete_project(project_id)
    say(printable(f"{doomed.name} is deleted."))
    if (copy := find_copy(backend.settings.home, project_id)) is not None:
        say(f"Your copy in {copy / doomed.slug} is kept.")
    return ExitCode.DONE


def _refuse_session_id(doomed: Project, sessions: list[SessionSummary], found: str) -> None:
    """Reject the id of one session where all sessions of its project would be deleted."""
    names = (doomed.name.lower(), doomed.slug, str(doomed.id), doomed.id.hex)
    if len(sessions) > 1 and not any(name.startswith(found.lower()) for name in names):
        raise UsageError(
            f"{found!r} is a session of {doomed.name!r}, which has {len(sessions)}. Name the "
            "project to delete all of them.",
            reason="is_session",
            subject=found,
        )


async def _confirm(doomed: Project, sessions: list[SessionSummary]) -> bool:
    what = f"{doomed.name!r} with {count(len(sessions), 'session')} and all documents"
    if not sys.stdin.isatty():
        raise UsageError(
            f"This would delete {what}. Standard input is not a terminal, so it cannot ask. Add "
            "--yes to delete it.",
            reason="unconfirmed",
            subject="--yes",
        )
    return await ask_yes(f"Delete {what}, for good? [y/N] ")


@click.group()
def resource() -> None:
    """Resources of a project: add, list and remove the files that every prompt includes."""


@resource.command(short_help="Add files to a project.")
@click.argument("found", metavar="PROJECT")
@click.argument("given", metavar="KIND=FILE...", nargs=-1, required=True)
@_json
@with_backend
async def add(backend: Backend, found: str, *, given: tuple[str, ...], as_json: bool) -> None:
    """Add files to PROJECT; running sessions have them in their next prompts."""
    bytes_max = backend.settings.max_prompt_bytes
    read = [read_resource(one, bytes_max=bytes_max) for one in given]
    project_id = await get_id_to_change(backend, Kind.PROJECT, found)
    added = [await backend.add_resource(project_id, one) for one in read]
    if as_json:
        echo_json([one.model_dump(include=set(Resource.model_fields)) for one in added])
        return
    for one in added:
        click.echo(printable(_line(one)))


@resource.command("list", short_help="List a project's resources.")
@click.argument("found", metavar="PROJECT")
@_json
@with_backend
async def list_resources(backend: Backend, found: str, *, as_json: bool) -> None:
    """List the resources of PROJECT with their ids."""
    listed = await _list(backend, await backend.get_id(Kind.PROJECT, found))
    if as_json:
        echo_json(listed)
        return
    if not listed:
        say("No resources. `resource add` adds one.")
    for one in listed:
        click.echo(printable(_line(one)))


@resource.command(short_help="Remove a resource.")
@click.argument("found", metavar="PROJECT")
@click.argument("resource_id", metavar="ID")
@with_backend
async def remove(backend: Backend, found: str, resource_id: str) -> None:
    """Remove the resource ID, or a prefix of it, from PROJECT; later prompts do not have it."""
    project_id = await get_id_to_change(backend, Kind.PROJECT, found)
    listed = await _list(backend, project_id)

    async def find(text: str) -> UUID:
        return _get(listed, text).id

    chosen = await get_to_change(find, resource_id)
    await backend.remove_resource(project_id, chosen)
    say(printable(f"Removed {_get(listed, str(chosen)).path}."))


async def _list(backend: Backend, project_id: UUID) -> list[Resource]:
    """List what a person gave to a project, without its prompt."""
    kinds = {kind.value for kind in ResourceKind}
    return [one for one in await backend.list_resources(project_id) if one.kind in kinds]


def _get(listed: list[Resource], text: str) -> Resource:
    digits = text.replace("-", "").lower()
    found = [one for one in listed if digits and one.id.hex.startswith(digits)]
    if not found:
        raise NotFound(
            f"Resource {text!r} does not exist in this project.",
            reason="no_resource",
            subject=text,
        )
    if len(found) > 1:
        ids = ", ".join(str(one.id) for one in found)
        raise UsageError(
            f"More than one resource id begins with {text!r}: {ids}. Give a full id.",
            reason="ambiguous_id",
            subject=text,
        )
    return found[0]


def _line(one: Resource) -> str:
    return f"{one.id}  {one.kind:<26} {one.size_bytes:>9,} bytes  {one.path}"
