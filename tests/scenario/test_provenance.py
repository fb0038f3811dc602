"""Where passages come from, and what became of points, over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from dialectic.app import provenance
from dialectic.app.transaction import Tenant
from dialectic.contract.claims import ClaimsState
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


async def write(api: Api, until: str = "paralysis") -> str:
    session = await api.anna.make_session(models=MODELS, until=until)
    await api.anna.client.post(f"/sessions/{session['id']}/generate")
    await api.work(api.anna, session["id"])
    return str(session["id"])


async def list_written(api: Api, session: str) -> list[dict[str, Any]]:
    found = await api.anna.get(f"/sessions/{session}/contributions", limit=200)
    return list(found["items"])


async def test_every_passage_is_shown_with_exact_offsets_and_what_says_the_same(api: Api) -> None:
    session = await write(api)
    written = await list_written(api, session)
    texts = {
        one["id"]: (await api.anna.get(f"/contributions/{one['id']}"))["content"] for one in written
    }
    for document in written:
        found = await api.anna.get(f"/contributions/{document['id']}/provenance")
        content = texts[document["id"]]
        assert (found["version_id"], found["versions"]) == (document["id"], "known")
        assert found["method"] == "points/2"
        for passage in found["passages"]:
            assert content[passage["start"] : passage["end"]].strip()
            for source in passage["sources"]:
                if source["version_id"] in texts:
                    whole = texts[source["version_id"]]
                    assert whole[source["start"] : source["end"]].strip() == source["text"]
                assert 0 <= source["score"] <= 1
    last = next(one for one in written if one["type"] == "paralysis")
    found = await api.anna.get(f"/contributions/{last['id']}/provenance")
    kinds = {source["type"] for one in found["passages"] for source in one["sources"]}
    assert "thesis" in kinds
    direct = await api.anna.get(f"/contributions/{last['id']}/provenance", depth="direct")
    read = {source["type"] for one in direct["passages"] for source in one["sources"]}
    assert read <= {"parenthesis", ""}


async def test_statuses_add_up_and_a_second_answer_is_the_same(api: Api) -> None:
    session = await write(api)
    path = f"/sessions/{session}/coverage"
    found = await api.anna.get(path)
    for thesis in found["theses"]:
        parts = ("kept", "changed", "refused", "dropped", "pending")
        assert sum(thesis[part] for part in parts) == thesis["points"]
    assert len(found["theses"]) == len(MODELS)
    named = [(one["point"]["version_id"], one["point"]["start"]) for one in found["points"]]
    assert len(set(named)) == len(named)
    assert found["of"]["type"] == "paralysis"
    assert await api.anna.get(path) == found
    lost = await api.anna.get(path, status="dropped")
    assert {one["status"] for one in lost["points"]} <= {"dropped"}
    answer = await api.anna.client.get(path)
    again = await api.anna.client.get(path, headers={"If-None-Match": answer.headers["ETag"]})
    assert again.status_code == 304


async def test_a_stage_that_merges_nothing_leaves_everything_pending(api: Api) -> None:
    session = await write(api, "antithesis")
    found = await api.anna.get(f"/sessions/{session}/coverage")
    assert found["of"] is None
    assert {one["status"] for one in found["points"]} == {"pending"}


async def test_what_a_person_added_is_theirs(api: Api) -> None:
    session = await write(api)
    last = next(one for one in await list_written(api, session) if one["type"] == "paralysis")
    content = (await api.anna.get(f"/contributions/{last['id']}"))["content"]
    mine = "The mayor brings seventeen green umbrellas for the opening ceremony."
    answer = await api.anna.client.put(
        f"/contributions/{last['id']}", json={"content": f"{content}\n\n{mine}\n"}
    )
    edited = answer.json()["id"]
    found = await api.anna.get(f"/contributions/{edited}/provenance", depth="direct")
    added = found["passages"][-1]
    assert (added["relation"], added["new_by"]) == ("new", "person")
    assert {one["relation"] for one in found["passages"][:-1]} == {"verbatim"}


async def test_what_is_not_there_or_not_theirs_is_refused(api: Api) -> None:
    session, other = await write(api, "thesis"), await write(api, "thesis")
    (first, *_) = await list_written(api, session)
    (stranger, *_) = await list_written(api, other)
    path = f"/sessions/{session}/coverage"
    for refused in (
        await api.anna.client.get(f"{path}?of={stranger['id']}"),
        await api.anna.client.get(f"{path}?iteration=2"),
    ):
        check_problem(refused, 422, "invalid_value")
    for missing in (
        await api.anna.client.get(f"/contributions/{uuid4()}/provenance"),
        await api.anna.client.get(f"{path}?of={uuid4()}"),
        await api.ben.client.get(f"/contributions/{first['id']}/provenance"),
        await api.ben.client.get(path),
    ):
        check_problem(missing, 404, "not_found")


async def test_claims_name_their_critics_their_blocks_and_their_fates(api: Api) -> None:
    session = await write(api)
    path = f"/sessions/{session}/claims"
    found = await api.anna.get(path)
    assert (found["state"], found["method"]) == ("ready", "points/2")
    written = {one["id"]: one for one in await list_written(api, session)}
    assert {written[one["document_id"]]["type"] for one in found["claims"]} == {"thesis"}
    assert len({one["id"] for one in found["claims"]}) == len(found["claims"])
    critics = [critic for one in found["claims"] for critic in one["critics"]]
    assert {written[one["document_id"]]["type"] for one in critics} == {"antithesis"}
    assert "change" in {one["verdict"] for one in critics}
    for claim in found["claims"]:
        stages = [fate["stage"] for fate in claim["fates"]]
        assert stages == ["synthesis", "parenthesis", "paralysis"]
        page = await api.anna.get(f"/contributions/{claim['document_id']}/html")
        assert f'id="{claim["block_id"]}"' in page["html"]
    for seat in found["coverage"]:
        ends = ("kept", "changed", "refused", "dropped", "pending")
        assert sum(seat[end] for end in ends) == seat["made"] > 0
    answer = await api.anna.client.get(path)
    again = await api.anna.client.get(path, headers={"If-None-Match": answer.headers["ETag"]})
    assert again.status_code == 304
    check_problem(await api.ben.client.get(path), 404, "not_found")
    check_problem(await api.anna.client.get(f"{path}?iteration=9"), 422, "invalid_value")


async def test_a_session_without_theses_has_no_claims(api: Api) -> None:
    session = await api.anna.make_session(models=MODELS)
    found = await api.anna.get(f"/sessions/{session['id']}/claims")
    assert (found["state"], found["claims"]) == ("none", [])


async def test_what_takes_long_goes_on_and_is_found_later(api: Api) -> None:
    session = UUID(await write(api, "thesis"))
    tenant = Tenant(api.engine, api.anna.account)
    found = await provenance.list_claims(tenant, session, wait_s=0)
    assert found.state is ClaimsState.COMPUTING
    found = await provenance.list_claims(tenant, session, wait_s=60)
    assert found.state is ClaimsState.READY
    assert found.claims
