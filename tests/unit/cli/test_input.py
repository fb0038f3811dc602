"""A prompt and resources come from an argument, standard input or a file, even a document."""

from __future__ import annotations

from pathlib import Path

import pytest

from dialectic.cli.input import read_prompt, read_resource
from dialectic.core.documents.file_locations import ResourceKind
from dialectic.errors import InvalidUpload, UploadTooLarge, UsageError
from tests.problems import refusing
from tests.unit.uploads.sample_files import build_docx, build_pdf

BYTES_MAX = 1_000


def read(file: Path) -> tuple[str, tuple[str, ...]]:
    return read_prompt(None, file, bytes_max=BYTES_MAX)


def test_a_prompt_may_be_a_document_that_is_larger_than_its_text(tmp_path: Path) -> None:
    file = tmp_path / "prompt.pdf"
    file.write_bytes(build_pdf("A village hall", "") + b"\n" * 2 * BYTES_MAX)
    text, notes = read(file)
    assert text == "A village hall\n"
    assert len(notes) == 1


def test_a_prompt_may_be_in_utf_16(tmp_path: Path) -> None:
    file = tmp_path / "prompt.txt"
    file.write_text("Ein Gemeindehaus für alle.", encoding="utf-16")
    assert read(file) == ("Ein Gemeindehaus für alle.", ())


def test_a_file_without_end_is_not_read_to_its_end() -> None:
    with refusing(UploadTooLarge, reason="too_much_text", subject="/dev/zero", limit=1_000):
        read(Path("/dev/zero"))


def test_a_file_that_is_not_there_or_no_text_is_named(tmp_path: Path) -> None:
    with refusing(UsageError, "nothing.md", "No such file"):
        read(tmp_path / "nothing.md")
    (tmp_path / "scan.png").write_bytes(b"\x89PNG")
    with refusing(InvalidUpload, "scan.png", reason="picture"):
        read(tmp_path / "scan.png")


def test_exactly_one_source_is_named(tmp_path: Path) -> None:
    assert read_prompt("words", None, bytes_max=BYTES_MAX) == ("words", ())
    for text, file in ((None, None), ("words", tmp_path)):
        with refusing(UsageError, reason="two_texts", subject="--file"):
            read_prompt(text, file, bytes_max=BYTES_MAX)


def test_a_resource_may_be_a_document_and_its_notes_are_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "Rules of the house.docx"
    file.write_bytes(build_docx())
    given = read_resource(f"constraint_boundaries={file}", bytes_max=BYTES_MAX)
    assert given.kind is ResourceKind.CONSTRAINT_BOUNDARIES
    assert given.name == "Rules of the house"
    assert given.text.startswith("# A village hall\n")
    assert "Rules of the house.docx: 1 footnote left out" in capsys.readouterr().err
