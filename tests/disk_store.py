"""A store on disk, of a test's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from dialectic.storage.disk import DiskStore


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "outer" / "store"


@pytest.fixture
def store(root: Path) -> DiskStore:
    return DiskStore(root)
