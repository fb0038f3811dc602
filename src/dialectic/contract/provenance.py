"""Responses about where the points of a document come from, and what became of others. Pure.

Every link says that two texts say the same, never that something is true. Offsets are those of the
text without front matter.
"""

from __future__ import annotations

from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field

from dialectic.contract.base import ResponseBody
from dialectic.core.points import Answer, Met, Relation, SourceKind, Status
from dialectic.core.process.definition import Holds

Score = Annotated[float, Field(description="How much two texts say the same, from 0 to 1.")]
Method = Annotated[str, Field(description="How it was found.", examples=["points/1"])]
Depth = Literal["direct", "origin"]
VersionsKnown = Literal["known", "unknown"]
Versions = Annotated[
    VersionsKnown,
    Field(description="`unknown`: what was read is not recorded, so newest versions are compared."),
]


class Place(ResponseBody):
    """A passage of a text."""

    kind: SourceKind
    id: UUID | None = Field(description="The first version of a contribution, or another text.")
    version_id: UUID | None = Field(description="The version that was compared.")
    label: str = Field(description="What prompts call it, such as `Thesis B`.")
    model: str
    seat: int | None
    stage: str
    step: str
    type: str
    start: int
    end: int
    text: str = Field(description="The words of the passage.")


class PointSource(Place):
    """A passage that says what another says."""

    score: Score
    is_sure: bool = Field(description="Whether the score is high; otherwise it is only likely.")
    relation: Relation = Field(description="The strongest change on the way.")
    via: list[UUID] = Field(description="The contributions in between, nearest first.")


class TracedPassage(ResponseBody):
    """A passage of a document, and the passages that say the same in what its author read."""

    n: int
    start: int
    end: int
    heading: list[str]
    holds: Holds
    relation: Relation
    new_at: UUID | None = Field(
        description="The contribution that added it; null if it has an origin."
    )
    new_by: SourceKind | None = Field(description="`person` if a user's version added it.")
    sources: list[PointSource]


class SeatShare(ResponseBody):
    """How many passages of a document say what a seat said first."""

    seat: int
    passages: int


class Provenance(ResponseBody):
    """Where the passages of a document come from."""

    contribution_id: UUID
    version_id: UUID
    method: Method
    depth: Depth
    versions: Versions
    unread: int = Field(description="Passages that were not compared because there are too many.")
    passages: list[TracedPassage]
    by_seat: list[SeatShare]


class Refused(ResponseBody):
    """Who refused a point, and why."""

    place: Place
    reason: str


class Hop(ResponseBody):
    """A point before and after a step that changed it."""

    before: Place
    after: Place


class PointFate(ResponseBody):
    """What became of a point of a thesis."""

    point: Place
    status: Status
    is_lone: bool = Field(description="Whether only one thesis has it.")
    found: Place | None = Field(description="Where the document says the same.")
    changed: Hop | None = Field(description="The step that changed it.")
    refused: Refused | None
    last_seen: str = Field(description="The last step that has it, of a dropped point.")
    lost_at: str = Field(description="The first step that does not have it.")
    lost_by: list[UUID] = Field(description="The documents that read it and do not have it.")


class ObjectionFate(ResponseBody):
    """An objection of a critique, and what the editors did with it."""

    objection: Place
    number: str = Field(examples=["O1"])
    answer: Answer
    taken_by: list[UUID]
    refused: list[Refused]


class RequirementFate(ResponseBody):
    """A requirement, and the steps that cover it."""

    requirement: Place
    number: str = Field(examples=["R6"])
    met: Met
    steps: list[str]


class StepFate(ResponseBody):
    """A step of the checklist, and the requirements that it serves."""

    step: Place
    met: Met
    requirements: list[str]


class ConstraintFate(ResponseBody):
    """A sentence of the request that binds, and the requirements that say the same."""

    constraint: Place
    requirements: list[str]


class FigureOrigin(ResponseBody):
    """A figure of the document, and where it was said first."""

    figure: str
    place: Place
    first: Place = Field(description="The passage that has it first, as far back as it is found.")
    is_made_up: bool = Field(description="No text that was given or argued has it.")
    made_up_at: str = Field(default="", description="The step that has it first, if so.")
    others: list[Place] = Field(description="Other figures in its place in what was read.")


class ThesisCoverage(ResponseBody):
    """How many points that only one thesis has came to what."""

    thesis: Place
    points: int
    kept: int
    changed: int
    refused: int
    dropped: int
    pending: int


class Coverage(ResponseBody):
    """What became of every point, objection, requirement and figure of an iteration."""

    session_id: UUID
    iteration: int
    method: Method
    versions: Versions
    of: Place | None = Field(description="The document it is judged by; null if none exists yet.")
    theses: list[ThesisCoverage]
    points: list[PointFate]
    objections: list[ObjectionFate]
    requirements: list[RequirementFate]
    steps: list[StepFate]
    constraints: list[ConstraintFate]
    figures: list[FigureOrigin]
    unread: int


class FigureLedger(ResponseBody):
    """The figures of a document, each with the text that has it first."""

    session_id: UUID
    iteration: int
    method: Method
    versions: Versions
    of: Place | None = Field(description="The document; null if none exists yet.")
    figures: list[FigureOrigin]
    made_up: int = Field(description="How many of them no text has that was given or argued.")
    differing: int = Field(description="How many have another figure in their place in a source.")
