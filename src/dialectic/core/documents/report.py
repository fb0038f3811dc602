"""The report of a session: plan, documents, lineage and costs in one HTML file. Pure.

The file makes no request: styles are inside it, and its content security policy allows nothing
else. It says neither when nor where it was made: the same session gives the same bytes.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import html
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from uuid import UUID

from dialectic.core.documents.offline_notice import list_notices
from dialectic.core.documents.plan_page import PlanPage
from dialectic.core.documents.report_map import ReportMap, list_map
from dialectic.core.documents.safe_html import render_markdown, show_invisible
from dialectic.core.documents.shortcomings import describe_all, describe_document
from dialectic.core.transfer.rows import ContributionRow, ProjectRows, SessionRow

GENERATOR = "Dialectic report"
NO_PLAN = "No iteration of this session is finished, so it has no plan yet."


@dataclass(frozen=True, slots=True)
class CostLine:
    """What the calls of one kind to one model in one stage have cost."""

    stage: str
    model: str
    purpose: str
    calls: int
    input_tokens: int
    output_tokens: int
    charged: str


@dataclass(frozen=True, slots=True)
class ReportSource:
    """Everything that a report shows."""

    rows: ProjectRows
    session: SessionRow
    page: PlanPage | None
    texts: Mapping[UUID, str]
    costs: Sequence[CostLine]
    total: str | None
    has_drafts: bool = True
    has_names: bool = True
    # Known already, if the names of models are hidden.
    notices: Sequence[str] | None = None
    claims: ReportMap | None = None

    def list_notices(self) -> list[str]:
        """List what a reader must know of the models, before anything else."""
        if self.notices is not None:
            return list(self.notices)
        return list_notices(self.models, self.rows.project.initial_user_prompt)

    @property
    def models(self) -> list[str]:
        """The models of the session, by seat."""
        names = {row.id: row.api_identifier for row in self.rows.ai_providers}
        return [names[model] for model in self.session.selected_model_ids]

    @property
    def documents(self) -> list[ContributionRow]:
        """The newest versions of the session's documents, in the order of its work."""
        runs = self.rows.dialectic_stage_runs
        places = {(run.iteration_number, run.stage_slug): run.position for run in runs}
        own = [
            row
            for row in self.rows.dialectic_contributions
            if row.session_id == self.session.id
            and row.is_latest_edit
            and (self.has_drafts or not row.is_intermediate)
        ]
        return sorted(
            own,
            key=lambda row: (
                row.iteration_number,
                places.get((row.iteration_number, row.stage), 0),
                row.is_intermediate,
                row.model_index or 0,
                row.storage_path,
            ),
        )


@functools.cache
def read_style() -> str:
    """Read the style sheet of the report."""
    return files("dialectic.core.documents").joinpath("report.css").read_text(encoding="utf-8")


@functools.cache
def build_policy() -> str:
    """Build the content security policy: nothing but the style sheet inside the file."""
    digest = base64.b64encode(hashlib.sha256(read_style().encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def build_report(source: ReportSource) -> str:
    """Build the whole file."""
    name = source.rows.project.project_name
    title = _write(f"{name}: report of session {str(source.session.id)[:8]}")
    head = [
        "<!doctype html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{build_policy()}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="referrer" content="no-referrer">',
        f'<meta name="generator" content="{GENERATOR}">',
        f"<title>{title}</title>",
        f"<style>{read_style()}</style>",
        "</head>",
        "<body>",
    ]
    return "\n".join([*head, *_list_body(source), "</body>", "</html>"]) + "\n"


def _write(text: str) -> str:
    """Write a name or a sentence as HTML, with its invisible characters shown."""
    return html.escape(show_invisible(text))


def _list_body(source: ReportSource) -> Iterator[str]:
    yield from _list_header(source)
    yield "<main>"
    anchors = _build_anchors(source)
    yield '<section id="plan">'
    if source.page is None:
        yield f"<h2>Plan</h2>\n<p>{NO_PLAN}</p>"
    else:
        # The header has the title of the page, and its notices.
        blocks = source.page.text.split("\n\n", 2 if source.page.notices else 1)
        yield render_markdown(blocks[-1], anchors=anchors)
    yield "</section>"
    if source.claims is not None:
        yield from list_map(source.claims, _build_link(source))
    yield from _list_documents(source, anchors)
    yield from _list_lineage(source)
    yield from _list_costs(source)
    yield "</main>"
    yield (
        '<footer class="soft"><p>Made by Dialectic from the records of the session. This file '
        "needs no network and sends nothing.</p></footer>"
    )


def _list_header(source: ReportSource) -> Iterator[str]:
    rows, session = source.rows, source.session
    yield "<header>"
    yield f"<h1>{_write(rows.project.project_name)}</h1>"
    for notice in source.list_notices():
        yield f'<p class="notice">{_write(notice)}</p>'
    facts = f"Session {str(session.id)[:8]}, {len(source.documents):,} documents by "
    yield f'<p class="soft">{_write(facts + ", ".join(dict.fromkeys(source.models)))}</p>'
    for warning in describe_all(source.documents):
        yield f'<p class="notice">{_write(warning)}</p>'
    yield "</header>"
    places = {"plan": "Plan", "map": "Argument map", "documents": "Documents"}
    places |= {"lineage": "Lineage", "costs": "Costs"}
    if source.claims is None:
        del places["map"]
    links = "".join(f'<li><a href="#{place}">{name}</a></li>' for place, name in places.items())
    yield f'<nav aria-label="Contents"><ul>{links}</ul></nav>'


# -- documents -------------------------------------------------------------------------------------


def _build_anchors(source: ReportSource) -> dict[str, str]:
    """Map the files of documents, and of the extracts of them, to places in the report."""
    prefix = f"{source.rows.project.slug}/"
    shown = {row.id: name_anchor(row) for row in source.documents}
    anchors = {row.storage_path.removeprefix(prefix): shown[row.id] for row in source.documents}
    for resource in source.rows.dialectic_project_resources:
        if resource.source_contribution_id in shown and resource.resource_type == "document":
            path = resource.storage_path.removeprefix(prefix)
            anchors[path] = shown[resource.source_contribution_id]
    return anchors


def name_anchor(row: ContributionRow) -> str:
    """Name the place of a document in the report."""
    return f"document-{row.id}"


def _list_documents(source: ReportSource, anchors: Mapping[str, str]) -> Iterator[str]:
    yield '<section id="documents">\n<h2>Documents</h2>'
    final = [row for row in source.documents if not row.is_intermediate]
    drafts = [row for row in source.documents if row.is_intermediate]
    if not source.documents:
        yield "<p>There are none yet.</p>"
    yield _link_all(final)
    for row in final:
        yield f'<article id="{name_anchor(row)}">\n<h3>{_write(name_document(row))}</h3>'
        yield _describe(row)
        yield render_markdown(source.texts.get(row.id, ""), anchors=anchors, level=2)
        yield "</article>"
    if drafts:
        yield "<h2>Drafts</h2>"
        yield '<p class="soft">What later steps were made of. Open one to read it.</p>'
    for row in drafts:
        yield f'<details id="{name_anchor(row)}">'
        yield f"<summary>{_write(name_document(row))}</summary>"
        yield _describe(row)
        yield render_markdown(source.texts.get(row.id, ""), anchors=anchors, level=2)
        yield "</details>"
    yield "</section>"


def _build_link(source: ReportSource) -> Callable[[UUID, str], str]:
    """Build what links to a document by the id of any of its versions."""
    shown = {row.original_model_contribution_id or row.id: row for row in source.documents}
    shown |= {row.id: row for row in source.documents}

    def link(document_id: UUID, inside: str) -> str:
        row = shown.get(document_id)
        return inside if row is None else f'<a href="#{name_anchor(row)}">{inside}</a>'

    return link


def _link_all(rows: Sequence[ContributionRow]) -> str:
    items = "".join(
        f'<li><a href="#{name_anchor(row)}">{_write(name_document(row))}</a></li>' for row in rows
    )
    return f'<ol class="screen">{items}</ol>' if items else ""


def name_document(row: ContributionRow) -> str:
    """Name a document for people: what it is, who wrote it, and which of several it is."""
    words = row.contribution_type.replace("_", " ")
    is_named = row.model_index is None or row.model_name == f"Seat {row.model_index}"
    seat = "" if is_named else f", seat {row.model_index}"
    number = "" if row.rank in (None, 1) else f", number {row.rank}"
    iteration = "" if row.iteration_number == 1 else f", iteration {row.iteration_number}"
    return f"{words.capitalize()} by {row.model_name}{seat}{number}{iteration}"


def _describe(row: ContributionRow) -> str:
    facts = [f"Stage {row.stage}"]
    if row.is_by_user:
        facts.append(f"version {row.edit_version}, edited by a person")
    elif row.edit_version > 1:
        facts.append(f"version {row.edit_version}")
    if row.tokens_used_output is not None:
        facts.append(f"{row.tokens_used_output:,} tokens")
    facts += describe_document(row)
    facts += ["older than something it rests on"] if row.is_stale else []
    return f'<p class="soft">{html.escape("; ".join(facts))}.</p>'


# -- lineage and costs -----------------------------------------------------------------------------


def _list_lineage(source: ReportSource) -> Iterator[str]:
    """Show for each document what it is about and which documents it was written from."""
    yield '<section id="lineage">\n<h2>Lineage</h2>'
    yield '<p class="soft">Who wrote what, and from which documents.</p>'
    rows = {row.id: row for row in source.rows.dialectic_contributions}
    current = {row.original_model_contribution_id or row.id: row for row in source.documents}
    lines = []
    for row in source.documents:
        about = row.target_contribution_id
        sources = [one for one in row.source_contribution_ids if one != about]
        lines.append(
            [
                _link_row(row),
                html.escape(row.stage),
                _link_source(about, current, rows) if about is not None else "",
                "<br>".join(_link_source(one, current, rows) for one in sources) or "the request",
            ]
        )
    yield _build_table(("Document", "Stage", "About", "Written from"), lines)
    yield "</section>"


def _link_row(row: ContributionRow) -> str:
    return f'<a href="#{name_anchor(row)}">{_write(name_document(row))}</a>'


def _link_source(
    source_id: UUID, current: Mapping[UUID, ContributionRow], rows: Mapping[UUID, ContributionRow]
) -> str:
    row = rows.get(source_id)
    if row is None:
        return "a document that is not kept"
    shown = current.get(row.original_model_contribution_id or row.id)
    return _write(name_document(row)) if shown is None else _link_row(shown)


def _list_costs(source: ReportSource) -> Iterator[str]:
    yield '<section id="costs">\n<h2>Costs</h2>'
    if source.total is None:
        yield "<p>The costs of this session are not known here.</p>"
    else:
        yield f"<p>{html.escape(source.total)}.</p>"
        lines = [
            [
                html.escape(line.stage),
                _write(line.model),
                html.escape(line.purpose),
                f"{line.calls:,}",
                f"{line.input_tokens:,}",
                f"{line.output_tokens:,}",
                html.escape(line.charged),
            ]
            for line in source.costs
        ]
        titles = ("Stage", "Model", "For", "Calls", "Tokens read", "Tokens written", "Charged")
        yield _build_table(titles, lines, numbers=4)
    yield "</section>"


def _build_table(titles: Sequence[str], lines: Sequence[Sequence[str]], numbers: int = 0) -> str:
    """Build a table of cells that are HTML; the last columns may be numbers."""
    first, number = len(titles) - numbers, ' class="number"'

    def cells(tag: str, values: Sequence[str]) -> str:
        return "".join(
            f"<{tag}{number if place >= first else ''}>{value}</{tag}>"
            for place, value in enumerate(values)
        )

    body = "\n".join(f"<tr>{cells('td', line)}</tr>" for line in lines)
    return (
        f'<div class="table"><table><thead><tr>{cells("th", titles)}</tr></thead>'
        f"<tbody>\n{body}\n</tbody></table></div>"
    )
