"""Documents that rest on something newer are written again: in order, quoted first, once each."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from dialectic.db.pool import Address
from dialectic.postgres import embedded
from tests.database.job_table import database_of_a_module
from tests.problems import check_problem
from tests.scenario.api_in_process import Api, open_api

MODELS = ["offline/architect", "offline/skeptic"]


@pytest.fixture(scope="module")
def address(server: embedded.Server, template: str) -> Iterator[Address]:
    with database_of_a_module(server, template) as found:
        yield found


@pytest.fixture
async def api(address: Address, tmp_path: Path) -> AsyncIterator[Api]:
    async with open_api(address, tmp_path) as opened:
        yield opened


async def write(api: Api, until: str) -> str:
    session = await api.anna.make_session(models=MODELS, until=until)
    await api.anna.client.post(f"/sessions/{session['id']}/generate")
    await api.work(api.anna, session["id"])
    return str(session["id"])


async def list_written(api: Api, session: str) -> list[dict[str, Any]]:
    found = await api.anna.get(f"/sessions/{session}/contributions", limit=200)
    return list(found["items"])


async def edit(api: Api, document: dict[str, Any]) -> dict[str, Any]:
    path = f"/contributions/{document['id']}"
    answer = await api.anna.client.put(path, json={"content": "# Mine\n\nA stall."})
    assert answer.is_success, answer.text
    return dict(answer.json())


async def test_everything_that_follows_an_edit_is_written_again_in_order(api: Api) -> None:
    session = await write(api, "paralysis")
    before = await list_written(api, session)
    thesis = next(one for one in before if one["type"] == "thesis")
    mine = await edit(api, thesis)
    stale = {one["id"] for one in await list_written(api, session) if one["is_stale"]}

    quoted = await api.anna.get(f"/sessions/{session}/stale")
    assert {one["id"] for one in quoted["documents"]} == stale
    assert quoted["kept"] == []
    assert quoted["quote"]["calls"] == len(stale)

    path = f"/sessions/{session}/refresh"
    jobs = (await api.anna.post(path))["job_ids"]
    again = (await api.anna.post(path))["job_ids"]
    assert sorted(jobs) == sorted(again), "what is being written is not written twice"
    assert len(jobs) == len(stale)
    await api.work(api.anna, session)

    after = {one["id"]: one for one in await list_written(api, session)}
    assert not any(one["is_stale"] for one in after.values())
    assert len(after) == len(before)
    newest = set(after)
    for one in after.values():
        assert {read["version_id"] for read in one["read"]} <= newest, one["path"]
    critiques = [one for one in after.values() if one["type"] == "antithesis"]
    critiques = [one for one in critiques if one["about_id"] == thesis["id"]]
    assert len(critiques) == len(MODELS)
    for one in critiques:
        assert mine["id"] in [read["version_id"] for read in one["read"]]
    assert (await api.anna.get(f"/sessions/{session}/stale"))["documents"] == []
    assert (await api.anna.post(path))["job_ids"] == []


async def test_a_document_that_a_person_edited_is_left_alone(api: Api) -> None:
    session = await write(api, "antithesis")
    written = await list_written(api, session)
    thesis = next(one for one in written if one["type"] == "thesis")
    mine = await edit(api, next(one for one in written if one["about_id"] == thesis["id"]))
    await edit(api, thesis)

    found = await api.anna.get(f"/sessions/{session}/stale")
    assert [(one["id"], one["kept"]) for one in found["kept"]] == [(mine["id"], "edited")]
    await api.anna.post(f"/sessions/{session}/refresh")
    await api.work(api.anna, session)
    left = [one["id"] for one in await list_written(api, session) if one["is_stale"]]
    assert left == [mine["id"]]


async def test_a_cancelled_session_and_those_of_others_are_refused(api: Api) -> None:
    session = await api.anna.make_session(models=MODELS, until="synthesis", is_autopilot=False)
    path = f"/sessions/{session['id']}"
    await api.anna.client.post(f"{path}/generate")
    await api.work(api.anna, session["id"])
    thesis = (await list_written(api, session["id"]))[0]
    await api.anna.client.post(f"{path}/submit", json={})
    await api.work(api.anna, session["id"])
    await edit(api, thesis)
    for method, place in (("GET", "stale"), ("POST", "refresh")):
        foreign = await api.ben.client.request(method, f"{path}/{place}")
        assert foreign.status_code == 404
    assert (await api.anna.client.post(f"{path}/cancel")).is_success
    answer = await api.anna.client.post(f"{path}/refresh")
    assert check_problem(answer, 409, "conflict")["reason"] == "session_cancelled"


async def test_what_rests_on_a_document_that_failed_fails_with_it_and_stays_stale(
    address: Address, tmp_path: Path
) -> None:
    async with open_api(address, tmp_path) as api:
        session = await write(api, "synthesis")
        written = await list_written(api, session)
        await edit(api, next(one for one in written if one["type"] == "thesis"))
        stale = [one["id"] for one in await list_written(api, session) if one["is_stale"]]
        jobs = (await api.anna.post(f"/sessions/{session}/refresh"))["job_ids"]
        first = (await api.anna.get(f"/sessions/{session}/stale"))["documents"][0]["job_id"]
        assert first in jobs
        assert (await api.anna.client.post(f"/sessions/{session}/jobs/{first}/cancel")).is_success
        await api.work(api.anna, session)
        states = {
            one["id"]: (one["status"], one["status_reason"])
            for one in (await api.anna.get(f"/sessions/{session}/jobs", limit=200))["items"]
            if one["id"] in jobs
        }
        assert states[first][0] == "cancelled"
        assert ("failed", "prerequisite_failed") in states.values()
        left = [one for one in await list_written(api, session) if one["is_stale"]]
        assert 0 < len(left) < len(stale)
        again = (await api.anna.post(f"/sessions/{session}/refresh"))["job_ids"]
        assert len(again) == len(left)
        await api.work(api.anna, session)
        assert not any(one["is_stale"] for one in await list_written(api, session))
