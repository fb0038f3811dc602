"""What the prompts of the standard process keep and remove, measured with planted facts."""

from __future__ import annotations

import re
from statistics import fmean

from dialectic.core.process.check import build_process
from dialectic.core.process.definition import Process
from dialectic.processes.loader import load_process
from tests.unit.processes.planted_facts import Kept, play

STANDARD = load_process("standard")
SEEDS = range(10)
# What the prompts said before answers had a floor: at most so many words.
LIMITS = {
    "thesis": "About 1,200 to 2,000 words",
    "antithesis_critique": "About 800 to 1,400 words",
    "synthesis_pairwise": "About 1,200 to 2,000 words",
    "synthesis_reduce": "About 1,500 to 2,200 words",
    "synthesis_final": "About 2,000 to 3,500 words",
}


def build_before() -> Process:
    """Build the process as it was: lengths are limits, and rejected points are not listed."""
    definition = STANDARD.as_definition()
    prompts = dict(definition["prompts"])
    for name, limit in LIMITS.items():
        text = prompts[name].replace("At least {{ words }} words", f"{limit} ({{{{ words }}}})")
        prompts[name] = re.sub(
            r"(?m)^- (?:`## Rejected points`|A (?:point that|rejected)).*\n", "", text
        )
    overlays = list(definition["overlays"].values())
    return build_process(definition["file"], prompts, overlays, place="before")


def measure(process: Process, **options: int) -> Kept:
    played = [play(process, seed, **options) for seed in SEEDS]
    return Kept(
        fmean(one.true_kept for one in played),
        fmean(one.false_removed for one in played),
        played[0].calls,
    )


def test_more_true_facts_survive_and_more_false_ones_go_than_before_at_equal_calls() -> None:
    before, now = measure(build_before()), measure(STANDARD)
    assert now.calls == before.calls == 51
    assert now.true_kept >= before.true_kept > 0.85
    assert now.false_removed >= before.false_removed + 0.2


def test_detail_is_not_lost_to_a_length_that_does_not_grow_with_what_is_read() -> None:
    before, now = measure(build_before(), fact_words=120), measure(STANDARD, fact_words=120)
    assert now.true_kept >= before.true_kept + 0.1
