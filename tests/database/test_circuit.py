"""The circuit of an endpoint: when it opens, who tries it, and when it closes again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from uuid import uuid4

import pytest

from dialectic.app import sessions
from dialectic.app.transaction import Tenant
from dialectic.db.pool import APP_ROLE, Address
from dialectic.engine import Engine
from dialectic.errors import (
    CircuitOpen,
    ContextWindowError,
    PartialResponse,
    ProviderAuth,
    ProviderError,
    ProviderFiltered,
    ProviderMalformed,
    ProviderQuota,
    ProviderRejected,
    ProviderThrottled,
    ProviderTransient,
    StreamTruncated,
)
from dialectic.limits import admission
from dialectic.limits.admission import HealthCache, Outcome, build_failure
from tests.database.endpoint_fixture import ANSWERED, FAILED, QUOTA, Caller, ask, build_endpoint
from tests.database.job_table import JobTable, Work
from tests.problems import refusing

FIRST_PROBE_S = 15.0


@pytest.fixture(scope="module")
def address(module_address: Address) -> Address:
    return module_address


@pytest.fixture
async def job_table(engine: Engine) -> AsyncIterator[JobTable]:
    async with JobTable.open(engine) as opened:
        yield opened


async def open_circuit(job_table: JobTable, *, jobs: int = 1) -> Caller:
    caller = await Caller.open(job_table, jobs=jobs)
    await caller.tell_often(FAILED, 10)
    return caller


async def state(caller: Caller) -> str:
    circuit: str = (await caller.describe())["circuit"]
    return circuit


# -- opening ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answered", "failed", "expected"),
    [(0, 9, "closed"), (0, 10, "open"), (5, 5, "open"), (6, 5, "closed"), (50, 49, "closed")],
)
async def test_it_opens_when_half_of_at_least_ten_calls_in_a_minute_fail(
    job_table: JobTable, answered: int, failed: int, expected: str
) -> None:
    caller = await Caller.open(job_table)
    await caller.tell_often(ANSWERED, answered)
    await caller.tell_often(FAILED, failed)
    assert await state(caller) == expected


async def test_an_answer_opens_nothing_however_many_calls_failed_before_it(
    job_table: JobTable,
) -> None:
    caller = await Caller.open(job_table)
    await caller.tell_often(FAILED, 9)
    await caller.tell(ANSWERED)
    assert await state(caller) == "closed"
    await caller.tell(FAILED)
    assert await state(caller) == "open"


async def test_what_failed_long_ago_does_not_count(job_table: JobTable) -> None:
    caller = await Caller.open(job_table)
    await caller.tell_often(FAILED, 9)
    await job_table.advance(61.0)
    await caller.tell_often(FAILED, 9)
    assert await state(caller) == "closed"
    await caller.tell(FAILED)
    assert await state(caller) == "open"


async def test_failures_of_a_minute_count_together_however_they_are_spread(
    job_table: JobTable,
) -> None:
    caller = await Caller.open(job_table)
    for _ in range(9):
        await caller.tell(FAILED)
        await job_table.advance(5.0)
    await caller.tell(FAILED)
    assert await state(caller) == "open"


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (ProviderTransient(), Outcome.FAILED),
        (StreamTruncated(), Outcome.FAILED),
        (ProviderMalformed(), Outcome.FAILED),
        (ProviderThrottled(), Outcome.THROTTLED),
        (ProviderQuota(), Outcome.QUOTA),
        (ProviderAuth(), Outcome.KEY),
        (ProviderRejected(), Outcome.ANSWERED),
        (ProviderFiltered(), Outcome.ANSWERED),
        (ContextWindowError(), Outcome.ANSWERED),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_only_what_speaks_against_the_endpoint_counts_against_it(
    job_table: JobTable, error: ProviderError | ContextWindowError, outcome: Outcome
) -> None:
    told = build_failure(error)
    assert told.outcome is outcome
    caller = await Caller.open(job_table)
    await caller.tell_often(told, 12)
    opens = outcome in (Outcome.FAILED, Outcome.QUOTA)
    assert await state(caller) == ("open" if opens else "closed")


def test_the_report_of_a_failure_tells_what_it_cost_if_anyone_knows() -> None:
    def used(**remains: object) -> int | None:
        return build_failure(ProviderTransient(remains=PartialResponse(**remains))).used_tokens  # type: ignore[arg-type]

    assert used() == 0
    assert used(was_sent=True) is None
    assert used(was_sent=True, reported_usage=(10, 5)) == 15


# -- while it is open ------------------------------------------------------------------------------


async def test_while_it_is_open_no_call_is_made_and_every_job_knows_when_to_retry(
    job_table: JobTable,
) -> None:
    caller = await open_circuit(job_table)
    verdict = await caller.ask()
    assert (verdict.verdict, verdict.wait_s, verdict.failure) == (
        "open",
        FIRST_PROBE_S,
        "It is down.",
    )
    with refusing(CircuitOpen, "It is down.", subject=caller.endpoint.name) as caught:
        await admission.admit(job_table.db, HealthCache(), caller.endpoint, caller.jobs[0])
    assert caught.value.wait_s == FIRST_PROBE_S
    await job_table.advance(FIRST_PROBE_S - 0.1)
    assert not (await caller.ask()).may_go


async def test_of_sixteen_who_ask_at_once_exactly_one_probes(job_table: JobTable) -> None:
    caller = await open_circuit(job_table, jobs=16)
    await job_table.advance(FIRST_PROBE_S)
    for job in caller.jobs:
        await job_table.beat(job)
    async with job_table.others(16) as others:
        verdicts = await asyncio.gather(*(ask(others, caller.endpoint, job) for job in caller.jobs))
    assert sum(verdict.may_go for verdict in verdicts) == 1
    assert {verdict.verdict for verdict in verdicts} == {"go", "open"}
    assert await state(caller) == "probing"


async def test_calls_that_were_under_way_when_it_opened_change_nothing(job_table: JobTable) -> None:
    caller = await open_circuit(job_table, jobs=2)
    await caller.tell(ANSWERED, 1)
    await caller.tell(FAILED, 1)
    assert await state(caller) == "open"
    assert (await caller.ask()).wait_s == FIRST_PROBE_S


async def test_a_probe_that_succeeds_closes_it(job_table: JobTable) -> None:
    caller = await open_circuit(job_table, jobs=2)
    await job_table.advance(FIRST_PROBE_S)
    assert (await caller.ask(0)).may_go
    assert not (await caller.ask(1)).may_go
    await caller.tell(ANSWERED, 0)
    assert await state(caller) == "closed"
    assert (await caller.ask(1)).is_calm
    await caller.tell_often(FAILED, 9)
    assert await state(caller) == "closed", "what failed before is forgotten"


async def test_each_probe_that_fails_doubles_the_wait_up_to_five_minutes(
    job_table: JobTable,
) -> None:
    caller = await open_circuit(job_table)
    waits_s = []
    for _ in range(7):
        verdict = await caller.ask()
        waits_s.append(verdict.wait_s)
        await job_table.advance(verdict.wait_s)
        assert (await caller.ask()).may_go
        await caller.tell(FAILED)
    assert waits_s == pytest.approx([15, 30, 60, 120, 240, 300, 300])


async def test_the_probe_of_a_chat_is_the_only_one_until_it_ends_or_is_given_up(
    job_table: JobTable,
) -> None:
    caller = await open_circuit(job_table, jobs=2)
    await job_table.advance(FIRST_PROBE_S)
    chat = replace(caller.jobs[0], id=uuid4())
    assert (await ask(job_table.db, caller.endpoint, chat)).may_go
    assert not (await caller.ask(1)).may_go
    await job_table.advance(61)
    assert (await caller.ask(1)).may_go, "its process may have died"


async def test_a_probe_whose_worker_died_is_followed_by_another(job_table: JobTable) -> None:
    caller = await open_circuit(job_table, jobs=2)
    await job_table.advance(FIRST_PROBE_S)
    await job_table.beat(*caller.jobs)
    assert (await caller.ask(0)).may_go
    await job_table.lose_lease(caller.jobs[0])
    await job_table.take(caller.jobs[0].id, worker="second")
    assert (await caller.ask(1)).may_go
    await caller.tell(FAILED, 0)
    assert await state(caller) == "probing", "the dead one has nothing to say"


async def test_one_endpoints_circuit_is_not_anothers(job_table: JobTable) -> None:
    caller = await open_circuit(job_table)
    other = build_endpoint()
    assert (await ask(job_table.db, other, caller.jobs[0])).may_go


# -- empty accounts and refused keys ---------------------------------------------------------------


async def test_an_empty_account_opens_it_at_once_and_for_long(job_table: JobTable) -> None:
    caller = await Caller.open(job_table, jobs=2)
    await caller.tell(QUOTA)
    with refusing(ProviderQuota, "No money.", reason="nothing_sent", subject=caller.endpoint.name):
        await admission.admit(job_table.db, HealthCache(), caller.endpoint, caller.jobs[1])
    await job_table.advance(3599.0)
    assert (await caller.ask(1)).verdict == "quota"
    await job_table.advance(1.0)
    assert (await caller.ask(1)).may_go


async def test_a_person_who_resumes_lets_one_call_try_an_empty_account(
    job_table: JobTable, engine: Engine
) -> None:
    caller = await Caller.open(job_table, jobs=2)
    await caller.tell(QUOTA)
    name = caller.endpoint.name

    class Asks(Work):
        model_name: str = f"{name}/model"

    paused = await job_table.take(await job_table.insert(payload=Asks()))
    await job_table.pause(paused)
    other = await Caller.open(job_table)
    await other.tell(QUOTA)

    async with job_table.others(1, APP_ROLE) as db:
        await Tenant(replace(engine, db=db), job_table.account).run(
            sessions.resume, job_table.session_id
        )
    assert [(await caller.ask(n)).verdict for n in range(2)] == ["go", "open"]
    assert (await other.ask()).verdict == "quota", "nobody waits for that one"
    await caller.tell(ANSWERED, 0)
    assert (await caller.ask(1)).may_go


async def test_a_refused_key_is_noted_until_a_call_is_answered(job_table: JobTable) -> None:
    caller = await Caller.open(job_table)
    await caller.tell(build_failure(ProviderAuth("The key is not known.")))
    noted = await caller.describe()
    assert noted["key_refused_at"] == job_table.clock
    assert (noted["key_message"], noted["circuit"]) == ("The key is not known.", "closed")
    assert not (await caller.ask()).is_calm, "whoever calls now is to say how it went"
    await caller.tell(ANSWERED)
    assert (await caller.describe())["key_refused_at"] is None
