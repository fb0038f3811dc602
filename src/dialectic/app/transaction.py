"""The one way into a transaction: a use case takes a `Transaction`, a `Tenant` runs it.

The runner opens the transaction, retries it, commits it and then runs the use case's after-commit
steps. A use case never opens a transaction or publishes files itself.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from dataclasses import dataclass, field
from typing import Any, Concatenate, ParamSpec, TypeAlias, TypeVar
from uuid import UUID, uuid4, uuid5

from dialectic.db.pool import Connection
from dialectic.db.tables.records import Account
from dialectic.engine import Engine

P = ParamSpec("P")
T = TypeVar("T")
Step: TypeAlias = Callable[[], Coroutine[Any, Any, object]]


@dataclass(frozen=True, slots=True)
class Attempts:
    """The state that all tries of one request share; a lost commit confirmation causes a retry."""

    # Ids of new rows derive from it, so that a retry creates nothing twice.
    effect_id: UUID = field(default_factory=uuid4)
    # Ids chosen by an earlier try, by name.
    chosen: dict[str, UUID] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Transaction:
    """One open transaction of an account, with its after-commit steps."""

    engine: Engine
    account: Account
    connection: Connection
    attempts: Attempts = field(default_factory=Attempts)
    # The after-commit steps, in order; each name runs once.
    after_commit: dict[Hashable, Step] = field(default_factory=dict)

    def derive_id(self, name: str) -> UUID:
        """Derive the id of a row that this request creates."""
        return uuid5(self.attempts.effect_id, name)

    def publish(self, project_id: UUID) -> None:
        """Copy the project's new files to storage after the commit."""
        from dialectic.publishing.publish import publish_project  # only changes need it: 0.1 s

        self.after_commit[project_id] = functools.partial(
            publish_project, self.engine, self.account.tenant_id, project_id
        )

    async def follow_up(self) -> None:
        """Run the after-commit steps. Workers finish them if this process dies first."""
        for step in self.after_commit.values():
            await step()


@dataclass(frozen=True, slots=True)
class Tenant:
    """An engine and the account that uses it."""

    engine: Engine
    account: Account

    async def run(
        self,
        use_case: Callable[Concatenate[Transaction, P], Awaitable[T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Run a use case in one transaction; return its result after the after-commit steps."""
        attempts = Attempts()

        async def attempt(connection: Connection) -> tuple[T, Transaction]:
            transaction = Transaction(self.engine, self.account, connection, attempts)
            return await use_case(transaction, *args, **kwargs), transaction

        result, transaction = await self.engine.db.transact(self.account.tenant_id, attempt)
        await transaction.follow_up()
        return result
