"""A page that loads a board and then follows the stream shows what a fresh board shows."""

from __future__ import annotations

import asyncio
import contextlib
import copy
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from chaos.event_clients import Frame, Line
from dialectic.api.server import Running, open_server
from dialectic.contract.events import CHANGES
from dialectic.db.pool import Address
from dialectic.postgres import embedded
from dialectic.worker.worker import Worker
from tests.database.job_table import database_of_a_module
from tests.scenario.api_in_process import Api, ApiUser, open_api
from tests.waiting import PATIENCE_S

MODELS = ["offline/architect", "offline/skeptic"]


@dataclass(slots=True)
class Page:
    """A session page: the board it loaded, and the stream that keeps it up to date."""

    user: ApiUser
    running: Running
    session: str
    board: dict[str, Any]
    last_id: str
    frames: list[Frame] = field(default_factory=list)
    _line: Line | None = None

    @classmethod
    async def load(cls, user: ApiUser, running: Running, session: str) -> Page:
        board = await user.get(f"/sessions/{session}/board")
        return cls(user, running, session, board, board["cursor"])

    async def connect(self, query: str = "") -> None:
        self.leave()
        headers = {"Authorization": f"Bearer {self.user.token}"}
        headers |= {"Last-Event-ID": self.last_id} if self.last_id else {}
        port = int(self.running.url.rpartition(":")[2])
        self._line = await Line(port, f"/api/v1/events{query}", headers).open()

    def leave(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None

    async def hear(self, count: int | None = None) -> None:
        """Apply the frames that come next; of them, at most some, and forget the rest."""
        assert self._line is not None
        async with asyncio.timeout(PATIENCE_S):
            frames = await self._line.read()
        assert frames is not None, "the stream is open"
        for frame in frames[:count]:
            self.frames.append(frame)
            self.last_id = frame.event_id or self.last_id
            self.apply(frame)

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await self.hear()

    def apply(self, frame: Frame) -> None:
        data = frame.data.get("data", {})
        if frame.kind not in CHANGES or data.get("session_id", self.session) != self.session:
            return
        match frame.kind:
            case "jobs_changed":
                self._replace("jobs", "id", data["jobs"])
                self.board["stages"] = data["stages"]
            case "session_changed" if data["session"]["id"] == self.session:
                self.board |= {name: data[name] for name in ("session", "needs", "money")}
            case "money_changed" if data.get("money") is not None:
                self.board["money"] = data["money"]
            case "document_changed":
                self._replace("documents", "original_id", [data["document"]])
            case "feedback_changed":
                self._replace("feedback", "id", [data["feedback"]])
            case _:
                pass

    def _replace(self, name: str, key: str, new: list[dict[str, Any]]) -> None:
        rows = {row[key]: row for row in self.board[name]}
        for row in new:
            rows[row[key]] = {**rows.get(row[key], {}), **row}
        self.board[name] = list(rows.values())

    def count(self, kind: str) -> int:
        return sum(frame.kind == kind for frame in self.frames)


def show(board: dict[str, Any]) -> dict[str, Any]:
    """What a page shows of a board: without its position, the clock, and orders of lists."""
    shown = copy.deepcopy(board)
    del shown["cursor"], shown["session"]["updated_at"], shown["plan"]
    for document in shown["documents"]:
        document.pop("my_rating", None)  # comes with the feedback
    for name, key in (("jobs", "id"), ("documents", "original_id"), ("feedback", "id")):
        shown[name] = {row[key]: row for row in shown[name]}
    return shown


@pytest.fixture(scope="module")
def address(server: embedded.Server, template: str) -> Iterator[Address]:
    with database_of_a_module(server, template) as found:
        yield found


@dataclass(frozen=True, slots=True)
class Site:
    """A server with its pages."""

    api: Api
    running: Running
    pages: list[Page] = field(default_factory=list)

    async def open(self, session: str, user: ApiUser | None = None) -> Page:
        page = await Page.load(user or self.api.anna, self.running, session)
        self.pages.append(page)
        await page.connect()
        return page

    async def open_stream(self, user: ApiUser) -> Page:
        """A page without a session, which follows everything from now on."""
        page = Page(user, self.running, "", {}, "")
        self.pages.append(page)
        await page.connect()
        return page

    async def reload(self, page: Page) -> dict[str, Any]:
        return show(await page.user.get(f"/sessions/{page.session}/board"))


@pytest.fixture
async def site(address: Address, tmp_path: Path) -> AsyncIterator[Site]:
    async with (
        open_api(address, tmp_path) as api,
        open_server(api.app, api.hub, host="127.0.0.1", port=0) as running,
    ):
        opened = Site(api, running)
        try:
            yield opened
        finally:
            for page in opened.pages:
                page.leave()


@contextlib.asynccontextmanager
async def working(api: Api) -> AsyncIterator[None]:
    worker = Worker(api.worker_engine, concurrency=4)
    task = asyncio.create_task(worker.run())
    try:
        yield
    finally:
        worker.stop()
        await asyncio.wait_for(task, PATIENCE_S)


async def write(site: Site, **wishes: Any) -> str:
    anna = site.api.anna
    session = await anna.make_session(models=MODELS, **wishes)
    await anna.post(f"/sessions/{session['id']}/generate")
    await site.api.work(anna, session["id"])
    return str(session["id"])


def is_done(page: Page) -> bool:
    board, money = page.board, page.board["money"]
    has_ended = all(job["completed_at"] for job in board["jobs"])
    is_paid = money["forecast"] == money["spent"] and money["held"] == "0"
    return board["session"]["status"] == "iteration_complete" and has_ended and is_paid


async def test_board_and_stream_meet_while_events_pour_in(site: Site) -> None:
    anna = site.api.anna
    session = (await anna.make_session(models=MODELS, until="paralysis"))["id"]
    early = await site.open(session)
    await anna.post(f"/sessions/{session}/generate")
    async with working(site.api):
        await early.until(lambda: early.count("document_changed") > 2)
        late = await site.open(session)  # in the middle of the run
        await early.until(lambda: is_done(early))
        await late.until(lambda: is_done(late))
    fresh = await site.reload(early)
    assert show(early.board) == fresh
    assert show(late.board) == fresh
    # Changes and events are read one after the other: the last event may follow the last change.
    await early.until(lambda: early.count("dialectic_contribution_received") == len(fresh["jobs"]))
    received = [f.data["data"] for f in early.frames if f.kind == "dialectic_contribution_received"]
    documents = {one["document"]["id"]: one["document"] for one in received}
    assert documents.keys() == {job["document_id"] for job in fresh["jobs"].values()}
    assert {one: documents[one] for one in fresh["documents"]} == fresh["documents"]
    # Every job was told to begin or to end, but not each of its moves by itself.
    assert early.count("jobs_changed") < 3 * len(fresh["jobs"])
    assert {frame.kind for frame in early.frames} >= {
        *("jobs_changed", "session_changed", "document_changed", "money_changed"),
        *("dialectic_progress_update", "dialectic_contribution_received"),
    }


async def test_a_stream_that_is_cut_again_and_again_loses_nothing(site: Site) -> None:
    anna = site.api.anna
    session = (await anna.make_session(models=MODELS, until="synthesis"))["id"]
    page = await site.open(session)
    await anna.post(f"/sessions/{session}/generate")

    def is_written() -> bool:
        status = page.board["session"]["status"]
        return status == "synthesis_generation_complete" and all(
            job["completed_at"] for job in page.board["jobs"]
        )

    async with working(site.api):
        while not is_written():
            known = len(page.frames)
            while len(page.frames) == known:
                await page.hear(5)
            await page.connect()
    fresh = await site.reload(page)
    shown = show(page.board)
    assert shown["jobs"] == fresh["jobs"]
    assert shown["documents"] == fresh["documents"]
    assert shown["stages"] == fresh["stages"]


async def test_an_edit_tells_which_documents_are_stale(site: Site) -> None:
    session = await write(site, until="antithesis")
    page = await site.open(session)
    thesis = next(one for one in page.board["documents"] if one["type"] == "thesis")
    body = {"content": "# Mine\n\nA stall."}
    answer = await site.api.anna.client.put(f"/contributions/{thesis['id']}", json=body)
    assert answer.is_success

    def is_stale() -> bool:
        return any(one["is_stale"] for one in page.board["documents"])

    await page.until(lambda: is_stale() and bool(page.board["needs"]))
    assert show(page.board) == await site.reload(page)
    (mine,) = [one for one in page.board["documents"] if one["original_id"] == thesis["id"]]
    assert (mine["version"], mine["title"]) == (2, "Mine")
    assert page.board["needs"][0]["code"] == "stale"


async def test_feedback_a_rating_and_a_budget_are_told(site: Site) -> None:
    session = await write(site, until="thesis")
    page, anna = await site.open(session), site.api.anna
    other = await site.api.let_in("a colleague who may not look")
    stranger = await site.open_stream(other)
    thesis = page.board["documents"][0]
    said = {"stage": "thesis", "text": "Think of winter too."}
    await anna.post(f"/sessions/{session}/feedback", said)
    await page.until(lambda: bool(page.board["feedback"]))
    assert page.board["feedback"][0]["text"] == said["text"]
    await anna.post(f"/contributions/{thesis['id']}/rating", {"rating": 5})
    await page.until(lambda: any(one["ratings"]["count"] for one in page.board["documents"]))
    answer = await anna.client.patch(f"/sessions/{session}", json={"budget": "3"})
    assert answer.is_success
    await page.until(lambda: page.board["money"]["budget"] == "3")
    assert show(page.board) == await site.reload(page)

    # What happens to one tenant is not told to another.
    project = await other.make_project(name="Mine alone")
    await stranger.until(lambda: stranger.count("project_changed") > 0)
    assert {frame.kind for frame in stranger.frames} == {"project_changed"}
    assert stranger.frames[-1].data["data"]["project"]["id"] == project["id"]


async def test_a_deposit_is_told_to_the_owner_of_the_wallet_alone(site: Site) -> None:
    stream = await site.open_stream(site.api.anna)
    await site.api.fund(site.api.anna)
    await stream.until(lambda: stream.count("money_changed") > 0)
    (frame,) = [frame for frame in stream.frames if frame.kind == "money_changed"]
    assert frame.data["data"]["wallet"]["money"]["balance"] == "1"


async def test_a_project_and_a_chat_that_are_deleted_are_told_to_be_gone(site: Site) -> None:
    anna = site.api.anna
    stream = await site.open_stream(anna)
    project = await anna.make_project(name="First name")
    await stream.until(lambda: stream.count("project_changed") == 1)
    await anna.client.patch(f"/projects/{project['id']}", json={"name": "Second name"})
    await stream.until(lambda: stream.count("project_changed") == 2)
    assert stream.frames[-1].data["data"]["project"]["name"] == "Second name"
    assert (await anna.client.delete(f"/projects/{project['id']}")).is_success
    await stream.until(lambda: stream.count("project_changed") == 3)
    gone = stream.frames[-1].data["data"]
    assert (gone["project_id"], gone["project"], gone["is_gone"]) == (project["id"], None, True)


async def test_nothing_is_read_for_a_tenant_without_followers(site: Site) -> None:
    asked: list[UUID] = []
    source = site.api.hub.source
    assert source is not None

    async def note(connection: Any, question: Any) -> Any:
        asked.append(question.tenant_id)
        return await source.read(connection, question)

    site.api.hub.source = replace(source, read=note)
    stream = await site.open_stream(site.api.ben)
    await write(site, until="thesis")  # by anna, whom no one follows
    await site.api.ben.make_project()
    await stream.until(lambda: stream.count("project_changed") > 0)
    assert set(asked) == {site.api.ben.account.tenant_id}


async def test_an_id_of_an_earlier_version_still_continues_the_events(site: Site) -> None:
    session = await write(site, until="thesis")
    page = await Page.load(site.api.anna, site.running, session)
    site.pages.append(page)
    mark, seq, _ = page.last_id.split(".")
    page.last_id = f"{mark}.{int(seq) - 1}"
    await page.connect()
    await page.until(lambda: bool(page.frames))
    assert page.frames[0].data["id"] == int(seq)


async def test_a_horizon_that_does_not_exist_yet_gets_the_current_state(site: Site) -> None:
    session = await write(site, until="thesis")
    page = await Page.load(site.api.anna, site.running, session)
    site.pages.append(page)
    mark, seq, horizon = page.last_id.split(".")
    page.last_id = f"{mark}.{seq}.{int(horizon) + 1_000_000}"
    await page.connect()
    await page.until(lambda: bool(page.frames))
    assert (page.frames[0].kind, page.frames[0].data["reason"]) == ("state", "unknown")
