"""What the sections of a stage hold must be what its prompts ask for."""

from __future__ import annotations

from typing import Any

import pytest

from dialectic.core.process.check import build_process
from dialectic.core.process.definition import Holds
from dialectic.core.strict_json import Json
from dialectic.errors import InvalidProcess
from dialectic.processes.loader import load_process


def change(points: list[dict[str, Any]]) -> None:
    """Build the standard process with other points of the synthesis."""
    definition: Json = load_process("standard").as_definition()
    for stage in definition["file"]["stages"]:
        if stage["slug"] == "synthesis":
            stage["points"] = points
    build_process(
        definition["file"], definition["prompts"], list(definition["overlays"].values()), place="x"
    )


def test_a_heading_may_be_declared_for_a_step_or_for_all_steps_that_ask_for_it() -> None:
    change([{"heading": "## Rejected points", "holds": "refused"}])
    change([{"heading": "## Decisions", "holds": "decision", "step": "per_thesis"}])


@pytest.mark.parametrize(
    ("points", "words"),
    [
        ([{"heading": "## Decision", "holds": "decision"}], "never asks for this heading"),
        (
            [{"heading": "## Decisions", "holds": "decision", "step": "pairwise"}],
            "never asks for this heading",
        ),
        (
            [{"heading": "## Decisions", "holds": "decision", "step": "per_theses"}],
            "'per_theses', which the stage does not have",
        ),
        (
            [
                {"heading": "## Decisions", "holds": "decision"},
                {"heading": "## Decisions", "holds": "claim", "step": "per_thesis"},
            ],
            "declared twice",
        ),
        ([{"heading": "## Decisions", "holds": "idea"}], "`holds`"),
        ([{"heading": "Decisions", "holds": "claim"}], "a heading as in the answer"),
    ],
)
def test_what_no_answer_would_have_is_refused(points: list[dict[str, Any]], words: str) -> None:
    with pytest.raises(InvalidProcess, match="points") as refused:
        change(points)
    assert words in refused.value.message


def test_the_shipped_processes_declare_refusals_and_objections() -> None:
    held = {rule.holds for stage in load_process("standard").order for rule in stage.points}
    assert held == set(Holds) - {Holds.CLAIM}
