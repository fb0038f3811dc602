"""`dialectic user` and `dialectic org` as an operator calls them; no token stays behind."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import pytest

from dialectic.app import accounts
from dialectic.core.access import EVERY_SCOPE, Caller, Scope
from dialectic.db.pool import APP_ROLE, Address, Database
from dialectic.errors import TokenInvalid
from dialectic.postgres import embedded
from tests.command_pool import CommandResult, command_pool
from tests.database.job_table import database_of_a_module
from tests.waiting import PATIENCE_S


@dataclass(frozen=True, slots=True)
class OperatorTerminal:
    """An operator's terminal, at a database that a server elsewhere holds."""

    home: Path
    address: Address

    def tell(self, *words: str, code: int = 0) -> CommandResult:
        environment = {
            **os.environ,
            "DIALECTIC_HOME": str(self.home),
            "DIALECTIC_DATABASE_URL": self.address.url,
            "DIALECTIC_LOG_LEVEL": "DEBUG",
        }
        result = command_pool.run(words, environment, "", patience_s=PATIENCE_S)
        assert result.code == code, result.stderr
        assert "dlk_" not in result.stderr
        return result

    def authenticate(self, token: str) -> Caller:
        async def ask() -> Caller:
            async with Database.open(self.address, APP_ROLE, size=1) as db:
                return await accounts.authenticate(db, token, requests_per_minute=600)

        return asyncio.run(ask())

    def read_everything(self) -> str:
        async def read() -> str:
            connection = await asyncpg.connect(self.address.url)
            try:
                tables = await connection.fetch(
                    "select oid::regclass::text as name from pg_class where relkind = 'r'"
                    " and relnamespace in ('dialectic'::regnamespace, 'queue'::regnamespace)"
                )
                texts = [
                    await connection.fetchval(
                        f"select string_agg(t::text, ' ') from {table['name']} t"
                    )
                    for table in tables
                ]
                return " ".join(text or "" for text in texts)
            finally:
                await connection.close()

        return asyncio.run(read())


@pytest.fixture(scope="module")
def operator(
    server: embedded.Server, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OperatorTerminal]:
    with database_of_a_module(server, template) as address:
        yield OperatorTerminal(tmp_path_factory.mktemp("operator") / "home", address)


def test_a_user_is_added_gets_tokens_and_loses_them(operator: OperatorTerminal) -> None:
    first = operator.tell("user", "add", "alice", "--token").stdout.splitlines()[-1]
    caller = operator.authenticate(first)
    assert caller.scopes == EVERY_SCOPE

    wanted = ("--scope", "read", "--scope", "write", "--expires", "7", "--name", "script")
    second = operator.tell("user", "token", "alice", *wanted).stdout.splitlines()[-1]
    reader = operator.authenticate(second)
    assert reader.scopes == {Scope.READ, Scope.WRITE}
    assert reader.tenant_id == caller.tenant_id

    users = [
        json.loads(line) for line in operator.tell("user", "list", "--json").stdout.splitlines()
    ]
    assert {user["name"]: user["tokens"] for user in users} == {"local": 0, "alice": 2}
    listed = operator.tell("user", "list", "alice").stdout.splitlines()
    assert [line.split()[0] for line in listed] == [str(caller.token_id), str(reader.token_id)]

    operator.tell("user", "revoke", "alice", str(caller.token_id))
    with pytest.raises(TokenInvalid):
        operator.authenticate(first)
    assert operator.authenticate(second) == reader

    kept = operator.read_everything() + "".join(
        path.read_text(errors="replace") for path in operator.home.rglob("*") if path.is_file()
    )
    assert str(reader.token_id) in kept
    for token in (first, second):
        assert token.removeprefix("dlk_") not in kept


def test_an_organisation_is_made_and_a_token_acts_in_it(operator: OperatorTerminal) -> None:
    organization = operator.tell("org", "create", "Bakers").stdout.strip()
    operator.tell("user", "add", "bob")
    operator.tell("org", "add", "Bakers", "bob", "--role", "admin")
    assert operator.tell("org", "list", "Bakers").stdout.splitlines() == [
        "owner   local",
        "admin   bob",
    ]
    token = operator.tell("user", "token", "bob", "--org", "Bakers").stdout.splitlines()[-1]
    assert str(operator.authenticate(token).tenant_id) == organization
    operator.tell("org", "remove", organization, "bob")
    with pytest.raises(TokenInvalid):
        operator.authenticate(token)


def test_what_cannot_be_is_refused_in_one_line(operator: OperatorTerminal) -> None:
    for words in (
        ("user", "add", "local"),
        ("org", "add", "Nowhere", "local"),
    ):
        result = operator.tell(*words, code=2)
        assert result.stdout == ""
        assert "Traceback" not in result.stderr
