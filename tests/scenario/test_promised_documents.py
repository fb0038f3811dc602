"""Promised documents are found however models write their headings, or their lack is said.

The offline models answer; a script rewrites their answers as weaker models would have written them.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

import dialectic
from dialectic.app import sessions
from dialectic.app.transaction import Tenant
from dialectic.contract.sessions import SessionDetail
from dialectic.core.documents.front_matter import split_document
from dialectic.core.models.messages import FinishReason, Reply, Request
from dialectic.core.models.model import ModelCard
from dialectic.errors import ProviderTransient
from dialectic.postgres import embedded
from dialectic.processes.loader import load_process
from dialectic.providers.base import OnText
from dialectic.providers.catalog import Catalog, build_catalog
from dialectic.publishing.publish import describe_project
from dialectic.settings import Settings
from tests.scenario.test_run import Home, copy_home
from tests.scenario.whole_session import (
    ARCHITECT,
    COUNTS,
    SKEPTIC,
    Installation,
    Record,
    open_installation,
)

STANDARD = load_process("standard")
MODELS = [ARCHITECT, SKEPTIC]
PROMISED = {
    document.heading: document
    for stage in STANDARD.order
    for document in stage.expected_output_artifacts
    if document.heading is not None
}
# How often each document is promised to two models.
EXPECTED = sum(
    len(stage.expected_output_artifacts) * COUNTS[stage.output_type] for stage in STANDARD.order
)
HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
Rewrite = Callable[[Request, str], str]


@dataclass(frozen=True, slots=True)
class RewritingProvider:
    """Answers as the offline models do, in the form that the test wants."""

    inner: Any
    rewrite: Rewrite

    async def complete(self, card: ModelCard, request: Request, on_text: OnText) -> Reply:
        reply: Reply = await self.inner.complete(card, request, on_text)
        return replace(reply, text=self.rewrite(request, reply.text))


def is_repair(request: Request) -> bool:
    return len(request.messages) > 1 and "That answer" in request.messages[-1].content[:20]


def is_of(request: Request, template: str) -> bool:
    opening = STANDARD.prompts[template].split("Domain:")[0].strip()
    return request.messages[0].content.startswith(opening)


@asynccontextmanager
async def open_rewriting(
    server: embedded.Server, template: str, home: Path, rewrite: Rewrite
) -> AsyncIterator[Installation]:
    catalog = build_catalog(Settings(home=Path("nowhere")))
    providers = {"offline": RewritingProvider(catalog.providers["offline"], rewrite)}
    chosen = Catalog(cards=catalog.cards, providers=providers)
    async with open_installation(server, template, home, chosen) as installation:
        yield installation


async def play(installation: Installation, **wishes: Any) -> tuple[Record, SessionDetail]:
    session_id = await installation.play(MODELS, **{"process": STANDARD, **wishes})
    detail = await look(installation, session_id)
    tenant_id = installation.account.tenant_id
    await describe_project(installation.engine, tenant_id, detail.session.project_id)
    return await installation.record(session_id), detail


async def look(installation: Installation, session_id: UUID) -> SessionDetail:
    return await Tenant(installation.engine, installation.account).run(
        sessions.get_detail, session_id
    )


def list_documents(record: Record) -> list[str]:
    return [row["storage_path"] for row in record.resources if row["resource_type"] == "document"]


def list_plan(record: Record) -> list[dict[str, Any]]:
    return [row for row in record.resources if row["resource_type"] == "work_item"]


def list_missing(record: Record) -> list[str]:
    flags = [flag for row in record.contributions for flag in row["flags"]]
    return sorted({flag.removeprefix("missing:") for flag in flags if flag.startswith("missing:")})


def read_readme(record: Record) -> str:
    return record.read_text("project_readme.md")


# -- other forms ----------------------------------------------------------------------------------


def number(text: str) -> str:
    places = iter(range(1, 100))
    return HEADING.sub(lambda found: f"## {next(places)}. {found[1]}", text)


def rename(text: str) -> str:
    def put(found: re.Match[str]) -> str:
        document = PROMISED.get(found[0])
        return f"## {document.synonyms[0]}" if document is not None else found[0]

    return HEADING.sub(put, text)


def underline(text: str) -> str:
    return HEADING.sub(lambda found: f"{found[1]}\n{'-' * len(found[1])}", text)


FORMS: dict[str, Callable[[str], str]] = {
    "numbered": number,
    "bold": lambda text: HEADING.sub(r"**\1**", text),
    "renamed": rename,
    "higher": lambda text: HEADING.sub(r"# \1", text),
    "with more": lambda text: HEADING.sub(r"## \1: in detail", text),
    "underlined": underline,
    "in HTML": lambda text: HEADING.sub(r"<h2>\1</h2>", text),
}


@pytest.mark.parametrize("form", FORMS)
async def test_all_promised_documents_are_found_in_headings_that_are(
    form: str, server: embedded.Server, template: str, tmp_path: Path
) -> None:
    async with open_rewriting(
        server, template, tmp_path / "home", lambda _, text: FORMS[form](text)
    ) as installation:
        record, detail = await play(installation)
    assert record.session["status"] == "iteration_complete"
    assert list_missing(record) == []
    assert len(list_documents(record)) == EXPECTED
    assert len(list_plan(record)) > 1
    assert {(plan.model_name, plan.is_lead) for plan in detail.plans} == {(ARCHITECT, True)}
    assert detail.list_warnings() == []
    assert "Warning" not in read_readme(record)


# -- left out -------------------------------------------------------------------------------------


def leave_out(heading: str, text: str) -> str:
    """Leave one section out of an answer."""
    pattern = rf"^{re.escape(heading)}\n.*?(?=^## |\Z)"
    return re.sub(pattern, "", text, flags=re.MULTILINE | re.DOTALL)


async def test_sections_that_were_left_out_are_asked_for_once_and_appended(
    server: embedded.Server, template: str, tmp_path: Path
) -> None:
    def rewrite(request: Request, text: str) -> str:
        if is_repair(request):
            return "Here it is:\n\n## Gaps\n\nNobody says who pays.\n"
        return leave_out("## Gaps", text)

    async with open_rewriting(server, template, tmp_path / "home", rewrite) as installation:
        record, detail = await play(installation, until="antithesis")
    critiques = record.select("antithesis")
    for critique in critiques:
        assert {"sections_requested:gaps", "sections_added"} <= set(critique["flags"])
        assert critique["content"].endswith("## Gaps\n\nNobody says who pays.\n")
        assert not critique["is_incomplete"]
        fields, _ = split_document(record.files[critique["storage_path"]].decode())
        assert fields["turns"] == 2
    assert list_missing(record) == []
    assert detail.list_warnings() == []
    continued = record.list_told("contribution_generation_continued")
    assert {event["reason"] for event in continued} == {"sections_requested"}
    assert len(continued) == len(critiques)
    answers = [path for path in record.files if "_antithesis/raw_responses/" in path]
    assert len(answers) == 2 * len(critiques), "each call has its record"


async def test_what_is_still_missing_is_said_in_five_places(
    server: embedded.Server, template: str, tmp_path: Path
) -> None:
    def rewrite(request: Request, text: str) -> str:
        return "I have nothing to add." if is_repair(request) else leave_out("## Gaps", text)

    async with open_rewriting(server, template, tmp_path / "home", rewrite) as installation:
        record, detail = await play(installation, until="antithesis")
    assert record.session["status"] == "antithesis_generation_complete"
    critiques = record.select("antithesis")
    for critique in critiques:
        assert "missing:gaps" in critique["flags"]
    lines = [one for one in detail.contributions if one.stage == "antithesis"]
    assert {tuple(one.missing) for one in lines} == {("gaps",)}
    told = record.list_told("contribution_documents_missing")
    assert {event["contribution_id"] for event in told} == {str(c["id"]) for c in critiques}
    assert {tuple(event["missing"]) for event in told} == {("gaps",)}
    warning = f"{len(critiques)} of 6 documents lack promised sections (antithesis: gaps)."
    assert detail.list_warnings() == [warning]
    readme = read_readme(record)
    assert "**Warning:** " in readme
    assert readme.count("(without gaps)") == len(critiques)


async def test_a_process_may_turn_the_repair_off(
    server: embedded.Server, template: str, tmp_path: Path
) -> None:
    asked: list[Request] = []

    def rewrite(request: Request, text: str) -> str:
        asked.append(request)
        return leave_out("## Success metrics", text)

    folder = tmp_path / "plain"
    copy_process(folder)
    async with open_rewriting(server, template, tmp_path / "home", rewrite) as installation:
        record, detail = await play(installation, until="thesis", process=str(folder))
    assert not any(is_repair(request) for request in asked)
    assert list_missing(record) == ["success_metrics"]
    assert len(detail.list_warnings()) == 1


def copy_process(folder: Path) -> None:
    """Copy the standard process without its repair prompt."""
    shipped = Path(dialectic.__file__).parent / "processes" / "standard"
    shutil.copytree(shipped, folder)
    file = folder / "process.toml"
    file.write_text(file.read_text().replace('repair_prompt_name = "repair"\n', ""))


async def test_a_repair_that_fails_for_good_costs_the_sections_not_the_document(
    server: embedded.Server, template: str, tmp_path: Path
) -> None:
    def rewrite(request: Request, text: str) -> str:
        if is_repair(request):
            raise ProviderTransient("The server is down.")
        return leave_out("## Success metrics", text)

    async with open_rewriting(server, template, tmp_path / "home", rewrite) as installation:
        session_id = await installation.create(MODELS, until="thesis", process=STANDARD)
        await installation.admin.execute("update dialectic_sessions set max_retries = 0")
        tenant = Tenant(installation.engine, installation.account)
        await tenant.run(sessions.generate, session_id)
        await installation.work(session_id)
        record = await installation.record(session_id)
        held = "select * from token_wallet_holds where state = 'pending'"
        left = await installation.fetch(held)
    assert {job["status"] for job in record.jobs} == {"completed"}
    assert list_missing(record) == ["success_metrics"]
    assert left == []


# -- the plan -------------------------------------------------------------------------------------


async def test_where_the_lead_has_no_checklist_the_next_models_fills_pending(
    server: embedded.Server, template: str, tmp_path: Path
) -> None:
    def rewrite(request: Request, text: str) -> str:
        if request.model != SKEPTIC or not is_of(request, "paralysis"):
            return text
        return "No." if is_repair(request) else leave_out("## Actionable checklist", text)

    async with open_rewriting(server, template, tmp_path / "home", rewrite) as installation:
        record, detail = await play(installation, lead=SKEPTIC)
    by_model = {row["model_name"]: row for row in record.select("paralysis")}
    plan = list_plan(record)
    assert plan
    assert {row["source_contribution_id"] for row in plan} == {by_model[ARCHITECT]["id"]}
    assert all(row["storage_path"] in record.files for row in plan)
    (told,) = record.list_told("plan_taken_from_another_model")
    assert told["model_name"] == ARCHITECT
    said = f"The lead wrote no checklist in stage paralysis. Pending/ has that of {ARCHITECT}."
    assert said in detail.list_warnings()
    assert "The lead wrote no checklist in stage paralysis" in read_readme(record)


async def test_where_no_model_has_a_checklist_that_is_said(
    server: embedded.Server, template: str, tmp_path: Path
) -> None:
    def rewrite(request: Request, text: str) -> str:
        if not is_of(request, "paralysis"):
            return text
        return "No." if is_repair(request) else leave_out("## Actionable checklist", text)

    async with open_rewriting(server, template, tmp_path / "home", rewrite) as installation:
        record, detail = await play(installation)
    assert list_plan(record) == []
    said = "No model wrote a checklist in stage paralysis, so Pending/ has no plan."
    assert said in detail.list_warnings()
    assert said in read_readme(record)


# -- copies and echoes ----------------------------------------------------------------------------


def read_thesis(request: Request) -> str:
    found = re.search(
        r"<<<BEGIN Thesis \w+ \[(\w+)\]>>>\n(.*?)\n<<<END \[\1\]>>>",
        request.messages[0].content,
        re.DOTALL,
    )
    assert found is not None
    return found[2]


@pytest.mark.parametrize("is_stubborn", [False, True])
async def test_a_critique_that_is_its_thesis_is_asked_for_again_once(
    server: embedded.Server, template: str, tmp_path: Path, is_stubborn: bool
) -> None:
    def rewrite(request: Request, text: str) -> str:
        if not is_of(request, "antithesis_critique"):
            return text
        if is_repair(request) and not is_stubborn:
            headings = ["## Critique", "## Feasibility", "## Risks", "## Gaps"]
            return "\n\n".join(f"{heading}\n\nMy own view." for heading in headings)
        return read_thesis(request)

    async with open_rewriting(server, template, tmp_path / "home", rewrite) as installation:
        record, detail = await play(installation, until="antithesis")
    critiques = record.select("antithesis")
    for critique in critiques:
        assert any(flag.startswith("rewrite_requested:Thesis ") for flag in critique["flags"])
        assert ("copy_of_input" in critique["flags"]) is is_stubborn
        assert ("My own view." in critique["content"]) is not is_stubborn
    assert any("repeat an input" in warning for warning in detail.list_warnings()) is is_stubborn
    assert ("repeats an input" in read_readme(record)) is is_stubborn


async def test_an_echo_of_our_own_marks_is_cut_and_flagged(
    server: embedded.Server, template: str, tmp_path: Path
) -> None:
    def rewrite(request: Request, text: str) -> str:
        opening = request.messages[0].content
        return opening[opening.index("<<<BEGIN") : opening.index("]>>>") + 4] + "\n" + text

    async with open_rewriting(server, template, tmp_path / "home", rewrite) as installation:
        record, _ = await play(installation, until="thesis")
    for thesis in record.select("thesis"):
        assert "<<<" not in thesis["content"]
        assert "echo_removed" in thesis["flags"]
        raw = record.files[thesis["raw_response_storage_path"]].decode()
        assert raw, "the record has the whole answer"


async def test_a_heading_at_a_seam_is_found(
    server: embedded.Server, template: str, tmp_path: Path
) -> None:
    """The first turn stops within a line, and the second begins with a heading."""

    class Cutting(RewritingProvider):
        async def complete(self, card: ModelCard, request: Request, on_text: OnText) -> Reply:
            reply: Reply = await self.inner.complete(
                card, replace(request, messages=request.messages[:1]), on_text
            )
            before, after = reply.text.split("\n\n## Technical approach", 1)
            if len(request.messages) == 1:
                return replace(reply, text=before, finish_reason=FinishReason.LENGTH)
            return replace(reply, text=f"## Technical approach{after}")

    catalog = build_catalog(Settings(home=Path("nowhere")))
    providers = {"offline": Cutting(catalog.providers["offline"], lambda _, text: text)}
    chosen = Catalog(cards=catalog.cards, providers=providers)
    async with open_installation(server, template, tmp_path / "home", chosen) as installation:
        record, _ = await play(installation, until="thesis")
    for thesis in record.select("thesis"):
        assert "\n\n## Technical approach\n" in thesis["content"]
    assert list_missing(record) == []


# -- commands -------------------------------------------------------------------------------------

CUT = ("run", "A hall.", "--models", ARCHITECT, "--until", "thesis", "--max-output-tokens", "40")


@pytest.fixture(scope="module")
def home(made_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    with copy_home(made_home, tmp_path_factory.mktemp("promised") / "home") as opened:
        yield opened


def test_a_run_with_an_incomplete_document_ends_with_a_warning_and_strictly_with_1(
    home: Home,
) -> None:
    result = home.tell(*CUT, "--no-continue")
    assert result.code == 0
    assert "Warning: 1 of 1 document is incomplete (thesis)." in result.stderr
    assert "lacks promised sections (thesis: " in result.stderr
    assert home.tell(*CUT, "--no-continue", "--strict").code == 1


def test_status_list_and_the_readme_say_what_is_missing(home: Home, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = home.tell(*CUT, "--no-continue", "--out", str(out))
    session = result.stderr.split("Session ", 1)[1].split()[0]
    status = home.tell("status", session)
    assert "Warning   1 of 1 document lacks promised sections" in status.stdout
    assert "Warning   1 of 1 document is incomplete" in status.stdout
    listed = home.tell("list", session)
    assert "Warning: 1 of 1 document is incomplete" in listed.stderr
    (row,) = home.read_status(session)["contributions"]
    assert "success_metrics" in row["missing"]
    (readme,) = out.glob("*/project_readme.md")
    assert "**Warning:** 1 of 1 document is incomplete" in readme.read_text()
    watched = home.tell("watch", session, "--strict")
    assert (watched.code, "Warning: " in watched.stderr) == (1, True)


def test_a_whole_run_warns_of_nothing(home: Home) -> None:
    result = home.tell("run", "A hall.", "--models", ARCHITECT, "--until", "thesis", "--strict")
    assert result.code == 0
    assert "Warning" not in result.stderr
