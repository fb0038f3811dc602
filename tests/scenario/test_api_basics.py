"""The API: who comes in, what is refused and how, projects and sessions, page by page."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from dialectic.db.pool import Address
from dialectic.postgres import embedded
from tests.database.job_table import database_of_a_module
from tests.problems import check_problem
from tests.scenario.api_in_process import PROMPT, Api, open_api


@pytest.fixture(scope="module")
def shared(server: embedded.Server, template: str) -> Iterator[Address]:
    with database_of_a_module(server, template) as made:
        yield made


@pytest.fixture
async def api(shared: Address, tmp_path: Path) -> AsyncIterator[Api]:
    async with open_api(shared, tmp_path / "home") as opened:
        yield opened


async def test_a_project_is_made_of_a_prompt_and_found_again(api: Api) -> None:
    made = await api.anna.make_project(name="Village hall")
    assert (made["name"], made["slug"], made["prompt"]) == ("Village hall", "village-hall", PROMPT)
    assert await api.anna.get(f"/projects/{made['id']}") == made
    (listed,) = (await api.anna.get("/projects"))["items"]
    told = {key: value for key, value in made.items() if key not in ("prompt", "overlay")}
    assert {key: listed[key] for key in told} == told
    (prompt,) = (await api.anna.get(f"/projects/{made['id']}/resources"))["items"]
    assert prompt["kind"] == "initial_user_prompt"


async def test_a_project_is_renamed_put_away_and_deleted(api: Api) -> None:
    made = await api.anna.make_project(name="First")
    path = f"/projects/{made['id']}"
    changed = (await api.anna.client.patch(path, json={"name": "Second"})).json()
    assert (changed["name"], changed["slug"]) == ("Second", "first")
    away = (await api.anna.client.patch(path, json={"is_archived": True})).json()
    assert (away["name"], away["status"]) == ("Second", "archived")
    gone = await api.anna.client.delete(path)
    assert (gone.status_code, gone.content) == (204, b"")
    check_problem(await api.anna.client.get(path), 404, "not_found")
    assert await api.engine.files.list(f"{api.anna.account.tenant_id}/first") == []


async def test_a_session_is_begun_looked_at_changed_and_quoted(api: Api) -> None:
    session = await api.anna.make_session(budget="2.50", max_output_tokens=500)
    path = f"/sessions/{session['id']}"
    assert (session["status"], session["models"]) == ("pending_thesis", ["offline/skeptic"])
    assert (session["budget"], session["spent"], session["until"]) == ("2.5", "0", "thesis")
    wish = {"models": ["offline/architect*2"], "budget": None, "continue_until_complete": False}
    changed = (await api.anna.client.patch(path, json=wish)).json()
    assert changed["models"] == ["offline/architect", "offline/architect"]
    assert (changed["budget"], changed["continue_until_complete"]) == (None, False)
    assert changed["max_output_tokens"] == 500
    assert await api.anna.get(path) == changed
    uncapped = (await api.anna.client.patch(path, json={"max_output_tokens": None})).json()
    assert uncapped == changed | {"max_output_tokens": None}
    quoted = await api.anna.get(f"{path}/quote")
    assert (quoted["calls"], quoted["models"]) == (2, changed["models"])
    assert (quoted["is_play"], quoted["lines"]) == (True, None)
    assert len((await api.anna.get(f"{path}/quote", lines=True))["lines"]["lines"]) == 2
    (listed,) = (await api.anna.get(f"/projects/{session['project_id']}/sessions"))["items"]
    assert listed["id"] == session["id"]


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({}, "token_missing"),
        ({"Authorization": "Bearer nonsense"}, "token_invalid"),
        ({"Authorization": "Basic YTpi"}, "token_invalid"),
        ({"Authorization": "Bearer eyJhbGciOiJub25lIn0.e30."}, "token_invalid"),
    ],
)
async def test_an_unknown_caller_is_refused_before_the_body_is_read(
    api: Api, headers: dict[str, str], code: str
) -> None:
    async with api.connect(**headers) as client:
        answer = await client.post("/projects", content=b"\xff" * 100)
    check_problem(answer, 401, code)
    assert answer.headers["www-authenticate"] == "Bearer"


async def test_a_request_names_its_caller_once(api: Api) -> None:
    twice = [("Authorization", f"Bearer {user.token}") for user in (api.anna, api.ben)]
    async with api.connect() as client:
        answer = await client.get("/projects", headers=twice)
    assert check_problem(answer, 400, "invalid_request")["reason"] == "repeated_header"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/projects/{project}", None),
        ("PATCH", "/projects/{project}", {"name": "Mine"}),
        ("DELETE", "/projects/{project}", None),
        ("GET", "/projects/{project}/resources", None),
        ("GET", "/projects/{project}/sessions", None),
        ("POST", "/projects/{project}/sessions", {"models": ["offline/skeptic"]}),
        ("GET", "/sessions/{session}", None),
        ("PATCH", "/sessions/{session}", {"budget": 1}),
        ("GET", "/sessions/{session}/quote", None),
    ],
)
async def test_what_belongs_to_another_tenant_is_not_there_just_as_what_never_was(
    api: Api, method: str, path: str, body: Any
) -> None:
    session = await api.anna.make_session()
    theirs = path.format(project=session["project_id"], session=session["id"])
    nowhere = path.format(project=uuid4(), session=uuid4())
    for tried in (theirs, nowhere):
        answer = await api.ben.client.request(method, tried, json=body)
        check_problem(answer, 404, "not_found")
    assert await api.anna.get(f"/sessions/{session['id']}") == session


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({}, "/body/prompt"),
        ({"prompt": ""}, "/body/prompt"),
        ({"prompt": {"key": "hush"}}, "/body/prompt"),
        ({"prompt": "p", "domian": "hush"}, "/body/domian"),
        ({"prompt": "p", "name": "x" * 501}, "/body/name"),
        ({"prompt": "p", "resources": [{"kind": "secret", "name": "n", "text": "t"}]},
         "/body/resources/0/kind"),
        ([], "/body"),
    ],
)  # fmt: skip
async def test_a_wrong_field_is_named_and_its_value_is_not_repeated(
    api: Api, body: Any, path: str
) -> None:
    answer = await api.anna.client.post("/projects", json=body)
    problem = check_problem(answer, 422, "validation_failed")
    assert [error["path"] for error in problem["errors"]] == [path]
    assert "hush" not in answer.text


@pytest.mark.parametrize(
    ("content", "status", "code"),
    [
        (b"{", 400, "invalid_json"),
        (b'{"prompt": "\xff\xfe"}', 400, "invalid_request"),
        (b'{"prompt": ' + b"[" * 10_000 + b"]" * 10_000 + b"}", 400, "invalid_request"),
        (b'{"prompt": [' + b'"",' * 1_000_000 + b'""]}', 413, "too_large"),
        (b'{"prompt": "\\ud83d"}', 422, "validation_failed"),
        (b'{"prompt": NaN}', 400, "invalid_json"),
        (b'{"prompt": "p", "prompt": "q"}', 400, "invalid_json"),
        (b'{"prompt": "p", "domain": "\\u0000"}', 400, "invalid_request"),
        (b'{"prompt": "\\u0000"}', 400, "invalid_request"),
    ],
    ids=["cut", "no text", "deep", "many", "half", "no number", "twice", "zero", "nothing"],
)
async def test_malformed_json_is_refused(api: Api, content: bytes, status: int, code: str) -> None:
    headers = {"Content-Type": "application/json"}
    answer = await api.anna.client.post("/projects", content=content, headers=headers)
    check_problem(answer, status, code)


async def test_brackets_inside_of_texts_do_not_count_as_depth(api: Api) -> None:
    made = await api.anna.make_project(name='[" {' * 100)
    assert made["name"] == '[" {' * 99 + '[" {'


async def test_too_large_a_body_is_refused_whether_or_not_it_says_so(
    shared: Address, tmp_path: Path
) -> None:
    async with open_api(shared, tmp_path / "home", max_prompt_bytes=1_000) as api:
        sent = 0

        async def trickle() -> AsyncIterator[bytes]:
            nonlocal sent
            for _ in range(100):
                sent += 1
                yield b" " * 50_000

        headers = {"Content-Type": "application/json"}
        post = api.anna.client.post
        check_problem(await post("/projects", content=trickle(), headers=headers), 413, "too_large")
        assert sent < 100
        content = b" " * 5_000_000
        form = {"Content-Type": "multipart/form-data; boundary=x"}
        check_problem(await post("/projects", content=content, headers=form), 413, "too_large")
        path = "/projects/import"
        promised = {"Content-Type": "application/zip", "Content-Length": str(10**12)}
        check_problem(await post(path, content=b"PK", headers=promised), 413, "too_large")
        check_problem(await post("/projects", content=content, headers=headers), 413, "too_large")
        answer = await post("/projects", json={"prompt": "x" * 1_001})
        check_problem(answer, 413, "too_large")


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nothing", 404, "not_found"),
        ("PUT", "/projects", 405, "method_not_allowed"),
        ("GET", "/projects/not-an-id", 422, "validation_failed"),
        ("GET", "/projects?limit=0", 422, "validation_failed"),
        ("GET", "/projects?limit=201", 422, "validation_failed"),
        ("GET", "/projects?cursor=nonsense", 422, "invalid_cursor"),
        ("GET", "/projects?cursor=WyJqb2JzIl0", 422, "invalid_cursor"),
    ],
)
async def test_wrong_ways_are_problems_too(
    api: Api, method: str, path: str, status: int, code: str
) -> None:
    check_problem(await api.anna.client.request(method, path), status, code)


async def test_another_method_at_a_path_is_answered_with_the_allowed_ones(
    api: Api,
) -> None:
    made = await api.anna.make_project()
    for method in ("POST", "OPTIONS", "TRACE"):
        answer = await api.anna.client.request(method, f"/projects/{made['id']}")
        problem = check_problem(answer, 405, "method_not_allowed")
        assert answer.headers["allow"] == "GET, PATCH, DELETE"
        assert "GET, PATCH, DELETE" in problem["detail"]


async def test_no_path_leads_to_another_one(api: Api) -> None:
    answer = await api.anna.client.get("/projects/", follow_redirects=False)
    problem = check_problem(answer, 404, "not_found")
    assert "/docs" in problem["detail"]


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/docs"])
async def test_a_check_whether_it_fits_need_not_read_all_of_it(api: Api, path: str) -> None:
    async with api.connect() as client:
        asked = await client.head(f"http://house.test{path}")
        read = await client.get(f"http://house.test{path}")
    assert asked.status_code == read.status_code
    assert asked.headers["content-type"] == read.headers["content-type"]


@pytest.mark.parametrize(
    ("path", "media_type"),
    [
        ("/projects", "text/plain"),
        ("/projects", ""),
        ("/projects", "multipart/form-data; boundary=x"),
        ("/projects/upload", "application/x-www-form-urlencoded"),
        ("/projects/{id}/resources", "text/markdown"),
    ],
)
async def test_a_body_of_another_kind_is_refused_by_name(
    api: Api, path: str, media_type: str
) -> None:
    made = await api.anna.make_project()
    headers = {"Content-Type": media_type} if media_type else {}
    answer = await api.anna.client.post(
        path.format(id=made["id"]), content=b'{"prompt": "p"}', headers=headers
    )
    problem = check_problem(answer, 415, "unsupported_media_type")
    assert "Content-Type" in problem["detail"]


async def test_a_form_in_an_unknown_encoding_is_refused(api: Api) -> None:
    headers = {"Content-Type": "multipart/form-data; boundary=x; charset=undefined"}
    content = (
        b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nA\r\n--x--\r\n'
    )
    answer = await api.anna.client.post("/projects/upload", content=content, headers=headers)
    check_problem(answer, 400, "invalid_request")


async def test_an_invalid_archive_is_refused_without_naming_its_place(api: Api) -> None:
    headers = {"Content-Type": "application/zip"}
    answer = await api.anna.client.post("/projects/import", content=b"PK", headers=headers)
    problem = check_problem(answer, 422, "invalid_bundle")
    assert problem["reason"] == "not_a_zip"


async def test_a_compressed_body_is_refused_by_name(api: Api) -> None:
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    answer = await api.anna.client.post("/projects", content=b"{}", headers=headers)
    check_problem(answer, 415, "unsupported_media_type")


async def test_a_boundary_that_mentions_json_is_not_json(api: Api) -> None:
    headers = {"Content-Type": "multipart/form-data; boundary=jsonjson"}
    part = b'--jsonjson\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
    content = part + "Ein Saal für alle.".encode("utf-16") + b"\r\n--jsonjson--\r\n"
    made = await api.anna.client.post("/projects/upload", content=content, headers=headers)
    assert made.json()["prompt"] == "Ein Saal für alle."


@pytest.mark.parametrize(
    ("wish", "status", "code"),
    [
        ({"models": ["offline/nobody"]}, 422, "unknown_model"),
        ({"models": ["skeptic"]}, 422, "validation_failed"),
        ({"models": ["offline/skeptic*13"]}, 400, "invalid_request"),
        ({"models": []}, 422, "validation_failed"),
        ({"process": "../standard"}, 422, "validation_failed"),
        ({"process": "examples"}, 404, "not_found"),
        ({"until": "nowhere"}, 404, "not_found"),
        ({"lead": "offline/architect"}, 400, "invalid_request"),
        ({"budget": -1}, 422, "validation_failed"),
        ({"budget": "a lot"}, 422, "validation_failed"),
        ({"max_output_tokens": 0}, 422, "validation_failed"),
        ({"max_output_tokens": "500"}, 422, "validation_failed"),
        ({"shrink": True}, 422, "validation_failed"),
        ({"is_autopilot": "no"}, 422, "validation_failed"),
    ],
)
async def test_a_session_that_cannot_be_is_refused(
    api: Api, wish: dict[str, Any], status: int, code: str
) -> None:
    project = await api.anna.make_project()
    path = f"/projects/{project['id']}/sessions"
    asked = {"models": ["offline/skeptic"], **wish}
    check_problem(await api.anna.client.post(path, json=asked), status, code)
    assert (await api.anna.get(path))["items"] == []


async def test_an_id_of_a_request_is_kept_if_it_is_sane(api: Api) -> None:
    given = await api.anna.client.get("/projects", headers={"X-Request-ID": "trace-7.a_B"})
    assert given.headers["x-request-id"] == "trace-7.a_B"
    for odd in ("x" * 65, "a b", 'a"b'):
        made = await api.anna.client.get("/projects", headers={"X-Request-ID": odd})
        assert len(made.headers["x-request-id"]) == 32
    assert given.headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in given.headers["content-security-policy"]


async def test_pages_show_everything_once_while_more_is_added(api: Api) -> None:
    made = [(await api.anna.make_project(name=f"P{n}"))["id"] for n in range(7)]
    seen: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = await api.anna.get("/projects", limit=2, **cursor)
        seen += [item["id"] for item in page["items"]]
        if page["next_cursor"] is None:
            break
        cursor = {"cursor": page["next_cursor"]}
        await api.anna.make_project(name="Later")
    assert seen == made[::-1]


async def test_the_description_names_every_operation_and_the_page_needs_nothing_from_elsewhere(
    api: Api,
) -> None:
    async with api.connect() as client:
        described = (await client.get("/openapi.json")).json()
        page = await client.get("http://house.test/docs")
        script = await client.get("http://house.test/docs/docs.js")
    assert described["openapi"].startswith("3.1")
    names = [one["operationId"] for path in described["paths"].values() for one in path.values()]
    assert len(names) == len(set(names))
    assert "create_project" in names
    assert "script-src 'self'" in page.headers["content-security-policy"]
    for text in (page.text, script.text):
        assert "://" not in text
    assert "HTTPValidationError" not in json.dumps(described)
