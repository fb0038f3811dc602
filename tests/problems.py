"""Errors as programs tell them apart: by class, code, reason, subject, limit and remedy.

The words of a message may change at any time. What is data in it (a name, an id, an amount) may be
asked for as `names`, where no field carries it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import asyncpg
import pytest

from dialectic.errors import DialecticError, RemedyAction

E = TypeVar("E", bound=DialecticError)
PROBLEM = "application/problem+json"
_MARK = re.compile(r"\[([a-z]+(?:_[a-z]+)*)\]$", re.MULTILINE)
_ADVICE = re.compile(r"^ *(?:ok  |FAIL)? *(?:try|or|on the server): (.+)$", re.MULTILINE)


@contextmanager
def refusing(
    kind: type[E],
    *names: str,
    reason: str | None = None,
    subject: str | None = None,
    limit: int | None = None,
    action: RemedyAction | None = None,
) -> Iterator[pytest.ExceptionInfo[E]]:
    """Expect an error of a class, with the facts that are given and the names in its message."""
    with pytest.raises(kind) as caught:
        yield caught
    check_error(caught.value, *names, reason=reason, subject=subject, limit=limit, action=action)


def check_error(
    error: DialecticError,
    *names: str,
    reason: str | None = None,
    subject: str | None = None,
    limit: int | None = None,
    action: RemedyAction | None = None,
) -> None:
    """See that an error has the facts that are given, and the names in its message."""
    if reason is not None:
        assert error.reason == reason, repr(error)
    if subject is not None:
        assert error.subject == subject, repr(error)
    if limit is not None:
        assert error.limit == limit, repr(error)
    if action is not None:
        assert error.remedy is not None, repr(error)
        assert error.remedy.action is action, repr(error)
    for name in names:
        assert name in error.message, repr(error)


@contextmanager
def violated(constraint: str) -> Iterator[None]:
    """Expect that a row breaks a named rule of the database."""
    with pytest.raises(asyncpg.IntegrityConstraintViolationError) as caught:
        yield
    assert caught.value.constraint_name == constraint


def list_codes(said: str) -> list[str]:
    """List the codes at the ends of lines that a command said."""
    return _MARK.findall(said)


def list_commands(said: str) -> list[str]:
    """List the commands that a command advised."""
    return _ADVICE.findall(said)


def read_error(said: str) -> dict[str, Any]:
    """Read the error that a command with `--json` left as the last line of stderr."""
    error: dict[str, Any] = json.loads(said.splitlines()[-1])["error"]
    return error


def check_problem(answer: Any, status: int, code: str) -> dict[str, Any]:
    """See that an answer is a problem, and the one that is expected."""
    assert (answer.status_code, answer.headers["content-type"]) == (status, PROBLEM), answer.text
    problem: dict[str, Any] = answer.json()
    assert (problem["status"], problem["code"]) == (status, code)
    assert problem["type"] == f"urn:dialectic:problem:{code}"
    assert problem["title"]
    assert problem["detail"]
    assert problem["instance"] == answer.request.url.path
    assert problem["request_id"] == answer.headers["x-request-id"]
    return problem
