"""Money is held before a call, settled with its answer, and never below zero or twice."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Iterator
from decimal import Decimal
from functools import partial
from uuid import UUID, uuid4

import pytest

from dialectic.core.job import Job
from dialectic.core.money.price import Rates, check_spend
from dialectic.db.pool import Address, Connection
from dialectic.db.tables import jobs
from dialectic.engine import Engine
from dialectic.errors import Conflict, DialecticError, FundsError, LeaseLost, NotFound, RemedyAction
from dialectic.ledger import audit, holds, wallets
from dialectic.ledger.holds import HoldState, Purpose
from dialectic.postgres import embedded
from tests.database.job_table import (
    LOST_MAX,
    TERMS,
    AdminConnection,
    build_job,
    database_of_a_module,
    insert_jobs,
    make_session,
)
from tests.database.wallet_fixture import AccountWallet, used
from tests.problems import refusing, violated

PLAY = 1_000_000_000


@pytest.fixture(scope="module")
def address(server: embedded.Server, template: str) -> Iterator[Address]:
    """One database for all of these tests; each has an account of its own."""
    with database_of_a_module(server, template) as made:
        yield made


@pytest.fixture
async def wallet(engine: Engine) -> AsyncIterator[AccountWallet]:
    async with AccountWallet.open(engine, amount=1000) as opened:
        yield opened
        assert await opened.breaches() == []
        await sweep(opened, age_s=0.0)  # the next test's sweeper looks at everyone's


# -- a new wallet ----------------------------------------------------------------------------------


async def test_a_new_wallet_has_play_money_and_no_other(engine: Engine) -> None:
    async with AccountWallet.open(engine) as wallet:
        assert await wallet.figures() == (0, 0)
        assert await wallet.figures(is_play=True) == (PLAY, 0)
        assert await wallet.transfers(is_play=True) == [("grant", PLAY, PLAY)]
        assert await wallet.breaches() == []


async def test_a_paid_call_without_a_balance_is_refused_with_the_command_that_helps(
    engine: Engine,
) -> None:
    async with AccountWallet.open(engine) as wallet:
        with refusing(FundsError, reason="wallet", action=RemedyAction.TOP_UP):
            await wallet.reserve(1)


async def test_a_hold_made_in_one_round_trip_leaves_no_tenant_behind(engine: Engine) -> None:
    async with AccountWallet.open(engine, amount=1000, size=1) as wallet:
        hold = await holds.reserve_for(wallet.db, wallet.account.tenant_id, wallet.build(100))
        purse = await wallets.load_funds(
            wallet.db, wallet.account.tenant_id, wallet.wallet_id, uuid4(), is_play=False
        )
        assert purse.available_credits == 900
        # The only connection there is, so the one that was used.
        (row,) = await wallet.db.fetch("select dialectic.current_tenant() as tenant")
        assert row["tenant"] is None
        assert await wallet.db.fetch("select from dialectic.token_wallet_holds") == []
        await wallet.void(hold)


async def test_play_calls_never_touch_real_money(wallet: AccountWallet) -> None:
    hold = await wallet.reserve(100, is_play=True)
    assert await wallet.figures(is_play=True) == (PLAY, 100)
    await wallet.settle(hold, used(60))
    assert await wallet.figures(is_play=True) == (PLAY - 60, 0)
    assert await wallet.figures() == (1000, 0)
    assert await wallet.transfers() == [("top_up", 1000, 1000)]


async def test_an_organisation_has_one_wallet_in_addition_to_those_of_its_members(
    wallet: AccountWallet,
) -> None:
    first = await wallet.ask(lambda c: wallets.open_wallet(c, None))
    assert await wallet.ask(lambda c: wallets.open_wallet(c, None)) == first != wallet.wallet_id
    own = await wallet.ask(lambda c: wallets.open_wallet(c, wallet.account.user_id))
    assert own == wallet.wallet_id
    with refusing(NotFound, reason="user_exists"):
        await wallet.ask(lambda c: wallets.open_wallet(c, uuid4()))


# -- the life of a hold ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tokens", "balance", "journal"),
    [
        (400, 600, [("usage", 400, 600)]),
        (500, 500, [("usage", 500, 500)]),
        (0, 1000, []),
        (530, 500, [("usage", 500, 500), ("overrun", 30, 500)]),
    ],
    ids=["less", "equal", "nothing", "more"],
)
async def test_a_call_is_charged_what_it_used_and_never_more_than_was_held(
    wallet: AccountWallet, tokens: int, balance: int, journal: list[tuple[str, int, int]]
) -> None:
    hold = await wallet.reserve(500)
    assert await wallet.figures() == (1000, 500)

    settled = await wallet.settle(hold, used(tokens))

    assert await wallet.figures() == (balance, 0)
    assert (await wallet.transfers())[1:] == journal
    assert (settled.cost_credits, settled.charged_credits) == (tokens, min(tokens, 500))
    assert settled.flags == (("overrun",) if tokens > 500 else ())


async def test_a_call_that_was_not_made_costs_nothing(wallet: AccountWallet) -> None:
    hold = await wallet.reserve(500)
    assert (await wallet.void(hold)).state is HoldState.VOIDED
    assert await wallet.figures() == (1000, 0)
    assert len(await wallet.transfers()) == 1


async def test_a_call_whose_answer_is_lost_costs_the_user_nothing_and_is_booked(
    wallet: AccountWallet,
) -> None:
    hold = await wallet.reserve(550, counted_input_tokens=200, output_cap_tokens=300)
    lost = await wallet.lose(hold)
    assert (lost.state, lost.cost_credits, lost.charged_credits) == (HoldState.LOST, 500, 0)
    assert await wallet.figures() == (1000, 0)
    assert (await wallet.transfers())[1:] == [("loss", 500, 1000)]


async def test_a_call_that_ends_without_an_answer_is_paid_for_and_marked(
    wallet: AccountWallet,
) -> None:
    hold = await wallet.reserve(500, purpose=Purpose.CALL)
    settled = await wallet.transact(lambda c: holds.settle(c, hold.key, used(20), None))
    assert settled.flags == ("unfinished",)
    assert await wallet.figures() == (980, 0)


async def test_what_is_doubted_costs_no_more_than_was_held(wallet: AccountWallet) -> None:
    hold = await wallet.reserve(500)
    reported = {"reported": {"output_tokens": 5000}}
    settled = await wallet.settle(
        hold, used(5000, is_doubted=True, flags=("usage_absurd",), reported=reported)
    )
    assert (settled.cost_credits, settled.overrun_credits) == (500, 0)
    assert settled.flags == ("usage_absurd",)
    kept = await wallet.transact(
        lambda c: c.fetchval("select reported_usage from token_wallet_holds")
    )
    assert kept == reported


async def test_the_prices_of_the_hold_count_whatever_they_are_later(wallet: AccountWallet) -> None:
    """A third of a credit per token: seven of them and two at another price are rounded up once."""
    rates = Rates(Decimal("0.3333333333"), Decimal("1.2345678901"))
    new = wallet.build(100, rates=rates, output_cap_tokens=10)
    hold = await wallet.transact(lambda c: holds.reserve(c, new))
    assert hold.rates == rates
    settled = await wallet.settle(hold, used(2, input_tokens=7))
    assert settled.cost_credits == rates.cost(7, 2) == 5


# -- once ------------------------------------------------------------------------------------------


async def test_a_hold_that_is_asked_for_again_is_the_same(wallet: AccountWallet) -> None:
    new = wallet.build(500)
    first = await wallet.transact(lambda c: holds.reserve(c, new))
    assert await wallet.transact(lambda c: holds.reserve(c, new)) == first
    assert await wallet.figures() == (1000, 500)
    other = wallet.build(400, key=new.key)
    with refusing(Conflict, "500", "pending", reason="hold_key_is_used_once"):
        await wallet.transact(lambda c: holds.reserve(c, other))
    await wallet.void(first)


async def test_a_hold_that_is_resolved_is_not_given_out_again(wallet: AccountWallet) -> None:
    new = wallet.build(500)
    await wallet.settle(await wallet.transact(lambda c: holds.reserve(c, new)), used(1))
    with refusing(Conflict, "posted", reason="hold_key_is_used_once"):
        await wallet.transact(lambda c: holds.reserve(c, new))


async def test_settling_twice_charges_once_and_returns_the_same(wallet: AccountWallet) -> None:
    hold = await wallet.reserve(500)
    first = await wallet.settle(hold, used(400))
    assert await wallet.settle(hold, used(1)) == first
    assert await wallet.figures() == (600, 0)


async def test_voiding_and_losing_twice_change_nothing(wallet: AccountWallet) -> None:
    voided, lost = await wallet.reserve(1), await wallet.reserve(1)
    assert await wallet.void(voided) == await wallet.void(voided)
    assert await wallet.lose(lost) == await wallet.lose(lost)
    assert await wallet.figures() == (1000, 0)


@pytest.mark.parametrize(
    ("first", "second"), list(itertools.permutations(["settle", "void", "lose"], 2))
)
async def test_a_hold_is_resolved_one_way_and_the_others_are_told(
    wallet: AccountWallet, first: str, second: str
) -> None:
    hold = await wallet.reserve(500)
    acts = {"settle": lambda: wallet.settle(hold, used(5)), "void": lambda: wallet.void(hold)}
    acts["lose"] = lambda: wallet.lose(hold)
    done = await acts[first]()
    before = await wallet.figures()
    with refusing(Conflict, done.state, reason="hold_ends_once"):
        await acts[second]()
    assert await wallet.figures() == before


async def test_a_hold_that_does_not_exist_cannot_be_settled(wallet: AccountWallet) -> None:
    acts = (holds.void, holds.lose, holds.load_hold)
    for act in acts:
        with refusing(NotFound, "nothing", reason="hold_exists"):
            await wallet.transact(partial(act, key="nothing"))


async def test_an_answer_is_paid_for_once(wallet: AccountWallet) -> None:
    first, second = await wallet.reserve(10), await wallet.reserve(10)
    answer_id = uuid4()
    await wallet.settle(first, used(1), answer_id=answer_id)
    with violated("one_hold_per_answer"):
        await wallet.settle(second, used(1), answer_id=answer_id)
    await wallet.void(second)


async def test_the_same_deposit_twice_is_put_in_once(wallet: AccountWallet) -> None:
    balances = await asyncio.gather(*(wallet.top_up(5, key="mine") for _ in range(4)))
    assert balances == [1005] * 4
    assert await wallet.top_up(5, key="another") == 1010


async def test_another_deposit_under_the_same_key_is_refused(wallet: AccountWallet) -> None:
    await wallet.top_up(5, key="mine")
    with refusing(Conflict, "5", "mine", "6", reason="deposit_key_is_used_once"):
        await wallet.top_up(6, key="mine")


async def test_what_rolls_back_never_was(wallet: AccountWallet) -> None:
    hold = await wallet.reserve(100)

    async def work(connection: Connection) -> None:
        await holds.settle(connection, hold.key, used(50), uuid4())
        raise InterruptedError

    with pytest.raises(InterruptedError):
        await wallet.transact(work)
    assert await wallet.figures() == (1000, 100)
    await wallet.settle(hold, used(50))
    assert await wallet.figures() == (950, 0)


# -- limits ----------------------------------------------------------------------------------------


async def test_what_is_held_cannot_be_held_again(wallet: AccountWallet) -> None:
    hold = await wallet.reserve(900)
    with pytest.raises(FundsError) as refused:
        await wallet.reserve(101)
    assert refused.value.is_held_by_others
    for figure in ("$0.000101", "$0.0001", "$0.0010", "$0.0009"):
        assert figure in refused.value.message
    with pytest.raises(FundsError) as empty:
        await wallet.reserve(1001)
    assert not empty.value.is_held_by_others
    await wallet.void(hold)


async def test_a_wallet_that_only_counts_refuses_nothing_and_counts_all(engine: Engine) -> None:
    async with AccountWallet.open(engine) as wallet:
        await wallet.ask(lambda c: wallets.set_unlimited(c, wallet.wallet_id, is_unlimited=True))
        hold = await wallet.reserve(700)
        assert await wallet.figures() == (0, 700)
        await wallet.settle(hold, used(600))
        assert await wallet.figures() == (-600, 0)
        with refusing(Conflict, reason="wallet_overdrawn", action=RemedyAction.TOP_UP):
            await wallet.ask(
                lambda c: wallets.set_unlimited(c, wallet.wallet_id, is_unlimited=False)
            )
        await wallet.top_up(600)
        await wallet.ask(lambda c: wallets.set_unlimited(c, wallet.wallet_id, is_unlimited=False))
        with pytest.raises(FundsError):
            await wallet.reserve(1)
        assert await wallet.breaches() == []


async def open_session(engine: Engine, wallet: AccountWallet, *, budget: int | None) -> UUID:
    begun = await make_session(engine, wallet.account)
    await wallet.ask(lambda c: wallets.set_budget(c, begun.session_id, budget))
    return begun.session_id


async def test_a_session_never_spends_more_than_its_budget(
    engine: Engine, wallet: AccountWallet
) -> None:
    session_id = await open_session(engine, wallet, budget=500)
    first = await wallet.reserve(300, session_id=session_id)
    with refusing(
        FundsError, "$0.0002", reason="budget", action=RemedyAction.RAISE_BUDGET
    ) as refused:
        await wallet.reserve(201, session_id=session_id)
    assert refused.value.is_held_by_others
    await wallet.settle(first, used(400))  # an overrun is not the session's
    second = await wallet.reserve(200, session_id=session_id)
    await wallet.settle(second, used(200))
    with pytest.raises(FundsError) as used_up:
        await wallet.reserve(1, session_id=session_id)
    assert not used_up.value.is_held_by_others
    assert await wallet.figures() == (500, 0)
    await wallet.settle(await wallet.reserve(500), used(1))  # elsewhere there is money


async def test_a_budget_holds_for_a_wallet_that_only_counts_and_for_play_money(
    engine: Engine, wallet: AccountWallet
) -> None:
    session_id = await open_session(engine, wallet, budget=500)
    await wallet.ask(lambda c: wallets.set_unlimited(c, wallet.wallet_id, is_unlimited=True))
    for is_play in (False, True):
        hold = await wallet.reserve(500, session_id=session_id, is_play=is_play)
        with refusing(FundsError, reason="budget"):
            await wallet.reserve(1, session_id=session_id, is_play=is_play)
        await wallet.settle(hold, used(500))


@pytest.mark.parametrize("is_unlimited", [False, True])
@pytest.mark.parametrize("budget", [None, 400, 5000])
async def test_money_is_reserved_at_once_only_if_no_approval_is_needed(
    engine: Engine, wallet: AccountWallet, budget: int | None, is_unlimited: bool
) -> None:
    session_id = await open_session(engine, wallet, budget=budget)
    await wallet.ask(
        lambda c: wallets.set_unlimited(c, wallet.wallet_id, is_unlimited=is_unlimited)
    )
    await wallet.settle(await wallet.reserve(50, session_id=session_id), used(50))
    in_flight = await wallet.reserve(150, session_id=session_id)
    tenant_id, fraction = wallet.account.tenant_id, Decimal("0.2")
    purse = await wallets.load_funds(
        wallet.db, tenant_id, wallet.wallet_id, session_id, is_play=False
    )
    held = []
    for amount in (1, 80, 81, 160, 161, 200, 201, 800, 801, 4800, 4801):
        new = wallet.build(amount, session_id=session_id)
        hold = await holds.reserve_unasked(wallet.db, tenant_id, new, fraction)
        try:
            check_spend(amount, purse, fraction)
        except DialecticError:
            assert hold is None, amount
            with pytest.raises(NotFound):
                await wallet.transact(partial(holds.load_hold, key=new.key))
        else:
            if hold is None:
                assert budget is not None, "a budget is an approval, but calls share it"
                continue
            # Asked for again, it is found, whatever is left beside it.
            assert await holds.reserve_unasked(wallet.db, tenant_id, new, Decimal(0)) == hold
            await wallet.void(hold)
            held.append(amount)
    assert held, "some of it asks nobody"
    await wallet.void(in_flight)


async def test_a_budget_is_raised_and_lowered_down_to_what_is_spent(
    engine: Engine, wallet: AccountWallet
) -> None:
    session_id = await open_session(engine, wallet, budget=None)
    await wallet.settle(await wallet.reserve(300, session_id=session_id), used(300))
    with refusing(Conflict, reason="budget_spent", action=RemedyAction.SHOW_COSTS):
        await wallet.ask(lambda c: wallets.set_budget(c, session_id, 299))
    await wallet.ask(lambda c: wallets.set_budget(c, session_id, 300))
    with pytest.raises(FundsError):
        await wallet.reserve(1, session_id=session_id)
    await wallet.ask(lambda c: wallets.set_budget(c, session_id, 301))
    await wallet.void(await wallet.reserve(1, session_id=session_id))
    with refusing(NotFound, reason="session_exists"):
        await wallet.ask(lambda c: wallets.set_budget(c, uuid4(), 1))


async def test_funds_say_what_may_be_spent(engine: Engine, wallet: AccountWallet) -> None:
    session_id = await open_session(engine, wallet, budget=500)
    hold = await wallet.reserve(200, session_id=session_id)

    async def look(*, is_play: bool) -> tuple[int | None, ...]:
        purse = await wallets.load_funds(
            wallet.db, wallet.account.tenant_id, wallet.wallet_id, session_id, is_play=is_play
        )
        return purse.available_credits, purse.budget_credits, purse.budget_left_credits

    assert await look(is_play=False) == (800, 500, 300)
    assert await look(is_play=True) == (PLAY, 500, 500)
    await wallet.ask(lambda c: wallets.set_unlimited(c, wallet.wallet_id, is_unlimited=True))
    assert await look(is_play=False) == (None, 500, 300)
    await wallet.settle(hold, used(1))


# -- many at once ----------------------------------------------------------------------------------


async def test_of_many_at_once_as_many_pass_as_there_is_money_for(engine: Engine) -> None:
    async with AccountWallet.open(engine, amount=3 * 70, size=16) as wallet:
        outcomes = await asyncio.gather(
            *(wallet.reserve(70) for _ in range(32)), return_exceptions=True
        )
        passed = [hold for hold in outcomes if not isinstance(hold, BaseException)]
        assert len(passed) == 3
        assert {type(o) for o in outcomes if isinstance(o, BaseException)} == {FundsError}
        assert await wallet.figures() == (210, 210)
        await asyncio.gather(*(wallet.settle(hold, used(70)) for hold in passed))
        assert await wallet.figures() == (0, 0)
        assert await wallet.breaches() == []


async def test_of_many_at_once_no_more_pass_than_the_budget_allows(engine: Engine) -> None:
    async with AccountWallet.open(engine, amount=10_000, size=16) as wallet:
        session_id = await open_session(engine, wallet, budget=3 * 70 + 69)
        outcomes = await asyncio.gather(
            *(wallet.reserve(70, session_id=session_id) for _ in range(32)), return_exceptions=True
        )
        passed = [hold for hold in outcomes if not isinstance(hold, BaseException)]
        assert len(passed) == 3
        assert await wallet.breaches() == []


async def test_the_same_hold_asked_for_by_many_at_once_is_held_once(engine: Engine) -> None:
    async with AccountWallet.open(engine, amount=1000, size=16) as wallet:
        new = wallet.build(100)
        found = await asyncio.gather(
            *(wallet.transact(lambda c: holds.reserve(c, new)) for _ in range(16))
        )
        assert set(found) == {found[0]}
        assert await wallet.figures() == (1000, 100)
        settled = await asyncio.gather(*(wallet.settle(found[0], used(30)) for _ in range(16)))
        assert set(settled) == {settled[0]}
        assert await wallet.figures() == (970, 0)


async def test_a_process_that_freezes_before_its_commit_does_not_block_the_wallet(
    engine: Engine,
) -> None:
    async with AccountWallet.open(engine, amount=1000, size=2) as wallet:
        session_id = await open_session(engine, wallet, budget=1000)
        answered, turned_away = [await wallet.reserve(100, session_id=session_id) for _ in range(2)]

        async def resolve(connection: Connection) -> None:
            await holds.settle(connection, answered.key, used(30), uuid4())
            await holds.void(connection, turned_away.key)
            async with asyncio.timeout(20):
                await wallet.reserve(100, session_id=session_id)
            assert await wallet.figures() == (1000, 300), "nothing has moved yet"

        await wallet.transact(resolve)
        assert await wallet.figures() == (970, 100)
        assert await wallet.breaches() == []


async def test_money_that_a_transaction_has_freed_is_seen_by_a_check_of_funds_in_it(
    engine: Engine, wallet: AccountWallet
) -> None:
    session_id = await open_session(engine, wallet, budget=500)
    hold = await wallet.reserve(200, session_id=session_id)

    async def resolve(connection: Connection) -> tuple[int | None, int | None]:
        await holds.settle(connection, hold.key, used(50), uuid4())
        purse = await wallets.watch_funds(connection, session_id, is_play=False)
        return purse.available_credits, purse.budget_left_credits

    assert await wallet.transact(resolve) == (950, 450)
    assert await wallet.breaches() == []


async def test_many_workers_sweepers_and_resolvers_never_deadlock(
    engine: Engine, admin: AdminConnection
) -> None:
    """Two wallets, three sessions, and a sweeper that resolves what workers are resolving."""
    async with AccountWallet.open(engine, amount=10**9, size=18) as wallet:
        sessions = [await open_session(engine, wallet, budget=10**8) for _ in range(3)]
        other_id = await wallet.ask(lambda c: wallets.open_wallet(c, None))
        await wallet.ask(
            lambda c: wallets.top_up(c, other_id, wallets.Deposit(key="1", amount_credits=10**9))
        )

        async def work(nth: int) -> None:
            for turn in range(12):
                hold = await wallet.reserve(
                    100,
                    session_id=sessions[(nth + turn) % 3],
                    wallet_id=wallet.wallet_id if nth % 2 else other_id,
                )
                act = (wallet.void, wallet.lose, lambda h: wallet.settle(h, used(7)))[
                    (nth + turn) % 3
                ]
                with contextlib.suppress(Conflict):  # the sweeper was quicker
                    await act(hold)

        async def sweep() -> None:
            for _ in range(12):
                await wallet.transact(lambda c: holds.sweep_lost(c, age_s=0.0))

        await asyncio.gather(*(work(nth) for nth in range(16)), sweep())
        assert (
            await admin.fetchval(
                "select deadlocks from pg_stat_database where datname = current_database()"
            )
            == 0
        )
        assert await wallet.breaches() == []
        assert (await wallet.look()).held_credits == 0


# -- what nobody resolves any more -----------------------------------------------------------------


async def claim_job(engine: Engine, wallet: AccountWallet) -> Job:
    begun = await make_session(engine, wallet.account)
    (job_id,) = await insert_jobs(
        engine.db, wallet.account.tenant_id, [build_job(begun.session_id)]
    )
    key = (wallet.account.tenant_id, job_id)
    claimed = await jobs.claim(wallet.db, [key], worker="first", terms=TERMS, lost_max=LOST_MAX)
    return claimed[key]


async def sweep(wallet: AccountWallet, *, age_s: float = 3600.0) -> int:
    return await wallet.transact(lambda c: holds.sweep_lost(c, age_s=age_s))


async def test_a_hold_is_for_a_living_attempt_only(engine: Engine, wallet: AccountWallet) -> None:
    job = await claim_job(engine, wallet)
    with refusing(LeaseLost, str(job.id), reason="attempt_is_under_way"):
        await wallet.reserve(1, job_id=job.id, attempt=2)
    hold = await wallet.reserve(1, job_id=job.id, attempt=1)
    await wallet.transact(lambda c: jobs.release(c, job))
    with pytest.raises(LeaseLost):
        await wallet.reserve(1, job_id=job.id, attempt=1)
    await wallet.void(hold)


async def test_the_hold_of_an_attempt_that_is_over_is_lost(
    engine: Engine, wallet: AccountWallet
) -> None:
    job = await claim_job(engine, wallet)
    hold = await wallet.reserve(100, job_id=job.id, attempt=job.attempt)
    assert await sweep(wallet) == 0  # its worker lives
    await wallet.transact(lambda c: jobs.release(c, job))
    assert await sweep(wallet) == 1
    assert await sweep(wallet) == 0
    found = await wallet.transact(lambda c: holds.load_hold(c, hold.key))
    assert found.state is HoldState.LOST
    assert await wallet.figures() == (1000, 0)
    with refusing(Conflict, reason="hold_ends_once"):
        await wallet.settle(hold, used(1))


async def test_a_hold_of_a_deleted_job_is_given_up(
    engine: Engine, wallet: AccountWallet, admin: AdminConnection
) -> None:
    job = await claim_job(engine, wallet)
    await wallet.reserve(100, job_id=job.id, attempt=job.attempt, session_id=job.session_id)
    await admin.execute("delete from dialectic_sessions where id = $1", job.session_id)
    assert await sweep(wallet) == 1
    assert await wallet.figures() == (1000, 0)


async def test_a_hold_whose_worker_is_silent_for_long_is_given_up(
    engine: Engine, wallet: AccountWallet, admin: AdminConnection
) -> None:
    job = await claim_job(engine, wallet)
    await wallet.reserve(100, job_id=job.id, attempt=job.attempt)
    await admin.execute(
        "update dialectic_generation_jobs set lease_until = now() - interval '1 h' where id = $1",
        job.id,
    )
    assert await sweep(wallet, age_s=3700) == 0
    assert await sweep(wallet, age_s=3500) == 1


async def test_a_hold_without_a_job_is_given_up_when_no_call_takes_so_long(
    wallet: AccountWallet,
) -> None:
    await wallet.reserve(100, purpose=Purpose.CHAT)
    assert await sweep(wallet) == 0
    assert await sweep(wallet, age_s=0.0) == 1


async def test_a_hold_that_is_being_settled_is_not_swept(wallet: AccountWallet) -> None:
    hold = await wallet.reserve(100)

    async def work(connection: Connection) -> None:
        await holds.settle(connection, hold.key, used(10), uuid4())
        assert await sweep(wallet, age_s=0.0) == 0

    await wallet.transact(work)
    assert await wallet.figures() == (990, 0)


# -- what was spent on what ------------------------------------------------------------------------


async def test_the_costs_of_a_session_are_told_by_stage_and_model(
    engine: Engine, wallet: AccountWallet
) -> None:
    session_id = (await make_session(engine, wallet.account)).session_id

    async def call(stage: str, model: str, **changes: object) -> holds.Hold:
        return await wallet.reserve(
            100, session_id=session_id, stage_slug=stage, model_name=model, **changes
        )

    await wallet.settle(await call("thesis", "a/1"), used(30, input_tokens=5))
    await wallet.settle(await call("thesis", "a/1"), used(105))
    await wallet.lose(await call("thesis", "a/1"))
    await wallet.void(await call("thesis", "a/1"))
    await wallet.settle(await call("thesis", "b/1", is_play=True), used(7))
    await call("antithesis", "a/1", purpose=Purpose.EMBEDDING)

    costs = await wallet.transact(lambda c: audit.report_costs(c, session_id))
    assert [
        (c.stage_slug, c.model_name, c.purpose, c.is_play, c.calls, c.charged_credits)
        for c in costs
    ] == [
        ("thesis", "a/1", "trial", False, 2, 135),
        ("thesis", "b/1", "trial", True, 1, 7),
        ("antithesis", "a/1", "embedding", False, 0, 0),
    ]
    first, _, last = costs
    assert (first.input_tokens, first.output_tokens, first.overrun_credits) == (5, 135, 5)
    assert (first.lost_calls, first.lost_credits, last.held_credits) == (1, 100, 100)


async def test_the_history_tells_the_newest_first_with_what_it_was_for(
    wallet: AccountWallet,
) -> None:
    await wallet.settle(await wallet.reserve(10, stage_slug="thesis"), used(4))
    newest, *rest = await wallet.transact(
        lambda c: audit.list_history(c, wallet.wallet_id, limit=2)
    )
    assert (newest.change_credits, newest.balance_after_credits) == (-4, 996)
    assert (newest.model_name, newest.stage_slug) == ("maker/model", "thesis")
    assert [row.transaction_type for row in rest] == ["top_up"]
    assert rest[0].model_name is None
