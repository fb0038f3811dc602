"""An iteration's documents in all versions, with what each of them read, as they are compared.

Loads rows and builds what `provenance` compares; computes nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from uuid import UUID, uuid5

from dialectic.app.transaction import Transaction
from dialectic.contract.provenance import VersionsKnown
from dialectic.core.points import SourceKind
from dialectic.core.process.definition import Holds, Process, Stage, Step
from dialectic.db.tables import provenance as table
from dialectic.db.tables import records
from dialectic.db.tables.provenance import ReportKey, Version
from dialectic.errors import InvalidValue
from dialectic.pipeline.gather import label_all
from dialectic.pipeline.load import JobContext, load_session_context
from dialectic.pipeline.load import Text as ReadText
from dialectic.processes.loader import load_process
from dialectic.provenance import METHOD
from dialectic.provenance.points import build_sections
from dialectic.provenance.texts import Role, Text

STANDARD = "standard"


async def load_scene_of(tx: Transaction, contribution_id: UUID) -> Scene:
    """Load the iteration of a contribution."""
    session_id, iteration = await table.load_place(tx.connection, contribution_id)
    return await _load(tx, session_id, iteration)


async def load_scene(
    tx: Transaction, session_id: UUID, iteration: int | None = None, of: UUID | None = None
) -> Scene:
    """Load an iteration of a session: that of a contribution, the named one, or the last."""
    session = await records.load_session(tx.connection, session_id)
    if of is not None:
        home, number = await table.load_place(tx.connection, of)
        if home != session_id or iteration not in (None, number):
            raise InvalidValue(
                f"Contribution {of} is not part of this session and iteration. Name one that is.",
                reason="other_session",
                subject="of",
            )
        iteration = number
    current = session["iteration_count"]
    if iteration is not None and not 1 <= iteration <= current:
        raise InvalidValue(
            f"The session has {current} iterations, not {iteration}. Name one that it has.",
            reason="out_of_range",
            subject="iteration",
            limit=current,
        )
    return await _load(tx, session_id, iteration or current)


async def _load(tx: Transaction, session_id: UUID, iteration: int) -> Scene:
    context = await load_session_context(tx.engine, tx.connection, session_id, iteration)
    versions = await table.list_versions(tx.connection, session_id, iteration)
    return Scene(context, tuple(versions))


@dataclass(frozen=True)
class Scene:
    """An iteration's documents in all versions, without their texts, and what was given to it."""

    context: JobContext
    versions: tuple[Version, ...]

    def without_rulings(self) -> Scene:
        """Leave rulings out: they are about what is found, and must not change it."""
        return replace(self, context=replace(self.context, rulings=()))

    @cached_property
    def by_id(self) -> dict[UUID, Version]:
        return {one.id: one for one in self.versions}

    @cached_property
    def latest(self) -> dict[UUID, Version]:
        """The newest version of each document, by the id of its first."""
        return {one.first_id: one for one in self.versions if one.is_latest_edit}

    @cached_property
    def process(self) -> Process:
        """The process whose sections are known: the shipped one for sessions pinned before it."""
        pinned = self.context.process
        if pinned.name == STANDARD and not any(stage.points for stage in pinned.order):
            return load_process(STANDARD)
        return pinned

    @cached_property
    def versions_known(self) -> VersionsKnown:
        """`unknown` if some document does not tell which versions it read."""
        is_known = all(
            one.read_version_ids or not one.source_contribution_ids for one in self.versions
        )
        return "known" if is_known else "unknown"

    @cached_property
    def given(self) -> tuple[Text, ...]:
        """The texts that people gave: the request, what goes with it, and feedback."""
        context = self.context
        texts = [(SourceKind.REQUEST, context.request)]
        texts += [(SourceKind.RESOURCE, one.content) for one in context.context]
        texts += [(SourceKind.FEEDBACK, one.content) for one in context.feedback]
        texts += [(SourceKind.RULING, one.content or one.upheld or "") for one in context.rulings]
        return tuple(
            Text(
                id=uuid5(context.session_id, f"{kind.value}:{number}"),
                content=content,
                kind=kind,
                role=Role.GIVEN,
                label=kind.value,
            )
            for number, (kind, content) in enumerate(texts)
            if content.strip()
        )

    def find_part(self, one: Version) -> tuple[Stage, Stage | Step] | None:
        """Find the stage and step that made a document; None if the process has neither now."""
        for stage in self.process.order:
            for part in stage.parts:
                if (stage.slug, part.output_type) == (one.stage, one.contribution_type):
                    return stage, part
        return None

    def get_role(self, one: Version) -> Role:
        """Get what a document is for: it begins, criticises or merges."""
        found = self.find_part(one)
        if found is None:
            return Role.EDITOR
        stage, _ = found
        if not stage.list_sources() and not stage.steps:
            return Role.THESIS
        rules = stage.list_points(one.contribution_type)
        is_critique = any(rule.holds is Holds.OBJECTION for rule in rules)
        return Role.CRITIQUE if is_critique else Role.EDITOR

    def is_origin(self, one: Version) -> bool:
        return self.get_role(one) is not Role.EDITOR

    def list_theses(self) -> list[Version]:
        """List the newest version of each thesis."""
        return [one for one in self._list_latest() if self.get_role(one) is Role.THESIS]

    def list_whole(self) -> list[Version]:
        """List the newest versions of theses and critiques, and of each stage's documents."""
        return [
            one for one in self._list_latest() if self.is_origin(one) or not one.is_intermediate
        ]

    def _list_latest(self) -> list[Version]:
        return sorted(self.latest.values(), key=lambda one: one.first_id.bytes)

    def is_after(self, one: Version, iteration: int, stage: str) -> bool:
        """Tell whether a document of this iteration was written after a stage of any iteration."""
        place, other = self.process.position(one.stage), self.process.position(stage)
        return (self.context.iteration, place) > (iteration, other)

    def find_target(self) -> UUID | None:
        """Find the lead's document of the last stage in which every model's has been written."""
        for stage in reversed(self.process.order):
            made = [
                one
                for one in self.latest.values()
                if (one.stage, one.contribution_type) == (stage.slug, stage.output_type)
                and not self.is_origin(one)
            ]
            if made and len(made) >= len(self.context.get_seats(stage.slug)):
                lead = self.context.lead_model_index
                return min(made, key=lambda one: (one.model_index != lead, one.model_index or 0)).id
        return None

    def list_read(self, one: Version) -> list[UUID]:
        """List the versions that a document read; the newest where that is not recorded.

        A person's version is compared with the one it replaced.
        """
        if one.is_by_user:
            before = [
                v for v in self.versions if v.first_id == one.first_id and v.version < one.version
            ]
            return [max(before, key=lambda v: v.version).id] if before else []
        if one.read_version_ids:
            return list(one.read_version_ids)
        return [self.latest[each].id for each in one.source_contribution_ids if each in self.latest]

    def list_closure(self, ids: Iterable[UUID]) -> list[Version]:
        """List documents and everything they descend from, by id."""
        found: dict[UUID, Version] = {}
        left = list(ids)
        while left:
            one = self.by_id.get(left.pop())
            if one is not None and one.id not in found:
                found[one.id] = one
                left += self.list_read(one)
        return sorted(found.values(), key=lambda each: each.id.bytes)

    def build_key(self, contribution_id: UUID, kind: str, members: Sequence[Version]) -> ReportKey:
        """Build the key of a report: versions never change, so their ids stand for their texts."""
        digest = hashlib.sha256(f"{self.process.content_hash}\n{kind}\n".encode())
        for one in members:
            digest.update(one.id.bytes)
        for text in self.given:
            digest.update(text.content.encode("utf-8", "surrogatepass") + b"\0")
        return ReportKey(contribution_id, kind, METHOD, digest.hexdigest())

    def build_texts(self, members: Sequence[Version], contents: Mapping[UUID, str]) -> list[Text]:
        """Build what is compared."""
        given = tuple(text.id for text in self.given)
        return [*self.given, *(self._build_text(one, contents[one.id], given) for one in members)]

    def _build_text(self, one: Version, content: str, given: tuple[UUID, ...]) -> Text:
        found = self.find_part(one)
        stage, part = found if found is not None else (None, None)
        read = self.list_read(one)
        return Text(
            id=one.id,
            content=content,
            kind=SourceKind.PERSON if one.is_by_user else SourceKind.CONTRIBUTION,
            role=self.get_role(one),
            document_id=one.first_id,
            stage=one.stage,
            step=part.name if isinstance(part, Step) else "",
            type=one.contribution_type,
            model_index=one.model_index,
            model=one.model_name,
            job_id=one.job_id,
            label=self._label(one),
            is_lead=one.model_index == self.context.lead_model_index,
            is_final=not one.is_intermediate,
            sources=(*read, *given),
            labels=self._list_labels(one, part),
            sections=None if stage is None else build_sections(stage, one.contribution_type),
        )

    def _label(self, one: Version) -> str:
        """Build a name for a document that does not reveal its author, such as `Thesis B`."""
        name = one.contribution_type.replace("_", " ").capitalize()
        reading = _as_read(one)
        if reading is None:
            return name
        (item,) = label_all(self.context, name, [reading], self.context.session_id)
        return item.label

    def _list_labels(self, one: Version, part: Stage | Step | None) -> dict[str, UUID]:
        """List what a document's sources were called in its prompt.

        A person's version keeps the words of the model, and so its labels.
        """
        written = [v for v in self.versions if v.first_id == one.first_id and not v.is_by_user]
        one = max((v for v in written if v.version <= one.version), key=_get_version, default=one)
        if part is None or one.job_id is None:
            return {}
        read = self.list_read(one)
        labels: dict[str, UUID] = {}
        for rule in part.list_sources():
            given = [
                reading
                for each in read
                if (source := self.by_id.get(each)) is not None
                and source.contribution_type == rule.type
                and (reading := _as_read(source)) is not None
            ]
            for item in label_all(self.context, rule.header, given, one.job_id):
                if item.version_id is not None:
                    labels[item.label] = item.version_id
        return labels


def _get_version(one: Version) -> int:
    return one.version


def _as_read(one: Version) -> ReadText | None:
    """Build what labels need of a document; None if it has no place in the lineage."""
    if one.model_index is None or one.origin is None:
        return None
    return ReadText(
        id=one.first_id,
        stage_slug=one.stage,
        type=one.contribution_type,
        model_index=one.model_index,
        rank=one.rank or 1,
        source_group=one.source_group,
        origin=one.origin,
        version_id=one.id,
        path=one.storage_path,
        content="",
    )
