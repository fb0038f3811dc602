"""The report shows everything of a session, and nothing in it can act or ask for anything."""

from __future__ import annotations

import base64
import hashlib
import re

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
from dialectic.core.documents.report_map import (
    ReportClaim,
    ReportCritic,
    ReportFate,
    ReportMap,
)
from dialectic.core.points import Status, Verdict
from tests.cases import each_case
from tests.unit.core.documents.hostile_texts import HOSTILE
from tests.unit.core.documents.html_page import SAFE_TAGS, Page
from tests.unit.core.documents.plan_rows import SESSION, Texts, build_project

TEXTS: Texts = {
    ("thesis", 1): "A barn.",
    ("antithesis", 1): "Too small.",
    ("synthesis", 1): "## Summary\n\nA hall.\n\n## Product requirements\n\n- R1: seats.\n",
    ("paralysis", 1): "## Actionable checklist\n\n- [ ] 1. Dig.\n- [x] 2. Rest.\n",
}
COST = CostLine("thesis", "acme/a", "answer", 2, 1_000, 20, "$0.10")
TAGS = frozenset(
    "style header nav main section article details summary footer".split() + sorted(SAFE_TAGS)
)


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


@each_case("text", HOSTILE)
def test_what_a_model_writes_cannot_act_in_the_page(text: str) -> None:
    page = build({**TEXTS, ("thesis", 1): text})
    assert page.count("<style>") == 1
    assert {tag for tag, _ in Page(page).tags} <= TAGS | {*"html head meta title body".split()}
    assert Page(page).tags.count(("section", {"id": "plan"})) == 1


def test_names_from_people_are_text() -> None:
    rows, contents = build_project(TEXTS, models=("<b>/a", "acme/b"))
    source = ReportSource(rows, rows.dialectic_sessions[0], None, contents, [COST], None)
    assert "<b>" not in build_report(source)


def test_the_same_session_gives_the_same_bytes() -> None:
    assert build() == build()
    assert str(SESSION)[:8] in build()


def build_with_map(text: str = "A barn.") -> str:
    rows, contents = build_project(TEXTS, with_extracts=True)
    thesis, critique = (
        next(row.id for row in rows.dialectic_contributions if row.contribution_type == kind)
        for kind in ("thesis", "antithesis")
    )
    claims = [
        ReportClaim(
            seat=1,
            document_id=thesis,
            text=text,
            critics=[ReportCritic(1, critique, Verdict.CHANGE, text)],
            fates=[
                ReportFate("synthesis", Status.DROPPED, None, ""),
                ReportFate("paralysis", Status.CHANGED, thesis, "A hall."),
            ],
            final=Status.CHANGED,
            ruling="keep",
        )
    ]
    found = ReportMap(claims, "thesis", "antithesis", ["synthesis", "paralysis"])
    session = rows.dialectic_sessions[0]
    return build_report(ReportSource(rows, session, None, contents, [], None, claims=found))


def test_the_argument_map_is_a_drawing_and_a_table_that_lead_to_their_documents() -> None:
    section = build_with_map().split('<section id="map">')[1].split("</section>")[0]
    drawing, table = section.split("</svg>")
    # Where it is dropped a cross ends the thread; where it comes back there is a gap before it.
    assert drawing.count('class="stroke lost"') == 1
    assert drawing.count('class="gap"') == 2
    assert drawing.count('class="ring"') == 1
    assert drawing.count('class="critic"') == 1
    links = re.findall(r'href="#(document-[^"]+)"', table)
    assert len(links) == 3
    anchors = {attributes.get("id") for _, attributes in Page(build_with_map()).tags}
    assert set(links) <= anchors


@each_case("text", HOSTILE)
def test_what_a_claim_says_cannot_act_in_the_drawing(text: str) -> None:
    allowed = TAGS | {*"html head meta title body svg g path circle text".split()}
    assert {tag for tag, _ in Page(build_with_map(text)).tags} <= allowed
