"""A session page for everyone: axe, keys, focus, phones, screen readers, and large sessions."""

from __future__ import annotations

import copy
import itertools
import json
import re
from collections.abc import Iterator
from typing import Any, Literal

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import PHONE, Open, Watch
from tests.browser.site import NAMES, Person, Site
from tests.browser.test_for_everyone import check_axe, list_small_targets, list_too_wide
from tests.browser.test_session_live import THREE, visit
from tests.browser.test_session_steering import expect_state

SEATS = 6
# Steps of the standard process, and how many calls six seats make in each.
CALLS = {
    ("thesis", "thesis"): SEATS,
    ("antithesis", "critique"): SEATS**2,
    ("synthesis", "pairwise"): SEATS**3,
    ("synthesis", "per_thesis"): SEATS**2,
    ("synthesis", "final"): SEATS,
    ("parenthesis", "parenthesis"): SEATS,
    ("paralysis", "paralysis"): SEATS,
}


@pytest.fixture(autouse=True)
def nothing_held(site: Site) -> Iterator[None]:
    """Let no gate of one test hold the calls of another."""
    yield
    for name in (*NAMES, "middle"):
        site.simulator.release(name)


@pytest.fixture(scope="module")
def states(site: Site) -> tuple[Person, dict[str, dict[str, Any]]]:
    """A person with a session in every state that lasts."""
    person = site.add_user("Mira")
    wishes: dict[str, dict[str, Any]] = {
        "new": {},
        "gate": {"until": "antithesis", "is_autopilot": False},
        "blocked": {"models": THREE, "budget": "0.006", "until": "antithesis"},
        "failed": {"models": ["alpha/m", "broken/m"], "wait_for_all": True},
        "done": {"models": ["offline/architect", "offline/skeptic"], "until": "paralysis"},
        "cancelled": {"until": "antithesis", "is_autopilot": False},
        "paused": {"until": "antithesis", "is_autopilot": False},
    }
    made = {state: person.make_session(state.title(), **wish) for state, wish in wishes.items()}
    for state, session in made.items():
        if state != "new":
            person.start(session)
    person.ask("POST", f"/sessions/{made['cancelled']['id']}/cancel")
    person.ask("POST", f"/sessions/{made['paused']['id']}/pause")
    return person, made


@pytest.mark.sentence(59)
def test_axe_finds_nothing_in_any_state_light_or_dark(
    open_context: Open, site: Site, states: tuple[Person, dict[str, dict[str, Any]]]
) -> None:
    person, made = states
    page = open_context(person, reduced_motion="reduce").new_page()
    for state, session in made.items():
        visit(page, site, session)
        expect_state(page, state)
        # Each look takes a second or more, so the dark theme is looked at in four states only.
        has_both = state in ("gate", "blocked", "failed", "done")
        schemes: list[Literal["light", "dark"]] = ["light", "dark"] if has_both else ["light"]
        for scheme in schemes:
            page.emulate_media(color_scheme=scheme)
            page.wait_for_function(
                "(scheme) => matchMedia(`(prefers-color-scheme: ${scheme})`).matches"
                " && !document.getAnimations().length",
                arg=scheme,
            )
            check_axe(page)


@pytest.mark.sentence(59)
def test_axe_finds_nothing_while_calls_run_and_details_are_open(
    open_context: Open, site: Site, anna: Person
) -> None:
    session = anna.make_session(models=["alpha/m", "halfway/m", "broken/m"], until="antithesis")
    site.simulator.hold("middle")
    page = open_context(anna, reduced_motion="reduce").new_page()
    visit(page, site, session)
    anna.start(session)
    expect(page.locator(".draft-text").first).to_be_visible()
    page.get_by_role("button", name="Costs by stage and seat").click()
    check_axe(page)
    page.keyboard.press("Escape")
    for picked in (".tile-link", ".place.written .place-foot a", ".place.failed .place-link"):
        page.locator(picked).first.click()
        expect(page.locator(".inspector")).to_be_visible()
        check_axe(page)


def test_the_gate_is_passed_by_keys_alone(page: Page, site: Site, anna: Person) -> None:
    session = anna.make_session(until="antithesis", is_autopilot=False)
    anna.start(session)
    visit(page, site, session)
    expect_state(page, "gate")
    cards = page.locator(".cards [data-doc]")

    page.keyboard.press("j")
    expect(cards.first).to_be_focused()
    page.keyboard.press("j")
    expect(cards.nth(1)).to_be_focused()
    page.keyboard.press("s")
    page.keyboard.press("4")
    expect(page.get_by_role("group", name="Rating: 4 stars")).to_be_visible()
    page.keyboard.press("x")
    expect(page.get_by_role("region", name="Collected to compare")).to_contain_text("1 document")
    page.keyboard.press(" ")
    expect(page.get_by_role("button", name="Close details")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator(".inspector")).to_have_count(0)
    expect(cards.nth(1)).to_be_focused()
    page.keyboard.press("f")
    field = page.get_by_label("What must the next stage know?")
    expect(field).to_be_focused()
    page.keyboard.type("Plain words, please.")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")

    expect_state(page, "done")
    assert page.evaluate("() => document.activeElement !== document.body")


@pytest.mark.sentence(61)
def test_the_focus_stays_on_a_place_when_its_document_lands(
    page: Page, site: Site, anna: Person
) -> None:
    session = anna.make_session(models=["alpha/m", "beta/m"])
    site.simulator.hold("alpha")
    anna.start(session)
    visit(page, site, session)
    place = page.locator(".cards .place.seat-1 .place-link")
    expect(page.locator(".cards .place.seat-1")).to_have_class(re.compile("open"))
    place.focus()

    site.simulator.release("alpha")

    expect(page.locator(".cards .place.seat-1")).to_have_class(re.compile("written"))
    expect(place).to_be_focused()


@pytest.mark.sentence(62)
@pytest.mark.parametrize("width", [390, 320])
def test_on_a_phone_nothing_scrolls_sideways_and_every_target_fits_a_thumb(
    open_context: Open, site: Site, states: tuple[Person, dict[str, dict[str, Any]]], width: int
) -> None:
    person, made = states
    page = open_context(person, viewport={**PHONE, "width": width}, has_touch=True).new_page()
    for state, action in (
        ("gate", "Submit"),
        ("blocked", "Raise"),
        ("failed", "Retry"),
        ("done", "Iterate"),
    ):
        visit(page, site, made[state])
        expect_state(page, state)
        assert list_too_wide(page, width) == []
        assert list_small_targets(page) == []
        main = page.locator(".bar-bottom").get_by_role("button", name=action)
        box = main.bounding_box()
        assert box is not None
        assert box["y"] + box["height"] > PHONE["height"] - 60
    page.locator(".place-foot a").first.click()
    sheet = page.locator(".inspector").bounding_box()
    assert sheet is not None
    assert sheet["width"] <= width
    assert sheet["y"] > PHONE["height"] * 0.2


@pytest.mark.sentence(65)
def test_a_screen_reader_hears_few_sentences_and_a_failure_once(
    page: Page, site: Site, anna: Person
) -> None:
    session = anna.make_session(models=["alpha/m", "beta/m", "broken/m"], until="paralysis")
    visit(page, site, session)
    page.evaluate(
        """() => {
          window.heard = { polite: [], urgent: [] };
          for (const id of Object.keys(window.heard)) {
            const place = document.getElementById(id);
            new MutationObserver(() => window.heard[id].push([performance.now(), place.textContent]))
              .observe(place, { characterData: true, childList: true, subtree: true });
          }
        }"""
    )

    anna.start(session)

    expect_state(page, "done")
    heard = page.evaluate("window.heard")
    times = [at for at, _ in heard["polite"]]
    assert all(later - earlier > 9_900 for earlier, later in itertools.pairwise(times))
    assert [said for _, said in heard["urgent"]] == ["Seat 3 (m): The provider rejected the key."]


def test_a_token_that_may_only_read_sees_everything_and_no_button(
    open_context: Open, site: Site, states: tuple[Person, dict[str, dict[str, Any]]]
) -> None:
    person, made = states
    token = person.ask("POST", "/tokens", {"name": "reader", "scopes": ["read"]})["token"]
    reader = Person(site, type(person.user)(person.user.account, token, person.user.client))
    page = open_context(reader).new_page()
    for state in ("gate", "failed", "blocked"):
        visit(page, site, made[state])
        expect_state(page, state)
        expect(page.get_by_text("Your token may read only")).to_be_visible()
        names = page.locator("main button").evaluate_all(
            "all => all.filter((one) => one.checkVisibility()).map((one) => one.textContent.trim() || one.ariaLabel)"
        )
        assert not [
            name for name in names if re.match("Submit|Retry|Raise|Other|Approve|Pause", name)
        ]


# -- large sessions -------------------------------------------------------------------------------


def enlarge(board: dict[str, Any]) -> dict[str, Any]:
    """Make the board of a session with six seats from one with two: each row many times."""
    made = copy.deepcopy(board)
    seats = made["session"]["seats"]
    made["session"]["seats"] = [{**seats[n % 2], "index": n + 1} for n in range(SEATS)]
    made["session"]["status"] = "generating_synthesis"
    jobs, documents = [], []
    for (stage, step), count in CALLS.items():
        job = next(j for j in board["jobs"] if j["stage"] == stage and j["step"] == step)
        written = next((d for d in board["documents"] if d["job_id"] == job["id"]), None)
        for n in range(count):
            own_id = f"{stage}-{step}-{n}"
            about = f"doc-thesis-thesis-{n // SEATS}" if stage == "antithesis" else job["about_id"]
            row = {
                "id": own_id,
                "seat": n % SEATS + 1,
                "about_id": about,
                "document_id": f"doc-{own_id}",
            }
            jobs.append({**job, **row})
            if written is not None:
                own = {
                    **row,
                    "id": f"doc-{own_id}",
                    "original_id": f"doc-{own_id}",
                    "job_id": own_id,
                }
                documents.append({**written, **own})
    for stage in made["stages"]:
        stage["seats"] = list(range(1, SEATS + 1))
        for step in stage["steps"]:
            step["planned"] = step["finished"] = CALLS[(stage["slug"], step["key"])]
        stage["status"] = "generating" if stage["slug"] == "synthesis" else stage["status"]
    return {**made, "jobs": jobs, "documents": documents}


def test_a_session_of_six_seats_is_one_request_few_elements_and_small_changes(
    open_context: Open,
    site: Site,
    states: tuple[Person, dict[str, dict[str, Any]]],
    watch: Watch,
) -> None:
    person, made = states
    session = made["done"]
    page = open_context(person).new_page()
    visit(page, site, session)
    expect_state(page, "done")
    board = enlarge(person.ask("GET", f"/sessions/{session['id']}/board"))
    assert len(board["jobs"]) == 312
    page.route(
        re.compile("/api/v1/sessions/.*/board"),
        lambda route: route.fulfill(body=json.dumps(board), content_type="application/json"),
    )
    watch.requests.clear()
    page.reload()
    expect_state(page, "live")
    page.locator("button.fold").evaluate_all("all => all.forEach((one) => one.click())")
    expect(page.locator("button.fold")).to_have_count(0)
    expect(page.locator(".dot")).to_have_count(6**3 + 6**2)

    assert page.evaluate("() => document.querySelectorAll('*').length") < 3_000
    assert len([path for path in watch.list_paths("/api/") if "/board" in path]) == 1
    job = {**board["jobs"][60], "status": "processing", "document_id": None}
    changed = page.evaluate(
        """async ([session, job]) => {
          const seen = new Set();
          const watcher = new MutationObserver((records) => records.forEach((one) => {
            seen.add(one.target.nodeType === 1 ? one.target : one.target.parentElement);
            one.addedNodes.forEach((node) => { if (node.nodeType === 1) { seen.add(node); node.querySelectorAll("*").forEach((inner) => seen.add(inner)); } });
          }));
          watcher.observe(document.querySelector("main"), { subtree: true, childList: true, attributes: true, characterData: true });
          const event = { type: "jobs_changed", session_id: session, data: { session_id: session, jobs: [job], stages: [] } };
          new BroadcastChannel("dialectic-stream").postMessage({ kind: "event", event, from: "a test" });
          await new Promise((done) => setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(done)), 50));
          watcher.disconnect();
          return seen.size;
        }""",
        [session["id"], job],
    )
    assert 0 < changed <= 40


@pytest.mark.sentence(67)
def test_the_first_view_asks_twice_and_is_within_its_bytes(
    open_context: Open,
    site: Site,
    states: tuple[Person, dict[str, dict[str, Any]]],
    watch: Watch,
) -> None:
    person, made = states
    page = open_context(person).new_page()
    sizes: dict[str, int] = {}
    page.on(
        "response", lambda one: sizes.update({one.url: int(one.headers.get("content-length", 0))})
    )
    visit(page, site, made["new"])
    expect_state(page, "new")

    asked = [path.partition("?")[0] for path in watch.list_paths("/api/")]
    session = made["new"]["id"]
    assert sorted(set(asked)) == [
        "/api/v1/events",
        "/api/v1/me",
        f"/api/v1/sessions/{session}/board",
    ]
    assets = [path for path in watch.list_paths("/assets/") if not path.endswith("icon.svg")]
    # Two of them are small: how to sign out, and the notices of the browser.
    assert len(assets) == len(set(assets)) <= 30
    scripts = sum(size for url, size in sizes.items() if url.endswith(".js"))
    styles = sum(size for url, size in sizes.items() if url.endswith(".css"))
    assert scripts < 70_000
    assert styles < 12_000
