"""Finds a Chromium for the browser tests, or installs Debian's where that is possible.

`python tools/browser.py` says which one is used, or how to get one. `--install` installs it first
if there is none and this is the superuser of a Debian or Ubuntu. With `CI=true` a missing browser
is an error: the tests must run there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

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
HOW = (
    "Install Chromium (as root on Debian and Ubuntu: make browser), or name one: "
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
    return next((place for place in APPLICATIONS if os.access(place, os.X_OK)), None)


def must_have_one(environment: dict[str, str] | None = None) -> bool:
    """Say whether the tests must run here: on the machine that checks every change."""
    return (environment or dict(os.environ)).get("CI", "").lower() in ("1", "true", "yes")


def install() -> None:
    """Install Debian's Chromium, quietly; what fails is told by the missing program."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in INSTALL:
        if subprocess.run(command, env=environment, check=False).returncode != 0:
            return


def main() -> int:
    """Say which browser there is; install one if wanted."""
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
