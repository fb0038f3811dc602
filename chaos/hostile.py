"""A server has an endpoint that means harm, and users who have nothing to do with it.

Sessions are begun at each attack of the provider; others, with offline models, beside them. All
the while someone asks the server for something small. No answer may be late because of an attack,
the server may not end, and the other sessions come to their end. What other programs on the machine
take is not held against it: the turns of its event loop are measured in processor time, its answers
against those of a server that nobody attacks.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2

from chaos.crew import FAULT
from chaos.hostile_provider import ATTACKS, CALM
from chaos.lab import ROOT, Stuck, build_environment, prepare_home, temporary_home
from chaos.loop_turns import read_longest
from chaos.sabotage import NONE, Sabotage, build_command
from chaos.verdict import Report, quantile

CONFIG = """
[endpoints.{name}]
kind = "openai"
base_url = "http://127.0.0.1:{port}/{name}/v1"
timeout_s = {timeout_s}

[endpoints.{name}.models.bad]
context_window_tokens = 32000
max_output_tokens = 2000
input_usd_per_million = 0
output_usd_per_million = 0
tokenizer = "chars:4"
"""
FRIENDLY = ["offline/architect", "offline/skeptic"]
LATE_MAX_S = 1.0
TURN_MAX_S = 0.25
POLL_S = 0.05
START_S = 60.0
TURNS = "long_turns"
ENDED = ("complete", "failed", "cancelled")


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Which attacks are made how often, how long a call may last, and how long all may take."""

    attacks: tuple[str, ...]
    rounds: int
    timeout_s: float = 20.0
    patience_s: float = 240.0


SELECTION = Size(attacks=tuple(ATTACKS), rounds=1)
SMALL = Size(attacks=("packed_comments", "packed_texts"), rounds=1, timeout_s=5.0)
SABOTAGED = replace(SMALL, attacks=("packed_comments",))
FULL = replace(SELECTION, rounds=5, patience_s=900.0)


@dataclass(slots=True)
class Visitor:
    """Someone who asks for something small again and again, and notes how long it took."""

    client: httpx2.AsyncClient
    path: str
    waits_s: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    async def visit(self) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            begun_s = clock()
            try:
                answer = await self.client.get(self.path)
            except httpx2.TransportError as error:
                self.failures.append(f"{self.path}: {type(error).__name__}")
            else:
                if not answer.is_success:
                    self.failures.append(f"{self.path}: {answer.status_code}")
            self.waits_s.append(clock() - begun_s)
            await asyncio.sleep(POLL_S)


async def run(report: Report, size: Size, sabotage: Sabotage = NONE) -> None:
    async with temporary_home(report) as home:
        await prepare_home(report, home)
        with provider() as port, provider() as calm_port:
            text = "".join(
                CONFIG.format(name=name, port=port, timeout_s=size.timeout_s)
                for name in size.attacks
            )
            (home / "config.toml").write_text(text)
            async with serve(home, sabotage) as (server, url):
                async with httpx2.AsyncClient(
                    base_url=url, timeout=size.patience_s, trust_env=False
                ) as client:
                    calm = Visitor(client, f"http://127.0.0.1:{calm_port}/{CALM}")
                    begun_s = await _attack(report, size, client, calm)
                report.expect("how the server ended by itself", server.poll(), None)
        turn_s = read_longest(home / TURNS, since_s=begun_s)
        report.expect_at_most("longest turn of the server's loop", turn_s, TURN_MAX_S, " s")
        said = (home / "serve.log").read_text(errors="replace")
        report.expect_none("faults in the server's log", FAULT.findall(said))
        code, told = await command(home, "wallet", "verify")
        report.expect("exit code of `wallet verify`", code, 0)
        if code:
            report.say(told)


async def _attack(report: Report, size: Size, client: httpx2.AsyncClient, calm: Visitor) -> float:
    """Attack the server, judge its answers, and return when the attacks began."""
    visitors = [Visitor(client, path) for path in ("/healthz", "/api/v1/projects?limit=1")]
    async with visiting([*visitors, calm]):
        # What it takes when all are friendly, on this machine, at this moment.
        friendly = await begin(client, FRIENDLY)
        await until_ended(client, [friendly], size.patience_s)
        usual_s = max(max(visitor.waits_s) for visitor in visitors)
        report.note("longest answer before the attacks", f"{usual_s:.2f} s")
        for visitor in visitors:
            visitor.waits_s.clear()
        begun_s = time.monotonic()
        for turn in range(size.rounds):
            hostile = [await begin(client, [f"{name}/bad"]) for name in size.attacks]
            beside = [await begin(client, FRIENDLY) for _ in range(2)]
            report.say(f"round {turn + 1}: {len(hostile)} attacks")
            ends = await until_ended(client, [*hostile, *beside], size.patience_s)
            failed = [one for one in beside if ends[one] != "complete"]
            report.expect_none(f"friendly sessions that failed beside attacks {turn + 1}", failed)
    report.note("longest answer of a server that nobody attacks", f"{max(calm.waits_s):.2f} s")
    usual_s = max(usual_s, *calm.waits_s)
    waits_s = [wait_s for visitor in visitors for wait_s in visitor.waits_s]
    report.note("answers during the attacks", len(waits_s))
    report.note("p50, p99", f"{quantile(waits_s, 0.5):.3f} s, {quantile(waits_s, 0.99):.3f} s")
    report.expect_at_most(
        "longest answer, beyond the usual", round(max(waits_s) - usual_s, 2), LATE_MAX_S, " s"
    )
    failures = [failure for visitor in visitors for failure in visitor.failures]
    report.expect_none("requests that were not answered", failures)
    return begun_s


@asynccontextmanager
async def visiting(visitors: list[Visitor]) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(visitor.visit()) for visitor in visitors]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def begin(client: httpx2.AsyncClient, models: list[str]) -> str:
    """Begin a session until thesis; return its id."""
    project = await post(client, "/projects", {"prompt": "A small library lends tools."})
    wish = {"models": models, "until": "thesis"}
    session = await post(client, f"/projects/{project['id']}/sessions", wish)
    await post(client, f"/sessions/{session['id']}/generate", {})
    session_id: str = session["id"]
    return session_id


async def post(client: httpx2.AsyncClient, path: str, wish: dict[str, Any]) -> dict[str, Any]:
    headers = {"Idempotency-Key": str(uuid4())}
    answer = await client.post(f"/api/v1{path}", json=wish, headers=headers)
    if not answer.is_success:
        raise Stuck(f"POST {path}: {answer.status_code} {answer.text[:300]}")
    made: dict[str, Any] = answer.json()
    return made


async def until_ended(
    client: httpx2.AsyncClient, sessions: list[str], patience_s: float
) -> dict[str, str]:
    """Wait until these sessions have ended; return how."""
    clock = asyncio.get_running_loop().time
    give_up_at_s, ends = clock() + patience_s, dict[str, str]()
    while len(ends) < len(sessions):
        if clock() > give_up_at_s:
            raise Stuck(f"{len(sessions) - len(ends)} sessions came to no end")
        for session_id in set(sessions) - set(ends):
            status = (await client.get(f"/api/v1/sessions/{session_id}")).json()["status"]
            if end := next((word for word in ENDED if word in status), None):
                ends[session_id] = end
        await asyncio.sleep(4 * POLL_S)
    return ends


@contextmanager
def provider() -> Iterator[int]:
    """Run the hostile provider in a process of its own; yield its port."""
    with subprocess.Popen(
        [sys.executable, "-m", "chaos.hostile_provider"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


def start_server(home: Path, sabotage: Sabotage) -> subprocess.Popen[str]:
    python, is_module, *words = build_command(sabotage, "serve", "--port", "0")
    with (home / "serve.log").open("w") as log:
        return subprocess.Popen(
            [python, is_module, "chaos.loop_turns", str(home / TURNS), *words],
            cwd=ROOT,
            env=build_environment(home, log_level="INFO"),
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )


@asynccontextmanager
async def serve(home: Path, sabotage: Sabotage) -> AsyncIterator[tuple[subprocess.Popen[str], str]]:
    """Run `dialectic serve` with its worker; yield the process and its URL."""
    process = await asyncio.to_thread(start_server, home, sabotage)
    assert process.stdout is not None
    try:
        async with asyncio.timeout(START_S):
            url = (await asyncio.to_thread(process.stdout.readline)).strip()
        if not url:
            raise Stuck(f"no server: {(home / 'serve.log').read_text()[-500:]}")
        yield process, url
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            await asyncio.to_thread(process.wait, START_S)
        process.kill()
        process.stdout.close()
        process.wait()


async def command(home: Path, *words: str) -> tuple[int | None, str]:
    """Run one command of the product; return its code and what it said."""
    ended = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "dialectic", *words],
        cwd=ROOT,
        env=build_environment(home),
        capture_output=True,
        text=True,
        check=False,
    )
    return ended.returncode, ended.stdout + ended.stderr
