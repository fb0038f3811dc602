"""The model of a session, in a browser without a page: `model.js` and the pure parts of its views."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page

from dialectic.web.pages import load_assets
from tests.browser.site import Site

BOARD: dict[str, Any] = {
    "session": {"id": "s", "status": "generating_thesis", "iteration": 1, "iterations": 1},
    "stages": [],
    "jobs": [],
    "documents": [{"id": "d1", "original_id": "d1", "version": 1, "my_rating": 4}],
    "feedback": [],
    "money": {},
}


@pytest.fixture
def module(context: BrowserContext, site: Site) -> Page:
    """An empty page of the site, where modules can be imported."""
    page = context.new_page()
    page.goto(f"{site.url}/assets/{load_assets().digest}/icon.svg")
    return page


def run(module: Page, script: str, given: object = None) -> Any:
    """Run a script with the modules of the session page in scope."""
    base = f"/assets/{load_assets().digest}/js"
    return module.evaluate(
        f"""async (given) => {{
          const model = await import("{base}/model.js");
          const facts = await import("{base}/views/session/facts.js");
          {script}
        }}""",
        given,
    )


def test_pieces_of_a_draft_become_its_text_whatever_is_repeated_or_lost(module: Page) -> None:
    found = run(
        module,
        """
        const piece = (at, text, more = {}) => ({ job_id: "j", attempt: 1, turn: 0, at, text, ...more });
        const texts = [];
        let now = model.fromBoard(given);
        for (const one of [piece(0, "One 🙂 "), piece(6, "two"), piece(4, "🙂 two"), piece(20, "later"),
          piece(25, " on"), piece(0, "One 🙂 two, and then "), piece(0, "New", { attempt: 2 }), piece(5, "old")]) {
          now = model.applyDraft(now, one);
          texts.push([now.drafts.get("j").text, now.drafts.get("j").from]);
        }
        return texts;
        """,
        BOARD,
    )

    assert found == [
        ["One 🙂 ", 0],
        ["One 🙂 two", 0],
        ["One 🙂 two", 0],
        ["later", 20],
        ["later on", 20],
        ["One 🙂 two, and then later on", 0],
        ["New", 0],
        ["New", 0],
    ]


def test_an_event_keeps_your_own_rating_and_an_old_one_changes_nothing(module: Page) -> None:
    found = run(
        module,
        """
        const tell = (version, id) => ({ type: "document_changed", data: { document: { id, original_id: "d1", version } } });
        const second = model.apply(model.fromBoard(given), tell(2, "d2"));
        const late = model.apply(second, tell(1, "d1"));
        return [[...second.documents.values()], late === second];
        """,
        BOARD,
    )

    assert found == [[{"id": "d2", "original_id": "d1", "version": 2, "my_rating": 4}], True]


def test_running_calls_keep_their_places_while_others_come_and_go(module: Page) -> None:
    found = run(
        module,
        """
        const running = (...ids) => ids.map((id) => ({ id }));
        const first = facts.placeCalls([], running("a", "b", "c", "d"), 3);
        const second = facts.placeCalls(first, running("a", "c", "d"), 3);
        const third = facts.placeCalls(second, running("c"), 3);
        const fourth = facts.placeCalls(["c", null, null], running("c"), 3);
        return [first, second, third, fourth, facts.placeCalls(third, [], 3)];
        """,
    )

    assert found == [["a", "b", "c"], ["a", "d", "c"], [None, None, "c"], ["c"], []]


def test_after_twenty_thousand_events_a_model_holds_no_more_than_after_two_hundred(
    module: Page,
) -> None:
    found = run(
        module,
        """
        const job = (n, words) => ({ id: `j${n}`, status: "processing", kind: "call", stage: "t", step: "t", words });
        const sizes = [];
        let now = model.fromBoard(given);
        for (let n = 1; n <= 20000; n += 1) {
          now = model.apply(now, { type: "jobs_changed", session_id: "s", data: { jobs: [job(n % 57, n)], gone: [], stages: [] } });
          now = model.applyDraft(now, { job_id: `j${n % 57}`, attempt: n, turn: 0, at: 0, text: "word", words: n });
          if (n === 200 || n === 20000) sizes.push([now.jobs.size, now.drafts.size, now.documents.size, JSON.stringify([...now.drafts.values()]).length < 6000]);
        }
        return sizes;
        """,
        BOARD,
    )

    assert found[0] == found[1] == [57, 57, 1, True]
