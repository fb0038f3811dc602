"""Seats: their names in files, their angles, and who sits where after a change."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialectic.core.process.definition import Angle, Angles, ProcessFile
from dialectic.core.seats import (
    SEATS_MAX,
    Seating,
    change_seats,
    drop_seat,
    find_angle,
    name_seats,
    number_slots,
    replace_seat,
)
from dialectic.core.slug import is_slug
from dialectic.errors import UsageError
from dialectic.processes.loader import load_process

A, B, C, D = "acme/tiny", "acme/tiny-2", "other/large", "other/new"
STANDARD = load_process("standard").file
names = st.sampled_from([A, B, C, D, "acme/" + "x" * 90])
seatings = st.lists(names, min_size=1, max_size=6).map(lambda models: Seating(tuple(models)))


def test_a_model_with_one_seat_is_named_as_before() -> None:
    assert name_seats([A, C, D]) == ("acme-tiny", "other-large", "other-new")


def test_the_seats_of_a_repeated_model_have_numbers_in_their_names() -> None:
    assert name_seats([A, C, A]) == ("acme-tiny-1", "other-large", "acme-tiny-3")


@given(st.lists(names, min_size=1, max_size=12))
def test_no_two_seats_share_a_name_and_every_name_is_a_slug(models: list[str]) -> None:
    found = name_seats(models)
    assert len(set(found)) == len(models)
    assert all(map(is_slug, found))


def test_slots_count_the_seats_of_each_model() -> None:
    assert number_slots([A, C, A, A]) == (1, 1, 2, 3)


def test_only_the_seats_of_a_repeated_model_have_an_angle() -> None:
    found = [find_angle(STANDARD, [A, C, A], seat) for seat in (1, 2, 3)]
    assert [None if one is None else one.name for one in found] == ["builder", None, "operator"]


def test_a_process_may_give_every_seat_an_angle() -> None:
    always = STANDARD.model_copy(update={"angles": Angles.ALWAYS})
    found = [find_angle(always, [A, C], seat) for seat in (1, 2)]
    assert [one.name for one in found if one is not None] == ["builder", "sceptic"]


def test_angles_repeat_when_there_are_more_seats() -> None:
    two = (Angle(name="one", stance="First."), Angle(name="two", stance="Second."))
    file: ProcessFile = STANDARD.model_copy(update={"seats": two})
    found = [find_angle(file, [A] * 3, seat) for seat in (1, 2, 3)]
    assert [one.name for one in found if one is not None] == ["one", "two", "one"]


def test_models_that_stay_keep_their_seats_and_others_join_behind() -> None:
    later = change_seats(Seating((A, B, C)), [C, D])
    assert later == Seating((A, B, C, D), dropped=(1, 2))
    assert later.choose_lead(1) == 3
    assert later.choose_lead(4) == 4


def test_a_model_that_left_comes_back_to_its_own_seat() -> None:
    assert change_seats(Seating((A, B, C), dropped=(2,)), [A, B]) == Seating((A, B, C), (3,))


@given(seatings, st.lists(names, min_size=1, max_size=6))
def test_after_a_change_exactly_the_wanted_models_sit(now: Seating, wanted: list[str]) -> None:
    later = change_seats(now, wanted)
    assert sorted(later.models[seat - 1] for seat in later.active) == sorted(wanted)
    assert later.models[: len(now.models)] == now.models


def test_a_session_has_a_limit_of_seats() -> None:
    now = Seating(tuple(f"acme/m{n}" for n in range(SEATS_MAX)), tuple(range(2, SEATS_MAX + 1)))
    with pytest.raises(UsageError) as caught:
        change_seats(now, ["other/one"])
    assert (caught.value.reason, caught.value.limit) == ("too_many_seats", SEATS_MAX)


def test_the_last_seat_cannot_leave() -> None:
    now = drop_seat(Seating((A, B)), 1)
    assert now.dropped == (1,)
    with pytest.raises(UsageError) as caught:
        drop_seat(now, 2)
    assert caught.value.reason == "last_seat"


def test_a_replaced_seat_keeps_its_number_and_comes_back() -> None:
    assert replace_seat(Seating((A, B, C), (2,)), 2, D) == Seating((A, D, C))


def test_a_seat_that_does_not_exist_is_named() -> None:
    with pytest.raises(UsageError) as caught:
        replace_seat(Seating((A,)), 2, B)
    assert (caught.value.reason, caught.value.subject, caught.value.limit) == ("no_seat", "2", 1)
