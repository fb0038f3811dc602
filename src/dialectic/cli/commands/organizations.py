"""`dialectic org`: organisations and their members. For the operator."""

from __future__ import annotations

import click

from dialectic.app import accounts
from dialectic.app.accounts import LOCAL_USER, build_owner
from dialectic.cli.commands.users import enter_organization
from dialectic.cli.local import LocalBackend, run_local
from dialectic.cli.terminal import printable, say
from dialectic.core.access import Caller, Role
from dialectic.db.pool import Database
from dialectic.errors import ExitCode, NotFound

as_option = click.option(
    "--as", "acting", default=LOCAL_USER, show_default=True, help="The acting user."
)


@click.group()
def org() -> None:
    """Organisations: create, list, add, remove."""


async def _act_as(db: Database, name: str) -> Caller:
    return build_owner(await accounts.load_user(db, name))


@org.command()
@click.argument("name")
@as_option
def create(name: str, acting: str) -> None:
    """Create an organisation and print its id; the acting user owns it."""

    async def act(backend: LocalBackend) -> ExitCode:
        db = backend.engine.db
        caller = await _act_as(db, acting)
        made = await db.transact(
            caller.tenant_id, lambda c: accounts.create_organization(c, caller, name)
        )
        click.echo(str(made))
        return ExitCode.DONE

    run_local(act)


@org.command("list")
@click.argument("organization", required=False)
@as_option
def list_(organization: str | None, acting: str) -> None:
    """List the organisations of a user, or the members of one."""

    async def act(backend: LocalBackend) -> ExitCode:
        db = backend.engine.db
        caller = await _act_as(db, acting)
        if organization is None:
            for tenant in await accounts.list_tenants(db, caller):
                if tenant.kind == "organization":
                    click.echo(printable(f"{tenant.id}  {tenant.role:<7} {tenant.name}"))
            return ExitCode.DONE
        for member in await accounts.list_members(
            db, await enter_organization(db, caller, organization)
        ):
            click.echo(printable(f"{member.role:<7} {member.name}"))
        return ExitCode.DONE

    run_local(act)


@org.command(short_help="Add user NAME, or change a member's role.")
@click.argument("organization")
@click.argument("name")
@click.option(
    "--role",
    type=click.Choice([role.value for role in Role]),
    default=Role.MEMBER.value,
    show_default=True,
    help="The member's role.",
)
@as_option
def add(organization: str, name: str, role: str, acting: str) -> None:
    """Add user NAME to an organisation, or change a member's role."""

    async def act(backend: LocalBackend) -> ExitCode:
        db = backend.engine.db
        caller = await enter_organization(db, await _act_as(db, acting), organization)
        await accounts.set_member(db, caller, name, Role(role))
        say(f"{name!r} is {role} of {organization!r}.")
        return ExitCode.DONE

    run_local(act)


@org.command()
@click.argument("organization")
@click.argument("name")
@as_option
def remove(organization: str, name: str, acting: str) -> None:
    """Remove a member; their tokens there are revoked, their work is kept."""

    async def act(backend: LocalBackend) -> ExitCode:
        db = backend.engine.db
        caller = await enter_organization(db, await _act_as(db, acting), organization)
        members = {member.name: member for member in await accounts.list_members(db, caller)}
        if name not in members:
            raise NotFound(f"{name!r} is not a member of {organization!r}.")
        await accounts.remove_member(db, caller, members[name].user_id)
        say(f"Removed {name!r} from {organization!r}.")
        return ExitCode.DONE

    run_local(act)
