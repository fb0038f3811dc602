"""What tests of storage share: a key, and a look at a disk behind the store's back."""

from __future__ import annotations

from pathlib import Path

KEY = "tenant/garden/session_0a1b2c3d/seed_prompt.md"


def all_files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())
