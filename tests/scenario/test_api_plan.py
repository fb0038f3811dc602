"""A person works on the files of the plan through the API, which also works with a bucket."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from dialectic.db.pool import Address
from tests.problems import check_problem
from tests.scenario.api_in_process import Api, open_api


@pytest.fixture
async def api(address: Address, tmp_path: Path) -> AsyncIterator[Api]:
    async with open_api(address, tmp_path / "home") as opened:
        yield opened


class PlanClient:
    """One project's plan, as a page would use it."""

    def __init__(self, api: Api, project: dict[str, Any]) -> None:
        self.client = api.anna.client
        self.path = f"/projects/{project['id']}"
        self.slug = project["slug"]

    async def put(self, file: str, content: str, **headers: str) -> httpx2.Response:
        query = {"path": f"{self.slug}/{file}"}
        body = {"content": content}
        url = f"{self.path}/plan/file"
        return await self.client.put(url, params=query, json=body, headers=headers)

    async def tick(self, file: str, steps: dict[str, bool], **headers: str) -> httpx2.Response:
        query = {"path": f"{self.slug}/{file}"}
        url = f"{self.path}/plan/file"
        return await self.client.patch(url, params=query, json={"steps": steps}, headers=headers)

    async def move(self, file: str, status: str, **headers: str) -> httpx2.Response:
        query = {"path": f"{self.slug}/{file}"}
        body = {"status": status}
        url = f"{self.path}/plan/move"
        return await self.client.post(url, params=query, json=body, headers=headers)

    async def delete(self, file: str, **headers: str) -> httpx2.Response:
        query = {"path": f"{self.slug}/{file}"}
        return await self.client.delete(f"{self.path}/plan/file", params=query, headers=headers)

    async def list(self) -> dict[str, dict[str, Any]]:
        answer = await self.client.get(f"{self.path}/plan")
        assert answer.status_code == 200, answer.text
        return {f"{file['status']}/{file['name']}": file for file in answer.json()["items"]}

    async def read(self, file: str) -> httpx2.Response:
        return await self.client.get(f"{self.path}/file", params={"path": f"{self.slug}/{file}"})


@pytest.fixture
async def plan(api: Api) -> PlanClient:
    plan = PlanClient(api, await api.anna.make_project())
    added = await plan.put("Pending/01 mine.md", "- [ ] Dig.\n")
    assert added.status_code == 200, added.text
    return plan


async def test_a_file_is_added_read_and_listed(plan: PlanClient) -> None:
    (file,) = (await plan.list()).values()
    assert file["path"] == f"{plan.slug}/Pending/01 mine.md"
    assert (file["state"], file["replaces"], file["size_bytes"]) == ("own", None, 11)
    read = await plan.read("Pending/01 mine.md")
    assert (read.content, read.headers["ETag"]) == (b"- [ ] Dig.\n", file["etag"])


async def test_a_file_is_replaced_only_as_it_was_seen(plan: PlanClient) -> None:
    seen = (await plan.list())["Pending/01 mine.md"]["etag"]
    headers = {"If-Match": seen}
    changed = await plan.put("Pending/01 mine.md", "- [x] Dig.\n", **headers)
    assert changed.status_code == 200
    assert changed.json()["etag"] != seen
    late = await plan.put("Pending/01 mine.md", "Something else.", **headers)
    check_problem(late, 412, "precondition_failed")
    assert (await plan.read("Pending/01 mine.md")).content == b"- [x] Dig.\n"


async def test_an_edit_of_a_file_that_was_moved_or_deleted_meanwhile_makes_no_second_one(
    plan: PlanClient,
) -> None:
    seen = (await plan.list())["Pending/01 mine.md"]["etag"]
    assert (await plan.move("Pending/01 mine.md", "Current")).status_code == 200
    for known in (seen, "*"):
        late = await plan.put("Pending/01 mine.md", "- [x] Dig.\n", **{"If-Match": known})
        check_problem(late, 412, "precondition_failed")
    assert list(await plan.list()) == ["Current/01 mine.md"]
    assert (await plan.delete("Current/01 mine.md")).status_code == 204
    late = await plan.put("Current/01 mine.md", "- [x] Dig.\n", **{"If-Match": seen})
    check_problem(late, 412, "precondition_failed")
    assert await plan.list() == {}


async def test_a_file_moves_once_however_often_it_is_asked(plan: PlanClient) -> None:
    seen = (await plan.list())["Pending/01 mine.md"]["etag"]
    stale = await plan.move("Pending/01 mine.md", "Current", **{"If-Match": '"other"'})
    check_problem(stale, 412, "precondition_failed")
    for _ in range(2):
        moved = await plan.move("Pending/01 mine.md", "Current", **{"If-Match": seen})
        assert moved.status_code == 200, moved.text
        assert moved.json()["status"] == "Current"
    assert list(await plan.list()) == ["Current/01 mine.md"]
    assert (await plan.read("Pending/01 mine.md")).status_code == 404


async def test_a_move_never_overwrites_another_file(plan: PlanClient) -> None:
    await plan.put("Complete/01 mine.md", "Another one.")
    refused = await plan.move("Pending/01 mine.md", "Complete")
    check_problem(refused, 409, "conflict")
    assert refused.json()["reason"] == "other_file"
    assert (await plan.read("Complete/01 mine.md")).content == b"Another one."
    assert (await plan.read("Pending/01 mine.md")).content == b"- [ ] Dig.\n"
    await plan.put("Complete/01 mine.md", "- [ ] Dig.\n")
    assert (await plan.move("Pending/01 mine.md", "Complete")).status_code == 200


async def test_a_file_is_deleted_only_as_it_was_seen(plan: PlanClient) -> None:
    seen = (await plan.list())["Pending/01 mine.md"]["etag"]
    stale = await plan.delete("Pending/01 mine.md", **{"If-Match": '"other"'})
    check_problem(stale, 412, "precondition_failed")
    assert list(await plan.list()) == ["Pending/01 mine.md"]
    deleted = await plan.delete("Pending/01 mine.md", **{"If-Match": seen})
    assert deleted.status_code == 204, deleted.text
    assert await plan.list() == {}
    assert "01 mine.md" not in (await plan.read("project_readme.md")).text
    again = await plan.delete("Pending/01 mine.md")
    check_problem(again, 404, "not_found")
    assert again.json()["reason"] == "no_file"


@pytest.mark.parametrize(
    "file",
    [
        "project_readme.md",
        "Pending/../project_readme.md",
        "Pending/",
        "Pending//x.md",
        "pending/x.md",
        "../other/Pending/x.md",
        "Pending/a\\b.md",
    ],
)
async def test_only_files_in_the_work_folders_can_be_written(plan: PlanClient, file: str) -> None:
    refused = await plan.put(file, "mine")
    assert refused.status_code == 400, refused.text
    assert refused.json()["reason"] == "not_a_plan_file"
    assert (await plan.move(file, "Current")).status_code == 400
    assert (await plan.delete(file)).status_code == 400


async def test_a_file_that_does_not_exist_cannot_be_moved(plan: PlanClient) -> None:
    check_problem(await plan.move("Pending/99.md", "Current"), 404, "not_found")


async def test_the_readme_follows_what_a_person_does(plan: PlanClient) -> None:
    await plan.move("Pending/01 mine.md", "Complete")
    readme = (await plan.read("project_readme.md")).text
    assert "### Complete\n\n- [01 mine.md](Complete/01%20mine.md)" in readme


async def test_the_plan_of_another_user_is_not_visible(api: Api, plan: PlanClient) -> None:
    theirs = await api.ben.client.get(f"{plan.path}/plan")
    check_problem(theirs, 404, "not_found")
    query = {"path": f"{plan.slug}/Pending/01 mine.md"}
    url = f"{plan.path}/plan/file"
    put = await api.ben.client.put(url, params=query, json={"content": "x"})
    check_problem(put, 404, "not_found")
    deleted = await api.ben.client.delete(url, params=query)
    check_problem(deleted, 404, "not_found")
    assert (await plan.read("Pending/01 mine.md")).status_code == 200


async def test_a_deleted_project_takes_the_persons_files_along(
    api: Api, plan: PlanClient, tmp_path: Path
) -> None:
    assert (await api.anna.client.delete(plan.path)).status_code == 204
    assert not list((tmp_path / "home").rglob("*mine.md"))


async def test_a_ticked_step_is_ticked_in_the_file_and_nothing_else_changes(
    plan: PlanClient,
) -> None:
    text = "# Rooms\r\n\r\n- [ ] 1. Ask.\r\n  - [ ] part of it\r\n- [x] 2. Count.\r\n"
    await plan.put("Pending/rooms.md", text)

    ticked = await plan.tick("Pending/rooms.md", {"1": True, "2": False})

    assert ticked.status_code == 200, ticked.text
    assert ticked.json()["title"] == "Rooms"
    assert ticked.json()["steps"] == [
        {"number": 1, "text": "Ask.", "is_done": True},
        {"number": 2, "text": "Count.", "is_done": False},
    ]
    found = (await plan.read("Pending/rooms.md")).content.decode()
    assert found == text.replace("[ ] 1", "[x] 1").replace("[x] 2", "[ ] 2")


async def test_a_tick_on_a_file_that_has_changed_or_lacks_the_step_changes_nothing(
    plan: PlanClient,
) -> None:
    before = (await plan.list())["Pending/01 mine.md"]
    seen = before["etag"]
    missing = await plan.tick("Pending/01 mine.md", {"1": True, "7": True})
    check_problem(missing, 404, "not_found")
    assert missing.json()["reason"] == "no_step"
    assert (await plan.list())["Pending/01 mine.md"] == before
    await plan.put("Pending/01 mine.md", "- [ ] Dig deeper.\n")
    late = await plan.tick("Pending/01 mine.md", {"1": True}, **{"If-Match": seen})
    check_problem(late, 412, "precondition_failed")
    nowhere = await plan.tick("Pending/none.md", {"1": True})
    check_problem(nowhere, 404, "not_found")
    own = await plan.tick("other.md", {"1": True})
    assert own.status_code in (400, 422)
