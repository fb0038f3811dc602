"""The two walks of ARCHITECTURE.md are the ways that a real run takes through the modules."""

from __future__ import annotations

import functools
import gc
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import httpx2

from dialectic.api.server import open_server
from dialectic.db.pool import Address
from tests.scenario.api_in_process import open_api
from tests.scenario.module_trace import ModuleTrace
from tests.servers import copy_server
from tests.tidy.module_list import list_modules
from tests.waiting import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
STATIONS_MAX = 15
PIPELINE = "dialectic.pipeline."
MODULES = {name.removeprefix("dialectic.") for name in list_modules()}


@dataclass(frozen=True, slots=True)
class Walk:
    """A walk as the page describes it: its stations in order, and every module that it names."""

    stations: list[str]
    named: set[str]

    @property
    def packages(self) -> set[str]:
        return {name.partition(".")[0] for name in self.named}


def read_walk(heading: str) -> Walk:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    section = page.split(f"\n### {heading}\n", 1)[1].split("\n#", 1)[0]
    stations = re.findall(r"^\d+\. `([\w.]+)`", section, re.MULTILINE)
    words = {word for word in re.findall(r"`([a-z_.]+)`", section) if not word.endswith(".md")}
    assert {word for word in words if "." in word} <= MODULES, "modules that do not exist"
    return Walk(stations, words & MODULES)


def check(walk: Walk, entered: list[str]) -> None:
    """See that the page and the run agree."""
    assert 0 < len(walk.stations) <= STATIONS_MAX
    assert set(walk.stations) <= MODULES
    order = [name for name in entered if name in walk.stations]
    assert order == walk.stations, entered
    unused = {name for name in walk.named if not any(has(name, other) for other in entered)}
    assert unused == set(), "named, but not entered"
    packages = {name.partition(".")[0] for name in entered}
    assert packages - walk.packages == set(), "entered, but not named"


def has(name: str, entered: str) -> bool:
    """Say whether a module is the one that is named, or in the package that is named."""
    return entered == name or entered.startswith(f"{name}.")


def shorten(names: Iterable[str]) -> list[str]:
    return [name.removeprefix("dialectic.") for name in names]


def test_a_run_to_a_file_walks_through_the_listed_modules(made_home: Path, tmp_path: Path) -> None:
    copy_server(made_home, tmp_path / "home")
    listing, out = tmp_path / "modules", tmp_path / "out"
    words = ["run", "A village hall.", "--models", "offline/skeptic", "--until", "thesis"]
    result = subprocess.run(
        [sys.executable, "-m", "tests.scenario.module_trace", listing, *words, "--out", out],
        env={
            "DIALECTIC_HOME": str(tmp_path / "home"),
            "DIALECTIC_DATABASE_IDLE_S": "0",
            "PATH": "/usr/bin:/bin",
        },
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )

    assert result.returncode == 0, result.stderr
    assert Path(result.stdout.split()[0]).is_file()
    entered = shorten(listing.read_text(encoding="utf-8").splitlines())
    check(read_walk('`dialectic run "…"` to a file'), entered)


async def test_a_request_to_generate_walks_through_the_listed_modules_to_an_event(
    address: Address, tmp_path: Path
) -> None:
    trace = ModuleTrace()
    forget_answers()
    async with open_api(address, tmp_path / "home") as api:
        session = (await api.anna.make_session())["id"]
        try:
            async with open_server(api.app, api.hub, host="127.0.0.1", port=0) as running:
                await generate_and_follow(running.url, api.anna.token, session, trace)
        finally:
            trace.stop()
    check(read_walk("`POST …/generate` to an event"), shorten(trace.modules))


def forget_answers() -> None:
    """Forget what earlier tests of this process had computed: a module is entered to compute it."""
    for kept in gc.get_objects():
        if isinstance(kept, functools._lru_cache_wrapper) and kept.__module__.startswith(PIPELINE):
            kept.cache_clear()


async def generate_and_follow(url: str, token: str, session: str, trace: ModuleTrace) -> None:
    """Follow a session, then start its first stage, and read its first event."""
    async with (
        httpx2.AsyncClient(
            base_url=f"{url}/api/v1",
            headers={"Authorization": f"Bearer {token}"},
            timeout=PATIENCE_S,
        ) as client,
        client.stream("GET", "/events", params={"session": session}) as stream,
    ):
        lines = stream.aiter_lines()
        while not (await anext(lines)).startswith("id: "):
            pass  # until the stream says where it begins
        trace.start()
        asked = await client.post(
            f"/sessions/{session}/generate", headers={"Idempotency-Key": "generate"}
        )
        assert asked.is_success, asked.text
        while await anext(lines) != "event: contribution_generation_started":
            pass  # blank lines and comments
