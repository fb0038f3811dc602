"""The files of a project: their places, built from fields of records, and their paths. Pure.

An invalid place cannot be constructed, so every place has a path, which `build_path` writes and
`parse_path` reads back. Only import and tests read paths back; lineage comes from records, never
from a path. docs/layout.md shows the whole layout.

Parsing is unambiguous because `_` belongs to the layout. A slug has none. A type may have some, but
no word of it is a bare number, so the last bare number is always `n`. A document key is written
with `-` instead of `_`.
"""

from __future__ import annotations

import enum
import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

from dialectic.core.slug import is_short_id, is_slug
from dialectic.errors import UsageError

PATH_CHARS_MAX = 1_024
# With slugs of 64, file names have at most 254 bytes; file systems allow 255.
KEY_CHARS_MAX = 40
SOURCES_CHARS_MAX = 82
COUNT_MAX = 999_999
TURN_MAX = 9_999
STAGES_MAX = 99
# A person names the files in the work folders. A longer project slug must still fit in the path.
WORK_FILE_CHARS_MAX = 900
WORK_NAME_BYTES_MAX = 255

_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
# Separates two sources in a file name.
AND = "_and_"
# Precede the optional numbers at the end of a base name.
_CONTINUATION = "_continuation_"
_EDIT = "_edit_"
_PLAN_PAGE = re.compile(r"PLAN(?:-v([0-9]+))?\.md")
# Some file systems cannot tell these from the page.
_LIKE_PLAN_PAGE = re.compile(r"plan(?:-v[0-9]+)?")
_SHORTENING = re.compile(r"shortening_([0-9a-f]{8})_raw\.json")
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


def _is_work_file(text: str) -> bool:
    return len(text) <= WORK_FILE_CHARS_MAX and all(map(_is_work_name, text.split("/")))


def _is_work_name(name: str) -> bool:
    is_plain = name not in ("", ".", "..") and "\\" not in name and not _CONTROL.search(name)
    return is_plain and len(name.encode(errors="replace")) <= WORK_NAME_BYTES_MAX


_SLUG = _Rule("a slug: 1 to 64 of a-z, 0-9 and -, and not a Windows device name", is_slug)
_SHORT_ID = _Rule("8 lower-case hexadecimal digits", is_short_id)
# The rule of each field, by name; enumerations check themselves.
_RULES = {
    "project": _SLUG,
    "name": _SLUG,
    "extension": _form("1 to 10 of a-z and 0-9", r"[a-z0-9]{1,10}"),
    "session": _SHORT_ID,
    "short_id": _SHORT_ID,
    "iteration": _count(1, COUNT_MAX),
    "position": _count(1, STAGES_MAX),
    # In a stage without steps its slug is also the type of its contributions: both rules apply.
    "stage": _Rule(
        f"a slug of at most {KEY_CHARS_MAX} characters that is not a bare number",
        lambda text: is_slug(text) and _is_type(text),
    ),
    "file": _Rule(
        f"a name, or a path of names, of at most {WORK_FILE_CHARS_MAX} characters, without control"
        " characters, backslashes, empty names, . and ..",
        lambda text: _is_work_file(text),
    ),
    "model": _SLUG,
    "n": _count(1, COUNT_MAX),
    "contribution_type": _Rule(
        f"slugs joined by _, none a bare number, at most {KEY_CHARS_MAX} characters in all;"
        f" the type of a {FINAL_SYNTHESIS} file is {SYNTHESIS}",
        lambda text: _is_type(text) and text != FINAL_SYNTHESIS,
    ),
    "version": _count(1, TURN_MAX),
    "turn": _count(0, TURN_MAX),
    "document_key": _form(
        f"words of a-z and 0-9 joined by _, a letter first, at most {KEY_CHARS_MAX} characters",
        rf"(?=.{{1,{KEY_CHARS_MAX}}}\Z)[a-z][a-z0-9]*(_[a-z0-9]+)*",
    ),
}


# The rule of a relation's sources, by its kind.
_SOURCES = {
    "plain": _Rule("empty", lambda sources: not sources),
    "about": _Rule("one slug", lambda sources: len(sources) == 1 and is_slug(sources[0])),
    "from": _Rule(
        f"slugs, at least one, at most {SOURCES_CHARS_MAX} characters in all (see fold_sources)",
        lambda slugs: 0 < len(AND.join(slugs)) <= SOURCES_CHARS_MAX and all(map(is_slug, slugs)),
    ),
    **dict.fromkeys(
        ("reducing", "combining"),
        _Rule("one short id", lambda sources: len(sources) == 1 and is_short_id(sources[0])),
    ),
}


def _check(name: str, value: Any, rule: _Rule) -> None:
    if not rule.holds(value):
        message = f"{name} cannot be {str(value)[:80]!r}: it must be {rule.says}."
        raise UsageError(message, reason="bad_part", subject=name)


class _Checked:
    """Checks every field against its rule."""

    __slots__ = ()
    _rules: ClassVar[dict[str, _Rule]] = {}

    def __init_subclass__(cls) -> None:
        own = {name: _RULES[name] for name in cls.__annotations__ if name in _RULES}
        cls._rules = cls._rules | own

    def __post_init__(self) -> None:
        for name, rule in self._rules.items():
            if (value := getattr(self, name)) is not None:
                _check(name, value, rule)


# -- files of a project ----------------------------------------------------------------------------


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
class ProjectPlace(_Checked):
    """A file that belongs to the project as a whole; `form` is its path in the project's folder."""

    form: ClassVar[str]
    project: str


@dataclass(frozen=True, slots=True)
class InitialPrompt(ProjectPlace):
    """The initial prompt of a project."""

    form = "{0.name}.md"
    name: str


def name_prompt(slug: str) -> str:
    """Name the file of the initial prompt, by the slug of the project's name."""
    return f"{slug}-request" if _LIKE_PLAN_PAGE.fullmatch(slug) else slug


@dataclass(frozen=True, slots=True)
class ProjectFile(ProjectPlace):
    """A file that a project has once."""

    form = "{0.kind}"
    kind: ProjectFileKind


@dataclass(frozen=True, slots=True)
class PlanPage(ProjectPlace):
    """The page to read first; later versions are next to one that a person has changed."""

    form = "PLAN{0.suffix}.md"
    version: int = 1

    @property
    def suffix(self) -> str:
        return f"-v{self.version}" if self.version > 1 else ""


@dataclass(frozen=True, slots=True)
class ExportArchive(ProjectPlace):
    """The archive of an exported project."""

    form = "{0.name}.zip"
    name: str


@dataclass(frozen=True, slots=True)
class GeneralResource(ProjectPlace):
    """A resource that the user added to the project."""

    form = "general_resource/{0.kind}/{0.name}.{0.extension}"
    kind: ResourceKind
    name: str
    extension: str = "md"


@dataclass(frozen=True, slots=True)
class WorkItem(ProjectPlace):
    """A file in a work folder, of the agreed plan or of the person who works on it.

    Files there belong to that person, who names, moves and nests them freely.
    """

    form = "{0.status}/{0.file}"
    status: WorkStatus
    file: str


# -- names of contributions ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Relation:
    """What a contribution is made from, by the slugs of models or by a short id.

    plain      the stage as a whole
    about      one contribution, by the model that wrote it
    from       contributions of several models; `fold_sources` shortens long lists
    reducing   the group that descends from one contribution, by its short id
    combining  documents for a reader, by the short id of the combine job
    """

    __pydantic_config__: ClassVar = {"extra": "forbid"}  # a payload holds it as JSON
    kind: Literal["plain", "about", "from", "reducing", "combining"] = "plain"
    sources: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check("sources", self.sources, _SOURCES[self.kind])


@dataclass(frozen=True, slots=True)
class ContributionName(_Checked):
    """The name of a contribution's files; `n` numbers the model's contributions of that type.

    Version 1 is the planned one; later versions are a user's edits or new editions.
    """

    model: str
    n: int
    contribution_type: str
    relation: Relation = Relation()
    version: int = 1

    def __str__(self) -> str:
        kind, relation = self.contribution_type, ""
        if self.relation.kind != "plain":
            is_critique = self.relation.kind == "about" and kind == "antithesis"
            verb = "critiquing" if is_critique else self.relation.kind
            relation = f"{verb}_{AND.join(self.relation.sources)}_"
        word = FINAL_SYNTHESIS if kind == SYNTHESIS else kind
        version = f"{_EDIT}{self.version}" if self.version > 1 else ""
        return f"{self.model}_{relation}{self.n}_{word}{version}"


def fold_sources(slugs: Sequence[str]) -> tuple[str, ...]:
    """Shorten a list of sources: the first, the number of others, and a hash of all."""
    joined = AND.join(slugs)
    if len(joined) <= SOURCES_CHARS_MAX:
        return tuple(slugs)
    digest = hashlib.sha256(joined.encode()).hexdigest()
    return slugs[0], f"{len(slugs) - 1}-{digest[:8]}"


# -- files of a stage ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StageFolder(_Checked):
    """One stage of one iteration. `session` is a short id; `position` counts from 1."""

    project: str
    session: str
    iteration: int
    position: int
    stage: str


@dataclass(frozen=True, slots=True)
class StagePlace(_Checked):
    """A file of a stage; `form` is its path in the stage's folder."""

    form: ClassVar[str]
    folder: StageFolder


@dataclass(frozen=True, slots=True)
class SeedPrompt(StagePlace):
    """The stage's rendered prompt."""

    form = "seed_prompt.md"


@dataclass(frozen=True, slots=True)
class UserFeedback(StagePlace):
    """The user's feedback on the stage."""

    form = "user_feedback_{0.folder.stage}.md"


@dataclass(frozen=True, slots=True)
class ContributionFile(StagePlace):
    """A finished document."""

    form = "{0.contribution}.md"
    contribution: ContributionName


@dataclass(frozen=True, slots=True)
class Intermediate(StagePlace):
    """A contribution that only later steps of its stage read."""

    form = "_work/{0.contribution}.md"
    contribution: ContributionName


@dataclass(frozen=True, slots=True)
class ChunkFile(StagePlace):
    """One turn of a truncated answer; the first turn is 0."""

    form = "_work/{0.contribution}_continuation_{0.turn}.md"
    contribution: ContributionName
    turn: int


@dataclass(frozen=True, slots=True)
class RawResponse(StagePlace):
    """The provider's raw response; no turn number if the answer has one turn."""

    form = "raw_responses/{0.contribution}{0.continuation}_raw.json"
    contribution: ContributionName
    turn: int | None = None

    @property
    def continuation(self) -> str:
        return "" if self.turn is None else f"{_CONTINUATION}{self.turn}"


@dataclass(frozen=True, slots=True)
class ShorteningRecord(StagePlace):
    """The record of a call that shortened a text; the id is the start of its row's id."""

    form = "raw_responses/shortening_{0.short_id}_raw.json"
    short_id: str


@dataclass(frozen=True, slots=True)
class StageDocument(StagePlace):
    """An expected document of a stage, extracted from a contribution."""

    form = "documents/{0.contribution}_{0.dashed_key}.md"
    contribution: ContributionName
    document_key: str

    @property
    def dashed_key(self) -> str:
        return self.document_key.replace("_", "-")


@dataclass(frozen=True, slots=True)
class SourcesFile(StagePlace):
    """The passages of a finished document, and those that say the same in what was read."""

    form = "provenance/{0.contribution}.json"
    contribution: ContributionName


# -- files of an iteration -------------------------------------------------------------------------


class IterationReport(enum.StrEnum):
    """What is derived from all documents of an iteration."""

    COVERAGE = "coverage.md"
    COVERAGE_WHOLE = "coverage.json"
    DISSENT = "dissent.md"


@dataclass(frozen=True, slots=True)
class IterationFolder(_Checked):
    """One iteration of a session. `session` is a short id."""

    project: str
    session: str
    iteration: int


@dataclass(frozen=True, slots=True)
class IterationPlace:
    """A file of an iteration."""

    folder: IterationFolder
    report: IterationReport


Place: TypeAlias = ProjectPlace | StagePlace | IterationPlace


# -- paths ----------------------------------------------------------------------------------------


def build_path(place: Place) -> str:
    """Build the path of a place, relative to the tenant's root."""
    if isinstance(place, ProjectPlace):
        return f"{place.project}/{place.form.format(place)}"
    iteration = (
        f"{place.folder.project}/session_{place.folder.session}/iteration_{place.folder.iteration}"
    )
    if isinstance(place, IterationPlace):
        return f"{iteration}/{place.report}"
    folder = place.folder
    return f"{iteration}/{folder.position}_{folder.stage}/{place.form.format(place)}"


def parse_path(path: str) -> Place:
    """Parse a path into its place; reject one that `build_path` would not write."""
    shown = f"{path[:PATH_CHARS_MAX]!r} is not a path of the project layout"
    if len(path) > PATH_CHARS_MAX:
        message = f"{shown}: it has more than {PATH_CHARS_MAX} characters."
        raise UsageError(message, reason="path_too_long", limit=PATH_CHARS_MAX)
    try:
        place = _read_path(path.split("/"))
    except UsageError as error:
        message = f"{shown}: {error.message}"
        raise UsageError(message, reason="not_a_path", subject=error.subject) from error
    # Leading zeros and the like parse, but `build_path` never writes them.
    if place is None or build_path(place) != path:
        message = f"{shown}."
        raise UsageError(message, reason="not_a_path")
    return place


def _read_path(parts: list[str]) -> Place | None:
    match parts:
        case [project, file]:
            return _read_project_file(project, file)
        case [project, "general_resource", resource, file] if resource in list(ResourceKind):
            stem, _, extension = file.rpartition(".")
            return GeneralResource(project, ResourceKind(resource), stem, extension)
        case [project, ("Pending" | "Current" | "Complete") as status, *names] if names:
            return WorkItem(project, WorkStatus(status), "/".join(names))
        case [project, session, iteration, file] if file in list(IterationReport):
            number = _number(iteration.removeprefix("iteration_"))
            folder = IterationFolder(project, session.removeprefix("session_"), number)
            return IterationPlace(folder, IterationReport(file))
        case [project, session, iteration, stage, *file_parts]:
            position, _, slug = stage.partition("_")
            short_id = session.removeprefix("session_")
            number = _number(iteration.removeprefix("iteration_"))
            return _read_stage_file(
                StageFolder(project, short_id, number, _number(position), slug), file_parts
            )
        case _:
            return None


def _read_project_file(project: str, file: str) -> ProjectPlace:
    if file in list(ProjectFileKind):
        return ProjectFile(project, ProjectFileKind(file))
    if (page := _PLAN_PAGE.fullmatch(file)) is not None:
        return PlanPage(project, _number(page[1] or "1"))
    stem, _, extension = file.rpartition(".")
    return (ExportArchive if extension == "zip" else InitialPrompt)(project, stem)


def _read_stage_file(folder: StageFolder, parts: list[str]) -> StagePlace | None:
    match parts:
        case [file] if file == SeedPrompt.form or file.startswith("user_feedback_"):
            return (SeedPrompt if file == SeedPrompt.form else UserFeedback)(folder)
        case [file]:
            return ContributionFile(folder, _read_base_name(file.removesuffix(".md")))
        case ["_work", file]:
            base, turn = _split_number(file.removesuffix(".md"), _CONTINUATION)
            name = _read_base_name(base)
            return Intermediate(folder, name) if turn is None else ChunkFile(folder, name, turn)
        case ["raw_responses", file]:
            return _read_record(folder, file)
        case [("provenance" | "documents") as part, file]:
            return _read_extract(folder, part, file)
        case _:
            return None


def _read_extract(folder: StageFolder, part: str, file: str) -> StagePlace:
    if part == "provenance":
        return SourcesFile(folder, _read_base_name(file.removesuffix(".json")))
    base, _, key = file.removesuffix(".md").rpartition("_")
    return StageDocument(folder, _read_base_name(base), key.replace("-", "_"))


def _read_record(folder: StageFolder, file: str) -> RawResponse | ShorteningRecord:
    if (found := _SHORTENING.fullmatch(file)) is not None:
        return ShorteningRecord(folder, found[1])
    base, turn = _split_number(file.removesuffix("_raw.json"), _CONTINUATION)
    return RawResponse(folder, _read_base_name(base), turn)


def _read_base_name(base: str) -> ContributionName:
    base, version = _split_number(base, _EDIT)
    words = base.split("_")
    at = max((i for i, word in enumerate(words) if _is_number(word)), default=0)
    word = "_".join(words[at + 1 :])
    kind = SYNTHESIS if word == FINAL_SYNTHESIS else word
    relation = _read_relation(words[1:at])
    return ContributionName(words[0], _number(words[at]), kind, relation, version or 1)


def _read_relation(words: list[str]) -> Relation:
    match words:
        case []:
            return Relation()
        case ["critiquing", source]:
            return Relation("about", (source,))
        case ["about" | "reducing" | "combining" as kind, source]:
            return Relation(kind, (source,))
        case ["from", *sources]:
            return Relation("from", tuple(sources[::2]))
        case _:
            message = f"{'_'.join(words)!r} is not a relation."
            raise UsageError(message)


def _split_number(stem: str, separator: str) -> tuple[str, int | None]:
    base, _, number = stem.rpartition(separator)
    return (base, int(number)) if base and _is_number(number) else (stem, None)


def _number(text: str) -> int:
    if not _is_number(text):
        message = f"{text!r} is not a number."
        raise UsageError(message)
    return int(text)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()
