"""Copies lit-html into the web app from its exact release, and checks every byte by SHA-512.

`python tools/vendor.py lit-html-3.3.3.tgz` copies from a file that `npm pack lit-html@3.3.3` wrote.
`python tools/vendor.py` alone compares what is in the repository with `THIRD_PARTY.txt`.
"""

from __future__ import annotations

import base64
import hashlib
import sys
import tarfile
from pathlib import Path, PurePosixPath

STATIC = Path(__file__).resolve().parents[1] / "src" / "dialectic" / "web" / "static"
PLACE = STATIC / "vendor" / "lit"
LISTED = STATIC / "vendor" / "THIRD_PARTY.txt"
VERSION = "3.3.3"
# The registry's integrity of the release.
ARCHIVE_SHA512 = (
    "el8M6jK2o3RXBnrSHX3ZKrsN8zEV63pSExTO1wYJz7QndGYZ8353e2a5PPX+qHe2aGayfnchQmkAojaWAREOIA=="
)
# Without `unsafe-html`, `unsafe-svg` and `until`: text reaches the page as text.
FILES = (
    "LICENSE",
    "lit-html.js",
    "directive.js",
    "directive-helpers.js",
    "async-directive.js",
    "directives/cache.js",
    "directives/guard.js",
    "directives/keyed.js",
    "directives/live.js",
    "directives/ref.js",
    "directives/repeat.js",
)
HEAD = f"""\
lit-html {VERSION}, BSD-3-Clause, Copyright 2017 Google LLC; the licence is in lit/LICENSE.
Copied unchanged by tools/vendor.py from the release of the package registry:
sha512-{ARCHIVE_SHA512}

"""


def hash_file(data: bytes) -> str:
    """Compute the SHA-512 of a file, as the list writes it."""
    return hashlib.sha512(data).hexdigest()


def read_release(archive: Path) -> dict[str, bytes]:
    """Read the wanted files of a release; refuse an archive with other bytes."""
    found = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    if found != ARCHIVE_SHA512:
        raise SystemExit(f"{archive} is not lit-html {VERSION}: its SHA-512 is {found}.")
    with tarfile.open(archive) as release:
        files = {name: release.extractfile(f"package/{name}") for name in FILES}
        return {name: file.read() for name, file in files.items() if file is not None}


def write(files: dict[str, bytes]) -> None:
    """Write the files and their list."""
    for name, data in files.items():
        place = PLACE / PurePosixPath(name)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
    LISTED.write_text(build_list(files), encoding="utf-8")


def build_list(files: dict[str, bytes]) -> str:
    """Build the list of vendored files with their hashes."""
    return HEAD + "".join(f"{hash_file(data)}  lit/{name}\n" for name, data in files.items())


def find_differences() -> list[str]:
    """Name the vendored files that are missing, changed or not listed."""
    found = {
        path.relative_to(PLACE).as_posix(): path.read_bytes()
        for path in sorted(PLACE.rglob("*"))
        if path.is_file()
    }
    wrong = sorted(set(found) ^ set(FILES))
    if not wrong and build_list({name: found[name] for name in FILES}) != LISTED.read_text("utf-8"):
        wrong.append(LISTED.name)
    return wrong


def main() -> None:
    """Copy a release, or compare."""
    if len(sys.argv) > 1:
        write(read_release(Path(sys.argv[1])))
    if wrong := find_differences():
        raise SystemExit(f"Not as released: {', '.join(wrong)}. Run tools/vendor.py again.")


if __name__ == "__main__":
    main()
