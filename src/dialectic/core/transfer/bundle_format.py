"""The format of an exported project: the names in the archive, its manifest and its limits. Pure.

An archive holds the project's folder as it is in storage, and `manifest.json`, which names every
file with its size and hash. What breaks the format is refused before any of it is used; each
refusal names the entry.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, FailFast, Field, ValidationError
from pydantic_core import from_json

from dialectic.core.documents.file_paths import (
    ChunkFile,
    ExportArchive,
    Intermediate,
    Place,
    ProjectFile,
    ProjectFileKind,
    ProjectPlace,
    RawResponse,
    ShorteningRecord,
    build_path,
    parse_path,
)
from dialectic.core.strict_json import Json, has_too_many
from dialectic.errors import InvalidBundle, UsageError

FORMAT: Final = "dialectic-bundle"
VERSION: Final = 1
MANIFEST_NAME = "manifest.json"
FINISHED_NAME = "finished"


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of an archive; an export that would exceed one fails."""

    entries_max: int = 20_000
    archive_bytes_max: int = 512 * 2**20
    entry_bytes_max: int = 64 * 2**20
    total_bytes_max: int = 1024 * 2**20


LIMITS = Limits()
# Text shrinks to a fifth. A file that shrinks to a two-hundredth is a zip bomb.
RATIO_MAX = 200
RATIO_FREE_BYTES = 2**20

_DRIVE = re.compile(r"[A-Za-z]:")

T = TypeVar("T")
FormT = TypeVar("FormT", bound=BaseModel)
FIELDS_MAX = 100
# Of millions of wrong entries the first is reported.
Several: TypeAlias = Annotated[tuple[T, ...], FailFast()]


class FileEntry(BaseModel):
    """One file of the archive."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    path: str = Field(min_length=1, max_length=1_024)
    size_bytes: int = Field(ge=0, le=LIMITS.entry_bytes_max)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class Manifest(BaseModel):
    """The list of an archive's files."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal["dialectic-bundle"] = FORMAT
    version: Literal[1] = VERSION
    # The whole project, or finished documents only.
    contents: Literal["all", "finished"]
    project: str
    files: Annotated[Several[FileEntry], Field(max_length=LIMITS.entries_max)]
    # Files of the work folders that were too large, or could not be read.
    left_out: Annotated[Several[str], Field(max_length=LIMITS.entries_max)] = ()

    def as_bytes(self) -> bytes:
        without = None if self.left_out else {"left_out"}
        return self.model_dump_json(indent=2, exclude=without).encode() + b"\n"


class _Claim(BaseModel):
    """The part of a manifest that every version has."""

    format: Literal["dialectic-bundle"]
    version: int


def parse_manifest(data: bytes, limits: Limits = LIMITS) -> Manifest:
    """Read a manifest; one of another version is refused by its number, not by its fields."""
    # Three values for each file.
    check_values(data, MANIFEST_NAME, 4 * limits.entries_max)
    try:
        claim = _Claim.model_validate(from_json(data))
    except ValueError:
        message = f"{MANIFEST_NAME} is not the manifest of a {FORMAT}. Give an exported project."
        raise InvalidBundle(message, reason="not_a_manifest") from None
    if claim.version != VERSION:
        message = f"The bundle has version {claim.version}; this program reads version {VERSION}."
        advice = " Update this program." if claim.version > VERSION else ""
        raise InvalidBundle(message + advice, reason="other_version", subject=str(claim.version))
    manifest = read_form(Manifest, data, MANIFEST_NAME)
    check_names([entry.path for entry in manifest.files])
    for entry in manifest.files:
        check_folder(entry.path, manifest.project)
    check_size((entry.size_bytes for entry in manifest.files), limits)
    return manifest


def check_values(data: bytes, name: str, values_max: int) -> None:
    """Refuse JSON that consists of more values than this, before they are parsed."""
    if has_too_many(data, values_max):
        message = f"{name} has more than {values_max:,} values."
        raise InvalidBundle(message, reason="too_many_values", subject=name, limit=values_max)


def read_form(kind: type[FormT], data: bytes, name: str) -> FormT:
    """Read JSON into its form, or report its first fault.

    Its author may be hostile: each fault that the validation finds takes far more memory than the
    JSON that caused it, so their number is limited first.
    """
    try:
        # Parsed separately: a fault that is found while parsing keeps a copy of all the input.
        parsed = from_json(data)
    except ValueError as error:
        message = f"{name} is not JSON: {error}."
        raise InvalidBundle(message, reason="not_json", subject=name) from None
    if any(len(entry) > FIELDS_MAX for entry in _list_entries(parsed)):
        message = f"{name} has an entry of more than {FIELDS_MAX} fields."
        raise InvalidBundle(message, reason="too_many_fields", subject=name, limit=FIELDS_MAX)
    try:
        return kind.model_validate(parsed)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "the whole"
        message = f"{name}: `{place}`: {first['msg']}."
        raise InvalidBundle(message, reason="bad_form", subject=name) from None


def _list_entries(parsed: Any) -> Iterator[Json]:
    """List the whole, and the objects in its lists."""
    if isinstance(parsed, dict):
        yield parsed
        for several in parsed.values():
            if isinstance(several, list):
                yield from (entry for entry in several if isinstance(entry, dict))


def check_names(names: Sequence[str]) -> None:
    """Refuse names that lead out of the folder, or that some file system cannot tell apart."""
    seen: dict[str, str] = {}
    for name in names:
        refuse_entry(name, _list_name_faults(name))
        folded = unicodedata.normalize("NFC", name.removesuffix("/")).casefold()
        other = seen.get(folded)
        differs = f"differs from {other!r:.200} only by case"
        refuse_entry(
            name,
            {"twice": ("is there twice", other == name), "twice_by_case": (differs, bool(other))},
        )
        seen[folded] = name


def refuse_entry(name: str, faults: Mapping[str, tuple[str, bool]]) -> None:
    """Refuse an entry of an archive for the first fault that it has, by reason."""
    for reason, (words, is_so) in faults.items():
        if is_so:
            message = f"The archive's entry {name[:200]!r} {words}."
            raise InvalidBundle(message, reason=reason, subject=name)


def _list_name_faults(name: str) -> dict[str, tuple[str, bool]]:
    parts = name.removesuffix("/").split("/")
    return {
        "absolute": ("is an absolute path", name.startswith("/")),
        "drive": ("begins with a drive letter", _DRIVE.match(name) is not None),
        "backslash": ("holds a backslash", "\\" in name),
        "leads_out": ("leads out of its folder", ".." in parts),
        "not_plain": ("is not a plain path", "" in parts or "." in parts),
        "not_printable": ("holds characters that cannot be shown", not name.isprintable()),
    }


def parse_entry(path: str) -> Place:
    """Read an entry's name as a place of the layout, or refuse it."""
    try:
        return parse_path(path)
    except UsageError as error:
        message = f"In the archive: {error.message}"
        raise InvalidBundle(message, reason=error.reason, subject=path) from None


def check_folder(path: str, slug: str) -> Place:
    """Read an entry's name as a place in the project's folder, or refuse it."""
    place = parse_entry(path)
    project = place.project if isinstance(place, ProjectPlace) else place.folder.project
    if project != slug:
        message = f"{path!r} is not in the project's folder {slug!r}."
        raise InvalidBundle(message, reason="other_folder", subject=path)
    return place


def check_size(sizes: Iterable[int], limits: Limits = LIMITS) -> None:
    """Refuse more files or bytes than an archive may hold."""
    counted = list(sizes)
    for reason, what, number, limit in (
        ("too_many_files", "The number of files", len(counted), limits.entries_max),
        ("file_too_large", "The size of a file", max(counted, default=0), limits.entry_bytes_max),
        ("too_many_bytes", "The size of all files", sum(counted), limits.total_bytes_max),
    ):
        if number > limit:
            message = f"{what} is {number:,}; a bundle allows {limit:,}."
            raise InvalidBundle(message, reason=reason, limit=limit)


def is_swollen(size_bytes: int, packed_bytes: int) -> bool:
    """Tell whether an entry unpacks to more than text ever does."""
    return size_bytes > RATIO_FREE_BYTES and size_bytes > RATIO_MAX * packed_bytes


def is_made_for_export(path: str) -> bool:
    """Tell whether every export makes this file itself, so that it packs no stored one."""
    # Such files are directly in the project's folder: other names need no parsing.
    is_outermost = path.count("/") == 1
    return is_outermost and isinstance(parse_entry(path), ProjectFile | ExportArchive)


def is_description(path: str) -> bool:
    """Tell whether a file is one of the two that describe a project as a whole."""
    slug, _, _ = path.partition("/")
    return path in (readme_path(slug), settings_path(slug))


def is_finished(path: str) -> bool:
    """Tell whether a file is for readers: not a chunk, an intermediate or a raw answer."""
    unfinished = ChunkFile | Intermediate | RawResponse | ShorteningRecord
    return not isinstance(parse_entry(path), unfinished)


def archive_path(slug: str, *, finished: bool) -> str:
    """Name the archive that an export writes into the project's folder."""
    return build_path(ExportArchive(slug, FINISHED_NAME if finished else slug))


def list_archives(slug: str) -> list[str]:
    """List the archives that exports may have written into a project's folder."""
    return sorted({archive_path(slug, finished=finished) for finished in (False, True)})


def settings_path(slug: str) -> str:
    """Name the file that holds a project's rows."""
    return f"{slug}/{ProjectFileKind.SETTINGS}"


def readme_path(slug: str) -> str:
    """Name the file that describes a project to readers."""
    return f"{slug}/{ProjectFileKind.README}"
