"""Which errors of the driver show that a pooler gives our sessions to others."""

from __future__ import annotations

import asyncpg
import pytest

from dialectic.db.pool import Address, explain_failure
from dialectic.db.pooler import find_pooler_error
from dialectic.errors import DatabaseUnreachable, ExitCode, PoolerUnsupported
from tests.cases import each_case

SHARED, REJECTED = "shares_sessions", "rejects_parameter"


@each_case(
    ("kind", "message", "reason"),
    [
        (asyncpg.DuplicatePreparedStatementError, "prepared statement exists", SHARED),
        (asyncpg.InvalidSQLStatementNameError, "prepared statement does not exist", SHARED),
        (
            asyncpg.ProtocolViolationError,
            "transaction blocks not allowed in statement pooling mode",
            SHARED,
        ),
        (
            asyncpg.ProtocolViolationError,
            "unsupported startup parameter: search_path\nHINT: a long one",
            REJECTED,
        ),
    ],
)
def test_an_error_that_only_a_pooler_causes_names_the_pooler(
    kind: type[asyncpg.PostgresError], message: str, reason: str
) -> None:
    found = find_pooler_error(kind(message))
    assert found is not None
    assert (found.code, found.reason) == ("pooler_unsupported", reason)
    assert found.exit_code is ExitCode.CONFIGURATION
    assert "HINT" not in found.message


@each_case(
    "error",
    [
        asyncpg.ProtocolViolationError("invalid frontend message"),
        asyncpg.UndefinedTableError("there is no such table"),
        ConnectionError("refused"),
    ],
    ids=repr,
)
def test_any_other_error_is_not_blamed_on_a_pooler(error: Exception) -> None:
    assert find_pooler_error(error) is None


def test_a_refused_connection_names_the_pooler_or_the_address() -> None:
    address = Address("postgresql://user@host/name", is_embedded=False)
    rejected = asyncpg.ProtocolViolationError("unsupported startup parameter: role")
    assert isinstance(explain_failure(address, rejected), PoolerUnsupported)
    with pytest.raises(DatabaseUnreachable, match="host/name"):
        raise explain_failure(address, ConnectionError("refused"))
