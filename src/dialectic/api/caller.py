"""Who asks: found once per request, by what its headers carry. Keeps no secret."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from starlette.requests import HTTPConnection

from dialectic.domain.access import Caller
from dialectic.store.records import Account


@dataclass(frozen=True, slots=True)
class Visitor:
    """Whoever a request acts for, and the account they act with."""

    caller: Caller
    account: Account


# Finds who sent a request, or raises what is wrong with what it carries.
Authenticate: TypeAlias = Callable[[HTTPConnection], Awaitable[Visitor]]
