"""Files that are sent and received: plain ones, and there when they are whole. Knows no server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from dialectic.errors import UsageError

# With what is added to it, a name still is one that every file system takes.
NAME_CHARS_MAX = 100


def check_plain(path: Path, word: str) -> None:
    """Refuse a device or a pipe: one would be replaced by a file, the other be sent without end."""
    if path.exists() and not path.is_file():
        raise UsageError(
            f"{path} cannot be {word}: it is no plain file.", reason="not_a_file", subject=str(path)
        )


@contextmanager
def writing_whole(out: Path) -> Iterator[BinaryIO]:
    """Open a draft beside a file; it takes the file's name when all of it is written."""
    check_plain(out, "written")
    draft = out.with_name(f".{out.name[:NAME_CHARS_MAX]}.{uuid4().hex}.part")
    try:
        with draft.open("xb") as file:
            yield file
        draft.replace(out)
    finally:
        draft.unlink(missing_ok=True)
