"""The list of modules, generated from their docstrings: `python -m tests.tidy.module_list`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "modules.md"
PACKAGES = ("dialectic", "dialectic_simulator")
HEAD = """\
# Modules

Each module's first sentence says what it owns. `make docs` writes this page from the source.
"""


def list_modules() -> dict[str, str]:
    """Map every module to the first sentence of its docstring, in order."""
    found = {}
    for package in PACKAGES:
        for path in sorted((ROOT / "src" / package).rglob("*.py")):
            parts = path.relative_to(ROOT / "src").with_suffix("").parts
            if parts[-1] == "__main__":
                continue
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            text = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
            found[name] = _first_sentence(text)
    return found


def _first_sentence(text: str) -> str:
    """Take the first sentence of a docstring's first paragraph."""
    paragraph = " ".join(text.split("\n\n", 1)[0].split())
    sentence = re.split(r"(?<=[a-z)`]\.)\s", paragraph, maxsplit=1)[0]
    return sentence.replace("|", "\\|").removesuffix(".")


def build_page() -> str:
    """Build the page: a table for each package."""
    return HEAD + "".join(_build_tables(list_modules()))


def _build_tables(modules: dict[str, str]) -> Iterator[str]:
    packages = sorted({_package_of(name, modules) for name in modules})
    for package in packages:
        yield f"\n## `{package}`\n\n{modules[package]}.\n\n| module | owns |\n|---|---|\n"
        for name, sentence in modules.items():
            if name != package and _package_of(name, modules) == package:
                yield f"| `{name}` | {sentence} |\n"


def _package_of(name: str, modules: dict[str, str]) -> str:
    """Find the package whose table lists a module; a package has a table of its own."""
    is_package = any(other.startswith(f"{name}.") for other in modules)
    return name if is_package or "." not in name else name.rpartition(".")[0]


if __name__ == "__main__":
    PAGE.write_text(build_page(), "utf-8")
