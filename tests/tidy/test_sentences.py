"""Every sentence about the web app has a test that carries its number."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]
# Shown when the pages of the argument map are there.
OPEN = {33, 41, 42}


def list_marked(path: Path) -> Iterator[int]:
    """List the numbers that the tests of a file carry."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        for mark in getattr(node, "decorator_list", []):
            if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.sentence":
                yield from (ast.literal_eval(number) for number in mark.args)


def test_every_sentence_is_shown_by_a_test_and_open_ones_are_named() -> None:
    text = (TESTS / "browser" / "sentences.md").read_text("utf-8")
    told = [int(number) for number in re.findall(r"^(\d+)\. ", text, re.MULTILINE)]
    shown = {number for path in TESTS.rglob("test_*.py") for number in list_marked(path)}

    assert told == list(range(1, 73))
    assert shown == set(told) - OPEN
