"""`dialectic project, resource`: existing projects and the files that every prompt includes."""

from __future__ import annotations

from uuid import UUID

import click

from dialectic.cli.backend import Backend, get_id_to_change, get_to_change, with_backend
from dialectic.cli.input import read_overlay, read_resource
from dialectic.cli.terminal import echo_json, printable, say
from dialectic.contract.projects import Kind, ProjectChange, Resource
from dialectic.core.documents.file_paths import ResourceKind
from dialectic.errors import NotFound, UsageError

LISTED_MAX = 50

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
@_json
@with_backend
async def list_projects(backend: Backend, *, limit: int, as_json: bool) -> None:
    """List your projects, newest first."""
    listed = await backend.list_projects(limit)
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
