"""The text of running calls reaches those who watch, from workers in this and other processes."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
import zipfile
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from chaos.event_clients import Frame, Line
from dialectic.api.server import open_server
from dialectic.client import AsyncClient
from dialectic.contract.events import Draft
from dialectic.db.pool import Address
from dialectic.providers.catalog import build_catalog
from dialectic.worker.worker import Worker
from dialectic_simulator import Simulator, open_simulator
from tests.scenario.api_in_process import Api, ApiUser, open_api
from tests.scenario.paid_models import MODELS, WRITER, configure
from tests.waiting import PATIENCE_S, until

CANARY = "zanzibar-heliotrope"
TEXT = f"# A plan\n\nBegin with {CANARY}. " + " ".join(
    f"Step {n} <b>is</b> done." for n in range(80)
)
# The call stands still here, with some of its text written.
HELD_TOKENS = 40
SCRIPT = {
    "models": MODELS,
    "default": {
        "text": TEXT,
        "chunk_tokens": 8,
        "gate": "middle",
        "gate_after_tokens": HELD_TOKENS,
    },
}


class Place:
    """An API with a simulated model whose answer stands still in its middle."""

    def __init__(self, api: Api, simulator: Simulator, port: int) -> None:
        self.api, self.simulator, self.port = api, simulator, port

    async def start(self) -> str:
        await self.api.fund(self.api.anna)
        wishes = {"models": [WRITER], "approve_spend": True}
        session = await self.api.anna.make_session(**wishes)
        await self.api.anna.post(f"/sessions/{session['id']}/generate")
        return str(session["id"])

    async def follow(self, user: ApiUser, query: str) -> Line:
        headers = {"Authorization": f"Bearer {user.token}"}
        return await Line(self.port, f"/api/v1/events{query}", headers).open()

    @asynccontextmanager
    async def working(self) -> AsyncIterator[Worker]:
        worker = Worker(self.api.worker_engine, concurrency=4)
        task = asyncio.create_task(worker.run())
        try:
            yield worker
        finally:
            self.simulator.release("middle")
            worker.stop(at_once=True)
            await asyncio.wait_for(task, PATIENCE_S)

    async def count_drafts(self) -> int:
        # As the worker, who sees the rows of no tenant: the owner's view comes from the API.
        rows = await self.api.worker_engine.db.transact(
            self.api.anna.account.tenant_id,
            lambda c: c.fetch("select job_id from dialectic_drafts"),
        )
        return len(rows)

    async def find_job(self, session_id: str) -> dict[str, Any]:
        jobs = (await self.api.anna.get(f"/sessions/{session_id}/jobs"))["items"]
        (job,) = [job for job in jobs if job["status"] == "processing"]
        return dict(job)

    async def read_document(self, session_id: str) -> str:
        await until(self.api.engine.address, lambda: self._is_written(session_id))
        (document,) = (await self.api.anna.get(f"/sessions/{session_id}/contributions"))["items"]
        return str((await self.api.anna.get(f"/contributions/{document['id']}"))["content"])

    async def _is_written(self, session_id: str) -> bool:
        return bool((await self.api.anna.get(f"/sessions/{session_id}/contributions"))["items"])


@pytest.fixture
async def place(address: Address, tmp_path: Path) -> AsyncIterator[Place]:
    async with open_simulator(SCRIPT) as simulator:
        simulator.hold("middle")
        catalog = build_catalog(configure(tmp_path, simulator, {"sim": None}))
        async with (
            open_api(address, tmp_path, catalog) as api,
            open_server(api.app, api.hub, host="127.0.0.1", port=0) as running,
        ):
            yield Place(api, simulator, int(running.url.rpartition(":")[2]))
        await catalog.close()


async def read_drafts(line: Line, chars: int) -> list[Frame]:
    """Read pieces of drafts until the text has at least this length."""
    found: list[Frame] = []
    async with asyncio.timeout(PATIENCE_S):
        while not found or found[-1].data["at"] + len(found[-1].data["text"]) < chars:
            frames = await line.read()
            assert frames is not None, "the stream ended"
            found += [frame for frame in frames if frame.kind == "draft"]
    return found


def join(pieces: list[Frame]) -> str:
    text = ""
    for piece in pieces:
        assert piece.data["at"] == len(text), "nothing is missing between pieces"
        text += piece.data["text"]
    return text


async def test_words_appear_while_the_call_is_open_and_begin_the_document(place: Place) -> None:
    session_id = await place.start()
    line = await place.follow(place.api.anna, f"?drafts={session_id}")
    async with place.working():
        pieces = await read_drafts(line, HELD_TOKENS * 4)
        text, newest = join(pieces), pieces[-1].data
        assert newest["phase"] == "writing"
        assert TEXT.startswith(text)
        assert CANARY in text
        assert (newest["session_id"], newest["attempt"], newest["turn"]) == (session_id, 1, 0)
        assert newest["words"] == len(text.split())
        assert all(piece.event_id == "" for piece in pieces)

        job = await place.find_job(session_id)
        draft = await place.api.anna.get(f"/jobs/{job['id']}/draft")
        assert (draft["at"], draft["text"], draft["phase"]) == (0, text, "writing")
        assert draft["job_id"] == newest["job_id"] == job["id"]
        assert draft["first_token_at"] is not None

        place.simulator.release("middle")
        assert (await place.read_document(session_id)).startswith(text)
        assert await place.count_drafts() == 0
        gone = await place.api.anna.client.get(f"/jobs/{job['id']}/draft")
        assert (gone.status_code, gone.json()["reason"]) == (404, "no_draft")
    line.close()


async def test_a_draft_does_not_move_the_position_of_a_stream(place: Place) -> None:
    session_id = await place.start()
    line = await place.follow(place.api.anna, f"?after=0&drafts={session_id}")
    async with place.working():
        await read_drafts(line, HELD_TOKENS * 4)
        last_id = line.last_id
        assert last_id
        place.simulator.release("middle")
        await place.read_document(session_id)
    line.close()
    again = await place.follow(place.api.anna, f"?after={last_id}")
    frames = await again.read()
    while not frames:
        frames = await again.read()
    assert frames[0].kind != "state", "the id of the last event is still known"
    again.close()


async def test_nothing_is_written_without_a_watcher(place: Place) -> None:
    session_id = await place.start()
    async with place.working():
        await place.simulator.wait_arrived(1)
        await until(place.api.engine.address, lambda: _has_text(place))
        job = await place.find_job(session_id)
        assert await place.count_drafts() == 0
        # The first look asks the worker for it; then it appears.
        first = await place.api.anna.get(f"/jobs/{job['id']}/draft")
        assert (first["text"], first["updated_at"]) == ("", None)
        text = ""
        async with asyncio.timeout(PATIENCE_S):
            while not text:
                text = (await place.api.anna.get(f"/jobs/{job['id']}/draft"))["text"]


async def _has_text(place: Place) -> bool:
    return any(call.chars for call in place.api.worker_engine.live_calls.list_documents())


async def test_another_tenant_gets_nothing(place: Place) -> None:
    session_id = await place.start()
    line = await place.follow(place.api.anna, f"?drafts={session_id}")
    async with place.working():
        await read_drafts(line, HELD_TOKENS * 4)
        job = await place.find_job(session_id)
        refused = await place.follow(place.api.ben, f"?drafts={session_id}")
        assert refused.status == 404
        refused.close()
        hidden = await place.api.ben.client.get(f"/jobs/{job['id']}/draft")
        assert (hidden.status_code, hidden.json()["reason"]) == (404, "no_job")
    line.close()


async def test_a_stream_takes_the_drafts_of_at_most_four_sessions(place: Place) -> None:
    query = "&".join(f"drafts={UUID(int=n)}" for n in range(5))
    line = await place.follow(place.api.anna, f"?{query}")
    assert line.status == 422
    line.close()


async def test_a_second_follower_gets_the_end_of_what_was_written(place: Place) -> None:
    session_id = await place.start()
    first = await place.follow(place.api.anna, f"?drafts={session_id}")
    async with place.working():
        text = join(await read_drafts(first, HELD_TOKENS * 4))
        second = await place.follow(place.api.anna, f"?drafts={session_id}")
        (piece, *_) = await read_drafts(second, len(text))
        assert text.endswith(piece.data["text"])
        second.close()
    first.close()


async def test_words_come_from_a_worker_in_another_process_and_go_with_it_when_it_is_killed(
    place: Place, tmp_path: Path
) -> None:
    session_id = await place.start()
    line = await place.follow(place.api.anna, f"?drafts={session_id}")
    log = tmp_path / "worker.log"
    with log.open("wb") as said:
        worker = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "dialectic", "worker"),
            env={
                **os.environ,
                "DIALECTIC_HOME": str(tmp_path),
                "DIALECTIC_DATABASE_URL": place.api.engine.address.url,
                "DIALECTIC_LEASE_S": "1.2",
                "DIALECTIC_LOG_LEVEL": "DEBUG",
            },
            stdout=said,
            stderr=said,
        )
        text = join(await read_drafts(line, HELD_TOKENS * 4))
        assert TEXT.startswith(text)
        assert CANARY in text
        assert await place.count_drafts() == 1
        os.kill(worker.pid, signal.SIGKILL)
        await worker.wait()
    line.close()
    # What the call said so far was told to those who watch, and to no one else.
    assert CANARY not in log.read_text()
    async with place.working():
        place.simulator.release("middle")
        assert (await place.read_document(session_id)).startswith(text)
        assert await place.count_drafts() == 0


async def test_a_draft_is_neither_exported_nor_logged(
    place: Place, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    session_id = await place.start()
    line = await place.follow(place.api.anna, f"?drafts={session_id}")
    with caplog.at_level(logging.DEBUG):
        async with place.working():
            await read_drafts(line, HELD_TOKENS * 4)
            session = await place.api.anna.get(f"/sessions/{session_id}")
            answer = await place.api.anna.client.get(f"/projects/{session['project_id']}/export")
            assert answer.is_success, answer.text
            (tmp_path / "export.zip").write_bytes(answer.content)
            events = await place.api.anna.get(f"/sessions/{session_id}/overview")
            assert CANARY not in json.dumps(events)
    line.close()
    with zipfile.ZipFile(tmp_path / "export.zip") as bundle:
        assert bundle.namelist()
        for name in bundle.namelist():
            assert CANARY.encode() not in bundle.read(name)
    assert CANARY not in caplog.text


async def test_the_python_client_follows_drafts_and_reads_one(place: Place) -> None:
    session_id = UUID(await place.start())
    url = f"http://127.0.0.1:{place.port}"
    async with AsyncClient(url, token=place.api.anna.token) as client, place.working():
        text, job_ids = "", set[UUID]()
        async with (
            asyncio.timeout(PATIENCE_S),
            aclosing(client.events(drafts=[session_id])) as items,
        ):
            async for item in items:
                if isinstance(item, Draft):
                    text += item.text
                    job_ids.add(item.job_id)
                    if len(text) >= HELD_TOKENS * 4:
                        break
        assert TEXT.startswith(text)
        assert [(await client.get_draft(job_id)).text for job_id in job_ids] == [text]
