"""Lanes: how many jobs of each kind a worker takes at a time. Knows no queue, no clock and no job.

Each endpoint's calls have a lane of their own, so that one that hangs holds up nobody else's; so
have plans, which call nobody. A lane takes only as many jobs as get through: whoever is turned away
makes it narrower, by its own place, and whoever gets through makes it a little wider again. A lane
in which nobody may call for a while is closed for that while.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

# The first two words that dispatch.sql knows, and the beginning of all others.
ANY, PLAN, CALL = "job", "plan", "call:"


def name_lane(endpoint: str) -> str:
    """Name the lane of the calls to an endpoint."""
    return f"{CALL}{endpoint}"


@dataclass(slots=True)
class Lane:
    """One lane: its places, how many of them it uses, and how many are taken."""

    places: int
    width: float
    taken: int = 0
    closed_until_s: float = 0.0

    @property
    def free(self) -> int:
        """How many more it takes while it is open; below zero when it has just become narrower."""
        return int(self.width) - self.taken


@dataclass(slots=True)
class Lanes:
    """All lanes of one worker."""

    # The places of a lane that nothing else is said about.
    places: int
    # Called when a lane has room that had none: whoever has work for it was not let in before.
    on_room: Callable[[], None] = lambda: None
    by_name: dict[str, Lane] = field(default_factory=dict)

    def add(self, name: str, places: int | None = None) -> None:
        """Make a lane, unless it is there."""
        if name in self.by_name:
            return
        count = self.places if places is None else min(places, self.places)
        self.by_name[name] = Lane(count, float(count))
        self.on_room()

    def enter(self, name: str) -> None:
        self.by_name[name].taken += 1

    def leave(self, name: str) -> None:
        lane = self.by_name[name]
        assert lane.taken > 0, f"nobody is in lane {name}"
        was_full = lane.free < 1
        lane.taken -= 1
        self._tell(lane, was_full=was_full)

    def list_room(self, now_s: float) -> Mapping[str, int]:
        """List how many more jobs each lane takes now; those that take none are left out."""
        return {
            name: lane.free
            for name, lane in self.by_name.items()
            if lane.closed_until_s <= now_s and lane.free > 0
        }

    def find_opening_s(self, now_s: float) -> float | None:
        """Find in how many seconds the first lane opens that is closed now."""
        closed = [lane.closed_until_s - now_s for lane in self.by_name.values()]
        return min((each for each in closed if each > 0), default=None)

    def widen(self, name: str) -> None:
        """Note that a job got through. It takes as many of them as the lane is wide to add one."""
        lane = self.by_name[name]
        was_full = lane.free < 1
        lane.width = min(lane.width + 1 / lane.width, float(lane.places))
        self._tell(lane, was_full=was_full)

    def narrow(self, name: str, *, until_s: float) -> None:
        """Note that a job in the lane was turned away, and that nobody gets through until then."""
        lane = self.by_name[name]
        lane.width = max(1.0, min(lane.width, lane.taken - 1))
        lane.closed_until_s = max(lane.closed_until_s, until_s)

    def _tell(self, lane: Lane, *, was_full: bool) -> None:
        if was_full and lane.free > 0:
            self.on_room()
