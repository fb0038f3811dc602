"""A person's wallet: its balance, its transactions, its limit, and the costs of a session."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING
from uuid import UUID

from dialectic.app.transaction import Transaction as Tx
from dialectic.contract.summaries import Money, Wallet
from dialectic.core.money.price import parse_usd
from dialectic.core.text import clean_text
from dialectic.db.tables import lists, records
from dialectic.ledger import wallets

if TYPE_CHECKING:
    from dialectic.contract.accounts import Cost, Spending, Transaction, WalletChange


async def get(tx: Tx) -> Wallet:
    """Load the caller's wallet."""
    return build_wallet(await wallets.load_wallet(tx.connection, tx.account.wallet_id))


def build_wallet(found: wallets.Wallet) -> Wallet:
    """Build a wallet as users see it."""
    return Wallet(
        id=found.id,
        user_id=found.user_id,
        is_count_only=found.is_count_only,
        money=Money.of(found.balance_credits, found.held_credits),
        play_money=Money.of(found.play_balance_credits, found.play_held_credits),
    )


async def top_up(
    tx: Tx,
    amount_credits: int,
    *,
    is_play: bool = False,
    is_grant: bool = False,
    note: str | None = None,
) -> list[UUID]:
    """Add money to the wallet; return the sessions that were waiting for it."""
    from dialectic.db.tables import jobs

    remembered = " ".join(clean_text(note or "")[0].split())
    deposit = wallets.Deposit(
        key=str(tx.derive_id("deposit")),
        amount_credits=amount_credits,
        is_play=is_play,
        user_id=tx.account.user_id,
        note=remembered or None,
    )
    await records.hold_funded(tx.connection, tx.account.wallet_id)
    put_in = wallets.grant if is_grant else wallets.top_up
    await put_in(tx.connection, tx.account.wallet_id, deposit)
    return await jobs.resume_funded(tx.connection, tx.account.wallet_id)


async def set_limit(tx: Tx, amount_credits: int) -> list[UUID]:
    """Let the wallet spend this much from now on; return the sessions that were waiting."""
    from dialectic.db.tables import jobs

    account, key = tx.account, str(tx.derive_id("limit"))
    await records.hold_funded(tx.connection, account.wallet_id)
    await wallets.set_limit(
        tx.connection, account.wallet_id, amount_credits, key=key, user_id=account.user_id
    )
    return await jobs.resume_funded(tx.connection, account.wallet_id)


async def set_unlimited(tx: Tx, *, is_unlimited: bool) -> list[UUID]:
    """Remove the wallet's limit, or restore it; return the sessions that were waiting."""
    from dialectic.db.tables import jobs

    await records.hold_funded(tx.connection, tx.account.wallet_id)
    await wallets.set_unlimited(tx.connection, tx.account.wallet_id, is_unlimited=is_unlimited)
    return await jobs.resume_funded(tx.connection, tx.account.wallet_id) if is_unlimited else []


async def change(tx: Tx, wanted: WalletChange) -> Wallet:
    """Change what limits the wallet."""
    if wanted.is_count_only is not None:
        await set_unlimited(tx, is_unlimited=wanted.is_count_only)
    if wanted.limit is not None:
        await set_limit(tx, parse_usd(wanted.limit))
    return await get(tx)


async def list_transactions(tx: Tx, limit: int) -> list[Transaction]:
    """List the latest transactions of the caller's wallet, newest first."""
    from dialectic.contract.accounts import Transaction

    rows = await lists.list_transactions(
        tx.connection, tx.account.wallet_id, before=None, limit=limit
    )
    return [Transaction.model_validate(row) for row in rows]


async def list_spending(tx: Tx, days: int) -> list[Spending]:
    """List what the caller's wallet paid in the latest days, by day and model."""
    from dialectic.contract.accounts import Spending

    rows = await lists.list_spending(tx.connection, tx.account.wallet_id, days)
    return [Spending.model_validate(row) for row in rows]


async def list_costs(tx: Tx, session_id: UUID) -> list[Cost]:
    """List what a session has spent, by stage, model and purpose."""
    from dialectic.contract.accounts import Cost
    from dialectic.ledger import audit

    await records.load_session(tx.connection, session_id)
    found = await audit.report_costs(tx.connection, session_id)
    return [Cost.model_validate(asdict(cost)) for cost in found]
