"""Plain English: words that make a reader stop are not used.

Read are the product, its documents, and the names and docstrings of tests. Not read are the words
that models read and write: the prompts of processes, the vocabulary of the offline models and the
points of seeded agents.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BANNED = (
    *("whoever", "nobody", "anew", "dear", "dearer", "purse", "knock", "beside"),
    *("is no", "are no", "so many", "so much", "to be had", "stand in", "stands in"),
    *("gone on with", "all the same", "let be"),
)
PATTERN = re.compile(rf"\b(?:{'|'.join(BANNED)})\b", re.IGNORECASE)
# A system user, by name.
QUOTED = re.compile(r"""["'`]nobody["'`]""")
MODELS_WORDS = (
    "dialectic/processes/**/*.md",
    "dialectic/providers/offline/vocabulary.toml",
    "dialectic_simulator/point_forms.toml",
)
PAGES = [*ROOT.glob("*.md"), *sorted((ROOT / "docs").rglob("*.md"))]
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def list_sources() -> list[Path]:
    """The text files of the product."""
    left_out = {path for pattern in MODELS_WORDS for path in (ROOT / "src").glob(pattern)}
    found = [
        path
        for pattern in ("*.py", "*.sql", "*.toml", "*.md", "*.js", "*.html")
        for path in sorted((ROOT / "src").rglob(pattern))
    ]
    return [path for path in found if path not in left_out]


def find_banned(path: Path, text: str, first_line: int = 1) -> Iterator[str]:
    for number, line in enumerate(text.splitlines(), start=first_line):
        for found in PATTERN.findall(QUOTED.sub("", line)):
            yield f"{path.relative_to(ROOT)}:{number} {found}"


def list_test_texts(path: Path) -> Iterator[tuple[str, int]]:
    """Give the names and docstrings of a file of tests, each with its line."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, Documented) and (text := ast.get_docstring(node, clean=False)):
            yield text, node.body[0].lineno
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield split_name(node.name), node.lineno


def split_name(name: str) -> str:
    """Read a name as the sentence that it is."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name.replace("_", " "))


def test_the_product_and_its_documents_use_plain_words() -> None:
    texts = ((path, path.read_text(encoding="utf-8")) for path in (*list_sources(), *PAGES))
    assert [found for path, text in texts for found in find_banned(path, text)] == []


def test_tests_have_plain_names_and_docstrings() -> None:
    found = [
        found
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for text, line in list_test_texts(path)
        for found in find_banned(path, text, line)
    ]
    assert found == []


def test_a_banned_word_is_found_in_a_sentence_and_in_a_name() -> None:
    for text in ("Nobody knocks.", "There is no way.", split_name("test_whoever_asks")):
        assert PATTERN.search(text), text
    for text in ("besides", "a knocking sound", "endear", "this noise", "is not"):
        assert not PATTERN.search(text), text
