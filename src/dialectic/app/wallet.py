"""A person's wallet: its balance, its transactions, and the costs of a session. Reads only."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING
from uuid import UUID

from dialectic.app.transaction import Transaction as Tx
from dialectic.contract.summaries import Money, Wallet
from dialectic.db.tables import lists, records
from dialectic.ledger import wallets

if TYPE_CHECKING:
    from dialectic.contract.accounts import Cost, Transaction


async def get(tx: Tx) -> Wallet:
    """Load the caller's wallet."""
    found = await wallets.load_wallet(tx.connection, tx.account.wallet_id)
    return Wallet(
        id=found.id,
        user_id=found.user_id,
        is_count_only=found.is_count_only,
        money=Money.of(found.balance_credits, found.held_credits),
        play_money=Money.of(found.play_balance_credits, found.play_held_credits),
    )


async def list_transactions(tx: Tx, limit: int) -> list[Transaction]:
    """List the latest transactions of the caller's wallet, newest first."""
    from dialectic.contract.accounts import Transaction

    rows = await lists.list_transactions(
        tx.connection, tx.account.wallet_id, before=None, limit=limit
    )
    return [Transaction.model_validate(row) for row in rows]


async def list_costs(tx: Tx, session_id: UUID) -> list[Cost]:
    """List what a session has spent, by stage, model and purpose."""
    from dialectic.contract.accounts import Cost
    from dialectic.ledger import audit

    await records.load_session(tx.connection, session_id)
    found = await audit.report_costs(tx.connection, session_id)
    return [Cost.model_validate(asdict(cost)) for cost in found]
