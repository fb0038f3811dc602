"""Storage paths: `build_path` writes the path of a place, `parse_path` reads it back. Pure.

Only import and tests read paths back; lineage comes from records, never from a path.

    {project}/
    ├── {name}.md                                         InitialPrompt
    ├── project_readme.md, project_settings.json          ProjectFile
    ├── {name}.zip                                        ExportArchive
    ├── general_resource/{kind}/{name}.{extension}        GeneralResource
    ├── Pending/, Current/, Complete/    {name}.md        WorkItem
    └── session_{8 hex}/iteration_{N}/{k}_{stage}/        StageFolder
        ├── seed_prompt.md                                SeedPrompt
        ├── user_feedback_{stage}.md                      UserFeedback
        ├── {base}.md                                     ContributionFile
        ├── {base}_edit_{version}.md                      ContributionFile, from version 2 on
        ├── _work/{base}.md                               Intermediate
        ├── _work/{base}_continuation_{turn}.md           ChunkFile
        ├── raw_responses/{base}_raw.json                 RawResponse
        ├── raw_responses/{base}_continuation_{turn}_raw.json
        └── documents/{base}_{document-key}.md            StageDocument

    {base} is a ContributionName, one of                  with the relation
        {model}_{n}_{type}                                Plain
        {model}_critiquing_{source}_{n}_antithesis        About
        {model}_about_{source}_{n}_{type}                 About, for every other type
        {model}_from_{source}_and_{source}_{n}_{type}     From
        {model}_reducing_{8 hex}_{n}_{type}               Reducing
        {model}_combining_{8 hex}_{n}_combined            Combining

Parsing is unambiguous because `_` belongs to the layout. A slug has none. A type may have some, but
no word of it is a bare number, so the last bare number is always `n`. A document key is written
with `-` instead of `_`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import assert_never

from dialectic.core.documents.file_locations import (
    AND,
    FINAL_SYNTHESIS,
    SOURCES_CHARS_MAX,
    SYNTHESIS,
    About,
    ChunkFile,
    Combining,
    ContributionFile,
    ContributionName,
    ExportArchive,
    From,
    GeneralResource,
    InitialPrompt,
    Intermediate,
    Place,
    Plain,
    ProjectFile,
    ProjectFileKind,
    ProjectPlace,
    RawResponse,
    Reducing,
    Relation,
    ResourceKind,
    SeedPrompt,
    StageDocument,
    StageFolder,
    StagePlace,
    UserFeedback,
    WorkItem,
    WorkStatus,
)
from dialectic.errors import UsageError

PATH_CHARS_MAX = 1_024

# Precede the optional numbers at the end of a base name.
_CONTINUATION = "_continuation_"
_EDIT = "_edit_"


def build_path(place: Place) -> str:
    """Build the path of a place, relative to the tenant's root."""
    if isinstance(place, ProjectPlace):
        return f"{place.project}/{_project_file(place)}"
    folder = place.folder
    return (
        f"{folder.project}/session_{folder.session}/iteration_{folder.iteration}"
        f"/{folder.position}_{folder.stage}/{_stage_file(place)}"
    )


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


def fold_sources(slugs: Sequence[str]) -> tuple[str, ...]:
    """Shorten a list of sources: the first, the number of others, and a hash of all."""
    joined = AND.join(slugs)
    if len(joined) <= SOURCES_CHARS_MAX:
        return tuple(slugs)
    digest = hashlib.sha256(joined.encode()).hexdigest()
    return slugs[0], f"{len(slugs) - 1}-{digest[:8]}"


def _project_file(place: ProjectPlace) -> str:
    match place:
        case InitialPrompt(_, name):
            file = f"{name}.md"
        case ProjectFile(_, kind):
            file = kind.value
        case ExportArchive(_, name):
            file = f"{name}.zip"
        case GeneralResource(_, kind, name, extension):
            file = f"general_resource/{kind}/{name}.{extension}"
        case WorkItem(_, status, name):
            file = f"{status}/{name}.md"
        case _:
            assert_never(place)
    return file


def _stage_file(place: StagePlace) -> str:
    match place:
        case SeedPrompt():
            file = "seed_prompt.md"
        case UserFeedback(folder):
            file = f"user_feedback_{folder.stage}.md"
        case ContributionFile(_, contribution):
            file = f"{_base_name(contribution)}.md"
        case Intermediate(_, contribution):
            file = f"_work/{_base_name(contribution)}.md"
        case ChunkFile(_, contribution, turn):
            file = f"_work/{_base_name(contribution)}{_CONTINUATION}{turn}.md"
        case RawResponse(_, contribution, turn):
            continuation = "" if turn is None else f"{_CONTINUATION}{turn}"
            file = f"raw_responses/{_base_name(contribution)}{continuation}_raw.json"
        case StageDocument(_, contribution, key):
            file = f"documents/{_base_name(contribution)}_{key.replace('_', '-')}.md"
        case _:
            assert_never(place)
    return file


def _base_name(contribution: ContributionName) -> str:
    kind = contribution.contribution_type
    match contribution.relation:
        case Plain():
            relation = ""
        case About(source):
            relation = f"{'critiquing' if kind == 'antithesis' else 'about'}_{source}_"
        case From(sources):
            relation = f"from_{AND.join(sources)}_"
        case Reducing(source_id):
            relation = f"reducing_{source_id}_"
        case Combining(source_id):
            relation = f"combining_{source_id}_"
        case _:
            assert_never(contribution.relation)
    word = FINAL_SYNTHESIS if kind == SYNTHESIS else kind
    version = f"{_EDIT}{contribution.version}" if contribution.version > 1 else ""
    return f"{contribution.model}_{relation}{contribution.n}_{word}{version}"


def _read_path(parts: list[str]) -> Place | None:
    place: Place | None = None
    match parts:
        case [project, ("project_readme.md" | "project_settings.json") as kind]:
            place = ProjectFile(project, ProjectFileKind(kind))
        case [project, file]:
            stem, _, extension = file.rpartition(".")
            place = (ExportArchive if extension == "zip" else InitialPrompt)(project, stem)
        case [project, "general_resource", resource, file] if resource in list(ResourceKind):
            stem, _, extension = file.rpartition(".")
            place = GeneralResource(project, ResourceKind(resource), stem, extension)
        case [project, ("Pending" | "Current" | "Complete") as status, file]:
            place = WorkItem(project, WorkStatus(status), file.removesuffix(".md"))
        case [project, session, iteration, stage, *file_parts]:
            position, _, slug = stage.partition("_")
            short_id, number = (
                session.removeprefix("session_"),
                iteration.removeprefix("iteration_"),
            )
            folder = StageFolder(project, short_id, _number(number), _number(position), slug)
            place = _read_stage_file(folder, file_parts)
        case _:
            pass
    return place


def _read_stage_file(folder: StageFolder, parts: list[str]) -> StagePlace | None:
    place: StagePlace | None = None
    match parts:
        case ["seed_prompt.md"]:
            place = SeedPrompt(folder)
        case [file] if file.startswith("user_feedback_"):
            place = UserFeedback(folder)
        case [file]:
            place = ContributionFile(folder, _read_base_name(file.removesuffix(".md")))
        case ["_work", file]:
            base, turn = _split_number(file.removesuffix(".md"), _CONTINUATION)
            name = _read_base_name(base)
            place = Intermediate(folder, name) if turn is None else ChunkFile(folder, name, turn)
        case ["raw_responses", file]:
            base, turn = _split_number(file.removesuffix("_raw.json"), _CONTINUATION)
            place = RawResponse(folder, _read_base_name(base), turn)
        case ["documents", file]:
            base, _, key = file.removesuffix(".md").rpartition("_")
            place = StageDocument(folder, _read_base_name(base), key.replace("-", "_"))
        case _:
            pass
    return place


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
            return Plain()
        case ["critiquing" | "about", source]:
            return About(source)
        case ["from", *sources]:
            return From(tuple(sources[::2]))
        case ["reducing", source_id]:
            return Reducing(source_id)
        case ["combining", source_id]:
            return Combining(source_id)
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
