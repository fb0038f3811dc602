"""Named points at which a test can make this process die, freeze or fail. Unarmed, they do nothing.

DIALECTIC_FAILPOINTS holds `point=action` pairs with commas between them; `@n` after the action
means the n-th time the point is reached, the first if absent.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from dataclasses import dataclass, field

from dialectic.errors import ConfigurationError, ProviderTransient

POINTS = (
    "after_claim",  # the job is ours, nothing is read yet
    "before_send",  # the prompt is ready and may go; no money is set aside, no byte has left
    "after_reply",  # the answer is here, nothing of it is saved
    "before_commit",  # everything is written in the transaction, which is still open
    "after_commit",  # saved; files are not in storage yet
    "after_files",  # files are in storage, not marked as written
)
ACTIONS = ("kill", "stop", "error")


@dataclass(slots=True)
class Failpoints:
    """The armed points and how often each was reached."""

    armed: dict[str, tuple[str, int]]
    reached: Counter[str] = field(default_factory=Counter)

    @classmethod
    def parse(cls, text: str) -> Failpoints:
        """Read the setting; an unknown point or action is an error that names the known ones."""
        armed: dict[str, tuple[str, int]] = {}
        for pair in filter(None, (part.strip() for part in text.split(","))):
            point, _, rest = pair.partition("=")
            action, _, nth = rest.partition("@")
            is_count = (nth or "1").isdecimal() and int(nth or "1") >= 1
            if point not in POINTS or action not in ACTIONS or not is_count:
                raise ConfigurationError(
                    f"Failpoint {pair!r} is not known. Write `point=action@n` with a point of "
                    f"{', '.join(POINTS)} and an action of {', '.join(ACTIONS)}.",
                    reason="no_failpoint",
                    subject=pair,
                )
            armed[point] = (action, int(nth or "1"))
        return cls(armed)

    def reach(self, point: str) -> None:
        """Say that the process has come to this point."""
        assert point in POINTS, point
        if point not in self.armed:
            return
        self.reached[point] += 1
        action, nth = self.armed[point]
        if self.reached[point] != nth:
            return
        if action == "error":
            raise ProviderTransient(f"Failpoint {point} is armed.")
        os.kill(os.getpid(), signal.SIGKILL if action == "kill" else signal.SIGSTOP)
