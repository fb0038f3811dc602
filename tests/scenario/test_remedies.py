"""What helps against an error is the same command here and at a server, and a field over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest

from dialectic.postgres import embedded
from tests.command_pool import CommandResult
from tests.database.job_table import database_of_a_module
from tests.problems import list_codes, list_commands, read_error
from tests.scenario.server_thread import RemoteServer, open_remote_server
from tests.scenario.test_run import Home, copy_home

RUN = ("run", "A booking service.", "--models", "offline/skeptic", "--pause")


@dataclass(frozen=True, slots=True)
class Way:
    """One way in: the commands, and where they act."""

    home: Home
    settings: dict[str, str]

    def tell(self, *words: str) -> CommandResult:
        return self.home.tell(*words, **self.settings)

    def pause_one(self) -> str:
        """Make a session that is paused between two stages; give its id."""
        session = self.tell(*RUN).session
        assert self.tell("pause", session).code == 0
        return session


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
        yield Way(
            Home(tmp_path / "nothing"), {"server": remote_server.url, "token": remote_server.anna}
        )
        return
    with copy_home(made_home, tmp_path / "home") as home:
        yield Way(home, {})


def test_the_same_failure_is_told_with_the_same_command_here_and_at_a_server(way: Way) -> None:
    session = way.pause_one()
    refused = way.tell("iterate", session)
    unknown = way.tell("status", "ffffffff")
    model = way.tell("run", "A booking service.", "--models", "nope/x")

    assert (refused.code, list_codes(refused.stderr)) == (2, ["conflict"])
    assert list_commands(refused.stderr) == [f"dialectic resume {session[:8]}"]
    assert (unknown.code, list_codes(unknown.stderr)) == (2, ["not_found"])
    assert list_commands(unknown.stderr) == ["dialectic status"]
    assert (model.code, list_codes(model.stderr)) == (2, ["unknown_model"])
    assert list_commands(model.stderr) == ["dialectic models list"]


def test_a_script_reads_the_same_error_as_json_here_and_at_a_server(way: Way) -> None:
    result = way.tell("status", "ffffffff", "--json")
    error = read_error(result.stderr)

    assert (result.code, result.stdout) == (2, "")
    assert (error["code"], error["reason"], error["exit_code"]) == ("not_found", "no_session", 2)
    assert error["remedy"] == {"action": "list_sessions"}
    assert error["command"] == "dialectic status"


def test_a_command_that_names_its_server_is_told_commands_that_name_it(
    remote_server: RemoteServer, tmp_path: Path
) -> None:
    home = Home(tmp_path / "nothing")
    result = home.tell(
        "status", "ffffffff", "--server", remote_server.url, token=remote_server.anna
    )

    assert list_commands(result.stderr) == [f"dialectic --server {remote_server.url} status"]


def test_over_http_what_helps_is_a_field_and_not_a_command(
    remote_server: RemoteServer, tmp_path: Path
) -> None:
    way = Way(
        Home(tmp_path / "nothing"), {"server": remote_server.url, "token": remote_server.anna}
    )
    session = way.pause_one()
    with httpx2.Client(
        base_url=f"{remote_server.url}/api/v1",
        headers={"Authorization": f"Bearer {remote_server.anna}"},
    ) as client:
        problem = client.post(f"/sessions/{session}/iterate").json()

    assert (problem["code"], problem["reason"]) == ("conflict", "session_paused")
    assert problem["remedy"] == {"action": "resume", "session_id": session}
    assert "dialectic" not in problem["detail"]


def test_a_token_that_is_not_known_is_made_by_the_operator(
    remote_server: RemoteServer, tmp_path: Path
) -> None:
    home = Home(tmp_path / "nothing")
    result = home.tell("status", server=remote_server.url, token=f"dlk_{'x' * 43}")

    assert (result.code, list_codes(result.stderr)) == (2, ["token_invalid"])
    assert "on the server: dialectic user token NAME" in result.stderr
