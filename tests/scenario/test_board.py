"""The board of a session: one answer that agrees with every list, in every state of a session."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from dialectic.core.models.messages import Request
from dialectic.db.pool import Address
from dialectic.postgres import embedded
from tests.database.job_table import database_of_a_module
from tests.problems import check_problem
from tests.scenario.api_in_process import Api, ApiUser, open_api
from tests.scenario.whole_session import build_refusing_catalog

THREE = ["offline/architect", "offline/pragmatist", "offline/skeptic"]
# What the page of a session with this many calls may load, compressed.
BYTES_MAX = {57: 12 * 1024, 312: 45 * 1024}


@pytest.fixture(scope="module")
def address(server: embedded.Server, template: str) -> Iterator[Address]:
    with database_of_a_module(server, template) as found:
        yield found


@pytest.fixture
async def api(address: Address, tmp_path: Path) -> AsyncIterator[Api]:
    async with open_api(address, tmp_path) as opened:
        yield opened


async def play(api: Api, **wishes: Any) -> str:
    session = await api.anna.make_session(**wishes)
    await api.anna.post(f"/sessions/{session['id']}/generate")
    await api.work(api.anna, session["id"])
    return str(session["id"])


async def read_board(user: ApiUser, session: str, **query: Any) -> dict[str, Any]:
    return await user.get(f"/sessions/{session}/board", **query)


async def list_all(user: ApiUser, path: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    page = await user.get(path, limit=200)
    items += page["items"]
    while page["next_cursor"]:
        page = await user.get(path, limit=200, cursor=page["next_cursor"])
        items += page["items"]
    return items


def add_dollars(amounts: list[str]) -> Decimal:
    return sum(map(Decimal, amounts), start=Decimal(0))


async def check_against_lists(user: ApiUser, session: str) -> dict[str, Any]:
    """A board says what the lists, the overview and the ledger say."""
    board = await read_board(user, session, plans=True, drafts=True)
    shown = await user.get(f"/sessions/{session}")
    jobs = {job["id"]: job for job in await list_all(user, f"/sessions/{session}/jobs")}
    written = {c["id"]: c for c in await list_all(user, f"/sessions/{session}/contributions")}
    costs = await list_all(user, f"/sessions/{session}/costs")

    assert {job["id"] for job in board["jobs"]} == jobs.keys()
    for job in board["jobs"]:
        listed = jobs[job["id"]]
        for name in ("stage", "seat", "status", "iteration", "retries"):
            assert job[name] == listed[name]
        assert job["document_id"] == listed["contribution_id"]
        assert job["about_id"] == listed["target_id"]
        assert [each["code"] for each in job["errors"]] == [e["code"] for e in listed["errors"]]
    assert {document["id"] for document in board["documents"]} == written.keys()
    for document in board["documents"]:
        listed = written[document["id"]]
        for name in ("job_id", "seat", "model", "stage", "type", "version", "is_stale", "flags"):
            assert document[name] == listed[name]
        for name in ("is_incomplete", "about_id", "source_ids", "input_tokens", "output_tokens"):
            assert document[name] == listed[name]
    begun = {stage["stage"]: stage for stage in shown["stages"]}
    for stage in board["stages"]:
        if stage["slug"] in begun:
            for name in ("status", "planned", "finished", "started_at", "completed_at"):
                assert stage[name] == begun[stage["slug"]][name]
    money = board["money"]
    assert money["is_play"]
    assert money["spent"] == shown["play_spent"]
    assert add_dollars([each["spent"] for each in money["by_stage"]]) == Decimal(money["spent"])
    assert add_dollars([each["spent"] for each in money["by_seat"]]) == Decimal(money["spent"])
    assert add_dollars([job["charged"] for job in board["jobs"]]) == Decimal(money["spent"])
    charged = Counter[int | None]()
    for cost in costs:
        charged[cost["seat"]] += int(Decimal(cost["charged"]) * 1_000_000)
    assert {each["seat"]: int(Decimal(each["spent"]) * 1_000_000) for each in money["by_seat"]} == {
        each["seat"]: charged[each["seat"]] for each in money["by_seat"]
    }
    return board


@pytest.mark.parametrize("calls", [57, 312])
async def test_the_board_of_a_whole_run_agrees_with_all_lists_and_is_small(
    api: Api, calls: int
) -> None:
    models = THREE if calls == 57 else THREE * 2
    session = await play(api, models=models, until="paralysis")
    board = await check_against_lists(api.anna, session)
    assert board["session"]["status"] == "iteration_complete"
    assert board["session"]["allowed"] == [
        "iterate",
        "change_budget",
        "change_models",
        "replace_seat",
    ]
    assert board["needs"] == []
    assert [stage["status"] for stage in board["stages"]] == ["complete"] * 5
    assert sum(stage["planned"] for stage in board["stages"]) == calls
    assert [step["finished"] for stage in board["stages"] for step in stage["steps"]] == [
        step["planned"] for stage in board["stages"] for step in stage["steps"]
    ]
    assert board["money"]["forecast"] == board["money"]["spent"]
    assert board["plan"]
    assert all(item["title"] and item["steps"] for item in board["plan"])

    page = await api.anna.client.get(f"/sessions/{session}/board")
    small = page.json()
    assert len(small["jobs"]) == calls
    assert not any(document["is_intermediate"] for document in small["documents"])
    assert len(gzip.compress(page.content)) <= BYTES_MAX[calls]


async def test_a_critique_names_its_seat_its_subject_its_sources_and_their_labels(
    api: Api,
) -> None:
    session = await play(api, models=["offline/skeptic*2", "offline/architect"], until="antithesis")
    board = await read_board(api.anna, session)
    seats = {seat["index"]: seat["model"] for seat in board["session"]["seats"]}
    assert seats == {1: "offline/skeptic", 2: "offline/skeptic", 3: "offline/architect"}
    theses = {one["id"]: one for one in board["documents"] if one["type"] == "thesis"}
    critiques = [one for one in board["documents"] if one["type"] == "antithesis"]
    # Two seats of one model are told apart.
    assert {(one["seat"], theses[one["about_id"]]["seat"]) for one in critiques} == {
        (critic, author) for critic in (1, 2, 3) for author in (1, 2, 3)
    }
    jobs = {job["id"]: job for job in board["jobs"]}
    for one in critiques:
        job = jobs[one["job_id"]]
        assert (job["step"], job["seat"], job["about_id"]) == (
            "critique",
            one["seat"],
            one["about_id"],
        )
        assert job["reads"] == one["source_ids"]
        assert list(one["labels"].values()) == [one["about_id"]]
        assert one["title"]
        assert one["excerpt"]
        assert one["words"] > 100
        assert one["duration_ms"] is not None
        assert {part["key"] for part in one["parts"]} >= {"critique", "risks"}
    assert len({one["title"] for one in theses.values()} - {"Summary"}) > 1


async def test_a_session_that_has_not_begun_lists_all_stages_with_planned_counts(api: Api) -> None:
    session = await api.anna.make_session(models=THREE, until="paralysis", budget="2")
    board = await read_board(api.anna, session["id"])
    assert [stage["status"] for stage in board["stages"]] == ["not_begun"] * 5
    assert [stage["planned"] for stage in board["stages"]] == [3, 9, 39, 3, 3]
    (_, _, synthesis, _, _) = board["stages"]
    assert [(s["key"], s["planned"], s["is_intermediate"]) for s in synthesis["steps"]] == [
        ("pairwise", 27, True),
        ("per_thesis", 9, True),
        ("final", 3, False),
    ]
    assert board["jobs"] == board["documents"] == board["needs"] == []
    assert "start" in board["session"]["allowed"]
    assert board["money"]["budget"] == "2"
    assert Decimal(board["money"]["forecast"]) > 0
    assert Decimal(board["money"]["worst"]) > Decimal(board["money"]["forecast"])


async def test_a_stage_that_waits_for_a_person_is_a_need_with_the_price_of_the_next(
    api: Api,
) -> None:
    wish = {"models": THREE, "until": "paralysis", "is_autopilot": False}
    session = await play(api, **wish)
    board = await check_against_lists(api.anna, session)
    assert [stage["status"] for stage in board["stages"]][:2] == ["complete", "not_begun"]
    assert board["stages"][0]["waits_for_person_after"]
    (need,) = board["needs"]
    assert (need["code"], need["stage"]) == ("feedback", "thesis")
    assert need["since"] == board["stages"][0]["completed_at"]
    (action,) = need["actions"]
    assert action["do"] == "start_next"
    assert Decimal(action["price"]) > 0
    assert {"submit", "iterate"} <= set(board["session"]["allowed"])
    assert board["session"]["blocked_by"] is None


async def test_a_session_without_money_says_what_is_missing_and_the_budget_that_is_enough(
    api: Api,
) -> None:
    session = await api.anna.make_session(models=THREE, until="antithesis", budget="0.0001")
    await api.anna.post(f"/sessions/{session['id']}/generate")
    await api.work(api.anna, session["id"])
    board = await check_against_lists(api.anna, session["id"])
    assert board["session"]["status"] == "generating_thesis"
    assert board["session"]["blocked_by"] == "budget"
    (need,) = board["needs"]
    assert need["code"] == "budget"
    stuck = [job for job in board["jobs"] if job["status"] == "paused"]
    assert {job["id"] for job in stuck} == set(need["jobs"])
    assert {job["phase"] for job in stuck} == {"waiting_for_money"}
    assert {job["reason"]["code"] for job in stuck} == {"insufficient_funds"}
    figures = need["figures"]
    assert (figures["of"], figures["limit"]) == ("budget", "0.0001")
    assert Decimal(figures["needed"]) > Decimal(figures["left"])
    (action,) = need["actions"]
    assert action["do"] == "raise_budget"
    assert Decimal(action["amount"]) >= Decimal(board["money"]["forecast"])

    await api.anna.post(f"/sessions/{session['id']}/resume", {"budget": action["amount"]})
    await api.work(api.anna, session["id"])
    board = await read_board(api.anna, session["id"])
    assert (board["needs"], board["session"]["blocked_by"]) == ([], None)


async def test_a_paused_session_can_be_resumed_and_needs_nothing(api: Api) -> None:
    session = await api.anna.make_session(models=THREE, until="antithesis")
    await api.anna.post(f"/sessions/{session['id']}/generate")
    await api.anna.post(f"/sessions/{session['id']}/pause")
    board = await check_against_lists(api.anna, session["id"])
    assert board["session"]["status"] == "paused"
    assert board["needs"] == []
    assert {"resume", "cancel"} <= set(board["session"]["allowed"])
    assert "pause" not in board["session"]["allowed"]
    await api.anna.post(f"/sessions/{session['id']}/cancel")
    board = await read_board(api.anna, session["id"])
    assert (board["session"]["status"], board["session"]["allowed"]) == ("cancelled", [])
    assert board["money"]["forecast"] is None


async def test_a_failed_session_names_its_failures_and_keeps_what_is_written(
    address: Address, tmp_path: Path
) -> None:
    def refuses(request: Request) -> bool:
        return "skeptic" in request.model and "criticise" in str(request.messages[-1]).lower()

    catalog, _ = build_refusing_catalog(refuses)
    async with open_api(address, tmp_path, catalog) as api:
        session = await play(api, models=THREE[1:], until="antithesis", wait_for_all=True)
        board = await check_against_lists(api.anna, session)
        assert board["session"]["status"] == "antithesis_generation_failed"
        (need,) = board["needs"]
        assert need["code"] == "failure"
        assert {step["do"] for step in need["actions"]} == {"retry", "replace_seat"}
        failed = [
            job for job in board["jobs"] if job["status"] == "failed" and job["kind"] == "call"
        ]
        assert {job["id"] for job in failed} == set(need["jobs"])
        assert {job["reason"]["code"] for job in failed} == {"provider_auth"}
        assert board["stages"][1]["failed"] == len(failed)
        assert {one["stage"] for one in board["documents"]} >= {"thesis"}
        assert "retry" in board["session"]["allowed"]


async def test_an_unchanged_board_is_not_sent_again(api: Api) -> None:
    session = await play(api)
    first = await api.anna.client.get(f"/sessions/{session}/board")
    await play(api)  # another session moves the position in the stream
    again = {"If-None-Match": first.headers["etag"]}
    same = await api.anna.client.get(f"/sessions/{session}/board", headers=again)
    assert (same.status_code, same.content) == (304, b"")
    (document,) = first.json()["documents"]
    await api.anna.post(f"/contributions/{document['id']}/rating", {"rating": 4})
    other = await api.anna.client.get(f"/sessions/{session}/board", headers=again)
    assert other.status_code == 200
    (document,) = other.json()["documents"]
    assert (document["my_rating"], document["ratings"]) == (4, {"count": 1, "mean": 4.0})
    (said,) = other.json()["feedback"]
    assert (said["kind"], said["rating"], said["document_id"]) == ("rating", 4, document["id"])


async def test_an_edit_is_the_newest_version_and_makes_its_readers_stale(api: Api) -> None:
    session = await play(api, models=THREE[:2], until="antithesis")
    board = await read_board(api.anna, session)
    thesis = next(one for one in board["documents"] if one["type"] == "thesis")
    text = "# A stall on the green\n\nSell it there. Then go home."
    answer = await api.anna.client.put(f"/contributions/{thesis['id']}", json={"content": text})
    assert answer.is_success
    board = await check_against_lists(api.anna, session)
    mine = next(one for one in board["documents"] if one["original_id"] == thesis["id"])
    assert (mine["version"], mine["versions"]) == (2, 2)
    assert mine["by"]["user_id"] == str(api.anna.account.user_id)
    assert (mine["title"], mine["excerpt"]) == (
        "A stall on the green",
        "Sell it there. Then go home.",
    )
    stale = [one for one in board["documents"] if one["is_stale"]]
    assert {one["about_id"] for one in stale} == {thesis["id"]}
    (need,) = board["needs"]
    assert (need["code"], need["figures"]["count"]) == ("stale", len(stale))


async def test_wrong_requests_for_a_board_are_refused_with_a_reason(api: Api) -> None:
    session = await play(api)
    answer = await api.anna.client.get(f"/sessions/{session}/board", params={"iteration": 2})
    assert check_problem(answer, 404, "not_found")["reason"] == "no_iteration"
    for wrong in ("0", "-1", "x", "99999999999"):
        answer = await api.anna.client.get(
            f"/sessions/{session}/board", params={"iteration": wrong}
        )
        check_problem(answer, 422, "validation_failed")
    answer = await api.anna.client.get(f"/sessions/{uuid4()}/board")
    assert check_problem(answer, 404, "not_found")["reason"] == "no_session"
    answer = await api.ben.client.get(f"/sessions/{session}/board")
    check_problem(answer, 404, "not_found")
