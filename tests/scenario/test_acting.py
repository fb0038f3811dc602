"""Acting on parts of a session: one failed call, cut off and stale documents, money; its price."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Callable
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

import dialectic
from dialectic.app import accounts
from dialectic.core.access import Scope
from dialectic.core.models.messages import Request
from dialectic.db.pool import Address
from tests.problems import check_problem
from tests.scenario.api_in_process import Api, ApiUser, open_api, open_client
from tests.scenario.whole_session import RefusingProvider, build_refusing_catalog

ONE = {"prompt": "A village hall.", "models": ["offline/skeptic"], "until": "thesis"}
SKEPTIC, ARCHITECT, PRAGMATIST = "offline/skeptic", "offline/architect", "offline/pragmatist"


class Refusals:
    """Which requests are refused now."""

    def __init__(self) -> None:
        self.refuses: Callable[[Request], bool] = lambda _: False


@pytest.fixture
def refusals() -> Refusals:
    return Refusals()


@pytest.fixture
def provider_and_catalog(refusals: Refusals) -> Any:
    return build_refusing_catalog(lambda request: refusals.refuses(request))


@pytest.fixture
async def api(address: Address, tmp_path: Path, provider_and_catalog: Any) -> AsyncIterator[Api]:
    catalog, _ = provider_and_catalog
    async with open_api(address, tmp_path / "home", catalog) as opened:
        yield opened


@pytest.fixture
def provider(provider_and_catalog: Any) -> RefusingProvider:
    found: RefusingProvider = provider_and_catalog[1]
    return found


async def run(api: Api, **wishes: Any) -> str:
    made = await api.anna.post("/runs", {"prompt": "A village hall.", **wishes})
    await api.work(api.anna, made["session"]["id"])
    return str(made["session"]["id"])


async def list_jobs(api: Api, session: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await api.anna.get(f"/sessions/{session}/jobs", limit=200))[
        "items"
    ]
    return found


async def list_written(api: Api, session: str) -> list[dict[str, Any]]:
    path = f"/sessions/{session}/contributions"
    found: list[dict[str, Any]] = (await api.anna.get(path, limit=200))["items"]
    return found


# -- one failed call -------------------------------------------------------------------------------


async def test_a_failed_call_is_retried_alone_and_its_siblings_are_not_called_again(
    api: Api, refusals: Refusals
) -> None:
    refusals.refuses = lambda request: request.model == SKEPTIC
    session = await run(api, models=[SKEPTIC, ARCHITECT], until="thesis")
    path = f"/sessions/{session}"
    assert (await api.anna.get(path))["status"] == "thesis_generation_failed"
    (failed,) = [one for one in await list_jobs(api, session) if one["status"] == "failed"]
    before = await list_written(api, session)
    price = await api.anna.get(f"{path}/jobs/{failed['id']}/retry", price=True)
    assert (price["calls"], price["is_play"]) == (1, True)
    assert 0 < Decimal(price["expected"]) <= Decimal(price["worst"])
    assert (await api.anna.get(path))["status"] == "thesis_generation_failed", "nothing was done"

    refusals.refuses = lambda _: False
    again = await api.anna.client.post(f"{path}/jobs/{failed['id']}/retry")
    assert (again.status_code, again.json()["status"]) == (202, "generating_thesis")
    await api.work(api.anna, session)
    assert (await api.anna.get(path))["status"] == "thesis_generation_complete"
    after = await list_written(api, session)
    assert len(after) == 2
    assert before[0] in after
    costs = (await api.anna.get(f"{path}/costs"))["items"]
    assert {one["model"]: one["calls"] for one in costs} == {SKEPTIC: 1, ARCHITECT: 1}


async def test_what_failed_elsewhere_stays_failed_until_it_is_retried_too(
    api: Api, refusals: Refusals
) -> None:
    refusals.refuses = lambda _: True
    session = await run(api, models=[SKEPTIC, ARCHITECT], until="antithesis")
    path = f"/sessions/{session}"
    failed = {
        one["model"]: one["id"]
        for one in await list_jobs(api, session)
        if one["status"] == "failed"
    }
    refusals.refuses = lambda _: False
    await api.anna.post(f"{path}/jobs/{failed[SKEPTIC]}/retry")
    await api.work(api.anna, session)
    assert [one["model"] for one in await list_written(api, session)] == [SKEPTIC]
    assert (await api.anna.get(path))["status"] == "thesis_generation_failed"
    await api.anna.post(f"{path}/jobs/{failed[ARCHITECT]}/retry")
    await api.work(api.anna, session)
    assert (await api.anna.get(path))["status"] == "antithesis_generation_complete"
    assert len(await list_written(api, session)) == 2 + 4


async def test_a_call_of_a_later_step_is_retried_with_what_was_cancelled_for_it(
    api: Api, refusals: Refusals
) -> None:
    refusals.refuses = lambda request: (
        request.model == SKEPTIC and "criti" in request.messages[0].content[:400].lower()
    )
    session = await run(api, models=[SKEPTIC, ARCHITECT], until="antithesis")
    path = f"/sessions/{session}"
    failed = [
        one
        for one in await list_jobs(api, session)
        if one["status"] == "failed" and one["stage"] == "antithesis"
    ]
    written = {one["id"] for one in await list_written(api, session)}
    refusals.refuses = lambda _: False
    job = next(one for one in failed if one["type"] == "execute")
    await api.anna.post(f"{path}/jobs/{job['id']}/retry")
    await api.work(api.anna, session)
    assert (await api.anna.get(path))["status"] == "antithesis_generation_complete"
    after = {one["id"] for one in await list_written(api, session)}
    assert len(after) == 6
    assert written < after


async def test_a_call_is_not_retried_after_its_stage_has_ended_without_it(
    api: Api, refusals: Refusals
) -> None:
    refusals.refuses = lambda request: request.model == SKEPTIC
    models = [ARCHITECT, PRAGMATIST, SKEPTIC]
    session = await run(api, models=models, until="thesis", is_autopilot=False)
    path = f"/sessions/{session}"
    assert (await api.anna.get(path))["status"] == "thesis_generation_complete"
    (failed,) = [one for one in await list_jobs(api, session) if one["status"] == "failed"]
    refused = await api.anna.client.post(f"{path}/jobs/{failed['id']}/retry")
    problem = check_problem(refused, 409, "conflict")
    assert (problem["reason"], problem["remedy"]["action"]) == ("stage_ended", "iterate")


async def test_what_has_not_failed_is_not_retried(api: Api) -> None:
    session = await run(api, models=[SKEPTIC], until="thesis")
    (job,) = await list_jobs(api, session)
    path = f"/sessions/{session}/jobs"
    for method in ("GET", "POST"):
        answer = await api.anna.client.request(method, f"{path}/{job['id']}/retry")
        assert check_problem(answer, 409, "conflict")["reason"] == "nothing_failed"
        missing = await api.anna.client.request(method, f"{path}/{uuid4()}/retry")
        assert check_problem(missing, 404, "not_found")["reason"] == "no_job"


async def test_a_call_that_its_step_needs_is_not_skipped(api: Api, refusals: Refusals) -> None:
    refusals.refuses = lambda request: request.model == SKEPTIC
    session = await run(api, models=[SKEPTIC, ARCHITECT], until="thesis")
    (failed,) = [one for one in await list_jobs(api, session) if one["status"] == "failed"]
    answer = await api.anna.client.post(f"/sessions/{session}/jobs/{failed['id']}/skip")
    problem = check_problem(answer, 409, "conflict")
    assert (problem["reason"], problem["remedy"]["action"]) == ("job_needed", "drop_seat")
    assert problem["remedy"]["seat"] == 1


async def test_a_call_is_skipped_where_enough_others_remain(api: Api, tmp_path: Path) -> None:
    shipped = Path(dialectic.__file__).parent / "processes" / "standard"
    place = shutil.copytree(shipped, tmp_path / "home" / "processes" / "quorate")
    file, step = place / "process.toml", 'prompt_template_name = "antithesis_critique"\n'
    text = file.read_text().replace('name = "standard"', 'name = "quorate"', 1)
    assert step in text
    file.write_text(text.replace(step, f'{step}on_child_failure = "quorum"\nquorum_min = 1\n'))
    session = await run(
        api,
        models=[SKEPTIC, ARCHITECT],
        process="quorate",
        until="antithesis",
        is_autopilot=False,
        budget="1",
    )
    path = f"/sessions/{session}"
    spent = (await api.anna.get(path))["play_spent"]
    await api.anna.client.patch(path, json={"budget": spent, "full_answers_only": True})
    await api.anna.post(f"{path}/submit", {})
    await api.work_until_paused(api.anna, session)
    waiting = [one for one in await list_jobs(api, session) if one["status"] == "paused"]
    own = [one["id"] for one in waiting if one["model"] == SKEPTIC]
    assert len(own) == 2
    for _ in range(2):
        skipped = await api.anna.client.post(f"{path}/jobs/{own[0]}/skip")
        assert skipped.is_success, skipped.text
    needed = await api.anna.client.post(f"{path}/jobs/{own[1]}/skip")
    assert check_problem(needed, 409, "conflict")["reason"] == "job_needed"
    await api.anna.post(f"{path}/resume", {"budget": "1"})
    await api.work(api.anna, session)
    assert (await api.anna.get(path))["status"] == "antithesis_generation_complete"
    written = [one for one in await list_written(api, session) if one["type"] == "antithesis"]
    assert len(written) == 3


async def test_the_calls_of_one_stage_are_resumed_and_those_of_unknown_ones_are_not(
    api: Api,
) -> None:
    made = await api.anna.post("/runs", {**ONE, "budget": "0.000001"})
    path = f"/sessions/{made['session']['id']}"
    await api.work_until_paused(api.anna, made["session"]["id"])
    unknown = await api.anna.client.post(f"{path}/resume", json={"stage": "nowhere"})
    assert check_problem(unknown, 404, "not_found")["reason"] == "no_stage"
    other = await api.anna.client.post(f"{path}/resume", json={"stage": "synthesis", "budget": "1"})
    assert other.status_code == 202
    (job,) = [one for one in await list_jobs(api, made["session"]["id"]) if one["seat"] == 1]
    assert job["status"] == "paused"
    await api.anna.post(f"{path}/resume", {"stage": "thesis", "approve_spend": True})
    await api.work(api.anna, made["session"]["id"])
    assert len(await list_written(api, made["session"]["id"])) == 1


# -- documents that are cut off --------------------------------------------------------------------


async def test_a_document_that_is_cut_off_goes_on_where_it_stopped(
    api: Api, provider: RefusingProvider
) -> None:
    session = await run(
        api,
        models=[SKEPTIC],
        until="thesis",
        max_output_tokens=300,
        continue_until_complete=False,
    )
    path = f"/sessions/{session}"
    (cut,) = await list_written(api, session)
    assert cut["is_incomplete"]
    text = (await api.anna.get(f"/contributions/{cut['id']}"))["content"]
    price = await api.anna.get(f"{path}/continue", price=True)
    assert price["calls"] == 1
    assert 0 < Decimal(price["expected"]) < Decimal(price["worst"])

    started = await api.anna.client.post(f"{path}/continue", json={"document_ids": [cut["id"]]})
    assert started.status_code == 202
    again = await api.anna.post(f"{path}/continue")
    assert again["job_ids"] == started.json()["job_ids"], "it is not written twice"
    await api.work(api.anna, session)
    (whole,) = await list_written(api, session)
    assert (whole["version"], whole["is_incomplete"]) == (2, False)
    content = (await api.anna.get(f"/contributions/{whole['id']}"))["content"]
    assert content.startswith(text.rstrip())
    assert len(content) > len(text)
    old = await api.anna.get(f"/contributions/{cut['id']}")
    assert old["content"] == text
    answer = await api.anna.client.post(f"{path}/continue")
    assert check_problem(answer, 409, "conflict")["reason"] == "not_cut_off"


async def test_a_document_that_is_whole_or_of_another_session_does_not_go_on(api: Api) -> None:
    session = await run(api, models=[SKEPTIC], until="thesis")
    other = await run(api, models=[SKEPTIC], until="thesis")
    (whole,), (foreign,) = await list_written(api, session), await list_written(api, other)
    path = f"/sessions/{session}/continue"
    answer = await api.anna.client.post(path, json={"document_ids": [whole["id"]]})
    assert check_problem(answer, 409, "conflict")["reason"] == "not_cut_off"
    answer = await api.anna.client.post(path, json={"document_ids": [foreign["id"]]})
    assert check_problem(answer, 404, "not_found")["reason"] == "no_contribution"


# -- stale documents, by choice --------------------------------------------------------------------


async def test_chosen_stale_documents_are_refreshed_with_what_is_made_from_them(api: Api) -> None:
    session = await run(api, models=[SKEPTIC, ARCHITECT], until="antithesis")
    path = f"/sessions/{session}"
    theses = [one for one in await list_written(api, session) if one["type"] == "thesis"]
    for thesis in theses:
        edited = await api.anna.client.put(
            f"/contributions/{thesis['id']}", json={"content": f"# Mine\n\n{thesis['id']}"}
        )
        assert edited.is_success
    stale = [one for one in await list_written(api, session) if one["is_stale"]]
    assert len(stale) == 4
    price = await api.anna.get(f"{path}/refresh", document_id=stale[0]["id"])
    assert price["calls"] == 1
    assert (await api.anna.get(f"{path}/refresh"))["calls"] == 4
    made = await api.anna.post(f"{path}/refresh", {"document_ids": [stale[0]["id"]]})
    assert len(made["job_ids"]) == 1
    await api.work(api.anna, session)
    left = [one for one in await list_written(api, session) if one["is_stale"]]
    assert {one["id"] for one in left} == {one["id"] for one in stale[1:]}
    fresh = await api.anna.client.post(f"{path}/refresh", json={"document_ids": [stale[0]["id"]]})
    assert check_problem(fresh, 409, "conflict")["reason"] == "not_stale"


# -- prices of other actions -----------------------------------------------------------------------


async def test_each_action_tells_its_price_and_does_nothing(api: Api) -> None:
    models = [SKEPTIC, ARCHITECT]
    session = await run(api, models=models, until="thesis", is_autopilot=False)
    path = f"/sessions/{session}"
    before = await api.anna.get(path)
    (thesis, _) = await list_written(api, session)
    expected = {
        f"{path}/submit": 4,
        f"{path}/iterate": 2,
        f"{path}/retry": 0,
        f"{path}/refresh": 0,
        f"/contributions/{thesis['id']}/regenerate": 1,
    }
    for place, calls in expected.items():
        assert (await api.anna.get(place, price=True))["calls"] == calls, place
    assert await api.anna.get(path) == before
    assert len(await list_jobs(api, session)) == 2


# -- money -----------------------------------------------------------------------------------------


async def open_owner(api: Api) -> ApiUser:
    account = await accounts.load_owner(api.engine.db)
    caller = accounts.build_owner(account)
    issued = await accounts.issue_token(api.engine.db, caller, name="owner", scopes=None)
    token = issued.secret.reveal()
    return ApiUser(account, token, open_client(api.app, {"Authorization": f"Bearer {token}"}))


async def test_the_owner_adds_money_and_sets_a_limit(api: Api) -> None:
    owner = await open_owner(api)
    key = {"Idempotency-Key": "one"}
    before = Decimal((await owner.get("/wallet"))["money"]["balance"])
    answers = [
        await owner.client.post("/wallet/topups", json={"amount": 2.5}, headers=key)
        for _ in range(2)
    ]
    assert [answer.status_code for answer in answers] == [201, 201]
    assert Decimal(answers[-1].json()["money"]["balance"]) == before + Decimal("2.5")
    counted = await owner.client.patch("/wallet", json={"is_count_only": True})
    assert counted.json()["is_count_only"]
    limited = (await owner.client.patch("/wallet", json={"limit": "7"})).json()
    assert (limited["is_count_only"], limited["money"]["available"]) == (False, "7")
    odd = await owner.client.patch("/wallet", json={"limit": "7", "is_count_only": True})
    check_problem(odd, 422, "validation_failed")


async def test_others_add_play_money_only_and_need_the_scope(api: Api) -> None:
    refused = await api.anna.client.post("/wallet/topups", json={"amount": "5"})
    assert check_problem(refused, 403, "forbidden")["reason"] == "not_the_owner"
    refused = await api.anna.client.patch("/wallet", json={"is_count_only": True})
    assert check_problem(refused, 403, "forbidden")["reason"] == "not_the_owner"
    played = await api.anna.post("/wallet/topups", {"amount": "5", "is_play": True})
    assert Decimal(played["play_money"]["balance"]) > 5
    spender = await api.let_in(scopes={Scope.READ, Scope.WRITE, Scope.SPEND})
    for method, path in (("POST", "/wallet/topups"), ("PATCH", "/wallet")):
        body = {"amount": "5", "is_play": True} if method == "POST" else {}
        refused = await spender.client.request(method, path, json=body)
        assert check_problem(refused, 403, "forbidden")["remedy"]["scope"] == "admin"
