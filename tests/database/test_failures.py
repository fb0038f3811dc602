"""What an attempt that met an error leaves in its job's row, at times the test sets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from dialectic.app import sessions
from dialectic.app.transaction import Tenant, Transaction
from dialectic.db.pool import APP_ROLE, Address, Connection
from dialectic.db.tables import jobs
from dialectic.engine import Engine
from dialectic.errors import (
    CircuitOpen,
    DialecticError,
    EndpointBusy,
    FundsError,
    KeyMissing,
    PartialResponse,
    PlanError,
    ProviderAuth,
    ProviderError,
    ProviderFiltered,
    ProviderMalformed,
    ProviderQuota,
    ProviderThrottled,
    ProviderTransient,
    Remedy,
    RemedyAction,
    SpendNeedsApproval,
    read_remedy,
)
from dialectic.ledger import wallets
from dialectic.ledger.wallets import Deposit
from dialectic.worker.failures import RAW_MAX_CHARS, record_failure
from tests.database.job_table import JobTable
from tests.waiting import until_someone_waits


@pytest.fixture(scope="module")
def address(module_address: Address) -> Address:
    return module_address


@pytest.fixture
async def job_table(engine: Engine) -> AsyncIterator[JobTable]:
    async with JobTable.open(engine) as opened:
        yield opened


@dataclass(slots=True)
class Life:
    """A job that meets one error after another, each as soon as it may run again."""

    job_table: JobTable
    job_id: UUID
    waits_s: list[float] = field(default_factory=list)

    @classmethod
    async def begin(cls, job_table: JobTable, *, max_retries: int = 3) -> Life:
        return cls(job_table, await job_table.insert(max_retries=max_retries))

    async def meet(self, *errors: DialecticError) -> str:
        """Meet errors, and return the status after the last one."""
        for error in errors:
            await record_failure(
                self.job_table.engine, await self.job_table.take(self.job_id), error
            )
            row = await self.job_table.look(self.job_id)
            if row["status"] == "retrying":
                wait_s = (row["run_at"] - self.job_table.clock).total_seconds()
                self.waits_s.append(wait_s)
                await self.job_table.advance(wait_s)
        return str(await self.job_table.status(self.job_id))

    async def complete(self) -> None:
        await self.job_table.complete(await self.job_table.take(self.job_id))


async def test_three_failures_and_an_answer_are_four_attempts_with_every_error_kept(
    job_table: JobTable,
) -> None:
    life = await Life.begin(job_table)
    assert await life.meet(*[ProviderTransient("HTTP 500.")] * 3) == "retrying"
    await life.complete()
    row = await job_table.look(life.job_id)
    assert (row["status"], row["attempt_count"], row["retry_count"]) == ("completed", 4, 3)
    assert [(e["attempt"], e["code"]) for e in row["error_details"]] == [
        (n, "provider_transient") for n in (1, 2, 3)
    ]
    for wait_s, ceiling_s in zip(life.waits_s, (2, 4, 8), strict=True):
        assert 1 <= wait_s <= ceiling_s


@pytest.mark.parametrize(
    ("error", "status", "attempts"),
    [
        (ProviderTransient(), "retry_loop_failed", 4),
        (ProviderMalformed(), "retry_loop_failed", 3),
        (ProviderMalformed("Nothing came.", retries_max=1), "retry_loop_failed", 2),
        (ProviderTransient("The certificate is too old.", retries_max=1), "retry_loop_failed", 2),
        (ProviderQuota(), "paused", 1),
    ],
    ids=["transient", "malformed", "empty", "certificate", "quota"],
)
async def test_an_error_that_stays_is_met_so_often_and_no_more(
    job_table: JobTable, error: ProviderError, status: str, attempts: int
) -> None:
    life = await Life.begin(job_table)
    assert await life.meet(*[error] * attempts) == status
    assert (await job_table.look(life.job_id))["attempt_count"] == attempts


@pytest.mark.parametrize("asked_s", [0.5, 7.0, 119.0, 121.0, 3599.0])
async def test_the_time_that_the_provider_names_is_kept_and_no_try_used_up(
    job_table: JobTable, asked_s: float
) -> None:
    life = await Life.begin(job_table, max_retries=0)
    await life.meet(ProviderThrottled("Slowly.", retry_after_s=asked_s))
    (wait_s,) = life.waits_s
    assert asked_s - 1e-5 <= wait_s <= asked_s * 1.05
    await life.complete()
    row = await job_table.look(life.job_id)
    assert (row["attempt_count"], row["retry_count"]) == (2, 0)


async def test_a_job_is_throttled_for_an_hour_and_then_ends(job_table: JobTable) -> None:
    life = await Life.begin(job_table)
    slowly = ProviderThrottled("Slowly.", retry_after_s=600.0)
    assert await life.meet(*[slowly] * 6) == "retrying"
    assert await life.meet(slowly) == "retry_loop_failed"


async def test_a_job_that_comes_too_early_for_its_endpoint_has_met_no_error(
    job_table: JobTable,
) -> None:
    life = await Life.begin(job_table, max_retries=0)
    for _ in range(5):
        await life.meet(EndpointBusy("Not yet.", wait_s=1000.0))
    row = await job_table.look(life.job_id)
    assert (row["status"], row["status_reason"]) == ("retrying", "endpoint_busy")
    assert (row["retry_count"], row["error_details"]) == (0, [])
    assert row["throttled_since"] is None
    assert all(1000 <= wait_s <= 1050 for wait_s in life.waits_s)
    assert await job_table.events("contribution_generation_retrying") == []
    await life.complete()


async def test_an_endpoint_in_trouble_is_waited_for_an_hour_and_then_the_job_says_why_it_ends(
    job_table: JobTable,
) -> None:
    life = await Life.begin(job_table)
    trouble = CircuitOpen("The endpoint keeps failing: HTTP 500.", wait_s=600.0)
    assert await life.meet(*[trouble] * 6) == "retrying"
    assert (await job_table.look(life.job_id))["error_details"] == []
    assert await life.meet(trouble) == "retry_loop_failed"
    row = await job_table.look(life.job_id)
    assert [(e["code"], e["message"]) for e in row["error_details"]] == [
        ("circuit_open", "The endpoint keeps failing: HTTP 500.")
    ]
    assert row["attempt_count"] == 7


async def test_waiting_for_a_turn_neither_begins_nor_ends_the_hour(job_table: JobTable) -> None:
    life = await Life.begin(job_table)
    await life.meet(ProviderThrottled("Slowly.", retry_after_s=10.0))
    since = (await job_table.look(life.job_id))["throttled_since"]
    await life.meet(EndpointBusy("Not yet.", wait_s=100.0))
    assert (await job_table.look(life.job_id))["throttled_since"] == since


# -- what helps ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "action"),
    [
        (KeyMissing("No key."), "resume"),
        (FundsError("No money.", remedy=Remedy(RemedyAction.TOP_UP)), "top_up"),
        (ProviderAuth("The key is wrong."), "replace_seat"),
        (ProviderFiltered("No."), "drop_seat"),
        (PlanError("Nothing to do."), None),
    ],
    ids=["paused", "with its own remedy", "failed", "refused", "a fault of the process"],
)
async def test_what_helps_is_kept_with_the_error_and_names_the_session(
    job_table: JobTable, error: DialecticError, action: str | None
) -> None:
    life = await Life.begin(job_table)
    await life.meet(error)
    (entry,) = (await job_table.look(life.job_id))["error_details"]
    remedy = read_remedy(entry.get("remedy"))
    assert (None if remedy is None else remedy.action) == action
    if action == "resume":
        assert remedy == Remedy(RemedyAction.RESUME, session_id=str(job_table.session_id))


# -- what the provider sent ------------------------------------------------------------------------


async def meet_raw(job_table: JobTable, raw: dict[str, object]) -> dict[str, object]:
    """What is kept of what came back with an error."""
    life = await Life.begin(job_table)
    remains = PartialResponse(was_sent=True, partial_text="Half a sentence", raw=raw)
    await life.meet(ProviderMalformed("No JSON.", remains=remains))
    (entry,) = (await job_table.look(life.job_id))["error_details"]
    assert "Half a sentence" not in entry["message"]
    kept: dict[str, object] = entry["raw"]
    return kept


async def test_what_the_provider_sent_with_an_error_is_kept_with_it(job_table: JobTable) -> None:
    raw = {"status": 200, "body": "<html>Log in</html>", "headers": [["x", "y"], None, 1.5]}
    said = {"text": "Half a sentence"}  # no document, but paid for
    assert await meet_raw(job_table, raw) == raw | said


async def test_what_no_column_holds_is_taken_out_of_it(job_table: JobTable) -> None:
    kept = await meet_raw(
        job_table, {"a\x00b": "c\x00d \ud83d", "number": float("nan"), "list": [float("inf")]}
    )
    del kept["text"]
    assert kept == {"ab": "cd \ufffd", "number": "nan", "list": ["inf"]}


async def test_of_something_long_the_beginning_is_kept(job_table: JobTable) -> None:
    kept = await meet_raw(job_table, {"body": "x" * 10_000_000})
    assert list(kept) == ["cut"]
    assert len(str(kept["cut"])) == RAW_MAX_CHARS


async def test_a_person_is_told_of_the_error_without_what_came_with_it(
    job_table: JobTable, engine: Engine
) -> None:
    await meet_raw(job_table, {"body": "<html>"})
    (job,) = (
        await Tenant(engine, job_table.account).run(sessions.get_detail, job_table.session_id)
    ).jobs
    assert [sorted(entry.model_dump()) for entry in job.error_details] == [
        ["at", "attempt", "code", "message"]
    ]


async def test_a_message_that_no_column_can_store_still_ends_the_attempt(
    job_table: JobTable,
) -> None:
    life = await Life.begin(job_table)
    assert await life.meet(ProviderTransient("It said: \x00 \udfff")) == "retrying"


# -- money that comes in at that very moment -------------------------------------------------------


def lack(amount: int, kind: type[FundsError] = FundsError) -> FundsError:
    """The message for a call that may cost more than is available."""
    return kind("There is too little.", needed_credits=amount)


async def put_in(job_table: JobTable, connection: Connection, amount: int) -> list[UUID]:
    """What a top-up does, in the order in which it does it."""
    deposit = Deposit(key="a top-up", amount_credits=amount)
    await wallets.top_up(connection, job_table.account.wallet_id, deposit)
    return await jobs.resume_funded(connection, job_table.account.wallet_id)


@pytest.mark.parametrize(
    ("amount", "error", "status"),
    [
        (4_999, lack(5_000), "paused"),
        (5_000, lack(5_000), "retrying"),
        (24_999, lack(5_000, SpendNeedsApproval), "paused"),
        (25_000, lack(5_000, SpendNeedsApproval), "retrying"),
    ],
)
async def test_what_was_put_in_since_a_call_was_judged_counts(
    job_table: JobTable, amount: int, error: FundsError, status: str
) -> None:
    job = await job_table.take(await job_table.insert())
    async with job_table.others(1, APP_ROLE) as desk:
        await desk.transact(job_table.account.tenant_id, lambda c: put_in(job_table, c, amount))
    await record_failure(job_table.engine, job, error)
    row = await job_table.look(job.id)
    assert (row["status"], row["status_reason"]) == (status, error.code)
    assert (row["run_at"] <= job_table.clock, row["retry_count"]) == (True, 0)


async def test_a_job_that_begins_to_wait_for_money_while_it_comes_in_does_not_wait_for_ever(
    job_table: JobTable, admin: asyncpg.Connection[asyncpg.Record]
) -> None:
    job = await job_table.take(await job_table.insert())
    pausing: list[asyncio.Task[bool]] = []

    async def come_in(connection: Connection) -> Any:
        woken = await put_in(job_table, connection, 5_000)
        pausing.append(asyncio.create_task(record_failure(job_table.engine, job, lack(5_000))))
        await until_someone_waits(admin)
        return woken

    async with job_table.others(1, APP_ROLE) as desk:
        woken = await desk.transact(job_table.account.tenant_id, come_in)
    await asyncio.gather(*pausing)
    assert woken == []  # it was not waiting yet
    assert await job_table.status(job.id) == "retrying"


async def test_a_higher_budget_is_not_missed_by_a_job_that_begins_to_wait_for_it(
    job_table: JobTable, admin: asyncpg.Connection[asyncpg.Record]
) -> None:
    job = await job_table.take(await job_table.insert())
    tenant_id, session_id = job_table.account.tenant_id, job_table.session_id

    async def allow(connection: Connection) -> None:
        await wallets.set_budget(connection, session_id, 10)

    async with job_table.others(1, APP_ROLE) as desk:
        await desk.transact(tenant_id, lambda c: put_in(job_table, c, 10_000))
        await desk.transact(tenant_id, allow)
        async with job_table.begin() as pausing:
            # It has looked into the purse and has not said yet that it waits.
            await wallets.watch_funds(pausing, session_id, is_play=False)
            raising = asyncio.create_task(
                desk.transact(
                    tenant_id,
                    lambda c: sessions.resume(
                        Transaction(job_table.engine, job_table.account, c),
                        session_id,
                        budget_credits=9_000,
                    ),
                )
            )
            await until_someone_waits(admin)
            await jobs.pause(pausing, job, jobs.AttemptError("insufficient_funds", "Too little."))
            await pausing.execute("commit")
        await raising
    assert await job_table.status(job.id) == "pending"
