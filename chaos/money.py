"""Many want the same money at the same moment, and anything happens to it in any order.

First 64 calls stand at a lock in the server and are let go together, with money for three of them:
in one round the wallet is the limit, in the next the session's budget. Exactly three must pass,
again and again. Then the machine of `chaos.accounts` draws events, and the books must say after
each of them what a plain dict says. At last workers die while they pay for calls: `chaos.paid`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from uuid import UUID, uuid4

import asyncpg
import hypothesis
from hypothesis import HealthCheck, Phase
from hypothesis.stateful import run_state_machine_as_test

from chaos import paid
from chaos.accounts import build_machine, open_bank
from chaos.bare_jobs import bind
from chaos.gate import Gate
from chaos.lab import Lab, open_lab
from chaos.paid import check_books
from chaos.sabotage import NONE, Sabotage
from chaos.verdict import Report
from dialectic.core.models.messages import Actual, UsageSource
from dialectic.db.pool import Address, Connection
from dialectic.errors import DialecticError
from dialectic.ledger import holds, wallets
from dialectic.ledger.holds import NO_FUNDS, OVER_BUDGET
from dialectic.ledger.holds import SQL as LEDGER
from dialectic.ledger.wallets import Deposit

CALLS = 64
MONEY_FOR = 3
CREDITS = 70
ACTUAL = Actual(0, CREDITS, UsageSource.REPORTED)
PLENTY = 10**12
STEPS_PER_EXAMPLE = 50
TELL_EVERY = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How many rounds of calls at once, steps of the machine, and deaths at each failpoint."""

    rounds: int
    steps: int
    kills: int = 0


SMALL = Size(rounds=6, steps=60, kills=1)
# Enough to come upon what is broken on purpose.
SABOTAGED = Size(rounds=2, steps=300)
SABOTAGED_CALLS = Size(rounds=0, steps=0, kills=1)
SELECTION = Size(rounds=100, steps=1_000, kills=2)
FULL = Size(rounds=1_000, steps=20_000, kills=30)


class Counter(Gate):
    """Lets calls ask for money at the same moment, and counts those that are refused."""

    refused = 0

    async def _run(self, connection: asyncpg.Connection[asyncpg.Record], statement: str) -> None:
        try:
            await super()._run(connection, statement)
        except asyncpg.PostgresError as error:
            if error.sqlstate not in (NO_FUNDS, OVER_BUDGET):
                raise
            self.refused += 1
            await connection.execute("rollback")


async def run(report: Report, size: Size, sabotage: Sabotage = NONE) -> None:
    """Let many ask at once; then draw events; then let die who pays. Check the books after each."""
    if size.rounds:
        await _ask_and_draw(report, size, sabotage)
    if size.kills:
        await paid.run(report, size.kills, sabotage)


async def _ask_and_draw(report: Report, size: Size, sabotage: Sabotage) -> None:
    async with open_lab(report, sabotage=sabotage) as lab:
        gate = Counter(lab, CALLS)
        async with gate:
            await _race(lab, gate, size.rounds)
        report.expect("collisions of locks", gate.collisions, 0)
        steps, broken = await asyncio.to_thread(
            draw_events, lab.address, size.steps, seed=report.seed
        )
        report.note("steps of the machine", steps)
        report.expect_none("orders of events that broke the books", broken)
        await check_books(lab)


# -- many at once ----------------------------------------------------------------------------------


async def _race(lab: Lab, gate: Counter, rounds: int) -> None:
    account, db = lab.account, lab.engine.db
    session_id = await lab.order(starts=False)
    rich_id = await db.transact(account.tenant_id, lambda c: wallets.open_wallet(c, None))
    await _put_in(lab, rich_id, PLENTY)
    wrong: list[str] = []
    for number in range(rounds):
        if number % 2:
            wallet_id, in_session = rich_id, session_id
            budget = (number // 2 + 1) * MONEY_FOR * CREDITS
            raise_budget = partial(wallets.set_budget, session_id=session_id, budget_credits=budget)
            await db.transact(account.tenant_id, raise_budget)
        else:
            wallet_id, in_session = account.wallet_id, None
            await _put_in(lab, wallet_id, MONEY_FOR * CREDITS)
        gate.refused = 0
        keys = [f"{number}:{call}" for call in range(CALLS)]
        await gate.race([build_reserve(key, wallet_id, in_session) for key in keys])
        passed = await _settle_all(lab)
        if passed != MONEY_FOR or gate.refused != CALLS - MONEY_FOR:
            wrong.append(f"round {number}: {passed} passed, {gate.refused} refused")
        if (number + 1) % TELL_EVERY == 0:
            lab.report.say(f"{number + 1} rounds of {CALLS} calls with money for {MONEY_FOR}")
    lab.report.note("rounds", rounds)
    lab.report.expect_none(f"rounds in which not exactly {MONEY_FOR} passed", wrong)
    left = await lab.fetchval(
        "select balance_credits from dialectic.token_wallets where id = $1", account.wallet_id
    )
    lab.report.expect("credits left in the wallet", left, 0)
    await check_books(lab)


async def _put_in(lab: Lab, wallet_id: UUID, amount: int) -> None:
    deposit = Deposit(key=str(uuid4()), amount_credits=amount)
    await lab.engine.db.transact(
        lab.account.tenant_id, lambda c: wallets.top_up(c, wallet_id, deposit)
    )


def build_reserve(key: str, wallet_id: UUID, session_id: UUID | None) -> str:
    """Build the statement with which a call asks for its money."""
    about = (session_id, None, None, None)
    price = (CREDITS, 1, 1, 0, CREDITS)
    return bind(
        LEDGER["reserve"], key, wallet_id, False, "trial", "maker/model", *about, *price, None
    )


async def _settle_all(lab: Lab) -> int:
    """Pay for every call that passed, one after another; return how many there were."""

    async def work(connection: Connection) -> int:
        rows = await connection.fetch(
            "select hold_key from token_wallet_holds where state = 'pending' order by hold_key"
        )
        for row in rows:
            await holds.settle(connection, row["hold_key"], ACTUAL, None)
        return len(rows)

    return await lab.engine.db.transact(lab.account.tenant_id, work)


# -- anything in any order -------------------------------------------------------------------------


def draw_events(address: Address, steps_min: int, *, seed: int) -> tuple[int, list[str]]:
    """Run the machine for at least so many steps; return how many, and what broke the books."""
    with open_bank(address) as bank:
        while bank.steps < steps_min:
            examples = min(100, -(-(steps_min - bank.steps) // STEPS_PER_EXAMPLE))
            machine = hypothesis.seed(seed)(build_machine(bank))
            seed += 1
            try:
                run_state_machine_as_test(
                    machine,
                    settings=hypothesis.settings(
                        max_examples=examples,
                        stateful_step_count=STEPS_PER_EXAMPLE,
                        deadline=None,
                        database=None,
                        report_multiple_bugs=False,
                        phases=(Phase.generate,),
                        suppress_health_check=list(HealthCheck),
                    ),
                )
            except (AssertionError, DialecticError, asyncpg.PostgresError) as error:
                return bank.steps, [f"{type(error).__name__}: {error}"]
    return bank.steps, []
