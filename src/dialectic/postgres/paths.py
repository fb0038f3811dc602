"""The paths of one home's server. Names only: creates and opens nothing."""

from __future__ import annotations

from pathlib import Path


class Place:
    """The folder `<home>/postgres` and the paths in it."""

    def __init__(self, home: Path) -> None:
        self.folder = home.absolute() / "postgres"
        self.data = self.folder / "data"
        self.partial = self.folder / "data.partial"
        self.log = self.folder / "server.log"
        self.old_log = self.folder / "server.old.log"
        self.turn = self.folder / "turn.lock"
        self.members = self.folder / "members.lock"
        self.alive = self.folder / "alive.lock"

    def measure_log(self) -> int:
        """Return the size of the log in bytes."""
        return self.log.stat().st_size if self.log.exists() else 0
