"""The places of a project's files, each built from fields of records.

An invalid place cannot be constructed, so every place has a path; `file_paths` builds it.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeAlias

from dialectic.core.slug import is_short_id, is_slug
from dialectic.errors import UsageError

# With slugs of 64, file names have at most 254 bytes; file systems allow 255.
KEY_CHARS_MAX = 40
SOURCES_CHARS_MAX = 82
COUNT_MAX = 999_999
TURN_MAX = 9_999
STAGES_MAX = 99

# Separates two sources in a file name.
AND = "_and_"
# Files of type `synthesis` are called final, because their drafts are in the same folder.
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


_SLUG = _Rule("a slug: 1 to 64 of a-z, 0-9 and -, and not a Windows device name", is_slug)
_SHORT_ID = _Rule("8 lower-case hexadecimal digits", is_short_id)
# The rule of each field, by name; enumerations check themselves.
_RULES = {
    "project": _SLUG,
    "name": _SLUG,
    "extension": _form("1 to 10 of a-z and 0-9", r"[a-z0-9]{1,10}"),
    "session": _SHORT_ID,
    "iteration": _count(1, COUNT_MAX),
    "position": _count(1, STAGES_MAX),
    # In a stage without steps its slug is also the type of its contributions: both rules apply.
    "stage": _Rule(
        f"a slug of at most {KEY_CHARS_MAX} characters that is not a bare number",
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
    """Checks every field against its rule."""

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
    """The files that every project has once."""

    README = "project_readme.md"
    SETTINGS = "project_settings.json"


class ResourceKind(enum.StrEnum):
    """The kinds of resource that a user may add to a project."""

    DEPLOYMENT_CONTEXT = "deployment_context"
    DOMAIN_STANDARDS = "domain_standards"
    SUCCESS_CRITERIA = "success_criteria"
    CONSTRAINT_BOUNDARIES = "constraint_boundaries"
    STAKEHOLDER_CONSIDERATIONS = "stakeholder_considerations"
    REFERENCE_DOCUMENTS = "reference_documents"
    COMPLIANCE_REQUIREMENTS = "compliance_requirements"


class WorkStatus(enum.StrEnum):
    """The user's progress with a file of the agreed plan; also its folder's name."""

    PENDING = "Pending"
    CURRENT = "Current"
    COMPLETE = "Complete"


@dataclass(frozen=True, slots=True)
class InitialPrompt(_Checked):
    """The initial prompt of a project."""

    project: str
    name: str


@dataclass(frozen=True, slots=True)
class ProjectFile(_Checked):
    """A file that a project has once."""

    project: str
    kind: ProjectFileKind


@dataclass(frozen=True, slots=True)
class ExportArchive(_Checked):
    """The archive of an exported project."""

    project: str
    name: str


@dataclass(frozen=True, slots=True)
class GeneralResource(_Checked):
    """A resource that the user added to the project."""

    project: str
    kind: ResourceKind
    name: str
    extension: str = "md"


@dataclass(frozen=True, slots=True)
class WorkItem(_Checked):
    """A file of the agreed plan."""

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
    """Made from contributions of several models; `fold_sources` shortens long lists."""

    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reducing(_Checked):
    """Reduces the group that descends from one contribution, named by its short id."""

    source_id: str


@dataclass(frozen=True, slots=True)
class Combining(_Checked):
    """Combines documents for a reader, in the combine job with this short id."""

    source_id: str


Relation: TypeAlias = Plain | About | From | Reducing | Combining


@dataclass(frozen=True, slots=True)
class ContributionName(_Checked):
    """The name of a contribution's files; `n` numbers the model's contributions of that type.

    Version 1 is the planned one; later versions are a user's edits or new editions.
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
    """The user's feedback on the stage."""

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
    """One turn of a truncated answer; the first turn is 0."""

    folder: StageFolder
    contribution: ContributionName
    turn: int


@dataclass(frozen=True, slots=True)
class RawResponse(_Checked):
    """The provider's raw response; no turn number if the answer has one turn."""

    folder: StageFolder
    contribution: ContributionName
    turn: int | None = None


@dataclass(frozen=True, slots=True)
class StageDocument(_Checked):
    """An expected document of a stage, extracted from a contribution."""

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
