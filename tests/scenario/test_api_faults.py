"""What strangers send on purpose: files, names, archives, ended tokens, and lines that break."""

from __future__ import annotations

import asyncio
import io
import json
import zipfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from dialectic.api.server import Running, open_server
from dialectic.core.slug import SLUG_CHARS_MAX, is_slug
from dialectic.core.transfer.bundle_format import LIMITS
from dialectic.db.pool import Address, Connection
from dialectic.db.tables.records import SQL
from dialectic.postgres import embedded
from tests.database.job_table import database_of_a_module
from tests.problems import check_problem
from tests.scenario.api_in_process import PROMPT, Api, ApiUser, open_api
from tests.unit.storage.test_archive import HOSTILE
from tests.waiting import PATIENCE_S, until_someone_waits

ZIP = {"Content-Type": "application/zip"}
TEXT_BYTES_MAX = 1_000


@pytest.fixture(scope="module")
def shared(server: embedded.Server, template: str) -> Iterator[Address]:
    with database_of_a_module(server, template) as made:
        yield made


@pytest.fixture
async def api(shared: Address, tmp_path: Path) -> AsyncIterator[Api]:
    async with open_api(shared, tmp_path / "home", max_prompt_bytes=TEXT_BYTES_MAX) as opened:
        yield opened


async def upload(user: ApiUser, data: bytes, name: str = "plan.txt", **headers: str) -> Any:
    return await user.client.post("/projects/upload", files={"file": (name, data)}, headers=headers)


async def list_projects(user: ApiUser) -> list[dict[str, Any]]:
    return list((await user.get("/projects"))["items"])


# -- files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "prompt"),
    [
        (b"x", "x"),
        (b"\xef\xbb\xbfA hall.", "A hall."),
        ("Ein Saal für alle.".encode("utf-16"), "Ein Saal für alle."),
        (b"x" * TEXT_BYTES_MAX, "x" * TEXT_BYTES_MAX),
    ],
    ids=["one character", "a mark", "UTF-16", "just short enough"],
)
async def test_a_file_becomes_a_prompt_by_its_bytes(api: Api, data: bytes, prompt: str) -> None:
    made = await upload(api.anna, data)
    assert (made.status_code, made.json()["prompt"]) == (201, prompt), made.text


@pytest.mark.parametrize(
    ("data", "status", "code"),
    [
        (b"", 422, "invalid_upload"),
        (b"\xef\xbb\xbf \n", 422, "invalid_upload"),
        (b"\x7fELF\x02\x01\x01" + bytes(64), 422, "invalid_upload"),
        ("words".encode("utf-16-le"), 422, "invalid_upload"),
        (b"Gr\xf6\xdfe", 422, "invalid_upload"),
        (b"x" * (TEXT_BYTES_MAX + 1), 413, "upload_too_large"),
    ],
    ids=["empty", "a mark alone", "binary", "UTF-16 without a mark", "Latin-1", "too long"],
)
async def test_a_file_that_is_not_a_prompt_is_refused_and_creates_nothing(
    api: Api, data: bytes, status: int, code: str
) -> None:
    problem = check_problem(await upload(api.anna, data), status, code)
    assert "plan.txt" in problem["detail"]
    assert await list_projects(api.anna) == []


async def test_a_hundred_megabytes_are_refused_while_they_come(api: Api) -> None:
    sent = 0

    async def pour() -> AsyncIterator[bytes]:
        nonlocal sent
        yield b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
        for _ in range(100):
            sent += 1
            yield b"x" * 1_000_000
        yield b"\r\n--x--\r\n"

    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    answer = await api.anna.client.post("/projects/upload", content=pour(), headers=headers)
    check_problem(answer, 413, "too_large")
    assert sent < 60
    assert await list_projects(api.anna) == []


# -- names ----------------------------------------------------------------------------------------


# In the order in which they are given: the second of two that look alike must not meet the first.
NAMES = [
    *("../../etc", "etc", "..", ".", "CON", "con", "nul", "x" * 300, "x" * 299, "\uff0f", "/"),
    *("full\uff0fwidth", "full/width", "FULL-WIDTH", "full-width"),
]


async def test_odd_names_of_projects_lead_to_folders_of_their_own(api: Api) -> None:
    slugs = []
    for name in NAMES:
        made = await api.anna.make_project(name=name, prompt=f"{PROMPT} {name}")
        slugs.append(made["slug"])
        assert made["name"] == name
        assert await read_prompt(api, made["id"]) == f"{PROMPT} {name}"
    assert len(set(slugs)) == len(NAMES)
    assert all(is_slug(slug) and len(slug) <= SLUG_CHARS_MAX for slug in slugs)
    stored = await api.engine.files.list("")
    folders = {path.split("/")[1] for path in stored if str(api.anna.account.tenant_id) in path}
    assert folders == set(slugs)


async def read_prompt(api: Api, project_id: str) -> str:
    """Read the prompt of a project where it lies in storage."""
    path = f"/projects/{project_id}"
    (prompt,) = (
        one
        for one in (await api.anna.get(f"{path}/resources"))["items"]
        if one["kind"] == "initial_user_prompt"
    )
    return (await api.anna.client.get(f"{path}/file", params={"path": prompt["path"]})).text


@pytest.mark.parametrize("name", ["a\0b", "x" * 501], ids=["NUL", "long"])
async def test_a_name_that_cannot_be_kept_is_refused(api: Api, name: str) -> None:
    answer = await api.anna.client.post("/projects", json={"prompt": PROMPT, "name": name})
    assert answer.status_code == 422, answer.text
    assert await list_projects(api.anna) == []


# -- archives -------------------------------------------------------------------------------------


def build_crowd() -> bytes:
    """An archive of more files than may be in one."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as target:
        for number in range(LIMITS.entries_max + 1):
            target.writestr(zipfile.ZipInfo(f"hall/{number}.md"), b"")
    return buffer.getvalue()


async def test_hostile_archives_are_refused_and_nothing_of_them_is_written(
    api: Api,
) -> None:
    before = await api.engine.files.list("")
    cases = {name: data for name, (data, _) in HOSTILE.items()} | {"a crowd": build_crowd()}
    for name, data in cases.items():
        answer = await api.anna.client.post("/projects/import", content=data, headers=ZIP)
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_bundle"), name
    assert await list_projects(api.anna) == []
    assert await api.engine.files.list("") == before
    assert list(api.drafts.iterdir()) == []


# -- tokens ---------------------------------------------------------------------------------------


async def test_a_token_whose_time_is_over_is_refused(api: Api, shared: Address) -> None:
    made = await api.anna.post("/tokens", {"name": "short", "scopes": ["read"], "life_days": 1})
    async with api.connect(Authorization=f"Bearer {made['token']}") as client:
        assert (await client.get("/projects")).status_code == 200
        await execute(
            shared,
            "update dialectic.access_tokens set created_at = created_at - interval '2 days', "
            "expires_at = expires_at - interval '2 days' where id = $1",
            made["id"],
        )
        refused = await client.get("/projects")
    check_problem(refused, 401, "token_expired")
    assert refused.headers["www-authenticate"] == "Bearer"


async def execute(address: Address, statement: str, *arguments: Any) -> None:
    admin = await asyncpg.connect(address.url)
    try:
        await admin.execute(statement, *arguments)
    finally:
        await admin.close()


# -- names of requests ----------------------------------------------------------------------------


async def test_another_file_under_the_same_name_of_a_request_is_refused(api: Api) -> None:
    key = {"Idempotency-Key": str(uuid4())}
    first, again = [await upload(api.anna, b"A hall.", **key) for _ in range(2)]
    assert first.json() == again.json()
    assert again.headers["idempotency-replayed"] == "true"
    check_problem(await upload(api.anna, b"A barn.", **key), 422, "idempotency_key_reused")
    assert len(await list_projects(api.anna)) == 1


async def test_what_was_begun_for_a_client_that_hangs_up_is_done_once(
    api: Api, shared: Address
) -> None:
    wish, key = json.dumps({"prompt": PROMPT, "name": "Once"}), {"Idempotency-Key": str(uuid4())}
    sent = {"Content-Type": "application/json", **key}
    tenant_id = api.anna.account.tenant_id
    may_end, held = asyncio.Event(), asyncio.Event()

    async def hold(connection: Connection) -> None:
        await connection.execute(SQL["lock_slug"], tenant_id, "once")
        held.set()
        await may_end.wait()

    holding = asyncio.create_task(api.engine.db.transact(tenant_id, hold))
    await held.wait()
    async with open_server(api.app, api.hub, host="127.0.0.1", port=0) as running:
        token = {"Authorization": f"Bearer {api.anna.token}"}
        line = await send(running.url, "/api/v1/projects", {**token, **sent}, wish)
        admin = await asyncpg.connect(shared.url)
        await until_someone_waits(admin)
        await admin.close()
        line.transport.abort()
        await until_connected(running, shared, count=0)
        again = asyncio.create_task(api.anna.client.post("/projects", content=wish, headers=sent))
        may_end.set()
        await holding
        answer = await asyncio.wait_for(again, PATIENCE_S)
    assert (answer.status_code, answer.headers["idempotency-replayed"]) == (201, "true")
    assert [one["id"] for one in await list_projects(api.anna)] == [answer.json()["id"]]


async def until_connected(running: Running, address: Address, *, count: int) -> None:
    """Wait until a server has noticed who has come or gone."""
    admin = await asyncpg.connect(address.url)
    async with asyncio.timeout(PATIENCE_S):
        while len(running._server.server_state.connections) != count:
            await admin.execute("select 1")
    await admin.close()


async def send(url: str, path: str, headers: dict[str, str], body: str) -> asyncio.StreamWriter:
    """Send a request and keep its connection without reading."""
    host, port = url.removeprefix("http://").split(":")
    _, line = await asyncio.open_connection(host, int(port))
    fields = {"Host": host, "Content-Length": str(len(body)), **headers}
    head = [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
    line.write("\r\n".join([*head, "", body]).encode())
    return line
