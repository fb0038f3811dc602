"""`dialectic user, org`: users, their API tokens and organisations. For the operator."""

from __future__ import annotations

from uuid import UUID

import click

from dialectic.app import accounts
from dialectic.app.accounts import LOCAL_USER, IssuedToken, build_owner
from dialectic.cli.local import LocalBackend, run_local, with_local_backend
from dialectic.cli.terminal import count, echo_json, printable, say
from dialectic.core.access import LIFE_DAYS, LIFE_DAYS_MAX, Caller, Role, Scope
from dialectic.db.pool import Database
from dialectic.db.tables import accounts as store
from dialectic.db.tables.accounts import Token
from dialectic.errors import ExitCode, NotFound, Remedy, RemedyAction, UsageError

TOKEN_NAME = "command line"  # noqa: S105  what a token is called

as_json_option = click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")


@click.group()
def user() -> None:
    """Users and their tokens: add, token, list, revoke."""


@user.command()
@click.argument("name")
@click.option("--token", is_flag=True, help="Also create a token and print it.")
@with_local_backend
async def add(backend: LocalBackend, name: str, *, token: bool) -> None:
    """Create a user with their own account."""
    caller = build_owner(await accounts.add_user(backend.engine.db, name))
    say(f"Created user {name!r}.")
    if token:
        _show(await accounts.issue_token(backend.engine.db, caller, name=TOKEN_NAME))


@user.command("token")
@click.argument("name")
@click.option("--name", "label", default=TOKEN_NAME, show_default=True, help="The token's name.")
@click.option(
    "--expires",
    "life_days",
    type=click.IntRange(1, LIFE_DAYS_MAX),
    default=LIFE_DAYS,
    show_default=True,
    metavar="DAYS",
    help="Days until it expires.",
)
@click.option(
    "--scope",
    "scopes",
    type=click.Choice([scope.value for scope in Scope]),
    multiple=True,
    help="What the token allows; repeatable. Default: all scopes.",
)
@click.option("--org", "organization", help="The organisation it acts in: its id or name.")
@with_local_backend
async def token_(
    backend: LocalBackend,
    name: str,
    label: str,
    life_days: int,
    scopes: tuple[str, ...],
    organization: str | None,
) -> None:
    """Create another token for user NAME and print it."""
    db = backend.engine.db
    caller = build_owner(await accounts.load_user(db, name))
    if organization is not None:
        caller = await enter_organization(db, caller, organization)
    wanted = [Scope(scope) for scope in scopes] or None
    issued = await accounts.issue_token(db, caller, name=label, scopes=wanted, life_days=life_days)
    _show(issued)


def _show(issued: IssuedToken) -> None:
    """Print a token once, alone on the last line of stdout."""
    say(
        f"Token {issued.id} ({', '.join(sorted(issued.scopes))}) expires on "
        f"{issued.expires_at:%Y-%m-%d}. It is shown only once. `dialectic serve` now requires "
        "a token from everyone."
    )
    click.echo(issued.secret.reveal())


async def enter_organization(db: Database, caller: Caller, text: str) -> Caller:
    """Switch a user to one of their organisations, by its id or name."""
    tenants = await accounts.list_tenants(db, caller)
    found = [
        tenant
        for tenant in tenants
        if tenant.kind == "organization" and text in (str(tenant.id), tenant.name)
    ]
    if not found:
        raise NotFound(
            f"This user has no organisation {text!r}.",
            reason="no_organization",
            subject=text,
            remedy=Remedy(RemedyAction.LIST_ORGANIZATIONS),
        )
    if len(found) > 1:
        raise UsageError(
            f"More than one organisation is called {text!r}. Give its id.", reason="ambiguous_name"
        )
    return Caller(found[0].id, caller.user_id, caller.scopes, token_id=None)


@user.command("list")
@click.argument("name", required=False)
@as_json_option
@with_local_backend
async def list_(backend: LocalBackend, name: str | None, *, as_json: bool) -> None:
    """List all users, or the tokens of user NAME."""
    if name is None:
        await _list_users(backend.engine.db, as_json=as_json)
    else:
        await _list_tokens(backend.engine.db, name, as_json=as_json)


async def _list_users(db: Database, *, as_json: bool) -> None:
    for found in await store.list_users(db):
        if as_json:
            echo_json({"name": found.name, "created_at": found.created_at, "tokens": found.tokens})
        else:
            made = f"{found.created_at:%Y-%m-%d}"
            click.echo(printable(f"{found.name:<24} since {made}  {count(found.tokens, 'token')}"))


async def _list_tokens(db: Database, name: str, *, as_json: bool) -> None:
    for caller in await list_callers(db, name):
        for token in await accounts.list_tokens(db, caller):
            if token.user_id != caller.user_id:
                continue
            if as_json:
                echo_json(_describe_token(token, caller))
            else:
                used = f"{token.last_used_at:%Y-%m-%d}" if token.last_used_at else "never"
                click.echo(
                    printable(
                        f"{token.id}  {token.name:<20} ends {token.expires_at:%Y-%m-%d}  "
                        f"used {used}  {','.join(token.scopes)}"
                    )
                )


def _describe_token(token: Token, caller: Caller) -> dict[str, object]:
    return {
        "id": token.id,
        "tenant_id": caller.tenant_id,
        "name": token.name,
        "scopes": list(token.scopes),
        "created_at": token.created_at,
        "expires_at": token.expires_at,
        "last_used_at": token.last_used_at,
    }


async def list_callers(db: Database, name: str) -> list[Caller]:
    """List a user's callers, one for each of their tenants."""
    caller = build_owner(await accounts.load_user(db, name))
    return [
        Caller(tenant.id, caller.user_id, caller.scopes, token_id=None)
        for tenant in await accounts.list_tenants(db, caller)
    ]


@user.command(short_help="Revoke a token of user NAME, at once and for good.")
@click.argument("name")
@click.argument("token_id", type=click.UUID, required=False)
@click.option("--all", "is_all", is_flag=True, help="Every token of the user.")
def revoke(name: str, token_id: UUID | None, *, is_all: bool) -> None:
    """Revoke a token of user NAME, at once and for good; `user list NAME` shows their ids."""
    if (token_id is None) is not is_all:
        raise UsageError("Give the id of a token, or --all.")

    async def act(backend: LocalBackend) -> ExitCode:
        db = backend.engine.db
        revoked = 0
        for caller in await list_callers(db, name):
            for token in await accounts.list_tokens(db, caller):
                if token.user_id == caller.user_id and (is_all or token.id == token_id):
                    await accounts.revoke_token(db, caller, token.id)
                    revoked += 1
        if not revoked and not is_all:
            raise NotFound(
                f"{name!r} has no token {token_id}.",
                reason="no_token",
                subject=str(token_id),
                remedy=Remedy(RemedyAction.LIST_TOKENS, user=name),
            )
        say(f"Revoked {count(revoked, 'token')}.")
        return ExitCode.DONE

    run_local(act)


# -- organisations ---------------------------------------------------------------------------------

as_option = click.option(
    "--as", "acting", default=LOCAL_USER, show_default=True, help="The acting user."
)


@click.group()
def org() -> None:
    """Organisations: create, list, add, remove."""


async def _act_as(db: Database, name: str) -> Caller:
    return build_owner(await accounts.load_user(db, name))


@org.command("create")
@click.argument("name")
@as_option
@with_local_backend
async def create_organization(backend: LocalBackend, name: str, acting: str) -> None:
    """Create an organisation and print its id; the acting user owns it."""
    db = backend.engine.db
    caller = await _act_as(db, acting)
    made = await db.transact(
        caller.tenant_id, lambda c: accounts.create_organization(c, caller, name)
    )
    click.echo(str(made))


@org.command("list")
@click.argument("organization", required=False)
@as_option
@with_local_backend
async def list_organizations(backend: LocalBackend, organization: str | None, acting: str) -> None:
    """List the organisations of a user, or the members of one."""
    db = backend.engine.db
    caller = await _act_as(db, acting)
    if organization is None:
        for tenant in await accounts.list_tenants(db, caller):
            if tenant.kind == "organization":
                click.echo(printable(f"{tenant.id}  {tenant.role:<7} {tenant.name}"))
        return
    for member in await accounts.list_members(
        db, await enter_organization(db, caller, organization)
    ):
        click.echo(printable(f"{member.role:<7} {member.name}"))


@org.command("add", short_help="Add user NAME, or change a member's role.")
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
@with_local_backend
async def add_member(
    backend: LocalBackend, organization: str, name: str, role: str, acting: str
) -> None:
    """Add user NAME to an organisation, or change a member's role."""
    db = backend.engine.db
    caller = await enter_organization(db, await _act_as(db, acting), organization)
    await accounts.set_member(db, caller, name, Role(role))
    say(f"{name!r} is {role} of {organization!r}.")


@org.command("remove")
@click.argument("organization")
@click.argument("name")
@as_option
@with_local_backend
async def remove_member(backend: LocalBackend, organization: str, name: str, acting: str) -> None:
    """Remove a member; their tokens there are revoked, their work is kept."""
    db = backend.engine.db
    caller = await enter_organization(db, await _act_as(db, acting), organization)
    members = {member.name: member for member in await accounts.list_members(db, caller)}
    if name not in members:
        raise NotFound(f"{name!r} is not a member of {organization!r}.")
    await accounts.remove_member(db, caller, members[name].user_id)
    say(f"Removed {name!r} from {organization!r}.")
