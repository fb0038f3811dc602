"""Only the ledger's functions move money, and errors are found."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from uuid import uuid4

import asyncpg
import pytest

from dialectic.db.pool import APP_ROLE, WORKER_ROLE, Address, Connection, connect, read_rule
from dialectic.engine import Engine
from dialectic.errors import NotFound
from dialectic.ledger import audit, holds, wallets
from dialectic.ledger.holds import Purpose
from dialectic.ledger.wallets import Deposit
from tests.database.job_table import AdminConnection, make_session
from tests.database.wallet_fixture import AccountWallet, used
from tests.problems import violated

ROLES = (APP_ROLE, WORKER_ROLE)
every_role = pytest.mark.parametrize("role", ROLES)


@pytest.fixture(scope="module")
def address(module_address: Address) -> Address:
    return module_address


@pytest.fixture
async def wallet(engine: Engine) -> AsyncIterator[AccountWallet]:
    async with AccountWallet.open(engine, amount=1000) as opened:
        yield opened


@asynccontextmanager
async def acting(wallet: AccountWallet, role: str, address: Address) -> AsyncIterator[Connection]:
    """A raw connection of a role, in a transaction of the wallet's tenant that comes to nothing."""
    connection = await connect(address, role)
    try:
        await connection.execute("begin")
        await connection.execute(
            "select set_config('dialectic.tenant', $1, true)", str(wallet.account.tenant_id)
        )
        yield connection
    finally:
        connection.terminate()


# -- those who log in ------------------------------------------------------------------------------

RAW = {
    "give oneself money": "update token_wallets set balance_credits = 10000000",
    "take off the limit": "update token_wallets set is_count_only = true",
    "free what is held": "update token_wallets set held_credits = 0",
    "make a rich wallet": "insert into token_wallets (tenant_id, id, balance_credits)"
    " values (current_tenant(), gen_random_uuid(), 10000000)",
    "delete the wallet": "delete from token_wallets",
    "write into the journal": "insert into token_wallet_transactions (tenant_id, wallet_id,"
    " transaction_type, from_account, to_account, amount_credits, balance_after_credits,"
    " idempotency_key) select tenant_id, id, 'grant', 'grants', 'wallet', 5, 1005, 'mine'"
    " from token_wallets",
    "change the journal": "update token_wallet_transactions set amount_credits = 1",
    "delete from the journal": "delete from token_wallet_transactions",
    "empty the journal": "truncate token_wallet_transactions",
    "resolve a hold by hand": "update token_wallet_holds set state = 'voided', cost_credits = 0,"
    " charged_credits = 0, resolved_at = now()",
    "make a hold cheaper": "update token_wallet_holds set amount_credits = 0",
    "delete a hold": "delete from token_wallet_holds",
    "empty the holds": "truncate token_wallet_holds",
    "raise the budget": "update dialectic_session_spending set budget_credits = 10000000",
    "forget what was spent": "delete from dialectic_session_spending",
    "move what was never settled": "select move_funds()",
    "put in without a name": "select put_in(current_tenant(), gen_random_uuid(), false, 'grant',"
    " 1, 'k', null, null)",
    "begin with play money again": "select make_wallet(current_tenant(), null)",
}


@every_role
@pytest.mark.parametrize("deed", RAW)
async def test_no_login_role_can(
    wallet: AccountWallet, address: Address, role: str, deed: str
) -> None:
    await wallet.reserve(100)
    async with acting(wallet, role, address) as connection:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute(RAW[deed])
    assert await wallet.figures() == (1000, 100)


async def test_a_worker_can_make_no_money(wallet: AccountWallet, address: Address) -> None:
    deposit = Deposit(key="mine", amount_credits=1)
    for deed in (
        lambda c: wallets.top_up(c, wallet.wallet_id, deposit),
        lambda c: wallets.grant(c, wallet.wallet_id, deposit),
        lambda c: wallets.set_unlimited(c, wallet.wallet_id, is_unlimited=True),
        lambda c: wallets.open_wallet(c, None),
        lambda c: wallets.set_budget(c, uuid4(), 1),
    ):
        async with acting(wallet, WORKER_ROLE, address) as connection:
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await deed(connection)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("fund_wallet($1, false, 'top_up', -5, 'k', null, null)", "a_transfer_moves_something"),
        ("fund_wallet($1, false, 'top_up', 0, 'k', null, null)", "a_transfer_moves_something"),
        ("fund_wallet($1, false, 'usage', 5, 'k', null, null)", "a_transfer_has_its_accounts"),
        ("fund_wallet($1, false, 'loot', 5, 'k', null, null)", "a_transfer_has_its_accounts"),
        (
            "reserve_funds(null, null, 'k', $1, false, 'call', 'a/1', null, null, null, null,"
            " -1, 0, 0, 0, 0)",
            "credits_check",
        ),
        (
            "reserve_funds(null, null, 'k', $1, false, 'call', 'a/1', null, null, null, null,"
            " 9, 1, 1, 5, 5)",
            "a_hold_covers_what_it_allows",
        ),
        (
            "reserve_funds(null, null, 'k', $1, false, 'fun', 'a/1', null, null, null, null,"
            " 9, 1, 1, 4, 5)",
            "hold_purpose_check",
        ),
    ],
)
async def test_the_functions_refuse_what_makes_no_sense(
    wallet: AccountWallet, address: Address, call: str, error: str
) -> None:
    async with acting(wallet, APP_ROLE, address) as connection:
        with violated(error):
            await connection.execute(f"select from {call}", wallet.wallet_id)


@pytest.mark.parametrize(("read", "written"), [(-1, 5), (5, -1)])
async def test_usage_below_nothing_cannot_be_settled(
    wallet: AccountWallet, read: int, written: int
) -> None:
    hold = await wallet.reserve(100)
    with pytest.raises(asyncpg.CheckViolationError):
        await wallet.settle(hold, used(written, input_tokens=read))


@every_role
async def test_money_of_another_tenant_is_out_of_reach(
    engine: Engine, wallet: AccountWallet, address: Address, role: str
) -> None:
    hold = await wallet.reserve(100)
    async with AccountWallet.open(engine) as stranger:
        for deed in (
            lambda c: holds.reserve(c, wallet.build(1)),
            lambda c: holds.settle(c, hold.key, used(1), uuid4()),
            lambda c: holds.void(c, hold.key),
            lambda c: holds.lose(c, hold.key),
            lambda c: holds.load_hold(c, hold.key),
            lambda c: wallets.load_wallet(c, wallet.wallet_id),
        ):
            async with acting(stranger, role, address) as connection:
                with pytest.raises(NotFound):
                    await deed(connection)
    assert await wallet.figures() == (1000, 100)


@every_role
async def test_without_a_tenant_no_money_moves(
    wallet: AccountWallet, address: Address, role: str
) -> None:
    hold = await wallet.reserve(100)
    connection = await connect(address, role)
    with pytest.raises(NotFound):
        await holds.void(connection, hold.key)
    with pytest.raises(asyncpg.NotNullViolationError):
        await holds.reserve(connection, wallet.build(1))
    await connection.close()


# -- those who own everything ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("deed", "rule"),
    [
        ("update token_wallet_transactions set notes = 'better'", "append_only"),
        ("delete from token_wallet_transactions", "append_only"),
        ("truncate token_wallet_transactions", "append_only"),
        (
            "update token_wallet_holds set amount_credits = 100 where state = 'pending'",
            "hold_never_changes",
        ),
        ("update token_wallet_holds set flags = '{}' where state = 'posted'", "hold_ends_once"),
        ("delete from token_wallet_holds", "append_only"),
        ("truncate token_wallet_holds", "append_only"),
    ],
)
async def test_not_even_the_owner_changes_what_is_written(
    wallet: AccountWallet, admin: AdminConnection, deed: str, rule: str
) -> None:
    await wallet.settle(await wallet.reserve(100), used(5))
    await wallet.reserve(50)
    with pytest.raises(asyncpg.PostgresError) as refused:
        await admin.execute(deed)
    assert refused.value.sqlstate == "DJ002"
    assert read_rule(refused.value) == rule


# -- the audit -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LedgerRows:
    """Books, and where things are in them."""

    wallet: AccountWallet
    names: dict[str, object]


@pytest.fixture
async def ledger_rows(engine: Engine, wallet: AccountWallet) -> AsyncIterator[LedgerRows]:
    """Books with something of every kind in them."""
    session_id = (await make_session(engine, wallet.account)).session_id
    await wallet.ask(lambda c: wallets.set_budget(c, session_id, 900))
    usage = await wallet.reserve(100, session_id=session_id)
    await wallet.settle(usage, used(40))
    await wallet.settle(await wallet.reserve(100, session_id=session_id), used(130))
    await wallet.lose(await wallet.reserve(100, session_id=session_id))
    await wallet.void(await wallet.reserve(100, session_id=session_id))
    call = await wallet.reserve(10, purpose=Purpose.CALL)
    await wallet.transact(lambda c: holds.settle(c, call.key, used(10), None))
    pending = await wallet.reserve(100, session_id=session_id)
    names: dict[str, object] = {"tenant": wallet.account.tenant_id, "wallet": wallet.wallet_id}
    names |= {"session": session_id, "usage": usage.key, "call": call.key, "pending": pending.key}
    yield LedgerRows(wallet, names)
    await wallet.void(pending)


UNLIMITED = (
    "alter table token_wallets drop constraint wallet_is_never_overdrawn,"
    " drop constraint wallet_play_is_never_overdrawn"
)
UNCHECKED = "alter table token_wallet_holds drop constraint a_hold_pays_what_its_state_says"
FREE = (
    "alter table token_wallet_transactions drop constraint a_transfer_has_its_accounts,"
    " drop constraint a_transfer_moves_something"
)
MINE = "wallet_id = '{wallet}' and tenant_id = '{tenant}'"
CONTRIBUTION = "00000000-0000-0000-0000-0000000000c1"
ANSWER = (
    "insert into dialectic_contributions (tenant_id, id, session_id, job_id, model_name, stage,"
    " iteration_number, contribution_type, content, storage_path,"
    " raw_response_storage_path, size_bytes) values ('{tenant}', '" + CONTRIBUTION + "',"
    " '{session}', gen_random_uuid(), 'a/1', 'thesis', 1, 'thesis', 'a',"
    " 'a.md', 'a.json', 1)"
)
# What is done, the invariants that it breaks, and a place that must be named.
PLANTED: dict[str, tuple[str, set[str], str]] = {
    "more held than there is": (
        UNLIMITED + "; update token_wallets set held_credits = 5000 where id = '{wallet}'",
        {"I1", "I3"},
        "wallet {wallet}",
    ),
    "less held than nothing, of play money": (
        "alter table token_wallets alter column play_held_credits type bigint;"
        " update token_wallets set play_held_credits = -1 where id = '{wallet}'",
        {"I1", "I3"},
        "wallet {wallet}",
    ),
    "a balance from nowhere": (
        "update token_wallets set balance_credits = balance_credits + 1 where id = '{wallet}'",
        {"I2"},
        "wallet {wallet}",
    ),
    "play money from nowhere": (
        "update token_wallets set play_balance_credits = 2000000000 where id = '{wallet}'",
        {"I2"},
        "wallet {wallet}",
    ),
    "something held for nothing": (
        "update token_wallets set held_credits = held_credits + 1 where id = '{wallet}'",
        {"I3"},
        "wallet {wallet}",
    ),
    "a wallet that is gone": (
        "delete from token_wallets where id = '{wallet}'",
        {"I2", "I3"},
        "wallet {wallet}",
    ),
    "money that comes from the wrong account": (
        FREE + "; update token_wallet_transactions set from_account = 'overrun'"
        " where transaction_type = 'top_up' and " + MINE,
        {"I4"},
        "of wallet {wallet}",
    ),
    "a transfer backwards": (
        FREE + "; update token_wallet_transactions set amount_credits = -30"
        " where transaction_type = 'overrun' and " + MINE,
        {"I4", "I5"},
        "of wallet {wallet}",
    ),
    "a settlement that the journal lacks": (
        "delete from token_wallet_transactions where idempotency_key = '{usage}' and " + MINE,
        {"I2", "I5", "I9"},
        "hold {usage}",
    ),
    "a settlement that is written twice": (
        "alter table token_wallet_transactions drop constraint a_transfer_happens_once;"
        " insert into token_wallet_transactions (tenant_id, wallet_id, transaction_type,"
        " from_account, to_account, amount_credits, balance_after_credits, idempotency_key)"
        " select tenant_id, wallet_id, transaction_type, from_account, to_account, amount_credits,"
        " balance_after_credits, idempotency_key from token_wallet_transactions"
        " where idempotency_key = '{usage}' and " + MINE,
        {"I2", "I8", "I9"},
        "constraint a_transfer_happens_once",
    ),
    "a usage without a hold": (
        "insert into token_wallet_transactions (tenant_id, wallet_id, transaction_type,"
        " from_account, to_account, amount_credits, balance_after_credits, idempotency_key)"
        " select tenant_id, id, 'usage', 'wallet', 'provider', 1, balance_credits - 1, 'ghost'"
        " from token_wallets where id = '{wallet}';"
        " update token_wallets set balance_credits = balance_credits - 1 where id = '{wallet}'",
        {"I5"},
        "hold ghost",
    ),
    "an overrun that the journal lacks": (
        "delete from token_wallet_transactions where transaction_type = 'overrun' and " + MINE,
        {"I5"},
        "hold ",
    ),
    "a loss that is called an overrun": (
        "update token_wallet_transactions set transaction_type = 'overrun',"
        " from_account = 'overrun' where transaction_type = 'loss' and " + MINE,
        {"I5"},
        "hold ",
    ),
    "a hold that says it paid less": (
        UNCHECKED + "; update token_wallet_holds set charged_credits = 1"
        " where hold_key = '{usage}' and " + MINE,
        {"I5", "I7"},
        "hold {usage}",
    ),
    "a hold that is open again": (
        UNCHECKED + "; update token_wallet_holds set state = 'pending', resolved_at = null"
        " where hold_key = '{usage}' and " + MINE,
        {"I3", "I5", "I7"},
        "hold {usage}",
    ),
    "an answer that nobody paid for": (ANSWER, {"I6"}, f"contribution {CONTRIBUTION}"),
    "a call that is paid for and not answered": (
        "update token_wallet_holds set flags = '{{}}' where hold_key = '{call}' and " + MINE,
        {"I6"},
        "hold {call}",
    ),
    "an answer that is not there": (
        "update token_wallet_holds set answer_id = '" + CONTRIBUTION + "',"
        " session_id = '{session}' where hold_key = '{call}' and " + MINE,
        {"I6", "I7"},
        "hold {call}",
    ),
    "a session that forgets what it spent": (
        "update dialectic_session_spending set spent_credits = 0 where session_id = '{session}'",
        {"I7"},
        "session {session}",
    ),
    "a session over its budget": (
        "alter table dialectic_session_spending drop constraint a_budget_is_never_exceeded;"
        " update dialectic_session_spending set budget_credits = 1 where session_id = '{session}'",
        {"I7"},
        "session {session}",
    ),
    "a journal that can be changed": (
        "alter table token_wallet_transactions disable trigger wallet_transactions_never_change",
        {"I8"},
        "trigger wallet_transactions_never_change",
    ),
    "holds that come to nothing": (
        "drop trigger holds_move_funds on token_wallet_holds",
        {"I8"},
        "trigger holds_move_funds",
    ),
    "holds that can be deleted": (
        "drop trigger holds_never_vanish on token_wallet_holds",
        {"I8"},
        "trigger holds_never_vanish",
    ),
    "an amount that was changed": (
        "update token_wallet_transactions set amount_credits = amount_credits + 7"
        " where transaction_type = 'top_up' and " + MINE + ";"
        " update token_wallets set balance_credits = balance_credits + 7 where id = '{wallet}'",
        {"I9"},
        "of wallet {wallet}",
    ),
    "a hold that is open for ever": (
        "update token_wallet_holds set created_at = created_at - interval '1 day'"
        " where hold_key = '{pending}' and " + MINE,
        {"I10"},
        "hold {pending}",
    ),
}


@pytest.mark.parametrize("planted", PLANTED)
async def test_the_audit_finds(
    ledger_rows: LedgerRows, admin: AdminConnection, planted: str
) -> None:
    deed, invariants, place = PLANTED[planted]
    transaction = admin.transaction()
    await transaction.start()
    try:
        await admin.execute("set local session_replication_role = replica")
        await admin.execute(deed.format(**ledger_rows.names))
        await admin.execute("set local session_replication_role = origin")
        found = await audit.verify(admin)
    finally:
        await transaction.rollback()
    assert {breach.invariant for breach in found} == invariants
    assert any(place.format(**ledger_rows.names) in breach.place for breach in found)
    assert await ledger_rows.wallet.breaches() == []


async def test_the_audit_of_a_tenant_sees_its_own_books_alone(
    engine: Engine, ledger_rows: LedgerRows, admin: AdminConnection
) -> None:
    async with AccountWallet.open(engine) as other:
        await admin.execute(
            "update token_wallets set play_balance_credits = 1 where id = $1", other.wallet_id
        )
        assert len(await other.breaches()) == 1
        assert await ledger_rows.wallet.breaches() == []
        assert len(await audit.verify(admin)) == 1
        await admin.execute(
            "update token_wallets set play_balance_credits = 1000000000 where id = $1",
            other.wallet_id,
        )


async def test_books_are_counted(ledger_rows: LedgerRows) -> None:
    size = await ledger_rows.wallet.ask(audit.count_all)
    assert (size.wallets, size.holds, size.transfers) == (1, 6, 7)
