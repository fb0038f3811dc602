"""A wallet within reach of a test: holds as calls make them, and a look at the books."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, TypeVar
from uuid import UUID, uuid4

from dialectic.core.models.messages import Actual, UsageSource
from dialectic.core.money.price import Rates
from dialectic.db.pool import WORKER_ROLE, Connection, Database
from dialectic.db.tables.records import Account, open_account
from dialectic.engine import Engine
from dialectic.ledger import audit, holds, wallets
from dialectic.ledger.holds import Hold, NewHold, Purpose
from dialectic.ledger.wallets import Deposit, Wallet

T = TypeVar("T")
# A credit for a token: figures that can be read.
PLAIN = Rates(Decimal(1), Decimal(1))


def used(tokens: int, *, input_tokens: int = 0, **facts: Any) -> Actual:
    """The usage of a call with this number of output tokens."""
    return Actual(input_tokens, tokens, UsageSource.REPORTED, **facts)


@dataclass(slots=True)
class AccountWallet:
    """One account's wallet, used as a worker and its owner use it."""

    app: Database
    db: Database
    account: Account
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    @classmethod
    @asynccontextmanager
    async def open(
        cls, engine: Engine, *, amount: int = 0, size: int = 4
    ) -> AsyncIterator[AccountWallet]:
        """Open a wallet with an amount of real money in it, for a user of its own."""
        account = await open_account(engine.db, f"user {uuid4()}")
        async with Database.open(engine.address, WORKER_ROLE, size=size, patience_s=5.0) as db:
            wallet = cls(engine.db, db, account)
            if amount:
                await wallet.top_up(amount)
            yield wallet

    @property
    def wallet_id(self) -> UUID:
        return self.account.wallet_id

    async def transact(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Do something as a worker."""
        return await self.db.transact(self.account.tenant_id, work)

    async def ask(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Do something as the person whose wallet it is."""
        return await self.app.transact(self.account.tenant_id, work)

    async def top_up(self, amount: int, **changes: Any) -> int:
        deposit = Deposit(**{"key": str(uuid4()), "amount_credits": amount, **changes})
        return await self.ask(lambda c: wallets.top_up(c, self.wallet_id, deposit))

    def build(self, amount: int, **changes: Any) -> NewHold:
        values: dict[str, Any] = {
            "key": f"hold {next(self._numbers)}",
            "wallet_id": self.wallet_id,
            "is_play": False,
            # No answer is stored for it, so none is missed.
            "purpose": Purpose.TRIAL,
            "model_name": "maker/model",
            "amount_credits": amount,
            "rates": PLAIN,
            "counted_input_tokens": 0,
            "output_cap_tokens": amount,
            **changes,
        }
        return NewHold(**values)

    async def reserve(self, amount: int, **changes: Any) -> Hold:
        new = self.build(amount, **changes)
        return await self.transact(lambda c: holds.reserve(c, new))

    async def settle(self, hold: Hold, actual: Actual, **facts: Any) -> Hold:
        answer_id = facts.pop("answer_id", None) or uuid4()
        return await self.transact(lambda c: holds.settle(c, hold.key, actual, answer_id, **facts))

    async def void(self, hold: Hold) -> Hold:
        return await self.transact(lambda c: holds.void(c, hold.key))

    async def lose(self, hold: Hold) -> Hold:
        return await self.transact(lambda c: holds.lose(c, hold.key))

    async def look(self) -> Wallet:
        return await self.transact(lambda c: wallets.load_wallet(c, self.wallet_id))

    async def figures(self, *, is_play: bool = False) -> tuple[int, int]:
        """Balance and held."""
        wallet = await self.look()
        if is_play:
            return wallet.play_balance_credits, wallet.play_held_credits
        return wallet.balance_credits, wallet.held_credits

    async def transfers(self, *, is_play: bool = False) -> list[tuple[str, int, int]]:
        """The journal, oldest first: type, amount, balance after it."""
        rows = await self.transact(lambda c: audit.list_history(c, self.wallet_id, limit=1000))
        return [
            (row.transaction_type, row.amount_credits, row.balance_after_credits)
            for row in reversed(rows)
            if row.is_play is is_play
        ]

    async def breaches(self) -> list[str]:
        """What is wrong with this tenant's books."""
        found = await self.ask(audit.verify)
        return [f"{breach.invariant} {breach.place}: {breach.detail}" for breach in found]
