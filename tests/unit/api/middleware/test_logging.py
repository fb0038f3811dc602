"""Whatever happens to a request, its client is told in one form, with its id."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

import httpx2
import pytest

from dialectic.api.health import Metrics
from dialectic.api.middleware.logging import LoggingMiddleware
from tests.problems import check_problem


@pytest.mark.parametrize("path", ["/anywhere", "/api/v1/projects"])
async def test_an_unexpected_error_is_a_problem_that_reveals_nothing(path: str) -> None:
    async def fail(*_: Any) -> None:
        raise LookupError("a secret")

    transport = httpx2.ASGITransport(LoggingMiddleware(fail, Metrics()))
    async with httpx2.AsyncClient(transport=transport, base_url="http://house.test") as client:
        answer = await client.get(path)
    check_problem(answer, 500, "internal")
    assert "secret" not in answer.text


async def test_a_request_that_a_stopping_server_gives_up_is_told_when_to_come_back() -> None:
    told: list[Any] = []

    async def wait(*_: Any) -> Any:
        await asyncio.Event().wait()

    async def send(message: Any) -> None:
        told.append(message)

    scope = {"type": "http", "method": "POST", "path": "/api/v1/chat", "headers": []}
    waiting = asyncio.create_task(LoggingMiddleware(wait, Metrics())(scope, wait, send))
    await asyncio.sleep(0)
    waiting.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await waiting
    assert waiting.cancelled()
    start, body = told
    headers = dict(start["headers"])
    assert (start["status"], headers[b"retry-after"]) == (503, b"2")
    assert headers[b"content-type"] == b"application/problem+json"
    assert json.loads(body["body"])["code"] == "server_busy"
