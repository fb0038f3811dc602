"""Which stale documents can be written again, in which order, and what each must wait for. Pure.

A document is stale if one it was written from has a newer version. Writing it again makes sense
only after its own sources are written again.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from uuid import UUID


class Kept(enum.StrEnum):
    """Why a stale document is left as it is."""

    EDITED = "edited"  # a person wrote its newest version
    IMPORTED = "imported"  # its job is not here


@dataclass(frozen=True, slots=True)
class StaleDocument:
    """The newest version of a stale document. Sources are named by their first versions."""

    first_id: UUID
    sources: tuple[UUID, ...]
    is_by_user: bool = False
    has_job: bool = True
    # A means to other documents: it is made again on demand, with other inputs.
    is_means: bool = False

    @property
    def kept(self) -> Kept | None:
        if self.is_by_user:
            return Kept.EDITED
        return None if self.has_job else Kept.IMPORTED


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A document to write again, and the documents to write again before it."""

    first_id: UUID
    after: tuple[UUID, ...]


def plan_rewrites(stale: Sequence[StaleDocument]) -> list[Rewrite]:
    """Order the stale documents that can be written again: each after those it reads."""
    by_id = {one.first_id: one for one in stale}
    wanted = {one.first_id: one for one in stale if one.kept is None and not one.is_means}
    after = {first_id: _list_needed(one, by_id, wanted) for first_id, one in wanted.items()}
    order = TopologicalSorter(after).static_order()
    return [Rewrite(first_id, after[first_id]) for first_id in order]


def choose_rewrites(rewrites: Sequence[Rewrite], chosen: Collection[UUID]) -> list[Rewrite]:
    """Keep the chosen documents and those that are made from them."""
    kept: dict[UUID, Rewrite] = {}
    for one in rewrites:
        after = tuple(each for each in one.after if each in kept)
        if one.first_id in chosen or after:
            kept[one.first_id] = Rewrite(one.first_id, after)
    return list(kept.values())


def _list_needed(
    one: StaleDocument,
    by_id: Mapping[UUID, StaleDocument],
    wanted: Mapping[UUID, StaleDocument],
) -> tuple[UUID, ...]:
    """List the documents to write again that one reads, directly or through a means."""
    needed: dict[UUID, None] = {}
    seen: set[UUID] = set()
    left = list(reversed(one.sources))
    while left:
        source = left.pop()
        if source in seen:
            continue
        seen.add(source)
        if source in wanted:
            needed[source] = None
        elif source in by_id and by_id[source].is_means:
            left.extend(reversed(by_id[source].sources))
    return tuple(needed)


def count_by(names: Iterable[str]) -> str:
    """Count names in the order of their first appearance: `3 antithesis, 1 synthesis`."""
    counted: dict[str, int] = {}
    for name in names:
        counted[name] = counted.get(name, 0) + 1
    return ", ".join(f"{number} {name}" for name, number in counted.items())
