"""The data folder of the embedded server: created atomically, checked, and given to a program.

For root, the server runs as an unprivileged user. It gets its data folder as an open file
descriptor, so that the parent folders need no wider permissions. Knows nothing of what the server
does with the folder.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from dialectic.errors import EmbeddedServerError
from dialectic.postgres.place import ELSEWHERE, Place, build_failure
from dialectic.postgres.programs import read_line, read_version

INIT_TIMEOUT_S = 90.0

# The built-in collation cannot change under an index, as a C library's can. Local connections are
# trusted because only the owner can enter the socket's folder.
INIT_OPTIONS = (
    *("--username=postgres", "--encoding=UTF8", "--data-checksums"),
    *("--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"),
    *("--auth-local=trust", "--auth-host=reject"),
    *("--no-clean", "--no-instructions"),
)
ENVIRONMENT = {"LC_ALL": "C", "PATH": os.defpath}  # English messages, no PG* variables

# The user who runs the server, if not the current one.
Account: TypeAlias = pwd.struct_passwd | None


def prepare_data(place: Place, account: Account, programs: Path, alive: int) -> None:
    """Create the data folder if it is missing; reject one that these programs cannot use."""
    if place.partial.exists():  # left by an interrupted first start
        shutil.rmtree(place.partial)
    if not place.data.exists():
        _initialise(place, account, programs, alive)
    check_owner(place.data, account.pw_uid if account else os.geteuid())
    found = read_line(place.data / "PG_VERSION", 0)
    if not found:
        raise EmbeddedServerError(
            f"{place.data} is not a PostgreSQL data folder: move it away, or {ELSEWHERE}.",
            reason="no_data",
            subject=str(place.data),
        )
    installed = read_version(programs)
    if found != installed:
        raise EmbeddedServerError(
            f"The data in {place.data} was written by PostgreSQL {found}, but PostgreSQL "
            f"{installed} is installed. Use the version of Dialectic that wrote it, or "
            f"export the projects with that version and import them elsewhere: {ELSEWHERE}.",
            reason="other_version",
            subject=str(place.data),
        )


def check_owner(path: Path, expected: int) -> None:
    """Reject a folder that another user created."""
    owner = path.stat().st_uid
    if owner != expected:
        raise EmbeddedServerError(
            f"{path} belongs to another user (id {owner}, expected id {expected}): run the "
            f"command as that user, or {ELSEWHERE}.",
            reason="other_owner",
            subject=str(path),
        )


def _initialise(place: Place, account: Account, programs: Path, alive: int) -> None:
    """Create the data folder under a temporary name, so that a partial one is never used."""
    log_start = place.measure_log()
    place.partial.mkdir(mode=0o700)
    if account is not None:
        os.chown(place.partial, account.pw_uid, account.pw_gid, follow_symlinks=False)
    process = launch(place, account, [programs / "initdb", *INIT_OPTIONS], place.partial, alive)
    try:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(INIT_TIMEOUT_S)
    finally:
        process.kill()  # has no effect if it has ended
        process.wait()
    if process.returncode != 0:
        trouble = f"could not create its data folder within {INIT_TIMEOUT_S:.0f} s"
        failure = build_failure(place, trouble, log_start)
        shutil.rmtree(place.partial, ignore_errors=True)
        raise failure
    place.partial.rename(place.data)
    with open_folder(place.folder) as folder:
        os.fsync(folder)


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
    place: Place, account: Account, command: Sequence[str | Path], data: Path, *kept: int
) -> subprocess.Popen[bytes]:
    """Start a program on a data folder. It keeps descriptors, writes the log and outlives us."""
    with open_folder(data) as folder, place.log.open("ab") as log:
        # The unprivileged user cannot traverse, say, /root; an open descriptor avoids that.
        path = f"/proc/self/fd/{folder}" if account else str(data)
        return subprocess.Popen(
            [*command, "-D", path],
            pass_fds=(folder, *kept) if account else kept,
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
