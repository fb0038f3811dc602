"""Read the rows of a bundle, and move them to where they are to stand. Pure.

Nothing in a bundle is believed: every row is held against its form, every id and every path must
lead to something that the bundle itself holds.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid5

from dialectic.domain.bundle import check_values, parse_entry, project_of, read_form
from dialectic.domain.manifest import rename_sources
from dialectic.domain.path import build_path
from dialectic.domain.place import ProjectPlace
from dialectic.domain.project_rows import (
    ROW_TYPES,
    VALUES_MAX,
    InStorage,
    ProjectRows,
    Ref,
    Row,
    RowT,
    TellsSources,
)
from dialectic.domain.slug import short_id
from dialectic.errors import InvalidBundle


def parse_rows(data: bytes) -> ProjectRows:
    """Read the rows of a bundle and make sure that they hang together."""
    check_values(data, "project_settings.json", VALUES_MAX)
    rows = read_form(ProjectRows, data, "project_settings.json")
    _check_references(rows)
    _check_paths(rows)
    return rows


def _check_references(rows: ProjectRows) -> None:
    known: dict[str, set[UUID]] = {kind.table: set() for kind in ROW_TYPES}
    for row in rows.each():
        own = getattr(row, "id", None)
        if own is not None:
            if own in known[row.table]:
                raise InvalidBundle(f"project_settings.json: {row.table} has {own} twice.")
            known[row.table].add(own)
    for row in rows.each():
        for name, ref in type(row).marked(Ref):
            for wanted in _as_ids(getattr(row, name)):
                if wanted not in known[ref.table] and not ref.is_loose:
                    message = (
                        f"project_settings.json: `{name}` in {row.table} names {wanted}, "
                        f"which is not in {ref.table}."
                    )
                    raise InvalidBundle(message)


def _check_paths(rows: ProjectRows) -> None:
    files = {row.path for row in rows.dialectic_files}
    folders = {short_id(row.id) for row in rows.dialectic_sessions}
    if len(folders) != len(rows.dialectic_sessions):
        raise InvalidBundle("project_settings.json: two sessions would share a folder.")
    for path in files:
        place = parse_entry(path)
        if project_of(place) != rows.project.slug:
            raise InvalidBundle(f"{path!r} does not stand in the folder {rows.project.slug!r}.")
        if not isinstance(place, ProjectPlace) and place.folder.session not in folders:
            raise InvalidBundle(f"{path!r} stands in the folder of a session that is not there.")
    for row in rows.each():
        for name, _ in type(row).marked(InStorage):
            path = getattr(row, name)
            if path is not None and path not in files:
                message = f"project_settings.json: {row.table} names the file {path!r}, "
                raise InvalidBundle(message + "which is not in dialectic_files.")


def _as_ids(value: Any) -> tuple[UUID, ...]:
    if value is None:
        return ()
    return value if isinstance(value, tuple) else (value,)


@dataclass(frozen=True, slots=True)
class Renaming:
    """Under which ids and in which folder the rows are to stand; ids not named stay."""

    ids: Mapping[UUID, UUID]
    slug: str

    def id(self, old: UUID) -> UUID:
        return self.ids.get(old, old)

    def path(self, path: str, sessions: Mapping[str, str]) -> str:
        place = parse_entry(path)
        if isinstance(place, ProjectPlace):
            return build_path(dataclasses.replace(place, project=self.slug))
        session = sessions[place.folder.session]
        folder = dataclasses.replace(place.folder, project=self.slug, session=session)
        return build_path(dataclasses.replace(place, folder=folder))


def build_new_ids(rows: ProjectRows, project_id: UUID) -> dict[UUID, UUID]:
    """Build ids for a second copy of a project, all derived from the copy's own.

    A contribution keeps the first eight digits, for they stand in names of files; a session gets
    new ones, for people call it by them. A document that never came to its end has an id as well,
    in its chunks.
    """
    ids = {rows.project.id: project_id}
    others = [
        *(row.id for row in rows.dialectic_sessions),
        *(row.id for row in rows.dialectic_chunks),
        *(row.id for row in rows.dialectic_feedback),
        *(row.id for row in rows.dialectic_project_resources),
    ]
    ids |= {old: uuid5(project_id, str(old)) for old in others}
    documents = {row.id for row in rows.dialectic_contributions}
    for document in documents | {row.root_contribution_id for row in rows.dialectic_chunks}:
        old = str(document)
        ids[document] = UUID(old[:8] + str(uuid5(project_id, old))[8:])
    return ids


def rename_rows(rows: ProjectRows, renaming: Renaming) -> ProjectRows:
    """Build the same project under other ids and in another folder."""
    sessions = {short_id(row.id): short_id(renaming.id(row.id)) for row in rows.dialectic_sessions}
    tables: dict[str, Any] = {}
    for name in ProjectRows.model_fields:
        tables[name] = tuple(
            _rename_row(row, renaming, sessions) if isinstance(row, Row) else row
            for row in getattr(rows, name)
        )
    project = tables["dialectic_projects"][0].model_copy(update={"slug": renaming.slug})
    return rows.model_copy(update={**tables, "dialectic_projects": (project,)})


def _rename_row(row: RowT, renaming: Renaming, sessions: Mapping[str, str]) -> RowT:
    changed: dict[str, Any] = {}
    for name, _ in type(row).marked(Ref):
        value = getattr(row, name)
        if isinstance(value, tuple):
            changed[name] = tuple(renaming.id(item) for item in value)
        elif value is not None:
            changed[name] = renaming.id(value)
    for name, _ in type(row).marked(InStorage):
        if (path := getattr(row, name)) is not None:
            changed[name] = renaming.path(path, sessions)
    for name, _ in type(row).marked(TellsSources):
        if (manifest := getattr(row, name)) is not None:
            changed[name] = rename_sources(manifest, renaming.id)
    return row.model_copy(update=changed)
