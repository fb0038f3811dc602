"""A chat with one model: over real HTTP to the simulator, saved, paid for, gone on with."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from dialectic import chat, embedded
from dialectic.chat import Question
from dialectic.domain.message import FinishReason
from dialectic.errors import (
    ContextWindowError,
    FundsError,
    NotFound,
    ProviderAuth,
    ProviderError,
    UsageError,
)
from dialectic.ledger import audit, wallets
from dialectic.ledger.wallets import Deposit
from dialectic.providers.catalog import build_catalog
from dialectic.providers.simulator import Simulator, open_simulator
from dialectic.settings import Settings
from dialectic.store import chats
from dialectic.store.records import open_account
from tests.scenario.story import Row, Stage, open_stage

MODEL = "sim/writer"
TEXT = "# A name\n\n" + "".join(
    f"{n}. Call it bakery number {n}, for a reason.\n" for n in range(40)
)
CONFIG = """
[endpoints.sim]
kind = "{kind}"
base_url = "{url}"
[endpoints.sim.models.writer]
context_window_tokens = 4000
max_output_tokens = 1000
input_usd_per_million = 1.0
output_usd_per_million = 2.0
tokenizer = "o200k_base"
"""


@pytest.fixture
async def simulator() -> AsyncIterator[Simulator]:
    async with open_simulator({"keep_bodies": True, "default": {"text": TEXT}}) as running:
        yield running


@pytest.fixture
async def stage(
    simulator: Simulator, server: embedded.Server, template: str, tmp_path: Path
) -> AsyncIterator[Stage]:
    url = simulator.base_url("openai")
    (tmp_path / "config.toml").write_text(CONFIG.format(kind="openai", url=url))
    settings = Settings.load({"DIALECTIC_HOME": str(tmp_path)})
    async with open_stage(server, template, tmp_path, build_catalog(settings)) as opened:
        await put_in(opened, 1_000_000)
        yield opened
        await opened.engine.catalog.close()


async def put_in(stage: Stage, credits_in: int) -> None:
    deposit = Deposit(key=f"deposit {credits_in}", amount_credits=credits_in)
    account = stage.account
    await stage.engine.db.transact(
        account.tenant_id, lambda c: wallets.top_up(c, account.wallet_id, deposit)
    )


async def ask(stage: Stage, message: str = "Name a bakery.", **wishes: Any) -> chat.Reply:
    question = Question(message=message, model=MODEL, **wishes)
    return await chat.send(stage.engine, stage.account, question)


async def list_holds(stage: Stage) -> list[Row]:
    return await stage.fetch("select * from token_wallet_holds order by created_at, hold_key")


async def find_breaches(stage: Stage) -> list[Any]:
    return list(await stage.engine.db.transact(stage.account.tenant_id, audit.verify))


async def test_a_question_and_its_answer_are_saved_together_and_paid_for(
    stage: Stage, simulator: Simulator
) -> None:
    pieces: list[str] = []
    question = Question(message="Name a bakery.", model=MODEL, system="Be brief.")
    reply = await chat.send(stage.engine, stage.account, question, pieces.append)
    assert (reply.text, "".join(pieces), reply.calls) == (TEXT, TEXT, 1)
    assert (reply.finish_reason, reply.is_incomplete) == (FinishReason.STOP, False)
    rows = await stage.engine.db.transact(
        stage.account.tenant_id, lambda c: chats.list_messages(c, reply.chat_id)
    )
    assert [(row["role"], row["content"]) for row in rows] == [
        ("user", "Name a bakery."),
        ("assistant", TEXT),
    ]
    (hold,) = await list_holds(stage)
    (called,) = simulator.log.calls
    assert hold["state"] == "posted"
    assert (hold["input_tokens"], hold["output_tokens"]) == (
        called.input_tokens,
        called.output_tokens,
    )
    assert hold["charged_credits"] == called.input_tokens + 2 * called.output_tokens
    assert await find_breaches(stage) == []


async def test_what_was_said_before_is_sent_along(stage: Stage, simulator: Simulator) -> None:
    first = await ask(stage)
    second = await ask(stage, "And another?", chat_id=first.chat_id)
    assert second.chat_id == first.chat_id
    body = simulator.log.calls[-1].body
    assert body is not None
    assert [m["role"] for m in body["messages"]] == ["user", "assistant", "user"]


async def test_a_cut_answer_is_gone_on_with_until_it_is_whole(
    stage: Stage, simulator: Simulator
) -> None:
    reply = await ask(stage, continues=True, max_output_tokens=150)
    assert (reply.text, reply.is_incomplete) == (TEXT, False)
    assert reply.calls == len(simulator.log.calls) > 1
    assert reply.usage.output_tokens == sum(call.output_tokens for call in simulator.log.calls)
    holds = await list_holds(stage)
    assert [hold["state"] for hold in holds] == ["posted"] * reply.calls
    assert await find_breaches(stage) == []


async def test_without_that_wish_one_call_is_made(stage: Stage, simulator: Simulator) -> None:
    reply = await ask(stage, max_output_tokens=150)
    assert (reply.calls, len(simulator.log.calls)) == (1, 1)
    assert (reply.finish_reason, reply.is_incomplete) == (FinishReason.LENGTH, True)
    assert TEXT.startswith(reply.text)


async def test_five_calls_are_the_most(stage: Stage, simulator: Simulator) -> None:
    reply = await ask(stage, continues=True, max_output_tokens=60)
    assert (reply.calls, len(simulator.log.calls)) == (5, 5)
    assert (reply.finish_reason, reply.is_incomplete) == (FinishReason.LENGTH, True)
    assert TEXT.startswith(reply.text)


async def test_too_long_a_message_fails_before_any_call(stage: Stage, simulator: Simulator) -> None:
    with pytest.raises(ContextWindowError, match=r"4,\d\d\d tokens") as refused:
        await ask(stage, "word " * 4_000)
    assert refused.value.status == 413
    assert simulator.log.calls == []
    assert await list_holds(stage) == []


async def test_without_money_nothing_is_called(stage: Stage, simulator: Simulator) -> None:
    poor = replace(stage, account=await open_account(stage.engine.db, "poor"))
    with pytest.raises(FundsError, match="dialectic wallet topup") as refused:
        await ask(poor)
    assert refused.value.status == 402
    assert simulator.log.calls == []


@pytest.mark.parametrize(
    ("fault", "error"),
    [("401_key", ProviderAuth), ("500_server", ProviderError), ("200_html", ProviderError)],
)
async def test_a_failed_question_leaves_nothing_behind(
    server: embedded.Server, template: str, tmp_path: Path, fault: str, error: type[ProviderError]
) -> None:
    async with open_simulator({"default": {"text": TEXT, "fault": fault}}) as simulator:
        url = simulator.base_url("openai")
        (tmp_path / "config.toml").write_text(CONFIG.format(kind="openai", url=url))
        settings = Settings.load({"DIALECTIC_HOME": str(tmp_path)})
        async with open_stage(server, template, tmp_path, build_catalog(settings)) as stage:
            await put_in(stage, 1_000_000)
            with pytest.raises(error) as failed:
                await ask(stage)
            assert failed.value.status == 502
            assert await stage.fetch("select * from chats") == []
            assert [hold["state"] for hold in await list_holds(stage)] == ["voided"]
            await stage.engine.catalog.close()


async def test_a_further_call_that_fails_leaves_what_was_said(
    server: embedded.Server, template: str, tmp_path: Path
) -> None:
    script = {"default": {"text": TEXT}, "rules": [{"turns": "1-", "fault": "500_server"}]}
    async with open_simulator(script) as simulator:
        url = simulator.base_url("openai")
        (tmp_path / "config.toml").write_text(CONFIG.format(kind="openai", url=url))
        settings = Settings.load({"DIALECTIC_HOME": str(tmp_path)})
        async with open_stage(server, template, tmp_path, build_catalog(settings)) as stage:
            await put_in(stage, 1_000_000)
            reply = await ask(stage, continues=True, max_output_tokens=150)
            assert reply.is_incomplete
            assert "interrupted:provider_transient" in reply.flags
            assert TEXT.startswith(reply.text)
            states = [hold["state"] for hold in await list_holds(stage)]
            assert states == ["posted", "voided"]
            assert await find_breaches(stage) == []
            await stage.engine.catalog.close()


async def test_wrong_input_is_told(stage: Stage, simulator: Simulator) -> None:
    with pytest.raises(UsageError, match="empty"):
        await ask(stage, "  \n")
    with pytest.raises(NotFound, match="no chat"):
        await ask(stage, chat_id=uuid4())
    reply = await ask(stage)
    with pytest.raises(UsageError, match="system instruction"):
        await ask(stage, chat_id=reply.chat_id, system="Be long.")
    assert len(simulator.log.calls) == 1
