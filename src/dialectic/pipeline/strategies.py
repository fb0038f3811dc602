"""Assign a step's inputs to child jobs, by a named strategy, and sample them. Pure.

A strategy sees the documents that exist so far. It may create children before all documents exist,
and those children never change when more documents arrive: planning again only adds. Each input set
says whether it is complete; a child that needs a whole set waits for it. A child's rank among its
siblings depends only on its sources, not on which documents arrive first or fail.

Sampling leaves out children where the process asks for fewer. The choice depends only on ranks, so
it is the same before and during the work, and does not depend on delays. It rotates: every model
does equal work and every document has equally many readers. Children about a model's own work are
left out first. A model whose document failed takes over that of the failed model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID

from dialectic.core.process.definition import Kind, Step, Strategy
from dialectic.errors import PlanError


def keep_sample(
    step: Step, children: Sequence[Child], *, model_index: int, models: int
) -> list[Child]:
    """Keep the children that the step asks for, out of all that one model could have."""
    kept = list(children)
    if step.readers_max is not None and step.readers_max < models:
        kept = [
            child
            for place, child in enumerate(kept)
            if (place - model_index) % models < step.readers_max
        ]
    if step.per_source_max is not None:
        kept = list(_keep_per_source(kept, step.per_source_max, model_index))
    return kept


def choose_substitute(
    children: Sequence[Child], missing_rank: int, model_index: int
) -> Child | None:
    """Choose what a reader works on if its own document will never exist: the next by rank.

    That is the one whose reader was lost with the document. None if there is nothing to read.
    """
    after = sorted(children, key=lambda child: (child.rank <= missing_rank, child.rank))
    others = [child for child in after if model_index not in child.source_model_indexes]
    return next(iter([*others, *after]), None)


def _keep_per_source(children: Sequence[Child], most: int, model_index: int) -> Iterator[Child]:
    groups: dict[object, list[Child]] = {}
    for child in children:
        groups.setdefault(child.source_group, []).append(child)
    for child in children:
        group = groups[child.source_group]
        if (group.index(child) - model_index) % len(group) < most:
            yield child


@dataclass(frozen=True, slots=True)
class Document:
    """A finished contribution, with the fields that planning needs.

    `rank` numbers its model's documents of that type, from 1, in an order that is known before any
    of them exists. `origin` is the number of the thesis that it descends from.
    """

    id: UUID
    stage_slug: str
    type: str
    model_index: int
    rank: int
    source_group: UUID | None
    origin: int

    @property
    def kind(self) -> Kind:
        return (self.stage_slug, self.type)

    @property
    def is_origin(self) -> bool:
        """Whether it is a thesis, which descends from no other document."""
        return self.source_group is None


@dataclass(frozen=True, slots=True)
class InputSet:
    """The existing documents of one kind that a step reads.

    `per_model` is the number of documents per model, `group_size` the number per thesis, if no job
    fails. The process determines both before any document exists.
    """

    documents: tuple[Document, ...]
    is_complete: bool
    per_model: int
    group_size: int


@dataclass(frozen=True, slots=True)
class Child:
    """One job of a step: its sources, its target and its origin.

    `rank` is unique among all children that the plan job could have. The outline renumbers the
    ranks without gaps.
    """

    sources: tuple[UUID, ...]
    rank: int
    source_group: UUID | None
    target: UUID | None
    source_model_indexes: tuple[int, ...]


Deal = Callable[[Sequence[InputSet], int], list[Child]]


def deal(strategy: Strategy, inputs: Sequence[InputSet], *, models: int) -> list[Child]:
    """Assign the inputs of a step to children, ordered by rank."""
    return sorted(STRATEGIES[strategy](inputs, models), key=lambda child: child.rank)


def _ordered(documents: Iterable[Document]) -> list[Document]:
    return sorted(documents, key=lambda d: (d.origin, d.rank, d.model_index, d.id))


def _group_of(document: Document) -> UUID:
    return document.source_group or document.id


def per_source_document(inputs: Sequence[InputSet], models: int) -> list[Child]:
    """Create one child for each document, which is its target."""
    del models
    return [
        Child(
            sources=(document.id,),
            rank=(document.model_index - 1) * inputs[0].per_model + document.rank,
            source_group=_group_of(document),
            target=document.id,
            source_model_indexes=(document.model_index,),
        )
        for document in _ordered(inputs[0].documents)
    ]


def pairwise_by_origin(inputs: Sequence[InputSet], models: int) -> list[Child]:
    """Create one child for each document of the second kind, paired with its origin."""
    firsts = {document.id: document for document in inputs[0].documents}
    children = []
    for second in _ordered(inputs[1].documents):
        first = firsts.get(_group_of(second))
        if first is None:
            continue  # its origin does not exist yet, or is not among the inputs
        children.append(
            Child(
                sources=(first.id, second.id),
                rank=((first.origin - 1) * models + second.model_index - 1) * inputs[1].per_model
                + second.rank,
                source_group=_group_of(first),
                target=first.id,
                source_model_indexes=(first.model_index, second.model_index),
            )
        )
    return children


def per_source_group(inputs: Sequence[InputSet], models: int) -> list[Child]:
    """Create one child for each thesis, with all documents that descend from it."""
    del models
    groups: dict[UUID, list[Document]] = {}
    for document in _ordered(inputs[0].documents):
        if document.source_group is None:
            raise PlanError(
                f"Document {document.id} has no source group and cannot be grouped.",
                reason="no_source_group",
                subject=str(document.id),
            )
        groups.setdefault(document.source_group, []).append(document)
    return [
        Child(
            sources=tuple(document.id for document in group),
            rank=group[0].origin,
            source_group=group_id,
            target=group_id,
            source_model_indexes=tuple(sorted({d.model_index for d in group})),
        )
        for group_id, group in groups.items()
        if inputs[0].is_complete or len(group) == inputs[0].group_size
    ]


def all_to_one(inputs: Sequence[InputSet], models: int) -> list[Child]:
    """Create one child with all documents, when all sets are complete."""
    del models
    documents = [d for inputs_of_kind in inputs for d in _ordered(inputs_of_kind.documents)]
    if not documents or not all(inputs_of_kind.is_complete for inputs_of_kind in inputs):
        return []
    return [
        Child(
            sources=tuple(document.id for document in documents),
            rank=1,
            source_group=None,
            target=None,
            source_model_indexes=tuple(sorted({d.model_index for d in documents})),
        )
    ]


STRATEGIES: dict[Strategy, Deal] = {
    Strategy.PER_SOURCE_DOCUMENT: per_source_document,
    Strategy.PAIRWISE_BY_ORIGIN: pairwise_by_origin,
    Strategy.PER_SOURCE_GROUP: per_source_group,
    Strategy.PER_SOURCE_DOCUMENT_BY_LINEAGE: per_source_group,
    Strategy.ALL_TO_ONE: all_to_one,
    Strategy.PER_MODEL: all_to_one,
}
