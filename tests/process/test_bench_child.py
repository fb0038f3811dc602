"""What a process of the benchmark says arrives whole."""

from __future__ import annotations

import json
from pathlib import Path

from tests.interrupted_writer import read_interrupted


def test_what_is_longer_than_a_pipe_is_said_to_its_end(tmp_path: Path) -> None:
    saying = "say({'late_ms': [0.25] * 50_000})"
    said = read_interrupted("from bench.child import say", saying, tmp_path)
    assert json.loads(said) == {"late_ms": [0.25] * 50_000}
