"""Lanes limit how many jobs of each kind a worker runs at a time. Pure state, without I/O.

Each endpoint has its own lane, so that a hanging endpoint does not block the others. Plan jobs call
no endpoint and have their own lane too. The width of a lane adapts: a job that an endpoint's limits
turn away narrows it by one place, and any other job widens it a little. While an endpoint's rate
limit or circuit breaker blocks all calls, its lane is closed.

A tenant's own endpoint has a lane for that tenant alone, with few places: no tenant takes the room
of others. It is found when it has work, and dropped after a while without any.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from dialectic.core.models.endpoint import OWN

# The lane names in dispatch.sql: two fixed ones, and the prefix of all others.
ANY, PLAN, CALL = "job", "plan", "call:"
# The places of a tenant's own endpoint, and how long its lane is kept without work.
OWN_PLACES_MAX = 16
OWN_KEPT_S = 600.0


def is_own(lane: str) -> bool:
    """Tell whether a lane is for a tenant's own endpoint: `call:TENANT/@NAME`."""
    return f"/{OWN}" in lane


def name_lane(endpoint: str) -> str:
    """Name the lane of the calls to an endpoint."""
    return f"{CALL}{endpoint}"


@dataclass(slots=True)
class Lane:
    """One lane: its maximum and current width, and how many places are taken."""

    places: int
    width: float
    taken: int = 0
    closed_until_s: float = 0.0
    # When it last had work; only noted for tenants' own endpoints.
    worked_at_s: float = 0.0

    @property
    def free(self) -> int:
        """The number of free places; negative if the lane has just become narrower."""
        return int(self.width) - self.taken


@dataclass(slots=True)
class Lanes:
    """All lanes of one worker."""

    # The default and maximum number of places of a lane.
    places: int
    # Called when a full lane gets room: its messages are still in the queue.
    on_room: Callable[[], None] = lambda: None
    by_name: dict[str, Lane] = field(default_factory=dict)

    def add(self, name: str, places: int | None = None) -> None:
        """Add a lane, unless it exists."""
        if name in self.by_name:
            return
        count = self.places if places is None else min(places, self.places)
        if is_own(name):
            count = min(count, OWN_PLACES_MAX)
        self.by_name[name] = Lane(count, float(count))
        self.on_room()

    def find(self, waiting: Collection[str], now_s: float) -> None:
        """Add the lanes of waiting messages; drop tenants' own lanes that long had no work."""
        for name in waiting:
            self.add(name)  # also unknown endpoints: their jobs must fail, not wait
        for name in [name for name in self.by_name if is_own(name)]:
            lane = self.by_name[name]
            if lane.taken > 0 or name in waiting:
                lane.worked_at_s = now_s
            elif now_s - lane.worked_at_s > OWN_KEPT_S:
                del self.by_name[name]

    def enter(self, name: str) -> None:
        self.add(name)  # dropped while its message was on the way
        self.by_name[name].taken += 1

    def leave(self, name: str) -> None:
        lane = self.by_name[name]
        assert lane.taken > 0, f"lane {name} is empty"
        was_full = lane.free < 1
        lane.taken -= 1
        self._tell(lane, was_full=was_full)

    def list_room(self, now_s: float) -> Mapping[str, int]:
        """Map each open lane to its number of free places, without full lanes."""
        return {
            name: lane.free
            for name, lane in self.by_name.items()
            if lane.closed_until_s <= now_s and lane.free > 0
        }

    def find_opening_s(self, now_s: float) -> float | None:
        """Find the seconds until the next closed lane opens."""
        closed = [lane.closed_until_s - now_s for lane in self.by_name.values()]
        return min((each for each in closed if each > 0), default=None)

    def widen(self, name: str) -> None:
        """Record a job that was not turned away. As many as the lane is wide add one place."""
        lane = self.by_name[name]
        was_full = lane.free < 1
        lane.width = min(lane.width + 1 / lane.width, float(lane.places))
        self._tell(lane, was_full=was_full)

    def narrow(self, name: str, *, until_s: float) -> None:
        """Record a job that was turned away; the lane stays closed until `until_s`."""
        lane = self.by_name[name]
        lane.width = max(1.0, min(lane.width, lane.taken - 1))
        lane.closed_until_s = max(lane.closed_until_s, until_s)

    def _tell(self, lane: Lane, *, was_full: bool) -> None:
        if was_full and lane.free > 0:
            self.on_room()
