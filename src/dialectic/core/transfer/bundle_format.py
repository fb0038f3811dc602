"""The form of an export: what stands in the archive, under which names, and how much of it.

Pure. An archive holds the project's folder as it stands in storage, and beside it `manifest.json`,
which names every file with its size and hash. What does not fit this form is refused before a byte
of it is used; each refusal names the entry.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, FailFast, Field, ValidationError
from pydantic_core import from_json

from dialectic.core.documents.file_locations import (
    ChunkFile,
    ExportArchive,
    Intermediate,
    Place,
    ProjectFile,
    ProjectFileKind,
    ProjectPlace,
    RawResponse,
)
from dialectic.core.documents.file_paths import build_path, parse_path
from dialectic.core.strict_json import has_too_many
from dialectic.errors import InvalidBundle, UsageError

FORMAT: Final = "dialectic-bundle"
VERSION: Final = 1
MANIFEST_NAME = "manifest.json"
FINISHED_NAME = "finished"


@dataclass(frozen=True, slots=True)
class Limits:
    """What an archive may be at most; an export that would be more says so, and is not made."""

    entries_max: int = 20_000
    archive_bytes_max: int = 512 * 2**20
    entry_bytes_max: int = 64 * 2**20
    total_bytes_max: int = 1024 * 2**20


LIMITS = Limits()
# Text shrinks to a fifth. What shrinks to a two-hundredth was made to swell.
RATIO_MAX = 200
RATIO_FREE_BYTES = 2**20

_DRIVE = re.compile(r"[A-Za-z]:")

T = TypeVar("T")
FormT = TypeVar("FormT", bound=BaseModel)
FIELDS_MAX = 100
# Of millions of wrong entries one is told.
Several: TypeAlias = Annotated[tuple[T, ...], FailFast()]


class FileEntry(BaseModel):
    """One file of the archive."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    path: str = Field(min_length=1, max_length=1_024)
    size_bytes: int = Field(ge=0, le=LIMITS.entry_bytes_max)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class Manifest(BaseModel):
    """What an archive says of itself."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal["dialectic-bundle"] = FORMAT
    version: Literal[1] = VERSION
    # All of the project, or finished documents only.
    contents: Literal["all", "finished"]
    project: str
    files: Annotated[Several[FileEntry], Field(max_length=LIMITS.entries_max)]

    def as_bytes(self) -> bytes:
        return self.model_dump_json(indent=2).encode() + b"\n"


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
        message = (
            f"The bundle has version {claim.version}; this program reads version {VERSION}."
            + (" Update this program." if claim.version > VERSION else "")
        )
        raise InvalidBundle(message, reason="other_version", subject=str(claim.version))
    manifest = read_form(Manifest, data, MANIFEST_NAME)
    check_names([entry.path for entry in manifest.files])
    for entry in manifest.files:
        if project_of(parse_entry(entry.path)) != manifest.project:
            message = f"{entry.path!r} does not stand in the project's folder {manifest.project!r}."
            raise InvalidBundle(message, reason="other_folder", subject=entry.path)
    check_size((entry.size_bytes for entry in manifest.files), limits)
    return manifest


def check_values(data: bytes, name: str, values_max: int) -> None:
    """Refuse JSON that is made of more values than this, before they are made."""
    if has_too_many(data, values_max):
        raise InvalidBundle(
            f"{name} has more than the {values_max:,} values that it may have.",
            reason="too_many_values",
            subject=name,
            limit=values_max,
        )


def read_form(kind: type[FormT], data: bytes, name: str) -> FormT:
    """Read JSON into its form, or say where its first fault is.

    Whoever wrote it may be nobody's friend. Each fault that is found takes far more room than what
    is wrong, so that only so many can be found.
    """
    try:
        # Parsed by itself, since each fault in what is parsed and judged at once keeps a copy of
        # all that stands around it.
        parsed = from_json(data)
    except ValueError as error:
        raise InvalidBundle(
            f"{name} is no JSON: {error}.", reason="not_json", subject=name
        ) from None
    if any(len(entry) > FIELDS_MAX for entry in _list_entries(parsed)):
        raise InvalidBundle(
            f"{name} has an entry of more than {FIELDS_MAX} fields, as none has.",
            reason="too_many_fields",
            subject=name,
            limit=FIELDS_MAX,
        )
    try:
        return kind.model_validate(parsed)
    except ValidationError as error:
        raise InvalidBundle(f"{name}: {describe(error)}", reason="bad_form", subject=name) from None


def _list_entries(parsed: Any) -> Iterator[dict[str, Any]]:
    """List the whole, and what stands in its lists."""
    if isinstance(parsed, dict):
        yield parsed
        for several in parsed.values():
            if isinstance(several, list):
                yield from (entry for entry in several if isinstance(entry, dict))


def describe(error: ValidationError) -> str:
    """Say where the first fault is, without repeating what stands there."""
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part) for part in first["loc"]) or "the whole"
    return f"`{place}`: {first['msg']}."


def check_names(names: Sequence[str]) -> None:
    """Refuse names that lead out of the folder, or that some file system takes for one another."""
    seen: dict[str, str] = {}
    for name in names:
        if trouble := _find_trouble(name):
            words, reason = trouble
            raise InvalidBundle(
                f"The archive's entry {name[:200]!r} {words}.", reason=reason, subject=name
            )
        folded = unicodedata.normalize("NFC", name.removesuffix("/")).casefold()
        if (other := seen.get(folded)) is not None:
            same = "is there twice" if other == name else f"differs from {other[:200]!r} by case"
            raise InvalidBundle(
                f"The archive's entry {name[:200]!r} {same}.",
                reason="twice" if other == name else "twice_by_case",
                subject=name,
            )
        seen[folded] = name


def _find_trouble(name: str) -> tuple[str, str] | None:
    """Find what is wrong with a name, for people and for programs."""
    parts = name.removesuffix("/").split("/")
    troubles = {
        ("is an absolute path", "absolute"): name.startswith("/"),
        ("begins with a drive letter", "drive"): _DRIVE.match(name) is not None,
        ("holds a backslash", "backslash"): "\\" in name,
        ("leads out of its folder", "leads_out"): ".." in parts,
        ("is not a plain path", "not_plain"): "" in parts or "." in parts,
        ("holds characters that cannot be shown", "not_printable"): not name.isprintable(),
    }
    return next((told for told, holds in troubles.items() if holds), None)


def parse_entry(path: str) -> Place:
    """Read an entry's name as a place of the layout, or refuse it."""
    try:
        return parse_path(path)
    except UsageError as error:
        raise InvalidBundle(
            f"In the archive: {error.message}", reason=error.reason, subject=path
        ) from None


def project_of(place: Place) -> str:
    """Tell in which project's folder a place is."""
    return place.project if isinstance(place, ProjectPlace) else place.folder.project


def check_size(sizes: Iterable[int], limits: Limits = LIMITS) -> None:
    """Refuse more files or bytes than an archive may hold."""
    counted = list(sizes)
    if len(counted) > limits.entries_max:
        raise InvalidBundle(
            f"The project has {len(counted):,} files; "
            f"a bundle holds at most {limits.entries_max:,}.",
            reason="too_many_files",
            limit=limits.entries_max,
        )
    if (largest := max(counted, default=0)) > limits.entry_bytes_max:
        raise InvalidBundle(
            f"A file has {largest:,} bytes; in a bundle it may have {limits.entry_bytes_max:,}.",
            reason="file_too_large",
            limit=limits.entry_bytes_max,
        )
    if (total := sum(counted)) > limits.total_bytes_max:
        raise InvalidBundle(
            f"The files have {total:,} bytes; a bundle holds at most {limits.total_bytes_max:,}.",
            reason="too_many_bytes",
            limit=limits.total_bytes_max,
        )


def is_swollen(size_bytes: int, packed_bytes: int) -> bool:
    """Tell whether an entry unpacks to more than text ever does."""
    return size_bytes > RATIO_FREE_BYTES and size_bytes > RATIO_MAX * packed_bytes


def is_made_for_export(path: str) -> bool:
    """Tell whether a file is made anew by every export, so that a stored one is not taken along."""
    # They stand in the project's own folder: other names need not be read for that.
    is_outermost = path.count("/") == 1
    return is_outermost and isinstance(parse_entry(path), ProjectFile | ExportArchive)


def is_description(path: str) -> bool:
    """Tell whether a file is one of the two that describe a project as a whole."""
    slug, _, _ = path.partition("/")
    return path in (readme_path(slug), settings_path(slug))


def is_finished(path: str) -> bool:
    """Tell whether a file is for readers: no chunk, no intermediate, no raw answer."""
    return not isinstance(parse_entry(path), ChunkFile | Intermediate | RawResponse)


def archive_path(slug: str, *, finished: bool) -> str:
    """Name the archive that an export leaves in the project's folder."""
    return build_path(ExportArchive(slug, FINISHED_NAME if finished else slug))


def list_archives(slug: str) -> list[str]:
    """List the archives that exports may have left in a project's folder."""
    return sorted({archive_path(slug, finished=finished) for finished in (False, True)})


def settings_path(slug: str) -> str:
    """Name the file that holds a project's rows."""
    return f"{slug}/{ProjectFileKind.SETTINGS}"


def readme_path(slug: str) -> str:
    """Name the file that tells a reader what is where."""
    return f"{slug}/{ProjectFileKind.README}"
