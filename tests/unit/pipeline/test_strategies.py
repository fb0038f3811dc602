"""Each strategy assigns exactly what it promises, whatever comes first and whatever is missing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from random import Random
from uuid import UUID, uuid5

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialectic.core.process.definition import Strategy
from dialectic.errors import PlanError
from dialectic.pipeline.strategies import STRATEGIES, Child, Document, InputSet, deal
from tests.problems import refusing


def build_document(
    kind: str, model_index: int, rank: int, thesis: Document | None = None
) -> Document:
    return Document(
        id=uuid5(UUID(int=1), f"{kind}:{model_index}:{rank}"),
        stage_slug=kind,
        type=kind,
        model_index=model_index,
        rank=rank,
        source_group=thesis.id if thesis else None,
        origin=thesis.origin if thesis else model_index,
    )


def build_theses(models: int) -> list[Document]:
    return [build_document("thesis", index, 1) for index in range(1, models + 1)]


def build_critiques(models: int, *, each: int = 1) -> list[Document]:
    """What every model wrote about every thesis, `each` times."""
    return [
        build_document("antithesis", index, (again * models) + thesis.origin, thesis)
        for index in range(1, models + 1)
        for again in range(each)
        for thesis in build_theses(models)
    ]


def build_set(
    documents: Iterable[Document], models: int, *, each: int = 1, is_complete: bool = True
) -> InputSet:
    """A set as it would be if all models made the same; `each` is how many of one thesis."""
    found = tuple(documents)
    is_thesis = all(document.source_group is None for document in found)
    return InputSet(
        documents=found,
        is_complete=is_complete,
        per_model=1 if is_thesis else models * each,
        group_size=1 if is_thesis else models * each,
    )


models_counts = st.integers(1, 5)
chances = st.randoms(use_true_random=False)


def pick(chance: Random, documents: list[Document]) -> list[Document]:
    """Some of the documents, in any order."""
    return chance.sample(documents, chance.randint(0, len(documents)))


def build_inputs(
    strategy: Strategy, theses: list[Document], critiques: list[Document], models: int
) -> list[InputSet]:
    """The sets a strategy reads, still open."""
    first = build_set(theses, models, is_complete=False)
    second = build_set(critiques, models, is_complete=False)
    match strategy:
        case Strategy.PER_SOURCE_DOCUMENT | Strategy.ALL_TO_ONE | Strategy.PER_MODEL:
            return [first]
        case Strategy.PAIRWISE_BY_ORIGIN:
            return [first, second]
        case Strategy.PER_SOURCE_GROUP | Strategy.PER_SOURCE_DOCUMENT_BY_LINEAGE:
            return [second]


def close(inputs: list[InputSet]) -> list[InputSet]:
    return [replace(found, is_complete=True) for found in inputs]


def test_every_strategy_has_its_function() -> None:
    assert set(STRATEGIES) == set(Strategy)


# All strategies ---------------------------------------------------------------------------------

all_strategies = pytest.mark.parametrize("strategy", list(Strategy))


@all_strategies
@given(models_counts, chances)
def test_the_order_of_arrival_does_not_matter(
    strategy: Strategy, models: int, chance: Random
) -> None:
    theses, critiques = build_theses(models), build_critiques(models)
    some, others = pick(chance, theses), pick(chance, critiques)
    shuffled = chance.sample(some, len(some)), chance.sample(others, len(others))
    for frame in (list, close):
        one = frame(build_inputs(strategy, some, others, models))
        other = frame(build_inputs(strategy, *shuffled, models))
        assert deal(strategy, one, models=models) == deal(strategy, other, models=models)


@all_strategies
@given(models_counts, chances)
def test_what_is_dealt_out_early_stays_when_more_arrives(
    strategy: Strategy, models: int, chance: Random
) -> None:
    theses, critiques = build_theses(models), build_critiques(models)
    early = build_inputs(strategy, pick(chance, theses), pick(chance, critiques), models)
    late = build_inputs(strategy, theses, critiques, models)
    first, then, last = (
        deal(strategy, inputs, models=models) for inputs in (early, late, close(late))
    )
    assert all(child in then for child in first)
    assert all(child in last for child in then)


@all_strategies
@given(models_counts, chances)
def test_children_are_in_the_order_of_their_ranks_and_no_two_have_the_same(
    strategy: Strategy, models: int, chance: Random
) -> None:
    some = pick(chance, build_theses(models)), pick(chance, build_critiques(models))
    children = deal(strategy, close(build_inputs(strategy, *some, models)), models=models)
    ranks = [child.rank for child in children]
    assert ranks == sorted(set(ranks))
    assert all(rank >= 1 for rank in ranks)
    assert len({child.sources for child in children}) == len(children)


@all_strategies
@given(models_counts, chances)
def test_a_child_with_a_lineage_reads_nothing_of_another_one(
    strategy: Strategy, models: int, chance: Random
) -> None:
    some = pick(chance, build_theses(models)), pick(chance, build_critiques(models))
    inputs = close(build_inputs(strategy, *some, models))
    group_of = {d.id: d.source_group or d.id for found in inputs for d in found.documents}
    index_of = {d.id: d.model_index for found in inputs for d in found.documents}
    for child in deal(strategy, inputs, models=models):
        if child.source_group is not None:
            assert {group_of[source] for source in child.sources} == {child.source_group}
        assert set(child.source_model_indexes) == {index_of[source] for source in child.sources}


@all_strategies
def test_nothing_comes_of_nothing(strategy: Strategy) -> None:
    assert deal(strategy, close(build_inputs(strategy, [], [], 3)), models=3) == []


# Each strategy ----------------------------------------------------------------------------------


@given(models_counts, chances)
def test_per_source_document_makes_one_child_about_each_document(
    models: int, chance: Random
) -> None:
    theses = pick(chance, build_theses(models))
    children = deal(Strategy.PER_SOURCE_DOCUMENT, [build_set(theses, models)], models=models)
    assert {child.sources for child in children} == {(thesis.id,) for thesis in theses}
    for child in children:
        assert child.target == child.source_group == child.sources[0]


def test_what_is_written_about_a_critique_descends_from_its_thesis() -> None:
    critiques = build_critiques(2)
    children = deal(Strategy.PER_SOURCE_DOCUMENT, [build_set(critiques, 2)], models=2)
    assert {(child.target, child.source_group) for child in children} == {
        (critique.id, critique.source_group) for critique in critiques
    }
    assert [child.rank for child in children] == [1, 2, 3, 4]


@given(models_counts, st.integers(1, 3), chances)
def test_pairwise_pairs_each_thesis_with_exactly_the_critiques_of_it(
    models: int, each: int, chance: Random
) -> None:
    theses = pick(chance, build_theses(models))
    critiques = pick(chance, build_critiques(models, each=each))
    inputs = [build_set(theses, models), build_set(critiques, models, each=each)]
    children = deal(Strategy.PAIRWISE_BY_ORIGIN, inputs, models=models)
    assert {child.sources for child in children} == {
        (thesis.id, critique.id)
        for thesis in theses
        for critique in critiques
        if critique.source_group == thesis.id
    }
    assert len({child.rank for child in children}) == len(children)
    for child in children:
        assert child.target == child.source_group == child.sources[0]


def test_a_pair_is_named_by_its_two_models_also_where_they_are_the_same() -> None:
    inputs = [build_set(build_theses(2), 2), build_set(build_critiques(2), 2)]
    children = deal(Strategy.PAIRWISE_BY_ORIGIN, inputs, models=2)
    assert [child.source_model_indexes for child in children] == [(1, 1), (1, 2), (2, 1), (2, 2)]


by_group = pytest.mark.parametrize(
    "strategy", [Strategy.PER_SOURCE_GROUP, Strategy.PER_SOURCE_DOCUMENT_BY_LINEAGE]
)


def list_groups(documents: Iterable[Document]) -> dict[UUID | None, set[UUID]]:
    groups: dict[UUID | None, set[UUID]] = {}
    for document in documents:
        groups.setdefault(document.source_group, set()).add(document.id)
    return groups


def read_groups(children: Iterable[Child]) -> dict[UUID | None, set[UUID]]:
    return {child.source_group: set(child.sources) for child in children}


@by_group
@given(models_counts, chances)
def test_a_complete_set_is_grouped_by_thesis_with_whatever_there_is(
    strategy: Strategy, models: int, chance: Random
) -> None:
    critiques = pick(chance, build_critiques(models))
    children = deal(strategy, [build_set(critiques, models)], models=models)
    assert read_groups(children) == list_groups(critiques)
    assert sum(len(child.sources) for child in children) == len(critiques)
    assert all(child.target == child.source_group for child in children)


@by_group
@given(models_counts, chances)
def test_of_an_open_set_only_full_groups_are_dealt_out(
    strategy: Strategy, models: int, chance: Random
) -> None:
    critiques = pick(chance, build_critiques(models))
    children = deal(strategy, [build_set(critiques, models, is_complete=False)], models=models)
    groups = list_groups(critiques)
    assert read_groups(children) == {
        thesis: found for thesis, found in groups.items() if len(found) == models
    }


@by_group
def test_a_document_without_a_group_cannot_be_grouped(strategy: Strategy) -> None:
    with refusing(PlanError, reason="no_source_group"):
        deal(strategy, [build_set(build_theses(2), 2)], models=2)


to_one = pytest.mark.parametrize("strategy", [Strategy.ALL_TO_ONE, Strategy.PER_MODEL])


@to_one
@given(models_counts, chances)
def test_everything_goes_to_one_child_that_begins_a_lineage_of_its_own(
    strategy: Strategy, models: int, chance: Random
) -> None:
    theses, critiques = pick(chance, build_theses(models)), pick(chance, build_critiques(models))
    inputs = [build_set(theses, models), build_set(critiques, models)]
    children = deal(strategy, inputs, models=models)
    if not theses and not critiques:
        assert children == []
    else:
        (child,) = children
        assert sorted(child.sources) == sorted(d.id for d in [*theses, *critiques])
        assert (child.rank, child.source_group, child.target) == (1, None, None)


@to_one
def test_one_open_set_holds_everything_up(strategy: Strategy) -> None:
    theses, critiques = build_theses(2), build_critiques(2)
    inputs = [build_set(theses, 2), build_set(critiques, 2, is_complete=False)]
    assert deal(strategy, inputs, models=2) == []
