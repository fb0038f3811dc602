"""How many jobs each lane takes, whatever happens to those in it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dialectic.db.queue import split_room
from dialectic.worker.lanes import ANY, OWN_KEPT_S, OWN_PLACES_MAX, PLAN, Lanes, name_lane

X, Y = name_lane("x"), name_lane("y")


def build_lanes(places: int = 8) -> Lanes:
    lanes = Lanes(places)
    for name in (ANY, PLAN, X, Y):
        lanes.add(name)
    return lanes


def fill(lanes: Lanes, name: str, count: int) -> None:
    for _ in range(count):
        lanes.enter(name)


def test_a_lane_takes_as_many_as_it_has_places_and_no_other_lane_feels_it() -> None:
    lanes = build_lanes()
    fill(lanes, X, 8)
    assert lanes.list_room(0.0) == {ANY: 8, PLAN: 8, Y: 8}
    lanes.leave(X)
    assert lanes.list_room(0.0)[X] == 1


def test_an_endpoint_that_bears_few_calls_has_few_places_and_never_more_than_the_worker() -> None:
    lanes = Lanes(8)
    lanes.add(X, 3)
    lanes.add(Y, 100)
    assert lanes.list_room(0.0) == {X: 3, Y: 8}


def test_a_lane_that_is_there_stays_as_it_is() -> None:
    lanes = Lanes(8)
    lanes.add(X, 3)
    lanes.add(X)
    assert lanes.list_room(0.0) == {X: 3}


def test_those_who_are_turned_away_leave_as_many_places_as_get_through() -> None:
    lanes = build_lanes()
    fill(lanes, X, 8)
    for _ in range(5):
        lanes.narrow(X, until_s=0.0)
        lanes.leave(X)
    assert X not in lanes.list_room(0.0), "three get through, and three are there"
    lanes.leave(X)
    assert lanes.list_room(0.0)[X] == 1


def test_a_waiting_worker_knows_when_the_first_closed_lane_opens() -> None:
    lanes = build_lanes()
    assert lanes.find_opening_s(0.0) is None
    fill(lanes, X, 2)
    fill(lanes, Y, 2)
    lanes.narrow(X, until_s=5.0)
    lanes.narrow(Y, until_s=3.0)
    assert lanes.find_opening_s(1.0) == 2.0
    assert lanes.find_opening_s(4.0) == 1.0
    assert lanes.find_opening_s(5.0) is None


def test_a_lane_never_shuts_for_good() -> None:
    lanes = build_lanes()
    for _ in range(20):
        lanes.enter(X)
        lanes.narrow(X, until_s=0.0)
        lanes.leave(X)
    assert lanes.list_room(0.0)[X] == 1


def test_a_lane_grows_by_one_place_when_as_many_got_through_as_it_is_wide() -> None:
    lanes = build_lanes()
    fill(lanes, X, 5)
    for _ in range(2):
        lanes.narrow(X, until_s=0.0)
        lanes.leave(X)
    assert X not in lanes.list_room(0.0)
    for _ in range(4):
        lanes.widen(X)
    assert lanes.list_room(0.0)[X] == 1
    for _ in range(1000):
        lanes.widen(X)
    assert lanes.list_room(0.0)[X] == 8 - 3


def test_whenever_a_lane_that_was_full_has_room_it_is_told_and_otherwise_not() -> None:
    told: list[dict[str, int]] = []
    lanes = Lanes(4, on_room=lambda: told.append(dict(lanes.list_room(0.0))))
    lanes.add(X)
    assert told.pop() == {X: 4}
    lanes.add(X)
    fill(lanes, X, 3)
    lanes.leave(X)
    assert not told, "there was room before"
    fill(lanes, X, 2)
    lanes.leave(X)
    assert told.pop() == {X: 1}
    lanes.narrow(X, until_s=0.0)
    lanes.leave(X)
    assert not told, "it became as much narrower"
    lanes.leave(X)
    assert told.pop() == {X: 1}
    lanes.enter(X)
    for _ in range(3):
        lanes.widen(X)
    assert told.pop() == {X: 1}, "nobody has left, and there is a place more"
    assert not told


def test_a_closed_lane_takes_no_job_until_its_time() -> None:
    lanes = build_lanes()
    lanes.enter(X)
    lanes.narrow(X, until_s=10.0)
    lanes.narrow(X, until_s=5.0)
    lanes.leave(X)
    assert X not in lanes.list_room(9.9)
    assert lanes.list_room(10.0)[X] == 1


@given(st.dictionaries(st.sampled_from([ANY, PLAN, X, Y]), st.integers(1, 64)), st.integers(1, 32))
def test_no_question_to_the_queue_can_bring_more_than_a_lane_takes(
    room: dict[str, int], batch_size: int
) -> None:
    asked = list(split_room(room, batch_size))
    assert sorted(lane for lanes, _ in asked for lane in lanes) == sorted(room)
    for lanes, count in asked:
        assert 1 <= count <= min(batch_size, *(room[lane] for lane in lanes))


# -- tenants' own endpoints ------------------------------------------------------------------------

OWN, OTHERS = name_lane("tenant-1/@acme"), name_lane("tenant-2/@acme")


def test_tenants_with_an_endpoint_of_one_name_have_a_lane_each_with_few_places() -> None:
    lanes = Lanes(64)
    lanes.find([OWN, OTHERS, X], 0.0)
    assert lanes.list_room(0.0) == {OWN: OWN_PLACES_MAX, OTHERS: OWN_PLACES_MAX, X: 64}
    fill(lanes, OWN, OWN_PLACES_MAX)
    assert lanes.list_room(0.0) == {OTHERS: OWN_PLACES_MAX, X: 64}


def test_a_lane_of_a_tenant_is_dropped_after_a_while_without_work_and_comes_back() -> None:
    lanes = build_lanes()
    lanes.find([OWN, OTHERS], 0.0)
    lanes.enter(OTHERS)
    lanes.find([], OWN_KEPT_S)
    assert OWN in lanes.by_name
    lanes.find([], OWN_KEPT_S + 1)
    assert OWN not in lanes.by_name
    assert {OTHERS, X, ANY} <= lanes.by_name.keys()
    lanes.enter(OWN)  # its message was on the way
    lanes.leave(OWN)
    lanes.find([OWN], OWN_KEPT_S + 2)
    assert lanes.list_room(0.0)[OWN] == 8
