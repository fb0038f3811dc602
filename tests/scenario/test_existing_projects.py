"""An existing project: domain, resources, further sessions; system prompts and the job graph."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from dialectic.db.pool import Address
from dialectic.errors import NotFound
from dialectic.postgres import embedded
from dialectic.processes.loader import load_process
from tests.database.job_table import database_of_a_module
from tests.problems import check_problem
from tests.scenario.api_in_process import Api, open_api

RULES = {"kind": "domain_standards", "name": "Rules", "text": "No music after ten."}


@pytest.fixture(scope="module")
def address(server: embedded.Server, template: str) -> Iterator[Address]:
    with database_of_a_module(server, template) as found:
        yield found


@pytest.fixture
async def api(address: Address, tmp_path: Path) -> AsyncIterator[Api]:
    async with open_api(address, tmp_path) as opened:
        yield opened


async def test_an_unknown_domain_is_refused_when_the_project_is_made(api: Api) -> None:
    answer = await api.anna.client.post("/projects", json={"prompt": "A", "domain": "Astrology"})
    problem = check_problem(answer, 400, "invalid_request")
    assert problem["reason"] == "no_domain"
    assert "General, Software Development" in problem["detail"]


async def test_a_domain_is_found_in_any_letter_case_and_can_be_changed(api: Api) -> None:
    project = await api.anna.make_project(domain="software-development")
    assert project["domain"] == "Software Development"
    path = f"/projects/{project['id']}"
    changed = await api.anna.client.patch(path, json={"domain": "GENERAL"})
    assert (changed.status_code, changed.json()["domain"]) == (200, "General")
    unknown = await api.anna.client.patch(path, json={"domain": "Astrology"})
    assert check_problem(unknown, 400, "invalid_request")["reason"] == "no_domain"
    assert (await api.anna.get(path))["domain"] == "General"


async def test_a_domain_that_a_session_of_the_project_does_not_have_is_refused(api: Api) -> None:
    session = await api.anna.make_session()
    path = f"/projects/{session['project_id']}"
    assert (await api.anna.client.patch(path, json={"domain": "general"})).status_code == 200
    answer = await api.anna.client.patch(path, json={"domain": "Purchasing"})
    assert check_problem(answer, 400, "invalid_request")["reason"] == "no_domain"


async def test_a_removed_resource_leaves_list_prompts_and_storage(api: Api) -> None:
    project = await api.anna.make_project()
    path = f"/projects/{project['id']}/resources"
    added = await api.anna.post(path, RULES)
    kept = await api.anna.post(path, {**RULES, "name": "Others"})
    stored = api.engine.files, f"{api.anna.account.tenant_id}/{added['path']}"
    assert await stored[0].read(stored[1]) == b"No music after ten."
    for _ in range(2):
        answer = await api.anna.client.delete(f"{path}/{added['id']}")
        if answer.status_code != 204:
            assert check_problem(answer, 404, "not_found")["reason"] == "no_resource"
    items = (await api.anna.get(path))["items"]
    assert [one["id"] for one in items if one["kind"] == "domain_standards"] == [kept["id"]]
    with pytest.raises(NotFound):
        await stored[0].read(stored[1])
    again = await api.anna.post(path, RULES)
    assert await stored[0].read(f"{api.anna.account.tenant_id}/{again['path']}")


async def test_the_prompt_and_the_resources_of_others_cannot_be_removed(api: Api) -> None:
    project = await api.anna.make_project(resources=[RULES])
    path = f"/projects/{project['id']}/resources"
    items = (await api.anna.get(path))["items"]
    prompt, rules = (
        next(one for one in items if one["kind"] == kind)
        for kind in ("initial_user_prompt", "domain_standards")
    )
    answer = await api.anna.client.delete(f"{path}/{prompt['id']}")
    assert check_problem(answer, 409, "conflict")["reason"] == "is_prompt"
    assert (await api.ben.client.delete(f"{path}/{rules['id']}")).status_code == 404
    assert (await api.anna.client.delete(f"{path}/{uuid4()}")).status_code == 404
    assert len((await api.anna.get(path))["items"]) == 2


async def test_a_second_session_adds_its_description_to_every_prompt(api: Api) -> None:
    project = await api.anna.make_project()
    wish: dict[str, Any] = {"models": ["offline/skeptic"], "until": "thesis"}
    await api.anna.post(f"/projects/{project['id']}/sessions", wish)
    second = await api.anna.post(
        f"/projects/{project['id']}/sessions",
        {**wish, "session_description": "This time for the winter only."},
    )
    assert second["description"] == "This time for the winter only."
    await api.anna.client.post(f"/sessions/{second['id']}/generate")
    await api.work(api.anna, second["id"])
    documents = (await api.anna.get(f"/sessions/{second['id']}/documents"))["items"]
    seed = next(one for one in documents if one["kind"] == "seed_prompt")
    text = (await api.anna.get(f"/documents/{seed['id']}"))["content"]
    assert f"{project['prompt']}\n\nThis time for the winter only." in text


async def test_jobs_and_contributions_of_a_list_form_the_graph_of_a_session(api: Api) -> None:
    models = ["offline/skeptic", "offline/architect"]
    session = await api.anna.make_session(models=models, until="antithesis")
    await api.anna.client.post(f"/sessions/{session['id']}/generate")
    await api.work(api.anna, session["id"])
    path = f"/sessions/{session['id']}"
    written = (await api.anna.get(f"{path}/contributions"))["items"]
    jobs = {one["id"]: one for one in (await api.anna.get(f"{path}/jobs"))["items"]}
    theses = {one["id"]: one for one in written if one["type"] == "thesis"}
    critiques = [one for one in written if one["type"] == "antithesis"]
    assert sorted(one["seat"] for one in theses.values()) == [1, 2]
    assert len(critiques) == 4
    for one in critiques:
        job = jobs[one["job_id"]]
        assert one["about_id"] == one["source_group"] == one["source_ids"][0] == job["target_id"]
        assert one["about_id"] in theses
        assert (job["step"], job["output"], job["seat"]) == ("critique", "antithesis", one["seat"])
        assert (job["contribution_id"], job["prerequisite_id"]) == (one["id"], None)
        assert jobs[job["parent_id"]]["step"] is None
    detail = await api.anna.get(f"{path}/overview")
    lines = {one["id"]: one for one in detail["contributions"]}
    assert all(lines[c["id"]]["target_contribution_id"] == c["about_id"] for c in critiques)
    assert {one["contribution_id"] for one in detail["jobs"]} - {None} == set(lines)


async def test_the_system_prompts_of_sessions_are_listed_and_open_a_chat(api: Api) -> None:
    await api.ben.make_session()
    prompts = (await api.ben.get("/system-prompts"))["items"]
    role = next(one for one in prompts if one["name"] == "thesis_role")
    assert role["processes"] == ["standard"]
    assert {one["name"] for one in prompts if one["is_role"]} == {
        f"{stage}_role"
        for stage in ("thesis", "antithesis", "synthesis", "parenthesis", "paralysis")
    }
    assert {one["name"] for one in prompts} == set(load_process("standard").prompts)
    question = {
        "message": "Name a bakery.",
        "model": "offline/skeptic",
        "system_prompt_id": role["id"],
    }
    reply = await api.ben.post("/chat", question)
    chat = await api.ben.get(f"/chats/{reply['chat_id']}")
    assert chat["system_instruction"] == role["text"]
