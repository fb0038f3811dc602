"""A wire, and a client for each dialect."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.conformance.provider_client import Client
from tests.conformance.scripted_socket import Wire, open_wire
from tests.conformance.wire_formats import DIALECTS, Dialect


@pytest.fixture(autouse=True)
def _no_proxy_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture
async def wire() -> AsyncIterator[Wire]:
    async with open_wire() as opened:
        yield opened


@pytest.fixture(params=DIALECTS, ids=lambda dialect: dialect.kind.value)
def dialect(request: pytest.FixtureRequest) -> Dialect:
    given: Dialect = request.param
    return given


@pytest.fixture
def client(wire: Wire, dialect: Dialect) -> Client:
    return Client(wire, dialect)


@pytest.fixture(autouse=True)
def row() -> None:
    """Takes the name that a test has in the table of faults; see `marks.row`."""
