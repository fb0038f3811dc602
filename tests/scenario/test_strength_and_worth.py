"""What a document rests on, what each model brought, and where figures come from, over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

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


async def write(api: Api, models: list[str], until: str = "synthesis") -> str:
    session = await api.anna.make_session(models=models, until=until)
    await api.anna.client.post(f"/sessions/{session['id']}/generate")
    await api.work(api.anna, session["id"])
    return str(session["id"])


async def find_lead(api: Api, session: str, kind: str) -> dict[str, Any]:
    found = await api.anna.get(f"/sessions/{session}/contributions", limit=200)
    return next(one for one in found["items"] if one["type"] == kind and one["seat"] == 1)


async def test_strength_worth_and_figures_of_a_clean_run(api: Api) -> None:
    session = await write(api, MODELS)
    last = await find_lead(api, session, "synthesis")
    path = f"/contributions/{last['id']}/strength"
    strength = await api.anna.get(path)
    assert (strength["seats"], strength["seats_asked"]) == ([1, 2], 2)
    assert strength["models"] == MODELS
    assert {note["code"] for note in strength["notes"]} <= {"open_dissent"}
    assert (strength["missing"], strength["cut_off"], strength["shortened"]) == ([], [], 0)
    assert (strength["theses"], strength["critiques_per_thesis"]) == (2, 2.0)

    worth = await api.anna.get(f"/sessions/{session}/worth")
    coverage = await api.anna.get(f"/sessions/{session}/coverage")
    assert worth["of"] == coverage["of"]
    for seat, thesis in zip(worth["seats"], coverage["theses"], strict=True):
        found = next(one for one in worth["seats"] if one["seat"] == thesis["thesis"]["seat"])
        assert found["points"] == thesis["points"]
        assert found["kept"] == thesis["kept"] + thesis["changed"]
        assert seat["model"] == MODELS[seat["seat"] - 1]
        assert seat["calls"] > 0
        assert seat["charged"] == "0"
        assert float(seat["charged_play"]) > 0
        assert seat["kept_per_dollar"] is None
        assert len(seat["lost_without"]) == min(seat["kept"], 50)

    figures = await api.anna.get(f"/sessions/{session}/figures")
    assert figures["figures"] == coverage["figures"]
    assert figures["made_up"] == sum(one["is_made_up"] for one in figures["figures"])
    for one in figures["figures"]:
        assert one["figure"] in one["place"]["text"]
        assert bool(one["made_up_at"]) is one["is_made_up"]
    for route in (path, f"/sessions/{session}/figures", f"/sessions/{session}/worth"):
        answer = await api.anna.client.get(route)
        again = await api.anna.client.get(route, headers={"If-None-Match": answer.headers["ETag"]})
        assert again.status_code == 304, route


async def test_all_sessions_of_a_tenant_are_added_up_by_model(api: Api) -> None:
    first, second = await write(api, MODELS), await write(api, MODELS)
    both = await api.anna.get("/models/worth")
    parts = [await api.anna.get(f"/sessions/{one}/worth") for one in (first, second)]
    assert (both["sessions"], both["waiting"], both["left_out"]) == (2, 0, 0)
    for model in both["models"]:
        seats = [one for part in parts for one in part["seats"] if one["model"] == model["model"]]
        for name in ("points", "kept", "objections_taken", "omissions", "calls"):
            assert model[name] == sum(seat[name] for seat in seats), name
    assert [one["kept"] for one in both["models"]] == sorted(
        (one["kept"] for one in both["models"]), reverse=True
    )
    tomorrow = (datetime.now(UTC) + timedelta(days=2)).date().isoformat()
    none = await api.anna.get("/models/worth", since=tomorrow)
    assert (none["sessions"], none["models"]) == (0, [])
    assert (await api.ben.get("/models/worth"))["sessions"] == 0


async def test_a_document_of_one_model_says_so(api: Api) -> None:
    session = await write(api, ["offline/architect*2"])
    last = await find_lead(api, session, "synthesis")
    strength = await api.anna.get(f"/contributions/{last['id']}/strength")
    assert strength["is_single_model"]
    codes = [note["code"] for note in strength["notes"]]
    assert codes[0] == "single_model"
    assert "self_criticised" in codes
    assert "offline/architect" in strength["summary"]


async def test_a_seat_that_was_dropped_is_named(api: Api) -> None:
    session = await api.anna.make_session(models=[*MODELS, "offline/pragmatist"], until="synthesis")
    await api.anna.client.delete(f"/sessions/{session['id']}/seats/3")
    await api.anna.client.post(f"/sessions/{session['id']}/generate")
    await api.work(api.anna, session["id"])
    last = await find_lead(api, session["id"], "synthesis")
    strength = await api.anna.get(f"/contributions/{last['id']}/strength")
    assert strength["seats"] == [1, 2]


async def test_strength_worth_and_figures_of_what_is_not_there_are_refused(api: Api) -> None:
    session = await write(api, MODELS, "thesis")
    lone = await find_lead(api, session, "thesis")
    for path in (
        f"/contributions/{uuid4()}/strength",
        f"/sessions/{uuid4()}/worth",
        f"/sessions/{uuid4()}/figures",
    ):
        check_problem(await api.anna.client.get(path), 404, "not_found")
    strangers = f"/contributions/{lone['id']}/strength"
    check_problem(await api.ben.client.get(strangers), 404, "not_found")
    for query in ({"since": "yesterday"}, {"since": "2026-13-01"}):
        answer = await api.anna.client.get("/models/worth", params=query)
        check_problem(answer, 422, "validation_failed")
    answer = await api.anna.client.get(f"/sessions/{session}/worth", params={"iteration": 2})
    check_problem(answer, 422, "invalid_value")
    empty = await api.anna.get(f"/sessions/{session}/figures")
    assert (empty["of"], empty["figures"]) == (None, [])
    alone = await api.anna.get(f"/sessions/{session}/worth")
    assert (alone["state"], alone["of"]) == ("ready", None)
    assert {seat["kept"] for seat in alone["seats"]} == {0}
