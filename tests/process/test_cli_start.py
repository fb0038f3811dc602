"""A command that does little starts quickly: what it does not need is not loaded."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys

import dialectic

# All that the shortest command loads; neither mail nor sockets, which reading the version of an
# installed package takes.
PROGRAM = """
import sys
import dialectic.cli.main
heavy = {"importlib.metadata", "email.message", "asyncio", "pydantic", "asyncpg", "pgqueuer"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
sys.argv = ["dialectic", "--version"]
dialectic.cli.main.main()
"""


def test_the_version_is_told_without_looking_for_the_installed_package() -> None:
    told = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True)
    assert told.stdout.decode() == f"dialectic, version {dialectic.__version__}\n"


def test_the_version_that_is_told_is_that_of_the_installed_package() -> None:
    assert dialectic.__version__ == importlib.metadata.version("dialectic-engine")
