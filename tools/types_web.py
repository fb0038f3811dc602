"""Checks the types of the web app's modules: JSDoc comments and the types of the API.

`make types-web` runs the TypeScript compiler with the Node that the browser driver brings. The
compiler and the types of lit-html come as exact releases through `npm`, configured as it is here;
they stay in `.types-web`, which git ignores. Nothing of it is needed to run or test.
"""

from __future__ import annotations

import base64
import hashlib
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from tools import vendor

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / ".types-web"
PLACE = CACHE / "static"
CONFIG = ROOT / "tools" / "tsconfig.web.json"
HOW = "Install npm, which fetches the compiler once, or check the types on another machine."


@dataclass(frozen=True, slots=True)
class Release:
    """A package of the registry, to the byte."""

    name: str
    version: str
    sha512: str

    @property
    def archive(self) -> Path:
        """Where its archive lies."""
        return CACHE / f"{self.name}-{self.version}.tgz"

    def fetch(self) -> None:
        """Fetch it, unless it is there; refuse other bytes."""
        if not self.archive.is_file():
            if (npm := shutil.which("npm")) is None:
                raise SystemExit(f"Types were not checked: npm is missing. {HOW}")
            CACHE.mkdir(exist_ok=True)
            command = [npm, "pack", "--silent", f"{self.name}@{self.version}"]
            subprocess.run(command, cwd=CACHE, check=True, stdout=subprocess.DEVNULL)
        found = base64.b64encode(hashlib.sha512(self.archive.read_bytes()).digest()).decode()
        if found != self.sha512:
            self.archive.unlink()
            raise SystemExit(f"{self.name} {self.version} has the wrong SHA-512: {found}.")

    def unpack(self, place: Path, *, ending: str = "") -> None:
        """Unpack its files with an ending below a folder, unless that is there."""
        if place.is_dir():
            return
        with tarfile.open(self.archive) as files:
            for member in files.getmembers():
                if member.isfile() and member.name.endswith(ending):
                    member.name = member.name.removeprefix("package/")
                    files.extract(member, place, filter="data")


COMPILER = Release(
    "typescript",
    "6.0.3",
    "y2TvuxSZPDyQakkFRPZHKFm+KKVqIisdg9/CZwm9ftvKXLP8NRWj38/ODjNbr43SsoXqNuAisEf1GdCxqWcdBw==",
)
LIT = Release("lit-html", vendor.VERSION, vendor.ARCHIVE_SHA512)


def find_node() -> str:
    """Find the Node of the browser driver, else the system's."""
    driver = find_spec("playwright")
    if driver is not None and driver.origin is not None:
        found = Path(driver.origin).parent / "driver" / "node"
        if found.is_file():
            return str(found)
    if (node := shutil.which("node")) is None:
        raise SystemExit("Types were not checked: there is no Node. Run make setup.")
    return node


def lay_out() -> None:
    """Lay the modules beside the types of lit-html, in place of its own modules: as links."""
    LIT.unpack(PLACE / "vendor" / "lit", ending=".d.ts")
    for name in ("js", "api.d.ts"):
        link = PLACE / name
        link.unlink(missing_ok=True)
        link.symlink_to(vendor.STATIC / name)


def main() -> int:
    """Check, and print what does not fit."""
    for release in (COMPILER, LIT):
        release.fetch()
    compiler = CACHE / f"typescript-{COMPILER.version}"
    COMPILER.unpack(compiler)
    lay_out()
    command = [find_node(), str(compiler / "lib" / "tsc.js"), "--project", str(CONFIG)]
    checked = subprocess.run(
        [*command, "--pretty", "false"], cwd=ROOT, check=False, capture_output=True, text=True
    )
    source = vendor.STATIC.relative_to(ROOT).as_posix()
    print(checked.stdout.replace(PLACE.relative_to(ROOT).as_posix(), source), end="")
    print(checked.stderr, file=sys.stderr, end="")
    return checked.returncode


if __name__ == "__main__":
    raise SystemExit(main())
