"""The verb of a function's name says what its caller must expect."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

SRC = Path(__file__).parents[2] / "src"
# What may be empty: nothing was found.
MAY_BE_EMPTY = {
    *("None", "list", "dict", "set", "tuple", "frozenset"),
    *("Iterable", "Iterator", "AsyncIterator", "Mapping", "Sequence", "Set"),
}
# Names that others gave: click calls the first, the second is an operation of the published API.
GIVEN = {"get_command", "find_by_beginning"}


def list_functions(*verbs: str) -> Iterator[tuple[str, set[str]]]:
    """Give the place of each function of these verbs, and every name in what it returns."""
    for path in sorted(SRC.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            if not node.name.lstrip("_").startswith(verbs) or node.name in GIVEN:
                continue
            assert node.returns is not None, node.name
            yield f"{path.relative_to(SRC)}:{node.lineno} {node.name}", list_names(node.returns)


def list_names(annotation: ast.expr) -> set[str]:
    return {
        node.id if isinstance(node, ast.Name) else str(node.value)
        for node in ast.walk(annotation)
        if isinstance(node, ast.Name | ast.Constant)
    }


def test_what_is_looked_for_may_not_be_found() -> None:
    wrong = [place for place, names in list_functions("find_") if not names & MAY_BE_EMPTY]
    assert wrong == []


def test_what_is_loaded_or_got_is_there() -> None:
    wrong = [place for place, names in list_functions("get_", "load_") if "None" in names]
    assert wrong == []
