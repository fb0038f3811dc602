"""No text outside the command line names one of its commands: clients have no use for it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from dialectic.cli.main import COMMANDS
from dialectic.contract.problems import ProblemRemedy
from dialectic.errors import Remedy, RemedyAction

SOURCE = Path(__file__).parents[2] / "src" / "dialectic"
DOCS = Path(__file__).parents[2] / "docs"
COMMAND = re.compile(rf"\bdialectic (?:(?:--server \S* )?(?:{'|'.join(COMMANDS)})\b|$)")
OUTSIDE = sorted(path for path in SOURCE.rglob("*.py") if SOURCE / "cli" not in path.parents)
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def list_docstrings(tree: ast.Module) -> set[ast.AST]:
    """List docstrings, which are for engineers; but not those of errors, which are messages."""
    found: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, Documented) and ast.get_docstring(node, clean=False) is not None:
            assert isinstance(node.body[0], ast.Expr)
            if not isinstance(node, ast.ClassDef) or not is_error(node):
                found.add(node.body[0].value)
    return found


def is_error(node: ast.ClassDef) -> bool:
    """Say whether a class is an error, by whether it has a code."""
    names = [
        t.id
        for s in node.body
        if isinstance(s, ast.Assign | ast.AnnAssign)
        for t in (s.targets if isinstance(s, ast.Assign) else [s.target])
        if isinstance(t, ast.Name)
    ]
    return "code" in names


def list_commands(text: str) -> Iterator[str]:
    tree = ast.parse(text)
    docstrings = list_docstrings(tree)
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_text and node not in docstrings:
            assert isinstance(node, ast.Constant)
            if COMMAND.search(str(node.value)):
                yield f"line {node.lineno}: {str(node.value)[:80]!r}"


def test_no_text_outside_the_command_line_names_a_command() -> None:
    found = [
        f"{path.relative_to(SOURCE)}, {place}"
        for path in OUTSIDE
        for place in list_commands(path.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        "raise Conflict('It is paused. Run `dialectic resume`.')",
        "raise Conflict(f'Run `dialectic {words}`.')",
        "raise Conflict('Run `dialectic --server http://there resume`.')",
        'class E(UsageError):\n    """Run `dialectic user token NAME`."""\n\n    code = "e"',
    ],
)
def test_a_command_in_a_message_is_found(text: str) -> None:
    assert list(list_commands(text))


@pytest.mark.parametrize(
    "text",
    [
        'def serve() -> None:\n    """As `dialectic serve` does."""',
        "import dialectic  # as `dialectic serve` does",
        "'Install dialectic where every user can read it.'",
    ],
)
def test_what_is_not_a_message_may_name_a_command(text: str) -> None:
    assert not list(list_commands(text))


def test_the_api_describes_every_remedy_and_its_parameters() -> None:
    text = (DOCS / "api.md").read_text(encoding="utf-8").partition("## Remedies")[2]
    table = text.partition("\n## ")[0]
    documented = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    assert sorted(documented) == sorted(RemedyAction)
    assert set(ProblemRemedy.model_fields) == set(Remedy.__dataclass_fields__)
