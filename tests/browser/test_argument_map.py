"""The argument map of a session, its coverage and dissents, and what a person rules on them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any, Literal

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, Route, expect

from dialectic.core.access import Scope
from tests.browser import planted
from tests.browser.conftest import PHONE, Open, Watch
from tests.browser.site import Person, Site
from tests.browser.test_documents import NOTE_FLASHES, expect_flash, finish
from tests.browser.test_for_everyone import check_axe, list_small_targets, list_too_wide
from tests.browser.test_session_steering import expect_state

Argued = tuple[Person, dict[str, Any]]
# What became of the planted claims of the first proposal.
FATES = {
    planted.KEPT: "kept",
    planted.DEPOSIT: "changed",
    planted.REFUSED: "refused",
    planted.DROPPED: "dropped",
}
VIEWS = {"": ".map", "table": ".claims-table", "coverage": ".matrix", "dissent": ".dissent"}


@pytest.fixture(scope="module")
def argued(site: Site) -> Argued:
    """A person with a session that has ended, and whose claims are known."""
    person = site.add_user("Noor")
    session = person.make_session(models=planted.MODELS, until="paralysis")
    finish(person, session)
    return person, session


def open_map(
    page: Page, site: Site, session: dict[str, Any], view: str = "", query: str = ""
) -> None:
    parts = "&".join(part for part in (f"view={view}" if view else "", query) if part)
    page.goto(f"{site.url}/sessions/{session['id']}{'?' if parts else ''}{parts}#map")
    expect(page.locator(VIEWS[view]).first).to_be_visible()


def list_claims(person: Person, session: dict[str, Any]) -> dict[str, dict[str, Any]]:
    found = person.ask("GET", f"/sessions/{session['id']}/claims")
    assert found["state"] == "ready"
    return {one["text"]: one for one in found["claims"]}


def read_block(person: Person, document: str, block: str) -> str:
    """Read the words of a block, and of what stands below it if it is a heading."""
    html = person.ask("GET", f"/contributions/{document}/html")["html"]
    inside = html.partition(f'id="{block}"')[2]
    end = r"<h[1-6]" if re.match(r"[^<]*>[^<]*</h[1-6]", inside) else r"</(p|li)>|<h[1-6]"
    text = re.split(end, inside.replace("</h", "</x", 1), maxsplit=1)[0]
    return " ".join(re.sub(r"<[^>]+>", " ", f"<{text}").split())


def find_thread(page: Page, text: str) -> Locator:
    return page.locator(".thread", has_text=text)


# -- the map --------------------------------------------------------------------------------------


def test_each_claim_is_in_its_proposal_each_mark_opens_its_passage_and_counts_agree(
    open_context: Open, site: Site, argued: Argued
) -> None:
    person, session = argued
    page = open_context(person).new_page()
    page.add_init_script(NOTE_FLASHES)
    open_map(page, site, session)
    expect_state(page, "done")
    claims = list_claims(person, session)

    expect(page.locator(".thread")).to_have_count(len(claims))
    for text, claim in claims.items():
        assert text in read_block(person, claim["document_id"], claim["block_id"])
        thread = find_thread(page, text)
        expect(thread).to_have_class(re.compile(f"is-{claim['final']}"))
        expect(thread.locator(".critic")).to_have_count(len({c["seat"] for c in claim["critics"]}))
        for critic in claim["critics"]:
            assert text in read_block(person, critic["document_id"], critic["block_id"])
            link = f"/documents/{critic['document_id']}#{critic['block_id']}"
            expect(thread.locator(f'.critic[href="{link}"]')).to_have_class(
                re.compile(critic["verdict"])
            )
    assert {text: claims[text]["final"] for text in FATES} == FATES
    counts = {
        one.get_attribute("data-status"): int(re.findall(r"\d+", one.inner_text())[0])
        for one in page.locator("[data-status]").all()
    }
    page.keyboard.press("v")
    rows = page.locator("[data-claim-row]")
    expect(rows).to_have_count(len(claims))
    for status, count in counts.items():
        expect(page.locator(f"[data-claim-row][data-final={status}]")).to_have_count(count)
    page.keyboard.press("v")
    mark = find_thread(page, planted.DEPOSIT).locator(".critic").first
    mark.click()
    expect(page).to_have_url(re.compile(r"/documents/.+#b-\d+$"))
    expect_flash(page, "The sum is a guess")


def test_a_claim_tells_its_critics_both_wordings_and_why_it_was_refused(
    open_context: Open, site: Site, argued: Argued
) -> None:
    person, session = argued
    page = open_context(person).new_page()
    open_map(page, site, session)
    panel = page.locator(".inspector")

    find_thread(page, planted.DEPOSIT).locator(".claim-line").click()
    expect(page).to_have_url(re.compile(r"claim="))
    expect(panel.locator(".critic-cards li")).to_have_count(2)
    expect(panel.locator(".critic-cards")).to_contain_text("no club was asked")
    expect(panel.locator(".fate-changed del").first).to_have_text("25")
    expect(panel.locator(".fate-changed ins", has_text="40").first).to_be_visible()
    page.reload()
    expect(panel.locator("blockquote")).to_contain_text(planted.DEPOSIT)
    find_thread(page, planted.REFUSED).locator(".claim-line").click()
    expect(panel.locator(".fate-refused").first).to_contain_text(planted.REASON)
    find_thread(page, planted.DROPPED).locator(".claim-line").click()
    expect(panel.get_by_text(re.compile("Last said in Thesis, and not by"))).to_be_visible()
    page.get_by_role("button", name=re.compile("1 changed")).click()
    expect(page.locator(".thread")).to_have_count(1)


def test_threads_grow_while_the_models_argue(page: Page, site: Site, anna: Person) -> None:
    session = anna.make_session(models=planted.MODELS, until="synthesis")
    for name in planted.SEATS:
        site.simulator.hold(name)
    page.goto(f"{site.url}/sessions/{session['id']}#map")
    expect(page.get_by_text("claims appear with the first proposal")).to_be_visible()
    anna.start(session)

    site.simulator.release("left")
    expect(find_thread(page, planted.KEPT)).to_have_class(re.compile("is-pending"))
    expect(find_thread(page, planted.SERVER)).to_have_count(0)
    site.simulator.release("right")
    expect(find_thread(page, planted.DEPOSIT).locator(".critic")).to_have_count(2, timeout=30_000)
    expect(find_thread(page, planted.SERVER)).to_have_class(re.compile("is-kept"), timeout=30_000)
    expect(find_thread(page, planted.DEPOSIT)).to_have_class(re.compile("is-changed"))


def test_the_map_says_when_it_is_computed_when_it_failed_and_when_nothing_may_be_changed(
    open_context: Open, site: Site, argued: Argued, watch: Watch
) -> None:
    person, session = argued
    page = open_context(person).new_page()
    answers = iter(["failed", "computing"])

    def answer(route: Route) -> None:
        state = next(answers, "ready")
        if state == "failed":
            body = {"code": "internal", "detail": "The comparison broke.", "status": 500}
            route.fulfill(status=500, content_type="application/json", body=json.dumps(body))
        elif state == "computing":
            found = person.ask("GET", f"/sessions/{session['id']}/claims")
            body = {**found, "state": "computing", "claims": [], "coverage": []}
            route.fulfill(content_type="application/json", body=json.dumps(body))
        else:
            route.continue_()

    watch.allow("status of 500")
    page.route(re.compile(r"/claims\?"), answer)
    page.goto(f"{site.url}/sessions/{session['id']}#map")
    expect(page.get_by_role("alert")).to_contain_text("The comparison broke.")
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_text("The documents are being compared.")).to_be_visible()
    expect(page.locator(".thread").first).to_be_visible()

    issued = person.ask("POST", "/tokens", {"name": "reader", "scopes": [Scope.READ]})
    reader = replace(person, user=replace(person.user, token=issued["token"]))
    page = open_context(reader).new_page()
    open_map(page, site, session, query=f"claim={list_claims(person, session)[planted.KEPT]['id']}")
    expect(page.locator(".inspector blockquote")).to_contain_text(planted.KEPT)
    expect(page.get_by_text("you cannot rule here")).to_be_visible()
    expect(page.locator("[data-verdict]")).to_have_count(0)


# -- coverage and dissent -------------------------------------------------------------------------


def test_coverage_has_a_row_for_each_point_a_cell_for_each_step_and_what_is_not_answered(
    open_context: Open, site: Site, argued: Argued
) -> None:
    person, session = argued
    found = person.ask("GET", f"/sessions/{session['id']}/coverage")
    page = open_context(person).new_page()
    open_map(page, site, session, "coverage")

    rows = page.locator(".matrix tbody tr")
    expect(rows).to_have_count(len(found["points"]))
    for text, cells in {
        planted.KEPT: ["full"] * 5,
        planted.DEPOSIT: ["changed"] * 5,
        planted.REFUSED: ["named", "refused", *["empty"] * 3],
        planted.DROPPED: ["dropped", *["empty"] * 4],
    }.items():
        row = page.locator(".matrix tbody tr", has_text=text)
        expect(row.locator(".cell-of-step")).to_have_class(
            [re.compile(rf"\bis-{cell}\b") for cell in cells]
        )
    reason = page.locator(".has-reason").first
    reason.focus()
    expect(reason.locator(".reason")).to_be_visible()
    expect(reason.locator(".reason")).to_contain_text(planted.REASON)
    unmet = [one["number"] for one in found["requirements"] if one["met"] == "not"]
    expect(page.locator(".cover-list [data-met=not] .number")).to_have_text(unmet)
    silent = [one for one in found["objections"] if one["answer"] == "unanswered"]
    expect(page.locator("[data-answer=unanswered]")).to_contain_text(str(len(silent)))
    for thesis in found["theses"]:
        row = page.locator(".sums tbody tr").nth(thesis["thesis"]["seat"] - 1)
        told = [int(text) for text in row.locator("td.right").all_inner_texts()]
        assert told[0] == thesis["points"] == sum(told[1:])


def test_the_authors_of_positions_are_hidden_until_one_is_chosen(
    open_context: Open, site: Site, argued: Argued
) -> None:
    person, session = argued
    page = open_context(person).new_page()
    open_map(page, site, session, "dissent")
    card = page.locator(".dissent").first
    expect(card.locator(".position")).to_have_count(2)
    expect(card.locator(".position .seat")).to_have_count(0)

    page.get_by_role("switch", name="Show who says it").check()
    expect(card.locator(".position .seat")).to_have_count(2)
    page.get_by_role("switch", name="Show who says it").uncheck()
    expect(card.locator(".position .seat")).to_have_count(0)
    early = card.locator(".position", has_text=planted.EARLY)
    early.get_by_role("button", name="This holds").click()
    page.get_by_role("button", name=re.compile("^Ruled")).click()
    ruled = page.locator(".dissent.is-ruled")
    expect(ruled.locator(".position.is-upheld")).to_contain_text(planted.EARLY)
    expect(ruled.locator(".position .seat")).to_have_count(2)
    # Nothing of it is in the checklist.
    expect(ruled.locator("[data-obeyed]")).to_have_attribute("data-obeyed", "unclear")
    ruled.get_by_role("button", name="Take back").click()
    expect(page.locator(".dissent.is-ruled")).to_have_count(0)


# -- rulings --------------------------------------------------------------------------------------


def list_new_prompts(site: Site, before: int, request: str) -> list[str]:
    """List what was asked since, for this request: calls of other tests may still arrive."""
    prompts = (str(call.body) for call in site.simulator.log.calls[before:])
    return [prompt for prompt in prompts if request in prompt]


def test_contested_claims_are_ruled_on_at_the_gate_and_go_out_with_one_submit(
    page: Page, site: Site, anna: Person
) -> None:
    request = "A gate for the hall of a village."
    session = anna.make_session(
        prompt=request, models=planted.MODELS, until="synthesis", is_autopilot=False
    )
    anna.start(session)
    page.goto(f"{site.url}/sessions/{session['id']}")
    expect_state(page, "gate")
    side = page.locator(".gate-claims .position", has_text=planted.EARLY)
    side.get_by_role("button", name="This holds").click()
    expect(page.get_by_text("1 ruling will bind the next stage")).to_be_visible()
    asked = len(site.simulator.log.calls)
    page.get_by_role("button", name=re.compile("Submit and start Antithesis")).first.click()

    claims = page.locator(".gate-claim")
    expect(claims).to_have_count(2)
    prompts = list_new_prompts(site, asked, request)
    assert prompts
    told = f"On “{planted.EARLY}”: keep this as it is."
    assert all(prompt.count(told) == 1 for prompt in prompts)
    asked = len(site.simulator.log.calls)
    page.locator(".gate-claim", has_text=planted.DEPOSIT).focus()
    page.keyboard.press("m")
    paper = page.locator(".gate-claim", has_text=planted.DROPPED)
    expect(page.locator(".gate-claim [aria-pressed=true]")).to_have_count(1)
    paper.focus()
    page.keyboard.press("w")
    page.get_by_label("What holds instead?").fill("The sheet is printed by the baker.")
    page.get_by_label("What must the next stage know?").fill("Mind the bats in the attic.")
    page.get_by_role("button", name=re.compile("Submit and start Synthesis")).first.click()

    expect_state(page, "done")
    prompts = list_new_prompts(site, asked, request)
    assert prompts
    for words in (planted.BETTER, "printed by the baker.", "Mind the bats in the attic."):
        assert all(words in prompt for prompt in prompts), words
    expect(page.locator("#stage-synthesis [data-bound]")).to_have_attribute("data-bound", "3")
    page.locator(".outcome-doc").first.click()
    expect(page.locator(".bound li")).to_have_count(3)
    expect(page.locator(".bound")).to_contain_text("printed by the baker.")


def test_a_ruling_in_one_tab_is_in_the_map_of_the_other_and_in_the_next_prompt(
    context: BrowserContext, open_context: Open, site: Site, anna: Person
) -> None:
    request = "Two tabs for the hall of a village."
    session = anna.make_session(
        prompt=request, models=planted.MODELS, until="antithesis", is_autopilot=False
    )
    anna.start(session)
    page, other = context.new_page(), open_context(anna).new_page()
    for tab in (other, page):
        open_map(tab, site, session)
        expect_state(tab, "gate")
    line = find_thread(page, planted.DROPPED).locator(".claim-line")
    line.focus()
    page.keyboard.press("d")

    expect(find_thread(page, planted.DROPPED).locator(".ruled")).to_be_visible()
    expect(find_thread(other, planted.DROPPED).locator(".ruled")).to_be_visible()
    line.focus()
    page.keyboard.press("u")
    for tab in (page, other):
        expect(find_thread(tab, planted.DROPPED).locator(".ruled")).to_have_count(0)
    line.focus()
    page.keyboard.press("d")
    expect(find_thread(other, planted.DROPPED).locator(".ruled")).to_be_visible()
    asked = len(site.simulator.log.calls)
    anna.ask("POST", f"/sessions/{session['id']}/submit", {})
    expect_state(other, "done")
    prompts = list_new_prompts(site, asked, request)
    assert prompts
    for prompt in prompts:
        assert planted.DROPPED in prompt.partition("Rulings of the person who asked [")[2]


# -- where a passage comes from -------------------------------------------------------------------


def test_a_passage_is_followed_back_and_every_hop_leads_to_the_words_it_quotes(
    open_context: Open, site: Site, argued: Argued
) -> None:
    person, session = argued
    documents = person.ask("GET", f"/sessions/{session['id']}/board")["documents"]
    last = next(one for one in documents if one["stage"] == "paralysis" and one["seat"] == 1)
    page = open_context(person).new_page()
    page.goto(f"{site.url}/documents/{last['id']}")
    expect(page.get_by_label("What this document rests on")).to_contain_text("2 seats of 2")
    fresh = page.locator(".doc-text .mark", has_text=planted.NEW)
    expect(fresh).to_have_class(re.compile("is-new"))
    fresh.click()
    expect(page.locator(".origins")).to_contain_text("New here")

    page.locator(".doc-text .mark", has_text=planted.RAISED).click()
    hops = page.locator(".hop")
    expect(page.locator(".hop[data-relation=changed]")).to_have_count(1)
    expect(page.locator(".hop[data-relation=changed] del")).to_contain_text(["25"])
    expect(page.locator(".hop[data-relation=changed] ins", has_text="40")).to_be_visible()
    links = [str(one.get_attribute("href")) for one in hops.locator("a[data-open]").all()]
    assert len(links) == 5
    page.add_init_script(NOTE_FLASHES)
    for link in links:
        page.goto(site.url + link)
        expect_flash(page, planted.DEPOSIT if link == links[-1] else planted.RAISED[1:])


def test_every_mark_of_a_document_leads_to_a_block_that_holds_the_quoted_words(
    open_context: Open, site: Site, argued: Argued
) -> None:
    person, session = argued
    documents = person.ask("GET", f"/sessions/{session['id']}/board")["documents"]
    last = next(one for one in documents if one["stage"] == "parenthesis" and one["seat"] == 2)
    page = open_context(person).new_page()
    page.add_init_script(NOTE_FLASHES)
    page.goto(f"{site.url}/documents/{last['id']}")
    marks = page.locator(".doc-text .mark:not(.is-new)")
    expect(marks).to_have_count(3)
    links = {}
    for mark in marks.all():
        mark.click()
        expect(mark).to_have_attribute("aria-current", "true")
        card = page.locator(".source-card").first
        quote = card.locator(".quote").inner_text()
        links[str(card.locator("a[data-open]").get_attribute("href"))] = quote
    assert len(links) == 3
    for link, quote in links.items():
        page.goto(site.url + link)
        expect_flash(page, " ".join(quote.split()))


# -- everyone -------------------------------------------------------------------------------------


def test_axe_finds_nothing_in_any_view_of_what_was_argued(
    open_context: Open, site: Site, argued: Argued
) -> None:
    person, session = argued
    picked = f"claim={list_claims(person, session)[planted.DEPOSIT]['id']}"
    page = open_context(person, reduced_motion="reduce").new_page()
    schemes: list[Literal["light", "dark"]] = ["light", "dark"]
    for view in VIEWS:
        open_map(page, site, session, view, picked if view == "" else "")
        for scheme in schemes:
            page.emulate_media(color_scheme=scheme)
            page.wait_for_function(
                "(scheme) => matchMedia(`(prefers-color-scheme: ${scheme})`).matches"
                " && !document.getAnimations().length",
                arg=scheme,
            )
            check_axe(page)


def test_claims_are_read_and_ruled_on_by_keys_alone(
    open_context: Open, site: Site, argued: Argued
) -> None:
    person, session = argued
    page = open_context(person).new_page()
    page.goto(f"{site.url}/sessions/{session['id']}")
    expect_state(page, "done")
    page.keyboard.press("2")
    expect(page.locator(".thread").first).to_be_visible()
    page.keyboard.press("j")
    expect(page.locator(".claim-line").first).to_be_focused()
    page.keyboard.press("j")
    page.keyboard.press(" ")
    expect(page.get_by_role("button", name="Close details")).to_be_focused()
    page.keyboard.press("y")
    expect(page.locator(".inspector .ruling-made")).to_contain_text("Keep it")
    page.keyboard.press("u")
    expect(page.locator(".inspector .ruling-made")).to_have_count(0)
    page.keyboard.press("w")
    expect(page.get_by_label("What holds instead?")).to_be_focused()
    page.keyboard.type("Ask the clubs.")
    page.keyboard.press("Control+Enter")
    expect(page.locator(".inspector .ruling-made")).to_contain_text("Ask the clubs.")
    page.locator(".inspector [data-close]").focus()
    page.keyboard.press("u")
    page.keyboard.press("Escape")
    expect(page.locator(".inspector")).to_have_count(0)
    expect(page.locator(".claim-line").nth(1)).to_be_focused()
    page.keyboard.press("v")
    expect(page.locator(".claims-table")).to_be_visible()


def test_on_a_phone_the_map_is_a_list_and_nothing_scrolls_sideways(
    open_context: Open, site: Site, argued: Argued
) -> None:
    person, session = argued
    page = open_context(person, viewport=PHONE, has_touch=True).new_page()
    for view in ("", "coverage", "dissent"):
        page.goto(f"{site.url}/sessions/{session['id']}{f'?view={view}' if view else ''}#map")
        shown = VIEWS[view or "table"]
        expect(page.locator(shown).first).to_be_visible()
        assert list_too_wide(page, PHONE["width"]) == []
        assert list_small_targets(page) == []
