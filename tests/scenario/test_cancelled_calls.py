"""A call in flight is aborted when it is not wanted any more, and neither lost nor made twice when
its worker is stopped: real processes, and a simulator that holds its answers back."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from dialectic_simulator import Simulator, open_simulator
from tests.scenario.simulated_endpoints import PLAIN_TOKENS
from tests.scenario.test_run import PROMPT, Home, copy_home, read_project, unique_name, wait_for
from tests.scenario.whole_session import write_unrepaired
from tests.waiting import PATIENCE_S

TEXT = "# A plan\n\nWhat is left over at closing time is sold at half its price.\n"
# The answer has begun when it is held back.
SCRIPT = {"models": PLAIN_TOKENS, "default": {"text": TEXT, "gate_after_tokens": 4}}
MODEL = """
[endpoints.play]
kind = "{kind}"
base_url = "{base_url}"

[endpoints.play.models.m]
context_window_tokens = 64000
max_output_tokens = 2000
input_usd_per_million = 0
output_usd_per_million = 0
tokenizer = "chars:4"
"""


@pytest.fixture(scope="module")
def home(made_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    with copy_home(made_home, tmp_path_factory.mktemp("leaving") / "home") as opened:
        yield opened


@dataclass(frozen=True, slots=True)
class Scene:
    """A session whose call has begun, in a worker that is a process of its own."""

    home: Home
    simulator: Simulator
    name: str
    session: str

    async def tell(self, *words: str) -> str:
        result = await asyncio.to_thread(self.home.tell, *words)
        assert result.code == 0, result.stderr
        return result.stdout

    async def start_worker(self) -> subprocess.Popen[str]:
        process = self.home.start("worker", "--concurrency", "4")
        assert process.stderr is not None
        ready = await asyncio.to_thread(process.stderr.readline)
        assert "is ready for" in ready
        return process

    async def wait_arrived(self, count: int) -> None:
        await asyncio.wait_for(self.simulator.wait_arrived(count), PATIENCE_S)

    async def wait_ended(self, count: int) -> None:
        await asyncio.wait_for(self.simulator.wait_ended(count), PATIENCE_S)

    async def leave(self, worker: subprocess.Popen[str]) -> None:
        result = await asyncio.to_thread(wait_for, worker)
        assert (result.code, "Worker stopped." in result.stderr) == (0, True), result.stderr

    async def read_job(self) -> dict[str, Any]:
        status = await asyncio.to_thread(self.home.read_status, self.session)
        (job,) = status["jobs"]
        found: dict[str, Any] = job
        return found

    def list_documents(self) -> list[str]:
        files = read_project(self.home, self.name)
        return [path for path in files if path.endswith("_1_thesis.md")]


def configure(home: Home, **words: str) -> None:
    home.path.mkdir(exist_ok=True)
    (home.path / "config.toml").write_text(MODEL.format(**words))


@asynccontextmanager
async def open_scene(home: Home, wire: str) -> AsyncIterator[Scene]:
    name = unique_name()
    async with open_simulator(SCRIPT) as simulator:
        configure(home, kind=wire, base_url=simulator.base_url(wire))
        simulator.hold()
        process = str(write_unrepaired(home.path / name))
        words = ["run", "--detach", "--until", "thesis", "--name", name, "--process", process]
        words += ["--models", "play/m"]
        result = await asyncio.to_thread(home.tell, *words, PROMPT)
        assert result.code == 0, result.stderr
        yield Scene(home, simulator, name, result.stdout.strip())


async def test_cancelling_a_session_closes_the_stream_of_its_call(home: Home) -> None:
    async with open_scene(home, "anthropic") as scene:
        worker = await scene.start_worker()
        await scene.wait_arrived(1)
        await scene.tell("cancel", scene.session)
        await scene.wait_ended(1)
        (call,) = scene.simulator.log.calls
        assert (call.client_closed, call.finish_reason) == (True, None)
        job = await scene.read_job()
        assert (job["status"], job["attempt_count"]) == ("cancelled", 1)
        worker.send_signal(signal.SIGTERM)
        await scene.leave(worker)
        assert scene.list_documents() == []
        assert len(scene.simulator.log.calls) == 1


async def test_a_worker_that_is_told_to_leave_finishes_its_call(home: Home) -> None:
    async with open_scene(home, "openai") as scene:
        worker = await scene.start_worker()
        await scene.wait_arrived(1)
        worker.send_signal(signal.SIGTERM)
        scene.simulator.release()
        await scene.leave(worker)
        job = await scene.read_job()
        assert (job["status"], job["attempt_count"]) == ("completed", 1)
        assert len(scene.list_documents()) == len(scene.simulator.log.calls) == 1


async def test_a_server_that_is_told_to_leave_ends_streams_and_finishes_its_workers_call(
    home: Home,
) -> None:
    async with open_scene(home, "openai") as scene:
        server = home.start("serve", "--port", "0")
        assert server.stdout is not None
        url = (await asyncio.to_thread(server.stdout.readline)).strip()
        async with (
            httpx2.AsyncClient(base_url=url, timeout=PATIENCE_S) as client,
            client.stream("GET", "/api/v1/events") as events,
        ):
            lines = events.aiter_lines()
            await anext(lines)
            await scene.wait_arrived(1)
            server.send_signal(signal.SIGTERM)
            assert [line async for line in lines if line.startswith("event: state")] == []
        assert server.poll() is None, "it waits for the call of its worker"
        scene.simulator.release()
        result = await asyncio.to_thread(wait_for, server)
        assert (result.code, "Stopped." in result.stderr) == (0, True), result.stderr
        job = await scene.read_job()
        assert (job["status"], job["attempt_count"]) == ("completed", 1)
        assert len(scene.list_documents()) == len(scene.simulator.log.calls) == 1


async def test_a_worker_that_is_told_twice_gives_its_call_back_and_another_makes_it(
    home: Home,
) -> None:
    async with open_scene(home, "openai") as scene:
        worker = await scene.start_worker()
        await scene.wait_arrived(1)
        worker.send_signal(signal.SIGTERM)
        worker.send_signal(signal.SIGINT)
        await scene.leave(worker)
        await scene.wait_ended(1)
        assert scene.simulator.log.calls[0].client_closed
        assert (await scene.read_job())["status"] == "pending", "nobody waits for its lease"
        assert scene.list_documents() == []

        scene.simulator.release()
        other = await scene.start_worker()
        await scene.wait_ended(2)
        other.send_signal(signal.SIGTERM)
        await scene.leave(other)
        job = await scene.read_job()
        assert (job["status"], job["attempt_count"], job["retry_count"]) == ("completed", 2, 0)
        assert len(scene.list_documents()) == 1
        assert len(scene.simulator.log.calls) == 2
