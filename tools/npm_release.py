"""Exact releases of the npm registry, for tools of this repository alone: fetched once, by hash.

`npm` fetches them, configured as it is on this machine; no address of a registry is known here.
What they hold runs with the Node that the browser driver brings.
"""

from __future__ import annotations

import base64
import hashlib
import shutil
import subprocess
import tarfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path


class Unavailable(Exception):
    """A release cannot be fetched here; says why, in one line."""


@dataclass(frozen=True, slots=True)
class Release:
    """A package of the registry, to the byte."""

    name: str
    version: str
    sha512: str

    @property
    def file_name(self) -> str:
        """The name that `npm pack` gives its archive."""
        return f"{self.name.removeprefix('@').replace('/', '-')}-{self.version}.tgz"

    def fetch(self, folder: Path) -> Path:
        """Fetch its archive into a folder, unless it is there; refuse other bytes."""
        archive = folder / self.file_name
        if not archive.is_file():
            if (npm := shutil.which("npm")) is None:
                raise Unavailable("npm is missing")
            folder.mkdir(parents=True, exist_ok=True)
            command = [npm, "pack", "--silent", f"{self.name}@{self.version}"]
            asked = subprocess.run(command, cwd=folder, check=False, capture_output=True)
            if asked.returncode != 0 or not archive.is_file():
                raise Unavailable(f"npm could not fetch {self.name} {self.version}")
        found = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
        if found != self.sha512:
            archive.unlink()
            raise Unavailable(f"{self.name} {self.version} has the wrong SHA-512: {found}")
        return archive

    def unpack(self, folder: Path, place: Path, *, ending: str = "") -> None:
        """Fetch it and unpack its files with an ending below a place, unless that is there."""
        if place.is_dir():
            return
        # A whole folder or none: what is interrupted is begun again.
        begun = place.with_name(f"{place.name}.busy")
        shutil.rmtree(begun, ignore_errors=True)
        with tarfile.open(self.fetch(folder)) as files:
            for member in files.getmembers():
                if member.isfile() and member.name.endswith(ending):
                    member.name = member.name.removeprefix("package/")
                    files.extract(member, begun, filter="data")
        begun.rename(place)


def find_node() -> str:
    """Find the Node of the browser driver, else the system's."""
    driver = find_spec("playwright")
    if driver is not None and driver.origin is not None:
        found = Path(driver.origin).parent / "driver" / "node"
        if found.is_file():
            return str(found)
    if (node := shutil.which("node")) is None:
        raise Unavailable("there is no Node; run make setup")
    return node
