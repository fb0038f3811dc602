"""Short commands answer at once: the server stays, and they load little."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from dialectic.postgres.embedded import describe_server, stop_server
from tests.cases import naming
from tests.servers import copy_server
from tests.waiting import PATIENCE_S

# Runs a command, and tells at its end which modules it has loaded.
PROGRAM = """
import atexit, sys
from pathlib import Path
listing = Path(sys.argv.pop(1))
atexit.register(lambda: listing.write_text("\\n".join(sys.modules)))
sys.argv[0] = "dialectic"
from dialectic.__main__ import main
main()
"""
# Each takes as long to load as a short command may take, or belongs to something that does.
HEAVY = """
fastapi starlette uvicorn httpx httpx2 numpy onnxruntime tokenizers wordllama rich yaml pgqueuer
opentelemetry obstore pypdf docx keyring
dialectic.api dialectic.client dialectic.events dialectic.limits dialectic.pipeline
dialectic.processes dialectic.providers dialectic.publishing dialectic.retrieval dialectic.tokens
dialectic.uploads dialectic.worker dialectic_simulator
dialectic.contract.events dialectic.contract.sessions dialectic.core.job
""".split()
# A few more than today: room for a module of the standard library, not for a framework.
MODULES_MAX = 430


@dataclass(frozen=True)
class Home:
    """A home with one finished session, whose server stays."""

    path: Path
    session_id: str
    contribution_id: str

    @property
    def environment(self) -> dict[str, str]:
        return build_environment(self.path)


def build_environment(home: Path) -> dict[str, str]:
    return {**os.environ, "DIALECTIC_HOME": str(home), "DIALECTIC_DATABASE_IDLE_S": "600"}


def run(home: Path, *words: str) -> str:
    """What a command prints."""
    done = subprocess.run(
        [sys.executable, "-m", "dialectic", *words],
        env=build_environment(home),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def used(made_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    path = tmp_path_factory.mktemp("used") / "home"
    copy_server(made_home, path)
    run(path, "run", "Plan a walk.", "--models", "offline/skeptic", "--until", "thesis")
    session_id = json.loads(run(path, "list", "--json"))["sessions"][0]["id"]
    contribution_id = json.loads(run(path, "list", session_id, "--json"))[0]["id"]
    yield Home(path, session_id, contribution_id)
    stop_server(path)


def list_loaded(home: Home, listing: Path, *words: str) -> set[str]:
    subprocess.run(
        [sys.executable, "-c", PROGRAM, listing, *words],
        env=home.environment,
        capture_output=True,
        timeout=PATIENCE_S,
        check=True,
    )
    return set(listing.read_text().split("\n"))


def test_commands_that_only_read_load_nothing_that_is_slow_to_load(
    used: Home, tmp_path: Path
) -> None:
    commands = {
        "status": ["status"],
        "list": ["list"],
        "wallet balance": ["wallet", "balance"],
        "notifications": ["notifications"],
        "show CONTRIBUTION": ["show", used.contribution_id],
        "list SESSION": ["list", used.session_id],
        "status SESSION": ["status", used.session_id],
    }
    for name, words in commands.items():
        with naming(name):
            loaded = list_loaded(used, tmp_path / "modules", *words)
            assert "dialectic.engine" in loaded
            assert {heavy for heavy in HEAVY if heavy in loaded} == set()
            assert len(loaded) <= MODULES_MAX


def test_the_next_command_finds_the_server_that_the_last_one_left(used: Home) -> None:
    run(used.path, "status")
    pid = describe_server(used.path).pid
    assert pid is not None
    run(used.path, "wallet", "balance")
    assert describe_server(used.path).pid == pid
    run(used.path, "db", "stop")
    assert not describe_server(used.path).running
    run(used.path, "status")
    assert describe_server(used.path).running


def test_a_run_at_a_terminal_says_at_once_that_it_began(used: Home) -> None:
    terminal, inner = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "dialectic", "run", "Plan a walk.", "--dry-run"],
        env=used.environment,
        stdin=inner,
        stdout=subprocess.DEVNULL,
        stderr=inner,
    ) as process:
        os.close(inner)
        told = os.read(terminal, 1000).decode()
        assert told.startswith("Preparing the run")
        process.terminate()
        process.wait(PATIENCE_S)
    os.close(terminal)
