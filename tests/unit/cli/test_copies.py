"""A copy of a project belongs to the user: what they change, move or delete stays that way."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from uuid import UUID

import pytest

from dialectic.cli.copies import (
    MANIFEST_NAME,
    CopyStep,
    KeptFile,
    ProjectCopy,
    decide_copy,
    find_copy,
    remember_copy,
)
from dialectic.contract.projects import ProjectFile
from tests.cases import each_case

PROJECT = UUID("0123abcd-0000-4000-8000-000000000000")
README, PLAN = "hall/project_readme.md", "hall/Pending/01-dig.md"


class Stored:
    """A project in storage, by path; work files as we wrote them have a hash."""

    def __init__(self, **files: str) -> None:
        self.files = {README: "Read me.", PLAN: "- [ ] Dig."} | files
        self.read_paths: list[str] = []

    async def copy(self, out: Path) -> list[KeptFile]:
        listed = [
            ProjectFile(path=path, sha256=hashlib.sha256(text.encode()).hexdigest())
            for path, text in sorted(self.files.items())
        ]
        return await ProjectCopy.open(out, "hall").update(listed, self.read)

    async def read(self, path: str) -> bytes:
        self.read_paths.append(path)
        return self.files[path].encode()


def read_copy(out: Path) -> dict[str, str]:
    found = {str(p.relative_to(out)): p.read_text() for p in out.rglob("*") if p.is_file()}
    found.pop(f"hall/{MANIFEST_NAME}")
    return found


@each_case(
    ("last", "found", "step"),
    [
        (None, None, CopyStep.WRITE),
        (None, "new", CopyStep.LEAVE),
        (None, "theirs", CopyStep.WRITE_NEWER),
        ("old", None, CopyStep.LEAVE),
        ("old", "old", CopyStep.WRITE),
        ("old", "theirs", CopyStep.WRITE_NEWER),
        ("new", "theirs", CopyStep.LEAVE),
        ("new", None, CopyStep.LEAVE),
    ],
)
def test_what_happens_to_a_file_is_decided_by_hashes(
    last: str | None, found: str | None, step: CopyStep
) -> None:
    assert decide_copy("new", last=last, found=found) is step


async def test_an_untouched_copy_follows_the_project(tmp_path: Path) -> None:
    stored = Stored()
    assert await stored.copy(tmp_path) == []
    stored.files |= {README: "Read me again.", "hall/a.md": "More."}
    assert await stored.copy(tmp_path) == []
    assert read_copy(tmp_path) == stored.files


async def test_a_second_copy_reads_only_what_is_new(tmp_path: Path) -> None:
    stored = Stored()
    await stored.copy(tmp_path)
    stored.read_paths.clear()
    stored.files["hall/a.md"] = "More."
    await stored.copy(tmp_path)
    assert stored.read_paths == ["hall/a.md"]


async def test_a_changed_file_is_left_alone_and_its_new_version_is_next_to_it(
    tmp_path: Path,
) -> None:
    stored = Stored()
    await stored.copy(tmp_path)
    (tmp_path / PLAN).write_text("- [x] Dig.")
    assert await stored.copy(tmp_path) == []
    stored.files[PLAN] = "- [ ] Dig deeper."
    assert await stored.copy(tmp_path) == [KeptFile("Pending/01-dig.md", "Pending/01-dig.new.md")]
    assert await stored.copy(tmp_path) == [], "it is said once"
    copied = read_copy(tmp_path)
    assert copied[PLAN] == "- [x] Dig."
    assert copied["hall/Pending/01-dig.new.md"] == "- [ ] Dig deeper."


async def test_a_new_version_that_the_user_changed_is_left_alone_too(tmp_path: Path) -> None:
    stored = Stored()
    await stored.copy(tmp_path)
    (tmp_path / PLAN).write_text("mine")
    stored.files[PLAN] = "two"
    await stored.copy(tmp_path)
    stored.files[PLAN] = "three"
    await stored.copy(tmp_path)
    new = tmp_path / "hall/Pending/01-dig.new.md"
    assert new.read_text() == "three", "an untouched new version is replaced"
    new.write_text("merged")
    stored.files[PLAN] = "four"
    assert await stored.copy(tmp_path) == [KeptFile("Pending/01-dig.md", "Pending/01-dig.new-2.md")]
    assert new.read_text() == "merged"


async def test_what_the_user_moved_or_deleted_does_not_come_back(tmp_path: Path) -> None:
    stored = Stored()
    await stored.copy(tmp_path)
    (tmp_path / "hall/Current").mkdir()
    (tmp_path / PLAN).rename(tmp_path / "hall/Current/01-dig.md")
    (tmp_path / README).unlink()
    await stored.copy(tmp_path)
    stored.files |= {README: "Read me again.", PLAN: "- [ ] Dig deeper."}
    await stored.copy(tmp_path)
    assert read_copy(tmp_path) == {"hall/Current/01-dig.md": "- [ ] Dig."}


async def test_a_withdrawn_plan_file_goes_unless_the_user_changed_it(tmp_path: Path) -> None:
    stored = Stored(**{"hall/Pending/02-open.md": "- [ ] Open."})
    await stored.copy(tmp_path)
    (tmp_path / PLAN).write_text("- [x] Dig.")
    del stored.files[PLAN], stored.files["hall/Pending/02-open.md"]
    await stored.copy(tmp_path)
    assert read_copy(tmp_path) == {README: "Read me.", PLAN: "- [x] Dig."}


async def test_files_that_were_there_before_the_first_copy_are_the_users(tmp_path: Path) -> None:
    (tmp_path / "hall").mkdir()
    (tmp_path / README).write_text("My own.")
    kept = await Stored().copy(tmp_path)
    assert kept == [KeptFile("project_readme.md", "project_readme.new.md")]
    assert (tmp_path / README).read_text() == "My own."


async def test_links_and_folders_in_the_place_of_files_are_left_alone(tmp_path: Path) -> None:
    stored = Stored()
    await stored.copy(tmp_path)
    (tmp_path / "elsewhere.md").write_text("mine")
    (tmp_path / PLAN).unlink()
    (tmp_path / PLAN).symlink_to(tmp_path / "elsewhere.md")
    (tmp_path / README).unlink()
    (tmp_path / README).mkdir()
    stored.files |= {README: "Read me again.", PLAN: "- [ ] Dig deeper."}
    assert len(await stored.copy(tmp_path)) == 2
    assert (tmp_path / PLAN).is_symlink()
    assert (tmp_path / "elsewhere.md").read_text() == "mine"
    assert (tmp_path / README).is_dir()


async def test_a_file_in_the_place_of_a_folder_is_left_alone(tmp_path: Path) -> None:
    stored = Stored()
    await stored.copy(tmp_path)
    (tmp_path / PLAN).unlink()
    (tmp_path / "hall/Pending").rmdir()
    (tmp_path / "hall/Pending").write_text("mine")
    stored.files["hall/Pending/02-open.md"] = "- [ ] Open."
    await stored.copy(tmp_path)
    assert (tmp_path / "hall/Pending").read_text() == "mine"


@pytest.mark.parametrize("damage", [b"", b"[]", b"{", b'{"files": [1]}', b"\xff"])
async def test_without_a_readable_manifest_every_file_is_the_users(
    tmp_path: Path, damage: bytes
) -> None:
    stored = Stored()
    await stored.copy(tmp_path)
    (tmp_path / f"hall/{MANIFEST_NAME}").write_bytes(damage)
    (tmp_path / PLAN).write_text("- [x] Dig.")
    await stored.copy(tmp_path)
    assert (tmp_path / PLAN).read_text() == "- [x] Dig."
    assert json.loads((tmp_path / f"hall/{MANIFEST_NAME}").read_bytes())["files"]


def test_the_place_of_a_copy_is_remembered_and_can_be_changed(tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert find_copy(home, PROJECT) is None
    for out in (tmp_path / "plans", tmp_path / "Pläne 2"):
        remember_copy(home, PROJECT, out)
        assert find_copy(home, PROJECT) == out


def test_an_unwritable_home_does_not_stop_a_command(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file")
    remember_copy(tmp_path / "home", PROJECT, tmp_path)
    assert find_copy(tmp_path / "home", PROJECT) is None
