"""A store of a test's own."""

from tests.disk_store import root, store

__all__ = ["root", "store"]
