"""Checks the types of the web app's modules: JSDoc comments and the types of the API.

`make types-web` runs the TypeScript compiler, which is fetched once and stays in `.types-web`.
Nothing of it is needed to run or test the product.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tools import vendor
from tools.npm_release import Release, Unavailable, find_node

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / ".types-web"
PLACE = CACHE / "static"
CONFIG = ROOT / "tools" / "tsconfig.web.json"
COMPILER = Release(
    "typescript",
    "6.0.3",
    "y2TvuxSZPDyQakkFRPZHKFm+KKVqIisdg9/CZwm9ftvKXLP8NRWj38/ODjNbr43SsoXqNuAisEf1GdCxqWcdBw==",
)
LIT = Release("lit-html", vendor.VERSION, vendor.ARCHIVE_SHA512)


def lay_out() -> None:
    """Lay the modules beside the types of lit-html, in place of its own modules: as links."""
    (PLACE / "vendor").mkdir(parents=True, exist_ok=True)
    LIT.unpack(CACHE, PLACE / "vendor" / "lit", ending=".d.ts")
    for name in ("js", "api.d.ts"):
        link = PLACE / name
        link.unlink(missing_ok=True)
        link.symlink_to(vendor.STATIC / name)


def main() -> int:
    """Check, and print what does not fit."""
    compiler = CACHE / f"typescript-{COMPILER.version}"
    try:
        COMPILER.unpack(CACHE, compiler)
        lay_out()
        node = find_node()
    except Unavailable as error:
        print(f"types-web: not checked, because {error}.", file=sys.stderr)
        return 1
    command = [node, str(compiler / "lib" / "tsc.js"), "--project", str(CONFIG)]
    checked = subprocess.run(
        [*command, "--pretty", "false"], cwd=ROOT, check=False, capture_output=True, text=True
    )
    source = vendor.STATIC.relative_to(ROOT).as_posix()
    print(checked.stdout.replace(PLACE.relative_to(ROOT).as_posix(), source), end="")
    print(checked.stderr, file=sys.stderr, end="")
    return checked.returncode


if __name__ == "__main__":
    raise SystemExit(main())
