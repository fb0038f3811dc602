"""`dialectic process` as a person calls it: it reads files, and starts no server."""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import dialectic
from dialectic.core.process.definition import REPAIR, SECOND_LOOK, SHARED_PROMPTS
from tests.command_pool import CommandResult, command_pool
from tests.problems import list_codes
from tests.waiting import PATIENCE_S

SHIPPED = Path(dialectic.__file__).parent / "processes" / "standard"
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "pros-and-cons"


@dataclass(frozen=True, slots=True)
class Home:
    """A home in which only `dialectic process` is called."""

    path: Path

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "DIALECTIC_HOME": str(self.path), "PYTHONIOENCODING": "utf-8"}

    def tell(self, *words: str) -> CommandResult:
        result = command_pool.run(("process", *words), self.environment, "", patience_s=PATIENCE_S)
        assert not (self.path / "postgres").exists(), "no server is needed to read files"
        assert "Traceback" not in result.stderr
        return result

    def keep(self, name: str, source: Path = EXAMPLE) -> Path:
        """Put a process of one's own where it is found by its name."""
        return shutil.copytree(source, self.path / "processes" / name)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def change(folder: Path, old: str, new: str) -> None:
    file = folder / "process.toml"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


# -- list ------------------------------------------------------------------------------------------


def test_the_list_names_the_shipped_process_and_where_own_ones_go(home: Home) -> None:
    result = home.tell("list")
    assert result.code == 0, result.stderr
    assert result.stdout.startswith("digest: Digest of long material\n")
    assert "\nstandard: Standard dialectic\n" in result.stdout
    assert "57 calls for 3 models; shipped" in result.stdout
    assert str(home.path / "processes" / "NAME") in result.stderr


def test_ones_own_are_listed_first_and_a_broken_one_says_what_is_wrong(home: Home) -> None:
    home.keep("pros-and-cons")
    change(home.keep("broken"), 'starting_stage = "pros-and-cons"', 'starting_stage = "start"')
    home.keep("standard", SHIPPED)
    result = home.tell("list", "--json")
    assert result.code == 0, result.stderr
    broken, mine, shadow, *shipped = json.loads(result.stdout)["processes"]
    assert "`starting_stage`" in broken["error"]["message"]
    assert mine["stages"] == ["pros-and-cons", "verdict"]
    assert mine["folder"] == str(home.path / "processes" / "pros-and-cons")
    assert (shadow["name"], shadow["is_shipped"]) == ("standard", False)
    names = [(one["name"], one["is_shipped"]) for one in shipped]
    assert names == [("digest", True), ("quick", True)]
    plain = home.tell("list").stdout
    assert "broken: broken\n" in plain
    assert "pros-and-cons: Pros and cons\n" in plain


# -- show ------------------------------------------------------------------------------------------


def test_the_standard_process_is_shown_by_default_in_plain_characters(home: Home) -> None:
    result = home.tell("show")
    assert result.code == 0, result.stderr
    assert result.stdout.isascii()
    assert result.stdout.splitlines()[-1] == "57 calls for 3 models: 3 + 9 + 39 + 3 + 3"


@pytest.mark.parametrize("place", ["name", "folder", "file"])
def test_a_process_of_ones_own_is_shown_by_its_name_its_folder_or_its_file(
    home: Home, place: str
) -> None:
    folder = home.keep("pros-and-cons")
    given = {"name": "pros-and-cons", "folder": str(folder), "file": f"{folder}/process.toml"}
    result = home.tell("show", given[place], "--models", "2")
    assert result.code == 0, result.stderr
    assert "weigh: per_source_document" in result.stdout
    assert result.stdout.splitlines()[-1] == "8 calls for 2 models: 2 + 6"


def test_prompts_are_shown_word_for_word_with_what_domains_add(home: Home) -> None:
    result = home.tell("show", str(EXAMPLE), "--prompts")
    assert result.code == 0, result.stderr
    for prompt in (EXAMPLE / "prompts").glob("*.md"):
        assert f"=== prompts/{prompt.name}\n\n{prompt.read_text().rstrip()}" in result.stdout
    assert "--- guidance in Purchasing: Name the price above which" in result.stdout


def test_a_program_is_given_json(home: Home) -> None:
    result = home.tell("show", str(EXAMPLE), "--json", "--prompts")
    assert result.code == 0, result.stderr
    shown = json.loads(result.stdout)
    assert (shown["name"], shown["calls"]) == ("pros-and-cons", 15)
    own = {path.stem for path in (EXAMPLE / "prompts").iterdir()}
    assert shown["prompts"].keys() == own | (SHARED_PROMPTS.keys() - {REPAIR, SECOND_LOOK})


def test_a_terminal_is_shown_frames(home: Home) -> None:
    reader, writer = pty.openpty()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "dialectic", "process", "show", str(EXAMPLE)],
            stdin=subprocess.DEVNULL,
            stdout=writer,
            stderr=subprocess.PIPE,
            env={**home.environment, "COLUMNS": "90"},
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        first_part = os.read(reader, 65536).decode("utf-8", errors="ignore")
    finally:
        os.close(writer)
        os.close(reader)
    (edge,) = [line for line in first_part.splitlines() if line.startswith("╭─ 1 pros-and-cons")]
    assert len(edge) == 90


@pytest.mark.parametrize("words", [("show", "nothing"), ("check", "no/such/folder")])
def test_a_process_that_is_nowhere_is_wrong_usage(home: Home, words: tuple[str, str]) -> None:
    home.keep("pros-and-cons")
    result = home.tell(*words)
    assert (result.code, result.stdout) == (2, "")
    assert list_codes(result.stderr) == ["not_found"]
    assert all(name in result.stderr for name in (repr(words[1]), "standard", "pros-and-cons"))


@pytest.mark.parametrize("number", ["0", "33", "many"])
def test_a_number_of_models_that_makes_no_sense_is_wrong_usage(home: Home, number: str) -> None:
    result = home.tell("show", "--models", number)
    assert (result.code, result.stdout) == (2, "")
    assert "--models" in result.stderr


# -- check -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [EXAMPLE, EXAMPLE / "process.toml", SHIPPED])
def test_a_sound_process_is_told_what_was_checked_and_ok(home: Home, place: Path) -> None:
    result = home.tell("check", str(place))
    assert result.code == 0, result.stderr
    *parts, last = result.stdout.splitlines()
    assert [line.split()[0] for line in parts] == [
        "stages",
        "steps",
        "inputs",
        "prompts",
        "documents",
        "domains",
        "overlays",
        "calls",
    ]
    assert last.startswith("ok: ")


FAULTS = [
    (
        'granularity_strategy = "all_to_one"',
        'granularity_strategy = "all_to_on"',
        ["'verdict'", "'judge'", "`granularity_strategy`", "'all_to_one'"],
    ),
    (
        'prompt_template_name = "judge"',
        'prompt_template_name = "jury"',
        ["'verdict'", "'judge'", "prompts/jury.md"],
    ),
    (
        '{ type = "weighed_list", scope = "own"',
        '{ type = "wayed_list", scope = "own"',
        ["'verdict'", "'judge'", "inputs_required", "'wayed_list'"],
    ),
    ('target = "verdict"', 'target = "pros-and-cons"', ["'pros-and-cons'", "[invalid_process]"]),
    ("[[transitions]]\nsource", "[[transition]]\nsource", ["`transition`", "transitions"]),
    ('title = "Pros and cons"', 'heading = "Pros and cons"', ["`title`"]),
    ('name = "pros-and-cons"', "name = pros", ["process.toml", "line 10"]),
]


@pytest.mark.parametrize(("old", "new", "words"), FAULTS, ids=[new for _, new, _ in FAULTS])
def test_a_fault_is_told_with_its_file_stage_step_and_field(
    home: Home, tmp_path: Path, old: str, new: str, words: list[str]
) -> None:
    folder = shutil.copytree(EXAMPLE, tmp_path / "mine")
    change(folder, old, new)
    result = home.tell("check", str(folder))
    assert (result.code, result.stdout) == (2, "")
    for word in [str(folder / "process.toml"), *words]:
        assert word in result.stderr


def test_a_variable_without_a_value_is_reported_with_its_prompt(home: Home, tmp_path: Path) -> None:
    folder = shutil.copytree(EXAMPLE, tmp_path / "mine")
    (folder / "prompts" / "judge.md").write_text("{{ request }} {{ inputs }} {{ wisdom }}")
    result = home.tell("check", str(folder))
    assert (result.code, result.stdout) == (2, "")
    for word in ("'verdict'", "'judge'", "prompts/judge.md", "'wisdom'", "guidance"):
        assert word in result.stderr


def test_an_own_process_under_another_name_than_its_folders_is_refused(home: Home) -> None:
    home.keep("for-and-against")
    result = home.tell("check", "for-and-against")
    assert (result.code, result.stdout) == (2, "")
    assert list_codes(result.stderr) == ["invalid_process"]
    assert all(name in result.stderr for name in ("'pros-and-cons'", "'for-and-against'"))
