"""A prompt and resources come from an argument, standard input or a file, even a document."""

from __future__ import annotations

from pathlib import Path

from dialectic.cli.input import read_prompt
from dialectic.errors import InvalidUpload, UploadTooLarge, UsageError
from tests.problems import refusing

BYTES_MAX = 1_000


def read(file: Path) -> tuple[str, tuple[str, ...]]:
    return read_prompt(None, file, bytes_max=BYTES_MAX)


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
