"""Start a PostgreSQL program: as which user, and with which file descriptors.

For root, the server runs as an unprivileged user. It gets its data folder as an open file
descriptor, so that the parent folders need no wider permissions. Knows nothing of the program.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from dialectic.errors import EmbeddedServerError
from dialectic.postgres.errors import ELSEWHERE
from dialectic.postgres.paths import Place

ENVIRONMENT = {"LC_ALL": "C", "PATH": os.defpath}  # English messages, no PG* variables

# The user who runs the server, if not the current one.
Account: TypeAlias = pwd.struct_passwd | None


def get_account() -> Account:
    """Choose the user who runs the server, if not the current one: PostgreSQL rejects root."""
    uid = os.geteuid()
    with contextlib.suppress(KeyError):
        if uid != 0 and pwd.getpwuid(uid):
            return None
        if uid == 0 and Path("/proc/self/fd").is_dir():
            return pwd.getpwnam("nobody")
    trouble = (
        f"the user id {uid}, which has no name here"
        if uid
        else "root, nor by `nobody` for it on a system without that user or without /proc/self/fd"
    )
    raise EmbeddedServerError(
        f"PostgreSQL cannot be run by {trouble}: run the command as another user, or {ELSEWHERE}.",
        reason="wrong_user",
    )


def launch(
    place: Place, account: Account, command: Sequence[str | Path], data: Path, alive: int
) -> subprocess.Popen[bytes]:
    """Start a program on a data folder. It keeps the lock, writes the log and outlives us."""
    with open_folder(data) as folder, place.log.open("ab") as log:
        # The unprivileged user cannot traverse, say, /root; an open descriptor avoids that.
        path = f"/proc/self/fd/{folder}" if account else str(data)
        return subprocess.Popen(
            [*command, "-D", path],
            pass_fds=(folder, alive) if account else (alive,),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env=ENVIRONMENT,
            start_new_session=True,  # ^C ends the command, not a shared server
            user=account.pw_uid if account else None,
            group=account.pw_gid if account else None,
            extra_groups=[] if account else None,
        )


@contextlib.contextmanager
def open_folder(folder: Path) -> Iterator[int]:
    """Open a folder as a descriptor, without following a symbolic link."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
