"""Every failpoint has its place in the program."""

from __future__ import annotations

import ast
from pathlib import Path

import dialectic
from dialectic.engine import POINTS


def test_every_point_stands_somewhere_in_the_program() -> None:
    reached = [
        node.args[0].value
        for path in Path(dialectic.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "reach"
        and isinstance(node.args[0], ast.Constant)
    ]
    assert set(map(str, reached)) == set(POINTS)
