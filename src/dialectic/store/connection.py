"""A connection that asks what a built-in type is once a process, not once a connection.

Knows nothing of tables. Before the driver can pass an array it asks the server what its type is
made of, by a question that takes longer than any of ours and that every connection would ask again.
What a built-in type is made of never changes between two servers of one version, so one answer
serves all. Types that a database defines for itself are still asked for: their numbers are its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import asyncpg

if TYPE_CHECKING:
    DriversConnection = asyncpg.Connection[asyncpg.Record]
else:
    DriversConnection = asyncpg.Connection

# The driver's own question. It offers no public way to be handed an answer; a test sees to it that
# it still asks here.
_QUESTION = "_introspect_types"
# Below this every number stands in PostgreSQL's source; some above are given with a new server.
FIRST_OWN_TYPE = 10_000

_KNOWN: dict[tuple[int, frozenset[int]], Any] = {}


@dataclass(frozen=True, slots=True)
class _Remembered:
    """Stands where the driver expects the statement by which it asked: none was sent."""

    name: str = "remembered"


class KnowingConnection(DriversConnection):
    """A connection of the driver's that remembers what all of them have learnt."""

    async def _introspect_types(
        self,
        typeoids: Iterable[int],
        timeout: float | None,  # noqa: ASYNC109  the driver's
    ) -> tuple[Any, Any]:
        key = (self.get_server_version().major, frozenset(typeoids))
        if key in _KNOWN:
            return _KNOWN[key], _Remembered()
        types, statement = await getattr(super(), _QUESTION)(typeoids, timeout)
        if all(oid < FIRST_OWN_TYPE for oid in key[1]):
            _KNOWN[key] = types
        return types, statement
