"""A server of its own for measurements: a temporary home, models that answer at a known pace.

Knows no browser. Times of a processor come from `/proc`, so they are known on Linux alone.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROMPT = "A booking service for a village hall that volunteers can run in an hour a week."
ENDPOINT = "paced"
# An answer begins after half a second and takes about two more, as a quick model's does.
SCRIPT = """
[models."*"]
tokenizer = "chars:4"
context_window_tokens = 1000000
[default]
first_byte_s = 0.5
first_byte_spread = 0.3
tokens_per_s = {pace}
chunk_tokens = {pace}
"""
CONFIG = """
[endpoints.{endpoint}]
kind = "openai"
base_url = "{url}/v1"
max_concurrency = {calls_max}
"""
MODEL = """
[endpoints.{endpoint}.models.m{number}]
context_window_tokens = 1000000
max_output_tokens = 4000
input_usd_per_million = 0
output_usd_per_million = 0
tokenizer = "chars:4"
"""
PACE, SEATS_MAX = 400, 8
START_MAX_S, STOP_MAX_S = 120, 60


@dataclass(frozen=True, slots=True)
class Site:
    """A server that is measured."""

    url: str
    home: Path
    pid: int

    def ask(self, path: str, body: object = None, method: str | None = None) -> Any:
        """Send a request to the API."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.url}/api/v1{path}", data, headers, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def make_session(self, models: Sequence[str], *, start: bool) -> str:
        """Make a session; return its id."""
        wish = {"prompt": PROMPT, "name": f"{len(models)} seats", "models": list(models)}
        made = self.ask("/runs", {**wish, "start": start, "is_autopilot": True})
        return str(made["session"]["id"])

    def processor_s(self) -> tuple[float, float]:
        """Read the seconds that the server and its database have used of a processor."""
        own = _read_processor_s(Path("/proc", str(self.pid)))
        postgres = sum(_read_processor_s(each) for each in _list_database(self.home))
        return own, postgres


def paced(seats: int) -> list[str]:
    """Name a model for each seat."""
    return [f"{ENDPOINT}/m{number % SEATS_MAX}" for number in range(seats)]


def _read_processor_s(process: Path) -> float:
    try:
        fields = (process / "stat").read_text().rpartition(")")[2].split()
    except OSError:  # it has ended
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _list_database(home: Path) -> Iterator[Path]:
    """List the processes of a home's database: they run in its folder."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").readlink().is_relative_to(home):
                yield process
        except OSError:
            continue


@contextmanager
def running(*words: str, home: Path) -> Iterator[tuple[int, str]]:
    """Run a command of ours that serves; yield its process id and its address."""
    command = [str(Path(sys.executable).with_name("dialectic")), *words]
    environment = {**os.environ, "DIALECTIC_HOME": str(home)}
    said = home / f"{words[0]}.log"
    # Into a file: a pipe that nothing reads would fill up and stop it.
    with (
        said.open("wb") as log,
        subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT) as process,
    ):
        try:
            yield process.pid, _wait_for_address(process, said)
        finally:
            process.terminate()
            process.wait(STOP_MAX_S)


def _wait_for_address(process: subprocess.Popen[bytes], said: Path) -> str:
    until_s = time.monotonic() + START_MAX_S
    while time.monotonic() < until_s and process.poll() is None:
        if (found := re.search(r"http://[\w.:]+\d", said.read_text())) is not None:
            return found[0]
        time.sleep(0.05)
    raise SystemExit(f"The server did not start: {said.read_text()}")


@contextmanager
def serving(*, pace: int = PACE, calls_max: int = 12) -> Iterator[Site]:
    """Serve a home of its own with a worker, and a simulator that its models lead to."""
    with tempfile.TemporaryDirectory(prefix="bench-web-") as folder, ExitStack() as stack:
        home = Path(folder).resolve()
        script = home / "script.toml"
        script.write_text(SCRIPT.format(pace=pace))
        simulate = running("simulate", "--port", "0", "--script", str(script), home=home)
        _, simulator = stack.enter_context(simulate)
        lines = CONFIG.format(endpoint=ENDPOINT, url=simulator, calls_max=calls_max)
        lines += "".join(MODEL.format(endpoint=ENDPOINT, number=n) for n in range(SEATS_MAX))
        (home / "config.toml").write_text(lines)
        pid, url = stack.enter_context(running("serve", "--port", "0", home=home))
        yield Site(url, home, pid)
