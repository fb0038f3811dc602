"""A home of version 0.1 is refused by every command, which says how to take its projects along."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from dialectic.engine import DATABASE, SUPERUSER
from dialectic.postgres import embedded
from tests.conftest import execute_as_superuser
from tests.outdated import make_outdated, read_traces
from tests.scenario.test_run import PROMPT, Home, open_home
from tests.servers import join_copy


@pytest.fixture(scope="module")
def server_of_0_1(
    made_home: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Home, embedded.Server]]:
    """A home whose database version 0.1 has made, and its server."""
    path = tmp_path_factory.mktemp("outdated") / "home"
    with join_copy(made_home, path) as server, open_home(path) as home:
        for statement in (f"drop database {DATABASE}", f"create database {DATABASE}"):
            asyncio.run(execute_as_superuser(server, statement, "postgres"))
        asyncio.run(make_outdated(server.url(user=SUPERUSER, database=DATABASE)))
        yield home, server


@pytest.mark.parametrize(
    "words",
    [("db", "migrate"), ("run", PROMPT), ("doctor",), ("worker",), ("status",)],
    ids=lambda words: " ".join(words[:2]) if words[0] == "db" else words[0],
)
def test_a_command_refuses_it_and_names_the_way_out(
    server_of_0_1: tuple[Home, embedded.Server], words: tuple[str, ...]
) -> None:
    home, server = server_of_0_1
    url = server.url(user=SUPERUSER, database=DATABASE)
    before = asyncio.run(read_traces(url))
    told = home.tell(*words)
    assert told.code == 4
    said = told.stdout if words == ("doctor",) else told.stderr
    for needed in ("0.1", "DIALECTIC_HOME", "[schema_outdated]"):
        assert needed in said
    assert asyncio.run(read_traces(url)) == before


def test_the_doctor_says_that_it_is_the_database(
    server_of_0_1: tuple[Home, embedded.Server],
) -> None:
    told = server_of_0_1[0].tell("doctor")
    assert re.search(r"^FAIL +database ", told.stdout, re.MULTILINE)
