"""`PLAN.md`: the page to read after a finished iteration, assembled by rule from documents. Pure.

It holds what the lead's documents say, word for word, and names the document of each part; a part
that they lack is said to be missing. Milestones, questions, differences and dropped points are
never shortened. Nothing on it is written by a model for this page, and nothing by chance: its only
date is the day on which the iteration was finished.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from dialectic.core.documents.artifacts import list_sections
from dialectic.core.documents.excerpt import build_excerpt
from dialectic.core.documents.headings import find_firm_headings, fold_title
from dialectic.core.documents.markdown_links import escape_markdown, link_file
from dialectic.core.documents.offline_notice import NOTICE, list_notices
from dialectic.core.documents.plan_basis import list_basis, list_other_sessions
from dialectic.core.documents.plan_parts import (
    Part,
    Section,
    embed,
    shorten,
    split_blocks,
)
from dialectic.core.documents.plan_sources import (
    Finished,
    PlanDocument,
    PlanSources,
    hash_basis,
    read_sources,
)
from dialectic.core.transfer.rows import ProjectRows

# Longer sections are shortened to their first blocks, with a link to the rest.
REQUIREMENTS_CHARS_MAX = 8_000
ARCHITECTURE_CHARS_MAX = 2_500
STEPS_CHARS_MAX = 6_000
DECISION_CHARS_MAX = 280

_TASK = re.compile(
    r"^\s*(?:[-*+]|\d{1,9}[.)])\s+\[[ xX]\]\s*(?:\d{1,6}[.)]\s*)?(.+)$", re.MULTILINE
)
_ITEM = re.compile(r"^\s*(?:[-*+]|\d{1,9}[.)])\s+(.+)$", re.MULTILINE)
_VERDICT = re.compile(r"\b(?:proceed|refine|merge again|redesign)\b", re.IGNORECASE)
_SENTENCES = re.compile(r"(?<=[.!?])\s+")


@dataclass(frozen=True, slots=True)
class PlanPage:
    """An assembled page, and what it was made of."""

    session_id: UUID
    iteration_number: int
    text: str
    # Tells whether the page is still made of the same documents.
    basis: str
    notices: tuple[str, ...]
    missing: tuple[Part, ...]


# -- the page --------------------------------------------------------------------------------------


def build_plan_page(
    rows: ProjectRows, finished: Finished, texts: Mapping[UUID, str], cost: str | None
) -> PlanPage:
    """Assemble the page of a finished iteration from the texts of its documents."""
    page = read_sources(rows, finished, texts)
    blocks = list(_list_blocks(page, cost))
    return PlanPage(
        session_id=finished.session.id,
        iteration_number=finished.iteration_number,
        text="\n\n".join(blocks) + "\n",
        basis=hash_basis(page),
        notices=tuple(_list_notices(page)),
        missing=tuple(page.missing),
    )


def _list_notices(page: PlanSources) -> list[str]:
    models = [document.row.model_name for document in page.documents]
    return list_notices(models, page.rows.project.initial_user_prompt)


def _list_blocks(page: PlanSources, cost: str | None) -> Iterator[str]:
    yield f"# Plan: {escape_markdown(page.rows.project.project_name)}"
    if notices := _list_notices(page):
        yield "\n>\n".join(f"> {notice}" for notice in notices)
    yield (
        f"Assembled by rule from the documents of session {page.finished.short_id}, iteration "
        f"{page.finished.iteration_number}, finished on {page.finished.day}. No model wrote this "
        "page; each part names the document that it is from."
    )
    yield from _list_decision(page)
    yield from _list_brief(page, Part.REQUIREMENTS, "Agreed requirements", REQUIREMENTS_CHARS_MAX)
    yield from _list_brief(page, Part.ARCHITECTURE, "Architecture in brief", ARCHITECTURE_CHARS_MAX)
    if (stack := page.find(Part.STACK)) is not None:
        yield f"Also: {_link_section(page, *stack)}."
    yield from _list_milestones(page)
    yield from _list_steps(page)
    yield from _list_disagreements(page)
    yield from _list_whole(page, Part.QUESTIONS, "Open questions for you")
    yield from _list_whole(page, Part.DROPPED, "Dropped on purpose")
    yield from list_basis(page, cost)
    yield from list_other_sessions(page)


# -- the decision ----------------------------------------------------------------------------------


def _list_decision(page: PlanSources) -> Iterator[str]:
    """Say in five lines what is planned, how, which advice, order and first step there are."""
    yield "## Decision"
    lines = [
        _sum_up(page, "What", Part.REQUIREMENTS) or _quote_beginning(page),
        _sum_up(page, "How", Part.MILESTONES),
        _advise(page),
        _name_order(page),
        _name_first_step(page),
    ]
    # The same document may be the only one with a summary.
    said = list({line.partition(":** ")[2]: line for line in lines[::-1] if line}.values())[::-1]
    yield "\n".join(said) if said else "The documents hold no text to take a decision from."


def _sum_up(page: PlanSources, label: str, part: Part) -> str:
    """Quote the summary of the document that holds a part; else that of the latest one."""
    found = page.find(part)
    tried = [*([found[0]] if found is not None else []), *reversed(page.documents)]
    for document in tried:
        for section in document.list_sections(Part.SUMMARY):
            if excerpt := build_excerpt(section.body, chars_max=DECISION_CHARS_MAX):
                return _write_line(label, excerpt, _link(page, document))
    return ""


def _quote_beginning(page: PlanSources) -> str:
    """Quote the first paragraph of the documents, if none of them has a summary."""
    for document in page.documents:
        blocks = [block for block in split_blocks(document.text) if block != NOTICE]
        for block in blocks:
            if excerpt := build_excerpt(block, chars_max=DECISION_CHARS_MAX):
                return _write_line("What", excerpt, _link(page, document))
    return ""


def _advise(page: PlanSources) -> str:
    found = page.find(Part.RECOMMENDATION)
    if found is None:
        return ""
    return _write_line("Recommendation", quote_verdict(found[1].body), _link_section(page, *found))


def quote_verdict(text: str) -> str:
    """Find the sentence of a recommendation that decides, with what follows it; else its beginning.

    It begins with one of the words that the prompt asks for, or is the last that holds one.
    """
    for block in reversed(text.split("\n\n")):
        plain = build_excerpt(block, chars_max=DECISION_CHARS_MAX * 4)
        sentences = _SENTENCES.split(plain)
        for place, sentence in enumerate(sentences):
            if _VERDICT.search(sentence):
                return build_excerpt(" ".join(sentences[place:]), chars_max=DECISION_CHARS_MAX)
    return build_excerpt(text, chars_max=DECISION_CHARS_MAX)


def _name_order(page: PlanSources) -> str:
    """Name the milestones in their order."""
    for part in (Part.STEPS, Part.MILESTONES):
        found = page.find(part)
        titles = list_titles(found[1].body) if found is not None else []
        if found is not None and titles:
            return _write_line("Order", "; ".join(titles), _link_section(page, *found))
    return ""


def _name_first_step(page: PlanSources) -> str:
    found = page.find(Part.STEPS)
    step = quote_first_step(found[1].body) if found is not None else ""
    return _write_line("Begin with", step, _link_section(page, *found)) if found and step else ""


def quote_first_step(text: str) -> str:
    """Find the first step of a checklist: a line to tick, else the first item of a list."""
    line = _TASK.search(text) or _ITEM.search(text)
    return build_excerpt(line[1], chars_max=DECISION_CHARS_MAX) if line is not None else ""


def list_titles(text: str) -> list[str]:
    """List the titles of the highest headings of a section."""
    headings = list(find_firm_headings(text))
    top = min((heading.level for heading in headings), default=0)
    return [heading.title for heading in headings if heading.level == top]


def _write_line(label: str, text: str, link: str) -> str:
    return f"- **{label}:** {text} ({link})"


# -- the parts -------------------------------------------------------------------------------------


def _list_brief(page: PlanSources, part: Part, title: str, chars_max: int) -> Iterator[str]:
    """Show the beginning of a section, and where the rest of it is."""
    yield f"## {title}"
    found = page.find(part)
    if found is None:
        yield _say_missing(page, part)
        return
    yield _say_source(page, *found)
    body, is_whole = shorten(found[1].body, chars_max)
    yield embed(body, 3)
    if not is_whole:
        yield f"The rest is in {_link_section(page, *found)}."


def _list_milestones(page: PlanSources) -> Iterator[str]:
    yield "## Milestones"
    shown = [found for part in (Part.MILESTONES, Part.STATE) if (found := page.find(part))]
    if not shown:
        yield _say_missing(page, Part.MILESTONES)
    for found in shown:
        yield _say_source(page, *found)
        yield embed(found[1].body, 3)
    planned, steps = page.find(Part.MILESTONES), page.find(Part.STEPS)
    titles = [list_titles(found[1].body) for found in (planned, steps) if found is not None]
    if len(titles) == 2 and all(titles) and _fold_all(titles[0]) != _fold_all(titles[1]):
        yield "The checklist names other milestones than the plan."


def _fold_all(titles: Sequence[str]) -> list[str]:
    return [fold_title(title) for title in titles]


def _list_steps(page: PlanSources) -> Iterator[str]:
    """Show the first milestone's steps, and name the milestones that follow."""
    yield "## First steps"
    found = page.find(Part.STEPS)
    if found is None:
        yield _say_missing(page, Part.STEPS)
        return
    yield _say_source(page, *found)
    body = found[1].body
    headings = list(find_firm_headings(body))
    top = min((heading.level for heading in headings), default=0)
    sections = list_sections(body, top) if top else []
    if not sections:
        first, is_whole = shorten(body, STEPS_CHARS_MAX)
    else:
        title, text = sections[0]
        shown, is_whole = shorten(text, STEPS_CHARS_MAX)
        first = f"### {title}\n\n{embed(shown, 4)}"
    yield embed(first, 3)
    following = [f"- {title}{_count_steps(text)}" for title, text in sections[1:]]
    if following:
        yield "Then:"
        yield "\n".join(following)
    if following or not is_whole:
        yield f"All steps are in {_link_section(page, *found)}."


def _count_steps(text: str) -> str:
    number = len(_TASK.findall(text))
    return f" ({number} step{'' if number == 1 else 's'})" if number else ""


def _list_disagreements(page: PlanSources) -> Iterator[str]:
    """Show every difference that the lead names, its advice, and the advice of the others."""
    yield "## Where models disagreed, and what was chosen"
    found = page.find_all(Part.DIFFERENCES)
    # A document without such a section decides in its summary where its sources differ.
    found += [
        (document, section)
        for document in page.lead
        if not document.list_sections(Part.DIFFERENCES)
        for section in document.list_sections(Part.SUMMARY)
    ]
    advice = page.find(Part.RECOMMENDATION)
    found += [advice] if advice is not None else []
    if not found:
        yield _say_missing(page, Part.DIFFERENCES)
    for document, section in found:
        yield _say_source(page, document, section)
        yield embed(section.body, 3)
    others = [
        _write_line(
            _name(document), quote_verdict(section.body), _link_section(page, document, section)
        )
        for document in page.others
        for section in document.list_sections(Part.RECOMMENDATION)
        if advice is None or document is not advice[0]
    ]
    if others:
        yield "What the others recommend:"
        yield "\n".join(others)


def _list_whole(page: PlanSources, part: Part, title: str) -> Iterator[str]:
    yield f"## {title}"
    found = page.find_all(part)
    if not found:
        yield _say_missing(page, part)
    shown = set[str]()
    for document, section in found:
        if section.body not in shown:
            shown.add(section.body)
            yield _say_source(page, document, section)
            yield embed(section.body, 3)


# -- names and links -------------------------------------------------------------------------------


def _say_missing(page: PlanSources, part: Part) -> str:
    page.missing.append(part)
    return f"*No document of this iteration has a section of this kind ({part}).*"


def _say_source(page: PlanSources, document: PlanDocument, section: Section) -> str:
    is_lead = document.row.model_index == page.finished.session.lead_model_index
    whose = "" if is_lead else "; the lead's documents have none"
    edited = ", edited by a person" if document.row.is_by_user else ""
    return f"*From {_link_section(page, document, section)} by {_name(document)}{edited}{whose}:*"


def _name(document: PlanDocument) -> str:
    row = document.row
    return (
        f"{escape_markdown(row.model_name)} (seat {row.model_index}, {escape_markdown(row.stage)})"
    )


def _link(page: PlanSources, document: PlanDocument) -> str:
    return link_file(page.rows.project.slug, document.row.storage_path, document.row.stage)


def _link_section(page: PlanSources, document: PlanDocument, section: Section) -> str:
    """Link to the file of a promised document; to the whole answer if it has none."""
    path = document.row.storage_path
    for resource in page.rows.dialectic_project_resources:
        if (
            section.key is not None
            and resource.document_key == section.key
            and resource.resource_type == "document"
            and resource.source_contribution_id == document.row.id
        ):
            path = resource.storage_path
    return link_file(page.rows.project.slug, path, section.title)
