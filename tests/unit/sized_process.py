"""The standard process with fixed lengths, so that sums in tests do not change with its prompts."""

from __future__ import annotations

import copy

from dialectic.core.process.check import build_process
from dialectic.core.process.definition import Process
from dialectic.processes.loader import load_process

TOKENS = {
    "thesis": 1_400,
    "antithesis": 1_400,
    "pairwise_synthesis_chunk": 1_450,
    "reduced_synthesis": 1_300,
    "synthesis": 2_200,
    "parenthesis": 1_750,
    "paralysis": 1_350,
}


def build_sized() -> Process:
    """Build the standard process with the expected lengths of `TOKENS`."""
    definition = copy.deepcopy(load_process("standard").as_definition())
    for stage in definition["file"]["stages"]:
        for part in stage["steps"] or [stage]:
            part["expected_output_tokens"] = TOKENS[part["output_type"]]
    # With one byte per character, tokens and bytes convert without rounding.
    plain = {name: text.replace("…", "...") for name, text in definition["prompts"].items()}
    return build_process(
        definition["file"],
        plain,
        list(definition["overlays"].values()),
        place="sized",
    )
