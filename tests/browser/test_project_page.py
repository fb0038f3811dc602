"""The page of a project: a plan to work on, its sessions, given texts, files and search."""

from __future__ import annotations

import io
import re
import zipfile
from pathlib import Path
from typing import Any

import httpx2
import pytest
from playwright.sync_api import BrowserContext, FilePayload, Page, Route, expect

from dialectic.core.access import Scope
from tests.browser.conftest import PHONE, Open, Watch
from tests.browser.site import PROMPT, Person, Site
from tests.browser.test_for_everyone import check_axe, list_too_wide, settle

ROOMS = "# Rooms\n\nWhich there are.\n\n- [ ] 1. Ask who has keys.\n- [ ] 2. Count them.\n"
KEYS = "# Keys\n\n- [x] 1. Cut three.\n"


class PlannedProject:
    """A project with a session that has not started, and two milestones of a person's own."""

    def __init__(self, person: Person, name: str = "Village hall") -> None:
        self.person = person
        self.session = person.make_session(name)
        self.id = self.session["project_id"]
        self.slug = person.ask("GET", f"/projects/{self.id}")["slug"]
        self.put("Pending/01-rooms.md", ROOMS)
        self.put("Current/02-keys.md", KEYS)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        return self.person.ask(method, f"/projects/{self.id}{path}", body)

    def put(self, file: str, content: str) -> None:
        self.ask("PUT", f"/plan/file?path={self.slug}/{file}", {"content": content})

    def list_plan(self) -> dict[str, str]:
        return {file["name"]: file["status"] for file in self.ask("GET", "/plan")["items"]}

    def read(self, file: str) -> str:
        url = f"{self.person.site.url}/api/v1/projects/{self.id}/file"
        headers = {"Authorization": f"Bearer {self.person.token}"}
        answer = httpx2.get(url, params={"path": f"{self.slug}/{file}"}, headers=headers)
        assert answer.is_success, answer.text
        return answer.text


@pytest.fixture
def project(anna: Person) -> PlannedProject:
    return PlannedProject(anna)


def open_project(page: Page, project: PlannedProject, tab: str = "plan") -> None:
    page.goto(f"{project.person.site.url}/projects/{project.id}#{tab}")
    expect(page.get_by_role("tab", selected=True)).to_be_visible()


def find_card(page: Page, title: str) -> Any:
    return page.locator(".milestone").filter(has=page.get_by_role("heading", name=title))


def expect_column(page: Page, title: str, column: str) -> None:
    expect(page.locator(f'[data-column="{column}"] .milestone h4', has_text=title)).to_be_visible()


def test_milestones_are_in_their_columns_with_their_steps(
    page: Page, project: PlannedProject
) -> None:
    open_project(page, project)

    expect_column(page, "Rooms", "Pending")
    expect_column(page, "Keys", "Current")
    expect(find_card(page, "Rooms")).to_contain_text("0 of 2 steps")
    expect(find_card(page, "Keys").get_by_label("Cut three.")).to_be_checked()
    expect(page.get_by_text("2 milestones, 1 of 3 steps done")).to_be_visible()


def test_a_milestone_moved_by_a_button_is_moved_in_the_files_and_can_be_taken_back(
    page: Page, project: PlannedProject
) -> None:
    open_project(page, project)
    find_card(page, "Rooms").get_by_role("button", name="Move Rooms to Current").click()

    expect_column(page, "Rooms", "Current")
    expect(find_card(page, "Rooms")).to_be_focused()
    assert project.list_plan()["01-rooms.md"] == "Current"
    assert project.read("Current/01-rooms.md") == ROOMS
    page.get_by_role("button", name="Undo").click()
    expect_column(page, "Rooms", "Pending")
    assert project.list_plan()["01-rooms.md"] == "Pending"


def test_a_milestone_is_moved_by_keys_alone(page: Page, project: PlannedProject) -> None:
    open_project(page, project)
    settle(page)
    page.keyboard.press("j")
    expect(find_card(page, "Rooms")).to_be_focused()
    page.keyboard.press("m")
    page.keyboard.press("ArrowRight")
    expect_column(page, "Rooms", "Current")
    expect(find_card(page, "Rooms")).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect_column(page, "Rooms", "Complete")
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowLeft")

    expect_column(page, "Rooms", "Complete")
    assert project.list_plan()["01-rooms.md"] == "Complete"


def test_a_milestone_is_moved_by_dragging(page: Page, project: PlannedProject) -> None:
    open_project(page, project)
    find_card(page, "Rooms").drag_to(page.locator('[data-column="Complete"]'))

    expect_column(page, "Rooms", "Complete")
    assert project.list_plan()["01-rooms.md"] == "Complete"


def test_a_ticked_step_is_ticked_in_the_file(page: Page, project: PlannedProject) -> None:
    open_project(page, project)
    card = find_card(page, "Rooms")
    card.get_by_text("Steps", exact=True).click()
    card.get_by_label("Ask who has keys.").check()
    card.get_by_label("Count them.").check()

    expect(card).to_contain_text("2 of 2 steps")
    expect(card.get_by_role("button", name="Move Rooms to Complete")).to_have_class(
        re.compile("main")
    )
    expect(page.locator("[aria-busy=true]")).to_have_count(0)
    expect(find_card(page, "Rooms")).to_contain_text("yours")
    ticked = ROOMS.replace("[ ]", "[x]")
    page.reload()
    expect(find_card(page, "Rooms")).to_contain_text("2 of 2 steps")
    assert project.read("Pending/01-rooms.md") == ticked


def test_two_tabs_and_a_program_agree_on_the_plan(
    page: Page, context: BrowserContext, project: PlannedProject
) -> None:
    other = context.new_page()
    for one in (page, other):
        open_project(one, project)
        expect_column(one, "Rooms", "Pending")

    find_card(page, "Rooms").get_by_role("button", name="Move Rooms to Current").click()
    expect_column(other, "Rooms", "Current")
    other.bring_to_front()
    find_card(other, "Rooms").get_by_label("Count them.").check()
    expect(find_card(page, "Rooms")).to_contain_text("1 of 2 steps")
    body = {"status": "Complete"}
    project.ask("POST", f"/plan/move?path={project.slug}/Current/02-keys.md", body)

    for one in (page, other):
        expect_column(one, "Keys", "Complete")


def test_a_milestone_that_changed_meanwhile_is_shown_as_it_is_now(
    page: Page, project: PlannedProject, watch: Watch
) -> None:
    watch.allow("status of 412")
    # The page does not hear of the change.
    page.route("**/api/v1/events*", lambda route: route.abort())
    watch.allow("ERR_FAILED")
    open_project(page, project)
    expect_column(page, "Rooms", "Pending")
    project.put("Pending/01-rooms.md", ROOMS.replace("# Rooms", "# All rooms"))

    find_card(page, "Rooms").get_by_role("button", name="Move Rooms to Current").click()

    expect(page.locator(".toast")).to_contain_text("changed this milestone meanwhile")
    expect_column(page, "All rooms", "Pending")


def test_a_milestone_is_read_and_changed_on_the_page(page: Page, project: PlannedProject) -> None:
    open_project(page, project)
    find_card(page, "Rooms").get_by_role("button", name="Read Rooms").click()
    dialog = page.get_by_role("dialog", name="Rooms")
    expect(dialog).to_contain_text("Which there are.")
    dialog.get_by_role("button", name="Edit").click()
    dialog.get_by_label("Text of Rooms").fill("# Halls\n\n- [ ] 1. Begin.\n")
    dialog.get_by_role("button", name="Save").click()

    expect(find_card(page, "Halls")).to_contain_text("0 of 1 step")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert project.read("Pending/01-rooms.md") == "# Halls\n\n- [ ] 1. Begin.\n"


def test_a_project_is_renamed_archived_and_restored(
    page: Page, project: PlannedProject, anna: Person
) -> None:
    open_project(page, project)
    settle(page)
    page.keyboard.press("e")
    page.get_by_label("Name of the project").fill("Town hall")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Town hall")
    expect(page.get_by_role("button", name="Rename")).to_be_focused()

    page.get_by_role("button", name="Archive").click()
    expect(page.get_by_text("This project is archived.")).to_be_visible()
    found = anna.ask("GET", f"/projects/{project.id}")
    assert (found["name"], found["status"]) == ("Town hall", "archived")
    page.get_by_role("button", name="Restore").click()
    expect(page.get_by_text("This project is archived.")).to_have_count(0)


def test_a_project_is_deleted_after_its_name_was_typed(
    page: Page, context: BrowserContext, project: PlannedProject, site: Site, watch: Watch
) -> None:
    other = context.new_page()
    open_project(other, project)
    open_project(page, project)
    page.get_by_role("button", name="Delete").click()
    dialog = page.get_by_role("dialog", name="Delete Village hall")
    dialog.get_by_role("textbox").fill("Village")
    page.keyboard.press("Enter")
    expect(dialog).to_be_visible()
    dialog.get_by_role("textbox").fill("Village hall")
    dialog.get_by_role("button", name="Delete for good").click()

    expect(page).to_have_url(f"{site.url}/")
    expect(page.locator(".toast")).to_contain_text("Village hall is deleted.")
    expect(other.get_by_role("heading", level=1)).to_have_text("This project was deleted")
    watch.allow("status of 404")
    other.reload()
    expect(other.get_by_text("Village hall")).to_have_count(0)


def test_a_project_whose_session_works_is_not_deleted_and_names_the_session(
    page: Page, project: PlannedProject, site: Site, watch: Watch
) -> None:
    watch.allow("status of 409")
    site.simulator.hold("alpha")
    project.person.start(project.session)
    open_project(page, project, "sessions")
    expect(page.locator(".session-row")).to_contain_text("of 2")
    page.get_by_role("button", name="Delete").click()
    dialog = page.get_by_role("dialog", name="Delete Village hall")
    dialog.get_by_role("textbox").fill("Village hall")
    dialog.get_by_role("button", name="Delete for good").click()

    expect(dialog.get_by_role("alert")).to_be_visible()
    expect(dialog.get_by_role("link", name="Open session")).to_have_attribute(
        "href", f"/sessions/{project.session['id']}"
    )
    site.simulator.release("alpha")


def test_a_project_without_a_session_offers_to_start_one(
    page: Page, site: Site, anna: Person
) -> None:
    made = anna.ask("POST", "/projects", {"prompt": PROMPT, "name": "Village hall"})
    page.goto(f"{site.url}/projects/{made['id']}")

    start = page.get_by_role("link", name="Start a session")
    expect(start).to_have_attribute("href", f"/new?from={made['id']}")
    start.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("of Village hall")


def test_a_text_is_given_read_and_removed(page: Page, project: PlannedProject) -> None:
    open_project(page, project, "given")
    page.get_by_role("button", name="Add a text").click()
    page.get_by_label("Name", exact=True).fill("Opening hours")
    page.get_by_label("Kind").select_option("domain_standards")
    page.get_by_label("Text", exact=True).fill("From **8** to 22.")
    page.get_by_role("button", name="Add", exact=True).click()

    row = page.locator(".given-row")
    expect(row).to_contain_text("Standards")
    row.get_by_role("button", name="opening-hours", exact=True).click()
    expect(page.get_by_role("dialog").locator("strong")).to_have_text("8")
    page.get_by_role("button", name="Close").click()
    row.get_by_role("button", name="Remove opening-hours").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(page.get_by_text("Nothing was given along")).to_be_visible()


def test_files_are_a_tree_and_can_be_downloaded_one_by_one_or_all(
    page: Page, project: PlannedProject
) -> None:
    open_project(page, project, "files")
    page.get_by_text("Pending", exact=False).first.click()
    with page.expect_download() as one:
        page.get_by_role("link", name="01-rooms.md").click()
    assert one.value.suggested_filename == "01-rooms.md"
    assert Path(one.value.path()).read_text("utf-8") == ROOMS
    with page.expect_download() as whole:
        page.get_by_role("link", name="Download all").click()
    archive = zipfile.ZipFile(io.BytesIO(Path(whole.value.path()).read_bytes()))
    assert any(name.endswith("Pending/01-rooms.md") for name in archive.namelist())


def test_a_question_finds_passages_and_is_in_the_address(
    page: Page, project: PlannedProject
) -> None:
    body = {"kind": "reference_documents", "name": "Keys", "text": "# Keys\n\nAda keeps the keys."}
    project.ask("POST", "/resources", body)
    open_project(page, project, "search")
    page.get_by_label("A question or words").fill("Who keeps the keys?")
    page.keyboard.press("Enter")

    expect(page.locator(".passage").first).to_contain_text("Ada keeps the keys.")
    link = page.locator(".passage a").first
    expect(link).to_have_attribute("href", re.compile(r"^/documents/[0-9a-f-]{36}#b-"))
    expect(page).to_have_url(re.compile(r"\?q=Who\+keeps.*#search$"))
    page.reload()
    expect(page.locator(".passage").first).to_contain_text("Ada keeps the keys.")


def test_a_token_that_may_only_read_sees_the_plan_and_no_way_to_change_it(
    open_context: Open, site: Site, anna: Person, project: PlannedProject
) -> None:
    reading = {"name": "reader", "scopes": [Scope.READ.value]}
    token = anna.ask("POST", "/tokens", reading)["token"]
    headers = {"Authorization": f"Bearer {token}"}
    answer = httpx2.post(f"{site.url}/api/v1/browser-session", headers=headers)
    name, _, rest = answer.headers["set-cookie"].partition("=")
    context = open_context()
    cookie = {"name": name, "value": rest.partition(";")[0], "url": site.url, "httpOnly": True}
    context.add_cookies([cookie])  # type: ignore[list-item]
    page = context.new_page()
    open_project(page, project)

    expect_column(page, "Rooms", "Pending")
    expect(page.get_by_text("Your token may read only")).to_be_visible()
    for label in ("Rename", "Archive", "Delete", "Move Rooms to Current"):
        expect(page.get_by_role("button", name=label)).to_have_count(0)
    expect(page.get_by_role("link", name="New session")).to_have_count(0)
    expect(find_card(page, "Keys").get_by_role("checkbox")).to_be_disabled()


@pytest.mark.sentence(59)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_on_the_project_page_in_any_state(
    open_context: Open, project: PlannedProject, anna: Person, scheme: str
) -> None:
    page = open_context(anna, color_scheme=scheme, reduced_motion="reduce").new_page()
    body = {"kind": "reference_documents", "name": "Keys", "text": "# Keys\n\nAda keeps the keys."}
    project.ask("POST", "/resources", body)
    for tab in ("plan", "sessions", "given", "files", "search"):
        open_project(page, project, tab)
        settle(page)
        if tab == "given":
            page.get_by_role("button", name="Add a text").click()
        if tab == "files":
            page.get_by_text("Pending", exact=False).first.click()
        if tab == "search":
            page.get_by_label("A question or words").fill("keys")
            page.keyboard.press("Enter")
            expect(page.locator(".passage").first).to_be_visible()
        check_axe(page)
    open_project(page, project)
    find_card(page, "Rooms").focus()
    page.keyboard.press("m")
    check_axe(page)
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    check_axe(page)


@pytest.mark.sentence(62)
@pytest.mark.parametrize("width", [390, 320])
def test_the_project_page_fits_a_phone(open_context: Open, anna: Person, width: int) -> None:
    project = PlannedProject(anna, "A very long name of a project that needs two lines of a phone")
    page = open_context(anna, viewport={**PHONE, "width": width}, has_touch=True).new_page()
    for tab in ("plan", "sessions", "given", "files", "search"):
        open_project(page, project, tab)
        settle(page)
        assert list_too_wide(page, width) == []
        small = page.evaluate(
            """() => [...document.querySelectorAll("main button, main select, main summary, main a")]
              .filter((one) => one.checkVisibility() && !one.closest("p, h3, .session-row"))
              .map((one) => [one, one.getBoundingClientRect()])
              .filter(([, box]) => box.height < 43.5 || box.width < 43.5)
              .map(([one, box]) => `${one.outerHTML.slice(0, 80)} ${box.width}x${box.height}`)"""
        )
        assert small == []


def test_a_project_that_cannot_be_loaded_says_why(
    page: Page, project: PlannedProject, watch: Watch
) -> None:
    watch.allow("status of 503")
    body = '{"code": "storage_unavailable", "detail": "Storage does not answer.", "status": 503}'

    def refuse(route: Route) -> None:
        route.fulfill(status=503, content_type="application/problem+json", body=body)

    page.route("**/plan", refuse)
    page.goto(f"{project.person.site.url}/projects/{project.id}")
    expect(page.get_by_role("alert")).to_contain_text("Storage does not answer.")

    page.unroute("**/plan")
    page.get_by_role("button", name="Try again").click()
    expect_column(page, "Rooms", "Pending")


# -- import ---------------------------------------------------------------------------------------


def export(project: PlannedProject) -> bytes:
    url = f"{project.person.site.url}/api/v1/projects/{project.id}/export"
    answer = httpx2.get(url, headers={"Authorization": f"Bearer {project.person.token}"})
    assert answer.is_success, answer.text
    return answer.content


def test_an_exported_project_is_imported_on_the_page_and_a_wrong_file_says_so(
    page: Page, project: PlannedProject, open_context: Open, watch: Watch
) -> None:
    site = project.person.site
    archive = FilePayload(name="hall.zip", mimeType="application/zip", buffer=export(project))
    broken = FilePayload(**{**archive, "buffer": archive["buffer"][:-600]})
    text = FilePayload(**{**archive, "buffer": b"just a text"})
    berta = site.add_user()
    page = open_context(berta).new_page()
    page.goto(site.url)
    page.get_by_role("button", name="Import a project").click()
    dialog = page.get_by_role("dialog", name="Import a project")
    expect(dialog.locator("#import-file")).to_be_focused()
    check_axe(page)
    send = dialog.get_by_role("button", name="Import", exact=True)

    # What is not a zip file is not sent; what is broken the server refuses; the choice stays.
    dialog.locator("#import-file").set_input_files([text])
    before = len(watch.list_paths("/api/v1/projects/import"))
    send.click()
    expect(dialog.get_by_role("alert")).to_be_visible()
    assert len(watch.list_paths("/api/v1/projects/import")) == before
    watch.allow("status of 4")
    dialog.locator("#import-file").set_input_files([broken])
    expect(dialog.get_by_role("alert")).to_have_count(0)
    send.click()
    expect(dialog.get_by_role("alert")).to_be_visible()
    assert berta.ask("GET", "/projects")["items"] == []

    dialog.locator("#import-file").set_input_files([archive])
    send.click()
    expect(page).to_have_url(re.compile(r"/projects/[0-9a-f-]{36}$"))
    expect(page.get_by_role("heading", level=1)).to_contain_text("Village hall")
    (imported,) = berta.ask("GET", "/projects")["items"]
    assert page.url.endswith(imported["id"])
    assert len(watch.list_paths("/api/v1/projects/import")) == before + 2
