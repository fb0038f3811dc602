"""Copies of a project's documents in a folder of the user, and where each project's copy is.

A copied file belongs to the user. The copy's manifest remembers the hash of what was copied last:
only a file that still has it is replaced. A file that the user changed is left alone, and its newer
version is written next to it; one that the user moved or deleted does not come back.
"""

from __future__ import annotations

import contextlib
import enum
import hashlib
import json
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TypeAlias
from uuid import UUID

from dialectic.atomic_write import replacing
from dialectic.contract.projects import ProjectFile
from dialectic.core.documents.plan_files import is_work_path

MANIFEST_NAME = ".dialectic-copy.json"
# In the place of a file: a link, a folder or something unreadable. It is the user's.
_TAKEN = "taken"

Read: TypeAlias = Callable[[str], Awaitable[bytes]]


# -- where the copies are -------------------------------------------------------------------------


def remember_copy(home: Path, project_id: UUID, out: Path) -> None:
    """Remember the folder that a project is copied to; if that fails, `--out` is needed again."""
    place = _get_place(home, project_id)
    with contextlib.suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
        with replacing(place) as file:
            file.write(os.fsencode(Path.absolute(out)))


def find_copy(home: Path, project_id: UUID) -> Path | None:
    """Find the folder that a project is copied to; None if it has no copy."""
    try:
        return Path(os.fsdecode(_get_place(home, project_id).read_bytes()))
    except (OSError, ValueError):
        return None


def _get_place(home: Path, project_id: UUID) -> Path:
    return home / "copies" / str(project_id)


# -- what happens to a file -----------------------------------------------------------------------


class CopyStep(enum.Enum):
    """What happens to a file of the copy."""

    WRITE = "write"
    LEAVE = "leave"
    WRITE_NEWER = "write_newer"


def decide_copy(new: str, *, last: str | None, found: str | None) -> CopyStep:
    """Decide by hashes: the new bytes, what was copied last, and what is there (None: nothing)."""
    if found is None:
        return CopyStep.WRITE if last is None else CopyStep.LEAVE
    if found == new or last == new:
        return CopyStep.LEAVE
    return CopyStep.WRITE if found == last else CopyStep.WRITE_NEWER


@dataclass(frozen=True, slots=True)
class KeptFile:
    """A file that the user changed, and the newer version next to it, within the project."""

    path: str
    newer: str


@dataclass(slots=True)
class ProjectCopy:
    """One project's copy: its folder, and the hashes of what was copied into it."""

    out: Path
    slug: str
    files: dict[str, str] = field(default_factory=dict)
    # The newer versions of files that the user changed.
    newer: dict[str, str] = field(default_factory=dict)
    # The plan files that storage held as we wrote them: their bytes are not a person's.
    ours: set[str] = field(default_factory=set)

    @classmethod
    def open(cls, out: Path, slug: str) -> ProjectCopy:
        """Read the manifest; without one, every file that is there is the user's."""
        copy = cls(out, slug)
        with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):
            manifest = json.loads((out / slug / MANIFEST_NAME).read_bytes())
            copy.files = {str(path): str(known) for path, known in manifest["files"].items()}
            copy.newer = {str(path): str(known) for path, known in manifest["newer"].items()}
            copy.ours = set(map(str, manifest["ours"]))
        return copy

    async def update(self, files: Sequence[ProjectFile], read: Read) -> list[KeptFile]:
        """Copy what is new; return the files that the user changed. Raises `OSError`."""
        kept: list[KeptFile] = []
        try:
            for file in files:
                if file.sha256 is not None and self.files.get(file.path) == file.sha256:
                    continue
                data = await read(file.path)
                self.ours.discard(file.path)
                if file.sha256 is not None and is_work_path(file.path):
                    self.ours.add(file.path)
                if (newer := self._take(file.path, data)) is not None:
                    kept.append(KeptFile(self._strip(file.path), self._strip(newer)))
            self._withdraw({file.path for file in files})
        finally:
            self._save()
        return kept

    def _take(self, path: str, data: bytes) -> str | None:
        """Copy one file; return the path next to it if the user changed it."""
        new, newer = hashlib.sha256(data).hexdigest(), None
        step = decide_copy(new, last=self.files.get(path), found=_find_hash(self.out / path))
        # A user who put a file in the place of a folder does not want what was in it.
        with contextlib.suppress(NotADirectoryError, FileExistsError):
            if step is CopyStep.WRITE:
                self._write(path, data)
            elif step is CopyStep.WRITE_NEWER:
                newer = self._name_newer(path)
                self._write(newer, data)
                self.newer[newer] = new
        self.files[path] = new
        return newer

    def _name_newer(self, path: str) -> str:
        """Name the newer version; an earlier one is replaced if the user has not changed it."""
        place, number = PurePosixPath(path), 1
        while True:
            mark = ".new" if number == 1 else f".new-{number}"
            newer = str(place.with_name(f"{place.stem}{mark}{place.suffix}"))
            found = _find_hash(self.out / newer)
            if found is None or found == self.newer.get(newer):
                return newer
            number += 1

    def _withdraw(self, current: set[str]) -> None:
        """Delete superseded plan files, unless a person has changed them here or in storage."""
        for path in self.ours - current:
            if path in self.files and _find_hash(self.out / path) == self.files[path]:
                (self.out / path).unlink(missing_ok=True)
                # One that the user removed stays in mind: it does not come back.
                del self.files[path]

    def _write(self, path: str, data: bytes) -> None:
        target = self.out / path
        target.parent.mkdir(parents=True, exist_ok=True)
        with replacing(target) as file:
            file.write(data)

    def _save(self) -> None:
        manifest = {
            "about": "What was copied here last. Changed files are left alone.",
            "files": dict(sorted(self.files.items())),
            "newer": dict(sorted(self.newer.items())),
            "ours": sorted(self.ours & self.files.keys()),
        }
        with contextlib.suppress(OSError):
            data = json.dumps(manifest, ensure_ascii=False, indent=1).encode(errors="replace")
            self._write(f"{self.slug}/{MANIFEST_NAME}", data + b"\n")

    def _strip(self, path: str) -> str:
        return path.removeprefix(f"{self.slug}/")


def _find_hash(target: Path) -> str | None:
    """Return the hash of the user's file; None if nothing is there."""
    try:
        if target.is_symlink() or target.is_dir():
            return _TAKEN
        return hashlib.sha256(target.read_bytes()).hexdigest()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return _TAKEN
