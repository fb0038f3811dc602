"""What fails, waits or stands still in the middle of a dialectic goes on where it was."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from uuid import UUID

import pytest

from dialectic.app import jobs, sessions
from dialectic.app.transaction import Tenant
from dialectic.core.models.messages import Reply, Request
from dialectic.core.models.model import ModelCard
from dialectic.errors import Conflict, RemedyAction
from dialectic.postgres import embedded
from dialectic.processes.loader import load_process
from dialectic.providers.base import OnText, Provider
from dialectic.providers.catalog import Catalog, build_catalog
from dialectic.settings import Settings
from tests.problems import refusing
from tests.scenario.whole_session import (
    ARCHITECT,
    COUNTS,
    SKEPTIC,
    Installation,
    Record,
    RefusingProvider,
    build_refusing_catalog,
    open_installation,
)
from tests.waiting import PATIENCE_S

STANDARD = load_process("standard")
ORDER = [stage.slug for stage in STANDARD.order]
MODELS = [ARCHITECT, SKEPTIC]


def asks_for(template: str, model: str = SKEPTIC, variant: int = 1) -> Callable[[Request], bool]:
    """Recognise the request that a prompt template made for one document of one model."""
    opening = STANDARD.prompts[template].split("Domain:")[0].strip()

    def matches(request: Request) -> bool:
        is_it = request.messages[0].content.startswith(opening)
        return is_it and request.model == model and request.variant == variant

    return matches


@pytest.fixture
async def refusals() -> dict[str, Callable[[Request], bool]]:
    return {"refuses": lambda request: False}


@pytest.fixture
async def refusing_provider(
    refusals: dict[str, Callable[[Request], bool]],
) -> tuple[Catalog, RefusingProvider]:
    return build_refusing_catalog(lambda request: refusals["refuses"](request))


@pytest.fixture
async def installation(
    server: embedded.Server,
    template: str,
    tmp_path: Path,
    refusing_provider: tuple[Catalog, RefusingProvider],
) -> AsyncIterator[Installation]:
    async with open_installation(
        server, template, tmp_path / "home", refusing_provider[0]
    ) as opened:
        yield opened


def count(record: Record) -> Counter[str]:
    return Counter(row["contribution_type"] for row in record.contributions)


def check_complete(record: Record) -> None:
    assert record.session["status"] == "iteration_complete"
    assert count(record) == COUNTS
    assert {job["status"] for job in record.jobs} == {"completed"}
    for run in record.stages:
        assert (run["status"], run["finished_units"]) == ("complete", run["planned_units"])
    paths = [row["storage_path"] for row in record.contributions]
    assert len(set(paths)) == len(paths)


# -- failures -------------------------------------------------------------------------------------

FAILURES = {
    "thesis": "thesis",
    "antithesis_critique": "antithesis",
    "synthesis_pairwise": "synthesis",
    "synthesis_reduce": "synthesis",
    "synthesis_final": "synthesis",
    "parenthesis": "parenthesis",
    "paralysis": "paralysis",
}


@pytest.mark.parametrize("template_name", FAILURES)
async def test_what_failed_is_run_again_and_nothing_that_is_saved(
    installation: Installation,
    refusing_provider: tuple[Catalog, RefusingProvider],
    refusals: dict[str, Callable[[Request], bool]],
    template_name: str,
) -> None:
    slug, provider = FAILURES[template_name], refusing_provider[1]
    refusals["refuses"] = asks_for(template_name)
    session_id = await installation.play(MODELS)
    failed = await installation.record(session_id)
    check_failed(failed, slug)

    refusals["refuses"] = lambda request: False
    saved = {row["id"]: row for row in failed.contributions}
    answered = Counter((sent.model, sent.messages[0].content) for sent in provider.asked)
    provider.asked.clear()
    stages = await Tenant(installation.engine, installation.account).run(sessions.retry, session_id)
    assert stages == sorted(ORDER[ORDER.index(slug) :])
    await installation.work(session_id)
    record = await installation.record(session_id)
    check_complete(record)
    asked_again = [
        sent for sent in provider.asked if (sent.model, sent.messages[0].content) in answered
    ]
    refused = asks_for(template_name)
    assert [refused(sent) for sent in asked_again] == [True], "only what was refused is asked again"
    assert len(provider.asked) == sum(COUNTS.values()) - len(saved)
    for row in record.contributions:
        if row["id"] in saved:
            assert row == saved[row["id"]]
    assert {path: record.files[path] for path in failed.files if "seed_prompt" not in path} == {
        path: data for path, data in failed.files.items() if "seed_prompt" not in path
    }


def check_failed(record: Record, slug: str) -> None:
    """One document failed: its stage did, and the stages after it could not go on."""
    assert record.session["status"] == f"{slug}_generation_failed"
    assert record.session["current_stage_slug"] == slug
    at = ORDER.index(slug)
    ordered = [run["stage_slug"] for run in record.stages]
    later = ordered[at + 1 :]
    assert ordered == ORDER[: len(ordered)]
    assert [run["status"] for run in record.stages] == [
        *["complete"] * at,
        "failed",
        *["cancelled"] * len(later),
    ]
    plans = {
        (job["stage_slug"], job["status"], job["status_reason"])
        for job in record.jobs
        if job["parent_job_id"] is None and ORDER.index(job["stage_slug"]) > at
    }
    assert plans == {(each, "cancelled", f"stage {slug} failed") for each in later}
    errors = [job for job in record.jobs if job["status"] == "failed"]
    assert any("The key is not known." in str(job["error_details"]) for job in errors)
    *_, end = [
        told
        for told in record.list_told("contribution_generation_complete")
        if told["stageSlug"] == slug
    ]
    assert (end["status"], end["failed"]) == ("failed", 1)


async def test_a_failure_that_stays_can_be_retried_again(
    installation: Installation, refusals: dict[str, Callable[[Request], bool]]
) -> None:
    refusals["refuses"] = asks_for("antithesis_critique", variant=2)
    session_id = await installation.play(MODELS, until="antithesis")
    for _ in range(2):
        await Tenant(installation.engine, installation.account).run(sessions.retry, session_id)
        await installation.work(session_id)
        record = await installation.record(session_id)
        check_failed(record, "antithesis")
    refusals["refuses"] = lambda request: False
    await Tenant(installation.engine, installation.account).run(sessions.retry, session_id)
    await installation.work(session_id)
    record = await installation.record(session_id)
    assert record.session["status"] == "antithesis_generation_complete"
    assert count(record) == {"thesis": 2, "antithesis": 4}


async def test_a_job_that_was_cancelled_fails_its_stage_and_is_run_again_with_it(
    installation: Installation,
) -> None:
    session_id = await installation.create(MODELS, until="thesis")
    (job_id, *_) = await Tenant(installation.engine, installation.account).run(
        sessions.generate, session_id
    )
    await Tenant(installation.engine, installation.account).run(jobs.cancel, session_id, job_id)
    await installation.work(session_id)
    record = await installation.record(session_id)
    assert record.session["status"] == "thesis_generation_failed"
    assert len(record.contributions) == len(MODELS) - 1, "the others are not disturbed"
    assert await Tenant(installation.engine, installation.account).run(
        sessions.retry, session_id
    ) == ["thesis"]
    await installation.work(session_id)
    record = await installation.record(session_id)
    assert record.session["status"] == "thesis_generation_complete"
    assert len(record.contributions) == len(MODELS)


async def test_what_has_not_failed_cannot_be_retried(installation: Installation) -> None:
    session_id = await installation.play([SKEPTIC], until="thesis")
    with refusing(Conflict, reason="nothing_failed"):
        await Tenant(installation.engine, installation.account).run(sessions.retry, session_id)


async def test_a_stage_that_failed_offers_no_next_one_and_no_iteration(
    installation: Installation, refusals: dict[str, Callable[[Request], bool]]
) -> None:
    refusals["refuses"] = asks_for("thesis")
    session_id = await installation.play(MODELS, is_autopilot=False)
    with refusing(Conflict, reason="stage_incomplete", action=RemedyAction.RETRY):
        await Tenant(installation.engine, installation.account).run(sessions.start_next, session_id)
    with refusing(Conflict, reason="iteration_incomplete", action=RemedyAction.RETRY):
        await Tenant(installation.engine, installation.account).run(sessions.iterate, session_id)


# -- one after another ----------------------------------------------------------------------------


class Gate:
    """Answers as another provider does, once a request is let through."""

    def __init__(self, inner: Provider, holds: Callable[[Request], bool]) -> None:
        self.inner, self.holds = inner, holds
        self.opened, self.is_holding = asyncio.Event(), asyncio.Event()
        self.asked: list[Request] = []
        self.answered: list[Request] = []

    async def complete(self, card: ModelCard, request: Request, on_text: OnText) -> Reply:
        self.asked.append(request)
        if self.holds(request):
            self.is_holding.set()
            await self.opened.wait()
        reply = await self.inner.complete(card, request, on_text)
        self.answered.append(request)
        return reply


def build_gate(holds: Callable[[Request], bool]) -> tuple[Catalog, Gate]:
    catalog = build_catalog(Settings(home=Path("nowhere")))
    gate = Gate(catalog.providers["offline"], holds)
    return Catalog(cards=catalog.cards, providers={"offline": gate}), gate


async def test_on_autopilot_a_critique_does_not_wait_for_the_other_theses(
    server: embedded.Server, template: str, tmp_path: Path
) -> None:
    late = asks_for("thesis")
    is_critique = [asks_for("antithesis_critique", model) for model in MODELS]
    catalog, gate = build_gate(late)
    async with open_installation(server, template, tmp_path / "home", catalog) as installation:
        session_id = await installation.create(MODELS, until="synthesis")
        await Tenant(installation.engine, installation.account).run(sessions.generate, session_id)
        async with installation.working():

            async def criticised() -> bool:
                return all(any(map(it, gate.answered)) for it in is_critique)

            await installation.until(criticised)
            assert not any(map(late, gate.answered))
            gate.opened.set()
            await installation.until(lambda: has_ended(installation, session_id))
        record = await installation.record(session_id)
    assert record.session["status"] == "synthesis_generation_complete"
    assert count(record) == {kind: COUNTS[kind] for kind in list(COUNTS)[:5]}


async def has_ended(installation: Installation, session_id: UUID) -> bool:
    status: str = (
        await Tenant(installation.engine, installation.account).run(sessions.get_detail, session_id)
    ).session.status
    return status.endswith(("_complete", "_failed"))


async def test_the_last_step_of_the_synthesis_waits_for_all_models_and_says_so(
    server: embedded.Server, template: str, tmp_path: Path
) -> None:
    late = asks_for("synthesis_reduce", SKEPTIC, variant=2)
    catalog, gate = build_gate(late)
    async with open_installation(server, template, tmp_path / "home", catalog) as installation:
        session_id = await installation.create(MODELS, until="synthesis")
        await Tenant(installation.engine, installation.account).run(sessions.generate, session_id)
        waiting = """
            select current_step, status_reason from dialectic_generation_jobs
            where parent_job_id is null and stage_slug = 'synthesis'
              and status = 'waiting_for_prerequisite' and current_step = 3
        """
        async with installation.working():

            async def waits() -> bool:
                return bool(await installation.fetch(waiting))

            await installation.until(waits)
            (row,) = await installation.fetch(waiting)
            assert row["status_reason"] == "waits for reduced_synthesis"
            assert not any(
                asks_for("synthesis_final", model)(r) for model in MODELS for r in gate.asked
            )
            gate.opened.set()
            await installation.until(lambda: has_ended(installation, session_id))
        record = await installation.record(session_id)
    assert count(record) == {kind: COUNTS[kind] for kind in list(COUNTS)[:5]}


@pytest.mark.parametrize("template_name", ["thesis", "antithesis_critique", "synthesis_reduce"])
async def test_a_session_that_is_paused_finishes_its_calls_and_goes_on_where_it_was(
    server: embedded.Server, template: str, tmp_path: Path, template_name: str
) -> None:
    catalog, gate = build_gate(asks_for(template_name))
    async with open_installation(server, template, tmp_path / "home", catalog) as installation:
        session_id = await installation.create(MODELS)
        await Tenant(installation.engine, installation.account).run(sessions.generate, session_id)
        async with installation.working():
            await asyncio.wait_for(gate.is_holding.wait(), PATIENCE_S)
            await Tenant(installation.engine, installation.account).run(sessions.pause, session_id)
            gate.opened.set()

            async def stands() -> bool:
                rows = await installation.fetch("select status from dialectic_generation_jobs")
                return not {"processing", "pending", "pending_next_step", "retrying"} & {
                    row["status"] for row in rows
                }

            await installation.until(stands)
            asked = len(gate.asked)
            before = await installation.record(session_id)
            assert before.session["status"] == "paused"
            assert len(before.contributions) == asked < sum(COUNTS.values())
        assert len(gate.asked) == asked
        await Tenant(installation.engine, installation.account).run(sessions.resume, session_id)
        await installation.work(session_id)
        record = await installation.record(session_id)
    check_complete(record)
    assert len(gate.asked) == sum(COUNTS.values()), "no call is repeated"


async def test_one_model_argues_with_itself(installation: Installation) -> None:
    record = await installation.record(await installation.play([SKEPTIC]))
    assert count(record) == dict.fromkeys(COUNTS, 1)
    assert record.session["status"] == "iteration_complete"


async def test_an_answer_that_is_cut_off_lacks_documents_and_says_which(
    installation: Installation,
) -> None:
    record = await installation.record(
        await installation.play(
            [SKEPTIC], until="antithesis", max_output_tokens=400, continue_until_complete=False
        )
    )
    for row in record.contributions:
        promised = {d.key for d in STANDARD.load_stage(row["stage"]).expected_output_artifacts}
        missing = {f.removeprefix("missing:") for f in row["flags"] if f.startswith("missing:")}
        cut = {
            resource["document_key"]
            for resource in record.resources
            if resource["source_contribution_id"] == row["id"]
        }
        assert row["is_incomplete"]
        assert "cut_off" in row["flags"]
        assert missing
        assert missing | cut == promised
        assert not missing & cut
        names = {path.rsplit("_", 1)[-1] for path in record.files if "/documents/" in path}
        assert not names & {f"{key.replace('_', '-')}.md" for key in missing}
