"""Tenants' own endpoints: two houses with an endpoint of the same name, and a wall between them."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from dialectic.app import accounts
from dialectic.core.access import Role, Scope, Secret
from dialectic.db.pool import Address
from dialectic.postgres import embedded
from dialectic.worker.worker import Worker
from dialectic_simulator import Simulator, open_simulator
from tests.cases import each_case
from tests.command_pool import CommandResult
from tests.database.job_table import database_of_a_module
from tests.problems import check_problem
from tests.scenario.api_in_process import Api, ApiUser, open_api
from tests.scenario.server_thread import open_remote_server
from tests.scenario.simulated_endpoints import PLAIN_TOKENS
from tests.scenario.test_run import Home
from tests.waiting import PATIENCE_S, until

KEY = "sk-of-a-tenant-7Hq3"
ENCRYPTION_KEY = Secret(base64.b64encode(bytes(range(32))).decode())
MODEL = {
    "name": "writer",
    "context_window_tokens": 64_000,
    "max_output_tokens": 2_000,
    "tokenizer": "chars:4",
}
WRITER = "@acme/writer"


@dataclass(frozen=True, slots=True)
class Houses:
    """An API, and a provider for each of two tenants."""

    api: Api
    annas: Simulator
    bens: Simulator


def build_script(text: str, **manner: Any) -> dict[str, Any]:
    return {"models": PLAIN_TOKENS, "default": {"text": f"{text}\n", **manner}}


def build_request(simulator: Simulator, **changes: Any) -> dict[str, Any]:
    url = simulator.base_url("openai")
    return {
        "name": "acme",
        "kind": "openai",
        "base_url": url,
        "api_key": KEY,
        "models": [MODEL],
        **changes,
    }


@pytest.fixture(scope="module")
def address(server: embedded.Server, template: str) -> Iterator[Address]:
    with database_of_a_module(server, template) as found:
        yield found


@asynccontextmanager
async def open_houses(
    address: Address, home: Path, annas: dict[str, Any] | None = None, **settings: Any
) -> AsyncIterator[Houses]:
    async with AsyncExitStack() as stack:
        first, second = [
            await stack.enter_async_context(open_simulator(script))
            for script in (annas or build_script("From Anna's."), build_script("From Ben's."))
        ]
        chosen = {
            "encryption_key": ENCRYPTION_KEY,
            "tenant_origins": f"{first.url('')},{second.url('')}",
            **settings,
        }
        api = await stack.enter_async_context(open_api(address, home, **chosen))
        yield Houses(api, first, second)


@pytest.fixture
async def houses(address: Address, tmp_path: Path) -> AsyncIterator[Houses]:
    async with open_houses(address, tmp_path) as found:
        yield found


async def write(api: Api, user: ApiUser, model: str = WRITER) -> list[str]:
    """Let a model write a thesis; return the documents of the session."""
    session = await user.make_session(models=[model])
    await user.post(f"/sessions/{session['id']}/generate")
    await api.work(user, session["id"])
    listed = await user.get(f"/sessions/{session['id']}/contributions")
    found = [await user.get(f"/contributions/{one['id']}") for one in listed["items"]]
    return [one["content"] for one in found]


async def list_names(user: ApiUser, path: str = "/endpoints") -> set[str]:
    return {one["name"] for one in (await user.get(path))["items"]}


# -- two tenants -----------------------------------------------------------------------------------


async def test_two_tenants_use_the_same_name_and_each_reaches_its_own_provider(
    houses: Houses,
) -> None:
    api = houses.api
    for user, simulator in ((api.anna, houses.annas), (api.ben, houses.bens)):
        added = await user.post("/endpoints", build_request(simulator))
        assert (added["name"], added["models"], added["has_key"]) == ("acme", [WRITER], True)
        assert KEY not in str(added)
    before = await api.anna.get("/wallet")
    anna, ben = await write(api, api.anna), await write(api, api.ben)
    assert all("From Anna's." in text for text in anna)
    assert all("From Ben's." in text for text in ben)
    assert anna
    assert ben
    for simulator in (houses.annas, houses.bens):
        assert {call.has_key for call in simulator.log.calls} == {True}
        assert {call.model for call in simulator.log.calls} == {"writer"}
    # The tenant pays the provider: the wallet is not charged, and tokens are counted.
    assert await api.anna.get("/wallet") == before


async def test_what_one_tenant_added_another_neither_sees_nor_uses(houses: Houses) -> None:
    api = houses.api
    await api.anna.post("/endpoints", build_request(houses.annas, name="hall"))
    model = "@hall/writer"
    assert await list_names(api.anna) == {"hall"}
    assert model in await list_names(api.anna, "/models")
    assert await list_names(api.ben) == set()
    assert model not in await list_names(api.ben, "/models")
    ben, project = api.ben.client, await api.ben.make_project()
    for path, body in (
        (f"/projects/{project['id']}/sessions", {"models": [model]}),
        ("/quotes", {"prompt": "A hall.", "models": [model]}),
        ("/chat", {"message": "Hello?", "model": model}),
    ):
        problem = check_problem(await ben.post(path, json=body), 422, "unknown_model")
        assert problem["reason"] == "no_endpoint"
        assert problem["remedy"] == {"action": "add_endpoint", "endpoint": "hall"}
    check_problem(await ben.post("/endpoints/hall/test", json={}), 404, "not_found")
    check_problem(await ben.delete("/endpoints/hall"), 404, "not_found")
    assert await list_names(api.anna) == {"hall"}
    assert houses.annas.log.calls == []


async def test_an_account_without_credit_at_one_provider_stops_that_tenant_alone(
    address: Address, tmp_path: Path
) -> None:
    rule = {"wire": "openai", "fault": "402_payment"}
    empty = {**build_script("Never said."), "rules": [rule]}
    async with open_houses(address, tmp_path, empty) as houses:
        api = houses.api
        await api.anna.post("/endpoints", build_request(houses.annas))
        await api.ben.post("/endpoints", build_request(houses.bens))
        session = await api.anna.make_session(models=[WRITER])
        await api.anna.post(f"/sessions/{session['id']}/generate")
        worker = Worker(api.worker_engine, concurrency=8)
        working = asyncio.create_task(worker.run())

        async def is_paused() -> bool:
            jobs = await api.anna.get(f"/sessions/{session['id']}/jobs")
            return any(job["status"] == "paused" for job in jobs["items"])

        try:
            await until(address, is_paused, patience_s=PATIENCE_S)
        finally:
            worker.stop()
            await asyncio.wait_for(working, PATIENCE_S)
        assert await write(api, api.ben)
        mine = f"{api.anna.account.tenant_id}/@acme"
        assert await list_circuits(address) == {mine: "open"}
        # A new key is a new start: nothing is remembered of the old one.
        await api.anna.post("/endpoints", build_request(houses.annas, replace=True))
        assert await list_circuits(address) == {}


async def list_circuits(address: Address) -> dict[str, str]:
    """List the endpoints whose circuit is not closed."""
    connection = await asyncpg.connect(address.url)
    try:
        rows = await connection.fetch(
            "select endpoint, circuit from dialectic.dialectic_endpoints where circuit <> 'closed'"
        )
        return {row["endpoint"]: row["circuit"] for row in rows}
    finally:
        await connection.close()


# -- added, changed, removed -----------------------------------------------------------------------


async def test_a_removed_endpoint_fails_the_jobs_that_wait_for_it_until_it_is_back(
    houses: Houses,
) -> None:
    api, anna = houses.api, houses.api.anna
    await anna.post("/endpoints", build_request(houses.annas))
    session = await anna.make_session(models=[WRITER])
    await anna.post(f"/sessions/{session['id']}/generate")
    assert (await anna.client.delete("/endpoints/acme")).status_code == 204
    await api.work(anna, session["id"])
    (job,) = (await anna.get(f"/sessions/{session['id']}/jobs"))["items"]
    error = job["errors"][-1]
    assert (job["status"], error["code"]) == ("failed", "unknown_model")
    assert error["remedy"] == {"action": "add_endpoint", "endpoint": "acme"}
    assert houses.annas.log.calls == []
    await anna.post("/endpoints", build_request(houses.annas))
    await anna.post(f"/sessions/{session['id']}/retry")
    await api.work(anna, session["id"])
    (job,) = (await anna.get(f"/sessions/{session['id']}/jobs"))["items"]
    assert job["status"] == "completed"


async def test_a_name_is_given_once_unless_the_endpoint_is_replaced(houses: Houses) -> None:
    anna = houses.api.anna
    await anna.post("/endpoints", build_request(houses.annas))
    again = await anna.client.post("/endpoints", json=build_request(houses.bens))
    assert check_problem(again, 409, "conflict")["reason"] == "endpoint_exists"
    await anna.post("/endpoints", build_request(houses.bens, replace=True, api_key=None))
    (listed,) = (await anna.get("/endpoints"))["items"]
    assert (listed["has_key"], listed["base_url"]) == (False, houses.bens.base_url("openai"))
    assert (await write(houses.api, anna))[0].startswith("From Ben's.")


async def test_a_test_is_a_short_real_call_that_says_what_came_back(houses: Houses) -> None:
    anna = houses.api.anna
    await anna.post("/endpoints", build_request(houses.annas))
    tested = await anna.post("/endpoints/acme/test", {})
    assert (tested["model"], tested["answer"]) == (WRITER, "From Anna's.")
    other = await anna.client.post("/endpoints/acme/test", json={"model": "@acme/reader"})
    assert check_problem(other, 404, "not_found")["reason"] == "not_in_endpoint"


async def test_an_own_endpoint_named_like_the_operators_is_another_one(houses: Houses) -> None:
    anna = houses.api.anna
    await anna.post("/endpoints", build_request(houses.annas, name="openai"))
    names = await list_names(anna, "/models")
    assert "@openai/writer" in names
    assert any(name.startswith("openai/") for name in names)
    assert (await anna.post("/endpoints/openai/test", {}))["answer"] == "From Anna's."


async def test_a_chat_uses_an_own_endpoint(houses: Houses) -> None:
    anna = houses.api.anna
    await anna.post("/endpoints", build_request(houses.annas))
    said = await anna.post("/chat", {"message": "Who are you?", "model": WRITER})
    assert said["content"].strip() == "From Anna's."


# -- what is refused -------------------------------------------------------------------------------


@each_case(
    "url",
    [
        *("http://llm.example.org/v1", "https://127.0.0.1/v1", "https://localhost/v1"),
        *("http://127.0.0.1:1/v1", "https://10.0.0.1/v1", "https://169.254.169.254/latest"),
        *("https://[::1]/v1", "https://2130706433/v1", "https://127.0.0.1.nip.io/v1"),
        "https://metadata.google.internal/v1",
    ],
)
async def test_an_address_that_is_not_public_is_refused(houses: Houses, url: str) -> None:
    anna = houses.api.anna
    answer = await anna.client.post("/endpoints", json=build_request(houses.annas, base_url=url))
    check_problem(answer, 422, "forbidden_address")
    assert await list_names(anna) == set()


@each_case(
    "changes",
    [
        {"base_url": "https://user:word@llm.example.org/v1"},
        {"base_url": "https://llm.example.org/v1?key=1"},
        {"name": "Acme"},
        {"name": "offline"},
        {"name": "a/b"},
        {"kind": "smtp"},
        {"models": []},
        {"models": [MODEL, MODEL]},
        {"models": [{**MODEL, "max_output_tokens": 64_000}]},
        {"models": [{**MODEL, "tokenizer": "guess"}]},
        {"models": [{**MODEL, "input_usd_per_million": 0}]},
        {"api_key": f"{KEY}\u00e9"},
        {"api_key": [KEY]},
        {"api_key_env": "OPENAI_API_KEY"},
    ],
)
async def test_a_wrong_definition_is_refused_and_its_key_not_repeated(
    houses: Houses, changes: dict[str, Any]
) -> None:
    anna = houses.api.anna
    answer = await anna.client.post("/endpoints", json=build_request(houses.annas, **changes))
    assert answer.status_code == 422
    assert KEY not in answer.text
    assert await list_names(anna) == set()


async def test_without_an_encryption_key_only_an_endpoint_without_a_key_is_added(
    address: Address, tmp_path: Path
) -> None:
    async with open_houses(address, tmp_path, encryption_key=None) as houses:
        anna = houses.api.anna
        answer = await anna.client.post("/endpoints", json=build_request(houses.annas))
        problem = check_problem(answer, 503, "key_missing")
        assert problem["remedy"] == {"action": "configure", "setting": "DIALECTIC_ENCRYPTION_KEY"}
        assert await list_names(anna) == set()
        await anna.post("/endpoints", build_request(houses.annas, api_key=None))
        assert (await anna.post("/endpoints/acme/test", {}))["answer"] == "From Anna's."


async def test_an_origin_that_the_operator_withdrew_is_not_called_any_more(
    address: Address, tmp_path: Path
) -> None:
    async with open_houses(address, tmp_path) as houses:
        anna = houses.api.anna
        await anna.post("/endpoints", build_request(houses.annas))
        async with open_api(address, tmp_path / "later", encryption_key=ENCRYPTION_KEY) as later:
            back = later.come_back(anna.account, anna.token)
            (listed,) = (await back.get("/endpoints"))["items"]
            assert listed["problem"]
            assert WRITER not in await list_names(back, "/models")
            tested = await back.client.post("/endpoints/acme/test", json={})
            check_problem(tested, 422, "forbidden_address")
        assert houses.annas.log.calls == []


async def test_a_token_without_the_scope_and_a_member_change_no_endpoint(houses: Houses) -> None:
    api = houses.api
    guest = await api.let_in(scopes={Scope.READ, Scope.WRITE, Scope.SPEND})
    answer = await guest.client.post("/endpoints", json=build_request(houses.annas))
    assert check_problem(answer, 403, "forbidden")["reason"] == "missing_scope"
    check_problem(await guest.client.delete("/endpoints/acme"), 403, "forbidden")
    organization = UUID((await api.anna.post("/organizations", {"name": "Bakers"}))["id"])
    anna = await api.enter(api.anna, organization)
    await anna.post("/endpoints", build_request(houses.annas))
    inside = replace(accounts.build_owner(api.anna.account), tenant_id=organization)
    name = (await api.ben.get("/members"))["items"][0]["name"]
    await accounts.set_member(api.engine.db, inside, name, Role.MEMBER)
    ben = await api.enter(api.ben, organization)
    assert await list_names(ben) == {"acme"}
    answer = await ben.client.post("/endpoints", json=build_request(houses.annas, replace=True))
    assert check_problem(answer, 403, "forbidden")["reason"] == "role"
    assert check_problem(await ben.client.delete("/endpoints/acme"), 403, "forbidden")
    assert await list_names(anna) == {"acme"}


async def test_an_account_has_a_limited_number_of_endpoints(houses: Houses) -> None:
    anna = houses.api.anna
    for number in range(20):
        await anna.post("/endpoints", build_request(houses.annas, name=f"acme-{number}"))
    answer = await anna.client.post("/endpoints", json=build_request(houses.annas))
    problem = check_problem(answer, 409, "conflict")
    assert problem["reason"] == "too_many_endpoints"


# -- the command line ------------------------------------------------------------------------------


async def test_a_user_of_a_server_adds_tests_uses_and_removes_an_endpoint(
    address: Address, tmp_path: Path
) -> None:
    async with open_simulator(build_script("From Anna's.")) as simulator:
        settings = {"encryption_key": ENCRYPTION_KEY, "tenant_origins": simulator.url("")}
        with open_remote_server(address, tmp_path / "server", **settings) as remote:
            home, server = Home(tmp_path / "home"), ("--server", remote.url)

            async def tell(*words: str, stdin: str = "", code: int = 0) -> CommandResult:
                result = await asyncio.to_thread(
                    home.tell, *server, *words, stdin=stdin, token=remote.anna
                )
                assert result.code == code, (words, result.stderr)
                assert KEY not in result.stdout + result.stderr
                return result

            add = ("endpoint", "add", "acme", "--url", simulator.base_url("openai"))
            model = ("--model", "writer,window=64000,output=2000,tokenizer=chars:4")
            assert "No endpoints" in (await tell("endpoint", "list")).stderr
            await tell(*add, "--model", "writer,windows=1", stdin=KEY, code=2)
            await tell(*add, *model, code=2)  # without a key, and no terminal to type it
            added = await tell(*add, *model, "--key-file=-", stdin=f"{KEY}\n")
            assert WRITER in added.stderr
            assert WRITER in (await tell("endpoint", "list")).stdout
            assert "From Anna's." in (await tell("endpoint", "test", "acme")).stdout
            assert WRITER in (await tell("models", "list")).stdout
            run = ("run", "A hall.", "--models", WRITER, "--until", "thesis", "--yes")
            await tell(*run)
            assert "Removed" in (await tell("endpoint", "remove", "acme")).stderr
            refused = await tell(*run, code=2)
            assert "endpoint add acme" in refused.stderr
            assert {call.has_key for call in simulator.log.calls} == {True}


async def test_the_wallet_of_a_tenant_pays_nothing_and_the_tokens_are_counted(
    houses: Houses,
) -> None:
    api, anna = houses.api, houses.api.anna
    await anna.post("/endpoints", build_request(houses.annas))
    session = await anna.make_session(models=[WRITER], budget="0.000001")
    await anna.post(f"/sessions/{session['id']}/generate")
    await api.work(anna, session["id"])
    costs = (await anna.get(f"/sessions/{session['id']}/costs"))["items"]
    assert {(cost["model"], cost["charged"], cost["held"]) for cost in costs} == {
        (WRITER, "0", "0")
    }
    assert all(cost["input_tokens"] > 0 and cost["output_tokens"] > 0 for cost in costs)
    assert (await anna.get("/wallet"))["money"]["balance"] == "0"
