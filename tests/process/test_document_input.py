"""A prompt and a resource may be documents, which a process of its own reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from dialectic.cli.input import read_resource
from dialectic.core.documents.file_paths import ResourceKind
from tests.unit.cli.test_input import BYTES_MAX, read
from tests.unit.uploads.sample_files import build_docx, build_pdf


def test_a_prompt_may_be_a_document_that_is_larger_than_its_text(tmp_path: Path) -> None:
    file = tmp_path / "prompt.pdf"
    file.write_bytes(build_pdf("A village hall", "") + b"\n" * 2 * BYTES_MAX)
    text, notes = read(file)
    assert text == "A village hall\n"
    assert len(notes) == 1


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
