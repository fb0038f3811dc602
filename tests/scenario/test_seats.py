"""Seats: several of one model, one that dies, one that is dropped or replaced, others that join."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from dialectic.app import seats, sessions
from dialectic.app.session_quotes import quote_session
from dialectic.app.transaction import Tenant
from dialectic.contract.sessions import Session, SessionChange
from dialectic.core.documents.front_matter import split_document
from dialectic.core.models.messages import Request
from dialectic.errors import Conflict, UsageError
from dialectic.postgres import embedded
from dialectic.processes.loader import load_process
from dialectic.publishing.publish import describe_project
from tests.problems import refusing
from tests.scenario.whole_session import (
    ARCHITECT,
    COUNTS,
    PRAGMATIST,
    SKEPTIC,
    Installation,
    Record,
    build_refusing_catalog,
    open_installation,
)

STANDARD = load_process("standard")
MODELS = [ARCHITECT, PRAGMATIST, SKEPTIC]
# The template of each stage in which a model may die, and the stage.
TEMPLATES = {
    "thesis": "thesis",
    "antithesis_critique": "antithesis",
    "synthesis_pairwise": "synthesis",
    "synthesis_reduce": "synthesis",
    "synthesis_final": "synthesis",
    "parenthesis": "parenthesis",
    "paralysis": "paralysis",
}
ORDER = [stage.slug for stage in STANDARD.order]


class Refusals:
    """Which requests are refused now."""

    def __init__(self) -> None:
        self.refuses: Callable[[Request], bool] = lambda _: False

    def kill(self, *models: str, since: str = "thesis") -> None:
        """Let models refuse the requests of a template, and of all later ones."""
        names = list(TEMPLATES)
        openings = [
            STANDARD.prompts[name].split("Domain:")[0].strip()
            for name in names[names.index(since) :]
        ]

        def refuses(request: Request) -> bool:
            sent = request.messages[0].content
            return request.model in models and any(sent.startswith(o) for o in openings)

        self.refuses = refuses


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


async def get(installation: Installation, session_id: UUID) -> Session:
    found: Session = await act(installation, sessions.get, session_id)
    return found


def list_writers(record: Record, stage: str) -> set[int]:
    return {row["model_index"] for row in record.contributions if row["stage"] == stage}


def check_ended(record: Record) -> None:
    assert record.session["status"] == "iteration_complete"
    for run in record.stages:
        assert (run["status"], run["finished_units"]) == ("complete", run["planned_units"])
    paths = [row["storage_path"] for row in record.contributions]
    assert len(set(paths)) == len(paths)


# -- several seats of one model -------------------------------------------------------------------


async def test_three_seats_of_one_model_write_three_theses_with_three_angles(
    installation: Installation,
) -> None:
    session_id = await installation.play([SKEPTIC] * 3, until="antithesis")
    record = await installation.record(session_id)
    theses = sorted(record.select("thesis"), key=lambda row: row["model_index"])
    assert len({row["content"] for row in theses}) == 3
    angles = STANDARD.file.seats
    for row, angle in zip(theses, angles[:3], strict=True):
        assert angle.stance in record.read_prompt(row)
        assert record.read_request(row)["temperature"] == angle.temperature
        fields, _ = split_document(record.files[row["storage_path"]].decode())
        assert (fields["seat"], fields["angle"]) == (row["model_index"], angle.name)
    names = [row["storage_path"].rsplit("/", 1)[-1] for row in theses]
    assert names == [f"offline-skeptic-{n}_1_thesis.md" for n in (1, 2, 3)]
    critiques = {row["storage_path"].rsplit("/", 1)[-1] for row in record.select("antithesis")}
    assert "offline-skeptic-2_critiquing_offline-skeptic-1_1_antithesis.md" in critiques
    assert len(critiques) == 9
    seated = (await get(installation, session_id)).seats
    assert [(one.seat, one.angle) for one in seated] == [
        (n, angle.name) for n, angle in enumerate(angles[:3], start=1)
    ]


async def test_a_model_with_one_seat_has_neither_angle_nor_number(
    installation: Installation,
) -> None:
    record = await installation.record(await installation.play(MODELS, until="thesis"))
    for row in record.select("thesis"):
        assert "Your angle" not in record.read_prompt(row)
        assert record.read_request(row)["temperature"] is None
    names = {row["storage_path"].rsplit("/", 1)[-1] for row in record.select("thesis")}
    assert "offline-skeptic_1_thesis.md" in names


# -- a seat that dies -----------------------------------------------------------------------------


@pytest.mark.parametrize("dying", list(TEMPLATES))
async def test_a_model_that_dies_in_any_stage_costs_itself_and_not_the_plan(
    installation: Installation, refusals: Refusals, dying: str
) -> None:
    refusals.kill(SKEPTIC, since=dying)
    session_id = await installation.play(MODELS)
    project_id = (await get(installation, session_id)).project_id
    await describe_project(installation.engine, installation.account.tenant_id, project_id)
    record = await installation.record(session_id)
    check_ended(record)
    died = TEMPLATES[dying]
    later = ORDER[ORDER.index(died) :]
    for stage in record.stages:
        assert stage["lost_seats"] == ([3] if stage["stage_slug"] in later else [])
    assert list_writers(record, "paralysis") == {1, 2}
    (told,) = record.list_told("session_seat_changed")
    assert (told["seat"], told["change"], told["remaining"]) == (3, "failed", 2)
    assert told["error"]["remedy"]["action"] == "replace_seat"
    (message,) = await installation.fetch(
        "select title, message, link_path, is_internal_event from notifications"
        " where session_id = $1 and type = 'session_seat_lost'",
        session_id,
    )
    assert not message["is_internal_event"]
    assert message["link_path"] == f"/sessions/{session_id}"
    for row in record.select("paralysis"):
        fields, _ = split_document(record.files[row["storage_path"]].decode())
        lacks = fields.get("left_out", [])
        assert isinstance(lacks, list)
        # Those who wrote the last document before the seat died lack nothing.
        assert died == "paralysis" or any(died in one for one in lacks)
    assert "Without seat 3" in record.read_text("project_readme.md")
    assert any(path.startswith(f"{record.slug}/Pending/") for path in record.files)


@pytest.mark.parametrize(
    "dying", ["thesis", "antithesis_critique", "synthesis_reduce", "paralysis"]
)
async def test_two_models_of_four_that_die_at_once_cost_themselves_and_not_the_plan(
    installation: Installation, refusals: Refusals, dying: str
) -> None:
    refusals.kill(SKEPTIC, PRAGMATIST, since=dying)
    session_id = await installation.play([SKEPTIC, ARCHITECT, PRAGMATIST, ARCHITECT])
    project_id = (await get(installation, session_id)).project_id
    await describe_project(installation.engine, installation.account.tenant_id, project_id)
    record = await installation.record(session_id)
    check_ended(record)
    later = ORDER[ORDER.index(TEMPLATES[dying]) :]
    for stage in record.stages:
        lost = sorted(stage["lost_seats"])
        assert lost == ([1, 3] if stage["stage_slug"] in later else []), stage["stage_slug"]
    assert list_writers(record, "paralysis") == {2, 4}
    assert sorted(record.session["dropped_seats"]) == [1, 3]
    assert record.session["lead_model_index"] == 2
    told = record.list_told("session_seat_changed")
    assert sorted((one["seat"], one["change"]) for one in told) == [(1, "failed"), (3, "failed")]
    assert sorted(one["remaining"] for one in told) == [2, 3]
    readme = record.read_text("project_readme.md")
    assert "seat 1" in readme
    assert "seat 3" in readme
    assert any(path.startswith(f"{record.slug}/Pending/") for path in record.files)


async def test_if_the_lead_dies_the_first_remaining_seat_leads(
    installation: Installation, refusals: Refusals
) -> None:
    refusals.kill(ARCHITECT)
    record = await installation.record(await installation.play(MODELS))
    check_ended(record)
    assert (record.session["lead_model_index"], record.session["dropped_seats"]) == (2, [1])
    assert any(path.startswith(f"{record.slug}/Pending/") for path in record.files)


async def test_the_documents_are_those_of_a_session_of_two(
    installation: Installation, refusals: Refusals
) -> None:
    refusals.kill(SKEPTIC)
    session_id = await installation.play(MODELS)
    record = await installation.record(session_id)
    assert Counter(row["contribution_type"] for row in record.contributions) == COUNTS
    tenant = Tenant(installation.engine, installation.account)
    quote = await quote_session(tenant.engine, tenant.account, session_id)
    assert quote.rest.lines == ()


async def test_of_two_seats_both_are_needed(installation: Installation, refusals: Refusals) -> None:
    refusals.kill(SKEPTIC)
    record = await installation.record(await installation.play([ARCHITECT, SKEPTIC]))
    assert record.session["status"] == "thesis_generation_failed"
    assert record.list_told("session_seat_changed") == []


async def test_if_too_few_seats_are_left_the_stage_fails_and_a_retry_brings_all_back(
    installation: Installation, refusals: Refusals
) -> None:
    refusals.kill(SKEPTIC, PRAGMATIST)
    session_id = await installation.play(MODELS, until="antithesis")
    record = await installation.record(session_id)
    assert record.session["status"] == "thesis_generation_failed"
    refusals.refuses = lambda _: False
    await act(installation, sessions.retry, session_id)
    await installation.work(session_id)
    record = await installation.record(session_id)
    assert record.session["status"] == "antithesis_generation_complete"
    assert record.session["dropped_seats"] == []
    assert list_writers(record, "antithesis") == {1, 2, 3}
    assert [run["lost_seats"] for run in record.stages] == [[], []]


# -- what a person does about it ------------------------------------------------------------------


async def fail(installation: Installation, refusals: Refusals, until: str = "paralysis") -> UUID:
    """Let a session fail because a user waits for all seats and one dies."""
    refusals.kill(SKEPTIC)
    session_id = await installation.play(MODELS, wait_for_all=True, until=until)
    found = await get(installation, session_id)
    assert found.status == "thesis_generation_failed"
    assert found.wait_for_all
    return session_id


async def test_a_user_who_waits_for_all_can_drop_the_failed_seat(
    installation: Installation, refusals: Refusals
) -> None:
    session_id = await fail(installation, refusals)
    await act(installation, seats.drop, session_id, 3)
    await installation.work(session_id)
    record = await installation.record(session_id)
    check_ended(record)
    assert Counter(row["contribution_type"] for row in record.contributions) == COUNTS
    assert all(run["lost_seats"] == [3] for run in record.stages)
    assert [told["change"] for told in record.list_told("session_seat_changed")] == ["dropped"]
    await act(installation, seats.drop, session_id, 3)  # a second time does nothing
    assert len(record.list_told("session_seat_changed")) == 1


async def test_a_user_who_waits_for_all_can_replace_the_failed_seat(
    installation: Installation, refusals: Refusals
) -> None:
    session_id = await fail(installation, refusals)
    await act(installation, seats.replace, session_id, 3, ARCHITECT)
    await installation.work(session_id)
    record = await installation.record(session_id)
    check_ended(record)
    assert all(run["lost_seats"] == [] for run in record.stages)
    thesis = {row["model_index"]: row for row in record.select("thesis")}
    assert thesis[3]["model_name"] == ARCHITECT
    assert thesis[3]["storage_path"].endswith("/offline-architect-3_1_thesis.md")
    assert thesis[1]["storage_path"].endswith("/offline-architect_1_thesis.md")
    assert thesis[1]["content"] != thesis[3]["content"]
    assert list_writers(record, "paralysis") == {1, 2, 3}


async def test_a_document_that_another_model_began_says_so(
    installation: Installation, refusals: Refusals
) -> None:
    refusals.refuses = lambda sent: sent.model == SKEPTIC and len(sent.messages) > 1
    session_id = await installation.play(
        MODELS, wait_for_all=True, until="thesis", max_output_tokens=700
    )
    await act(installation, seats.replace, session_id, 3, PRAGMATIST)
    await installation.work(session_id)
    record = await installation.record(session_id)
    assert record.session["status"] == "thesis_generation_complete"
    for row in record.select("thesis"):
        is_replaced = row["model_index"] == 3
        assert row["model_name"] == (PRAGMATIST if is_replaced else MODELS[row["model_index"] - 1])
        begun = [flag for flag in row["flags"] if flag.startswith("begun_by:")]
        assert begun == ([f"begun_by:{SKEPTIC}"] if is_replaced else [])
        fields, _ = split_document(record.files[row["storage_path"]].decode())
        assert (begun == []) or begun[0] in str(fields["flags"])
    await describe_project(
        installation.engine, installation.account.tenant_id, record.session["project_id"]
    )
    record = await installation.record(session_id)
    assert record.read_text("project_readme.md").count(f"begun by {SKEPTIC}") == 1


async def test_a_seat_that_left_can_be_replaced_for_the_stages_to_come(
    installation: Installation, refusals: Refusals
) -> None:
    refusals.kill(SKEPTIC)
    session_id = await installation.play(MODELS, is_autopilot=False, until="antithesis")
    await act(installation, seats.replace, session_id, 3, PRAGMATIST)
    await act(installation, sessions.start_next, session_id)
    await installation.work(session_id)
    record = await installation.record(session_id)
    assert list_writers(record, "thesis") == {1, 2}
    assert list_writers(record, "antithesis") == {1, 2, 3}
    assert len(record.select("antithesis")) == 6


async def test_a_seat_can_be_dropped_while_a_stage_runs(installation: Installation) -> None:
    session_id = await installation.create(MODELS)
    await act(installation, sessions.generate, session_id)
    await act(installation, seats.drop, session_id, 1)
    await installation.work(session_id)
    record = await installation.record(session_id)
    check_ended(record)
    assert list_writers(record, "thesis") == {2, 3}
    assert record.session["lead_model_index"] == 2


async def test_the_last_seat_stays(installation: Installation) -> None:
    session_id = await installation.create([ARCHITECT])
    with refusing(UsageError, reason="last_seat"):
        await act(installation, seats.drop, session_id, 1)


# -- other models between stages ------------------------------------------------------------------


async def test_later_stages_run_with_the_models_that_were_chosen_for_them(
    installation: Installation,
) -> None:
    session_id = await installation.play([ARCHITECT, SKEPTIC], is_autopilot=False)
    wanted = SessionChange(models=[SKEPTIC, PRAGMATIST, PRAGMATIST])
    changed: Session = await act(installation, sessions.change, session_id, wanted)
    assert [one.has_left for one in changed.seats] == [True, False, False, False]
    assert changed.model_count == 3
    assert changed.lead == SKEPTIC
    for _ in range(4):
        await act(installation, sessions.start_next, session_id)
        await installation.work(session_id)
    record = await installation.record(session_id)
    check_ended(record)
    assert list_writers(record, "thesis") == {1, 2}
    assert list_writers(record, "antithesis") == {2, 3, 4}
    counts = Counter(row["contribution_type"] for row in record.contributions)
    # Two theses, three models: m is what the stage before left, n who argues now.
    assert counts == {
        "thesis": 2,
        "antithesis": 6,
        "pairwise_synthesis_chunk": 18,
        "reduced_synthesis": 6,
        "synthesis": 3,
        "parenthesis": 3,
        "paralysis": 3,
    }
    labels = [record.read_blocks(row) for row in record.select("antithesis")]
    assert {label for found in labels for label in found if label.startswith("Thesis")} == {
        "Thesis A",
        "Thesis B",
    }


async def test_models_cannot_change_while_a_stage_runs(installation: Installation) -> None:
    session_id = await installation.create(MODELS)
    await act(installation, sessions.generate, session_id)
    with refusing(Conflict, reason="stage_running"):
        await act(installation, sessions.change, session_id, SessionChange(models=[ARCHITECT]))
