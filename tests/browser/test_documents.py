"""A document on its page: read, trace, edit, compare; what others do meanwhile; nothing is lost."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Literal

import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect
from playwright.sync_api import Error as PlaywrightError

from dialectic.app.rendering import get_renderings
from tests.browser.conftest import PHONE, Open, Watch
from tests.browser.site import NAMES, Person, Site
from tests.browser.test_for_everyone import list_too_wide
from tests.unit.core.documents.hostile_texts import HOSTILE

OFFLINE = ["offline/architect", "offline/skeptic"]
# Too large, or too greedy, to stand in one document with others.
ALONE = {"wide table", "endless words", "endless brackets", "deep nesting", "nested fences"}


@pytest.fixture(autouse=True)
def nothing_held(site: Site) -> Iterator[None]:
    """Let no gate of one test hold the calls of another."""
    yield
    for name in (*NAMES, "middle"):
        site.simulator.release(name)


@pytest.fixture(scope="module")
def argued(site: Site) -> tuple[Person, dict[str, Any]]:
    """A person with a session in which two models wrote theses and critiques."""
    person = site.add_user()
    session = person.make_session("Argued", models=OFFLINE, until="antithesis")
    finish(person, session)
    return person, session


def finish(person: Person, session: dict[str, Any]) -> None:
    """Start a session and wait until nothing of it is left to do."""
    person.start(session)
    person.site.call(person.site.api.work(person.user, session["id"]))


def list_documents(person: Person, session: dict[str, Any], stage: str) -> list[dict[str, Any]]:
    found = person.ask("GET", f"/sessions/{session['id']}/board")["documents"]
    return sorted(
        (one for one in found if one["stage"] == stage), key=lambda one: (one["seat"], one["id"])
    )


# A flash is over in a second, and a page may take longer to be looked at.
NOTE_FLASHES = """
  window.flashed = { start: [], end: [] };
  for (const when of ["start", "end"]) addEventListener(`animation${when}`, (event) => {
    if (event.animationName === "flash") window.flashed[when].push(event.target.textContent);
  });
"""


def expect_flash(page: Page, words: str, when: Literal["start", "end"] = "end") -> None:
    """Expect that a block with these words flashes, and goes on to the end of it."""
    page.wait_for_function(
        "([when, words]) => window.flashed[when]"
        ".some((text) => text.replace(/\\s+/g, ' ').includes(words))",
        arg=[when, words],
    )


def write_thesis(person: Person, text: str = "") -> dict[str, Any]:
    """Let a model write a thesis, and replace its text; return the newest version."""
    session = person.make_session(models=["offline/architect"])
    finish(person, session)
    [one] = list_documents(person, session, "thesis")
    if text:
        found: dict[str, Any] = person.ask("PUT", f"/contributions/{one['id']}", {"content": text})
        return found
    return one


def read(page: Page, site: Site, document: str, query: str = "") -> None:
    page.goto(f"{site.url}/documents/{document}{query}")
    expect(page.locator(".doc-text, .editor, .changes, .doc-source, .clash")).to_be_visible()


def write(page: Page, text: str) -> None:
    page.get_by_label("Text in Markdown").fill(text)


# -- reading ---------------------------------------------------------------------------------------


def test_a_document_is_shown_with_its_contents_and_whose_it_is(
    page: Page, site: Site, anna: Person
) -> None:
    one = write_thesis(anna, "# Aim\n\nA hall.\n\n## Money\n\nNone.\n\n## Risk\n\nRain.\n")
    read(page, site, one["id"])

    expect(page.locator(".doc-bar h1")).to_have_text(re.compile("architect.*Thesis"))
    expect(page.get_by_role("heading", name="Aim")).to_have_attribute("aria-level", "2")
    links = page.get_by_role("navigation", name="Contents").get_by_role("link")
    expect(links).to_have_text(["Aim", "Money", "Risk"])
    links.last.click()
    expect(page).to_have_url(re.compile(r"#b-\d+$"))
    expect(page).to_have_title(re.compile("Thesis by architect · Village hall · Dialectic"))


@pytest.mark.sentence(34)
def test_a_label_in_a_text_resolves_to_the_seat_that_wrote_it(
    open_context: Open, site: Site, argued: tuple[Person, dict[str, Any]]
) -> None:
    person, session = argued
    theses = {one["original_id"]: one for one in list_documents(person, session, "thesis")}
    critique = list_documents(person, session, "antithesis")[0]
    [(label, target)] = critique["labels"].items()
    page = open_context(person).new_page()
    read(page, site, critique["id"])

    ref = page.locator(".ref", has_text=label).first
    ref.hover()
    card = page.get_by_role("tooltip")
    expect(card).to_contain_text(theses[target]["model"].split("/")[1])
    expect(card.locator(".seat")).to_have_text(str(theses[target]["seat"]))
    page.keyboard.press("Escape")
    expect(card).to_have_count(0)
    ref.focus()
    expect(card).to_contain_text(theses[target]["excerpt"][:40])
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{site.url}/documents/{theses[target]['id']}")


def test_a_marked_passage_leads_to_a_block_that_holds_the_quoted_words_and_flashes(
    open_context: Open, site: Site, argued: tuple[Person, dict[str, Any]]
) -> None:
    person, session = argued
    critique = list_documents(person, session, "antithesis")[0]
    traced = person.ask("GET", f"/contributions/{critique['id']}/provenance")["passages"]
    marked = [one for one in traced if one["sources"] and one["sources"][0]["seat"]]
    assert marked
    page = open_context(person).new_page()
    page.add_init_script(NOTE_FLASHES)
    read(page, site, critique["id"])
    expect(page.locator(".origins")).to_contain_text("passages say the same as an earlier one")

    mark = page.locator(".mark[class*=seat-]").first
    mark.click()
    card = page.locator(".source-card").first
    quote = card.locator(".quote").inner_text()
    assert any(
        " ".join(quote.split())[:30] in _plain(s["text"]) for p in marked for s in p["sources"]
    )
    page.keyboard.press("Escape")
    expect(page.locator(".source-card")).to_have_count(0)
    page.locator("main h1").first.click()
    page.keyboard.press("j")
    expect(page.locator(".mark[aria-current]")).to_be_focused()
    while not page.locator(".mark[aria-current][class*=seat-]").count():
        page.keyboard.press("j")
    quote = page.locator(".source-card .quote").first.inner_text()
    words = " ".join(quote.split())[:30]
    held: list[Route] = []
    page.route("**/provenance", lambda route: held.append(route))
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/documents/[0-9a-f-]+\?at=\d+$"))
    expect_flash(page, words, "start")
    # The marks of the text arrive in the middle of it, and do not end it.
    for route in held:
        route.continue_()
    expect_flash(page, words)
    expect(page.locator(".doc-text .mark", has_text=words)).to_be_visible()


def _plain(text: str) -> str:
    return " ".join(re.sub(r"\*\*|__", "", text).split())


def test_words_appear_while_a_call_writes_and_become_the_document_in_its_place(
    page: Page, site: Site, anna: Person
) -> None:
    session = anna.make_session(models=["halfway/m"])
    site.simulator.hold("middle")
    anna.start(session)
    page.goto(f"{site.url}/sessions/{session['id']}")
    tile = page.locator(".tile[data-job]")
    expect(tile).to_have_count(1)
    job = tile.get_attribute("data-job")
    page.goto(f"{site.url}/documents/{job}?writing={session['id']}")
    draft = page.locator(".draft")
    expect(draft).to_contain_text(re.compile(r"\w+ \w+ \w+"))
    assert page.evaluate("() => !document.querySelector('.draft').closest('[aria-live]')")

    site.simulator.release("middle")

    expect(page.locator(".doc-text")).to_be_visible()
    expect(draft).to_have_count(0)
    page.reload()
    expect(page.locator(".doc-text")).to_be_visible()


def test_a_document_that_is_cut_off_says_so_and_can_be_continued(
    page: Page, site: Site, anna: Person
) -> None:
    session = anna.make_session(
        models=["alpha/m"], max_output_tokens=300, continue_until_complete=False
    )
    finish(anna, session)
    [one] = list_documents(anna, session, "thesis")
    read(page, site, one["id"])

    expect(page.locator(".cut-off")).to_contain_text("The answer is cut off here")
    page.get_by_role("button", name=re.compile("Continue it")).click()

    expect(page.get_by_role("link", name="Show version 2")).to_be_visible()


def test_an_older_version_says_so_and_leads_to_the_newest(
    page: Page, site: Site, anna: Person
) -> None:
    newest = write_thesis(anna, "A hall for all.")
    read(page, site, newest["original_id"])

    expect(page.get_by_text("This is version 1 of 2.")).to_be_visible()
    expect(page.get_by_role("link", name="Edit")).to_have_count(0)
    page.get_by_role("link", name="Go to version 2").click()
    expect(page.locator(".doc-text")).to_have_text("A hall for all.")
    page.goto(f"{site.url}/documents/{newest['id']}?v=1")
    expect(page.get_by_text("This is version 1 of 2.")).to_be_visible()


@pytest.mark.sentence(38)
def test_sixteen_hostile_documents_do_nothing_and_stay_inside_their_column(
    page: Page, site: Site, anna: Person
) -> None:
    one = write_thesis(anna, "Harmless.")
    together = "\n\n".join(text for name, text in HOSTILE.items() if name not in ALONE)
    page.add_init_script("window.alert = () => { throw new Error('a script ran'); };")
    for text in [together, *(HOSTILE[name] for name in sorted(ALONE))]:
        one = anna.ask("PUT", f"/contributions/{one['id']}", {"content": text})
        page.set_viewport_size({"width": 1440, "height": 900})
        read(page, site, one["id"])
        assert list_too_wide(page, 1440) == []
        page.set_viewport_size({"width": 390, "height": 844})
        assert list_too_wide(page, 390) == []
        found = page.locator(".doc-text").locator("script, iframe, form, svg, img, style, base")
        expect(found).to_have_count(0)


@pytest.mark.sentence(37)
def test_a_document_of_a_megabyte_is_shown_searched_edited_and_saved(
    page: Page, site: Site, anna: Person, watch: Watch
) -> None:
    sections = [f"## Part {n}\n\n" + "The hall is booked by volunteers. " * 70 for n in range(420)]
    text = "\n\n".join(sections) + "\n\nThe needle is here.\n"
    assert len(text) > 1_000_000
    one = write_thesis(anna, text)
    rendered = get_renderings(site.api.engine)
    before = rendered.count
    read(page, site, one["id"])
    expect(page.get_by_role("navigation", name="Contents").get_by_role("link")).to_have_count(420)
    assert page.evaluate("() => window.find('The needle is here')")

    read(page, site, one["id"], "?mode=edit")
    expect(page.get_by_role("region", name="Preview")).to_have_count(0)
    field = page.get_by_label("Text in Markdown")
    field.press("Control+End")
    page.keyboard.type("And found.")
    page.get_by_role("button", name="Save as version 3").click()

    expect(page.locator(".doc-text")).to_contain_text("And found.")
    saved = [path for path in watch.list_paths("/api/v1/contributions/") if path.endswith("/html")]
    assert len(saved) == len(set(saved)) + 1
    assert rendered.count - before == len(set(saved))


@pytest.mark.sentence(37)
def test_other_requests_are_answered_while_a_megabyte_is_rendered_once_for_all_who_ask(
    page: Page, site: Site, anna: Person
) -> None:
    paragraph = "Volunteers book the hall, and **pay** nothing. " * 50
    one = write_thesis(anna, f"{paragraph}\n\n" * 440)
    page.goto(f"{site.url}/settings/appearance")
    before = get_renderings(site.api.engine).count

    order = page.evaluate(
        """async (id) => {
          const order = [];
          const ask = (name, path) => fetch(`/api/v1${path}`).then((one) => one.text()).then(() => order.push(name));
          const both = ["first", "second"].map((name) => ask(name, `/contributions/${id}/html?for=${name}`));
          await ask("me", "/me");
          await Promise.all(both);
          return order;
        }""",
        one["id"],
    )

    assert order[0] == "me"
    assert get_renderings(site.api.engine).count == before + 1


@pytest.mark.sentence(40)
def test_printing_gives_the_text_the_title_and_no_control(
    page: Page, site: Site, anna: Person
) -> None:
    one = write_thesis(anna, "# Aim\n\nSee [the rules](https://hall.example/rules).\n")
    read(page, site, one["id"])
    page.emulate_media(media="print")

    expect(page.locator(".doc-bar h1")).to_be_visible()
    expect(page.get_by_text("Village hall ·")).to_be_visible()
    expect(page.locator(".doc-text")).to_contain_text("See the rules")
    expect(page.locator(".footnotes")).to_have_text("https://hall.example/rules")
    controls = "button, textarea, input, select, nav, footer, .top, .doc-margin"
    shown = page.evaluate(
        "(controls) => [...document.querySelectorAll(controls)]"
        ".filter((one) => one.checkVisibility({ opacityProperty: true, visibilityProperty: true }))"
        ".filter((one) => !one.closest('.sr')).map((one) => one.outerHTML.slice(0, 60))",
        controls,
    )
    assert shown == []


# -- what changed, side by side --------------------------------------------------------------------


@pytest.mark.sentence(36)
def test_the_diff_of_two_versions_marks_exactly_the_words_that_differ(
    page: Page, site: Site, anna: Person
) -> None:
    first = write_thesis(anna, "# Aim\n\nForty clubs book the hall.\n\n# Risk\n\nRain falls.\n")
    second = anna.ask(
        "PUT",
        f"/contributions/{first['id']}",
        {"content": "# Aim\n\nFifty clubs rarely book the hall.\n\n# Risk\n\nRain falls.\n"},
    )
    read(page, site, second["id"], "?mode=diff")

    expect(page.locator(".change ins")).to_have_text(["Fifty", "rarely"])
    expect(page.locator(".change del")).to_have_text(["Forty"])
    expect(page.get_by_role("group").filter(has_text="Risk")).not_to_have_attribute("open", "")
    expect(page.locator(".changes-bar")).to_contain_text("+2 words")
    page.get_by_label("What changed from").select_option(value=first["original_id"])
    expect(page).to_have_url(re.compile(f"with={first['original_id']}"))


@pytest.mark.sentence(35)
@pytest.mark.parametrize("width", [1440, 1024, 768])
def test_compare_keeps_equal_headings_at_equal_heights(
    open_context: Open, site: Site, argued: tuple[Person, dict[str, Any]], width: int
) -> None:
    person, session = argued
    ids = [one["id"] for one in list_documents(person, session, "thesis")]
    page = open_context(person, viewport={"width": width, "height": 900}).new_page()
    page.goto(f"{site.url}/compare?ids={','.join(ids)}")
    expect(page.locator(".compare-row").first).to_be_visible()

    rows = page.evaluate(
        "() => [...document.querySelectorAll('.compare-row')].map((row) =>"
        " [...row.querySelectorAll('h2')].map((one) => [one.textContent, Math.round(one.getBoundingClientRect().top)]))"
    )
    told = [row for row in rows if len(row) == len(ids)]
    assert len(told) >= 4
    for row in told:
        assert len({heading for heading, _ in row}) == 1
        assert len({top for _, top in row}) == 1
    assert list_too_wide(page, width) == []


def test_compare_shows_one_section_what_differs_and_what_a_model_leaves_out(
    page: Page, site: Site, anna: Person
) -> None:
    session = anna.make_session(models=OFFLINE)
    finish(anna, session)
    first, second = list_documents(anna, session, "thesis")
    one = anna.ask(
        "PUT",
        f"/contributions/{first['id']}",
        {
            "content": "## Aim\n\nA hall.\n\n## Money\n\nNone at all is needed.\n\n## Risk\n\nRain.\n"
        },
    )
    other = anna.ask(
        "PUT",
        f"/contributions/{second['id']}",
        {"content": "## Aim\n\nA hall.\n\n## Money\n\nNone at all is needed, but time.\n"},
    )
    page.goto(f"{site.url}/compare?ids={one['id']},{other['id']}")
    rows = page.locator(".compare-row")
    expect(rows).to_have_count(3)
    expect(page.get_by_text("skeptic says nothing about it.")).to_be_visible()

    page.get_by_label("Only differences").check()
    expect(rows).to_have_count(2)
    page.get_by_label("Equal words faint").check()
    expect(page.locator(".same")).to_have_text(["None at all is needed"] * 2)
    page.locator("h1").click()
    page.keyboard.press("]")
    expect(rows).to_have_count(1)
    expect(page).to_have_url(re.compile("section=money"))
    page.reload()
    expect(rows).to_have_count(1)
    expect(rows.get_by_role("heading", name="Money").first).to_be_visible()
    page.get_by_role("link", name="Words marked").click()
    expect(page.locator(".change ins").first).to_contain_text("but time")


def test_on_a_phone_compare_shows_one_document_and_keeps_the_section(
    open_context: Open, site: Site, argued: tuple[Person, dict[str, Any]]
) -> None:
    person, session = argued
    ids = [one["id"] for one in list_documents(person, session, "thesis")]
    page = open_context(person, viewport=PHONE, has_touch=True).new_page()
    page.goto(f"{site.url}/compare?ids={','.join(ids)}")
    row = page.locator(".compare-row").nth(3)
    # The page puts its own scroll position back in the frame after its rows are there.
    row.evaluate(
        "(one) => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() =>"
        " requestAnimationFrame(() => { one.scrollIntoView(); done(); }))))"
    )
    expect(row.locator(".compare-cell[data-shown] h2")).to_be_in_viewport()
    heading = row.locator("h2").first.text_content()

    page.get_by_role("button", name="Show skeptic").locator("visible=true").click()

    expect(page.locator(".compare-head[data-shown]")).to_contain_text("skeptic")
    shown = row.locator(".compare-cell[data-shown] h2")
    expect(shown).to_have_text(str(heading))
    expect(shown).to_be_in_viewport()


# -- editing ---------------------------------------------------------------------------------------


@pytest.mark.sentence(30)
def test_an_edit_makes_its_readers_stale_in_every_tab_and_regenerate_writes_just_these(
    context: BrowserContext, site: Site, anna: Person
) -> None:
    session = anna.make_session(models=OFFLINE, until="antithesis")
    finish(anna, session)
    thesis = list_documents(anna, session, "thesis")[0]
    critiques = list_documents(anna, session, "antithesis")
    about = [one["original_id"] for one in critiques if one["about_id"] == thesis["original_id"]]
    assert len(about) == 2
    reader, board, page = context.new_page(), context.new_page(), context.new_page()
    read(reader, site, about[0])
    board.goto(f"{site.url}/sessions/{session['id']}")
    expect(board.locator(".session")).to_have_attribute("data-state", "done")
    read(page, site, thesis["id"], "?mode=edit")
    expect(page.get_by_text("Saving leaves 2 documents")).to_be_visible()

    write(page, "# Aim\n\nA hall with a stove.\n")
    page.get_by_role("button", name="Save as version 2").click()

    reader.bring_to_front()
    expect(reader.get_by_text("has a newer version")).to_be_visible()
    board.bring_to_front()
    expect(board.locator(".session")).to_have_attribute("data-detail", "stale")
    expect(board.locator(".stages .chip").filter(has_text="stale")).to_have_count(2)
    page.bring_to_front()
    page.get_by_role("button", name=re.compile("Regenerate 2 documents about")).click()
    expect(page.get_by_text("written from an older version of this one")).to_have_count(0)
    site.call(site.api.work(anna.user, session["id"]))
    now = {one["original_id"]: one for one in list_documents(anna, session, "antithesis")}
    assert {first for first, one in now.items() if one["version"] > 1} == set(about)
    assert not any(one["is_stale"] for one in now.values())
    reader.bring_to_front()
    expect(reader.get_by_role("link", name="Show version 2")).to_be_visible()
    board.bring_to_front()
    expect(board.locator(".session[data-detail]")).to_have_count(0)


@pytest.mark.sentence(32)
def test_two_people_edit_and_the_second_sees_both_texts_and_loses_none(
    open_context: Open, site: Site, watch: Watch
) -> None:
    watch.allow("status of 412")
    mira, ben = site.add_colleagues()
    one = write_thesis(mira, "A hall.")
    page, other = open_context(mira).new_page(), open_context(ben).new_page()
    for each, text in ((page, "A hall, by me."), (other, "A hall, by them.")):
        read(each, site, one["id"], "?mode=edit")
        write(each, text)
    other.keyboard.press("Control+s")
    expect(other.locator(".doc-text")).to_have_text("A hall, by them.")
    expect(page.get_by_text("saved version 3")).to_be_visible()
    expect(page.get_by_label("Text in Markdown")).to_have_value("A hall, by me.")
    page.keyboard.press("Control+s")

    expect(page.get_by_role("heading", name=re.compile("saved version 3"))).to_be_focused()
    expect(page.get_by_label("Your text")).to_have_text("A hall, by me.")
    expect(page.get_by_label("Their text")).to_have_text("A hall, by them.")
    page.reload()
    expect(page.get_by_label("Your text")).to_have_text("A hall, by me.")
    page.get_by_role("button", name="Save mine as version 4").click()

    expect(page.locator(".doc-text")).to_have_text("A hall, by me.")
    versions = ben.ask("GET", f"/contributions/{one['id']}/versions")["items"]
    texts = [ben.ask("GET", f"/contributions/{each['id']}")["content"] for each in versions]
    assert [text.strip() for text in texts[1:]] == ["A hall.", "A hall, by them.", "A hall, by me."]


@pytest.mark.sentence(39)
def test_unsaved_text_survives_a_reload_a_sign_in_that_ended_and_a_crash(
    context: BrowserContext, site: Site, anna: Person, watch: Watch
) -> None:
    watch.allow("status of 401")
    one = write_thesis(anna, "A hall.")
    page = context.new_page()
    page.on("dialog", lambda dialog: dialog.accept())
    read(page, site, one["id"], "?mode=edit")
    write(page, "A hall that I have not saved.")

    page.reload()
    field = page.get_by_label("Text in Markdown")
    expect(field).to_have_value("A hall that I have not saved.")
    # The process of the tab dies, as in a crash of the browser.
    with page.expect_event("crash"), suppress(PlaywrightError):
        page.goto("chrome://crash")
    page = context.new_page()
    page.on("dialog", lambda dialog: dialog.accept())
    read(page, site, one["id"])
    page.get_by_role("link", name="Continue editing").click()
    field = page.get_by_label("Text in Markdown")
    expect(field).to_have_value("A hall that I have not saved.")
    context.clear_cookies()
    field.press("Control+End")
    page.keyboard.type(" Yet.")
    page.keyboard.press("Control+s")
    dialog = page.get_by_role("dialog", name="Sign in again")
    dialog.get_by_label("Token").fill(anna.token)
    page.keyboard.press("Enter")
    expect(page.locator(".doc-text")).to_have_text("A hall that I have not saved. Yet.")
    expect(page.get_by_text("is not saved yet")).to_have_count(0)


@pytest.mark.sentence(39, 51)
def test_signing_out_asks_before_it_discards_text_and_leaves_none_of_it_behind(
    page: Page, site: Site, anna: Person, watch: Watch
) -> None:
    watch.allow("status of 401")
    one = write_thesis(anna, "A hall.")
    read(page, site, one["id"], "?mode=edit")
    write(page, "A hall that I have not saved.")
    page.wait_for_function("() => JSON.stringify({...localStorage}).includes('not saved')")
    page.get_by_role("button", name="Account").click()
    page.get_by_role("button", name="Sign out").click()
    question = page.get_by_role("dialog", name="Sign out and discard your text?")
    question.get_by_role("button", name="Leave it").click()
    expect(page.get_by_label("Text in Markdown")).to_have_value("A hall that I have not saved.")

    page.get_by_role("button", name="Account").click()
    page.get_by_role("button", name="Sign out").click()
    question.get_by_role("button", name="Sign out").click()

    expect(page).to_have_url(re.compile("/sign-in"))
    assert page.evaluate("() => Object.keys(localStorage)") == []


def test_the_preview_follows_the_text_and_its_scrolling(
    page: Page, site: Site, anna: Person
) -> None:
    parts = [
        f"## Part {n}\n\n" + ("Volunteers book. " * 60 if n % 2 else "Short.") for n in range(30)
    ]
    one = write_thesis(anna, "\n\n".join(parts))
    read(page, site, one["id"], "?mode=edit")
    field, preview = (
        page.get_by_label("Text in Markdown"),
        page.get_by_role("region", name="Preview"),
    )
    field.press("Control+Home")
    page.keyboard.type("# A new beginning\n\n")
    expect(preview.get_by_role("heading", name="A new beginning")).to_be_visible()
    field.evaluate("(one) => { one.scrollTop = one.scrollHeight; }")
    expect(preview.get_by_role("heading", name="Part 29")).to_be_in_viewport()
    # The side that was scrolled last leads for a moment; then the other one may.
    page.wait_for_function(
        """() => {
          const preview = document.querySelector(".pane-preview");
          preview.scrollTop = preview.scrollTop ? 0 : 1;
          return document.getElementById("edit-text").scrollTop < 5;
        }"""
    )


def test_stars_and_notes_are_kept_and_can_be_taken_back(
    page: Page, site: Site, anna: Person
) -> None:
    one = write_thesis(anna)
    read(page, site, one["id"])
    page.locator(".doc-bar").get_by_role("button", name="4 stars").click()
    page.get_by_label("Your feedback on this document").fill("Think of winter.")
    page.get_by_role("button", name="Save feedback").click()
    note = page.locator(".notes li")
    expect(note).to_contain_text("Think of winter.")
    page.reload()
    expect(page.locator(".doc-bar").get_by_role("group", name="Rating: 4 stars")).to_be_visible()
    note.get_by_role("button", name="Change").click()
    page.get_by_label("Your feedback", exact=True).fill("Think of winter and ice.")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(note).to_contain_text("Think of winter and ice.")
    note.get_by_role("button", name="Remove").click()
    expect(note).to_have_count(0)
