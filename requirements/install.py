"""Makes a virtual environment hold what a lock names. Knows nothing of the project but its folder.

Usage: python requirements/install.py FOLDER SET, from the root of the repository, where
requirements/SET.lock is the lock. Only the standard library is at hand here.

The stamp FOLDER/.stamp-SET is written last. An environment without a stamp was left half-made,
by a kill or a full disk, and is created again: a package that looks installed may lack files.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

REQUIREMENTS = Path("requirements")
INSTALLER_LOCK = REQUIREMENTS / "installer.lock"
VERSION = Path("src/dialectic/__init__.py")  # which an installed package remembers
SOURCES = [INSTALLER_LOCK, REQUIREMENTS / "install.py", Path("pyproject.toml"), VERSION]
PROJECT = ["--no-deps", "--no-build-isolation", "--editable", "."]

LARGEST = "dev"  # holds all that "run" does

Command = list[str | Path]

# Of the caller's settings for pip and uv only those stay that say how to reach a registry. The
# rest could change what is installed, or where to: PIP_TARGET, UV_PYTHON, UV_CONSTRAINT ...
KEPT_SETTINGS = frozenset(
    f"{tool}_{name}"
    for tool, names in {
        "PIP": "CACHE_DIR CERT CLIENT_CERT CONFIG_FILE DEFAULT_TIMEOUT EXTRA_INDEX_URL FIND_LINKS"
        " INDEX_URL KEYRING_PROVIDER NO_CACHE_DIR NO_INDEX PROXY RETRIES TIMEOUT TRUSTED_HOST",
        "UV": "CACHE_DIR CONFIG_FILE DEFAULT_INDEX EXTRA_INDEX_URL FIND_LINKS HTTP_TIMEOUT INDEX"
        " INDEX_STRATEGY INDEX_URL INSECURE_HOST KEYRING_PROVIDER LINK_MODE NATIVE_TLS NO_CACHE"
        " NO_INDEX OFFLINE SYSTEM_CERTS",
    }.items()
    for name in names.split()
)
DROPPED_SETTINGS = frozenset({"CONDA_PREFIX", "PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV"})


def main(arguments: list[str]) -> int:
    """Install unless it is done already; the exit status is 1 if that failed."""
    folder, wanted = Path(arguments[0]), arguments[1]
    lock = REQUIREMENTS / f"{wanted}.lock"
    with only_one_at_a_time(folder):
        if any(is_current(folder, name, [*SOURCES, lock]) for name in (wanted, LARGEST)):
            return 0
        started = time.monotonic()
        try:
            fill(folder, lock, build_environment(os.environ))
        except subprocess.CalledProcessError as error:
            say(f"failed: {' '.join(map(str, error.cmd))}")
            return 1
        except OSError as error:
            say(f"failed: {error}")
            return 1
        (folder / f".stamp-{wanted}").write_text(f"{Path.cwd()}\n")
        say(f"{folder} is ready, {time.monotonic() - started:.0f} s")
    return 0


@contextlib.contextmanager
def only_one_at_a_time(folder: Path) -> Iterator[None]:
    """Keep a second `make` waiting; the operating system frees the lock of a killed one.

    The programs started here hold the lock too, because they may outlive this one.
    """
    with Path(f"{folder}.busy").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        os.set_inheritable(file.fileno(), True)
        yield


def is_current(folder: Path, wanted: str, sources: list[Path]) -> bool:
    """Whether another `make` has done the work while this one waited."""
    stamp = folder / f".stamp-{wanted}"
    if not stamp.exists() or not is_here(folder, stamp):
        return False
    return all(source.stat().st_mtime <= stamp.stat().st_mtime for source in sources)


def is_here(folder: Path, stamp: Path) -> bool:
    """Whether the environment works and was made for this folder, not copied or moved here."""
    return stamp.read_text().strip() == str(Path.cwd()) and (folder / "bin/python").exists()


def build_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Build the environment in which pip and uv run."""
    kept = {
        name: value
        for name, value in environment.items()
        if name not in DROPPED_SETTINGS
        and (not name.startswith(("PIP_", "UV_")) or name in KEPT_SETTINGS or is_login(name))
    }
    # These two are often set in pip's configuration file, which is read for its addresses.
    return kept | {
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_REQUIRE_VIRTUALENV": "0",
        "PIP_USER": "0",
    }


def is_login(name: str) -> bool:
    """Whether the setting is a name or password for one of uv's indexes."""
    return name.startswith("UV_INDEX_") and name.endswith(("_USERNAME", "_PASSWORD"))


def fill(folder: Path, lock: Path, environment: Mapping[str, str]) -> None:
    """Bring the environment to the lock: in place if it is whole, else from nothing."""
    stamps = list(folder.glob(".stamp-*"))
    whole = len(stamps) == 1 and is_here(folder, stamps[0])
    for stamp in stamps:
        stamp.unlink()
    if whole and (folder / "bin/uv").exists() and fill_with_uv(folder, lock, environment):
        return
    create(folder, environment)
    if install_uv(folder, environment) and fill_with_uv(folder, lock, environment):
        return
    say("uv did not do it; pip will, more slowly")
    create(folder, environment)
    fill_with_pip(folder, lock, environment)


def create(folder: Path, environment: Mapping[str, str]) -> None:
    """Create an empty environment in place of whatever is there."""
    say(f"creating {folder} with Python {sys.version.split()[0]}")
    if folder.exists():
        shutil.rmtree(folder)
    run([sys.executable, "-m", "venv", folder], environment)


def install_uv(folder: Path, environment: Mapping[str, str]) -> bool:
    """Install the locked uv; there may be none for this kind of machine."""
    options = ["--require-hashes", "--no-deps", "--only-binary", ":all:", "--no-compile"]
    return succeeds([*pip_install(folder), *options, "-r", INSTALLER_LOCK], environment)


def fill_with_uv(folder: Path, lock: Path, environment: Mapping[str, str]) -> bool:
    """Make the environment equal to the lock, then add the project itself."""
    say(f"installing {lock}")
    target: Command = ["--quiet", "--python", folder / "bin/python"]
    locks: Command = ["--require-hashes", "--compile-bytecode", INSTALLER_LOCK, lock]
    if not succeeds([folder / "bin/uv", "pip", "sync", *target, *locks], environment):
        return False
    run([folder / "bin/uv", "pip", "install", *target, *PROJECT], environment)
    return True


def fill_with_pip(folder: Path, lock: Path, environment: Mapping[str, str]) -> None:
    """Do the same with pip, which comes with Python."""
    say(f"installing {lock}")
    run([*pip_install(folder), "--require-hashes", "--no-deps", "-r", lock], environment)
    run([*pip_install(folder), *PROJECT], environment)


def pip_install(folder: Path) -> Command:
    """Build the opening words of a pip command."""
    return [folder / "bin/python", "-m", "pip", "install", "--quiet"]


def succeeds(command: Command, environment: Mapping[str, str]) -> bool:
    """Run a program that has a substitute; it tells on standard error what went wrong."""
    return subprocess.run(command, env=environment, check=False, close_fds=False).returncode == 0


def run(command: Command, environment: Mapping[str, str]) -> None:
    """Run a program that must succeed."""
    subprocess.run(command, env=environment, check=True, close_fds=False)


def say(message: str) -> None:
    """Tell on standard error, so that standard output stays that of the command behind `make`."""
    print(f"setup: {message}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
