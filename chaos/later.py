"""A later version of the product, as a folder to run it from: the same code with more migrations.

Upgrades are tried with it while the product has nothing to upgrade from. Knows nothing of
databases.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import dialectic

PACKAGE = Path(dialectic.__file__).parent


def make_later_version(folder: Path, migrations: Mapping[str, str]) -> Path:
    """Make the package with these migrations added; return what PYTHONPATH must name."""
    later = folder / PACKAGE.name
    later.mkdir(parents=True)
    for part in PACKAGE.iterdir():
        if part.name not in ("db", "__pycache__"):
            (later / part.name).symlink_to(part)
    shutil.copytree(PACKAGE / "db", later / "db", ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in migrations.items():
        (later / "db" / "sql" / "migrations" / name).write_text(text, encoding="utf-8")
    return folder
