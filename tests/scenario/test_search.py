"""A person searches a project, by an embedder that is free or costs money, and on the terminal."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from click.testing import CliRunner

from dialectic.app import search
from dialectic.app.projects import create_session
from dialectic.app.search import search_project
from dialectic.app.transaction import Tenant
from dialectic.cli.commands.documents import build_entry
from dialectic.cli.main import cli
from dialectic.contract.projects import ResourceRequest, SearchHit
from dialectic.contract.sessions import RunRequest
from dialectic.core.documents.file_paths import ResourceKind
from dialectic.db.pool import COLLISION_TRIES, Address
from dialectic.db.tables.records import open_account
from dialectic.engine import open_engine
from dialectic.errors import (
    DatabaseBusy,
    FundsError,
    ProviderError,
    ProviderMalformed,
    UsageError,
)
from dialectic.ledger import wallets
from dialectic.ledger.wallets import Deposit
from dialectic.postgres import embedded
from dialectic.processes.loader import load_process
from dialectic.providers.catalog import build_catalog
from dialectic.settings import Settings
from dialectic_simulator import Simulator, open_simulator
from tests.database.running_worker import refusing
from tests.database.tenant_rows import create_database
from tests.problems import check_error, read_error
from tests.scenario.paid_models import list_holds, verify
from tests.scenario.whole_session import Installation, open_installation

HALL = "# The hall\n\n## Keys\n\nThe key of the village hall hangs at the bakery; ask for Anna.\n"
TAX = "# Money\n\n## Tax\n\nThe association files its tax return in May.\n"
EMBEDDER = "sim/vectors"
CONFIG = """
[endpoints.sim]
kind = "openai"
base_url = "{url}"

[endpoints.sim.embeddings.vectors]
dimensions = 256
max_input_tokens = 2000
input_usd_per_million = 3.0
tokenizer = "chars:4"
"""
SCRIPT: dict[str, Any] = {"models": {"*": {"tokenizer": "chars:4"}}}


@pytest.fixture
async def simulator() -> AsyncIterator[Simulator]:
    async with open_simulator(SCRIPT) as running:
        yield running


@pytest.fixture
async def installation(
    simulator: Simulator, server: embedded.Server, template: str, tmp_path: Path
) -> AsyncIterator[Installation]:
    (tmp_path / "config.toml").write_text(CONFIG.format(url=simulator.base_url("openai")))
    settings = Settings.load({"DIALECTIC_HOME": str(tmp_path)})
    async with open_installation(server, template, tmp_path, build_catalog(settings)) as opened:
        yield opened
        await opened.engine.catalog.close()


def build_ask(*texts: str) -> RunRequest:
    given = [
        ResourceRequest(kind=ResourceKind.REFERENCE_DOCUMENTS, name=f"paper {n}", text=text)
        for n, text in enumerate(texts, 1)
    ]
    return RunRequest(
        prompt="Plan a walk.",
        models=["offline/architect"],
        process=load_process("standard"),
        resources=given,
    )


async def make_project(installation: Installation, *texts: str) -> UUID:
    session = await Tenant(installation.engine, installation.account).run(
        create_session, build_ask(*texts)
    )
    rows = await installation.fetch(
        "select project_id from dialectic_sessions where id = $1", session.session_id
    )
    found: UUID = rows[0]["project_id"]
    return found


def paid(installation: Installation, **settings: Any) -> Installation:
    changed = replace(installation.engine.settings, embedder=EMBEDDER, **settings)
    return replace(installation, engine=replace(installation.engine, settings=changed))


async def put_in(installation: Installation, amount_credits: int) -> None:
    account, deposit = (
        installation.account,
        Deposit(key=str(uuid4()), amount_credits=amount_credits),
    )
    await installation.engine.db.transact(
        account.tenant_id, lambda c: wallets.top_up(c, account.wallet_id, deposit)
    )


async def test_a_passage_is_found_with_its_document_and_its_headings(
    installation: Installation,
) -> None:
    project_id = await make_project(installation, HALL, TAX)
    results = await search_project(
        installation.engine, installation.account, project_id, "where is the key?", 1
    )
    (hit,) = results.items
    assert hit.path.endswith("paper-1.md")
    assert hit.heading_path == ["The hall", "Keys"]
    assert HALL[hit.start : hit.end] == hit.text
    assert (results.documents, results.embedder) == (2, "builtin/static")
    assert await list_holds(installation) == []


async def test_an_embedder_that_costs_money_is_paid_once_for_a_text_and_each_time_for_a_question(
    installation: Installation, simulator: Simulator
) -> None:
    buyer = paid(installation)
    await put_in(installation, 1_000_000)
    project_id = await make_project(installation, HALL, TAX)
    first = await search_project(buyer.engine, buyer.account, project_id, "the key of the hall")
    assert first.items[0].path.endswith("paper-1.md")
    again = await search_project(buyer.engine, buyer.account, project_id, "the key of the hall")
    assert again.items == first.items
    assert again.embedded_tokens < first.embedded_tokens
    holds = await list_holds(installation)
    assert [hold["purpose"] for hold in holds] == ["embedding"] * 3
    texts, asked, asked_again = (hold["cost_credits"] for hold in holds)
    assert (texts + asked, asked_again) == (3 * first.embedded_tokens, 3 * again.embedded_tokens)
    assert len(simulator.log.calls) == 3
    assert await verify(installation) == []


async def test_those_who_search_at_once_pay_for_the_texts_once(
    installation: Installation, simulator: Simulator
) -> None:
    buyer = paid(installation)
    await put_in(installation, 1_000_000)
    project_id = await make_project(installation, HALL, TAX)
    await asyncio.gather(
        *(
            search_project(buyer.engine, buyer.account, project_id, f"key {number}")
            for number in range(3)
        )
    )
    assert len(simulator.log.calls) == 4, "the texts, and three questions"


async def test_what_was_paid_for_before_an_endpoint_failed_is_kept(
    server: embedded.Server, template: str, tmp_path: Path
) -> None:
    rule = {"wire": "openai", "route": "embeddings", "fault": "500_server", "calls": "2"}
    async with open_simulator({**SCRIPT, "rules": [rule], "keep_bodies": True}) as simulator:
        (tmp_path / "config.toml").write_text(CONFIG.format(url=simulator.base_url("openai")))
        catalog = build_catalog(Settings.load({"DIALECTIC_HOME": str(tmp_path)}))
        async with open_installation(server, template, tmp_path, catalog) as installation:
            buyer = paid(installation)
            await put_in(installation, 1_000_000)
            project_id = await make_project(installation, HALL, TAX, f"{HALL}\n\n{TAX}")
            asked = (buyer.engine, buyer.account, project_id, "the key")
            with pytest.raises(ProviderError):
                await search_project(*asked, part_tokens_max=10)
            found = await search_project(*asked, part_tokens_max=10)
            assert await verify(installation) == []
        await catalog.close()
    assert found.documents == 3
    answered = [call for call in simulator.log.calls if call.status == 200]
    read = [text for call in answered if call.body for text in call.body["input"]]
    assert len(read) == len(set(read)), "nothing is read twice that was paid for"


async def test_vectors_that_could_not_be_kept_are_not_charged(installation: Installation) -> None:
    buyer = paid(installation)
    await put_in(installation, 1_000_000)
    project_id = await make_project(installation, HALL)
    async with refusing(
        installation.admin, "dialectic_memory_sources", "40001", times=COLLISION_TRIES
    ):
        with pytest.raises(DatabaseBusy):
            await search_project(buyer.engine, buyer.account, project_id, "the key")
    (hold,) = await list_holds(installation)
    assert (hold["state"], hold["charged_credits"]) == ("lost", 0)
    assert await installation.fetch("select * from dialectic_memory_sources") == []
    assert await verify(installation) == []


async def test_a_search_that_is_broken_off_leaves_nothing_set_aside(
    installation: Installation, simulator: Simulator
) -> None:
    buyer = paid(installation)
    await put_in(installation, 1_000_000)
    project_id = await make_project(installation, HALL)
    simulator.hold()
    asking = asyncio.create_task(search_project(buyer.engine, buyer.account, project_id, "the key"))
    await simulator.wait_arrived(1)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    (hold,) = await list_holds(installation)
    assert (hold["state"], hold["charged_credits"]) == ("lost", 0)
    assert await verify(installation) == []


async def test_without_money_nothing_is_called(
    installation: Installation, simulator: Simulator
) -> None:
    buyer = paid(installation)
    project_id = await make_project(installation, HALL)
    with pytest.raises(FundsError):
        await search_project(buyer.engine, buyer.account, project_id, "the key")
    assert simulator.log.calls == []
    assert await installation.fetch("select * from dialectic_memory_sources") == []


async def test_bad_vectors_are_paid_for_as_reported_and_never_kept(
    server: embedded.Server, template: str, tmp_path: Path
) -> None:
    rule = {"wire": "openai", "route": "embeddings", "fault": "vector_nan"}
    async with open_simulator({**SCRIPT, "rules": [rule]}) as simulator:
        (tmp_path / "config.toml").write_text(CONFIG.format(url=simulator.base_url("openai")))
        catalog = build_catalog(Settings.load({"DIALECTIC_HOME": str(tmp_path)}))
        async with open_installation(server, template, tmp_path, catalog) as installation:
            buyer = paid(installation)
            await put_in(installation, 1_000_000)
            project_id = await make_project(installation, HALL)
            with pytest.raises(ProviderMalformed):
                await search_project(buyer.engine, buyer.account, project_id, "the key")
            assert len(simulator.log.calls) == 2
            (hold,) = await list_holds(installation)
            assert hold["state"] == "posted"
            assert hold["charged_credits"] <= hold["amount_credits"]
            assert await installation.fetch("select * from dialectic_memory_sources") == []
            assert await verify(installation) == []
        await catalog.close()


async def test_wrong_input_is_told(installation: Installation) -> None:
    async def refusal(project_id: UUID, query: str, limit: int = 5) -> UsageError:
        with pytest.raises(UsageError) as caught:
            await search_project(
                installation.engine, installation.account, project_id, query, limit
            )
        return caught.value

    empty = await make_project(installation)
    check_error(await refusal(empty, "anything"), reason="no_documents")
    check_error(await refusal(empty, " \n"), reason="empty", subject="query")
    long = "x" * (search.QUERY_CHARS_MAX + 1)
    check_error(await refusal(empty, long), reason="too_long", subject="query", limit=10_000)
    check_error(await refusal(empty, "x", 0), reason="out_of_range", subject="limit", limit=100)


def test_a_hit_is_shown_with_its_document_its_headings_and_the_start_of_it() -> None:
    hit = SearchHit(
        document_id=UUID(int=7),
        session_id=None,
        path="hall/a.md",
        heading_path=["Hall", "Keys"],
        text="word " * 200,
        start=0,
        end=1000,
        block=None,
        score=1.0,
    )
    lines = build_entry(1, hit).splitlines()
    assert lines[0] == "1. hall/a.md  (00000000)"
    assert lines[1] == "   Hall > Keys"
    assert all(len(line) <= 100 for line in lines)
    assert lines[-1].endswith("…")


def test_the_command_says_what_it_found(
    server: embedded.Server, template: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asyncio.run(make_projects(address := asyncio.run(create_database(server, template)), tmp_path))
    monkeypatch.setenv("DIALECTIC_HOME", str(tmp_path))
    monkeypatch.setenv("DIALECTIC_DATABASE_URL", address.url)

    def tell(*words: str) -> Any:
        return CliRunner().invoke(cli, ["search", *words])

    found = tell("plan-a-walk", "where is the key", "--limit", "1")
    assert found.exit_code == 0, found.output
    assert "paper-1.md" in found.stdout
    assert "The hall > Keys" in found.stdout
    assert "1 passage in 2 documents, by builtin/static." in found.stderr
    told = tell("plan-a-walk", "tax return", "--json")
    assert json.loads(told.stdout)["hits"][0]["heading_path"] == ["Money", "Tax"]
    for words, reason in ((("nothing", "x"), "no_project"), (("plan-a-walk", " "), "empty")):
        told = tell(*words, "--json")
        error = read_error(told.stderr)
        assert (told.exit_code, error["exit_code"], error["reason"]) == (2, 2, reason)


async def make_projects(address: Address, home: Path) -> None:
    settings = Settings(home=home, database_idle_s=0.0)
    async with open_engine(
        replace(settings, database_url=address.url), build_catalog(settings)
    ) as e:
        ask = build_ask(HALL, TAX)
        await Tenant(e, await open_account(e.db, "local")).run(create_session, ask)
