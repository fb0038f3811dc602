"""The places a file of a project can stand at, each made from fields of records.

An impossible place cannot be made, so every place that exists has a path; `path` writes it down.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeAlias

from dialectic.core.slug import is_short_id, is_slug
from dialectic.errors import UsageError

# With slugs of 64 these limits add up to file names of 254 bytes at most; file systems take 255.
KEY_CHARS_MAX = 40
SOURCES_CHARS_MAX = 82
COUNT_MAX = 999_999
TURN_MAX = 9_999
STAGES_MAX = 99

# Between two sources in a name.
AND = "_and_"
# A contribution of type `synthesis` is called final, for its drafts stand in the same stage.
SYNTHESIS, FINAL_SYNTHESIS = "synthesis", "final_synthesis"


class _Rule(NamedTuple):
    says: str
    holds: Callable[[Any], bool]


def _form(says: str, pattern: str) -> _Rule:
    form = re.compile(pattern)
    return _Rule(says, lambda text: form.fullmatch(text) is not None)


def _count(low: int, high: int) -> _Rule:
    return _Rule(f"a number from {low} to {high}", lambda number: low <= number <= high)


def _is_type(text: str) -> bool:
    words = text.split("_")
    return len(text) <= KEY_CHARS_MAX and all(is_slug(w) and not w.isdecimal() for w in words)


_SLUG = _Rule("a slug: 1 to 64 of a-z, 0-9 and -, and no name of a Windows device", is_slug)
_SHORT_ID = _Rule("8 lower-case hexadecimal digits", is_short_id)
# What the fields of a place must be, by the field's name; enumerations look after themselves.
_RULES = {
    "project": _SLUG,
    "name": _SLUG,
    "extension": _form("1 to 10 of a-z and 0-9", r"[a-z0-9]{1,10}"),
    "session": _SHORT_ID,
    "iteration": _count(1, COUNT_MAX),
    "position": _count(1, STAGES_MAX),
    # A stage without steps gives its slug to its contributions as their type: both rules hold.
    "stage": _Rule(
        f"a slug of at most {KEY_CHARS_MAX} characters that is no bare number",
        lambda text: is_slug(text) and _is_type(text),
    ),
    "model": _SLUG,
    "n": _count(1, COUNT_MAX),
    "contribution_type": _Rule(
        f"slugs joined by _, none a bare number, at most {KEY_CHARS_MAX} characters in all;"
        f" the type of a {FINAL_SYNTHESIS} file is {SYNTHESIS}",
        lambda text: _is_type(text) and text != FINAL_SYNTHESIS,
    ),
    "source": _SLUG,
    "sources": _Rule(
        f"slugs, at least one, at most {SOURCES_CHARS_MAX} characters in all (see fold_sources)",
        lambda slugs: 0 < len(AND.join(slugs)) <= SOURCES_CHARS_MAX and all(map(is_slug, slugs)),
    ),
    "source_id": _SHORT_ID,
    "version": _count(1, TURN_MAX),
    "turn": _count(0, TURN_MAX),
    "document_key": _form(
        f"words of a-z and 0-9 joined by _, a letter first, at most {KEY_CHARS_MAX} characters",
        rf"(?=.{{1,{KEY_CHARS_MAX}}}\Z)[a-z][a-z0-9]*(_[a-z0-9]+)*",
    ),
}


class _Checked:
    """Holds every field against its rule."""

    __slots__ = ()
    _rules: ClassVar[tuple[tuple[str, _Rule], ...]]

    def __init_subclass__(cls) -> None:
        cls._rules = tuple((name, _RULES[name]) for name in cls.__annotations__ if name in _RULES)

    def __post_init__(self) -> None:
        for name, rule in self._rules:
            value = getattr(self, name)
            if value is not None and not rule.holds(value):
                message = f"{name} cannot be {str(value)[:80]!r}: it must be {rule.says}."
                raise UsageError(message, reason="bad_part", subject=name)


class ProjectFileKind(enum.StrEnum):
    """The files every project has once, by their names."""

    README = "project_readme.md"
    SETTINGS = "project_settings.json"


class ResourceKind(enum.StrEnum):
    """What a user may give to a project beside the prompt."""

    DEPLOYMENT_CONTEXT = "deployment_context"
    DOMAIN_STANDARDS = "domain_standards"
    SUCCESS_CRITERIA = "success_criteria"
    CONSTRAINT_BOUNDARIES = "constraint_boundaries"
    STAKEHOLDER_CONSIDERATIONS = "stakeholder_considerations"
    REFERENCE_DOCUMENTS = "reference_documents"
    COMPLIANCE_REQUIREMENTS = "compliance_requirements"


class WorkStatus(enum.StrEnum):
    """How far the user is with a file of the agreed plan, by the name of its folder."""

    PENDING = "Pending"
    CURRENT = "Current"
    COMPLETE = "Complete"


@dataclass(frozen=True, slots=True)
class InitialPrompt(_Checked):
    """The prompt a project began with."""

    project: str
    name: str


@dataclass(frozen=True, slots=True)
class ProjectFile(_Checked):
    """A file the project has once."""

    project: str
    kind: ProjectFileKind


@dataclass(frozen=True, slots=True)
class ExportArchive(_Checked):
    """The project in one file, to take away."""

    project: str
    name: str


@dataclass(frozen=True, slots=True)
class GeneralResource(_Checked):
    """Material the user gave to the project."""

    project: str
    kind: ResourceKind
    name: str
    extension: str = "md"


@dataclass(frozen=True, slots=True)
class WorkItem(_Checked):
    """A file of the agreed plan, which the user works through."""

    project: str
    status: WorkStatus
    name: str


@dataclass(frozen=True, slots=True)
class StageFolder(_Checked):
    """One stage of one iteration. `session` is a short id; `position` counts from 1."""

    project: str
    session: str
    iteration: int
    position: int
    stage: str


@dataclass(frozen=True, slots=True)
class Plain:
    """About the stage as a whole."""


@dataclass(frozen=True, slots=True)
class About(_Checked):
    """About one contribution, written by the model `source`."""

    source: str


@dataclass(frozen=True, slots=True)
class From(_Checked):
    """Made from the contributions of several models; `fold_sources` when they are many."""

    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reducing(_Checked):
    """Reduces the group that descends from one contribution, named by its short id."""

    source_id: str


@dataclass(frozen=True, slots=True)
class Combining(_Checked):
    """Combines documents for a reader, within the combine job that is named by its short id."""

    source_id: str


Relation: TypeAlias = Plain | About | From | Reducing | Combining


@dataclass(frozen=True, slots=True)
class ContributionName(_Checked):
    """What a contribution's files are called by; `n` counts its model's own of that type.

    Version 1 is the one that was planned; later ones are a person's edits, or written anew.
    """

    model: str
    n: int
    contribution_type: str
    relation: Relation = Plain()
    version: int = 1


@dataclass(frozen=True, slots=True)
class SeedPrompt:
    """The stage's rendered prompt."""

    folder: StageFolder


@dataclass(frozen=True, slots=True)
class UserFeedback:
    """What the user said about the stage."""

    folder: StageFolder


@dataclass(frozen=True, slots=True)
class ContributionFile(_Checked):
    """A finished document."""

    folder: StageFolder
    contribution: ContributionName


@dataclass(frozen=True, slots=True)
class Intermediate:
    """A contribution that only later steps of its stage read."""

    folder: StageFolder
    contribution: ContributionName


@dataclass(frozen=True, slots=True)
class ChunkFile(_Checked):
    """One turn of an answer that was cut; the first turn is 0."""

    folder: StageFolder
    contribution: ContributionName
    turn: int


@dataclass(frozen=True, slots=True)
class RawResponse(_Checked):
    """The provider's answer as it came; without a turn where it was never cut."""

    folder: StageFolder
    contribution: ContributionName
    turn: int | None = None


@dataclass(frozen=True, slots=True)
class StageDocument(_Checked):
    """One of the documents a stage is expected to yield, out of a contribution."""

    folder: StageFolder
    contribution: ContributionName
    document_key: str


ProjectPlace: TypeAlias = InitialPrompt | ProjectFile | ExportArchive | GeneralResource | WorkItem
StagePlace: TypeAlias = (
    SeedPrompt
    | UserFeedback
    | ContributionFile
    | Intermediate
    | ChunkFile
    | RawResponse
    | StageDocument
)
Place: TypeAlias = ProjectPlace | StagePlace
