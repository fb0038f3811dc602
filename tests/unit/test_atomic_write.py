"""A file is written whole or not at all, and replaces nothing but a plain file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dialectic.atomic_write import PRIVATE_MODE, PUBLIC_MODE, check_plain, replacing
from dialectic.errors import UsageError
from tests.problems import refusing


def test_a_file_takes_its_name_when_all_of_it_is_there(tmp_path: Path) -> None:
    out = tmp_path / ("x" * 250)
    out.write_bytes(b"old")
    with replacing(out) as file:
        file.write(b"new")
        assert out.read_bytes() == b"old"

    assert (out.read_bytes(), len(list(tmp_path.iterdir()))) == (b"new", 1)


def test_a_file_that_breaks_off_leaves_what_was_there(tmp_path: Path) -> None:
    out = tmp_path / "x.zip"
    out.write_bytes(b"old")

    def break_off() -> None:
        with replacing(out) as file:
            file.write(b"half")
            raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        break_off()

    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"x.zip": b"old"}


@pytest.mark.parametrize(("mode", "expected"), [(PUBLIC_MODE, 0o640), (PRIVATE_MODE, 0o600)])
def test_a_file_is_as_private_as_its_writer_asks_and_the_umask_says(
    tmp_path: Path, mode: int, expected: int
) -> None:
    before = os.umask(0o027)
    try:
        with replacing(tmp_path / "x.zip", mode=mode) as file:
            file.write(b"new")
    finally:
        os.umask(before)

    assert (tmp_path / "x.zip").stat().st_mode & 0o777 == expected


def test_a_pipe_a_device_and_a_folder_are_neither_written_nor_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/null"), tmp_path):
        for word in ("written", "read"):
            with refusing(UsageError, reason="not_a_file", subject=str(path)):
                check_plain(path, word)
