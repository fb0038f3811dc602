"""The report shows everything of a session, and nothing in it can act or ask for anything."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialectic.core.documents.plan_page import build_plan_page
from dialectic.core.documents.plan_sources import list_finished
from dialectic.core.documents.report import (
    NO_PLAN,
    CostLine,
    ReportSource,
    build_policy,
    build_report,
    read_style,
)
from dialectic.core.documents.safe_html import RENDERED_CHARS_MAX, render_markdown
from tests.unit.core.documents.plan_rows import SESSION, Texts, build_project

TEXTS: Texts = {
    ("thesis", 1): "A barn.",
    ("antithesis", 1): "Too small.",
    ("synthesis", 1): "## Summary\n\nA hall.\n\n## Product requirements\n\n- R1: seats.\n",
    ("paralysis", 1): "## Actionable checklist\n\n- [ ] 1. Dig.\n- [x] 2. Rest.\n",
}
COST = CostLine("thesis", "acme/a", "answer", 2, 1_000, 20, "$0.10")
TAGS = frozenset(
    "html head meta title style body header nav main section article details summary footer div "
    "h1 h2 h3 h4 h5 h6 p a ul ol li blockquote pre code em strong s br hr "
    "table thead tbody tr th td".split()
)
ATTRIBUTES = frozenset("id class href rel lang charset http-equiv content name start style".split())


class Page(HTMLParser):
    """The tags and the words of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words += data

    @property
    def links(self) -> list[str]:
        return [str(attributes["href"]) for tag, attributes in self.tags if tag == "a"]


def build(texts: Texts = TEXTS, *, is_finished: bool = True, total: str | None = "$0.10") -> str:
    rows, contents = build_project(texts, is_finished=is_finished, with_extracts=True)
    finished = list_finished(rows)
    page = build_plan_page(rows, finished[0], contents, total) if finished else None
    session = rows.dialectic_sessions[0]
    return build_report(ReportSource(rows, session, page, contents, [COST], total))


def test_the_report_has_plan_documents_lineage_and_costs() -> None:
    page = Page(build())
    for words in ("Agreed requirements", "A barn.", "Too small.", "Lineage", "Costs", "$0.10"):
        assert words in page.words
    anchors = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(set(anchors)) == len(anchors)
    assert {"plan", "documents", "lineage", "costs"} <= set(anchors)
    assert sum(str(anchor).startswith("document-") for anchor in anchors) == len(TEXTS)
    assert page.links
    assert all(link.startswith("#") and link[1:] in anchors for link in page.links)


def test_the_lineage_says_what_each_document_is_about_and_from() -> None:
    lineage = build().split('<section id="lineage">')[1].split("</section>")[0]
    rows = re.findall(r"<tr><td>.*?</tr>", lineage)
    assert len(rows) == len(TEXTS)
    assert "the request" in rows[0]
    assert "Antithesis by acme/a" in rows[1]
    assert "Thesis by acme/a" in rows[1]


def test_a_session_without_a_plan_and_without_costs_says_so() -> None:
    page = build(is_finished=False, total=None)
    assert NO_PLAN in page
    assert "The costs of this session are not known here." in page


def test_the_policy_allows_the_one_style_sheet_and_nothing_else() -> None:
    digest = base64.b64encode(hashlib.sha256(read_style().encode()).digest()).decode()
    assert build_policy().startswith(f"default-src 'none'; style-src 'sha256-{digest}'")
    page = build()
    assert f"<style>{read_style()}</style>" in page
    assert f'http-equiv="Content-Security-Policy" content="{build_policy()}"' in page
    assert "url(" not in read_style()
    assert "@import" not in read_style()


HOSTILE = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "![pixel](https://evil.example/p.png)",
    "[go](javascript:alert(1))",
    "[go](data:text/html;base64,PHNjcmlwdD4=)",
    "[go](file:///etc/passwd)",
    "[go](//evil.example/x)",
    "[a]: javascript:alert(1)\n\n[a]",
    '<a href="javascript:alert(1)" style="position:fixed">x</a>',
    "</section></main><iframe src=https://evil.example></iframe>",
    "<style>body{background:url(https://evil.example)}</style>",
    '[x](https://example.org/" onmouseover="alert(1))',
    "&lt;script&gt;",
)


def check_harmless(rendered: str) -> None:
    page = Page(rendered)
    assert {tag for tag, _ in page.tags} <= TAGS - {"style"}
    assert {name for _, attributes in page.tags for name in attributes} <= ATTRIBUTES
    for link in page.links:
        assert re.match(r"#|https?://|mailto:", link, re.IGNORECASE), link


@pytest.mark.parametrize("text", HOSTILE)
def test_what_a_model_writes_cannot_act_in_the_page(text: str) -> None:
    check_harmless(render_markdown(text))
    page = build({**TEXTS, ("thesis", 1): text})
    assert page.count("<style>") == 1
    assert Page(page).tags.count(("section", {"id": "plan"})) == 1


@given(st.text(alphabet="<>[]()!\"'`*_#|-=&;:/ \nabjs1.", max_size=120))
def test_no_text_makes_other_tags_than_ours(text: str) -> None:
    check_harmless(render_markdown(text))


def test_names_from_people_are_text() -> None:
    rows, contents = build_project(TEXTS, models=("<b>/a", "acme/b"))
    source = ReportSource(rows, rows.dialectic_sessions[0], None, contents, [COST], None)
    assert "<b>" not in build_report(source)


def test_images_become_words_and_tasks_become_boxes() -> None:
    assert "[image: a map]" in render_markdown("![a map](map.png)")
    rendered = render_markdown("- [ ] Dig\n- [x] Rest\n")
    assert "\u2610 Dig" in rendered
    assert "\u2611 Rest" in rendered


def test_links_lead_out_or_to_a_place_in_the_page() -> None:
    anchors = {"a/b c.md": "document-1"}
    assert '<a href="#document-1">x</a>' in render_markdown("[x](a/b%20c.md)", anchors=anchors)
    assert render_markdown("[x](other.md)", anchors=anchors) == "<p>x</p>\n"
    assert 'rel="noopener noreferrer nofollow"' in render_markdown("[x](https://example.org)")


def test_headings_are_lowered_and_a_huge_text_is_shown_as_it_is() -> None:
    assert render_markdown("# A\n\n##### B", level=2) == "<h3>A</h3>\n<h6>B</h6>\n"
    assert render_markdown("<" * (RENDERED_CHARS_MAX + 1)).startswith("<pre>&lt;")


def test_the_same_session_gives_the_same_bytes() -> None:
    assert build() == build()
    assert str(SESSION)[:8] in build()
