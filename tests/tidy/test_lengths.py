"""A function fits on a page, and a module is read in one sitting."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "src"
PACKAGES = ("dialectic", "dialectic_simulator")
# From `def` to its last line, with the docstring.
FUNCTION_LINES_MAX = 50
# Neither blank nor a comment; docstrings count.
MODULE_LINES_MAX = 450


@cache
def read_modules() -> dict[str, str]:
    paths = (path for name in PACKAGES for path in sorted((SOURCES / name).rglob("*.py")))
    return {str(path.relative_to(SOURCES)): path.read_text(encoding="utf-8") for path in paths}


def list_functions(text: str) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            yield node.name, node.end_lineno - node.lineno + 1


def count_code(text: str) -> int:
    lines = (line.strip() for line in text.splitlines())
    return sum(1 for line in lines if line and not line.startswith("#"))


def test_no_function_is_longer_than_a_page() -> None:
    long = [
        f"{path}: {name} has {lines} lines"
        for path, text in read_modules().items()
        for name, lines in list_functions(text)
        if lines > FUNCTION_LINES_MAX
    ]
    assert long == []


def test_no_module_has_more_code_than_is_read_in_one_sitting() -> None:
    counts = {path: count_code(text) for path, text in read_modules().items()}
    assert {path: count for path, count in counts.items() if count > MODULE_LINES_MAX} == {}


def test_lengths_are_counted_as_they_are_said() -> None:
    text = '"""It."""\n\n# Why.\nasync def say() -> None:\n    """Say."""\n\n    print("it")\n'
    assert count_code(text) == 4
    assert list(list_functions(text)) == [("say", 4)]
