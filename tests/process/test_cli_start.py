"""A command that does little starts quickly: what it does not need is not loaded."""

from __future__ import annotations

import importlib.metadata
import signal
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


# Ends itself by ^C while it imports the command, as a person may at any moment.
INTERRUPTED = """
import builtins, os, signal, sys
import dialectic.__main__
imported = builtins.__import__
def interrupt(name, *rest):
    if name == "click":
        os.kill(os.getpid(), signal.SIGINT)
    return imported(name, *rest)
builtins.__import__ = interrupt
sys.argv = ["dialectic", "status"]
dialectic.__main__.main()
"""


def test_a_command_that_is_interrupted_while_it_starts_says_nothing() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, check=False
    )
    assert ended.returncode == -signal.SIGINT
    assert (ended.stdout, ended.stderr) == ("", "")


def test_a_command_that_was_started_to_ignore_interrupts_does_so() -> None:
    ended = subprocess.run(
        ["sh", "-c", "trap '' INT; exec \"$0\" -m dialectic --version", sys.executable],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "version" in ended.stdout
