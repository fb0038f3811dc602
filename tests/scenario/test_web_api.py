"""What the pages ask for: lists in few requests, what waits, the account; and the pages."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator, Iterator
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any

import pytest

from dialectic.core.access import Scope
from dialectic.db.pool import Address
from dialectic.postgres import embedded
from dialectic.web import pages
from tests.database.job_table import database_of_a_module
from tests.problems import check_problem
from tests.scenario.api_in_process import Api, ApiUser, open_api

SITE = "http://house.test"


@pytest.fixture(scope="module")
def shared(server: embedded.Server, template: str) -> Iterator[Address]:
    with database_of_a_module(server, template) as made:
        yield made


@pytest.fixture
async def api(shared: Address, tmp_path: Path) -> AsyncIterator[Api]:
    async with open_api(shared, tmp_path / "home") as opened:
        yield opened


async def run_thesis(api: Api, user: ApiUser, **wishes: Any) -> dict[str, Any]:
    session = await user.make_session(**wishes)
    await user.post(f"/sessions/{session['id']}/generate")
    await api.work(user, session["id"])
    return session


def name_all(page: dict[str, Any]) -> list[str]:
    return [one["name"] for one in page["items"]]


# -- lists -----------------------------------------------------------------------------------------


async def test_a_line_of_the_list_has_all_that_a_row_shows(api: Api) -> None:
    user = await api.let_in()
    session = await run_thesis(api, user, models=["offline/architect", "offline/skeptic"])

    (line,) = (await user.get("/projects", sort="activity"))["items"]

    assert line["prompt_excerpt"].startswith("A booking service for a village hall")
    assert (line["sessions"], line["spent"]) == (1, "0")
    assert float(line["play_spent"]) > 0
    last = line["last_session"]
    assert last["id"] == session["id"]
    assert [(one["index"], one["label"]) for one in last["seats"]] == [
        (1, "architect"),
        (2, "skeptic"),
    ]
    assert [one["is_lead"] for one in last["seats"]] == [True, False]
    stages = last["stages"]
    assert [one["slug"] for one in stages][:2] == ["thesis", "antithesis"]
    assert (stages[0]["status"], stages[0]["planned"], stages[0]["finished"]) == ("complete", 2, 2)
    assert (stages[1]["status"], stages[1]["planned"]) == ("not_begun", 0)
    assert (last["running"], last["is_play"], last["spent"]) == (0, True, line["play_spent"])
    assert last["updated_at"] >= last["created_at"]
    assert line["updated_at"] == last["updated_at"]


async def test_the_list_is_ordered_by_what_moved_last_and_read_page_by_page(api: Api) -> None:
    user = await api.let_in()
    first = await user.make_project(name="Zebra")
    for name in ("apple", "Mango"):
        await user.make_project(name=name)
    made = await user.post(f"/projects/{first['id']}/sessions", {"models": ["offline/skeptic"]})
    await user.post(f"/sessions/{made['id']}/generate")

    assert name_all(await user.get("/projects")) == ["Mango", "apple", "Zebra"]
    for sort, wanted in (
        ("activity", ["Zebra", "Mango", "apple"]),
        ("name", ["apple", "Mango", "Zebra"]),
        ("created", ["Mango", "apple", "Zebra"]),
    ):
        found, page = list[str](), await user.get("/projects", sort=sort, limit=1)
        while page["next_cursor"] is not None:
            found += name_all(page)
            page = await user.get("/projects", sort=sort, limit=1, cursor=page["next_cursor"])
        assert [*found, *name_all(page)] == wanted


async def test_a_cursor_of_one_order_is_refused_in_another(api: Api) -> None:
    user = await api.let_in()
    for name in ("apple", "Mango"):
        await user.make_project(name=name)
    page = await user.get("/projects", sort="name", limit=1)

    answer = await user.client.get(
        "/projects", params={"sort": "activity", "cursor": page["next_cursor"]}
    )

    check_problem(answer, 422, "invalid_cursor")


async def test_projects_are_found_by_text_phase_owner_and_archive(api: Api) -> None:
    user = await api.let_in()
    session = await run_thesis(api, user)
    other = await user.make_project(name="Seed library", prompt="Lend seeds by post.")
    await user.client.patch(f"/projects/{session['project_id']}", json={"name": "Hall 100%"})

    assert name_all(await user.get("/projects", q="LIBRARY")) == ["Seed library"]
    assert name_all(await user.get("/projects", q="by post")) == ["Seed library"]
    assert name_all(await user.get("/projects", q="0%")) == ["Hall 100%"]
    assert name_all(await user.get("/projects", q="_")) == []
    assert name_all(await user.get("/projects", status="stage_complete")) == ["Hall 100%"]
    assert name_all(await user.get("/projects", status="generating")) == []
    assert len(name_all(await user.get("/projects", mine=True))) == 2
    await user.client.patch(f"/projects/{other['id']}", json={"is_archived": True})
    assert name_all(await user.get("/projects", archived=False)) == ["Hall 100%"]
    for wrong in ({"sort": "size"}, {"status": "busy"}, {"q": "x" * 201}, {"q": "a\0b"}):
        answer = await user.client.get("/projects", params=wrong)
        check_problem(answer, 422, "validation_failed")


async def test_a_stage_that_is_complete_waits_for_a_person_until_it_goes_on(api: Api) -> None:
    user = await api.let_in()
    session = await run_thesis(api, user, until="antithesis", is_autopilot=False)
    path = f"/sessions/{session['id']}"

    (need,) = (await user.get("/needs"))["items"]

    assert (need["session_id"], need["code"], need["stage"]) == (
        session["id"],
        "feedback",
        "thesis",
    )
    assert (need["stage_title"], need["jobs"]) == ("Thesis", [])
    assert need["since"] is not None
    (line,) = (await user.get("/sessions", needs=True))["items"]
    assert (line["id"], line["needs"]) == (session["id"], [need])
    await user.post(f"{path}/submit", {"responses": []})
    await api.work(user, session["id"])
    assert (await user.get("/needs"))["items"] == []
    assert (await user.get("/sessions", needs=True))["items"] == []


async def test_what_waits_elsewhere_is_not_listed(api: Api) -> None:
    user, other = await api.let_in(), await api.let_in()
    session = await run_thesis(api, user, until="antithesis", is_autopilot=False)

    assert (await other.get("/needs"))["items"] == []
    assert (await other.get("/projects", sort="activity"))["items"] == []
    await user.client.patch(f"/projects/{session['project_id']}", json={"is_archived": True})
    assert (await user.get("/needs"))["items"] == []


# -- the account -----------------------------------------------------------------------------------


async def test_an_account_tells_all_that_the_frame_of_a_page_shows(api: Api) -> None:
    user = await api.let_in("Carla")
    me = await user.get("/me")

    assert (me["name"], me["display_name"], me["unread"]) == ("Carla", "Carla", 0)
    assert me["wallet"] == await user.get("/wallet")
    assert me["csrf_token"] is None
    assert me["preferences"]["theme"] == "system"


async def test_preferences_change_one_by_one_and_null_restores_the_default(api: Api) -> None:
    user = await api.let_in()
    council = {"name": "Two", "models": ["offline/architect", "offline/skeptic"]}
    for change in ({"theme": "dark"}, {"keys": False, "councils": [council]}, {"theme": None}):
        answer = await user.client.patch("/me/preferences", json=change)
        assert answer.is_success, answer.text

    kept = (await user.get("/me"))["preferences"]

    assert (kept["theme"], kept["keys"], kept["councils"]) == ("system", False, [council])
    for wrong in ({"theme": "pink"}, {"colour": "red"}, {"language": "no tag"}):
        check_problem(
            await user.client.patch("/me/preferences", json=wrong), 422, "validation_failed"
        )


async def test_preferences_belong_to_one_user_of_one_account(api: Api) -> None:
    user, other = await api.let_in(), await api.let_in()
    await user.client.patch("/me/preferences", json={"theme": "dark"})

    assert (await other.get("/me"))["preferences"]["theme"] == "system"
    reader = await api.let_in(scopes={Scope.READ})
    check_problem(
        await reader.client.patch("/me/preferences", json={"theme": "dark"}), 403, "forbidden"
    )


async def test_a_browser_stays_signed_in_and_writes_only_with_its_csrf_token(api: Api) -> None:
    user = await api.let_in()
    begun = await user.client.post("/browser-session")
    name, cookie = read_cookie(begun.headers["set-cookie"])
    async with api.connect(Cookie=f"{name}={cookie}") as browser:
        me = (await browser.get("/me")).json()
        assert me["csrf_token"] == begun.json()["csrf_token"]
        check_problem(await browser.post("/browser-session/renew"), 403, "csrf_invalid")
        proof = {"X-CSRF-Token": me["csrf_token"]}
        renewed = await browser.post("/browser-session/renew", headers=proof)
        assert renewed.json()["csrf_token"] == me["csrf_token"]
        assert renewed.json()["expires_at"] > me["token_expires_at"]
        assert read_cookie(renewed.headers["set-cookie"]) == (name, cookie)
        await user.client.delete("/browser-session")
    # A program has nothing to renew.
    check_problem(await user.client.post("/browser-session/renew"), 404, "not_found")


def read_cookie(header: str) -> tuple[str, str]:
    ((name, morsel),) = SimpleCookie(header).items()
    return name, morsel.value


# -- pages -----------------------------------------------------------------------------------------


async def test_every_page_is_the_shell_with_the_headers_that_keep_it_safe(api: Api) -> None:
    async with api.connect() as client:
        for path in pages.PAGES:
            answer = await client.get(f"{SITE}{path.format(id='x', name='x', tab='x')}")
            assert answer.status_code == 200
            assert answer.headers["content-type"] == "text/html; charset=utf-8"
            assert answer.headers["cache-control"] == "no-store"
            for name, value in pages.HEADERS.items():
                assert answer.headers[name] == value
            assert len(answer.content) < 4000
            assert (await client.head(f"{SITE}/wallet")).content == b""


async def test_an_unknown_path_is_a_page_for_people_and_a_problem_for_programs(api: Api) -> None:
    async with api.connect() as client:
        shown = await client.get(f"{SITE}/nowhere/at/all", headers={"Accept": "text/html"})
        assert (shown.status_code, shown.headers["content-type"]) == (
            404,
            "text/html; charset=utf-8",
        )
        assert shown.headers["content-security-policy"] == pages.HEADERS["Content-Security-Policy"]
        check_problem(await client.get(f"{SITE}/nowhere"), 404, "not_found")
        check_problem(await client.post(f"{SITE}/nowhere", json={}), 404, "not_found")


async def test_what_the_shell_names_is_there_for_ever_and_compressed(api: Api) -> None:
    async with api.connect() as client:
        shell = (await client.get(f"{SITE}/sessions/x")).text
        named = [part.split('"')[0] for part in shell.split('href="')[1:]]
        named += [part.split('"')[0] for part in shell.split('src="')[1:]]
        # The others are links to pages.
        named = [path for path in named if path.startswith("/assets/")]
        assert len(named) > 10
        for path in named:
            answer = await client.get(f"{SITE}{path}", headers={"Accept-Encoding": "gzip"})
            assert answer.status_code == 200, path
            assert "immutable" in answer.headers["cache-control"]
        other = await client.get(f"{SITE}/assets/0000000000000000/app.css")
        check_problem(other, 404, "not_found")
        for outside in ("/assets/x/../shell.html", f"{named[0].rsplit('/', 1)[0]}/../pages.py"):
            assert (await client.get(f"{SITE}{outside}")).status_code == 404


async def test_long_answers_are_compressed_but_never_those_with_a_secret(api: Api) -> None:
    user = await api.let_in()
    for number in range(8):
        await user.make_project(name=f"Project {number}")
    packed = {"Accept-Encoding": "gzip"}

    listed = await user.client.get("/projects", headers=packed)

    assert listed.headers["content-encoding"] == "gzip"
    assert len(listed.json()["items"]) == 8
    for path in ("/me", "/tokens"):
        answer = await user.client.get(path, headers=packed)
        assert "content-encoding" not in answer.headers
    await user.client.patch(
        "/me/preferences",
        json={"councils": [{"name": "n" * 400, "models": ["a/b"]} for _ in range(9)]},
    )
    long = await user.client.get("/me", headers=packed)
    assert "content-encoding" not in long.headers
    assert len(long.content) > 1024


def test_files_are_compressed_once_and_fit_their_budget() -> None:
    assets = pages.load_assets()
    for asset in assets.by_path.values():
        assert asset.packed is None or gzip.decompress(asset.packed) == asset.body
    for view in set(pages.PAGES.values()):
        modules, styles = assets.list_modules(view), assets.find_styles(view)
        assert len(modules) <= 28, view
        assert _weigh(assets, modules) <= 70 * 1024, view
        assert _weigh(assets, styles) <= 12 * 1024, view


def _weigh(assets: pages.Assets, paths: list[str]) -> int:
    return sum(len(assets.by_path[path].packed or assets.by_path[path].body) for path in paths)
