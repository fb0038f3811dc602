"""What a command prints arrives whole, whatever its environment says of buffers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interrupted_writer import read_interrupted

BEFORE = """
import os, click
from dialectic.cli.main import _open_streams
os.dup2(1, 2)
_open_streams()
"""


@pytest.mark.parametrize("err", ["False", "True"], ids=["stdout", "stderr"])
def test_a_text_that_is_longer_than_a_pipe_is_printed_to_its_end(tmp_path: Path, err: str) -> None:
    printed = read_interrupted(BEFORE, f"click.echo('x' * 3_000_000, err={err})", tmp_path)
    assert printed == b"x" * 3_000_000 + b"\n"
