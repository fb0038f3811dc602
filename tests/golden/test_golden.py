"""The product does what it did when the goldens in this folder were recorded.

A golden names what users and other programs see, and no module or file of the source. When a change
is meant to be seen, `make golden` records it, and the change of the golden is part of the commit.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha256
from importlib.resources.abc import Traversable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from tests.golden import product
from tests.golden.normal import TIMED, hash_files, read_frame
from tests.golden.played import Played, play

FOLDER = Path(__file__).parent
IS_REWRITING = os.environ.get("GOLDEN") == "rewrite"
DIFF_LINES_MAX = 200
HELP_COLUMNS = "80"
QUERY_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


@pytest.fixture(scope="module")
def dialectic(made_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Played:
    """Three models, whose documents are read and criticised across."""
    models = "offline/architect,offline/pragmatist,offline/skeptic"
    return play(made_home, tmp_path_factory.mktemp("dialectic"), models)


@pytest.fixture(scope="module")
def monologue(made_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Played:
    """One model, whose jobs follow each other in one order."""
    return play(made_home, tmp_path_factory.mktemp("monologue"), "offline/architect")


def compare(name: str, actual: str) -> None:
    """Compare what is with what was, or record it."""
    golden = FOLDER / name
    if IS_REWRITING:
        golden.write_text(actual, encoding="utf-8")
        return
    expected = golden.read_text(encoding="utf-8")
    if actual == expected:
        return
    was, now = fold(expected), fold(actual)
    lines = list(difflib.unified_diff(was, now, name, "now", n=1, lineterm=""))
    if len(lines) > DIFF_LINES_MAX:
        lines[DIFF_LINES_MAX:] = [f"and {len(lines) - DIFF_LINES_MAX} more lines"]
    report = "\n".join(lines)
    pytest.fail(f"{report}\n\nIf this is meant, record it: make golden", pytrace=False)


def fold(text: str) -> list[str]:
    """Split a text into lines, and the long lines of JSON events into their fields."""
    folded = (
        line.replace(', "', ',\n  "') if line[0:1] == "{" else line for line in text.split("\n")
    )
    return "\n".join(folded).split("\n")


# -- the ways in -----------------------------------------------------------------------------------


def test_the_api_describes_itself_as_it_did() -> None:
    command = [sys.executable, *product.PRINT_DESCRIPTION]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    description = json.dumps(json.loads(printed), indent=2, sort_keys=True, ensure_ascii=False)
    compare("openapi.json", f"{description}\n")


def test_every_command_explains_itself_as_it_did() -> None:
    shown = []
    for words in list_commands(product.COMMAND):
        told = CliRunner(env={"COLUMNS": HELP_COLUMNS}).invoke(
            product.COMMAND, [*words, "--help"], prog_name="dialectic"
        )
        assert told.exit_code == 0, told.output
        shown.append(f"$ {' '.join(('dialectic', *words, '--help'))}\n{told.output}")
    compare("help.txt", "\n".join(shown))


def list_commands(command: click.Command, *before: str) -> Iterator[tuple[str, ...]]:
    """List the words that lead to a command and to each one below it, in the order of its help."""
    yield before
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from list_commands(found, *before, name)


def test_every_error_keeps_its_code_its_status_its_exit_code_and_its_fate() -> None:
    rows = {
        f"{error.code:24} {error.status:4} {int(error.exit_code):4}  {error.fate.value}\n"
        for error in product.list_errors()
    }
    compare("errors.txt", "".join([f"{'code':24} HTTP exit  fate\n", *sorted(rows)]))


# -- a run -----------------------------------------------------------------------------------------


def test_a_run_leaves_the_files_that_it_left(dialectic: Played) -> None:
    compare("run_files.txt", hash_files(dialectic.files))


def test_an_export_holds_the_entries_that_it_held(dialectic: Played) -> None:
    compare("export_files.txt", hash_files(dialectic.entries))


def test_the_event_stream_tells_what_it_told(monologue: Played) -> None:
    frames = [json.dumps(read_frame(frame), ensure_ascii=False) for frame in monologue.frames]
    compare("events.jsonl", "".join(f"{line}\n" for line in frames))


def test_two_runs_may_differ_in_times_and_durations_and_in_no_word() -> None:
    row = '{"created_at": "%sZ", "started_at": %s, "processing_time_ms": %s, "title": "%s"}'
    before = row % ("2030-01-01T00:00:00.5", '"2030-01-01T00:00:01Z"', 12, "Thesis")
    later = row % ("2031-02-03T04:05:06", "null", 7, "Thesis")
    other = row % ("2030-01-01T00:00:00.5", '"2030-01-01T00:00:01Z"', 12, "Theses")
    rows = [hash_files({f"project/{TIMED}": text.encode()}) for text in (before, later, other)]
    assert rows[0] == rows[1] != rows[2]
    documents = [hash_files({"project/thesis.md": text.encode()}) for text in (before, later)]
    assert documents[0] != documents[1], "a document is hashed as it is"


# -- the database ----------------------------------------------------------------------------------


def test_every_sql_file_and_every_named_query_is_the_one_that_was_there() -> None:
    lines = [
        f"{sha256(text.encode()).hexdigest()}  {name}\n" for name, text in list_sql(product.SQL)
    ]
    compare("sql.txt", "".join(sorted(lines, key=lambda line: line.split("  ")[::-1])))


def list_sql(folder: Traversable, kind: str = "") -> Iterator[tuple[str, str]]:
    """List SQL files by folder and name, and named queries by their own name alone."""
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from list_sql(entry, f"{kind}{entry.name}/")
        elif entry.name.endswith(".sql"):
            text = entry.read_text(encoding="utf-8")
            _, *named = QUERY_NAME.split(text)
            if not named:
                yield f"{kind}{entry.name}", text
            for name, body in zip(named[::2], named[1::2], strict=True):
                yield f"{kind}{name}", body.strip()
