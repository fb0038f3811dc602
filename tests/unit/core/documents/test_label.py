"""Labels tell documents apart and hide their authors; the order is fair and repeatable."""

from __future__ import annotations

from collections import Counter
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialectic.core.documents.prompts import build_label, order_for_reader, tell_apart

SESSION = UUID("00000000-0000-4000-8000-000000000000")
counts = st.integers(1, 12)


def label(
    session: UUID = SESSION,
    models: int = 3,
    origin: int = 1,
    model_index: int = 1,
    *,
    is_origin: bool = False,
) -> str:
    return build_label(
        "Critique",
        session_id=session,
        models=models,
        origin=origin,
        model_index=model_index,
        is_origin=is_origin,
    )


def label_origin(session: UUID, models: int, origin: int) -> str:
    return label(session, models, origin, origin, is_origin=True)


def test_a_label_stays_the_same_for_ever() -> None:
    # Written down: what a document quotes of another by its label must be found in later versions.
    assert [label_origin(SESSION, 3, origin) for origin in (1, 2, 3)] == [
        "Critique B",
        "Critique A",
        "Critique C",
    ]
    assert [label(models=3, origin=1, model_index=index) for index in (1, 2, 3)] == [
        "Critique B1",
        "Critique B2",
        "Critique B3",
    ]


@given(st.uuids(), counts)
def test_every_thesis_has_a_letter_of_its_own_from_the_first_on(session: UUID, models: int) -> None:
    labels = {label_origin(session, models, origin) for origin in range(1, models + 1)}
    assert labels == {f"Critique {letter}" for letter in "ABCDEFGHIJKL"[:models]}


@given(st.uuids(), counts)
def test_what_was_made_of_a_thesis_has_its_letter_and_a_number_for_its_author(
    session: UUID, models: int
) -> None:
    found = {
        label(session, models, origin, index)
        for origin in range(1, models + 1)
        for index in range(1, models + 1)
    }
    assert found == {
        f"Critique {letter}{number}"
        for letter in "ABCDEFGHIJKL"[:models]
        for number in range(1, models + 1)
    }
    for origin in range(1, models + 1):
        thesis = label_origin(session, models, origin)
        assert label(session, models, origin, 1).startswith(thesis)


@given(st.uuids(), counts, st.data())
def test_an_author_has_the_same_number_wherever_its_documents_stand(
    session: UUID, models: int, data: st.DataObject
) -> None:
    index = data.draw(st.integers(1, models))
    numbers = {
        label(session, models, origin, index).removeprefix(label_origin(session, models, origin))
        for origin in range(1, models + 1)
    }
    assert len(numbers) == 1


def test_neither_letter_nor_number_gives_a_model_away() -> None:
    """Over many sessions every model has every letter and every number about equally often."""
    sessions = [UUID(int=number) for number in range(900)]
    letters = Counter(label_origin(session, 3, 1) for session in sessions)
    numbers = Counter(label(session, 3, 1, 1)[-1] for session in sessions)
    own = Counter(
        label_origin(session, 3, 1)[-1] + label(session, 3, 1, 1)[-1] for session in sessions
    )
    assert len(letters) == len(numbers) == 3
    assert min(*letters.values(), *numbers.values()) > 240
    # Who knows the letter of a thesis does not know the number of its author's other documents.
    assert len(own) == 9
    assert min(own.values()) > 60


def test_letters_go_on_after_the_last_one() -> None:
    labels = [label_origin(SESSION, 60, origin) for origin in range(1, 61)]
    assert len(set(labels)) == 60
    assert {"Critique Z", "Critique AA", "Critique AZ", "Critique BH"} <= set(labels)


@given(st.uuids(), st.lists(st.uuids(), unique=True, max_size=12))
def test_a_reader_is_given_every_document_once_and_always_in_the_same_order(
    job: UUID, documents: list[UUID]
) -> None:
    order = order_for_reader(job, documents)
    assert sorted(order) == sorted(documents)
    assert order_for_reader(job, tuple(documents)) == order


def test_the_order_differs_between_readers_so_that_no_document_is_always_first() -> None:
    documents = [UUID(int=number) for number in range(4)]
    orders = [order_for_reader(UUID(int=job), documents) for job in range(800)]
    for place in range(4):
        shares = Counter(order[place] for order in orders)
        assert len(shares) == 4
        assert min(shares.values()) > 140


@pytest.mark.parametrize(
    ("labels", "told_apart"),
    [
        ([], []),
        (["Draft A1", "Draft A2"], ["Draft A1", "Draft A2"]),
        (["Draft A1", "Thesis A", "Draft A1"], ["Draft A1 (1)", "Thesis A", "Draft A1 (2)"]),
    ],
)
def test_equal_labels_of_one_reader_are_numbered(labels: list[str], told_apart: list[str]) -> None:
    assert tell_apart(labels) == told_apart
