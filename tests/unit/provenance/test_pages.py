"""Reports as Markdown: worst first, and the same each time."""

from __future__ import annotations

from dialectic.provenance.pages import build_coverage_page, build_sourced_text, describe_passage
from dialectic.provenance.report import Report
from tests.unit.provenance.lineages import chain, place
from tests.unit.provenance.test_coverage import (
    BELL,
    DEPOSIT,
    FINAL,
    PAIR,
    REDUCED,
    SHELTER,
    A,
    cover,
)


def test_the_page_names_what_was_lost_before_what_was_refused() -> None:
    page = build_coverage_page(cover(chain(A, PAIR, REDUCED, FINAL)))
    places = [page.index(text) for text in (BELL, DEPOSIT, SHELTER)]
    assert places == sorted(places)
    assert "lost at synthesis/pairwise" in page
    assert page == build_coverage_page(cover(chain(FINAL, REDUCED, PAIR, A)))


def test_a_page_without_a_merging_document_says_so() -> None:
    page = build_coverage_page(cover(chain(A)))
    assert "No document merges the theses yet" in page
    assert "## Dropped" not in page


def test_a_document_with_marks_is_the_document_and_its_sources() -> None:
    chains = chain(A, PAIR, REDUCED, FINAL)
    found = Report(chains).build_provenance(place(chains, "final"))
    marked = build_sourced_text(found, FINAL.content)
    bare = marked.split("\n\nPassages that say the same:")[0]
    for mark in (" [1]", " [2]", " [3]", " [new]"):
        bare = bare.replace(mark, "")
    assert bare == FINAL.content.rstrip()
    assert f"“{DEPOSIT}”" in marked


def test_each_passage_is_described_by_what_says_the_same() -> None:
    chains = chain(A, PAIR, REDUCED, FINAL)
    found = Report(chains).build_provenance(place(chains, "final"))
    lines = [line for one in found.passages for line in describe_passage(one, FINAL.content)]
    assert any("says the same (changed" in line for line in lines)
    assert not any("true" in line for line in lines)
