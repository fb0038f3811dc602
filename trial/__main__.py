"""Let a real small model argue with itself over two wire formats, until antithesis.

The server is llama.cpp's, an independent program: one endpoint speaks OpenAI's protocol to it, the
other Anthropic's. The model is the strongest that `trial.weights` can assemble. Output limits are
small, so that answers are truncated and continued. Exits with 0 if every document is there, at
least one was written in several turns, and each turn was stored. What the documents are worth is
reported and does not count.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dialectic.processes.loader import load_process
from dialectic.settings import PREFIX, inherited_environment
from trial.findings import Findings, judge
from trial.weights import load_weights

MODELS = ("llama/local", "messages/local")
PROMPT = "A small app that tells neighbours which bakery has bread left at closing time."
OUTPUT_TOKENS = 160
CONTINUATIONS = 2
SERVER_READY_S = 60.0
# A busy machine reads fewer than a hundred tokens a second.
RUN_S = 7_200.0
SHOWN_MAX = 3

CONFIG = """
max_continuations = {continuations}

[endpoints.llama]
kind = "openai"
base_url = "{address}/v1"
max_concurrency = 2

[endpoints.llama.models.local]
context_window_tokens = 8192
max_output_tokens = {output_tokens}
input_usd_per_million = 0
output_usd_per_million = 0
tokenizer = "o200k_base*1.4"

[endpoints.messages]
kind = "anthropic"
base_url = "{address}/v1"
max_concurrency = 2

[endpoints.messages.models.local]
context_window_tokens = 8192
max_output_tokens = {output_tokens}
input_usd_per_million = 0
output_usd_per_million = 0
tokenizer = "o200k_base*1.4"
"""


@contextmanager
def serving(weights: Path, slots: int) -> Iterator[str]:
    """Run the model server; yield its address."""
    with subprocess.Popen(
        [sys.executable, "-m", "trial.server", str(weights), str(slots)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            address = server.stdout.readline().strip()
            if not address:
                sys.exit(f"No model server: python -m trial.server {weights} {slots} tells why.")
            yield address
        finally:
            server.stdin.close()
            server.wait()


def run_dialectic(home: Path, out: Path) -> tuple[int, float]:
    """Run the product's own command, as a person would; return its exit code and its time."""
    environment = {k: v for k, v in inherited_environment().items() if not k.startswith(PREFIX)}
    started = time.monotonic()
    command = [sys.executable, "-m", "dialectic", "run", "--yes", "--until", "antithesis"]
    command += ["--models", ",".join(MODELS), "--out", str(out), "--", PROMPT]
    ended = subprocess.run(
        command, env=environment | {"DIALECTIC_HOME": str(home)}, timeout=RUN_S, check=False
    )
    return ended.returncode, time.monotonic() - started


def list_faults(out: Path) -> Iterator[str]:
    """List what a complete trial should have left behind and did not."""
    count = len(MODELS)
    for folder, suffix, wanted in (
        ("1_thesis", "_thesis.md", count),
        ("2_antithesis", "_antithesis.md", count * count),
    ):
        found = [file for file in out.rglob(f"{folder}/*.md") if file.stem.endswith(suffix[1:-3])]
        if len(found) != wanted:
            yield f"{folder}: {len(found)} documents, {wanted} were asked for"
        yield from (f"{file.name} is empty" for file in found if not file.stat().st_size)
    turns = sorted(out.rglob("_work/*_continuation_*.md"))
    if not turns:
        yield "no answer was truncated and continued"
    records = [json.loads(file.read_text()) for file in out.rglob("raw_responses/*.json")]
    if len(records) < count + count * count + len(turns) // 2:
        yield f"only {len(records)} raw answers for {len(turns)} turns were kept"


def judge_stages(out: Path) -> Iterator[tuple[str, Findings]]:
    """Judge the documents of each stage."""
    stages = {stage.slug: stage for stage in load_process("standard").order}
    for folder, slug in (("1_thesis", "thesis"), ("2_antithesis", "antithesis")):
        found = [file for file in out.rglob(f"{folder}/*.md") if file.stem.endswith(slug)]
        promised = len(stages[slug].expected_output_artifacts)
        yield slug, judge({file.name: file.read_text() for file in found}, promised)


def main() -> int:
    """Run the trial; say what was seen."""
    name, weights = load_weights()
    print(f"model: {name}")
    with tempfile.TemporaryDirectory(prefix="dialectic-trial-") as folder:
        home, out = Path(folder) / "home", Path(folder) / "out"
        home.mkdir()
        with serving(weights, slots=2) as address:
            config = CONFIG.format(
                address=address, output_tokens=OUTPUT_TOKENS, continuations=CONTINUATIONS
            )
            (home / "config.toml").write_text(config)
            code, elapsed_s = run_dialectic(home, out)
        faults, judged = list(list_faults(out)), dict(judge_stages(out))
        turns = len(list(out.rglob("_work/*_continuation_*.md")))
    print(f"dialectic run: exit {code} after {elapsed_s:.0f} s; {turns} turns of cut-off answers")
    for slug, findings in judged.items():
        print(f"{slug}: {findings}")
        for one in (*findings.echoes[:SHOWN_MAX], *findings.seams[:SHOWN_MAX]):
            print(f"  {one}")
    for fault in faults:
        print(f"fault: {fault}")
    return 1 if code or faults else 0


if __name__ == "__main__":
    sys.exit(main())
