"""Models and processes over the API: what is known of them, whether they answer, what they do."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from dialectic.api.server import open_server
from dialectic.cli.preflight import check_models
from dialectic.cli.remote import RemoteBackend
from dialectic.client import AsyncClient
from dialectic.core.access import Scope
from dialectic.db.pool import Address
from dialectic.errors import ModelUnusable
from dialectic.settings import Settings
from dialectic_simulator import open_simulator
from tests.problems import check_problem
from tests.scenario.api_in_process import Api, open_api
from tests.scenario.simulated_endpoints import build_endpoint, build_remote_catalog

SCRIPT: dict[str, Any] = {
    "models": {"*": {"tokenizer": "chars:4"}},
    "endpoints": {"good": {}, "bad": {"fault": "401_key"}},
}
OFFLINE = "offline/skeptic"


@pytest.fixture
async def api(address: Address, tmp_path: Path) -> AsyncIterator[Api]:
    async with open_api(address, tmp_path / "home") as opened:
        yield opened


async def find_model(api: Api, name: str) -> dict[str, Any]:
    listed = (await api.anna.get("/models"))["items"]
    found: dict[str, Any] = next(one for one in listed if one["name"] == name)
    return found


async def test_a_model_says_what_it_is_called_and_whether_you_have_used_it(api: Api) -> None:
    fresh = await find_model(api, OFFLINE)
    assert (fresh["label"], fresh["provider"], fresh["is_play"]) == ("skeptic", "offline", True)
    assert (fresh["used_by_you"], fresh["missing"]) == (False, None)
    assert fresh["health"] == {"state": "unknown", "until": None, "p50_ms": None}
    wish = {"prompt": "A village hall.", "models": [OFFLINE], "until": "thesis"}
    made = await api.anna.post("/runs", wish)
    await api.work(api.anna, made["session"]["id"])
    used = await find_model(api, OFFLINE)
    assert used["used_by_you"]
    assert used["health"]["state"] == "ok"
    assert used["health"]["p50_ms"] >= 0
    theirs = (await api.ben.get("/models"))["items"]
    assert not any(one["used_by_you"] for one in theirs)


async def test_a_model_without_its_key_names_the_variable(api: Api) -> None:
    listed = (await api.anna.get("/models"))["items"]
    lacking = {one["missing"] for one in listed if one["state"] == "key_missing"}
    assert "OPENAI_API_KEY" in lacking
    assert all(one["is_usable"] for one in listed if one["missing"] is None)


async def test_an_offline_model_needs_no_question_and_an_unknown_one_gets_none(api: Api) -> None:
    found = await api.anna.post(f"/models/{OFFLINE}/test")
    assert (found["is_usable"], found["was_asked"], found["error"]) == (True, False, None)
    unknown = await api.anna.client.post("/models/offline/nobody/test")
    check_problem(unknown, 422, "unknown_model")
    reader = await api.let_in(scopes={Scope.READ, Scope.WRITE})
    refused = await reader.client.post(f"/models/{OFFLINE}/test")
    check_problem(refused, 403, "forbidden")


async def test_a_model_is_asked_once_and_a_rejected_key_names_its_variable(
    address: Address, tmp_path: Path
) -> None:
    async with open_simulator(SCRIPT) as simulator:
        ends = [build_endpoint(simulator, "openai", name) for name in ("good", "bad")]
        catalog = build_remote_catalog(ends)
        async with open_api(address, tmp_path / "home", catalog) as api:
            good = await api.anna.post("/models/good/m/test")
            assert (good["is_usable"], good["error"]) == (True, None)
            assert good["was_asked"]
            bad = await api.anna.post("/models/bad/m/test")
            assert (bad["is_usable"], bad["error"]["code"]) == (False, "provider_auth")
            remedy = bad["error"]["remedy"]
            assert (remedy["action"], remedy["setting"]) == ("configure", "KEY_OF_A_TEST")
            assert "sk-key" not in json.dumps(bad)
            wallet = await api.anna.get("/wallet")
            assert wallet["money"]["balance"] == "0", "nothing is booked"
            await check_remotely(api)
        await catalog.close()


async def check_remotely(api: Api) -> None:
    """A command that uses the server has the same check."""
    async with (
        open_server(api.app, api.hub, host="127.0.0.1", port=0) as running,
        AsyncClient(running.url, token=api.anna.token) as client,
    ):
        backend = RemoteBackend(client, Settings(home=api.drafts))
        assert await check_models(backend, ["good/m"], seats_min=1) == ["good/m"]
        with pytest.raises(ModelUnusable) as refused:
            await check_models(backend, ["good/m", "bad/m"], seats_min=1)
    assert (refused.value.subject, refused.value.reason) == ("bad/m", "provider_auth")
    remedy = refused.value.remedy
    assert remedy is not None
    assert (remedy.action, remedy.setting) == ("configure", "KEY_OF_A_TEST")


async def test_a_process_is_outlined_for_a_number_of_seats(api: Api) -> None:
    found = await api.anna.get("/processes/standard/outline", seats=3)
    assert (found["calls"], [stage["calls"] for stage in found["stages"]]) == (57, [3, 9, 39, 3, 3])
    steps = {step["name"]: step for stage in found["stages"] for step in stage["steps"]}
    assert (steps["pairwise"]["calls"], steps["pairwise"]["calls_per_seat"]) == (27, 9)
    assert steps["pairwise"]["is_intermediate"]
    assert steps["critique"]["prompt"] == "antithesis_critique"
    one = await api.anna.get("/processes/standard/outline", seats=1)
    assert one["calls"] == 7
    check_problem(await api.anna.client.get("/processes/nothing/outline"), 404, "not_found")
    check_problem(
        await api.anna.client.get("/processes/standard/outline", params={"seats": 0}),
        422,
        "validation_failed",
    )
