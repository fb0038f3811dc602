"""Money under every order of events: a machine that draws them, and a plain dict that knows better.

Each step does something to a wallet as the product would: twice if it was delivered twice, or up to
the commit and not further. A few dicts keep what must come of it. After each step the wallet, the
spending of its session and every hold are compared with them, and the audit looks for breaches.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from math import ceil
from typing import Any, TypeVar
from uuid import UUID, uuid4

import asyncpg
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from dialectic.core.models.messages import Actual, UsageSource
from dialectic.core.money.price import Rates, decide_hold
from dialectic.db.pool import APP_ROLE, WORKER_ROLE, Address, Connection, Database
from dialectic.db.tables.records import open_account
from dialectic.errors import Conflict, FundsError
from dialectic.ledger import audit, holds, wallets
from dialectic.ledger.holds import Hold, NewHold, Purpose
from dialectic.ledger.wallets import Deposit

T = TypeVar("T")
PLAY = 1_000_000_000
CREDITS_MAX = 3_000
MAKE_SESSION = """
    insert into dialectic.dialectic_sessions
      (tenant_id, id, project_id, user_id, process_template_id, wallet_id, selected_model_ids,
       current_stage_slug, until_stage_slug, max_retries)
    values ($1, $2, $2, $3, $2, $4, array[$2]::uuid[], 'thesis', 'thesis', 3)
"""


class Crash(Exception):
    """The process died before the commit."""


@dataclass(slots=True)
class Bank:
    """The product's connections, driven from code that does not await."""

    runner: asyncio.Runner
    app: Database
    worker: Database
    admin: asyncpg.Connection[asyncpg.Record]
    steps: int = 0

    def do(
        self,
        db: Database,
        tenant_id: UUID,
        work: Callable[[Connection], Awaitable[T]],
        *,
        crashes: bool = False,
    ) -> T:
        """Do something in one transaction, which comes to nothing if the process dies."""

        async def act(connection: Connection) -> T:
            done = await work(connection)
            if crashes:
                raise Crash
            return done

        return self.runner.run(db.transact(tenant_id, act))


@contextmanager
def open_bank(address: Address) -> Iterator[Bank]:
    """Open connections for as many machines as are wanted, one after another."""
    logging.getLogger(holds.__name__).setLevel(logging.ERROR)  # holds are too small on purpose
    with asyncio.Runner() as runner:

        async def enter() -> tuple[Any, Any, Database, Database, Any]:
            first = Database.open(address, APP_ROLE, size=1)
            second = Database.open(address, WORKER_ROLE, size=1)
            admin = await asyncpg.connect(address.url)
            # Sessions are made without what they belong to, of which the ledger knows nothing.
            await admin.execute("set session_replication_role = replica")
            return first, second, await first.__aenter__(), await second.__aenter__(), admin

        first, second, app, worker, admin = runner.run(enter())
        try:
            yield Bank(runner, app, worker, admin)
        finally:
            runner.run(admin.close())
            runner.run(first.__aexit__(None, None, None))
            runner.run(second.__aexit__(None, None, None))


def round_up(rates: Rates, read: int, written: int) -> int:
    return ceil(rates.input * read + rates.output * written)


@dataclass(slots=True)
class Known:
    """What must be: one kind of money of a wallet and of its session."""

    balance: int = 0
    held: int = 0
    spent: int = 0
    session_held: int = 0


@dataclass(slots=True)
class KnownHold:
    """What must be known of a hold."""

    new: NewHold
    state: str = "pending"
    cost: int | None = None
    charged: int | None = None

    @property
    def is_in_session(self) -> bool:
        return self.new.session_id is not None

    @property
    def full_cost(self) -> int:
        """What the call costs if its answer takes all the room it was given."""
        return round_up(self.new.rates, self.new.counted_input_tokens, self.new.output_cap_tokens)


@dataclass(frozen=True, slots=True)
class Pick:
    """Which hold to do something with: rather an open one, or any."""

    number: int
    is_open: bool


@dataclass(slots=True)
class Account:
    """Whose money it is."""

    tenant_id: UUID
    wallet_id: UUID
    session_id: UUID
    known: dict[bool, Known]
    is_unlimited: bool = False
    budget: int | None = None
    holds: dict[str, KnownHold] = field(default_factory=dict)

    def list_open(self) -> list[KnownHold]:
        return [hold for hold in self.holds.values() if hold.state == "pending"]

    def choose(self, pick: Pick) -> KnownHold:
        found = (self.list_open() if pick.is_open else None) or list(self.holds.values())
        return found[pick.number % len(found)]

    def may_hold(self, hold: KnownHold) -> bool:
        money, amount = self.known[hold.new.is_play], hold.new.amount_credits
        is_bounded = hold.is_in_session and self.budget is not None
        if is_bounded and money.spent + money.session_held + amount > (self.budget or 0):
            return False
        return self.is_unlimited or money.balance - money.held >= amount

    def keep(self, hold: KnownHold) -> None:
        self.holds[hold.new.key] = hold
        money = self.known[hold.new.is_play]
        money.held += hold.new.amount_credits
        money.session_held += hold.new.amount_credits * hold.is_in_session

    def resolve(self, hold: KnownHold, state: str, cost: int) -> None:
        hold.state, hold.cost = state, cost
        hold.charged = min(cost, hold.new.amount_credits) if state == "posted" else 0
        money = self.known[hold.new.is_play]
        money.held -= hold.new.amount_credits
        money.balance -= hold.charged
        money.session_held -= hold.new.amount_credits * hold.is_in_session
        money.spent += hold.charged * hold.is_in_session


@dataclass(frozen=True, slots=True)
class Call:
    """A call to be made, at the prices of the day."""

    rates: Rates
    read_tokens: int
    cap_tokens: int
    is_play: bool


tokens = st.integers(0, CREDITS_MAX // 2)
prices = st.sampled_from(["0", "0.1", "0.3333333333", "1", "2.5", "17.0000001"]).map(Decimal)
calls = st.builds(
    Call,
    st.builds(Rates, prices, prices),
    tokens,
    tokens,
    st.sampled_from([False, False, True]),
)
picks = st.builds(Pick, st.integers(0, 100), st.sampled_from([True, True, False]))
# How often something is delivered; none means that the process dies before the commit.
times = st.sampled_from([1, 1, 2, 0])


class Money(RuleBasedStateMachine):
    """Everything that can happen to a wallet, in any order."""

    bank: Bank
    account: Account

    def __init__(self) -> None:
        super().__init__()
        self.numbers = itertools.count(1)

    @initialize()
    def open_account(self) -> None:
        bank = self.bank
        made = bank.runner.run(open_account(bank.app, f"user {uuid4()}"))
        session_id = uuid4()
        bank.runner.run(
            bank.admin.execute(
                MAKE_SESSION, made.tenant_id, session_id, made.user_id, made.wallet_id
            )
        )
        known = {False: Known(), True: Known(balance=PLAY)}
        self.account = Account(made.tenant_id, made.wallet_id, session_id, known)
        self.top_up(5 * CREDITS_MAX, is_play=False, times=1)

    def ask(self, work: Callable[[Connection], Awaitable[T]], *, crashes: bool = False) -> T:
        return self.bank.do(self.bank.app, self.account.tenant_id, work, crashes=crashes)

    def act(self, work: Callable[[Connection], Awaitable[T]], *, crashes: bool = False) -> T:
        return self.bank.do(self.bank.worker, self.account.tenant_id, work, crashes=crashes)

    # -- money in, and its limits -----------------------------------------------------------------

    @rule(what=st.sampled_from(["wallet", "limit", "budget"]), data=st.data())
    def turn_of_events(self, what: str, data: st.DataObject) -> None:
        """Let money come in, or the limits change."""
        if what == "wallet":
            amount = data.draw(st.integers(1, CREDITS_MAX))
            self.top_up(amount, is_play=data.draw(st.booleans()), times=data.draw(times))
        elif what == "limit":
            self.set_unlimited(is_unlimited=data.draw(st.sampled_from([True, False, False])))
        else:
            self.set_budget(data.draw(st.none() | st.integers(0, 5 * CREDITS_MAX)))

    def top_up(self, amount: int, *, is_play: bool, times: int) -> None:
        deposit = Deposit(
            key=f"deposit {next(self.numbers)}", amount_credits=amount, is_play=is_play
        )
        wallet_id, money = self.account.wallet_id, self.account.known[is_play]
        if times == 0:
            expect(Crash, self.ask, lambda c: wallets.top_up(c, wallet_id, deposit), crashes=True)
            return
        money.balance += amount
        for _ in range(times):
            after = self.ask(lambda c: wallets.top_up(c, wallet_id, deposit))
            assert after == money.balance

    def set_unlimited(self, *, is_unlimited: bool) -> None:
        def change(connection: Connection) -> Awaitable[None]:
            wallet_id = self.account.wallet_id
            return wallets.set_unlimited(connection, wallet_id, is_unlimited=is_unlimited)

        overdrawn = any(money.balance < money.held for money in self.account.known.values())
        if overdrawn and not is_unlimited:
            expect(Conflict, self.ask, change)
        else:
            self.ask(change)
            self.account.is_unlimited = is_unlimited

    def set_budget(self, budget: int | None) -> None:
        def change(connection: Connection) -> Awaitable[None]:
            return wallets.set_budget(connection, self.account.session_id, budget)

        used = max(money.spent + money.session_held for money in self.account.known.values())
        if budget is not None and budget < used:
            expect(Conflict, self.ask, change)
        else:
            self.ask(change)
            self.account.budget = budget

    # -- a call -----------------------------------------------------------------------------------

    @rule(call=calls, times=times)
    def reserve(self, call: Call, times: int) -> None:
        self._reserve(self._build(call, None), times)

    @rule(call=calls, times=times)
    def reserve_for_session(self, call: Call, times: int) -> None:
        self._reserve(self._build(call, self.account.session_id), times)

    def _build(self, call: Call, session_id: UUID | None) -> KnownHold:
        new = NewHold(
            key=f"hold {next(self.numbers)}",
            wallet_id=self.account.wallet_id,
            is_play=call.is_play,
            purpose=Purpose.TRIAL,
            model_name="maker/model",
            amount_credits=decide_hold(call.read_tokens, call.cap_tokens, call.rates),
            rates=call.rates,
            counted_input_tokens=call.read_tokens,
            output_cap_tokens=call.cap_tokens,
            session_id=session_id,
        )
        return KnownHold(new)

    def _reserve(self, hold: KnownHold, times: int) -> None:
        """Set money aside so many times."""
        new = hold.new
        if not self.account.may_hold(hold):
            expect(FundsError, self.act, lambda c: holds.reserve(c, new))
        elif times == 0:
            expect(Crash, self.act, lambda c: holds.reserve(c, new), crashes=True)
        else:
            for _ in range(times):
                assert (
                    self.act(lambda c: holds.reserve(c, new)).amount_credits == new.amount_credits
                )
            self.account.keep(hold)

    @precondition(lambda self: self.account.holds)
    @rule(
        pick=picks,
        share=st.sampled_from(["nothing", "less", "all", "more"]),
        is_doubted=st.booleans(),
        times=times,
    )
    def settle(self, *, pick: Pick, share: str, is_doubted: bool, times: int) -> None:
        hold = self.account.choose(pick)
        new = hold.new
        read, written = {
            "nothing": (0, 0),
            "less": (new.counted_input_tokens, new.output_cap_tokens // 2),
            "all": (new.counted_input_tokens, new.output_cap_tokens),
            "more": (3 * new.counted_input_tokens + 1, new.output_cap_tokens + 1),
        }[share]
        cost = round_up(new.rates, read, written)
        if is_doubted:
            cost = min(cost, new.amount_credits)
        actual = Actual(read, written, UsageSource.REPORTED, is_doubted=is_doubted)
        self._resolve(
            hold, "posted", cost, lambda c: holds.settle(c, new.key, actual, uuid4()), times
        )

    @precondition(lambda self: self.account.holds)
    @rule(pick=picks, is_lost=st.booleans(), times=times)
    def give_up(self, *, pick: Pick, is_lost: bool, times: int) -> None:
        hold = self.account.choose(pick)
        key = hold.new.key
        if is_lost:
            self._resolve(hold, "lost", hold.full_cost, lambda c: holds.lose(c, key), times)
        else:
            self._resolve(hold, "voided", 0, lambda c: holds.void(c, key), times)

    def _resolve(
        self,
        hold: KnownHold,
        state: str,
        cost: int,
        work: Callable[[Connection], Awaitable[Hold]],
        times: int,
    ) -> None:
        """Resolve a hold so many times."""
        if hold.state not in ("pending", state):
            expect(Conflict, self.act, work)
        elif times == 0:
            expect(Crash, self.act, work, crashes=True)
        else:
            if hold.state == "pending":
                self.account.resolve(hold, state, cost)
            for _ in range(times):
                done = self.act(work)
                assert (done.state, done.cost_credits) == (hold.state, hold.cost)

    @precondition(lambda self: len(self.account.list_open()) > 2)
    @rule()
    def sweep(self) -> None:
        """Give up whatever is open, of this account and of those that came before it."""
        self.act(lambda c: holds.sweep_lost(c, age_s=0.0))
        for hold in self.account.list_open():
            self.account.resolve(hold, "lost", hold.full_cost)

    # -- what must always hold --------------------------------------------------------------------

    @invariant()
    def everything_is_as_it_is_known(self) -> None:
        self.bank.steps += 1
        wallet, rows, spending, breaches = self.ask(self._look)
        money = self.account.known
        assert (
            wallet.balance_credits,
            wallet.held_credits,
            wallet.play_balance_credits,
            wallet.play_held_credits,
        ) == (money[False].balance, money[False].held, money[True].balance, money[True].held)
        found = {row["hold_key"]: tuple(row)[1:] for row in rows}
        assert found == {k: (h.state, h.cost, h.charged) for k, h in self.account.holds.items()}
        if spending is not None:
            assert tuple(spending) == (
                *(money[False].session_held, money[False].spent),
                *(money[True].session_held, money[True].spent),
            )
        assert breaches == []

    async def _look(self, connection: Connection) -> tuple[Any, Any, Any, Any]:
        return (
            await wallets.load_wallet(connection, self.account.wallet_id),
            await connection.fetch(
                "select hold_key, state, cost_credits, charged_credits from token_wallet_holds"
            ),
            await connection.fetchrow(
                "select held_credits, spent_credits, play_held_credits, play_spent_credits"
                " from dialectic_session_spending"
            ),
            await audit.verify(connection),
        )


def expect(
    error: type[Exception],
    act: Callable[..., object],
    work: Callable[[Connection], Awaitable[object]],
    **options: bool,
) -> None:
    """Expect that something is refused, or that it comes to nothing."""
    try:
        act(work, **options)
    except error:
        return
    raise AssertionError(f"{error.__name__} was to come, and did not")


def build_machine(bank: Bank) -> type[Money]:
    """Build the machine on a bank."""
    return type("MoneyOfABank", (Money,), {"bank": bank})
