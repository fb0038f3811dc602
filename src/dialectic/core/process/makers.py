"""Check who makes the documents of a stage, and which of them get a second look. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from dialectic.core.process.definition import Makers, Stage, Step


def list_look_errors(where: str, stage: Stage) -> Iterator[str]:
    """List what is wrong with the second looks of a stage."""
    if stage.steps and stage.second_look:
        yield f"{where}: `second_look`: the stage has steps; set it in the last step."
    for step in stage.steps[:-1]:
        if step.second_look:
            yield (
                f"{where}: step {step.name!r}: `second_look`: only the last step makes the stage's "
                "documents; set it there."
            )
    if stage.has_second_look and not stage.parts[-1].list_sources():
        yield f"{where}: `second_look`: it reads no documents, so nothing can get lost; remove it."
    if stage.has_second_look and any(d.json_key for d in stage.expected_output_artifacts):
        yield (
            f"{where}: `second_look`: text cannot be added to an answer in JSON; use headings, or "
            "remove it."
        )


def makes_own(reader: Stage, source: Stage) -> bool:
    """Tell whether every maker of one stage has made documents in another."""
    return reader.makers is Makers.LEAD or source.makers is Makers.ALL


def list_reader_errors(where: str, step: Step, stage: Stage) -> Iterator[str]:
    """List what is wrong with the readers of a step of the lead alone."""
    if stage.makers is Makers.LEAD and step.readers_max is not None:
        yield f"{where}: `readers_max`: only the lead reads here, and it reads all; remove it."
