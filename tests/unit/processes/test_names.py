"""Processes are found by name, one's own before the shipped, and a broken one hides no other."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import dialectic
from dialectic.core.process.definition import Process
from dialectic.errors import ConfigurationError, InvalidProcess, NotFound
from dialectic.processes.loader import copy_process, list_processes, load_process
from tests.problems import refusing

SHIPPED = Path(dialectic.__file__).parent / "processes" / "standard"


def keep(own: Path, name: str, title: str = "My own") -> Path:
    """Keep a copy of the standard process under another name and title."""
    folder = shutil.copytree(SHIPPED, own / name)
    file = folder / "process.toml"
    text = file.read_text().replace('name = "standard"', f'name = "{name}"', 1)
    file.write_text(text.replace('title = "Standard dialectic"', f'title = "{title}"', 1))
    return folder


def test_a_process_in_ones_own_folder_is_found_by_its_name(tmp_path: Path) -> None:
    keep(tmp_path, "mine")
    assert load_process("mine", own=tmp_path).file.title == "My own"
    with pytest.raises(NotFound):
        load_process("mine")


def test_ones_own_process_goes_before_the_shipped_one_of_that_name(tmp_path: Path) -> None:
    keep(tmp_path, "standard", "Better than standard")
    assert load_process("standard", own=tmp_path).file.title == "Better than standard"
    assert load_process("standard").file.title == "Standard dialectic"


def test_without_any_of_ones_own_the_shipped_are_found(tmp_path: Path) -> None:
    assert load_process("standard", own=tmp_path / "none").name == "standard"
    listed = list_processes(tmp_path / "none")
    assert [(one.name, one.folder) for one in listed] == [
        ("digest", None),
        ("quick", None),
        ("standard", None),
    ]


def test_a_name_is_never_a_way_out_of_the_folder(tmp_path: Path) -> None:
    keep(tmp_path, "secret")
    own = tmp_path / "own"
    own.mkdir()
    for name in ("../secret", "..", ".", "", "secret/../secret", "a" * 300, "nul\0"):
        with pytest.raises(NotFound):
            load_process(name, own=own)


def test_an_unknown_name_is_told_which_names_there_are(tmp_path: Path) -> None:
    keep(tmp_path, "mine")
    with refusing(NotFound, "standard", "mine", reason="no_process", subject="theirs"):
        load_process("theirs", own=tmp_path)


def test_a_process_whose_name_is_not_its_folders_is_refused_by_name_only(tmp_path: Path) -> None:
    folder = keep(tmp_path, "mine").rename(tmp_path / "yours")
    with refusing(InvalidProcess, "'mine'", "'yours'", reason="other_name"):
        load_process("yours", own=tmp_path)
    assert load_process(str(folder), own=tmp_path).name == "mine"


def test_the_list_holds_ones_own_first_and_each_name_once(tmp_path: Path) -> None:
    keep(tmp_path, "zebra")
    keep(tmp_path, "standard")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes.txt").write_text("no process")
    listed = list_processes(tmp_path)
    assert [one.name for one in listed] == ["standard", "zebra", "digest", "quick"]
    assert [one.folder for one in listed] == [
        tmp_path / "standard",
        tmp_path / "zebra",
        None,
        None,
    ]


def test_a_broken_process_is_listed_with_its_fault_and_hides_no_other(tmp_path: Path) -> None:
    (keep(tmp_path, "broken") / "process.toml").write_text("name = ")
    keep(tmp_path, "My Own")
    keep(tmp_path, "sound")
    broken = {one.name: one.found for one in list_processes(tmp_path)}
    assert isinstance(broken["broken"], InvalidProcess)
    assert "broken/process.toml" in broken["broken"].message
    assert isinstance(broken["My Own"], InvalidProcess)
    assert isinstance(broken["sound"], Process)
    assert isinstance(broken["standard"], Process)


def test_a_folder_that_cannot_be_read_is_the_operators_to_mend(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir(mode=0o000)
    try:
        list(own.iterdir())
    except PermissionError:
        with refusing(ConfigurationError, reason="unreadable", subject=str(own)):
            list_processes(own)
    else:
        pytest.skip("whoever runs this may read everything")
    finally:
        own.chmod(0o700)


# -- prompts of another process -------------------------------------------------------------------


def test_a_process_takes_the_prompts_and_guidance_that_it_lacks_from_a_shipped_one(
    tmp_path: Path,
) -> None:
    quick, standard = load_process("quick"), load_process("standard")
    assert quick.prompts["thesis"] == standard.prompts["thesis"]
    assert quick.prompts["paralysis"] != standard.prompts["paralysis"]
    for domain in quick.file.domains:
        assert quick.get_guidance(domain, "thesis") == standard.get_guidance(domain, "thesis")
    assert not any("synthesis_pairwise" in one.guidance for one in quick.overlays.values())
    copied = copy_process("quick", "mine", own=tmp_path)
    (copied / "prompts" / "thesis_role.md").write_text("Be brief.")
    assert load_process("mine", own=tmp_path).prompts["thesis_role"] == "Be brief."


def test_prompts_of_a_process_that_is_not_shipped_are_refused(tmp_path: Path) -> None:
    folder = copy_process("quick", "mine", own=tmp_path) / "process.toml"
    folder.write_text(folder.read_text().replace('"standard"', '"mine"', 1))
    with refusing(InvalidProcess, "`prompts_from` is 'mine'", reason="broken_rule"):
        load_process("mine", own=tmp_path)
