"""The rules of the work folders `Pending/`, `Current/` and `Complete/`: whose file is it. Pure.

We write the files of the agreed plan there, and next to them `PLAN.md`, the page about it; from
then on they belong to the person who works on them. A file is still ours only if it is where we
wrote it and its hash is one that we wrote there. Only such a file is ever replaced or deleted. Does
not know storage.
"""

from __future__ import annotations

import enum
import re
import unicodedata
from collections.abc import Collection, Container, Iterable
from pathlib import PurePosixPath

from dialectic.core.documents.file_paths import WorkStatus

# The types of the resources that we write into the work folders.
PLAN_ITEM = "work_item"
SUPERSEDED_ITEM = "superseded_work_item"
FOLDER_README = "work_folder_readme"
# The type of the page that is made of the documents of a finished iteration.
PLAN_PAGE = "plan_page"
PLAN_PAGE_NAME = "PLAN.md"

README_NAME = "README.md"
# Folders that the plan itself does not fill exist by a file: storage like S3 has no empty folders.
FOLDER_READMES = {
    WorkStatus.CURRENT: (
        "# Current\n\nMove a file from `Pending/` here when you begin with it. Files in this folder"
        " are yours:\nchange, rename or delete them, this one too.\n"
    ),
    WorkStatus.COMPLETE: (
        "# Complete\n\nMove a file here when it is done. Files in this folder are yours: change,"
        " rename or delete\nthem, this one too.\n"
    ),
}
# A note of a plan file: the file, as we first named it, whose newer version it is.
REPLACES = "replaces:"

_WORK_FOLDERS = frozenset(WorkStatus)
_PLAN_PAGE = re.compile(r"[^/]+/PLAN(?:-v[0-9]+)?\.md")
_VERSION = re.compile(r"-v[0-9]+$")
_ENTRY_CHARS_MAX = 1_000


class Settlement(enum.Enum):
    """What happens to a plan file that waits to be written or withdrawn."""

    WRITE = "write"
    DONE = "done"  # storage has it already
    WRITE_SUCCESSOR = "write_successor"  # a person has changed, moved or deleted the earlier file
    DELETE = "delete"
    KEEP = "keep"  # withdrawn, but a person has changed it
    FORGET = "forget"  # withdrawn, and not there any more


def decide_settlement(
    found: str | None, *, new: str, earlier: Collection[str], is_withdrawn: bool
) -> Settlement:
    """Decide by hashes: what storage holds there, what we want there, what we wrote there before.

    `found` is None if storage holds no such file. Of a withdrawn file, `new` is what we wrote last.
    """
    if is_withdrawn:
        if found is None:
            return Settlement.FORGET
        return Settlement.DELETE if found == new or found in earlier else Settlement.KEEP
    if found == new:
        return Settlement.DONE
    is_ours = found in earlier if found is not None else not earlier
    return Settlement.WRITE if is_ours else Settlement.WRITE_SUCCESSOR


def is_work_path(path: str) -> bool:
    """Return whether a file is for a person to work on: in a work folder, or the plan page."""
    parts = path.split("/", 2)
    return (len(parts) > 2 and parts[1] in _WORK_FOLDERS) or is_plan_page(path)


def is_plan_page(path: str) -> bool:
    """Return whether a path is that of a project's plan page, or of a later version of it."""
    return _PLAN_PAGE.fullmatch(path) is not None


def name_plan_page(slug: str) -> str:
    """Name the page that people read first."""
    return f"{slug}/{PLAN_PAGE_NAME}"


def list_work_folders(slug: str) -> list[str]:
    """List the work folders of a project."""
    return [f"{slug}/{status}" for status in WorkStatus]


def strip_project(path: str) -> str:
    """Return a path within its project's folder."""
    return path.partition("/")[2]


def name_successor(path: str, taken: Container[str]) -> str:
    """Name the newer version of a file whose place is not ours any more: `name-v2.md`."""
    place = PurePosixPath(path)
    stem, number = _VERSION.sub("", place.stem), 2
    while (successor := str(place.with_name(f"{stem}-v{number}{place.suffix}"))) in taken:
        number += 1
    return successor


def name_first(path: str, notes: Iterable[str]) -> str:
    """Return the path in its project that a plan file's first version had."""
    for note in notes:
        if note.startswith(REPLACES):
            return note.removeprefix(REPLACES)
    return strip_project(path)


def name_entries(paths: Iterable[str]) -> dict[str, str]:
    """Name files in an archive, which every file system must be able to unpack.

    Nearly every file keeps its path. A character that cannot be shown becomes `_`, and of two names
    that differ only by case the second gets a number.
    """
    names: dict[str, str] = {}
    seen: set[str] = set()
    for path in sorted(paths):
        shown = "".join(char if char.isprintable() else "_" for char in path)[:_ENTRY_CHARS_MAX]
        place, name, number = PurePosixPath(shown), shown, 2
        while _fold(name) in seen:
            name = str(place.with_name(f"{place.stem}-{number}{place.suffix}"))
            number += 1
        seen.add(_fold(name))
        names[path] = name
    return names


def _fold(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()
