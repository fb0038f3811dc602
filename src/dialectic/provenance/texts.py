"""What is compared: documents with what each of them read, and the texts of people. Pure."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from uuid import UUID

from dialectic.core.points import SourceKind
from dialectic.core.process.definition import Holds
from dialectic.provenance.points import Points, Sections, read_points


class Role(enum.StrEnum):
    """What a text is for: chains end at all but editors."""

    THESIS = "thesis"
    CRITIQUE = "critique"
    EDITOR = "editor"
    GIVEN = "given"


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A text, and what its author was given. `id` is that of the version."""

    id: UUID
    content: str
    kind: SourceKind = SourceKind.CONTRIBUTION
    role: Role = Role.EDITOR
    # The first version of the document, which its readers name as their source.
    document_id: UUID | None = None
    stage: str = ""
    step: str = ""
    type: str = ""
    model_index: int | None = None
    model: str = ""
    # The job that wrote it.
    job_id: UUID | None = None
    label: str = ""
    is_lead: bool = False
    # Whether it is a document of its stage, not a step on the way.
    is_final: bool = False
    # What it read, by the ids of the versions.
    sources: tuple[UUID, ...] = ()
    # What its sources were called in its prompt.
    labels: Mapping[str, UUID] = field(default_factory=dict)
    sections: Sections | None = None
    default_holds: Holds = Holds.CLAIM

    @property
    def is_origin(self) -> bool:
        return self.role is not Role.EDITOR

    @property
    def is_by_person(self) -> bool:
        return self.kind is SourceKind.PERSON


@dataclass(frozen=True)
class Lineage:
    """Texts in an order in which each stands after what it read."""

    texts: tuple[Text, ...]
    points: tuple[Points, ...]
    # The places of what each text read.
    parents: tuple[tuple[int, ...], ...]
    # The places of all that each text descends from, itself included.
    closures: tuple[frozenset[int], ...]

    def find(self, text_id: UUID) -> int | None:
        """Find the place of a text; None if it is not here."""
        return next((n for n, text in enumerate(self.texts) if text.id == text_id), None)

    def list_role(self, *roles: Role) -> list[int]:
        return [n for n, text in enumerate(self.texts) if text.role in roles]


def build_lineage(texts: Iterable[Text]) -> Lineage:
    """Order texts and read their points. What is not given is left out of the lineage.

    Neither the order of the texts nor that of their sources changes the result.
    """
    by_id = {text.id: text for text in sorted(texts, key=lambda text: text.id.bytes)}
    graph = {
        text.id: sorted(
            (each for each in dict.fromkeys(text.sources) if each in by_id and each != text.id),
            key=lambda each: each.bytes,
        )
        for text in by_id.values()
    }
    order = _order(graph)
    place = {each: number for number, each in enumerate(order)}
    parents = tuple(tuple(sorted(place[source] for source in graph[each])) for each in order)
    closures: list[frozenset[int]] = []
    for number, sources in enumerate(parents):
        closures.append(frozenset({number}).union(*(closures[each] for each in sources)))
    ordered = tuple(by_id[each] for each in order)
    points = tuple(
        read_points(text.content, text.sections, frozenset(text.labels), text.default_holds)
        for text in ordered
    )
    return Lineage(ordered, points, parents, tuple(closures))


def _order(graph: Mapping[UUID, Sequence[UUID]]) -> list[UUID]:
    """Order ids after what they read; of those that are ready, the smallest comes first."""
    sorter = TopologicalSorter(graph)
    sorter.prepare()
    order: list[UUID] = []
    while sorter.is_active():
        ready = sorted(sorter.get_ready(), key=lambda each: each.bytes)
        order += ready
        sorter.done(*ready)
    return order
