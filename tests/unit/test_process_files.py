"""Processes on disk: the shipped one is sound, and a broken one is refused by its place."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import dialectic
from dialectic.domain.prompt import build_block, render_template
from dialectic.errors import ExitCode, InvalidProcess, NotFound
from dialectic.process_files import load_process

SHIPPED = Path(dialectic.__file__).parent / "processes" / "standard"


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A copy of the standard process, as a user would begin with."""
    return shutil.copytree(SHIPPED, tmp_path / "own")


def test_the_standard_process_is_found_by_its_name() -> None:
    process = load_process("standard")
    assert process.name == "standard"
    assert process.order[0].slug == "thesis"


@pytest.mark.parametrize("entry", ["", "process.toml"])
def test_a_process_of_ones_own_is_found_by_its_folder_or_its_file(own: Path, entry: str) -> None:
    assert load_process(str(own / entry)).content_hash == load_process("standard").content_hash


def test_every_template_of_the_shipped_process_renders_with_what_it_is_given() -> None:
    process = load_process("standard")
    request = build_block("Original request", "{{ not code }}")
    for stage in process.order:
        text = render_template(
            stage.prompt_template_name,
            process.prompts[stage.prompt_template_name],
            {"domain": "Software", "request": request, "resources": ["First.", "Second."]},
        )
        assert request in text
        assert "Domain: Software." in text
        assert text.index("First.") < text.index("Second.")
        assert "{{" not in text.replace(request, "")


@pytest.mark.parametrize("name", ["nothing", "", "no/such/folder", "standard/prompts"])
def test_an_unknown_process_is_not_found_and_the_shipped_ones_are_named(name: str) -> None:
    with pytest.raises(NotFound) as caught:
        load_process(name)
    assert repr(name) in caught.value.message
    assert "Shipped are: standard" in caught.value.message
    assert caught.value.exit_code is ExitCode.USAGE


def test_a_name_cannot_lead_out_of_the_shipped_processes() -> None:
    with pytest.raises(NotFound):
        load_process("..")


def test_broken_toml_is_refused_with_the_file_and_the_line(own: Path) -> None:
    (own / "process.toml").write_text('name = "x"\ntitle = \n')
    with pytest.raises(InvalidProcess, match=r"process\.toml cannot be read: .*line 2"):
        load_process(str(own))


def test_a_file_that_is_not_utf_8_is_refused(own: Path) -> None:
    (own / "prompts" / "thesis.md").write_bytes(b"\xff\xfe{\x00")
    with pytest.raises(InvalidProcess, match=r"process\.toml cannot be read: .*utf-8"):
        load_process(str(own))


def test_a_process_without_prompts_is_refused_with_the_folder_that_is_missing(own: Path) -> None:
    shutil.rmtree(own / "prompts")
    with pytest.raises(InvalidProcess, match=r"prompts: No such file or directory"):
        load_process(str(own))


def test_a_missing_prompt_is_refused_with_its_stage_and_its_file(own: Path) -> None:
    (own / "prompts" / "thesis_role.md").unlink()
    with pytest.raises(InvalidProcess, match=r"stage 'thesis'.*prompts/thesis_role\.md"):
        load_process(str(own))
