"""A chat with one model: over real HTTP to the simulator, saved, paid for, continued."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from dialectic.app import chat
from dialectic.contract.chats import ChatReply, ChatRequest
from dialectic.core.models.messages import FinishReason
from dialectic.db.pool import Connection
from dialectic.db.tables import chats
from dialectic.db.tables.records import open_account
from dialectic.errors import (
    ContextWindowError,
    EndpointBusy,
    FundsError,
    NotFound,
    ProviderAuth,
    ProviderError,
    ProviderTransient,
    RemedyAction,
    UsageError,
)
from dialectic.ledger import audit, holds, wallets
from dialectic.ledger.wallets import Deposit
from dialectic.postgres import embedded
from dialectic.providers.catalog import build_catalog
from dialectic.settings import Settings
from dialectic.tokens.counting import get_counter
from dialectic_simulator import Simulator, open_simulator
from tests.problems import refusing
from tests.scenario.whole_session import Installation, Row, open_installation

MODEL = "sim/writer"
AGE = timedelta(seconds=holds.GIVE_UP_AFTER_S)
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
async def installation(
    simulator: Simulator, server: embedded.Server, template: str, tmp_path: Path
) -> AsyncIterator[Installation]:
    url = simulator.base_url("openai")
    (tmp_path / "config.toml").write_text(CONFIG.format(kind="openai", url=url))
    settings = Settings.load({"DIALECTIC_HOME": str(tmp_path)})
    async with open_installation(server, template, tmp_path, build_catalog(settings)) as opened:
        await put_in(opened, 1_000_000)
        yield opened
        await opened.engine.catalog.close()


async def put_in(installation: Installation, credits_in: int) -> None:
    deposit = Deposit(key=f"deposit {credits_in}", amount_credits=credits_in)
    account = installation.account
    await installation.engine.db.transact(
        account.tenant_id, lambda c: wallets.top_up(c, account.wallet_id, deposit)
    )


@asynccontextmanager
async def open_chat(
    server: embedded.Server,
    template: str,
    home: Path,
    script: dict[str, Any],
    *,
    kind: str = "openai",
    more: str = "",
) -> AsyncIterator[tuple[Installation, Simulator]]:
    """Open an installation of its own: another script, another wire, other limits."""
    async with open_simulator(script) as simulator:
        url = simulator.base_url(kind)
        config = CONFIG.format(kind=kind, url=url).replace("sim]", f"sim]{more}", 1)
        (home / "config.toml").write_text(config)
        settings = Settings.load({"DIALECTIC_HOME": str(home)})
        async with open_installation(
            server, template, home, build_catalog(settings)
        ) as installation:
            await put_in(installation, 1_000_000)
            yield installation, simulator
            await installation.engine.catalog.close()


async def load_held(installation: Installation) -> int:
    account = installation.account
    wallet = await installation.engine.db.transact(
        account.tenant_id, lambda c: wallets.load_wallet(c, account.wallet_id)
    )
    return wallet.held_credits


async def ask(
    installation: Installation, message: str = "Name a bakery.", **wishes: Any
) -> ChatReply:
    question = ChatRequest(message=message, model=MODEL, **wishes)
    return await chat.send(installation.engine, installation.account, question)


async def list_holds(installation: Installation) -> list[Row]:
    return await installation.fetch(
        "select * from token_wallet_holds order by created_at, hold_key"
    )


async def find_breaches(installation: Installation) -> list[Any]:
    return list(await audit.verify_tenant(installation.engine.db, installation.account.tenant_id))


async def test_a_question_and_its_answer_are_saved_together_and_paid_for(
    installation: Installation, simulator: Simulator
) -> None:
    pieces: list[str] = []
    question = ChatRequest(message="Name a bakery.", model=MODEL, system_instruction="Be brief.")
    reply = await chat.send(installation.engine, installation.account, question, pieces.append)
    assert (reply.content, "".join(pieces), reply.usage.calls) == (TEXT, TEXT, 1)
    assert (reply.finish_reason, reply.incomplete) == (FinishReason.STOP, False)
    rows = await installation.engine.db.transact(
        installation.account.tenant_id, lambda c: chats.list_messages(c, reply.chat_id)
    )
    assert [(row["role"], row["content"]) for row in rows] == [
        ("user", "Name a bakery."),
        ("assistant", TEXT),
    ]
    (hold,) = await list_holds(installation)
    (called,) = simulator.log.calls
    assert hold["state"] == "posted"
    assert (hold["input_tokens"], hold["output_tokens"]) == (
        called.input_tokens,
        called.output_tokens,
    )
    assert hold["charged_credits"] == called.input_tokens + 2 * called.output_tokens
    assert await find_breaches(installation) == []


async def test_what_was_said_before_is_sent_along(
    installation: Installation, simulator: Simulator
) -> None:
    first = await ask(installation)
    second = await ask(installation, "And another?", chat_id=first.chat_id)
    assert second.chat_id == first.chat_id
    body = simulator.log.calls[-1].body
    assert body is not None
    assert [m["role"] for m in body["messages"]] == ["user", "assistant", "user"]


async def test_a_truncated_answer_is_continued_until_it_is_complete(
    installation: Installation, simulator: Simulator
) -> None:
    reply = await ask(installation, continue_until_complete=True, max_output_tokens=150)
    assert (reply.content, reply.incomplete) == (TEXT, False)
    assert reply.usage.calls == len(simulator.log.calls) > 1
    assert reply.usage.output_tokens == sum(call.output_tokens for call in simulator.log.calls)
    holds = await list_holds(installation)
    assert [hold["state"] for hold in holds] == ["posted"] * reply.usage.calls
    assert await find_breaches(installation) == []


async def test_without_that_wish_one_call_is_made(
    installation: Installation, simulator: Simulator
) -> None:
    reply = await ask(installation, max_output_tokens=150)
    assert (reply.usage.calls, len(simulator.log.calls)) == (1, 1)
    assert (reply.finish_reason, reply.incomplete) == (FinishReason.LENGTH, True)
    assert TEXT.startswith(reply.content)


async def test_five_calls_are_the_most(installation: Installation, simulator: Simulator) -> None:
    reply = await ask(installation, continue_until_complete=True, max_output_tokens=60)
    assert (reply.usage.calls, len(simulator.log.calls)) == (5, 5)
    assert (reply.finish_reason, reply.incomplete) == (FinishReason.LENGTH, True)
    assert TEXT.startswith(reply.content)


async def test_too_long_a_message_fails_before_any_call(
    installation: Installation, simulator: Simulator
) -> None:
    with refusing(ContextWindowError, reason="prompt_too_long") as refused:
        await ask(installation, "word " * 4_000)
    assert 4_000 <= (refused.value.had_tokens or 0) < 5_000
    assert refused.value.status == 413
    assert simulator.log.calls == []
    assert await list_holds(installation) == []


async def test_without_money_nothing_is_called(
    installation: Installation, simulator: Simulator
) -> None:
    poor = replace(installation, account=await open_account(installation.engine.db, "poor"))
    with refusing(FundsError, reason="wallet", action=RemedyAction.TOP_UP) as refused:
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
    script = {"default": {"text": TEXT, "fault": fault}}
    async with open_chat(server, template, tmp_path, script) as (installation, _):
        with pytest.raises(error) as failed:
            await ask(installation)
        assert failed.value.status == 502
        assert await installation.fetch("select * from chats") == []
        assert [hold["state"] for hold in await list_holds(installation)] == ["voided"]


async def test_a_further_call_that_fails_leaves_what_was_said(
    server: embedded.Server, template: str, tmp_path: Path
) -> None:
    script = {"default": {"text": TEXT}, "rules": [{"turns": "1-", "fault": "500_server"}]}
    async with open_chat(server, template, tmp_path, script) as (installation, _):
        reply = await ask(installation, continue_until_complete=True, max_output_tokens=150)
        assert reply.incomplete
        assert "interrupted:provider_transient" in reply.flags
        assert TEXT.startswith(reply.content)
        states = [hold["state"] for hold in await list_holds(installation)]
        assert states == ["posted", "voided"]
        assert await find_breaches(installation) == []


async def test_a_call_that_its_endpoint_has_no_room_for_leaves_no_money_set_aside(
    server: embedded.Server, template: str, tmp_path: Path
) -> None:
    script = {"default": {"text": TEXT}}
    limit = "\nrequests_per_minute = 1"
    async with open_chat(server, template, tmp_path, script, more=limit) as (
        installation,
        simulator,
    ):
        reply = await ask(installation, continue_until_complete=True, max_output_tokens=150)
        assert (reply.usage.calls, reply.incomplete) == (1, True)
        assert "interrupted:endpoint_busy" in reply.flags, "what was said and paid for stays"
        with pytest.raises(EndpointBusy):
            await ask(installation)
        assert len(simulator.log.calls) == 1
        states = [hold["state"] for hold in await list_holds(installation)]
        assert states == ["posted"], "nothing was ever held for what was not sent"
        assert await load_held(installation) == 0


async def test_a_client_that_leaves_before_the_answer_pays_nothing_and_has_nothing_reserved(
    installation: Installation, simulator: Simulator
) -> None:
    simulator.hold()
    asking = asyncio.create_task(ask(installation))
    await simulator.wait_arrived(1)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    simulator.release()
    (hold,) = await list_holds(installation)
    assert (hold["state"], hold["charged_credits"]) == ("lost", 0)
    assert await load_held(installation) == 0
    assert await find_breaches(installation) == []


async def test_the_money_of_a_long_answer_is_not_given_up_while_its_last_call_may_be_answered(
    installation: Installation, simulator: Simulator
) -> None:
    once = iter([simulator.hold])

    def hold_up_the_second(_piece: str) -> None:
        for hold in once:
            hold()

    question = ChatRequest(
        message="Name a bakery.", model=MODEL, continue_until_complete=True, max_output_tokens=300
    )
    asking = asyncio.create_task(
        chat.send(installation.engine, installation.account, question, hold_up_the_second)
    )
    await simulator.wait_arrived(2)
    first, second = [hold["created_at"] for hold in await list_holds(installation)]
    assert await sweep_at(installation, first + (second - first) / 2 + AGE) == []
    simulator.release()
    reply = await asking
    assert reply.usage.calls == len(await list_holds(installation)) > 1
    assert {hold["state"] for hold in await list_holds(installation)} == {"posted"}
    assert await find_breaches(installation) == []


async def test_an_answer_that_is_stopped_keeps_its_text_and_pays_for_what_arrived(
    installation: Installation, simulator: Simulator
) -> None:
    once, stopping = iter([simulator.hold]), asyncio.Event()

    def hold_up_the_second(_piece: str) -> None:
        for hold in once:
            hold()

    question = ChatRequest(
        message="Name a bakery.", model=MODEL, continue_until_complete=True, max_output_tokens=300
    )
    asking = asyncio.create_task(
        chat.send(
            installation.engine,
            installation.account,
            question,
            hold_up_the_second,
            stopping=stopping,
        )
    )
    await simulator.wait_arrived(2)
    stopping.set()
    reply = await asking
    simulator.release()
    assert (reply.incomplete, reply.flags[0], reply.usage.calls) == (True, "stopped", 2)
    assert reply.content
    states = [hold["state"] for hold in await list_holds(installation)]
    assert states == ["posted", "voided"]
    assert await load_held(installation) == 0
    assert await find_breaches(installation) == []


async def test_an_answer_that_is_stopped_before_its_first_word_leaves_nothing(
    installation: Installation, simulator: Simulator
) -> None:
    simulator.hold()
    stopping = asyncio.Event()
    question = ChatRequest(message="Name a bakery.", model=MODEL)
    asking = asyncio.create_task(
        chat.send(installation.engine, installation.account, question, stopping=stopping)
    )
    await simulator.wait_arrived(1)
    stopping.set()
    with pytest.raises(ProviderTransient) as raised:
        await asking
    simulator.release()
    assert raised.value.reason == "stopped"
    assert [hold["state"] for hold in await list_holds(installation)] == ["voided"]
    assert await installation.fetch("select * from chats") == []
    assert await load_held(installation) == 0


async def sweep_at(installation: Installation, moment: datetime) -> list[str]:
    """Sweep as a worker does at another time; tell which holds were given up."""

    async def work(connection: Connection) -> None:
        await connection.fetch(
            "select set_config('dialectic.fake_now', $1, true)", moment.isoformat()
        )
        await holds.sweep_lost(connection)

    await installation.worker_engine.db.transact(installation.account.tenant_id, work)
    return [row["hold_key"] for row in await list_holds(installation) if row["state"] != "pending"]


SAID = "A short answer, and all of it is said within these eleven tokens."


@pytest.mark.parametrize("kind", ["openai", "anthropic", "google"])
async def test_an_answer_that_was_cut_right_at_its_end_is_whole(
    server: embedded.Server, template: str, tmp_path: Path, kind: str
) -> None:
    tokens = get_counter("o200k_base")(SAID)
    script = {"default": {"text": f"{SAID} Never said.", "cut_after_tokens": tokens, "empty": True}}
    async with open_chat(server, template, tmp_path, script, kind=kind) as (
        installation,
        simulator,
    ):
        reply = await ask(installation, continue_until_complete=True)
        assert (reply.content, reply.usage.calls, len(simulator.log.calls)) == (SAID, 2, 2)
        assert (reply.finish_reason, reply.incomplete) == (FinishReason.STOP, False)
        assert [hold["state"] for hold in await list_holds(installation)] == ["posted", "posted"]
        assert await find_breaches(installation) == []


async def test_wrong_input_is_told(installation: Installation, simulator: Simulator) -> None:
    with refusing(UsageError, reason="empty", subject="message"):
        await ask(installation, "  \n")
    with refusing(NotFound, reason="no_chat"):
        await ask(installation, chat_id=uuid4())
    reply = await ask(installation)
    with refusing(UsageError, reason="chat_has_begun", subject="system_instruction"):
        await ask(installation, chat_id=reply.chat_id, system_instruction="Be long.")
    assert len(simulator.log.calls) == 1
