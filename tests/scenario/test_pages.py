"""The README and every page in docs/ begin with an example whose commands print what is shown.

Commands of one example run in one shell. On a page, `…` is any text of a line, a line with nothing
else any number of lines; a figure with a comma or a point, or of seconds, is any such figure. All
pages share one home: a finished session whose id is `41ac1f6e` on the pages, its thesis `7f940b12`,
and a server on port 8420.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.command_pool import command_pool
from tests.ports import find_free_port
from tests.scenario.test_run import Home
from tests.servers import join_copy
from tests.waiting import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
PROMPT = "A booking service for a village hall that volunteers can run in an hour a week."
# Lists to look something up in; and pages whose examples `test_client` and `test_chaos_small` run.
WITHOUT = {"modules", "glossary", "dependencies", "benchmarks", "client", "chaos"}
PAGES = [
    ROOT / "README.md",
    *sorted(path for path in (ROOT / "docs").glob("*.md") if path.stem not in WITHOUT),
]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Sizes, tokens, amounts and times, which differ from run to run.
FIGURE = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+\.\d+|\d+(?= s\b)"
# Between the outputs of two commands.
MARK = "\x1e"


@dataclass(frozen=True, slots=True)
class Place:
    """Where examples run: what the ids and the port on the pages are here, and the environment."""

    folder: Path
    names: dict[str, str]
    environment: dict[str, str]
    fd: int

    def translate(self, text: str) -> str:
        for shown, real in self.names.items():
            text = text.replace(shown, real)
        return text

    def run(self, program: list[str], text: str) -> str:
        result = subprocess.run(
            program,
            input=text,
            cwd=self.folder,
            env=self.environment,
            pass_fds=[self.fd],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        return result.stdout


@pytest.fixture(scope="module")
def place(made_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("pages")
    home, port = Home(folder / "home"), find_free_port()
    (folder / "bin").mkdir()
    (folder / "examples").symlink_to(ROOT / "examples")
    with join_copy(made_home, home.path), command_pool.install(folder / "bin") as fd:
        ran = home.tell("run", PROMPT, "--name", "Hall", "--yes")
        assert ran.code == 0, ran.stderr
        listed = home.tell("list", ran.session)
        serving = home.start("serve", "--port", str(port), "--no-worker")
        assert serving.stderr is not None
        while "http://" not in serving.stderr.readline():
            assert serving.poll() is None
        yield Place(
            folder,
            {
                "41ac1f6e": ran.session[:8],
                "41ac": ran.session[:8],
                "8420": str(port),
                "8077": str(find_free_port()),
            }
            | dict.fromkeys(("7f940b12", "7f94"), listed.stdout.split()[0]),
            {
                **home.build_environment({}),
                "PATH": f"{folder / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}",
                "COLUMNS": "120",
            },
            fd,
        )
        serving.terminate()
        serving.communicate(timeout=PATIENCE_S)


def read_example(page: Path) -> tuple[str, str]:
    """The language and the text of a page's first example."""
    found = FENCE.search(page.read_text(encoding="utf-8"))
    assert found is not None, "a page begins with an example"
    return found[1], found[2]


def split_example(text: str) -> list[tuple[str, list[str]]]:
    """The commands of an example, each with the lines that it prints."""
    commands: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            commands.append((line.removeprefix("$ "), []))
        elif line.startswith("> ") and re.search(r"\\$|<<", commands[-1][0]):
            commands[-1] = (f"{commands[-1][0]}\n{line.removeprefix('> ')}", [])
        else:
            commands[-1][1].append(line)
    return commands


def build_pattern(lines: list[str]) -> re.Pattern[str]:
    parts = (r"(?:.*\n)*?" if line == "…" else build_line(line) + r"\s*\n" for line in lines)
    return re.compile("".join(parts) + r"\s*")


def build_line(line: str) -> str:
    """Build the pattern of one line, in which texts and figures may be left open."""
    words = re.split(rf"(…|{FIGURE}| {{2,}})", line)
    given = {"…": ".*?", " ": " +"}
    return "".join(
        re.escape(word) if n % 2 == 0 else given.get(word[0], r"[\d,]+(?:\.\d+)?")
        for n, word in enumerate(words)
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_begins_with_an_example_that_is_true(page: Path, place: Place) -> None:
    language, text = read_example(page)
    assert language == "console", page.name
    if "curl " in text and shutil.which("curl") is None:
        pytest.skip("there is no curl here")
    commands = split_example(text)
    # The exit code of a command is there for the next one.
    mark = f"(code=$?; echo {MARK}; exit $code)"
    script = "".join(f"{mark}\n{place.translate(command)}\n" for command, _ in commands)
    outputs = place.run(["bash"], script).split(f"{MARK}\n")[1:]
    assert len(outputs) == len(commands), outputs
    for (command, lines), output in zip(commands, outputs, strict=True):
        shown = [place.translate(line) for line in lines]
        assert build_pattern(shown).fullmatch(f"{output.rstrip()}\n"), f"{command}\n{output}"
