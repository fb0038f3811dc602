"""The ledger as a contender: holds and settlements on one wallet, and an audit of many."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, replace
from decimal import Decimal
from types import ModuleType
from typing import Any
from uuid import UUID, uuid4

import asyncpg

from bench.child import Options, serve
from bench.ours.dialectic import build_document
from bench.ours.engine import POOL_SIZE, create_sessions, open_engine, working
from bench.ours.queue import MODELS_PER_SESSION
from dialectic.app import sessions
from dialectic.app.transaction import Tenant
from dialectic.core.job import Job
from dialectic.core.models.messages import Actual, FinishReason, Reply, Request, Usage, UsageSource
from dialectic.core.models.model import ModelCard
from dialectic.core.money.price import Rates
from dialectic.db.migrate import migrate
from dialectic.db.pool import APP_ROLE, WORKER_ROLE, Address, Connection, Database
from dialectic.db.tables.records import Account, open_account
from dialectic.engine import Engine
from dialectic.ledger import audit, holds, wallets
from dialectic.ledger.holds import NewHold, Purpose
from dialectic.pipeline import run, save
from dialectic.pipeline.reserve import Reservation
from dialectic.processes.loader import load_process
from dialectic.providers.base import OnText, Provider
from dialectic.tokens.counting import count_request_tokens
from dialectic.worker.worker import Worker

RATES = Rates(Decimal("2.5"), Decimal(10))
ACTUAL = Actual(1_000, 500, UsageSource.REPORTED)
HOLD_CREDITS = RATES.cost(1_100, 1_000)
WARM_UP = 20
# No provider takes equally long each time. Calls that did would end up one right behind the other,
# after some rounds of waiting for each other, and stay so.
LATENCY_RANGE = (0.8, 1.2)
SEED = 1
# Money for all of it: a million dollars.
PLENTY = 10**12
# As if made by many sessions, past the triggers, and right in every row.
FILL_HOLDS = """
    insert into dialectic.token_wallet_holds
      (tenant_id, hold_key, wallet_id, is_play, purpose, model_name, session_id, stage_slug,
       amount_credits, input_credits_per_token, output_credits_per_token, counted_input_tokens,
       output_cap_tokens, state, cost_credits, charged_credits, input_tokens,
       output_tokens, usage_source, resolved_at, answer_id)
    select $1, gen_random_uuid() || ':1:' || n, $2, false, 'call', 'maker/model',
      ('00000000-0000-0000-0000-' || lpad((n % 1000)::text, 12, '0'))::uuid, 'thesis', 12750, 2.5,
      10, 1000, 1000, 'posted', 7500, 7500, 1000, 500, 'reported', now(), gen_random_uuid()
    from generate_series(1, $3::integer) n
"""
# Each call has its answer: the audit looks for every one of them.
FILL_ANSWERS = """
    insert into dialectic.dialectic_chunks
      (tenant_id, id, session_id, root_contribution_id, turn_index, stage, iteration_number,
       model_name, content, storage_path, raw_response_storage_path, size_bytes,
       tokens_used_input, tokens_used_output, usage_source, finish_reason, processing_time_ms)
    select tenant_id, answer_id, session_id, answer_id, 0, 'thesis', 1, model_name, 'Words.',
      answer_id::text, answer_id::text, 6, input_tokens, output_tokens, usage_source, 'stop', 1
    from dialectic.token_wallet_holds where tenant_id = $1
"""
FILL_JOURNAL = """
    insert into dialectic.token_wallet_transactions
      (tenant_id, wallet_id, is_play, transaction_type, from_account, to_account, amount_credits,
       balance_after_credits, idempotency_key)
    select tenant_id, wallet_id, is_play, 'usage', 'wallet', 'provider', charged_credits,
      $2 - 7500 * row_number() over (), hold_key
    from dialectic.token_wallet_holds where tenant_id = $1
"""
FILL_SPENDING = """
    insert into dialectic.dialectic_session_spending
      (tenant_id, session_id, spent_credits, first_hold_at)
    select tenant_id, session_id, sum(charged_credits), now()
    from dialectic.token_wallet_holds where tenant_id = $1 group by 1, 2
"""


# Where calls that are no jobs leave their answers.
MAKE_ANSWERS = """
    create table dialectic.bench_answers (id uuid primary key, words text not null);
    grant insert on dialectic.bench_answers to dialectic_worker;
"""
KEEP_ANSWER = "insert into dialectic.bench_answers (id, words) values ($1, $2)"


async def prepare(options: Options) -> None:
    await migrate(Address(options["url"], is_embedded=True))
    admin = await asyncpg.connect(options["url"])
    await admin.execute(MAKE_ANSWERS)
    await admin.close()


async def _open(options: Options) -> tuple[Address, Account]:
    """Open an account with plenty of money."""
    address = Address(options["url"], is_embedded=True)
    deposit = wallets.Deposit(key="plenty", amount_credits=PLENTY)
    async with Database.open(address, APP_ROLE, size=1) as db:
        account = await open_account(db, "local")
        await db.transact(
            account.tenant_id, lambda c: wallets.top_up(c, account.wallet_id, deposit)
        )
    return address, account


def _build_hold(account: Account, session_id: UUID, number: int) -> NewHold:
    return NewHold(
        key=str(number),
        wallet_id=account.wallet_id,
        is_play=False,
        purpose=Purpose.CALL,
        model_name="maker/model",
        amount_credits=HOLD_CREDITS,
        rates=RATES,
        counted_input_tokens=1_000,
        output_cap_tokens=1_000,
        session_id=session_id,
    )


async def _share(
    lanes: int, calls: int, call: Callable[[int], Awaitable[None]], *, spread_s: float = 0.0
) -> float:
    """Make so many calls in so many lanes, which begin within a time; return how long it took."""

    async def work(lane: int) -> None:
        await asyncio.sleep(spread_s * lane / lanes)
        for number in range(calls // lanes):
            await call(number * lanes + lane)

    started = time.perf_counter()
    await asyncio.gather(*(work(lane) for lane in range(lanes)))
    return time.perf_counter() - started


async def pay(options: Options) -> dict[str, list[float]]:
    """Time holds and settlements, each in a transaction of its own, so many side by side."""
    address, account = await _open(options)
    session_id = uuid4()
    reserved_ms: list[float] = []
    settled_ms: list[float] = []

    async def call(number: int) -> None:
        new = _build_hold(account, session_id, number)
        started = time.perf_counter()
        await db.transact(account.tenant_id, lambda c: holds.reserve(c, new))
        reserved = time.perf_counter()
        await db.transact(account.tenant_id, lambda c: holds.settle(c, new.key, ACTUAL, uuid4()))
        reserved_ms.append((reserved - started) * 1000)
        settled_ms.append((time.perf_counter() - reserved) * 1000)

    lanes = options["lanes"]
    async with Database.open(address, WORKER_ROLE, size=lanes) as db:
        elapsed_s = await _share(lanes, options["calls"], call)
        assert await audit.verify_tenant(db, account.tenant_id) == []
    return {
        "reserve_ms": reserved_ms[WARM_UP:],
        "settle_ms": settled_ms[WARM_UP:],
        "calls_per_s": [len(reserved_ms) / elapsed_s],
    }


async def wait(options: Options) -> dict[str, list[float]]:
    """Time calls that take about so long, so many at once, each with its answer in one commit.

    As a turn does it, and nothing else of a turn: hold, wait, and settle in the commit that
    keeps the answer. Without a ledger that commit is all there is.
    """
    address, account = await _open(options)
    session_id, words = uuid4(), "w" * options["text_bytes"]
    chance = random.Random(SEED)
    turns_ms: list[float] = []

    async def call(number: int) -> None:
        new = _build_hold(account, session_id, number)
        answer_id = uuid4()

        async def keep(connection: Connection) -> None:
            await connection.execute(KEEP_ANSWER, answer_id, words)
            if options["with_ledger"]:
                await holds.settle(connection, new.key, ACTUAL, answer_id)

        started = time.perf_counter()
        if options["with_ledger"]:
            held = await holds.reserve_unasked(db, account.tenant_id, new, Decimal("0.2"))
            assert held is not None, "there is plenty"
        asked = time.perf_counter()
        await asyncio.sleep(options["latency_s"] * chance.uniform(*LATENCY_RANGE))
        answered = time.perf_counter()
        await db.transact(account.tenant_id, keep)
        turns_ms.append((asked - started + time.perf_counter() - answered) * 1000)

    async with Database.open(address, WORKER_ROLE, size=POOL_SIZE) as db:
        # Calls that begin together would go on to end together, and wait for each other each time.
        spread_s = options["latency_s"]
        elapsed_s = await _share(options["lanes"], options["calls"], call, spread_s=spread_s)
    return {"turn_ms": turns_ms[WARM_UP:], "calls_per_s": [len(turns_ms) / elapsed_s]}


async def verify(options: Options) -> dict[str, list[float]]:
    """Time the audit of a wallet with so many transfers."""
    address, account = await _open(options)
    count = options["transfers"]
    admin = await asyncpg.connect(options["url"])
    await admin.execute("set session_replication_role = replica")
    await admin.execute(FILL_HOLDS, account.tenant_id, account.wallet_id, count)
    await admin.execute(FILL_ANSWERS, account.tenant_id)
    await admin.execute(FILL_JOURNAL, account.tenant_id, PLENTY)
    await admin.execute(FILL_SPENDING, account.tenant_id)
    await admin.execute(
        "update dialectic.token_wallets set balance_credits = balance_credits - $1", 7500 * count
    )
    await admin.execute("vacuum analyze")
    await admin.close()
    async with Database.open(address, APP_ROLE, size=2) as db:
        started = time.perf_counter()
        assert await audit.verify_tenant(db, account.tenant_id) == []
        elapsed_s = time.perf_counter() - started
        size = await db.transact(account.tenant_id, audit.count_all)
        assert size.transfers == count + 2
    return {"verify_s": [elapsed_s]}


# -- in the path ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Slow:
    """Answers after a while, with a text as long as a document."""

    latency_s: float
    text: str

    async def complete(self, card: ModelCard, request: Request, on_text: OnText) -> Reply:
        del on_text
        read = count_request_tokens(request, card).tokens
        started = time.perf_counter()
        await asyncio.sleep(self.latency_s)
        spent = SPENT.get()
        spent["provider"] = time.perf_counter() - started
        usage = Usage(read, len(self.text) // 4, UsageSource.REPORTED)
        return Reply(self.text, FinishReason.STOP, "stop", usage, None, {"ok": True})


# Where the seconds of the job at hand went.
SPENT: ContextVar[dict[str, float]] = ContextVar("SPENT")


def _clock(owner: ModuleType, name: str) -> None:
    """Note the time that one step of a job takes for money."""
    inner = getattr(owner, name)

    async def clocked(*given: Any, **more: Any) -> Any:
        started = time.perf_counter()
        try:
            return await inner(*given, **more)
        finally:
            spent = SPENT.get()
            spent["money"] = spent.get("money", 0.0) + time.perf_counter() - started

    setattr(owner, name, clocked)


def _leave_out_the_ledger() -> None:
    """Make calls as they would be made if nobody held money for them or settled it."""

    async def hold_nothing(
        _engine: Any, _job: Any, _card: Any, request: Request, **_: Any
    ) -> Reservation:
        return Reservation(request, "", 0, request.max_output_tokens)

    async def do_nothing(*_: Any) -> None:
        return

    setattr(run, "hold", hold_nothing)  # noqa: B010  mypy knows that this is no part of it
    setattr(save, "settle", do_nothing)  # noqa: B010


async def calls(options: Options) -> dict[str, list[float]]:
    """Time whole turns of so many jobs at once, with and without the ledger, minus the provider."""
    if not options["with_ledger"]:
        _leave_out_the_ledger()
    for owner, name in ((run, "hold"), (save, "settle")):
        _clock(owner, name)
    rows: list[dict[str, float]] = []
    done = asyncio.Event()

    async def timed(engine: Engine, job: Job) -> None:
        spent: dict[str, float] = {}
        SPENT.set(spent)
        started = time.perf_counter()
        await run.run_job(engine, job)
        rows.append(spent | {"turn": time.perf_counter() - started})
        if len(rows) >= count:
            done.set()

    async with (
        open_engine(options, APP_ROLE) as desk,
        open_engine(options, WORKER_ROLE) as bare,
    ):
        text = build_document(load_process("standard"), options["text_bytes"], seed=1)
        slow: dict[str, Provider] = {"offline": Slow(options["latency_s"], text)}
        engine = replace(bare, catalog=replace(bare.catalog, providers=slow))
        account = await open_account(desk.db, "till")
        models = MODELS_PER_SESSION
        count = options["calls"] // models * models
        made = await create_sessions(desk, account, count=count // models, models=models)
        for session_id in made:
            await Tenant(desk, account).run(sessions.generate, session_id)
        started = time.perf_counter()
        async with working(Worker(engine, concurrency=options["lanes"], run_job=timed)):
            await done.wait()
        elapsed_s = time.perf_counter() - started
        if options["with_ledger"]:
            assert await audit.verify_tenant(desk.db, account.tenant_id) == []
    counted = rows[WARM_UP:count]
    return {
        "turn_ms": [(row["turn"] - row["provider"]) * 1000 for row in counted],
        "money_ms": [row["money"] * 1000 for row in counted],
        "calls_per_s": [count / elapsed_s],
    }


ACTIONS: dict[str, Any] = {
    "prepare": prepare,
    "pay": pay,
    "wait": wait,
    "verify": verify,
    "calls": calls,
}

if __name__ == "__main__":
    serve(ACTIONS)
