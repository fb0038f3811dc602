"""What the limits of an endpoint let through, for all workers together, at times the test sets."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncIterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dialectic.db.pool import WORKER_ROLE, Address, Database, connect
from dialectic.engine import Engine
from dialectic.errors import EndpointBusy
from dialectic.limits import admission
from dialectic.limits.admission import HealthCache, Outcome, Report
from tests.database.endpoint_fixture import ANSWERED, Caller, ask, build_endpoint
from tests.database.job_table import JobTable
from tests.problems import refusing

MINUTE_S = 60.0
# Of a minute's allowance this much is used, and this much may go at once after a rest.
USED_SHARE, BURST_SHARE = 0.95, 0.03


@pytest.fixture(scope="module")
def address(module_address: Address) -> Address:
    return module_address


@pytest.fixture
async def job_table(engine: Engine) -> AsyncIterator[JobTable]:
    async with JobTable.open(engine) as opened:
        yield opened


def most_in_a_minute(sent: list[tuple[float, int]]) -> int:
    """The most that was sent within any sixty seconds; each call counts for its tokens, or one."""
    sent = sorted(sent)
    most = total = first = 0
    for at_s, amount in sent:
        total += amount
        while sent[first][0] <= at_s - MINUTE_S:
            total -= sent[first][1]
            first += 1
        most = max(most, total)
    return most


async def play(
    caller: Caller, *, askers: int, until_s: float, tokens: int = 0
) -> list[tuple[float, int]]:
    """Let a number of callers call as fast as they may, and retry when they are told to.

    Returns when each call went, and what it counts for.
    """
    sent: list[tuple[float, int]] = []
    now_s = 0.0
    coming = [(0.0, number) for number in range(askers)]
    while coming[0][0] < until_s:
        at_s, number = heapq.heappop(coming)
        await caller.job_table.advance(at_s - now_s)
        now_s = at_s
        verdict = await caller.ask(tokens=tokens)
        if verdict.may_go:
            assert verdict.wait_s <= admission.PATIENCE_S
            sent.append((at_s + verdict.wait_s, tokens or 1))
        else:
            assert verdict.wait_s > 0
        # One that called is back when its call has begun, one that was sent away as it was told.
        heapq.heappush(coming, (at_s + verdict.wait_s, number))
    return sent


async def test_three_workers_use_the_rate_and_never_more(job_table: JobTable) -> None:
    caller = await Caller.open(job_table, requests_per_minute=600)
    sent = await play(caller, askers=30, until_s=130.0)
    assert most_in_a_minute(sent) <= 600
    last_two_minutes = [call for call in sent if call[0] >= 10.0]
    assert len(last_two_minutes) / 2 >= 0.9 * 600


async def test_the_tokens_of_a_minute_are_used_and_no_more_than_one_call_beyond(
    job_table: JobTable,
) -> None:
    caller = await Caller.open(job_table, tokens_per_minute=60_000)
    sent = await play(caller, askers=10, until_s=190.0, tokens=2000)
    assert most_in_a_minute(sent) <= 60_000 * (USED_SHARE + BURST_SHARE) + 2000
    assert sum(amount for at_s, amount in sent if at_s >= 10.0) / 3 >= 0.9 * 60_000


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    per_minute=st.integers(1, 1200),
    gaps_s=st.lists(
        st.one_of(st.just(0.0), st.floats(0.0, 0.2), st.floats(0.0, 30.0)),
        min_size=20,
        max_size=60,
    ),
)
async def test_whenever_calls_are_asked_for_no_minute_holds_more_than_its_limit(
    job_table: JobTable, per_minute: int, gaps_s: list[float]
) -> None:
    caller = Caller(job_table, build_endpoint(requests_per_minute=per_minute))
    caller.jobs = (await Caller.open(job_table)).jobs
    sent: list[tuple[float, int]] = []
    now_s = 0.0
    for gap_s in gaps_s:
        await job_table.advance(gap_s)
        now_s += gap_s
        verdict = await caller.ask()
        if verdict.may_go:
            sent.append((now_s + verdict.wait_s, 1))
    assert sent, "the first one always goes"
    assert most_in_a_minute(sent) <= per_minute


async def test_after_a_rest_a_few_go_at_once_and_the_next_wait_where_they_are(
    job_table: JobTable,
) -> None:
    caller = await Caller.open(job_table, requests_per_minute=600)
    waits_s = [(await caller.ask()).wait_s for _ in range(20)]
    step_s = MINUTE_S / (USED_SHARE * 600)
    assert waits_s[:18] == [0.0] * 18
    assert waits_s[18:] == pytest.approx([step_s, 2 * step_s], abs=1e-5)


async def test_calls_that_would_wait_too_long_are_sent_away_each_to_a_time_of_its_own(
    job_table: JobTable,
) -> None:
    caller = await Caller.open(job_table, requests_per_minute=60)
    verdicts = [await caller.ask() for _ in range(8)]
    assert [verdict.verdict for verdict in verdicts] == ["go"] * 2 + ["wait"] * 6
    step_s = MINUTE_S / (USED_SHARE * 60)
    away_s = [verdict.wait_s for verdict in verdicts[2:]]
    assert away_s == pytest.approx([(2 + nth) * step_s for nth in range(6)], abs=1e-4)
    assert {round(verdict.closed_s, 3) for verdict in verdicts[2:]} == {round(2 * step_s, 3)}


async def test_no_call_is_delayed_for_more_than_a_minute(job_table: JobTable) -> None:
    caller = await Caller.open(job_table, requests_per_minute=6)
    waits_s = [(await caller.ask()).wait_s for _ in range(30)]
    assert max(waits_s) == MINUTE_S


async def test_tokens_that_a_call_did_not_use_are_given_back(job_table: JobTable) -> None:
    caller = await Caller.open(job_table, tokens_per_minute=10_000)
    assert (await caller.ask(tokens=8000)).may_go
    before = await caller.ask(tokens=100)
    await caller.tell(Report(Outcome.ANSWERED, used_tokens=500), tokens=8000)
    after = await caller.ask(tokens=100)
    second_s = MINUTE_S / (USED_SHARE * 10_000)
    assert before.closed_s - after.closed_s == pytest.approx(7500 * second_s, abs=1e-3)
    assert (before.verdict, after.verdict) == ("wait", "go")


async def test_a_call_of_unknown_cost_gives_nothing_back(
    job_table: JobTable,
) -> None:
    caller = await Caller.open(job_table, tokens_per_minute=10_000)
    await caller.ask(tokens=8000)
    before = await caller.ask(tokens=100)
    await caller.tell(Report(Outcome.FAILED, used_tokens=None), tokens=8000)
    assert (await caller.ask(tokens=100)).closed_s == before.closed_s


async def test_a_call_that_cost_more_than_was_set_aside_is_counted_whole(
    job_table: JobTable,
) -> None:
    caller = await Caller.open(job_table, tokens_per_minute=10_000)
    await caller.ask(tokens=1000)
    await caller.tell(Report(Outcome.ANSWERED, used_tokens=3000), tokens=1000)
    second_s = MINUTE_S / (USED_SHARE * 10_000)
    turn = await caller.ask(tokens=100)
    assert turn.closed_s == pytest.approx((3000 - BURST_SHARE * 10_000) * second_s, abs=1e-3)


async def test_a_clock_that_is_set_back_delays_no_call(job_table: JobTable) -> None:
    caller = await Caller.open(job_table, requests_per_minute=60, tokens_per_minute=1000)
    await job_table.advance(3600.0)
    while (await caller.ask(tokens=500)).may_go:
        pass
    await job_table.advance(-3600.0)
    assert (await caller.ask(tokens=500)).wait_s == 0.0
    assert 20 < (await caller.ask(tokens=500)).wait_s <= MINUTE_S, "and the pace is kept again"


async def test_a_call_larger_than_any_limit_is_not_waited_for_without_end(
    job_table: JobTable,
) -> None:
    caller = await Caller.open(job_table, tokens_per_minute=1000)
    assert (await caller.ask(tokens=1_000_000)).may_go
    assert not (await caller.ask(tokens=1)).may_go
    await job_table.advance(500.0)
    assert (await caller.ask(tokens=1)).may_go


async def test_endpoints_do_not_wait_for_each_other(job_table: JobTable) -> None:
    held = await Caller.open(job_table, requests_per_minute=60)
    free = await Caller.open(job_table, requests_per_minute=60)
    await held.ask()
    admin = await connect(job_table.address, WORKER_ROLE)
    async with job_table.others(2) as others:
        try:
            await admin.execute("begin")
            await admin.fetch(
                "select dialectic.admit_call($1, $2, $3, 1, 60, null, null, 0, interval '2 s', 0)",
                held.endpoint.name,
                *held.jobs[0].key,
            )
            waiting = asyncio.create_task(ask(others, held.endpoint, held.jobs[0]))
            assert (await ask(others, free.endpoint, free.jobs[0])).may_go
            assert not waiting.done()
            await admin.execute("rollback")
            assert (await waiting).may_go
        finally:
            admin.terminate()


# -- places ----------------------------------------------------------------------------------------


async def test_a_limited_number_of_calls_run_at_a_time_and_each_end_frees_a_place(
    job_table: JobTable,
) -> None:
    caller = await Caller.open(job_table, jobs=3, max_concurrency=2)
    assert [(await caller.ask(n)).verdict for n in range(3)] == ["go", "go", "wait"]
    await caller.tell(ANSWERED, 0)
    assert (await caller.ask(2)).may_go


async def test_an_attempt_that_asks_again_has_one_place(job_table: JobTable) -> None:
    caller = await Caller.open(job_table, jobs=2, max_concurrency=2)
    for _ in range(3):
        assert (await caller.ask(0)).may_go
    assert (await caller.ask(1)).may_go


async def test_the_place_of_a_dead_worker_comes_back_with_its_job(job_table: JobTable) -> None:
    caller = await Caller.open(job_table, jobs=2, max_concurrency=1)
    dead, other = caller.jobs
    assert (await caller.ask(0)).may_go
    await job_table.advance(5.0)
    await job_table.beat(other)
    assert not (await caller.ask(1)).may_go, "it may still be alive"
    await job_table.lose_lease(dead)
    await job_table.take(dead.id, worker="second")
    assert (await caller.ask(1)).may_go


async def test_a_job_that_is_given_back_or_cancelled_leaves_its_place(job_table: JobTable) -> None:
    caller = await Caller.open(job_table, jobs=3, max_concurrency=1)
    assert (await caller.ask(0)).may_go
    await job_table.release(caller.jobs[0])
    assert (await caller.ask(1)).may_go
    await job_table.fetch(
        "update dialectic_generation_jobs set status = 'cancelled' where id = $1",
        caller.jobs[1].id,
    )
    assert (await caller.ask(2)).may_go


async def test_many_who_ask_at_once_get_no_more_places_than_there_are(job_table: JobTable) -> None:
    caller = await Caller.open(job_table, jobs=16, max_concurrency=3)
    async with job_table.others(8) as others:
        verdicts = await asyncio.gather(*(ask(others, caller.endpoint, job) for job in caller.jobs))
    assert sum(verdict.may_go for verdict in verdicts) == 3


# -- patience --------------------------------------------------------------------------------------


def throttled(retry_after_s: float | None = None) -> Report:
    return Report(Outcome.THROTTLED, used_tokens=0, retry_after_s=retry_after_s)


async def test_no_call_is_made_before_the_time_that_the_endpoint_named(job_table: JobTable) -> None:
    caller = await Caller.open(job_table, requests_per_minute=600)
    await caller.tell(throttled(7.0))
    early = await caller.ask()
    assert (early.verdict, early.closed_s) == ("wait", 7.0)
    await job_table.advance(4.9)
    assert not (await caller.ask()).may_go
    await job_table.advance(0.2)
    soon = await caller.ask()
    assert soon.may_go
    assert soon.wait_s == pytest.approx(1.9)


async def test_the_rate_is_lower_afterwards_and_recovers(job_table: JobTable) -> None:
    caller = await Caller.open(job_table, requests_per_minute=600)

    async def find_rate() -> float:
        rate: float | None = (await caller.describe())["rate_per_minute"]
        return 600.0 if rate is None else min(600.0, rate)

    await caller.ask()
    assert await find_rate() == 600
    await caller.tell(throttled(1.0))
    assert await find_rate() == pytest.approx(420)
    await caller.tell(throttled(1.0))
    assert await find_rate() == pytest.approx(420), "refused together is refused once"
    await job_table.advance(6.0)
    await caller.tell(throttled(1.0))
    assert 290 < await find_rate() < 330
    await job_table.advance(70.0)
    assert await find_rate() == 600


async def test_an_endpoint_without_limits_that_asks_for_patience_is_given_a_rate(
    job_table: JobTable,
) -> None:
    caller = await Caller.open(job_table)
    await caller.tell_often(ANSWERED, 120)
    assert [(await caller.ask()).wait_s for _ in range(50)] == [0.0] * 50
    await caller.tell(throttled())
    sent = await play(caller, askers=20, until_s=20.0)
    # 0.7 of 120 a minute, of which 95 % are used; doubling every minute.
    assert 24 <= len(sent) <= 36
    await job_table.advance(600.0)
    assert (await caller.ask()).is_calm


async def test_one_throttled_call_at_the_start_of_a_run_does_not_slow_it_for_minutes(
    job_table: JobTable,
) -> None:
    caller = await Caller.open(job_table)
    await caller.tell(throttled(1.0))
    await job_table.advance(1.1)
    sent = await play(caller, askers=9, until_s=30.0)
    assert len(sent) >= 9
    # An endpoint that goes on refusing is called less and less.
    for _ in range(8):
        await job_table.advance(6.0)
        await caller.tell(throttled(1.0))
    assert (await caller.describe())["rate_per_minute"] < 6


@pytest.mark.parametrize("retry_after_s", [-5.0, float("nan"), 0.0])
async def test_a_wait_that_makes_no_sense_closes_nothing(
    job_table: JobTable, retry_after_s: float
) -> None:
    caller = await Caller.open(job_table, requests_per_minute=600)
    await caller.tell(throttled(retry_after_s))
    assert (await caller.ask()).may_go


@pytest.mark.parametrize("retry_after_s", [10 * 365 * 86_400.0, float("inf")])
async def test_a_wait_of_years_closes_for_an_hour(
    job_table: JobTable, retry_after_s: float
) -> None:
    caller = await Caller.open(job_table, requests_per_minute=600)
    await caller.tell(throttled(retry_after_s))
    assert (await caller.ask()).closed_s == 3600.0


# -- what a worker asks ----------------------------------------------------------------------------


async def test_an_endpoint_without_limits_is_asked_about_once_and_then_costs_nothing(
    job_table: JobTable,
) -> None:
    caller = await Caller.open(job_table)
    calm = HealthCache()
    async with Database.open(job_table.address, WORKER_ROLE, size=1) as db:
        await admission.admit(db, calm, caller.endpoint, caller.jobs[0])
    # The pool is closed now: whoever asked it would fail.
    for _ in range(20):
        permit = await admission.admit(db, calm, caller.endpoint, caller.jobs[0])
        await admission.report(db, calm, permit, ANSWERED)
    assert calm.answered[caller.endpoint.name] == 20


async def test_successes_that_were_not_told_count_with_the_first_failure(
    job_table: JobTable,
) -> None:
    caller = await Caller.open(job_table)
    calm = HealthCache()
    permit = await admission.admit(job_table.db, calm, caller.endpoint, caller.jobs[0])
    for _ in range(30):
        await admission.report(job_table.db, calm, permit, ANSWERED)
    for _ in range(29):
        await admission.report(job_table.db, calm, permit, Report(Outcome.FAILED, 0, "Down."))
    assert (await caller.describe())["circuit"] == "closed"
    await admission.report(job_table.db, calm, permit, Report(Outcome.FAILED, 0, "Down."))
    assert (await caller.describe())["circuit"] == "open"


async def test_a_short_wait_is_waited_for_and_a_long_one_raised(job_table: JobTable) -> None:
    caller = await Caller.open(job_table, requests_per_minute=1200)
    loop = asyncio.get_running_loop()
    for _ in range(36):
        assert (await caller.ask()).wait_s < 0.001
    begun = loop.time()
    await admission.admit(job_table.db, HealthCache(), caller.endpoint, caller.jobs[0])
    assert loop.time() - begun >= 0.05
    while (await caller.ask()).may_go:
        pass
    with refusing(EndpointBusy, subject=caller.endpoint.name) as caught:
        await admission.admit(job_table.db, HealthCache(), caller.endpoint, caller.jobs[0])
    assert type(caught.value) is EndpointBusy
    assert caught.value.wait_s > admission.PATIENCE_S
