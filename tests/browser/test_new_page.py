"""The page that starts a project: a prompt, seats, a quote, and one request."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect

from tests.browser.conftest import PHONE, Open, Watch
from tests.browser.site import PROMPT, Person, Site
from tests.browser.test_for_everyone import check_axe, list_too_wide, settle
from tests.unit.uploads.sample_files import build_bomb, build_docx

PRICE = re.compile(r"(\$|play )\d")


def open_new(page: Page, site: Site, query: str = "") -> None:
    page.goto(f"{site.url}/new{query}")
    expect(page.get_by_role("heading", name=re.compile("^New"), level=1)).to_be_visible()


def fill_prompt(page: Page, text: str = PROMPT) -> None:
    page.get_by_label("What should they argue about?").fill(text)


def wait_for_price(page: Page) -> None:
    expect(page.locator(".quote .amount")).to_have_text(PRICE)
    expect(page.locator(".quote")).to_have_attribute("aria-busy", "false")


def expect_seats(page: Page, *labels: str) -> None:
    expect(page.locator(".seat-chip .pick .one-line")).to_have_text(list(labels))


def drop_file(page: Page, name: str, data: bytes, kind: str = "") -> None:
    """Drop a file on the prompt, as from a desktop."""
    carried = page.evaluate_handle(
        """([name, bytes, kind]) => {
          const carried = new DataTransfer();
          carried.items.add(new File([new Uint8Array(bytes)], name, { type: kind }));
          return carried;
        }""",
        [name, list(data), kind],
    )
    for event in ("dragenter", "dragover", "drop"):
        page.dispatch_event(".prompt-field", event, {"dataTransfer": carried})


@pytest.mark.sentence(1)
def test_an_example_of_the_first_page_leads_to_a_quote_without_a_key(
    page: Page, site: Site
) -> None:
    page.goto(site.url)
    page.get_by_role("link", name="A seed library").click()

    expect(page.get_by_label("What should they argue about?")).to_have_value(
        re.compile("A seed library")
    )
    expect(page.locator(".quote .amount")).to_have_text(re.compile(r"play 0\.\d{4}"))
    expect(page.locator(".quote")).to_contain_text("57 calls")
    expect_seats(page, "architect", "pragmatist", "skeptic")


@pytest.mark.sentence(2)
def test_a_quote_is_asked_for_once_after_the_last_keystroke(
    page: Page, site: Site, watch: Watch
) -> None:
    open_new(page, site)
    page.get_by_label("What should they argue about?").press_sequentially(
        "A village hall with a kitchen.", delay=5
    )
    wait_for_price(page)

    assert len(watch.list_paths("/api/v1/quotes")) == 1


@pytest.mark.sentence(2)
def test_an_older_quote_that_comes_late_is_never_shown(page: Page, site: Site) -> None:
    held: list[Route] = []

    def answer(route: Route) -> None:
        if "first" in (route.request.post_data or ""):
            held.append(route)
        else:
            route.continue_()

    page.route("**/api/v1/quotes", answer)
    open_new(page, site)
    with page.expect_request("**/api/v1/quotes"):
        fill_prompt(page, "The first prompt.")
    fill_prompt(page, "The second prompt.")
    wait_for_price(page)
    price = page.locator(".quote .amount").inner_text()

    late = {"code": "late", "detail": "This is an answer to the first prompt."}
    for route in held:
        route.fulfill(status=422, content_type="application/problem+json", body=json.dumps(late))

    expect(page.locator(".quote .amount")).to_have_text(price)
    expect(page.locator(".quote")).not_to_contain_text("first prompt")


@pytest.mark.sentence(3)
def test_starting_ten_times_makes_one_project_and_one_session(
    page: Page, site: Site, anna: Person, watch: Watch
) -> None:
    open_new(page, site, "?models=alpha/m")
    fill_prompt(page)
    page.get_by_text("More", exact=True).click()
    page.get_by_label("Last stage").select_option("thesis")
    wait_for_price(page)
    start = page.locator(".quote").get_by_role("button", name=re.compile("^Start"))

    start.evaluate("(one) => { for (let n = 0; n < 10; n += 1) one.click(); }")

    expect(page).to_have_url(re.compile("/sessions/"))
    assert len(watch.list_paths("/api/v1/runs")) == 1
    assert len(anna.ask("GET", "/projects")["items"]) == 1
    assert len(anna.ask("GET", "/sessions")["items"]) == 1
    # What was started is not kept as a draft.
    open_new(page, site, "?models=alpha/m")
    expect(page.get_by_label("What should they argue about?")).to_have_value("")


@pytest.mark.sentence(3)
def test_a_start_whose_answer_is_lost_is_asked_again_under_the_same_key(
    page: Page, site: Site, anna: Person, watch: Watch
) -> None:
    watch.allow("ERR_FAILED|ERR_CONNECTION")
    tries: list[str | None] = []

    def lose_first(route: Route) -> None:
        tries.append(route.request.headers.get("idempotency-key"))
        if len(tries) == 1:
            route.fetch()  # the server has done it, and its answer is lost
            route.abort("connectionreset")
        else:
            route.continue_()

    page.route("**/api/v1/runs", lose_first)
    open_new(page, site, "?models=alpha/m")
    fill_prompt(page)
    wait_for_price(page)
    page.keyboard.press("Control+Enter")

    expect(page).to_have_url(re.compile("/sessions/"))
    assert len(tries) == 2
    assert tries[0] is not None
    assert tries[0] == tries[1]
    assert len(anna.ask("GET", "/projects")["items"]) == 1
    assert len(anna.ask("GET", "/sessions")["items"]) == 1


def test_a_start_that_is_refused_says_why_and_keeps_everything(
    page: Page, site: Site, watch: Watch
) -> None:
    watch.allow("status of 422")
    problem = {
        "code": "validation_failed",
        "detail": "The budget is too large.",
        "errors": [{"path": "/body/budget", "message": "too large", "code": "x"}],
    }
    page.route(
        "**/api/v1/runs",
        lambda route: route.fulfill(
            status=422, content_type="application/problem+json", body=json.dumps(problem)
        ),
    )
    open_new(page, site)
    fill_prompt(page)
    wait_for_price(page)
    page.locator(".quote").get_by_role("button", name=re.compile("^Start")).click()

    expect(page.get_by_label("Budget, in dollars")).to_be_focused()
    expect(page.get_by_text("too large", exact=True)).to_be_visible()
    expect(page.get_by_label("What should they argue about?")).to_have_value(PROMPT)


@pytest.mark.sentence(4)
def test_a_dropped_docx_becomes_the_prompt_and_can_be_taken_back(page: Page, site: Site) -> None:
    open_new(page, site)
    fill_prompt(page, "Typed before.")
    drop_file(page, "hall.docx", build_docx("A hall for forty clubs."))

    field = page.get_by_label("What should they argue about?")
    expect(field).to_have_value(re.compile("A hall for forty clubs."))
    page.get_by_role("button", name="Undo").click()
    expect(field).to_have_value("Typed before.")


@pytest.mark.sentence(4)
@pytest.mark.parametrize(
    ("name", "data", "told"),
    [
        ("bomb.docx", build_bomb(5_000_000), "bomb.docx"),
        ("picture.png", b"\x89PNG\r\n\x1a\n" + bytes(64), "picture"),
    ],
)
def test_a_file_that_cannot_be_read_says_so_and_changes_nothing(
    page: Page, site: Site, anna: Person, watch: Watch, name: str, data: bytes, told: str
) -> None:
    watch.allow("status of 4")
    open_new(page, site)
    fill_prompt(page, "Typed before.")
    drop_file(page, name, data)

    expect(page.locator(".toast")).to_contain_text(told)
    expect(page.get_by_label("What should they argue about?")).to_have_value("Typed before.")
    assert anna.ask("GET", "/projects")["items"] == []


@pytest.mark.sentence(5)
def test_one_model_on_two_seats_has_two_numbers_and_two_colours(
    page: Page, site: Site, anna: Person
) -> None:
    open_new(page, site, "?models=alpha/m")
    row = page.locator('[data-model="alpha/m"]')
    row.get_by_role("button", name="One seat more for m").click()

    chips = page.locator(".seat-chip")
    expect(chips).to_have_count(2)
    expect(chips.locator(".seat")).to_have_text(["1", "2"])
    colours = chips.evaluate_all("(all) => all.map((one) => getComputedStyle(one).borderTopColor)")
    assert len(set(colours)) == 2
    expect(row.locator(".number")).to_have_text("2")


def test_seats_are_moved_by_keys_by_buttons_and_by_dragging(page: Page, site: Site) -> None:
    open_new(page, site)
    expect(page.locator(".seat-chip")).to_have_count(3)

    page.locator("#seat-0").focus()
    page.keyboard.press("Alt+ArrowRight")
    expect(page.locator("#seat-1")).to_be_focused()
    expect_seats(page, "pragmatist", "architect", "skeptic")

    page.locator("#seat-2").click()
    page.get_by_role("button", name="Make it the lead").click()
    expect_seats(page, "skeptic", "pragmatist", "architect")
    expect(page.locator(".seat-chip").first.get_by_role("img", name="Lead")).to_be_visible()

    page.locator(".seat-chip").nth(2).drag_to(page.locator(".seat-chip").nth(0))
    expect_seats(page, "architect", "skeptic", "pragmatist")

    page.get_by_role("button", name="Remove seat 2: skeptic").click()
    expect_seats(page, "architect", "pragmatist")
    expect(page.locator("#seat-1")).to_be_focused()


@pytest.mark.sentence(6)
def test_a_model_without_a_key_cannot_be_chosen_and_names_the_variable(
    page: Page, site: Site
) -> None:
    open_new(page, site)
    page.get_by_label("Filter models").fill("openai")

    row = page.locator(".model-table tr.is-off").first
    expect(row).to_contain_text("OPENAI_API_KEY")
    expect(row.get_by_role("button")).to_have_count(0)


@pytest.mark.sentence(7)
def test_a_prompt_that_was_not_started_is_there_after_the_browser_was_killed(
    open_context: Open, site: Site, anna: Person
) -> None:
    first = open_context(anna)
    page = first.new_page()
    open_new(page, site)
    fill_prompt(page, "Words that must not be lost.")
    page.get_by_label("Budget, in dollars").fill("2.50")
    wait_for_price(page)
    stored: Any = first.storage_state()
    first.close()

    again = open_context(None, storage_state=stored).new_page()
    open_new(again, site)

    expect(again.get_by_label("What should they argue about?")).to_have_value(
        "Words that must not be lost."
    )
    expect(again.get_by_label("Budget, in dollars")).to_have_value("2.50")
    wait_for_price(again)


def test_what_was_just_typed_stays_when_the_page_loads_its_data_again(
    page: Page, site: Site
) -> None:
    open_new(page, site)
    expect(page.locator("#new-prompt")).to_be_visible()
    text = page.evaluate(
        """async () => {
          const router = await import(`${document.documentElement.dataset.base}/js/router.js`);
          const field = document.querySelector("#new-prompt");
          field.value = "A bench for the square.";
          field.dispatchEvent(new Event("input", { bubbles: true }));
          await router.reload();
          await new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)));
          return document.querySelector("#new-prompt").value;
        }"""
    )
    assert text == "A bench for the square."
    page.reload()
    expect(page.locator("#new-prompt")).to_have_value("A bench for the square.")


def test_what_is_chosen_is_what_runs(page: Page, site: Site, anna: Person) -> None:
    open_new(page, site)
    fill_prompt(page)
    page.get_by_role("button", name="Success criteria").click()
    page.get_by_label("Success criteria: text").fill("It opens in May.")
    page.get_by_label("Name", exact=True).fill("My hall")
    page.get_by_role("switch", name="Stop after each stage").click()
    expect(page.get_by_role("switch", name="Full Response Mode")).to_be_checked()
    page.get_by_role("switch", name="Full Response Mode").click()
    page.get_by_label("Budget, in dollars").fill("3")
    wait_for_price(page)
    page.keyboard.press("Control+Enter")
    expect(page).to_have_url(re.compile("/sessions/"))

    session = anna.ask("GET", f"/sessions/{page.url.rpartition('/')[2]}")
    assert session["project_name"] == "My hall"
    assert session["is_autopilot"] is False
    assert session["continue_until_complete"] is False
    assert float(session["budget"]) == 3
    given = anna.ask("GET", f"/projects/{session['project_id']}/resources")["items"]
    assert "success_criteria" in {one["kind"] for one in given}


def test_a_budget_that_is_too_small_leaves_out_what_it_can_and_says_so(
    page: Page, site: Site
) -> None:
    open_new(page, site)
    fill_prompt(page)
    wait_for_price(page)
    expect(page.locator(".quote")).to_contain_text("57 calls")

    page.get_by_label("Budget, in dollars").fill("0.06")

    expect(page.locator(".quote")).to_contain_text("so that it fits your budget")
    page.get_by_label("Budget, in dollars").fill("0.01")
    expect(page.locator(".quote")).to_contain_text("does not fit the budget")
    start = page.locator(".quote").get_by_role("button", name=re.compile("^Start anyway"))
    expect(start).to_be_visible()
    page.get_by_label("Budget, in dollars").fill("much")
    expect(page.get_by_text("Give an amount in dollars")).to_be_visible()


def test_parts_can_be_left_out_by_a_slider(page: Page, site: Site) -> None:
    open_new(page, site)
    fill_prompt(page)
    wait_for_price(page)
    slider = page.get_by_label("Leave out")

    slider.press("End")

    expect(page.locator(".quote")).to_contain_text("36 calls")
    expect(page.locator(".left-out").first).to_be_visible()


def test_a_quote_that_fails_gives_the_reason_in_its_place_and_can_be_asked_again(
    page: Page, site: Site, watch: Watch
) -> None:
    watch.allow("status of 50")
    body = '{"code": "internal", "detail": "The server tripped.", "request_id": "abc"}'
    page.route(
        "**/api/v1/quotes",
        lambda route: route.fulfill(status=500, content_type="application/problem+json", body=body),
    )
    open_new(page, site)
    fill_prompt(page)
    expect(page.locator(".quote").get_by_role("alert")).to_contain_text("The server tripped.")

    page.unroute("**/api/v1/quotes")
    page.get_by_role("button", name="Ask again").click()

    wait_for_price(page)


def test_a_council_is_saved_and_used_again(
    page: Page, site: Site, anna: Person, context: BrowserContext
) -> None:
    open_new(page, site, "?models=offline/skeptic*2")
    page.get_by_role("button", name="Save these seats as a council").click()
    page.get_by_label("Name of the council").fill("Two sceptics")
    with page.expect_response("**/me/preferences"):
        page.keyboard.press("Enter")

    other = context.new_page()
    open_new(other, site)
    other.get_by_role("button", name="Two sceptics", exact=True).click()

    expect_seats(other, "skeptic", "skeptic")
    saved = anna.ask("GET", "/me")["preferences"]["councils"]
    assert saved == [{"name": "Two sceptics", "models": ["offline/skeptic", "offline/skeptic"]}]


def test_a_further_session_of_a_project_needs_no_prompt(
    page: Page, site: Site, anna: Person
) -> None:
    project = anna.ask("POST", "/projects", {"prompt": PROMPT, "name": "Village hall"})
    open_new(page, site, f"?from={project['id']}&models=alpha/m")
    expect(page.get_by_role("heading", level=1)).to_contain_text("of Village hall")
    expect(page.get_by_text(PROMPT)).to_be_visible()
    page.get_by_label("What is different this time?").fill("For the winter only.")
    wait_for_price(page)
    page.keyboard.press("Control+Enter")

    expect(page).to_have_url(re.compile("/sessions/"))
    session = anna.ask("GET", f"/sessions/{page.url.rpartition('/')[2]}")
    assert session["project_id"] == project["id"]
    assert session["description"] == "For the winter only."


@pytest.mark.sentence(59)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_on_the_new_page_in_any_state(
    open_context: Open, site: Site, anna: Person, scheme: str
) -> None:
    page = open_context(anna, color_scheme=scheme, reduced_motion="reduce").new_page()
    open_new(page, site)
    settle(page)
    check_axe(page)
    fill_prompt(page)
    page.get_by_role("button", name="Constraints").click()
    page.locator("#seat-1").click()
    page.get_by_text("More", exact=True).click()
    page.get_by_label("Longest answer").fill("none")
    page.get_by_label("Filter models").fill("a")
    page.get_by_label("Budget, in dollars").fill("0.01")
    expect(page.locator(".wrong").first).to_be_visible()
    check_axe(page)
    page.get_by_label("Longest answer").fill("")
    wait_for_price(page)
    check_axe(page)


@pytest.mark.sentence(62)
@pytest.mark.parametrize("width", [390, 320])
def test_the_new_page_fits_a_phone_and_starts_within_reach(
    open_context: Open, site: Site, anna: Person, width: int
) -> None:
    page = open_context(anna, viewport={**PHONE, "width": width}, has_touch=True).new_page()
    open_new(page, site)
    fill_prompt(page)
    wait_for_hidden_price(page)
    page.get_by_role("button", name="Constraints").click()
    page.locator("#seat-1").click()
    assert list_too_wide(page, width) == []
    small = page.evaluate(
        """() => [...document.querySelectorAll("main button, main select, main input, main summary")]
          .filter((one) => one.checkVisibility() && !one.closest(".sr, .switch, .process"))
          .filter((one) => !one.matches(".sr")).map((one) => [one, one.getBoundingClientRect()])
          .filter(([, box]) => box.height < 43.5 || box.width < 43.5)
          .map(([one, box]) => `${one.outerHTML.slice(0, 80)} ${box.width}x${box.height}`)"""
    )
    assert small == []
    start = page.locator(".bar-bottom").get_by_role("button", name="Start")
    box = start.bounding_box()
    assert box is not None
    assert box["y"] + box["height"] > PHONE["height"] - 60
    page.locator(".quote-toggle").click()
    expect(page.locator(".stage-bars")).to_be_visible()
    assert list_too_wide(page, width) == []


def wait_for_hidden_price(page: Page) -> None:
    expect(page.locator(".quote-toggle strong")).to_have_text(PRICE)


def test_from_prompt_to_session_by_keys_alone(page: Page, site: Site) -> None:
    page.goto(site.url)
    settle(page)
    page.keyboard.press("n")
    expect(page.get_by_role("heading", name="New project")).to_be_focused()
    page.keyboard.press("Tab")
    while page.evaluate("() => document.activeElement.id") != "new-prompt":
        page.keyboard.press("Tab")
    page.keyboard.type("A hall by keys alone.")
    wait_for_price(page)
    page.keyboard.press("Control+Enter")

    expect(page).to_have_url(re.compile("/sessions/"))
    assert page.evaluate("() => document.activeElement !== document.body")


@pytest.mark.sentence(68)
def test_on_a_slow_line_the_frame_is_there_before_the_data_and_nothing_is_asked_twice(
    page: Page, site: Site, watch: Watch
) -> None:
    held: list[Route] = []
    page.route("**/api/v1/models", lambda route: held.append(route))
    page.goto(f"{site.url}/new?prompt=A%20hall.", wait_until="commit")

    expect(page.get_by_role("heading", name="New project")).to_be_visible()
    expect(page.locator("main .blank").first).to_be_visible()
    for route in held:
        route.continue_()
    wait_for_price(page)
    asked = [path for path in watch.list_paths("/api/") if "outline" not in path]
    assert len(asked) == len(set(asked))


@pytest.mark.sentence(64)
def test_without_motion_and_in_forced_colours_the_new_page_tells_the_same(
    open_context: Open, site: Site, anna: Person
) -> None:
    page = open_context(anna, reduced_motion="reduce", forced_colors="active").new_page()
    open_new(page, site)
    fill_prompt(page)
    wait_for_price(page)

    moving = "() => document.getAnimations().filter((one) => one.playState === 'running').length"
    assert page.evaluate(moving) == 0
    bar = page.locator(".stage-bars i").first
    colour = bar.evaluate("(one) => getComputedStyle(one).backgroundColor")
    ground = page.locator("body").evaluate("(one) => getComputedStyle(one).backgroundColor")
    assert colour != ground
    expect(page.locator(".seat-chip .seat")).to_have_text(["1", "2", "3"])
