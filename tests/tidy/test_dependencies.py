"""Dependencies are explained, pinned and free of addresses."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from requirements.install import build_environment

ROOT = Path(__file__).parents[2]
LOCKS = sorted((ROOT / "requirements").glob("*.lock"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DECLARED = {
    "Running": PROJECT["dependencies"],
    "Development": PROJECT["optional-dependencies"]["dev"],
    "Benchmarks": PROJECT["optional-dependencies"]["bench"],
}
PINNED = re.compile(r"([\w.-]+)==[^\s;]+( ; .+)?( --hash=sha256:[0-9a-f]{64})+")

every_lock = pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
every_group = pytest.mark.parametrize("group", DECLARED)


def declared_names(group: str) -> set[str]:
    return {re.split(r"[<>=!~; ]", dependency)[0] for dependency in DECLARED[group]}


def explained_names(group: str) -> set[str]:
    """The first cells of the table under the group's heading."""
    page = (ROOT / "docs/dependencies.md").read_text()
    section = page.partition(f"\n## {group}\n")[2].partition("\n## ")[0]
    return set(re.findall(r"^\| `([^`]+)` \|", section, flags=re.MULTILINE))


def pins(lock: Path) -> Iterator[str]:
    """The entries of a lock, each joined to one line, without comments."""
    text = re.sub(r"^\s*#.*\n", "", lock.read_text(), flags=re.MULTILINE)
    yield from re.sub(r"\s*\\\n\s*", " ", text).splitlines()


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name.partition("[")[0]).lower()


def locked_versions(lock: Path) -> dict[str, str]:
    pinned = (pin.split()[0].partition("==") for pin in pins(lock))
    return {canonical(name): version for name, _, version in pinned}


@every_group
def test_every_dependency_is_explained_and_nothing_else_is(group: str) -> None:
    assert explained_names(group) == declared_names(group)


@every_lock
def test_every_line_of_a_lock_pins_a_version_with_its_hashes(lock: Path) -> None:
    assert [pin for pin in pins(lock) if not PINNED.fullmatch(pin)] == []
    assert locked_versions(lock)


@every_lock
def test_no_lock_holds_an_address(lock: Path) -> None:
    assert re.findall(r"https?:|file:|\w+://|index-url|find-links| @ ", lock.read_text()) == []


@pytest.mark.parametrize(
    ("lock", "groups"),
    [
        ("run", ["Running"]),
        ("dev", ["Running", "Development"]),
        ("bench", ["Running", "Benchmarks"]),
    ],
)
def test_every_dependency_is_locked(lock: str, groups: list[str]) -> None:
    wanted = {canonical(name) for group in groups for name in declared_names(group)}
    wanted |= {"hatchling", "editables"}
    assert wanted - set(locked_versions(ROOT / f"requirements/{lock}.lock")) == set()


@pytest.mark.parametrize("lock", ["dev", "bench"])
def test_what_is_tested_and_measured_is_what_runs(lock: str) -> None:
    running = locked_versions(ROOT / "requirements/run.lock")
    other = locked_versions(ROOT / f"requirements/{lock}.lock")
    assert running.items() - other.items() == set()


def test_set_up_keeps_the_way_to_a_registry_and_drops_what_would_change_the_outcome() -> None:
    kept = {
        "HOME": "h",
        "PIP_INDEX_URL": "i",
        "UV_DEFAULT_INDEX": "d",
        "UV_INDEX_OURS_PASSWORD": "p",
    }
    dropped = {"PIP_TARGET": "t", "PIP_NO_DEPS": "1", "UV_PYTHON": "3.9", "VIRTUAL_ENV": "v"}
    environment = build_environment(kept | dropped)
    assert environment.items() >= kept.items()
    assert environment.keys() & dropped.keys() == set()
