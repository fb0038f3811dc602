"""`dialectic wallet`: balance, limit, deposits, transactions, costs, and a check of the ledger."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NoReturn
from uuid import UUID

import click

from dialectic.app import accounts
from dialectic.app.accounts import build_owner
from dialectic.cli.backend import Act, Backend, run_with_backend
from dialectic.cli.local import LocalAct, LocalBackend, run_local
from dialectic.cli.terminal import count, echo_json, printable, say, show_time
from dialectic.contract.base import build_record, read_credits
from dialectic.contract.summaries import Kind, Money, Wallet
from dialectic.core.money.price import format_credits, parse_usd
from dialectic.db.pool import Database
from dialectic.db.tables.accounts import list_users
from dialectic.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from dialectic.contract.accounts import Cost, Transaction
    from dialectic.ledger.audit import Breach, Size

HISTORY_MAX = 10_000
# A leading minus is part of an amount, not an option, so that the error names the amount.
AMOUNT = {"ignore_unknown_options": True}

as_json_option = click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
user_option = click.option(
    "--as", "user", metavar="USER", help="The wallet of this user; default: your own."
)
org_option = click.option(
    "--org", metavar="ORG", help="The wallet of the user's organisation: its id or name."
)


@click.group()
def wallet() -> None:
    """Money: balance, limit, deposits, transactions, costs, and a check of the ledger."""


# -- whose it is -----------------------------------------------------------------------------------


async def go_to(backend: LocalBackend, user: str | None, org: str | None) -> LocalBackend:
    """Act as a user, or in one of their organisations, as an operator may."""
    if user is None and org is None:
        return backend
    from dialectic.cli.commands.users import enter_organization

    db = backend.engine.db
    account = backend.account if user is None else await accounts.load_user(db, user)
    if org is not None:
        caller = await enter_organization(db, build_owner(account), org)
        account = await accounts.load_account(db, caller)
    return dataclasses.replace(backend, account=account)


def act_for(act: LocalAct, user: str | None, org: str | None) -> NoReturn:
    """Run a command on the given user's wallet, in the local database."""

    async def act_there(backend: LocalBackend) -> ExitCode | None:
        return await act(await go_to(backend, user, org))

    run_local(act_there)


def look_for(act: Act, user: str | None, org: str | None) -> NoReturn:
    """Read your own wallet, here or on a server; another's only in the local database."""
    if user is None and org is None:
        run_with_backend(act)
    act_for(act, user, org)


# -- what there is ---------------------------------------------------------------------------------


@wallet.command(short_help="Show the wallet's balance.")
@user_option
@org_option
@as_json_option
def balance(user: str | None, org: str | None, *, as_json: bool) -> None:
    """Show the wallet's balance, the part reserved for unsettled calls, and the rest."""

    async def work(backend: Backend) -> ExitCode:
        found = await backend.load_wallet()
        if as_json:
            echo_json(_build_json(found))
        else:
            click.echo("\n".join(describe_wallet(found)))
        return ExitCode.DONE

    look_for(work, user, org)


def _build_json(found: Wallet) -> dict[str, object]:
    """Build the JSON of a wallet, in credits."""
    return {
        "id": found.id,
        "user_id": found.user_id,
        "balance_credits": read_credits(found.money.balance),
        "held_credits": read_credits(found.money.held),
        "play_balance_credits": read_credits(found.play_money.balance),
        "play_held_credits": read_credits(found.play_money.held),
        "is_count_only": found.is_count_only,
    }


def describe_wallet(found: Wallet) -> Iterator[str]:
    """Describe a wallet, with play money apart."""
    describe = _describe_counted if found.is_count_only else _describe_money
    yield describe(found.money, is_play=False)
    yield _describe_money(found.play_money, is_play=True)
    if found.is_count_only:
        yield "no limit: spending is counted, and no call is rejected for lack of money"


def _describe_money(money: Money, *, is_play: bool) -> str:
    shown, held, left = (
        _format(amount, is_play=is_play) for amount in (money.balance, money.held, money.available)
    )
    if not read_credits(money.held):
        return shown
    return f"{shown}, of which {held} is reserved for unsettled calls; {left} is available"


def _describe_counted(money: Money, *, is_play: bool) -> str:
    """Describe money without a limit: what was spent, unless more was added than that."""
    balance = read_credits(money.balance)
    if balance > 0:
        return _describe_money(money, is_play=is_play)
    reserved = ""
    if read_credits(money.held):
        held = _format(money.held, is_play=is_play)
        reserved = f"; {held} more is reserved for unsettled calls"
    return f"{format_credits(-balance, is_play=is_play)} spent{reserved}"


def _format(dollars: str, *, is_play: bool) -> str:
    return format_credits(read_credits(dollars), is_play=is_play)


@wallet.command(context_settings=AMOUNT)
@click.argument("amount_usd")
@click.option("--note", help="A note for the transaction.")
@click.option("--play", is_flag=True, help="Play money, for offline models.")
@click.option("--grant", is_flag=True, help="Record it as a grant by the operator.")
@user_option
@org_option
def topup(
    amount_usd: str, note: str | None, user: str | None, org: str | None, *, play: bool, grant: bool
) -> None:
    """Add AMOUNT_USD dollars to the wallet, for example `20` or `0.5`."""
    from dialectic.app import wallet as use_cases
    from dialectic.contract.accounts import NOTE_CHARS_MAX

    if len(note or "") > NOTE_CHARS_MAX:
        raise UsageError(f"The note is longer than {NOTE_CHARS_MAX} characters. Shorten it.")
    amount_credits = parse_usd(amount_usd)

    async def work(backend: LocalBackend) -> ExitCode:
        woken = await backend.tenant.run(
            use_cases.top_up, amount_credits, is_play=play, is_grant=grant, note=note
        )
        say(f"Added {format_credits(amount_credits, is_play=play)}. Left:")
        click.echo("\n".join(describe_wallet(await backend.load_wallet())))
        _tell_woken(woken, is_own=user is None and org is None)
        return ExitCode.DONE

    act_for(work, user, org)


def _tell_woken(woken: list[UUID], *, is_own: bool) -> None:
    for session_id in woken:
        how = f"`dialectic resume {str(session_id)[:8]}`" if is_own else "any worker"
        say(f"Session {session_id} was waiting for money: {how} continues it.")


@wallet.command(context_settings=AMOUNT, short_help="Spend at most AMOUNT_USD from now on.")
@click.argument("amount_usd")
@user_option
@org_option
def limit(amount_usd: str, user: str | None, org: str | None) -> None:
    """Spend at most AMOUNT_USD dollars from now on; `unlimited` removes the limit."""
    from dialectic.app import wallet as use_cases

    amount_credits = parse_usd(amount_usd)

    async def work(backend: LocalBackend) -> ExitCode:
        woken = await backend.tenant.run(use_cases.set_limit, amount_credits)
        say("Limit set. Left:")
        click.echo("\n".join(describe_wallet(await backend.load_wallet())))
        _tell_woken(woken, is_own=user is None and org is None)
        return ExitCode.DONE

    act_for(work, user, org)


@wallet.command()
@click.option("--off", is_flag=True, help="Restore the wallet's limit.")
@user_option
@org_option
def unlimited(user: str | None, org: str | None, *, off: bool) -> None:
    """Remove the wallet's limit; spending is still counted."""
    from dialectic.app import wallet as use_cases

    async def work(backend: LocalBackend) -> ExitCode:
        woken = await backend.tenant.run(use_cases.set_unlimited, is_unlimited=not off)
        click.echo("\n".join(describe_wallet(await backend.load_wallet())))
        _tell_woken(woken, is_own=user is None and org is None)
        return ExitCode.DONE

    act_for(work, user, org)


# -- where it went ---------------------------------------------------------------------------------


@wallet.command()
@click.option(
    "--limit",
    type=click.IntRange(1, HISTORY_MAX),
    default=50,
    show_default=True,
    help="Maximum number of lines.",
)
@user_option
@org_option
@as_json_option
def history(limit: int, user: str | None, org: str | None, *, as_json: bool) -> None:
    """Show the wallet's transactions, newest first."""

    async def work(backend: Backend) -> ExitCode:
        found = await backend.list_history(limit)
        if as_json:
            echo_json({"transfers": [build_record(one) for one in found]})
        for one in () if as_json else found:
            click.echo(printable(describe_transaction(one)))
        return ExitCode.DONE

    look_for(work, user, org)


def describe_transaction(one: Transaction) -> str:
    """Describe one transaction."""
    is_charged = read_credits(one.change) != 0
    amount = _format(one.change if is_charged else one.amount, is_play=one.is_play)
    after = _format(one.balance_after, is_play=one.is_play)
    parts = (
        one.purpose,
        one.model,
        one.stage,
        str(one.session_id)[:8] if one.session_id else None,
        one.notes,
        None if is_charged else "not charged to the wallet",
    )
    about = ", ".join(part for part in parts if part)
    return (
        f"{show_time(one.created_at)}  {one.type:<8}  {amount:>16}  {after:>20}  {about}"
    ).rstrip()


@wallet.command(short_help="Show what SESSION has spent, by stage and model.")
@click.argument("session")
@user_option
@org_option
@as_json_option
def costs(session: str, user: str | None, org: str | None, *, as_json: bool) -> None:
    """Show what SESSION (an id or a prefix of one) has spent, by stage and model."""

    async def work(backend: Backend) -> ExitCode:
        session_id = await backend.get_id(Kind.SESSION, session)
        found = await backend.list_costs(session_id)
        if as_json:
            echo_json({"session_id": session_id, "costs": [build_record(one) for one in found]})
            return ExitCode.DONE
        for line in describe_costs(found):
            click.echo(printable(line))
        if not found:
            say("This session has spent nothing yet.")
        return ExitCode.DONE

    look_for(work, user, org)


def describe_costs(found: list[Cost]) -> Iterator[str]:
    """Format costs as a table, with a total for each kind of money."""
    seats: dict[str, set[int | None]] = {}
    for cost in found:
        seats.setdefault(cost.model, set()).add(cost.seat)
    for cost in found:
        kind = "" if cost.purpose == "call" else f" {cost.purpose}"
        kind += f" (seat {cost.seat})" if cost.seat and len(seats[cost.model]) > 1 else ""
        spent = _format(cost.charged, is_play=cost.is_play)
        yield (
            f"{cost.stage or '-':<14}  {cost.model + kind:<28}"
            f"  {count(cost.calls, 'call'):>9}  {cost.input_tokens:>11,} read"
            f"  {cost.output_tokens:>9,} written  {spent:>14}{_describe_rest(cost)}"
        )
    for is_play in (False, True):
        of_kind = [cost for cost in found if cost.is_play is is_play]
        if of_kind:
            total = sum(read_credits(cost.charged) for cost in of_kind)
            calls = sum(cost.calls for cost in of_kind)
            yield f"total  {count(calls, 'call')}, {format_credits(total, is_play=is_play)}"


def _describe_rest(cost: Cost) -> str:
    def tell(words: str, amount: str) -> Iterable[str]:
        if read_credits(amount):
            yield f"; {words} {_format(amount, is_play=cost.is_play)}"

    return "".join(
        [
            *tell("set aside", cost.held),
            *tell("beyond the reservation, not charged:", cost.overrun),
            *tell(f"{count(cost.lost_calls, 'response')} lost, not charged:", cost.lost),
        ]
    )


# -- whether the books are right -------------------------------------------------------------------


@wallet.command()
@click.option("--all", "is_all", is_flag=True, help="Check every user and organisation.")
@user_option
@org_option
@as_json_option
def verify(user: str | None, org: str | None, *, is_all: bool, as_json: bool) -> None:
    """Check the ledger; exits 1 and lists the errors if it is wrong."""
    if is_all and (user is not None or org is not None):
        raise UsageError("--all covers everyone. Omit --as and --org.")
    from dialectic.ledger import audit
    from dialectic.ledger.audit import Size

    async def work(backend: LocalBackend) -> ExitCode:
        db = backend.engine.db
        tenants = await _list_tenants(db) if is_all else [backend.account.tenant_id]
        breaches: list[Breach] = []
        size = Size(0, 0, 0)
        for tenant_id in tenants:
            breaches += await audit.verify_tenant(db, tenant_id)
            size = size.add(await db.transact(tenant_id, audit.count_all))
        _tell_checked(breaches, size, as_json=as_json)
        return ExitCode.FAILED if breaches else ExitCode.DONE

    act_for(work, user, org)


async def _list_tenants(db: Database) -> list[UUID]:
    """List every user's own account and every organisation once."""
    from dialectic.cli.commands.users import list_callers

    callers = [
        caller for user in await list_users(db) for caller in await list_callers(db, user.name)
    ]
    return list(dict.fromkeys(caller.tenant_id for caller in callers))


def _tell_checked(breaches: list[Breach], size: Size, *, as_json: bool) -> None:
    if as_json:
        found = [dataclasses.asdict(breach) for breach in breaches]
        echo_json({"breaches": found, **dataclasses.asdict(size)})
        return
    for breach in breaches:
        click.echo(printable(f"{breach.invariant:<4} {breach.place}: {breach.detail}"))
    checked = (
        f"{count(size.wallets, 'wallet')}, {count(size.holds, 'hold')} and "
        f"{count(size.transfers, 'transfer')}"
    )
    say(f"Checked {checked}: {f'{len(breaches)} wrong' if breaches else 'all is right'}.")
