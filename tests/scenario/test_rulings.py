"""What people decide about claims: it is in every later prompt until it is withdrawn."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from dialectic.db.pool import Address
from dialectic.postgres import embedded
from dialectic_simulator import Simulator, open_simulator
from tests.database.job_table import database_of_a_module
from tests.problems import check_problem
from tests.scenario.api_in_process import Api, open_api
from tests.scenario.simulated_endpoints import (
    PLAIN_TOKENS,
    build_endpoint,
    build_remote_catalog,
)

MODELS = ["one/m", "two/m"]
SAID = "## Idea\n\nEach booking needs a deposit of {} euros, paid to the caretaker.\n"
ENDPOINTS = {
    "one": {},
    "two": {},
    "low": {"text": SAID.format(25)},
    "high": {"text": SAID.format(40)},
}
DISSENTING = ["low/m", "high/m"]


@pytest.fixture(scope="module")
def address(server: embedded.Server, template: str) -> Iterator[Address]:
    with database_of_a_module(server, template) as found:
        yield found


@pytest.fixture
async def simulator() -> AsyncIterator[Simulator]:
    script = {"models": PLAIN_TOKENS, "keep_bodies": True, "endpoints": ENDPOINTS}
    async with open_simulator(script) as running:
        yield running


@pytest.fixture
async def api(address: Address, simulator: Simulator, tmp_path: Path) -> AsyncIterator[Api]:
    ends = [build_endpoint(simulator, "openai", name) for name in ENDPOINTS]
    catalog = build_remote_catalog(ends)
    async with open_api(address, tmp_path, catalog) as opened:
        yield opened
        await catalog.close()


async def begin(api: Api, **wishes: Any) -> str:
    """Let a session write its theses."""
    session = await api.anna.make_session(
        **{"models": MODELS, "until": "synthesis", "is_autopilot": False, **wishes}
    )
    path = f"/sessions/{session['id']}"
    await api.anna.post(f"{path}/generate")
    await api.work(api.anna, session["id"])
    return path


async def go_on(api: Api, simulator: Simulator, path: str, act: str = "submit") -> list[str]:
    """Let the next stage be written; return its prompts."""
    before = len(simulator.log.calls)
    await api.anna.post(f"{path}/{act}")
    await api.work(api.anna, path.rpartition("/")[2])
    return [str(call.body) for call in simulator.log.calls[before:]]


async def list_claims(api: Api, path: str) -> list[dict[str, Any]]:
    return list((await api.anna.get(f"{path}/claims"))["claims"])


async def rule(api: Api, path: str, claim: dict[str, Any], **said: Any) -> dict[str, Any]:
    answer = await api.anna.client.put(f"{path}/claims/{claim['id']}/ruling", json=said)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def test_every_later_prompt_has_a_ruling_until_it_is_withdrawn(
    api: Api, simulator: Simulator
) -> None:
    path = await begin(api)
    claim, *_ = await list_claims(api, path)
    made = await rule(api, path, claim, verdict="change", text="Mind the walruses.")
    assert (made["subject_id"], made["verdict"]) == (claim["id"], "change")
    listed = {one["id"]: one["ruling"] for one in await list_claims(api, path)}
    assert listed[claim["id"]]["id"] == made["id"]
    for _ in ("antithesis", "synthesis"):
        prompts = await go_on(api, simulator, path)
        assert prompts
        assert [prompt.count("Mind the walruses.") for prompt in prompts] == [1] * len(prompts)
    prompts = await go_on(api, simulator, path, "iterate")
    assert prompts
    assert all(prompt.count("Mind the walruses.") == 1 for prompt in prompts)
    answer = await api.anna.client.delete(f"{path}/claims/{claim['id']}/ruling")
    assert answer.status_code == 204
    prompts = await go_on(api, simulator, path)
    assert prompts
    assert not any("walruses" in prompt for prompt in prompts)


async def test_a_new_ruling_replaces_the_old_one_and_both_are_kept(api: Api) -> None:
    path = await begin(api)
    claim, *_ = await list_claims(api, path)
    first = await rule(api, path, claim, verdict="drop")
    second = await rule(api, path, claim, verdict="keep")
    said = (await api.anna.get(f"{path}/feedback"))["items"]
    kept = {one["id"]: one["withdrawn_at"] is None for one in said if one["kind"] == "ruling"}
    assert kept == {first["id"]: False, second["id"]: True}
    changed = await api.anna.client.patch(f"/feedback/{second['id']}", json={"text": "No."})
    assert check_problem(changed, 409, "conflict")["reason"] == "is_ruling"
    assert (await api.anna.client.delete(f"/feedback/{second['id']}")).status_code == 204
    assert {one["ruling"] for one in await list_claims(api, path)} == {None}


async def test_bad_rulings_are_refused_and_nothing_is_saved(api: Api) -> None:
    path = await begin(api)
    claim, *_ = await list_claims(api, path)
    place = f"{path}/claims/{claim['id']}/ruling"
    for body in (
        {"verdict": "own", "text": "  "},
        {"verdict": "change"},
        {"verdict": "perhaps"},
        {"verdict": "own", "text": "x" * 100_000},
        {},
    ):
        answer = await api.anna.client.put(place, json=body)
        assert answer.status_code == 422, answer.text
    drop = {"verdict": "drop"}
    for missing in (
        await api.anna.client.put(f"{path}/claims/{uuid4()}/ruling", json=drop),
        await api.anna.client.delete(place),
        await api.ben.client.put(place, json=drop),
        await api.ben.client.delete(place),
    ):
        check_problem(missing, 404, "not_found")
    await api.anna.post(f"{path}/cancel")
    refused = await api.anna.client.put(place, json=drop)
    assert check_problem(refused, 409, "conflict")["reason"] == "session_cancelled"
    assert (await api.anna.get(f"{path}/feedback"))["items"] == []


async def test_a_dissent_is_ruled_carried_and_checked(api: Api, simulator: Simulator) -> None:
    path = await begin(api, models=DISSENTING)
    found = await api.anna.get(f"{path}/dissents")
    assert (found["state"], found["left_out"]) == ("ready", 0)
    (dissent,) = found["dissents"]
    assert (dissent["kind"], dissent["status"], dissent["ruling"]) == ("figure", "open", None)
    low = next(one for one in dissent["positions"] if "25" in one["says"])
    assert low["seats"] == [1]
    place = f"{path}/dissents/{dissent['id']}/ruling"
    for body in ({}, {"text": " "}, {"position_id": str(uuid4())}, {"text": "x" * 100_000}):
        assert (await api.anna.client.put(place, json=body)).status_code == 422
    elsewhere = f"{path}/dissents/{uuid4()}/ruling"
    for missing in (
        await api.anna.client.put(elsewhere, json={"text": "Fifty."}),
        await api.ben.client.put(place, json={"text": "Fifty."}),
        await api.ben.client.get(f"{path}/dissents"),
    ):
        check_problem(missing, 404, "not_found")
    answer = await api.anna.client.put(place, json={"position_id": low["id"]})
    assert answer.status_code == 200, answer.text
    for _ in ("antithesis", "synthesis"):
        prompts = await go_on(api, simulator, path)
        assert prompts
        assert all(prompt.count(f"this holds: “{low['says']}”") == 1 for prompt in prompts)
    ruled = await api.anna.get(f"{path}/dissents", status="ruled")
    (after,) = [one for one in ruled["dissents"] if one["id"] == dissent["id"]]
    assert after["ruling"]["position_id"] == low["id"]
    # The lead writes 25 euros, whatever it reads.
    assert after["obeyed"] == "kept"
    assert (await api.anna.client.delete(place)).status_code == 204
    listed = (await api.anna.get(f"{path}/dissents"))["dissents"]
    assert {one["ruling"] for one in listed} == {None}
