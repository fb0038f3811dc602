"""Files that are received are there when they are whole, and in the place of nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dialectic.client.files import check_plain, writing_whole
from dialectic.errors import UsageError
from tests.problems import check_error, refusing


def test_a_file_takes_its_name_when_all_of_it_is_there(tmp_path: Path) -> None:
    out = tmp_path / ("x" * 250)
    out.write_bytes(b"old")
    with writing_whole(out) as file:
        file.write(b"new")
        assert out.read_bytes() == b"old"

    assert (out.read_bytes(), len(list(tmp_path.iterdir()))) == (b"new", 1)


def test_a_file_that_breaks_off_leaves_what_was_there(tmp_path: Path) -> None:
    out = tmp_path / "x.zip"
    out.write_bytes(b"old")

    def break_off() -> None:
        with writing_whole(out) as file:
            file.write(b"half")
            raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        break_off()

    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"x.zip": b"old"}


def test_a_pipe_a_device_and_a_folder_are_neither_replaced_nor_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/null"), tmp_path):
        with pytest.raises(UsageError) as caught, writing_whole(path):
            raise AssertionError("it was opened")
        check_error(caught.value, reason="not_a_file", subject=str(path))
        with refusing(UsageError, reason="not_a_file", subject=str(path)):
            check_plain(path, "read")
