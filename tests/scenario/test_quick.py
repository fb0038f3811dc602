"""The quick process: few calls, the lead alone merges, and its documents get a second look."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from dialectic.app import seats, sessions
from dialectic.app.session_quotes import quote_session
from dialectic.app.transaction import Tenant
from dialectic.core.documents.front_matter import split_document
from dialectic.core.models.messages import Request
from dialectic.ledger.audit import verify_tenant
from dialectic.pipeline.assemble import PASSED_OVER
from dialectic.postgres import embedded
from dialectic.processes.loader import load_process
from tests.scenario.test_run import Home, copy_home, read_project, without_ids
from tests.scenario.whole_session import (
    ARCHITECT,
    PRAGMATIST,
    PROMPT,
    SKEPTIC,
    Installation,
    Record,
    build_refusing_catalog,
    open_installation,
)

QUICK = load_process("quick")
MODELS = [ARCHITECT, PRAGMATIST, SKEPTIC]
COUNTS = {"thesis": 3, "antithesis": 3, "synthesis": 1, "parenthesis": 1, "paralysis": 1}


class Refusals:
    """Which requests are refused now."""

    def __init__(self) -> None:
        self.refuses: Callable[[Request], bool] = lambda _: False


@pytest.fixture
def refusals() -> Refusals:
    return Refusals()


@pytest.fixture
async def installation(
    server: embedded.Server, template: str, tmp_path: Path, refusals: Refusals
) -> AsyncIterator[Installation]:
    catalog, _ = build_refusing_catalog(lambda request: refusals.refuses(request))
    async with open_installation(server, template, tmp_path / "home", catalog) as opened:
        yield opened


async def act(installation: Installation, action: Any, session_id: UUID, *args: Any) -> Any:
    return await Tenant(installation.engine, installation.account).run(action, session_id, *args)


async def count_holds(installation: Installation, session_id: UUID) -> Counter[str]:
    rows = await installation.fetch(
        "select purpose from token_wallet_holds where session_id = $1 and state = 'posted'",
        session_id,
    )
    return Counter(row["purpose"] for row in rows)


def read_fields(record: Record, kind: str) -> dict[str, Any]:
    (row,) = record.select(kind)
    fields, _ = split_document(record.files[row["storage_path"]].decode())
    return dict(fields)


def check_ended(record: Record) -> None:
    assert record.session["status"] == "iteration_complete"
    for run in record.stages:
        assert (run["status"], run["finished_units"]) == ("complete", run["planned_units"])


def count_tokens(record: Record) -> int:
    return sum(row["tokens_used_input"] + row["tokens_used_output"] for row in record.contributions)


async def test_three_models_make_nine_calls_and_two_looks_for_a_fifth_of_the_tokens(
    installation: Installation,
) -> None:
    session_id = await installation.play(MODELS, process=QUICK, lead=PRAGMATIST)
    record = await installation.record(session_id)
    check_ended(record)
    assert Counter(row["contribution_type"] for row in record.contributions) == COUNTS
    made = {row["contribution_type"]: row["model_index"] for row in record.contributions}
    assert {made[kind] for kind in ("synthesis", "parenthesis", "paralysis")} == {2}
    assert await count_holds(installation, session_id) == {"call": 9, "look": 2}
    for kind in ("synthesis", "paralysis"):
        assert "omissions" in read_fields(record, kind)["second_look"]
        assert read_fields(record, kind)["turns"] == 2
    assert any(path.startswith(f"{record.slug}/Pending/") for path in record.files)
    expected = {d.key for stage in QUICK.order for d in stage.expected_output_artifacts}
    found = {row["document_key"] for row in record.resources if row["resource_type"] == "document"}
    assert found == expected
    tenant = Tenant(installation.engine, installation.account)
    quote = await quote_session(tenant.engine, tenant.account, session_id)
    assert quote.rest.lines == ()
    standard = await installation.record(
        await installation.play(MODELS, process="standard", name="standard")
    )
    assert count_tokens(record) <= 0.20 * count_tokens(standard)
    assert await verify_tenant(installation.engine.db, installation.account.tenant_id) == []


async def test_one_model_criticises_itself_and_merges_what_it_has(
    installation: Installation,
) -> None:
    record = await installation.record(await installation.play([SKEPTIC], process=QUICK))
    check_ended(record)
    assert Counter(row["contribution_type"] for row in record.contributions) == dict.fromkeys(
        COUNTS, 1
    )
    assert "self_critique" in read_fields(record, "antithesis")["flags"]


async def test_a_look_that_is_refused_leaves_a_finished_document_with_a_flag(
    installation: Installation, refusals: Refusals
) -> None:
    refusals.refuses = lambda request: PASSED_OVER in request.messages[0].content
    session_id = await installation.play([SKEPTIC], process=QUICK)
    record = await installation.record(session_id)
    check_ended(record)
    for kind in ("synthesis", "paralysis"):
        fields = read_fields(record, kind)
        assert "look_unread" in fields["flags"]
        assert "second_look" not in fields
        assert not fields["incomplete"]
    assert (await count_holds(installation, session_id))["look"] == 0


async def test_if_the_lead_dies_early_the_next_seat_makes_what_the_lead_alone_makes(
    installation: Installation, refusals: Refusals
) -> None:
    refusals.refuses = lambda request: request.model == ARCHITECT
    record = await installation.record(await installation.play(MODELS, process=QUICK))
    check_ended(record)
    made = {row["contribution_type"]: row["model_index"] for row in record.contributions}
    assert {made[kind] for kind in ("synthesis", "parenthesis", "paralysis")} == {2}
    runs = {run["stage_slug"]: run for run in record.stages}
    assert (runs["thesis"]["seats"], runs["thesis"]["lost_seats"]) == ([1, 2, 3], [1])
    assert (runs["paralysis"]["seats"], runs["paralysis"]["lost_seats"]) == ([2], [])
    (row,) = record.select("paralysis")
    assert row["storage_path"].endswith("/offline-pragmatist_1_paralysis.md")
    assert any(path.startswith(f"{record.slug}/Pending/") for path in record.files)


async def test_if_the_lead_fails_at_its_own_stage_it_can_be_dropped_and_the_next_seat_does_it(
    installation: Installation, refusals: Refusals
) -> None:
    opening = QUICK.prompts["synthesis_final"].partition("\n\n")[2][:60]
    refusals.refuses = lambda request: (
        request.model == ARCHITECT and opening in request.messages[0].content
    )
    session_id = await installation.play(MODELS, process=QUICK)
    record = await installation.record(session_id)
    assert record.session["status"] == "synthesis_generation_failed"
    await act(installation, seats.drop, session_id, 1)
    await installation.work(session_id)
    record = await installation.record(session_id)
    check_ended(record)
    assert {row["model_index"] for row in record.select("synthesis")} == {2}
    assert {row["model_index"] for row in record.select("thesis")} == {1, 2, 3}


async def test_between_stages_another_lead_makes_the_next_stage(
    installation: Installation,
) -> None:
    session_id = await installation.play(MODELS, process=QUICK, until="antithesis")
    await act(installation, seats.drop, session_id, 1)
    await act(installation, sessions.start_next, session_id)
    await installation.work(session_id)
    record = await installation.record(session_id)
    assert {row["model_index"] for row in record.select("synthesis")} == {2}


# -- deaths ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def home(made_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    with copy_home(made_home, tmp_path_factory.mktemp("quick") / "home") as opened:
        yield opened


RUN = ("run", "--process", "quick", "--models", SKEPTIC, "--until", "synthesis")


def read_looks(home: Home, session: str) -> list[tuple[str, int]]:
    result = home.tell("wallet", "costs", session, "--json")
    assert result.code == 0, result.stderr
    rows = json.loads(result.stdout)["costs"]
    return sorted((row["purpose"], row["calls"]) for row in rows)


DERIVED = ("/raw_responses/", "/provenance/", "/coverage.", "/dissent.md")


def read_documents(home: Home, name: str, session: str) -> dict[str, bytes]:
    """Read the documents of a session.

    Records also tell the limits that were learned by then, and reports name documents by their ids.
    """
    files = without_ids(read_project(home, name), name, session)
    return {
        path: data
        for path, data in files.items()
        if "/session_" in path and not any(part in path for part in DERIVED)
    }


@pytest.fixture(scope="module")
def undisturbed(home: Home) -> tuple[dict[str, bytes], str]:
    result = home.tell(*RUN, "--name", "undisturbed", PROMPT)
    assert result.code == 0, result.stderr
    return read_documents(home, "undisturbed", result.session), result.session


@pytest.mark.parametrize(
    "point",
    # The look is the fourth call; its commit is the fifth.
    ["before_send=kill@4", "after_reply=kill@4", "before_commit=kill@5", "after_commit=kill@4"],
)
def test_a_run_that_is_killed_around_a_look_leaves_the_same_bytes_and_pays_it_once(
    home: Home, undisturbed: tuple[dict[str, bytes], str], point: str
) -> None:
    name = f"killed-{point.partition('=')[0].replace('_', '-')}"
    killed = home.tell(*RUN, "--name", name, PROMPT, failpoints=point)
    assert killed.code == -signal.SIGKILL
    resumed = home.tell("resume", killed.session)
    assert resumed.code == 0, resumed.stderr
    files, session = undisturbed
    assert read_documents(home, name, killed.session) == files
    assert read_looks(home, killed.session) == read_looks(home, session)
    assert ("look", 1) in read_looks(home, session)


def test_an_exported_quick_session_is_imported_with_its_process_and_its_looks(
    home: Home, undisturbed: tuple[dict[str, bytes], str], tmp_path: Path
) -> None:
    bundle = tmp_path / "quick.zip"
    assert home.tell("export", "undisturbed", "--out", str(bundle)).code == 0
    assert home.tell("delete", "undisturbed", "--yes").code == 0
    imported = home.tell("import", str(bundle))
    assert imported.code == 0, imported.stderr
    _, session = undisturbed
    again = home.tell("next", session)
    assert again.code == 0, again.stderr
    assert home.read_status(session)["contributions"][-1]["stage"] == "parenthesis"
