"""What a second look at a document needs of its process. Pure; `second_look` uses it."""

from __future__ import annotations

from dataclasses import dataclass

from dialectic.core.documents.second_look import Omission
from dialectic.core.process.definition import SECOND_LOOK, Process, Stage, Step
from dialectic.processes.loader import get_shared_prompt


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The template of a look, and what the sections of a document and of its inputs hold."""

    template: str
    stage: Stage
    output_type: str
    # The header of each kind of input, and the stage and type of its documents.
    sources: tuple[tuple[str, Stage, str], ...]
    # For the turn of the look: the document so far, and what it lost.
    document: str = ""
    omissions: tuple[Omission, ...] = ()

    def find_source(self, label: str) -> tuple[Stage, str] | None:
        """Find the kind of an input by its label, which begins with the header of its rule."""
        fitting = [one for one in self.sources if f"{label} ".startswith(f"{one[0]} ")]
        if not fitting:
            return None
        _, stage, output_type = max(fitting, key=lambda one: len(one[0]))
        return stage, output_type


def find_look(process: Process, stage: Stage, part: Stage | Step) -> Look | None:
    """Find what a look at the documents of a stage or step needs; None without a look."""
    if not part.second_look:
        return None
    kinds = [(rule.header, *rule.get_kind(stage)) for rule in part.list_sources()]
    return Look(
        template=get_shared_prompt(process, SECOND_LOOK),
        stage=stage,
        output_type=part.output_type,
        sources=tuple((header, process.load_stage(slug), kind) for header, slug, kind in kinds),
    )
