"""The disk is full in the middle of a run: it ends with advice, and goes on when there is room."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.waiting import PATIENCE_S

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a disk"),
]

REPEATS_MAX = 5
# In a mount namespace of its own: a disk of 150 MB, a run that meets its end, and a resume.
STORY = """
import json, os, subprocess, sys
from pathlib import Path
from dialectic_simulator import open_simulator

disk = Path(sys.argv[1])
home = disk / "home"
home.mkdir()
CONFIG = '''
[endpoints.sim]
kind = "openai"
base_url = "{url}"
[endpoints.sim.models.writer]
context_window_tokens = 128000
max_output_tokens = 4000
input_usd_per_million = 1
output_usd_per_million = 2
tokenizer = "chars:4"
'''

def command(*words):
    return [sys.executable, "-m", "dialectic", *words]

def tell(*words):
    ended = subprocess.run(command(*words), capture_output=True, text=True, timeout=150)
    return {"code": ended.returncode, "stdout": ended.stdout, "stderr": ended.stderr}

def fill():
    descriptor = os.open(disk / "filler", os.O_WRONLY | os.O_CREAT)
    for size in (1 << 20, 1 << 12):
        try:
            while True:
                os.write(descriptor, bytes(size))
        except OSError:
            pass
    os.close(descriptor)

async def main():
    script = {
        "models": {"*": {"tokenizer": "chars:4"}},
        "default": {"text": "A plan. " * 2000},
    }
    async with open_simulator(script) as simulator:
        (home / "config.toml").write_text(CONFIG.format(url=simulator.base_url("openai")))
        told = {"topup": await asyncio.to_thread(tell, "wallet", "topup", "100")}
        run = await asyncio.to_thread(
            subprocess.Popen,
            command("run", "--yes", "--models", "sim/writer*3", "A bakery."),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        await simulator.wait_arrived(6)
        await asyncio.to_thread(fill)
        out, err = await asyncio.to_thread(run.communicate, timeout=150)
        told["run"] = {"code": run.returncode, "stdout": out, "stderr": err}
        (disk / "filler").unlink()
        told["status"] = await asyncio.to_thread(tell, "status", "--json")
        session = json.loads(told["status"]["stdout"])["sessions"][0]["id"]
        told["resume"] = await asyncio.to_thread(tell, "resume", session)
        told["verify"] = await asyncio.to_thread(tell, "wallet", "verify")
    print(json.dumps(told))

import asyncio
os.environ["DIALECTIC_HOME"] = str(home)
asyncio.run(main())
"""


def test_a_run_on_a_full_disk_ends_with_advice_and_its_resume_completes(tmp_path: Path) -> None:
    mount = 'mount -t tmpfs -o size=150m,mode=755 tmpfs "$0" && exec "$1" -c "$2" "$0"'
    probe = ["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", str(tmp_path)]
    if not shutil.which("unshare") or subprocess.run(probe, check=False).returncode != 0:
        pytest.skip("no disks can be mounted here")
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", mount, str(tmp_path), sys.executable, STORY],
        capture_output=True,
        text=True,
        timeout=4 * PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    run = told["run"]
    assert run["code"] == 4, run
    assert "is full" in run["stderr"] or "out of space" in run["stderr"]
    assert "dialectic resume" in run["stderr"]
    lines = [line.partition(" ")[2] for line in run["stderr"].splitlines() if "WARNING" in line]
    messages = [line.partition("WARNING")[2] for line in lines]
    # Several loops may meet the same fault, and the listener reconnects; no try is told by itself.
    assert max(Counter(messages).values(), default=0) <= REPEATS_MAX, messages
    assert told["resume"]["code"] == 0, told["resume"]
    assert told["verify"]["code"] == 0, told["verify"]
