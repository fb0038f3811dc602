"""Setting up from nothing: `make run` in a copy of what is committed, twice, with an empty home."""

from __future__ import annotations

import subprocess
import tempfile
import time
from pathlib import Path

from bench.child import ROOT, clean_environment
from bench.measure import Column, Contender, Figures, Measure, Samples, Verdict, judge_at_most
from bench.server import Server

FIRST_MAX_S = 180.0
SECOND_MAX_S = 15.0  # five stages and 57 documents
RUN_MAX_S = 600.0

FIRST = Column("first `make run` s", "first_s", digits=1)
SECOND = Column("second s", "second_s", digits=1)
OURS = "dialectic"


def _run_twice(server: Server) -> Samples:
    del server
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        copy = folder / "copy"
        subprocess.run(["git", "clone", "--quiet", "--local", ROOT, copy], check=True)
        environment = clean_environment() | {"DIALECTIC_HOME": str(folder / "home")}
        times_s = []
        for _ in range(2):
            started = time.perf_counter()
            subprocess.run(
                ["make", "run"],
                cwd=copy,
                env=environment,
                check=True,
                capture_output=True,
                timeout=RUN_MAX_S,
            )
            times_s.append(time.perf_counter() - started)
    return {"first_s": [times_s[0]], "second_s": [times_s[1]]}


def judge(figures: Figures) -> list[Verdict]:
    return [
        judge_at_most(
            f"first `make run` at most {FIRST_MAX_S:g} s",
            figures.value(OURS, FIRST),
            FIRST_MAX_S,
            " s",
        ),
        judge_at_most(
            f"second at most {SECOND_MAX_S:g} s", figures.value(OURS, SECOND), SECOND_MAX_S, " s"
        ),
    ]


MEASURE = Measure(
    name="setup",
    title="Set-up: from a clone to a folder of documents",
    contenders=(Contender(OURS, _run_twice),),
    columns=(FIRST, SECOND),
    judge=judge,
    rounds_max=1,
    notes=(
        "only what is committed is copied; packages come from the registry or from the installer's "
        "cache, whichever it finds",
    ),
)
