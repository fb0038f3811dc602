"""One request starts a run: everything it needs in one commit, or nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from dialectic.core.access import Scope
from dialectic.db.pool import Address
from tests.problems import check_problem
from tests.scenario.api_in_process import PROMPT, Api, open_api

RUN: dict[str, Any] = {"prompt": PROMPT, "models": ["offline/skeptic"], "until": "thesis"}


@pytest.fixture
async def api(address: Address, tmp_path: Path) -> AsyncIterator[Api]:
    async with open_api(address, tmp_path / "home") as opened:
        yield opened


async def count_all(api: Api) -> tuple[int, int]:
    projects, sessions = [await api.anna.get(path) for path in ("/projects", "/sessions")]
    return len(projects["items"]), len(sessions["items"])


async def test_one_request_creates_a_project_and_a_session_and_starts_it(api: Api) -> None:
    wish = {**RUN, "name": "Village hall", "budget": "2.50", "is_autopilot": False}
    answer = await api.anna.client.post("/runs", json=wish)
    made = answer.json()
    assert answer.status_code == 201
    assert answer.headers["location"] == f"/api/v1/sessions/{made['session']['id']}"
    assert (made["project"]["name"], made["project"]["prompt"]) == ("Village hall", PROMPT)
    assert made["session"]["project_id"] == made["project"]["id"]
    assert (made["session"]["status"], made["session"]["budget"]) == ("generating_thesis", "2.5")
    assert len(made["job_ids"]) == 1
    await api.work(api.anna, made["session"]["id"])
    done = await api.anna.get(f"/sessions/{made['session']['id']}")
    assert done["status"] == "thesis_generation_complete"


async def test_ten_requests_with_one_key_start_one_run(api: Api) -> None:
    key = {"Idempotency-Key": "hall"}
    post = api.anna.client.post
    answers = await asyncio.gather(*(post("/runs", json=RUN, headers=key) for _ in range(10)))
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.content for answer in answers}) == 1
    assert len({answer.headers["location"] for answer in answers}) == 1
    assert await count_all(api) == (1, 1)


async def test_a_project_gets_a_further_session_and_what_is_given_along(api: Api) -> None:
    project = await api.anna.make_project(name="Hall")
    given = {"kind": "success_criteria", "name": "Keys", "text": "Nobody is locked out."}
    wish = {
        "project_id": project["id"],
        "models": ["offline/skeptic"],
        "until": "thesis",
        "session_description": "This time for winter.",
        "resources": [given],
    }
    made = await api.anna.post("/runs", wish)
    assert made["project"]["id"] == project["id"]
    assert made["session"]["description"] == "This time for winter."
    listed = (await api.anna.get(f"/projects/{project['id']}/resources"))["items"]
    assert "success_criteria" in {one["kind"] for one in listed}
    assert await count_all(api) == (1, 1)


async def test_a_run_can_be_prepared_without_being_started(api: Api) -> None:
    made = await api.anna.post("/runs", {**RUN, "start": False})
    assert (made["job_ids"], made["session"]["status"]) == ([], "pending_thesis")
    started = await api.anna.post(f"/sessions/{made['session']['id']}/generate")
    assert len(started["job_ids"]) == 1


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"models": ["offline/nobody"]}, 422, "unknown_model"),
        ({"until": "nowhere"}, 404, "not_found"),
        ({"lead": "offline/architect"}, 400, "invalid_request"),
        ({"domain": "Alchemy"}, 400, "invalid_request"),
        ({"prompt": " \n "}, 400, "invalid_request"),
        ({"prompt": ""}, 422, "validation_failed"),
        ({"budget": "much"}, 422, "validation_failed"),
        ({"project_id": "00000000-0000-4000-8000-000000000000"}, 422, "validation_failed"),
        ({"process": "unheard-of"}, 404, "not_found"),
    ],
)
async def test_a_run_that_cannot_start_leaves_nothing(
    api: Api, change: dict[str, Any], status: int, code: str
) -> None:
    answer = await api.anna.client.post("/runs", json={**RUN, **change})
    check_problem(answer, status, code)
    assert await count_all(api) == (0, 0)


async def test_what_belongs_to_the_project_is_not_given_again(api: Api) -> None:
    project = await api.anna.make_project()
    wish = {"project_id": project["id"], "models": ["offline/skeptic"], "domain": "General"}
    check_problem(await api.anna.client.post("/runs", json=wish), 422, "validation_failed")
    assert await count_all(api) == (1, 0)


async def test_a_project_of_another_tenant_gets_no_session_and_no_resource(api: Api) -> None:
    project = await api.anna.make_project()
    given = {"kind": "success_criteria", "name": "Keys", "text": "Mine."}
    wish = {"project_id": project["id"], "models": ["offline/skeptic"], "resources": [given]}
    for path in ("/runs", "/quotes"):
        check_problem(await api.ben.client.post(path, json=wish), 404, "not_found")
    listed = (await api.anna.get(f"/projects/{project['id']}/resources"))["items"]
    assert [one["kind"] for one in listed] == ["initial_user_prompt"]


async def test_a_token_that_may_not_spend_prepares_and_does_not_start(api: Api) -> None:
    writer = await api.let_in(scopes={Scope.READ, Scope.WRITE})
    refused = await writer.client.post("/runs", json=RUN)
    assert check_problem(refused, 403, "forbidden")["remedy"]["scope"] == "spend"
    prepared = await writer.client.post("/runs", json={**RUN, "start": False})
    assert prepared.status_code == 201
    spender = await api.let_in(scopes={Scope.READ, Scope.SPEND})
    refused = await spender.client.post("/runs", json=RUN)
    assert check_problem(refused, 403, "forbidden")["remedy"]["scope"] == "write"


# -- the quote of the same request -----------------------------------------------------------------


async def test_a_form_can_ask_for_the_price_of_what_it_will_start(api: Api) -> None:
    quoted = await api.anna.post("/quotes", {**RUN, "name": "Village hall"})
    made = await api.anna.post("/runs", {**RUN, "name": "Village hall", "start": False})
    rest = await api.anna.get(f"/sessions/{made['session']['id']}/quote")
    shared = rest.keys() - {"quoted_at"}
    assert shared < quoted.keys(), "one shape"
    assert {name: quoted[name] for name in shared} == {name: rest[name] for name in shared}


async def test_a_quote_is_small_and_its_amounts_are_texts(api: Api) -> None:
    wish = {"prompt": PROMPT, "models": ["offline/skeptic*3"]}
    answer = await api.anna.client.post("/quotes", json=wish)
    quoted = answer.json()
    assert len(answer.content) < 3_000
    assert (quoted["calls"], quoted["lines"]) == (57, None)
    assert sum(stage["calls"] for stage in quoted["stages"]) == 57
    amounts = ("expected", "rarely_above", "worst", "ceiling", "balance", "balance_after")
    assert all(isinstance(quoted[name], str) for name in amounts)
    after = Decimal(quoted["balance"]) - Decimal(quoted["expected"])
    assert Decimal(quoted["balance_after"]) == after
    lines = await api.anna.client.post("/quotes", params={"lines": True}, json=wish)
    assert len(lines.json()["lines"]["lines"]) == 3 * 7


async def test_a_quote_names_the_stage_in_which_the_budget_ends(api: Api) -> None:
    wish = {"prompt": PROMPT, "models": ["offline/skeptic*3"], "shrink": 3}
    quoted = await api.anna.post("/quotes", wish)
    assert quoted["ends_in_stage"] is None
    first, second = (Decimal(stage["expected"]) for stage in quoted["stages"][:2])
    short = await api.anna.post("/quotes", {**wish, "budget": str(first + second / 2)})
    assert (short["ends_in_stage"], short["fits"]) == ("antithesis", False)


async def test_a_further_session_is_quoted_with_what_its_project_holds(api: Api) -> None:
    given = {"kind": "reference_documents", "name": "Rules", "text": "Keep the keys. " * 2_000}
    plain = await api.anna.make_project()
    full = await api.anna.make_project(resources=[given])
    wish = {"models": ["offline/skeptic"], "until": "thesis"}
    tokens = [
        (await api.anna.post("/quotes", {**wish, "project_id": one["id"], **more}))["input_tokens"]
        for one, more in ((plain, {}), (full, {}), (plain, {"resources": [given]}))
    ]
    assert tokens[1] - tokens[0] > 5_000
    assert tokens[2] == tokens[1]
