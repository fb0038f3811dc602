"""What a plan page is made of: finished iterations, their documents and the parts in them. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from dialectic.core.documents.plan_parts import KEYS, Part, Section, find_parts
from dialectic.core.process.definition import ExpectedDocument
from dialectic.core.transfer.rows import ContributionRow, ProjectRows, SessionRow, StageRunRow


@dataclass(frozen=True, slots=True)
class Finished:
    """The last finished iteration of a session."""

    session: SessionRow
    iteration_number: int
    runs: tuple[StageRunRow, ...]

    @property
    def day(self) -> str:
        return f"{max(run.completed_at for run in self.runs):%Y-%m-%d}"

    @property
    def short_id(self) -> str:
        return str(self.session.id)[:8]


@dataclass(frozen=True, slots=True)
class PlanDocument:
    """A document that the page is made of, with the parts that it holds."""

    row: ContributionRow
    text: str
    sections: tuple[Section, ...]

    def list_sections(self, part: Part) -> list[Section]:
        return [section for section in self.sections if section.part is part]


@dataclass(slots=True)
class PlanSources:
    """The documents that a page is made of, and the parts that none of them has."""

    rows: ProjectRows
    finished: Finished
    lead: list[PlanDocument] = field(default_factory=list)
    others: list[PlanDocument] = field(default_factory=list)
    missing: list[Part] = field(default_factory=list)

    @property
    def documents(self) -> list[PlanDocument]:
        return [*self.lead, *self.others]

    def find(self, part: Part) -> tuple[PlanDocument, Section] | None:
        """Find the section of a part: of the lead, by preferred key, in the latest stage."""
        for documents in (self.lead, self.others):
            for key in (*KEYS.get(part, ()), None):
                for document in reversed(documents):
                    for section in document.list_sections(part):
                        if key in (None, section.key):
                            return document, section
        return None

    def find_all(self, part: Part) -> list[tuple[PlanDocument, Section]]:
        """Find every section of a part in the lead's documents; else in those of others."""
        for documents in (self.lead, self.others):
            found = [(one, section) for one in documents for section in one.list_sections(part)]
            if found:
                return found
        return []


# -- what is finished ------------------------------------------------------------------------------


def list_finished(rows: ProjectRows) -> list[Finished]:
    """List the sessions that have finished an iteration, the latest first."""
    found = []
    for session in rows.dialectic_sessions:
        runs = [run for run in rows.dialectic_stage_runs if run.session_id == session.id]
        numbers = [run.iteration_number for run in runs if run.is_last and run.status == "complete"]
        if numbers:
            own = tuple(run for run in runs if run.iteration_number == max(numbers))
            found.append(Finished(session, max(numbers), own))
    return sorted(found, key=lambda one: max(run.completed_at for run in one.runs), reverse=True)


def list_used(rows: ProjectRows, finished: Finished) -> list[ContributionRow]:
    """List the documents of an iteration that its plan is made of: the lead's first.

    Those are the finished documents after the first stage, but not the critiques of one document.
    """
    own = [
        row
        for row in rows.dialectic_contributions
        if (row.session_id, row.iteration_number)
        == (finished.session.id, finished.iteration_number)
        and row.is_latest_edit
        and not row.is_intermediate
        and row.target_contribution_id is None
    ]
    places = {run.stage_slug: run.position for run in finished.runs}
    first = min(places.values())
    later = [row for row in own if places.get(row.stage, first) > first]
    lead = finished.session.lead_model_index
    return sorted(
        later or own,
        key=lambda row: (
            row.model_index != lead,
            places.get(row.stage, first),
            row.model_index or 0,
            row.storage_path,
        ),
    )


def read_sources(rows: ProjectRows, finished: Finished, texts: Mapping[UUID, str]) -> PlanSources:
    """Find the parts of a plan in the texts of an iteration's documents."""
    sources = PlanSources(rows, finished)
    for row in list_used(rows, finished):
        text = texts[row.id]
        sections = tuple(find_parts(text, _list_expected(rows, finished.session, row.stage)))
        is_lead = row.model_index == finished.session.lead_model_index
        document = PlanDocument(row, text, sections)
        (sources.lead if is_lead else sources.others).append(document)
    return sources


def _list_expected(rows: ProjectRows, session: SessionRow, stage: str) -> list[ExpectedDocument]:
    """List what the process of a session promises in a stage."""
    for row in rows.dialectic_stages:
        if (row["process_template_id"], row["slug"]) == (str(session.process_template_id), stage):
            documents = row.get("expected_output_artifacts", {}).get("documents", [])
            return [ExpectedDocument.model_validate(document) for document in documents]
    return []


def hash_basis(sources: PlanSources) -> str:
    """Hash what the page is made of, with the folder that its links lead to."""
    digest = hashlib.sha256(
        f"{sources.finished.short_id}:{sources.finished.iteration_number}".encode()
    )
    for document in sources.documents:
        digest.update(f"{document.row.storage_path.partition('/')[2]}\0{document.text}\0".encode())
    for other in list_finished(sources.rows):
        digest.update(f"{other.short_id}:{other.iteration_number}\0".encode())
    return digest.hexdigest()[:32]
