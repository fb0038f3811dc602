"""Whatever happens to a request, whoever sent it is told so in the one form, with its id."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from dialectic.api.metrics import Metrics
from dialectic.api.trace import Trace
from tests.scenario.house import check_problem


@pytest.mark.parametrize("path", ["/anywhere", "/api/v1/projects"])
async def test_what_nobody_foresaw_is_a_problem_that_tells_nothing(path: str) -> None:
    async def fail(*_: Any) -> None:
        raise LookupError("a secret")

    transport = httpx2.ASGITransport(Trace(fail, Metrics()))
    async with httpx2.AsyncClient(transport=transport, base_url="http://house.test") as client:
        answer = await client.get(path)
    check_problem(answer, 500, "internal")
    assert "secret" not in answer.text
