"""A finished iteration leaves one plan to read: in storage, in copies and exports, at a terminal.

The blind reader knows the documents of the lead and compares: nothing is lost, nothing invented.
"""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from dialectic.core.documents.front_matter import read_body
from dialectic.core.documents.offline_notice import BY_OFFLINE_MODELS, ENGLISH_ONLY
from dialectic.postgres import embedded
from tests.scenario.test_promised_documents import FORMS, HEADING, open_rewriting, play
from tests.scenario.test_run import Home, copy_home
from tests.scenario.whole_session import ARCHITECT, Record
from tests.unit.core.documents.blind_reader import lacks, list_invented
from tests.waiting import PATIENCE_S

ITEMS = {
    "milestones": re.compile(r"^### (Milestone .+)$", re.MULTILINE),
    "questions": re.compile(r"^\d+\. (.+\?.*Assumed here.*)$", re.MULTILINE),
    "differences": re.compile(r"^- (On .+ stands against .+)$", re.MULTILINE),
    "dropped": re.compile(r"^- (.+ Rejected: .+|Left out: .+)$", re.MULTILINE),
}
LATER = ("synthesis", "parenthesis", "paralysis")


def list_texts(record: Record, *, lead_only: bool) -> list[str]:
    return [
        row["content"]
        for row in record.contributions
        if row["stage"] in LATER
        and not row["is_intermediate"]
        and (row["model_name"] == ARCHITECT or not lead_only)
    ]


def list_named(texts: list[str], kinds: tuple[str, ...] = tuple(ITEMS)) -> list[str]:
    return [item for kind in kinds for text in texts for item in ITEMS[kind].findall(text)]


@pytest.mark.parametrize("form", ["as asked", *FORMS])
async def test_a_blind_reader_misses_nothing_and_finds_nothing_invented_in_headings_that_are(
    form: str, server: embedded.Server, template: str, tmp_path: Path
) -> None:
    rewrite = FORMS.get(form, str)
    async with open_rewriting(
        server, template, tmp_path / "home", lambda _, text: rewrite(text)
    ) as installation:
        record, _ = await play(installation)
    page = record.read_text("PLAN.md")
    named = list_named(list_texts(record, lead_only=True))
    assert len(named) > 10
    assert lacks(page, named) == []
    assert list(list_invented(page, list_texts(record, lead_only=False))) == []


def drop(*titles: str) -> Callable[[str], str]:
    """Write an answer without some of its sections."""

    def rewrite(text: str) -> str:
        parts = re.split(r"(?=^## )", text, flags=re.MULTILINE)
        return "".join(part for part in parts if not part.startswith(titles))

    return rewrite


async def test_sections_that_models_leave_out_are_said_to_be_missing(
    server: embedded.Server, template: str, tmp_path: Path
) -> None:
    rewrite = drop("## Open questions", "## Rejected", "## Milestones", "## Master plan")
    async with open_rewriting(
        server, template, tmp_path / "home", lambda _, text: rewrite(text)
    ) as installation:
        record, _ = await play(installation)
    page = record.read_text("PLAN.md")
    assert "- Not found in any document: questions, dropped." in page
    assert "of this kind (questions)" in page
    texts = list_texts(record, lead_only=True)
    assert lacks(page, list_named(texts, ("milestones", "differences"))) == []
    assert list(list_invented(page, list_texts(record, lead_only=False))) == []


async def test_answers_without_any_heading_still_make_a_page_that_says_what_it_lacks(
    server: embedded.Server, template: str, tmp_path: Path
) -> None:
    async with open_rewriting(
        server, template, tmp_path / "home", lambda _, text: HEADING.sub("", text)
    ) as installation:
        record, _ = await play(installation)
    page = record.read_text("PLAN.md")
    assert "- Not found in any document: requirements, architecture" in page
    assert "- Shortcoming: " in page


# -- through the commands --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("copies")


@pytest.fixture(scope="module")
def home(made_home: Path, out: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A home with a finished session of two offline models, and a copy of it."""
    with copy_home(made_home, tmp_path_factory.mktemp("finished") / "home") as opened:
        run = opened.tell(
            *("run", "A village hall that volunteers can run.", "--name", "hall"),
            *("--models", "offline/architect,offline/skeptic", "--out", str(out)),
        )
        assert run.code == 0, run.stderr
        assert BY_OFFLINE_MODELS in run.stderr
        assert f"Plan: {out / 'hall/PLAN.md'}" in run.stderr
        yield opened


def get_stored(home: Home, name: str = "hall") -> Path:
    (tenant,) = (path for path in (home.path / "storage").iterdir() if path.is_dir())
    return tenant / name


def get_session(home: Home) -> str:
    (folder,) = get_stored(home).glob("session_*")
    return folder.name.removeprefix("session_")


def test_storage_the_copy_the_export_and_show_have_the_same_page(
    home: Home, out: Path, tmp_path: Path
) -> None:
    page = (get_stored(home) / "PLAN.md").read_text()
    assert (out / "hall/PLAN.md").read_text() == page
    assert home.tell("show", get_session(home)).stdout == page
    assert home.tell("export", "hall", "--out", str(tmp_path / "hall.zip")).code == 0
    with zipfile.ZipFile(tmp_path / "hall.zip") as archive:
        assert archive.read("hall/PLAN.md").decode() == page
    inner = re.findall(r"\]\(([^)]+)\)", page)
    assert inner
    assert all((get_stored(home) / path).is_file() for path in inner)


def test_the_readme_leads_to_the_page_first(home: Home) -> None:
    readme = (get_stored(home) / "project_readme.md").read_text()
    assert readme.index("**Begin with [PLAN.md](PLAN.md)**") < readme.index("## Request")
    stages = re.findall(r"^### Iteration 1, (\w+)", readme, re.MULTILINE)
    order = ["reports", "paralysis", "parenthesis", "synthesis", "antithesis", "thesis"]
    assert stages == order
    assert readme.index("## Work files") > readme.rindex("### Iteration")


def test_a_changed_page_stays_and_its_newer_version_is_written_next_to_it(
    home: Home, tmp_path: Path
) -> None:
    home.tell("export", "hall", "--out", str(tmp_path / "before.zip"))
    copy = json.loads(home.tell("import", str(tmp_path / "before.zip"), "--json").stdout)
    stored, mine = Path(copy["path"]), "# Mine\n"
    (stored / "PLAN.md").write_text(mine)
    rows = json.loads(home.tell("list", copy["sessions"][0], "--json").stdout)
    lead = next(r for r in rows if r["stage"] == "synthesis" and "architect" in r["storage_path"])
    text = home.tell("show", lead["id"]).stdout.replace("Assumed here", "Taken as given")
    (tmp_path / "edited.md").write_text(text)
    assert home.tell("edit", lead["id"], "--file", str(tmp_path / "edited.md")).code == 0
    assert (stored / "PLAN.md").read_text() == mine
    assert "Taken as given" in (stored / "PLAN-v2.md").read_text()
    assert ", edited by a person" in (stored / "PLAN-v2.md").read_text()
    readme = (stored / "project_readme.md").read_text()
    assert "**Begin with [PLAN-v2.md](PLAN-v2.md)**" in readme
    assert "Earlier versions, which you have changed: [PLAN.md](PLAN.md)" in readme
    exported = home.tell("export", copy["project"], "--out", str(tmp_path / "after.zip"))
    assert exported.code == 0, exported.stderr
    with zipfile.ZipFile(tmp_path / "after.zip") as archive:
        assert archive.read(f"{copy['project']}/PLAN.md").decode() == mine


def test_an_imported_page_keeps_what_the_work_has_cost(
    home: Home, made_home: Path, tmp_path: Path
) -> None:
    page = (get_stored(home) / "PLAN.md").read_text()
    (cost,) = re.findall(r"Cost of the session: (play .+)\.", page)
    home.tell("export", "hall", "--out", str(tmp_path / "hall.zip"))
    with copy_home(made_home, tmp_path / "other") as other:
        assert other.tell("import", str(tmp_path / "hall.zip")).code == 0
        assert (get_stored(other) / "PLAN.md").read_text() == page
        # A second copy has other folders, so its page has other links.
        again = json.loads(other.tell("import", str(tmp_path / "hall.zip"), "--json").stdout)
        copied = Path(again["path"], "PLAN.md").read_text()
        assert cost in copied
        inner = re.findall(r"\]\(([^)]+)\)", copied)
        assert all(Path(again["path"], path).is_file() for path in inner)


def test_a_session_without_a_finished_iteration_shows_its_progress(home: Home) -> None:
    run = home.tell("run", "A barn.", "--models", "offline/skeptic", "--until", "thesis")
    shown = home.tell("show", run.session)
    assert "has no plan yet" in shown.stderr
    assert "thesis" in shown.stdout


def test_every_file_that_offline_models_wrote_says_so_first(home: Home) -> None:
    stored = get_stored(home)
    silent = [
        str(path.relative_to(stored))
        for path in stored.rglob("*.md")
        if path.name not in ("README.md", "seed_prompt.md", "hall.md")
        and "offline model" not in " ".join(path.read_text().split("\n")[:24])[:1_200]
    ]
    assert silent == []
    assert "offline model" in read_body((stored / "PLAN.md").read_text())[:300]


def test_a_plan_for_a_request_in_german_says_that_offline_models_write_english(home: Home) -> None:
    run = home.tell(
        *("run", "Ein Fest für das Quartier, das ohne Streit und mit wenig Geld gelingt."),
        *("--name", "fest", "--models", "offline/skeptic"),
    )
    page = (get_stored(home, "fest") / "PLAN.md").read_text()
    assert ENGLISH_ONLY in page.split("\n## ")[0]
    assert run.code == 0


def test_a_project_called_plan_keeps_its_request_and_its_plan_apart(
    home: Home, made_home: Path, tmp_path: Path
) -> None:
    run = home.tell("run", "Plan.", "--name", "Plan", "--models", "offline/skeptic")
    assert run.code == 0, run.stderr
    names = {path.name for path in (get_stored(home, "plan")).iterdir()}
    assert {"PLAN.md", "plan-request.md"} <= names
    assert home.tell("export", run.session, "--out", str(tmp_path / "plan.zip")).code == 0
    with copy_home(made_home, tmp_path / "other") as other:
        assert other.tell("import", str(tmp_path / "plan.zip")).code == 0


# -- the report ------------------------------------------------------------------------------------


class Tags(HTMLParser):
    """Every tag of a page, with its attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def read_tags(page: str) -> list[tuple[str, dict[str, str | None]]]:
    parser = Tags()
    parser.feed(page)
    return parser.found


def test_the_report_is_one_file_that_asks_for_nothing(home: Home, tmp_path: Path) -> None:
    session, out = get_session(home), tmp_path / "hall.html"
    result = home.tell("report", session, "--out", str(out), "--json")
    assert result.code == 0, result.stderr
    assert json.loads(result.stdout)["size_bytes"] == out.stat().st_size
    tags = read_tags(out.read_text())
    assert not {"script", "link", "img", "iframe", "object", "form"} & {tag for tag, _ in tags}
    assert not any("src" in attributes or "style" in attributes for _, attributes in tags)
    anchors = {attributes["id"] for _, attributes in tags if "id" in attributes}
    links = [str(attributes["href"]) for tag, attributes in tags if tag == "a"]
    assert all(link.removeprefix("#") in anchors for link in links)
    rows = json.loads(home.tell("list", session, "--all", "--json").stdout)
    assert {f"document-{row['id']}" for row in rows} <= anchors
    page = out.read_text()
    assert BY_OFFLINE_MODELS in page
    assert "default-src &#x27;none&#x27;" in page or "default-src 'none'" in page
    # Again gives the same bytes, and replaces only a report.
    before = out.read_bytes()
    assert home.tell("report", session, "--out", str(out)).code == 0
    assert out.read_bytes() == before
    out.write_text("mine")
    refused = home.tell("report", session, "--out", str(out))
    assert (refused.code, out.read_text()) == (2, "mine")


def run_at_terminal(home: Home, words: list[str], columns: int) -> str:
    """Run a command whose output is a terminal, to its end."""
    reader, writer = pty.openpty()
    environment = {**home.build_environment({}), "COLUMNS": str(columns), "LINES": "50"}
    with subprocess.Popen(
        [sys.executable, "-m", "dialectic", *words],
        stdin=subprocess.DEVNULL,
        stdout=writer,
        stderr=subprocess.DEVNULL,
        env=environment,
    ) as process:
        os.close(writer)
        parts = list[bytes]()
        # On Linux the end of a terminal is an error.
        with contextlib.suppress(OSError):
            while part := os.read(reader, 65_536):
                parts.append(part)
        os.close(reader)
        assert process.wait(PATIENCE_S) == 0
    return b"".join(parts).decode()


def test_a_terminal_gets_the_plan_rendered_within_its_width(home: Home) -> None:
    for columns in (40, 80, 200):
        shown = run_at_terminal(home, ["show", get_session(home)], columns=columns)
        lines = [re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", line) for line in shown.splitlines()]
        assert any("Decision" in line for line in lines)
        assert max(map(len, lines)) <= columns
        assert not any("](session_" in line or line.startswith("## ") for line in lines)
