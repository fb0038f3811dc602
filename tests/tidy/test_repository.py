"""The repository speaks of itself alone, and its Makefile explains itself."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Tests may hold made-up paths as inputs, so they are not searched for these.
MACHINE_PATH = re.compile(r"(?<![\w.~/{}$-])/(root|home|Users|work|tmp|mnt|private)/\w")
LEFTOVER = re.compile(r"\b(TO[D]O|FIX[M]E|X[X]X)\b")


@cache
def files() -> list[Path]:
    """The files that are, or are about to be, part of the repository."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git repository")
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [path for name in listed.split("\0") if name and (path := ROOT / name).is_file()]


def lines() -> Iterator[tuple[str, str]]:
    """Each line of each text file, with its place."""
    for path in files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), start=1):
            yield f"{path.relative_to(ROOT)}:{number}", line


def makefile_targets() -> set[str]:
    return set(re.findall(r"^([a-z][\w-]*):(?!=)", (ROOT / "Makefile").read_text(), re.MULTILINE))


def test_no_file_holds_a_path_of_somebodys_machine() -> None:
    found = [f"{place}: {line}" for place, line in lines() if MACHINE_PATH.search(line)]
    assert [line for line in found if not line.startswith("tests/")] == []


def test_no_file_holds_a_note_of_unfinished_work() -> None:
    assert [f"{place}: {line}" for place, line in lines() if LEFTOVER.search(line)] == []


def test_every_target_of_the_makefile_is_named_in_its_help() -> None:
    make = shutil.which("make")
    assert make is not None
    command = [make, "--no-print-directory", "help"]
    printed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert set(re.findall(r"^  make (\S+) +\S", printed, re.MULTILINE)) == makefile_targets()


def test_every_target_of_the_makefile_runs_even_where_a_file_has_its_name() -> None:
    declared = re.search(r"^\.PHONY:((?:.*\\\n)*.*)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert declared is not None
    assert makefile_targets() <= set(declared[1].replace("\\", " ").split())
