"""What attackers and careless clients send, over real HTTP: to links, pages, lists and streams."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import pytest

from dialectic.api.server import open_server
from dialectic.db.pool import Address
from dialectic.postgres import embedded
from tests.api_description import load_description
from tests.database.job_table import database_of_a_module
from tests.problems import check_problem
from tests.scenario.api_in_process import Api, ApiUser, open_api
from tests.waiting import PATIENCE_S

CHANGING = {"post", "put", "patch", "delete"}
PREFIX = "/api/v1"
# Not of a person: the description of the API.
PUBLIC = {f"{PREFIX}/openapi.json"}


@dataclass(frozen=True, slots=True)
class Site:
    """A server on a port, and what others know of it."""

    api: Api
    url: str

    def connect(self, user: ApiUser | None = None, **headers: str) -> httpx2.AsyncClient:
        """A connection of a user, or of someone unknown."""
        if user is not None:
            headers["Authorization"] = f"Bearer {user.token}"
        return httpx2.AsyncClient(base_url=self.url, headers=headers, timeout=PATIENCE_S)


@pytest.fixture(scope="module")
def shared(server: embedded.Server, template: str) -> Iterator[Address]:
    with database_of_a_module(server, template) as made:
        yield made


@asynccontextmanager
async def open_hostile(shared: Address, folder: Path, **options: Any) -> AsyncIterator[Site]:
    async with (
        open_api(shared, folder / "home", **options) as api,
        open_server(api.app, api.hub, host="127.0.0.1", port=0) as running,
    ):
        yield Site(api, running.url)


@pytest.fixture
async def site(shared: Address, tmp_path: Path) -> AsyncIterator[Site]:
    async with open_hostile(shared, tmp_path) as opened:
        yield opened


def list_operations(*methods: str) -> Iterator[tuple[str, str]]:
    """The operations of the API with ids that are nothing's."""
    for path, operations in load_description()["paths"].items():
        filled = re.sub(r"\{\w*name\}|\{model\}", "x", path)
        filled = re.sub(r"\{[^}]+\}", str(uuid4()), filled)
        for method in operations:
            if method in methods:
                yield method, filled


async def share(user: ApiUser, **wishes: Any) -> str:
    """Make a link to a session; give its address."""
    session = await user.make_session()
    made = await user.post(f"/sessions/{session['id']}/shares", wishes)
    return str(made["path"])


# -- links -----------------------------------------------------------------------------------------


async def test_a_form_with_more_fields_than_a_browser_sends_is_refused(site: Site) -> None:
    path = await share(site.api.anna, pass_phrase="correct horse battery")
    async with site.connect() as reader:
        answer = await reader.post(path, data={f"field{n}": "x" for n in range(50)})
        assert answer.status_code == 400
        opened = await reader.post(path, data={"pass_phrase": "correct horse battery"})
    assert opened.status_code == 200


async def test_a_form_that_drips_in_is_given_up(shared: Address, tmp_path: Path) -> None:
    async with open_hostile(shared, tmp_path, form_max_s=0.2) as site:
        path = await share(site.api.anna, pass_phrase="correct horse battery")
        host, port = site.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        head = f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 100\r\n\r\npass"
        writer.write(head.encode())
        async with asyncio.timeout(PATIENCE_S):
            status = (await reader.readline()).split()[1]
        writer.close()
        await writer.wait_closed()
    assert status == b"408"


async def test_a_locked_a_revoked_and_an_unknown_link_set_no_cookie_and_are_not_kept(
    site: Site,
) -> None:
    anna = site.api.anna
    locked = await share(anna, pass_phrase="correct horse battery")
    open_one = await share(anna)
    async with site.connect() as reader:
        for path in (locked, open_one, f"/s/{'A' * 43}", "/s/%00", "/s/" + "x" * 5000):
            answer = await reader.get(path)
            assert answer.status_code in (200, 404), path
            assert "set-cookie" not in answer.headers
            assert answer.headers["cache-control"] == "no-store"
            assert answer.headers["referrer-policy"] == "no-referrer"
            assert "noindex" in answer.headers["x-robots-tag"]
            assert "script-src" not in answer.headers["content-security-policy"]
            assert "etag" not in answer.headers


async def test_guesses_of_a_phrase_are_few_and_do_not_open_other_links_to_it(site: Site) -> None:
    path = await share(site.api.anna, pass_phrase="correct horse battery")
    other = await share(site.api.anna)
    async with site.connect() as reader:
        tries = [reader.post(path, data={"pass_phrase": f"guess {n}"}) for n in range(12)]
        statuses = Counter(answer.status_code for answer in await asyncio.gather(*tries))
        assert set(statuses) == {403, 429}
        assert statuses[403] <= 6
        assert (await reader.get(other)).status_code == 200


async def test_a_link_of_another_tenant_is_neither_listed_nor_revoked(site: Site) -> None:
    anna, ben = site.api.anna, site.api.ben
    session = await anna.make_session()
    made = await anna.post(f"/sessions/{session['id']}/shares")
    async with site.connect(ben) as stranger:
        listed = await stranger.get(f"{PREFIX}/sessions/{session['id']}/shares")
        revoked = await stranger.delete(f"{PREFIX}/shares/{made['id']}")
        never = await stranger.delete(f"{PREFIX}/shares/{uuid4()}")
    check_problem(listed, 404, "not_found")
    check_problem(revoked, 404, "not_found")
    assert revoked.json()["reason"] == never.json()["reason"]
    async with site.connect() as reader:
        assert (await reader.get(made["path"])).status_code == 200


# -- browsers --------------------------------------------------------------------------------------


async def test_no_change_is_made_for_a_cookie_alone(site: Site) -> None:
    async with site.connect(site.api.anna) as client:
        begun = await client.post(f"{PREFIX}/browser-session")
    cookie = begun.headers["set-cookie"].partition(";")[0]
    async with site.connect(Cookie=cookie) as browser:
        assert (await browser.get(f"{PREFIX}/me")).status_code == 200
        for method, path in list_operations(*CHANGING):
            answer = await browser.request(method, path, json={})
            check_problem(answer, 403, "csrf_invalid")


async def test_no_answer_to_a_person_is_kept_by_others(site: Site) -> None:
    session = await site.api.anna.make_session()
    found = [path for _, path in list_operations("get") if not path.endswith("/events")]
    found += [f"{PREFIX}/sessions/{session['id']}", f"{PREFIX}/sessions/{session['id']}/board"]
    async with site.connect(site.api.anna) as client:
        for path in set(found) - PUBLIC:
            answer = await client.get(path)
            assert answer.status_code < 500, path
            said = answer.headers["cache-control"]
            assert "no-store" in said or "private" in said, path


async def test_what_a_stranger_knows_of_a_version_tells_them_nothing(site: Site) -> None:
    session = await site.api.anna.make_session()
    paths = [f"{PREFIX}/sessions/{session['id']}/board", f"{PREFIX}/sessions/{session['id']}"]
    async with site.connect(site.api.anna) as own, site.connect(site.api.ben) as stranger:
        for path in paths:
            etag = (await own.get(path)).headers.get("etag", "*")
            for known in (etag, "*"):
                answer = await stranger.get(path, headers={"If-None-Match": known})
                check_problem(answer, 404, "not_found")


# -- many at once ----------------------------------------------------------------------------------


async def test_twenty_requests_at_once_with_one_key_start_one_run(site: Site) -> None:
    user = await site.api.let_in()
    body = {"prompt": "A seed library.", "models": ["offline/skeptic"], "until": "thesis"}
    key = {"Idempotency-Key": str(uuid4())}
    async with site.connect(user) as client:
        tries = [client.post(f"{PREFIX}/runs", json=body, headers=key) for _ in range(20)]
        answers = await asyncio.gather(*tries)
        listed = (await client.get(f"{PREFIX}/projects")).json()["items"]
    assert len(listed) == 1
    done = [answer for answer in answers if answer.is_success]
    assert done
    assert {answer.json()["project"]["id"] for answer in done} == {listed[0]["id"]}
    for answer in set(answers) - set(done):
        check_problem(answer, 409, "in_progress")


async def test_of_ten_edits_of_one_version_one_is_saved(site: Site) -> None:
    user = await site.api.let_in()
    session = await user.make_session()
    await user.post(f"/sessions/{session['id']}/generate")
    await site.api.work(user, session["id"])
    (line,) = (await user.get(f"/sessions/{session['id']}/contributions"))["items"]
    path = f"{PREFIX}/contributions/{line['id']}"
    async with site.connect(user) as client:
        etag = (await client.get(path)).headers["etag"]
        tries = [
            client.put(path, json={"content": f"# Mine\n\n{n}"}, headers={"If-Match": etag})
            for n in range(10)
        ]
        statuses = Counter(answer.status_code for answer in await asyncio.gather(*tries))
    assert statuses == {200: 1, 412: 9}, statuses


# -- streams ---------------------------------------------------------------------------------------


async def test_a_position_of_another_tenant_or_none_at_all_continues_nothing(site: Site) -> None:
    anna, ben = site.api.anna, site.api.ben
    await anna.make_session()
    theirs = (await anna.get("/me"))["cursor"]
    for after in (theirs, "x", "9" * 400, "🎉", "-1", f"{uuid4()}:1"):
        async with (
            site.connect(ben) as client,
            client.stream("GET", f"{PREFIX}/events", params={"after": after}) as stream,
        ):
            assert stream.status_code in (200, 422), after
            if stream.status_code == 200:
                kind = await read_first(stream)
                assert kind == "state", after


async def read_first(stream: httpx2.Response) -> str:
    async with asyncio.timeout(PATIENCE_S):
        async for line in stream.aiter_lines():
            if line.startswith("event: "):
                return line.removeprefix("event: ")
    return ""


async def test_a_stream_with_drafts_ends_with_its_token(site: Site) -> None:
    anna = site.api.anna
    session = await anna.make_session()
    issued = await anna.post("/tokens", {"name": "phone"})
    query = {"drafts": session["id"]}
    async with (
        site.connect(Authorization=f"Bearer {issued['token']}") as phone,
        phone.stream("GET", f"{PREFIX}/events", params=query) as stream,
    ):
        assert stream.status_code == 200
        await anna.client.delete(f"/tokens/{issued['id']}")
        async with asyncio.timeout(PATIENCE_S):
            async for _ in stream.aiter_lines():
                pass
        check_problem(await phone.get(f"{PREFIX}/me"), 401, "token_invalid")


# -- limits ----------------------------------------------------------------------------------------


async def test_searches_and_previews_are_limited_and_take_any_text(site: Site) -> None:
    odd = (
        "((",
        "a & | !",
        "'; drop table x; --",
        '"',
        ":*",
        "%_\\",
        "🎉" * 20,
        "\u202e",
        "a" * 200,
    )
    async with site.connect(site.api.anna) as client:
        for text in odd:
            answer = await client.get(f"{PREFIX}/search", params={"q": text})
            assert answer.status_code == 200, (text, answer.text)
        for wrong in ("q=" + "x" * 5000, "q=", "q=x&limit=1000000000", "q=x%00"):
            answer = await client.get(f"{PREFIX}/search?{wrong}")
            check_problem(answer, 422, "validation_failed")
        for text in ("[" * 40_000, ">" * 40_000, "<svg onload=alert(1)>"):
            answer = await client.post(f"{PREFIX}/render", json={"text": text})
            assert answer.status_code == 200, text[:20]
            assert "<svg" not in answer.text
        half = b'{"text": "half of a pair: \\ud83c"}'
        headers = {"Content-Type": "application/json"}
        answer = await client.post(f"{PREFIX}/render", content=half, headers=headers)
        assert answer.status_code in (400, 422), answer.text
        answer = await client.post(f"{PREFIX}/render", json={"text": "x" * 30_000_000})
        check_problem(answer, 413, "too_large")


async def test_preferences_have_an_end(site: Site) -> None:
    many = [{"name": f"council {n}", "models": ["offline/skeptic"]} for n in range(51)]
    for wrong in (
        {"display_name": "x" * 10_000},
        {"councils": many},
        {"notifications": {f"kind_{n}": "page" for n in range(31)}},
        {"language": "x" * 1000},
        {"colour": "x"},
    ):
        answer = await site.api.anna.client.patch("/me/preferences", json=wrong)
        check_problem(answer, 422, "validation_failed")


async def test_a_report_with_hostile_text_runs_nothing_where_the_cookie_is(site: Site) -> None:
    user = await site.api.let_in()
    project = await user.make_project(name="<script>alert(1)</script>")
    session = await user.post(
        f"/projects/{project['id']}/sessions", {"models": ["offline/skeptic"], "until": "thesis"}
    )
    async with site.connect(user) as client:
        report = await client.get(f"{PREFIX}/sessions/{session['id']}/report")
    policy = report.headers["content-security-policy"]
    assert "<script>alert" not in report.text
    assert "default-src 'none'" in policy
    assert "script-src" not in policy
    assert report.headers["x-content-type-options"] == "nosniff"
