"""A process: stages, their order and their words, as data. Knows no files and no database.

A process is pinned to a session by the hash of its whole content: what a session started with is
what it goes on with, whatever happens to the files.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dialectic.errors import InvalidProcess, NotFound

# Both stand in file names, whose rules `domain.place` states.
SLUG = r"^[a-z0-9][a-z0-9-]{0,63}$"
STAGE_SLUG = r"^[a-z][a-z0-9-]{0,39}$"
OUTPUT_TYPE = r"^[a-z][a-z0-9]{0,12}(_[a-z][a-z0-9]{0,12}){0,2}$"


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Stage(_Part):
    """One stage: what it asks every model for."""

    slug: str = Field(pattern=STAGE_SLUG)
    display_name: str = Field(min_length=1)
    description: str = ""
    system_prompt_name: str
    prompt_template_name: str
    output_type: str = Field(pattern=OUTPUT_TYPE)


class Transition(_Part):
    """An arrow between two stages."""

    source: str
    target: str


class ProcessFile(_Part):
    """The process file as it is written."""

    name: str = Field(pattern=SLUG)
    title: str
    description: str = ""
    starting_stage: str
    stages: tuple[Stage, ...] = Field(min_length=1)
    transitions: tuple[Transition, ...] = ()


@dataclass(frozen=True, slots=True)
class Process:
    """A checked process with its prompts: everything a session needs to know of it."""

    file: ProcessFile
    prompts: dict[str, str]
    order: tuple[Stage, ...]

    @property
    def name(self) -> str:
        return self.file.name

    def as_definition(self) -> dict[str, Any]:
        """Build the complete content, as it is stored and hashed."""
        return {"file": self.file.model_dump(mode="json"), "prompts": self.prompts}

    @property
    def content_hash(self) -> str:
        text = json.dumps(self.as_definition(), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()

    def load_stage(self, slug: str) -> Stage:
        for stage in self.order:
            if stage.slug == slug:
                return stage
        known = ", ".join(stage.slug for stage in self.order)
        raise NotFound(f"Process {self.name!r} has no stage {slug!r}. It has: {known}.")

    def position(self, slug: str) -> int:
        """Find a stage's place in the order, from 1."""
        return self.order.index(self.load_stage(slug)) + 1


def build_process(content: dict[str, Any], prompts: dict[str, str], *, place: str) -> Process:
    """Check a process and put its stages in order; an error names the place and the field."""
    try:
        file = ProcessFile.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        path = ".".join(str(part) for part in first["loc"])
        raise InvalidProcess(f"{place}: `{path}`: {first['msg']}.") from None
    for stage in file.stages:
        for field, name in (
            ("system_prompt_name", stage.system_prompt_name),
            ("prompt_template_name", stage.prompt_template_name),
        ):
            if name not in prompts:
                raise InvalidProcess(
                    f"{place}: stage {stage.slug!r}: `{field}` is {name!r}, but there is no "
                    f"prompts/{name}.md beside the process file."
                )
    used = {n for s in file.stages for n in (s.system_prompt_name, s.prompt_template_name)}
    return Process(file, {n: prompts[n] for n in sorted(used)}, _order_stages(file, place))


def _order_stages(file: ProcessFile, place: str) -> tuple[Stage, ...]:
    """Walk the transitions from the starting stage; every stage must be met exactly once."""
    stages = {stage.slug: stage for stage in file.stages}
    if len(stages) != len(file.stages):
        raise InvalidProcess(f"{place}: two stages have the same slug.")
    following: dict[str, str] = {}
    for arrow in file.transitions:
        for end in (arrow.source, arrow.target):
            if end not in stages:
                raise InvalidProcess(f"{place}: a transition names {end!r}, which is no stage.")
        if following.setdefault(arrow.source, arrow.target) != arrow.target:
            raise InvalidProcess(f"{place}: stage {arrow.source!r} has two transitions out of it.")
    order: list[Stage] = []
    slug: str | None = file.starting_stage
    while slug is not None:
        if slug not in stages:
            raise InvalidProcess(f"{place}: `starting_stage` is {slug!r}, which is no stage.")
        if stages[slug] in order:
            raise InvalidProcess(f"{place}: the transitions lead in a circle to {slug!r}.")
        order.append(stages[slug])
        slug = following.get(slug)
    if lost := stages.keys() - {stage.slug for stage in order}:
        raise InvalidProcess(f"{place}: stage {min(lost)!r} is not reached from the start.")
    return tuple(order)
