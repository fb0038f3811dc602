"""Errors of the embedded server: what failed, where, and what to do."""

from __future__ import annotations

import contextlib
import errno
import shutil
from collections.abc import Iterator
from pathlib import Path

from dialectic.errors import EmbeddedServerError
from dialectic.postgres.paths import Place

ELSEWHERE = "choose another folder by DIALECTIC_HOME or another server by DIALECTIC_DATABASE_URL"
LOG_BYTES_SHOWN = 2_000
DISK_BYTES_NEEDED = 20_000_000  # one WAL segment and a margin
DISK_FULL_TEXTS = ("No space left on device", "Disk quota exceeded")


def build_failure(place: Place, trouble: str, log_start: int) -> EmbeddedServerError:
    """Build the error of a failed program: its log, from `log_start` on, says why."""
    with place.log.open("a+b") as log:
        log.seek(max(log_start, log.tell() - LOG_BYTES_SHOWN))
        words = log.read().decode(errors="replace").strip()
    # On a full disk the log itself may be missing the reason.
    free_bytes = shutil.disk_usage(place.folder).free
    if free_bytes < DISK_BYTES_NEEDED or any(text in words for text in DISK_FULL_TEXTS):
        return _disk_full(place.folder)
    return EmbeddedServerError(
        f"The embedded PostgreSQL in {place.folder} {trouble}. "
        f"Its log, {place.log}, ends:\n{words or '(empty)'}",
        reason="no_start",
        subject=str(place.folder),
    )


@contextlib.contextmanager
def explaining(place: Place) -> Iterator[None]:
    """Translate file system errors into messages that say what to do."""
    try:
        yield
    except OSError as error:
        path = error.filename or place.folder
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise _disk_full(path) from error
        not_folder = isinstance(error, FileExistsError | NotADirectoryError)
        reason = "it is not a folder" if not_folder else error.strerror
        raise EmbeddedServerError(
            f"The embedded PostgreSQL cannot use {path}: {reason}. Correct that, or {ELSEWHERE}.",
            reason="unusable_folder",
            subject=str(path),
        ) from error


def _disk_full(path: str | Path) -> EmbeddedServerError:
    return EmbeddedServerError(
        f"The disk that holds {path} is full, so the embedded PostgreSQL cannot run: free "
        f"some space and run the command again, or {ELSEWHERE}.",
        reason="disk_full",
        subject=str(path),
    )
