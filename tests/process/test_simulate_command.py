"""The simulator as a command: it answers until it is told to stop, and a wrong script ends it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tomllib
import urllib.request
from pathlib import Path

import pytest

from tests.waiting import PATIENCE_S


def start(*words: str, home: Path) -> subprocess.Popen[str]:
    # It must need nothing of its environment: not even a home that can be written.
    environment = {"PATH": os.environ["PATH"], "DIALECTIC_HOME": str(home / "no" / "where")}
    if "PYTHONPATH" in os.environ:
        environment["PYTHONPATH"] = os.environ["PYTHONPATH"]
    return subprocess.Popen(
        [sys.executable, "-m", "dialectic", "simulate", *words],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_answers_until_it_is_told_to_stop(tmp_path: Path, number: int) -> None:
    with start("--port", "0", home=tmp_path) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        printed = [process.stdout.readline() for _ in range(3)]
        base = tomllib.loads("".join(printed))["endpoints"]["sim"]["base_url"]
        with urllib.request.urlopen(f"{base}/models", timeout=PATIENCE_S) as response:
            assert b'"architect"' in response.read()
        process.send_signal(number)
        _, told = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0
    assert "in all: 1 call," in told
    assert not (tmp_path / "no").exists()


def test_a_script_that_is_wrong_ends_the_command_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "script.toml").write_text('[default]\nfault = "500_servr"\n')
    with start("--script", str(tmp_path / "script.toml"), home=tmp_path) as process:
        _, told = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 4
    assert all(name in told for name in ("script.toml", "`fault`", "'500_servr'", "`500_server`"))
