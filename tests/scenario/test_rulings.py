"""What people decide about claims: it is in every later prompt until it is withdrawn."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from dialectic.app import dissent_pause
from dialectic.app.report_files import write_reports
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
RARE = "## Idea\n\nBlacksmith Oyelaran galvanizes trapdoor hinges every {} fortnights.\n"
ENDPOINTS = {
    "one": {},
    "two": {},
    "low": {"text": SAID.format(25)},
    "high": {"text": SAID.format(40)},
    "short": {"text": RARE.format(13)},
    "long": {"text": RARE.format(29)},
}
DISSENTING = ["low/m", "high/m"]
# Rare words weigh more.
WEIGHTY = ["short/m", "long/m"]


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
    low, high = dissent["positions"]
    assert [low["seats"], high["seats"]] == [[1], [2]]
    assert dissent["subject"] == low["says"], "a dissent is named by its first seat"
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
        assert all(prompt.count(f"On “{low['says']}”: keep") == 1 for prompt in prompts)
    ruled = await api.anna.get(f"{path}/dissents", status="ruled")
    (after,) = [one for one in ruled["dissents"] if one["id"] == dissent["id"]]
    assert after["ruling"]["position_id"] == low["id"]
    # The lead writes 25 euros, whatever it reads.
    assert after["obeyed"] == "kept"
    assert (await api.anna.client.delete(place)).status_code == 204
    listed = (await api.anna.get(f"{path}/dissents"))["dissents"]
    assert {one["ruling"] for one in listed} == {None}


# -- pausing on dissent ----------------------------------------------------------------------------


async def run_on(api: Api, session_id: str) -> None:
    """Work, and decide after each stage, until nothing is left to decide."""
    while True:
        await api.work(api.anna, session_id)
        if not await dissent_pause.decide_all(api.worker_engine):
            return


async def start(api: Api, **wishes: Any) -> dict[str, Any]:
    session = await api.anna.make_session(**{"until": "synthesis", **wishes})
    await api.anna.post(f"/sessions/{session['id']}/generate")
    await run_on(api, session["id"])
    return dict(await api.anna.get(f"/sessions/{session['id']}"))


async def test_without_dissent_a_session_that_pauses_on_it_makes_the_calls_of_autopilot(
    api: Api, simulator: Simulator
) -> None:
    logs = []
    for pauses in (False, True):
        before = len(simulator.log.calls)
        session = await start(api, models=["low/m", "low/m"], pause_on_dissent=pauses)
        assert session["status"] == "synthesis_generation_complete"
        calls = simulator.log.calls[before:]
        # The order of inputs is drawn by the ids of jobs, so equal prompts have equal lengths.
        logs.append(sorted(len(str(call.body)) for call in calls))
    assert logs[0]
    assert logs[0] == logs[1]


async def test_a_stage_that_left_dissent_waits_for_a_person(api: Api, simulator: Simulator) -> None:
    session = await start(api, models=WEIGHTY, pause_on_dissent=True)
    assert session["status"] == "thesis_generation_complete"
    told = (await api.anna.get("/notifications"))["items"]
    assert [one["type"] for one in told] == ["session_waits_for_you"]
    path = f"/sessions/{session['id']}"
    await api.anna.post(f"{path}/submit")
    await run_on(api, session["id"])
    after = await api.anna.get(path)
    assert after["status"] == "synthesis_generation_complete"
    odd = {"models": WEIGHTY, "pause_on_dissent": True, "is_autopilot": False}
    project = await api.anna.client.post("/projects", json={"prompt": "A hall."})
    refused = await api.anna.client.post(f"/projects/{project.json()['id']}/sessions", json=odd)
    assert check_problem(refused, 422, "invalid_value")["reason"] == "two_choices"


async def test_a_broken_ruling_is_told_once_and_no_longer_when_it_is_withdrawn(api: Api) -> None:
    path = await begin(api, models=DISSENTING)
    session_id = path.rpartition("/")[2]
    (dissent,) = (await api.anna.get(f"{path}/dissents"))["dissents"]
    high = next(one for one in dissent["positions"] if "40" in one["says"])
    place = f"{path}/dissents/{dissent['id']}/ruling"
    assert (await api.anna.client.put(place, json={"position_id": high["id"]})).status_code == 200
    for _ in ("antithesis", "synthesis"):
        await api.anna.post(f"{path}/submit")
        await api.work(api.anna, session_id)
    project_id = UUID((await api.anna.get(path))["project_id"])
    tenant_id = api.anna.account.tenant_id
    for _ in range(2):
        await write_reports(api.worker_engine, tenant_id, project_id)
    told = [
        one
        for one in (await api.anna.get("/notifications"))["items"]
        if one["type"] == "ruling_broken"
    ]
    # The lead writes 25 euros, whatever it reads.
    assert [one["data"]["dissentId"] for one in told] == [dissent["id"]]
    files = (await api.anna.get(f"/projects/{project_id}/files"))["items"]
    names = {one["path"].rpartition("/")[2] for one in files}
    assert {"coverage.md", "coverage.json", "dissent.md"} <= names
