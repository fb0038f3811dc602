"""One database has one store of documents, whichever machine a command is given on."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import uuid
from pathlib import Path

import pytest

from dialectic.postgres import embedded
from tests.command_pool import CommandResult
from tests.conftest import execute_as_superuser
from tests.scenario.test_run import PROMPT, Home, open_home, unique_name
from tests.servers import copy_server
from tests.waiting import PATIENCE_S


@pytest.fixture
def database_url(server: embedded.Server) -> str:
    """An empty database on a server that several homes can reach."""
    name = f"shared_{uuid.uuid4().hex[:8]}"
    asyncio.run(execute_as_superuser(server, f"create database {name}", "postgres"))
    return server.url(user="postgres", database=name)


def run(home: Home, **settings: str) -> CommandResult:
    return home.tell(
        *("run", "--until", "thesis", "--models", "offline/skeptic", "--name", unique_name()),
        PROMPT,
        **settings,
    )


def assert_documents_are_there(result: CommandResult) -> None:
    assert result.code == 0, result.stderr
    (line,) = result.stdout.splitlines()
    assert Path(line).read_text().startswith("---\n")


def test_a_home_with_a_store_of_its_own_is_refused_by_the_database_of_another(
    tmp_path: Path, database_url: str
) -> None:
    ours, theirs = Home(tmp_path / "ours"), Home(tmp_path / "theirs")
    assert_documents_are_there(run(ours, database_url=database_url))
    for words in (("run", PROMPT), ("worker",), ("status",)):
        result = theirs.tell(*words, database_url=database_url)
        assert result.code == 4, result.stderr
        assert str(ours.path / "storage") in result.stderr
        assert str(theirs.path / "storage") in result.stderr
        assert "DIALECTIC_STORAGE_URL" in result.stderr
    examined = theirs.tell("doctor", database_url=database_url)
    assert examined.code == 4
    assert "FAIL  storage" in examined.stdout

    shared = (ours.path / "storage").as_uri()
    assert_documents_are_there(run(theirs, database_url=database_url, storage_url=shared))


def test_two_homes_that_meet_at_their_first_start_do_not_both_get_in(
    tmp_path: Path, database_url: str
) -> None:
    homes = [Home(tmp_path / name) for name in ("one", "other")]
    assert homes[0].tell("db", "migrate", database_url=database_url).code == 0
    started = [home.start("status", database_url=database_url) for home in homes]
    codes = sorted(process.wait(PATIENCE_S) for process in started)
    for process in started:
        process.communicate()
    assert codes == [0, 4]


def test_a_home_works_on_where_it_was_moved_or_copied_to(made_home: Path, tmp_path: Path) -> None:
    copy_server(made_home, tmp_path / "first")
    with open_home(tmp_path / "first") as first:
        assert_documents_are_there(run(first))
    moved = (tmp_path / "first").rename(tmp_path / "second")
    with open_home(moved) as second:
        assert_documents_are_there(run(second))
    # With its owners: root's server runs as another user.
    subprocess.run(["cp", "-a", moved, tmp_path / "third"], check=True)
    with open_home(tmp_path / "third") as third:
        assert_documents_are_there(run(third))
        # Whoever throws the documents away has an empty store, not a strange one.
        shutil.rmtree(third.path / "storage")
        assert_documents_are_there(run(third))
        elsewhere = run(third, storage_url=(tmp_path / "elsewhere").as_uri())
        assert elsewhere.code == 4
        assert str(third.path / "storage") in elsewhere.stderr
