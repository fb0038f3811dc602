"""How a program of PostgreSQL is started: by which user, with what in its hands.

Root's server runs as `nobody`. It is given its data folder as an open file descriptor, so that no
folder above has to be opened up for it. Knows nothing of what the program does.
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

# Who runs the server, if not ourselves.
Account: TypeAlias = pwd.struct_passwd | None


def get_account() -> Account:
    """Who runs the server if not ourselves: PostgreSQL refuses to be run by root."""
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
    """Start a program on a data folder. It keeps the lock, writes to the log and outlives us."""
    with open_folder(data) as folder, place.log.open("ab") as log:
        # `nobody` cannot walk to a folder below, say, /root; an open descriptor needs no walk.
        path = f"/proc/self/fd/{folder}" if account else str(data)
        return subprocess.Popen(
            [*command, "-D", path],
            pass_fds=(folder, alive) if account else (alive,),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env=ENVIRONMENT,
            start_new_session=True,  # ^C ends the command, not the server others may use
            user=account.pw_uid if account else None,
            group=account.pw_gid if account else None,
            extra_groups=[] if account else None,
        )


@contextlib.contextmanager
def open_folder(folder: Path) -> Iterator[int]:
    """Hold a folder open by a descriptor, and not through a link."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
