"""People learn what failed, waits for them or is done, with commands here and at a server."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dialectic.postgres import embedded
from tests.command_pool import CommandResult
from tests.database.job_table import database_of_a_module
from tests.problems import list_codes, list_commands
from tests.scenario.server_thread import RemoteServer, open_remote_server
from tests.scenario.test_run import Home, copy_home

PROMPT = "A booking service."
RUN = ("run", "--models", "offline/skeptic", "--pause", "--name", "Hall")
WAITS = "Hall: Thesis is complete"


@dataclass(frozen=True, slots=True)
class Way:
    """One way in: the commands, and where they act."""

    home: Home
    settings: dict[str, str]

    def tell(self, *words: str) -> CommandResult:
        return self.home.tell(*words, **self.settings)

    def read(self, *words: str) -> dict[str, Any]:
        result = self.tell("notifications", "--json", *words)
        assert result.code == 0, result.stderr
        found: dict[str, Any] = json.loads(result.stdout)
        return found


@pytest.fixture(scope="module")
def remote_server(
    server: embedded.Server, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RemoteServer]:
    home = tmp_path_factory.mktemp("remote_server") / "home"
    with (
        database_of_a_module(server, template) as address,
        open_remote_server(address, home) as remote_server,
    ):
        yield remote_server


@pytest.fixture(params=["here", "there"])
def way(
    request: pytest.FixtureRequest, made_home: Path, tmp_path: Path, remote_server: RemoteServer
) -> Iterator[Way]:
    if request.param == "there":
        there = {"server": remote_server.url, "token": remote_server.anna}
        yield Way(Home(tmp_path / "nothing"), there)
        return
    with copy_home(made_home, tmp_path / "home") as home:
        yield Way(home, {})


def test_what_a_program_saw_waits_for_a_person_to_read_it(way: Way) -> None:
    run = way.tell(*RUN, "--json", PROMPT)
    assert run.code == 3, run.stderr
    assert "unread" not in run.stderr
    session = run.session

    listed = way.read()
    (one,) = listed["notifications"]
    assert (one["type"], one["title"], listed["unread_count"]) == (
        "session_waits_for_you",
        WAITS,
        1,
    )
    assert one["link_path"] == f"/sessions/{session}"
    assert (one["remedy"]["action"], one["remedy"]["session_id"]) == ("start_next", session)
    assert one["read_at"] is one["resolved_at"] is None

    status = way.tell("status", session)
    assert "1 unread notification: `dialectic notifications` shows it." in status.stderr
    shown = way.tell("notifications")
    assert WAITS in shown.stdout
    assert list_commands(shown.stdout) == [f"dialectic next {session[:8]}"]

    marked = way.tell("notifications", "read", str(one["id"]))
    assert (marked.code, marked.stderr) == (0, "1 notification marked as read.\n")
    assert way.tell("notifications").stdout == ""
    assert "unread" not in way.tell("status").stderr
    assert "(read)" in way.tell("notifications", "--all").stdout

    going_on = way.tell("next", session)
    assert going_on.code == 3, going_on.stderr
    told = way.read("--all")["notifications"]
    titles = {one["title"]: one for one in told if one["session_id"] == session}
    assert titles[WAITS]["resolved_at"] is not None
    assert titles["Hall: Antithesis is complete"]["resolved_at"] is None
    assert titles["Hall: Antithesis is complete"]["read_at"] is not None, "the command has shown it"
    assert "(resolved)" in way.tell("notifications", "--all").stdout


def test_all_are_read_at_once_and_an_unknown_one_is_refused(way: Way) -> None:
    session = way.tell(*RUN, "--json", PROMPT).session
    result = way.tell("notifications", "read")
    assert result.code == 0
    assert "1 notification marked as read." in result.stderr
    assert "0 notifications marked as read." in way.tell("notifications", "read").stderr
    refused = way.tell("notifications", "read", "987654321")
    assert (refused.code, list_codes(refused.stderr)) == (2, ["not_found"])
    assert list_commands(refused.stderr) == ["dialectic notifications"]

    assert way.tell("cancel", session).code == 0
    newest = way.read("--all", "--limit", "1")["notifications"][0]
    assert (newest["type"], newest["title"]) == ("session_stopped", "Hall was cancelled")
    assert newest["read_at"] is not None, "they did it themselves"


@pytest.mark.parametrize("point", ["before_commit=kill", "after_commit=kill"])
def test_a_run_that_is_killed_around_its_last_commit_tells_its_end_once(
    made_home: Path, tmp_path: Path, point: str
) -> None:
    with copy_home(made_home, tmp_path / "home") as home:
        way = Way(home, {})
        killed = home.tell(*RUN, "--json", PROMPT, failpoints=point)
        assert killed.code == -signal.SIGKILL
        assert way.tell("resume", killed.session, "--json").code == 3

        (one,) = way.read("--all")["notifications"]
        assert (one["title"], one["read_at"]) == (WAITS, None)
