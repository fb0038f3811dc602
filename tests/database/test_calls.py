"""A call asks its endpoint's limits first and reports how it went, whatever came of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from dialectic.core.models.messages import (
    FinishReason,
    Message,
    Reply,
    Request,
    Role,
    Usage,
    UsageSource,
)
from dialectic.core.models.model import ModelCard
from dialectic.db.pool import Address
from dialectic.engine import Engine
from dialectic.errors import (
    CircuitOpen,
    EndpointBusy,
    FundsError,
    ProviderError,
    ProviderMalformed,
    ProviderQuota,
    ProviderThrottled,
    ProviderTransient,
)
from dialectic.ledger.holds import derive_hold_key
from dialectic.limits import admission
from dialectic.pipeline.call import call
from dialectic.pipeline.reserve import Payment
from dialectic.providers.base import OnText
from dialectic.providers.catalog import Catalog
from dialectic.providers.offline.provider import CARDS
from tests.database.endpoint_fixture import Caller
from tests.database.job_table import JobTable
from tests.problems import refusing

REQUEST = Request("remote/model", "Be brief.", (Message(Role.USER, "Why?"),), 1000)


@pytest.fixture(scope="module")
def address(module_address: Address) -> Address:
    return module_address


@pytest.fixture
async def job_table(engine: Engine) -> AsyncIterator[JobTable]:
    async with JobTable.open(engine) as opened:
        yield opened


@dataclass(slots=True)
class Scripted:
    """Answers, unless its script has an error next."""

    script: list[ProviderError] = field(default_factory=list)
    sent: int = 0

    async def complete(self, card: ModelCard, request: Request, on_text: OnText) -> Reply:
        self.sent += 1
        if self.script:
            raise self.script.pop(0)
        usage = Usage(10, 20, UsageSource.REPORTED)
        return Reply("Because.", FinishReason.STOP, "stop", usage, "request-1")


@dataclass(slots=True)
class Line:
    """Jobs of one endpoint that call its provider."""

    caller: Caller
    engine: Engine
    card: ModelCard
    provider: Scripted
    wallet_id: UUID

    @classmethod
    async def open(
        cls, job_table: JobTable, engine: Engine, *script: ProviderError, **limits: Any
    ) -> Line:
        caller = await Caller.open(job_table, jobs=2, **limits)
        name = caller.endpoint.name
        card = replace(
            CARDS[0],
            name=f"{name}/model",
            input_credits_per_token=Decimal(0),
            output_credits_per_token=Decimal(0),
        )
        provider = Scripted(list(script))
        catalog = Catalog({card.name: card}, {name: provider}, endpoints={name: caller.endpoint})
        ours = replace(engine, db=job_table.db, catalog=catalog)
        return cls(caller, ours, card, provider, job_table.account.wallet_id)

    async def call(self, nth: int = 0, card: ModelCard | None = None) -> None:
        job, wallet_id, card = self.caller.jobs[nth], self.wallet_id, card or self.card
        key = derive_hold_key(job.id, attempt=job.attempt, turn=0)
        await call(self.engine, job, card, REQUEST, Payment(wallet_id, key))

    async def fail_to_pay(self, nth: int = 0) -> None:
        """Request a call without the money for it."""
        with pytest.raises(FundsError):
            await self.call(nth, replace(self.card, input_credits_per_token=Decimal(1)))

    async def fail(self, kind: type[ProviderError], times: int = 1) -> None:
        for _ in range(times):
            with pytest.raises(kind):
                await self.call()


async def test_a_model_without_an_endpoint_is_called_without_asking(
    job_table: JobTable, engine: Engine
) -> None:
    line = await Line.open(job_table, engine)
    line.engine = replace(line.engine, catalog=replace(line.engine.catalog, endpoints={}))
    await line.call()
    assert line.provider.sent == 1
    assert await admission.list_endpoints(job_table.db) == []


async def test_a_call_that_failed_leaves_its_place_and_its_tokens_to_others(
    job_table: JobTable, engine: Engine
) -> None:
    line = await Line.open(
        job_table, engine, ProviderTransient("Down."), max_concurrency=1, tokens_per_minute=1100
    )
    await line.fail(ProviderTransient)
    await line.call(1)
    assert line.provider.sent == 2


async def test_a_call_counts_what_it_used_and_not_what_it_might_have(
    job_table: JobTable, engine: Engine
) -> None:
    line = await Line.open(job_table, engine, tokens_per_minute=1500)
    for _ in range(3):
        await line.call()
    assert line.provider.sent == 3, "thirty tokens each, although each might have taken a thousand"


async def test_when_the_limits_are_reached_nothing_is_sent(
    job_table: JobTable, engine: Engine
) -> None:
    line = await Line.open(job_table, engine, requests_per_minute=6)
    await line.call()
    with pytest.raises(EndpointBusy) as caught:
        await line.call(1)
    assert 10 < caught.value.wait_s < 11
    assert line.provider.sent == 1
    (held,) = await job_table.db.transact(
        job_table.account.tenant_id,
        lambda c: c.fetch("select job_id from token_wallet_holds"),
    )
    assert held["job_id"] == line.caller.jobs[0].id, "nothing is held for who was sent away"


@pytest.mark.parametrize(
    "limit",
    [{"requests_per_minute": 6}, {"tokens_per_minute": 1100}, {"max_concurrency": 1}, {}],
    ids=lambda limit: next(iter(limit), "none"),
)
async def test_who_has_leave_and_no_money_leaves_its_turn_to_others(
    job_table: JobTable, engine: Engine, limit: dict[str, int]
) -> None:
    line = await Line.open(job_table, engine, **limit)
    for _ in range(12):
        await line.fail_to_pay(0)
    assert line.provider.sent == 0
    await line.call(1)
    assert line.provider.sent == 1


async def test_who_was_to_find_out_and_has_no_money_lets_the_next_one_do_so(
    job_table: JobTable, engine: Engine
) -> None:
    line = await Line.open(job_table, engine, *[ProviderTransient("HTTP 500.")] * 11)
    await line.fail(ProviderTransient, 10)
    await job_table.advance(15.0)
    await line.fail_to_pay(1)
    circuits = {row.endpoint: row.circuit for row in await admission.list_endpoints(job_table.db)}
    assert circuits[line.caller.endpoint.name] == "open", "nobody has found out anything"
    await line.fail(ProviderTransient)
    with pytest.raises(CircuitOpen) as caught:
        await line.call(1)
    assert caught.value.wait_s == pytest.approx(30, abs=1), "it went wrong for the second time"


async def test_when_an_endpoint_throttles_no_other_job_calls_it_meanwhile(
    job_table: JobTable, engine: Engine
) -> None:
    line = await Line.open(job_table, engine, ProviderThrottled("Slowly.", retry_after_s=7.0))
    await line.fail(ProviderThrottled)
    with pytest.raises(EndpointBusy) as caught:
        await line.call(1)
    assert caught.value.wait_s == 7.0
    await job_table.advance(7.0)
    await line.call(1)
    assert line.provider.sent == 2


async def test_an_endpoint_that_keeps_failing_is_left_alone_until_one_call_finds_it_well(
    job_table: JobTable, engine: Engine
) -> None:
    failures = [*[ProviderTransient("HTTP 500.")] * 5, *[ProviderMalformed("HTML.")] * 5]
    line = await Line.open(job_table, engine, *failures)
    await line.fail(ProviderTransient, 5)
    await line.fail(ProviderMalformed, 5)
    for nth in range(2):
        with refusing(CircuitOpen, "HTML."):
            await line.call(nth)
    assert line.provider.sent == 10
    await job_table.advance(15.0)
    await line.call(1)
    await line.call(0)
    assert line.provider.sent == 12


async def test_an_empty_account_pauses_the_next_jobs_without_a_call(
    job_table: JobTable, engine: Engine
) -> None:
    line = await Line.open(job_table, engine, ProviderQuota("No money."))
    await line.fail(ProviderQuota)
    with refusing(ProviderQuota, reason="nothing_sent"):
        await line.call(1)
    assert line.provider.sent == 1


async def test_an_answer_is_not_lost_because_its_report_is_lost(
    job_table: JobTable, engine: Engine
) -> None:
    line = await Line.open(job_table, engine, max_concurrency=1)
    waiting = asyncio.Event()

    class Slow(Scripted):
        async def complete(self, card: ModelCard, request: Request, on_text: OnText) -> Reply:
            waiting.set()
            await job_table.db.fetch("select set_config('statement_timeout', '50', false)")
            return await Scripted.complete(self, card, request, on_text)

    catalog = replace(line.engine.catalog, providers={line.caller.endpoint.name: Slow()})
    line.engine = replace(line.engine, catalog=catalog)
    async with job_table.begin() as other:
        task = asyncio.create_task(line.call())
        await waiting.wait()
        await other.fetch(
            "select dialectic.admit_call($1, $2, $3, 1, null, null, 9, 0, interval '1 s', 0)",
            line.caller.endpoint.name,
            *line.caller.jobs[1].key,
        )
        await task
