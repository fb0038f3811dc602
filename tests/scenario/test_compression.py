"""Prompts too long for their model, through worker, adapters and HTTP: shortened and paid for."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from dialectic.app import contributions, sessions
from dialectic.app.search import search_project
from dialectic.app.transaction import Tenant
from dialectic.contract.projects import ResourceRequest
from dialectic.core.documents.file_paths import ResourceKind
from dialectic.core.job import PlanPayload, parse_payload
from dialectic.core.models.call_record import read_call_record
from dialectic.ledger import audit
from dialectic.pipeline.assemble import Kind, Part
from dialectic.pipeline.fit.embed import Library
from dialectic.pipeline.fit.shorten import Abstractor
from dialectic.pipeline.fit.turn import Turn
from dialectic.pipeline.gather import gather
from dialectic.pipeline.load import load_job_context
from dialectic.pipeline.run import run_job
from dialectic.postgres import embedded
from dialectic.processes.loader import load_shared_prompts
from dialectic.providers.catalog import build_catalog
from dialectic.settings import Settings
from dialectic_simulator import open_simulator
from tests.scenario.documented_layout import STAGE_FOLDER, list_patterns
from tests.scenario.paid_models import PaidSession, verify
from tests.scenario.test_money import claim_alone
from tests.scenario.whole_session import Row, open_installation, write_unrepaired

WRITER, VECTORS = "sim/writer", "sim/vectors"
PLENTY = 50_000_000
SHORT = {"default": {"text": "Done, and well."}}

CONFIG = """
embedder = "{embedder}"

[endpoints.sim]
kind = "openai"
base_url = "{url}"

[endpoints.sim.models.writer]
context_window_tokens = {window}
max_output_tokens = {answer}
input_usd_per_million = 1
output_usd_per_million = 2
tokenizer = "chars:4"

[endpoints.sim.embeddings.vectors]
dimensions = 64
max_input_tokens = 8000
input_usd_per_million = 3
tokenizer = "chars:4"
"""


def write_text(sentences: int, word: str = "Point") -> str:
    """A long text in which no sentence stands twice."""
    lines = []
    for number in range(1, sentences + 1):
        if number % 12 == 1:
            lines.append(f"\n## Part {number // 12 + 1} of what {word.lower()}s there are\n")
        what = ("bread", "ovens", "money", "drivers", "shelves", "waste", "prices")[number % 7]
        lines.append(f"{word} {number} is about {what} and costs {number * 37 % 1009} a month.")
    return "\n".join(lines).strip() + "\n"


LONG_RESOURCES = (
    ResourceRequest(kind=ResourceKind.REFERENCE_DOCUMENTS, name="notes.md", text=write_text(600)),
)


def configure(home: Path, text: str) -> Settings:
    home.mkdir(parents=True, exist_ok=True)
    (home / "config.toml").write_text(text)
    return Settings.load({"DIALECTIC_HOME": str(home)})


@asynccontextmanager
async def open_small_shop(
    server: embedded.Server,
    template: str,
    home: Path,
    script: Mapping[str, Any],
    *,
    window: int,
    answer: int,
    embedder: str = VECTORS,
    money: int = PLENTY,
) -> AsyncIterator[PaidSession]:
    """Open a shop whose model has a small window, as the simulator knows it too."""
    facts = {"tokenizer": "chars:4", "dimensions": 64}
    small = {**facts, "context_window_tokens": window, "max_output_tokens": answer}
    models = {"vectors": {**facts, "context_window_tokens": 1_000_000}, "*": small}
    async with open_simulator({"models": models, "keep_bodies": True, **script}) as simulator:
        url = simulator.base_url("openai")
        text = CONFIG.format(embedder=embedder, url=url, window=window, answer=answer)
        catalog = build_catalog(configure(home, text))
        try:
            async with open_installation(server, template, home, catalog) as installation:
                paid_session = PaidSession(installation, simulator).allow(embedder=embedder)
                await paid_session.put_in(money)
                yield paid_session
        finally:
            await catalog.close()


def list_calls(paid_session: PaidSession, route: str) -> list[Any]:
    return [call for call in paid_session.simulator.log.calls if call.route == route]


def list_embedded(paid_session: PaidSession) -> list[str]:
    return [text for call in list_calls(paid_session, "embeddings") for text in call.body["input"]]


async def read_compressions(paid_session: PaidSession) -> list[Row]:
    return await paid_session.installation.fetch(
        "select * from dialectic_compressions order by created_at, id"
    )


async def read_chunks(paid_session: PaidSession, session_id: UUID) -> list[Row]:
    return await paid_session.installation.fetch(
        "select * from dialectic_chunks where session_id = $1 order by turn_index", session_id
    )


def list_shortened(row: Row) -> list[Row]:
    items = (row["manifest"] or {"items": []})["items"]
    return [item for item in items if item["status"] == "compressed"]


# -- a long document -------------------------------------------------------------------------------


async def test_a_document_of_many_turns_is_finished_in_a_window_that_holds_six(
    server: embedded.Server, template: str, tmp_path: Path
) -> None:
    whole = write_text(930)
    script = {"default": {"text": whole, "cut_after_tokens": 600, "cut_each_turn": True}}
    home = tmp_path / "home"
    async with open_small_shop(
        server, template, home, script, window=7_200, answer=600
    ) as paid_session:
        paid_session = paid_session.allow(max_continuations=20)
        session_id = await paid_session.installation.play([WRITER], until="thesis")
        record = await paid_session.installation.record(session_id)
        (document,), (job,) = record.contributions, record.jobs
        chunks, holds = await read_chunks(paid_session, session_id), await paid_session.list_holds()
        made, costs = (
            await read_compressions(paid_session),
            await report_costs(paid_session, session_id),
        )
        assert await verify(paid_session.installation) == []
    # The document is made of its turns, untouched.
    assert document["content"] == whole
    assert not document["is_incomplete"]
    assert len(chunks) > 18
    shortened = [[item["label"] for item in list_shortened(chunk)] for chunk in chunks]
    assert shortened[:6] == [[]] * 6, "six turns fit as they are"
    assert all("Turn 1" in labels for labels in shortened[8:])
    for turn, labels in enumerate(shortened):
        assert not {"Turn 0", f"Turn {turn - 1}", f"Turn {turn - 2}"} & set(labels)
    calls = list_calls(paid_session, "chat")
    assert max(call.input_tokens + 600 for call in calls) <= 7_200
    assert len(calls) == len(chunks)
    # Each text is read once, each shorter text made once, and each reading shows its own debit.
    read = Counter(list_embedded(paid_session))
    assert set(read.values()) == {1}
    assert all(row["completed_at"] is not None for row in made)
    paid = [row for row in holds if row["purpose"] == "embedding"]
    assert (
        len(paid)
        == len(list_calls(paid_session, "embeddings"))
        == len({r["answer_id"] for r in paid})
    )
    assert {row["state"] for row in paid} == {"posted"}
    used = sum(call.input_tokens for call in list_calls(paid_session, "embeddings"))
    assert sum(row["charged_credits"] for row in paid) == 3 * used
    (line,) = [cost for cost in costs if cost.purpose == "embedding"]
    assert (line.model_name, line.stage_slug, line.calls) == (VECTORS, "thesis", len(paid))
    spent = [manifest["cost_credits"] for chunk in chunks if (manifest := chunk["manifest"])]
    assert sum(spent) == 3 * used
    assert job["results"]["manifest"] == document["manifest"] == chunks[-1]["manifest"]


async def report_costs(paid_session: PaidSession, session_id: UUID) -> list[audit.Cost]:
    installation = paid_session.installation
    return await installation.engine.db.transact(
        installation.account.tenant_id, lambda c: audit.report_costs(c, session_id)
    )


# -- a whole dialectic -----------------------------------------------------------------------------


async def test_a_whole_dialectic_of_long_documents_fits_models_with_small_windows(
    server: embedded.Server, template: str, tmp_path: Path
) -> None:
    home, window, answer = tmp_path / "home", 8_000, 2_000
    script: dict[str, Any] = {}
    async with open_small_shop(
        server, template, home, script, window=window, answer=answer
    ) as paid_session:
        session_id = await paid_session.installation.play([WRITER] * 3)
        record = await paid_session.installation.record(session_id)
        posted = [row for row in await paid_session.list_holds() if row["state"] == "posted"]
        assert await verify(paid_session.installation) == []
        balance = (await paid_session.load_wallet()).balance_credits
    assert record.session["status"] == "iteration_complete"
    assert len(record.contributions) == 57
    calls, readings = list_calls(paid_session, "chat"), list_calls(paid_session, "embeddings")
    assert [call for call in calls + readings if call.status != 200] == []
    assert max(call.input_tokens + call.max_tokens for call in calls) <= window
    assert len(calls) == sum(row["purpose"] == "call" for row in posted) >= 57
    # Siblings use what one of them has paid for.
    assert len(readings) == sum(row["purpose"] == "embedding" for row in posted)
    used = sum(call.input_tokens + 2 * call.output_tokens for call in calls)
    used += 3 * sum(call.input_tokens for call in readings)
    assert PLENTY - balance == used == sum(row["charged_credits"] for row in posted)
    shortened = [row for row in record.contributions if list_shortened(row)]
    assert len(shortened) > 3
    for row in shortened:
        front = record.files[row["storage_path"]].decode().split("---")[1]
        assert list_shortened(row)[0]["label"] in front


# -- money -----------------------------------------------------------------------------------------


async def test_a_long_prompt_that_costs_too_large_a_share_waits_without_a_call(
    server: embedded.Server, template: str, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    async with open_small_shop(
        server, template, home, SHORT, window=4_000, answer=500, money=100_000
    ) as paid_session:
        session_id = await paid_session.installation.play(
            [WRITER], until="thesis", resources=LONG_RESOURCES
        )
        (job,) = (await paid_session.installation.record(session_id)).jobs
        assert (job["status"], job["status_reason"]) == ("paused", "spend_needs_approval")
        message = job["error_details"][-1]["message"]
        assert paid_session.calls == 0, "neither for vectors nor for an answer"
        assert await paid_session.list_holds() == []
        assert await read_compressions(paid_session) == []
        await Tenant(paid_session.installation.engine, paid_session.installation.account).run(
            sessions.resume, session_id, approves_spend=True
        )
        await paid_session.installation.work(session_id)
        (document,) = (await paid_session.installation.record(session_id)).contributions
        assert await verify(paid_session.installation) == []
    for words in ("Shortening a prompt of", "to 3,5", "asking sim/writer for up to 500", "20% of"):
        assert words in message
    assert [item["kind"] for item in list_shortened(document)] == ["context"]
    assert len(list_calls(paid_session, "embeddings")) >= 2


async def test_what_was_shortened_once_is_found_by_a_second_run_that_reads_and_pays_nothing(
    server: embedded.Server, template: str, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    async with open_small_shop(
        server, template, home, SHORT, window=4_600, answer=500
    ) as paid_session:
        installation = paid_session.installation
        resources = (
            *LONG_RESOURCES,
            ResourceRequest(
                kind=ResourceKind.CONSTRAINT_BOUNDARIES,
                name="rules.md",
                text=write_text(40, "Rule"),
            ),
        )
        session_id = await installation.play([WRITER] * 3, until="thesis", resources=resources)
        first = len(list_calls(paid_session, "embeddings"))
        documents = (await installation.record(session_id)).contributions
        await Tenant(installation.engine, installation.account).run(
            contributions.regenerate, documents[0]["id"]
        )
        await installation.work(session_id)
        *_, again = (await installation.record(session_id)).contributions
        made = await read_compressions(paid_session)
        assert await verify(installation) == []
    assert first == 3, "two texts and what they are for, once for three models"
    assert len(list_calls(paid_session, "embeddings")) == first
    assert len(made) == 1
    sent = {row["id"]: list_shortened(row) for row in [*documents, again]}
    assert sum(row["manifest"]["cost_credits"] > 0 for row in documents) == 1
    assert again["manifest"]["cost_credits"] == 0
    assert sent[again["id"]][0]["is_reused"]
    assert len({(i["tokens_after"], i["value"]) for items in sent.values() for i in items}) == 1


async def test_what_a_search_has_read_is_not_read_again_to_be_shortened(
    server: embedded.Server, template: str, tmp_path: Path
) -> None:
    home, script = tmp_path / "home", {"default": {"text": write_text(120)}}
    async with open_small_shop(
        server, template, home, script, window=4_400, answer=2_000
    ) as paid_session:
        installation = paid_session.installation
        session_id = await installation.play([WRITER], until="antithesis", is_autopilot=False)
        record = await installation.record(session_id)
        await search_project(
            installation.engine, installation.account, record.project["id"], "bread and ovens"
        )
        searched = len(list_calls(paid_session, "embeddings"))
        await Tenant(installation.engine, installation.account).run(sessions.start_next, session_id)
        await installation.work(session_id)
        *_, critique = (await installation.record(session_id)).contributions
        assert await verify(installation) == []
    (item,) = list_shortened(critique)
    assert item["source_id"] == str(record.contributions[0]["id"])
    (purpose,) = list_calls(paid_session, "embeddings")[searched:]
    assert purpose.input_tokens < 0.7 * item["tokens_before"], "only what it is for"
    assert critique["manifest"]["cost_credits"] == 3 * purpose.input_tokens


async def test_a_reading_that_is_lost_with_its_worker_is_not_charged_and_is_made_again(
    server: embedded.Server, template: str, tmp_path: Path
) -> None:
    home, gate = tmp_path / "home", {"route": "embeddings", "calls": "1", "gate": "reading"}
    script = {**SHORT, "rules": [gate]}
    async with open_small_shop(
        server, template, home, script, window=4_000, answer=500
    ) as paid_session:
        installation = paid_session.installation
        session_id = await installation.create([WRITER], until="thesis", resources=LONG_RESOURCES)
        await Tenant(installation.engine, installation.account).run(sessions.generate, session_id)
        paid_session.simulator.hold("reading")
        task = asyncio.create_task(
            run_job(installation.worker_engine, await claim_alone(paid_session, session_id))
        )
        await paid_session.simulator.wait_arrived(1)
        task.cancel()
        await asyncio.wait({task})
        await installation.admin.execute(
            "update dialectic_generation_jobs"
            " set lease_until = dialectic.now() - interval '1 minute'"
        )
        paid_session.simulator.release("reading")
        await installation.work(session_id)
        (document,) = (await installation.record(session_id)).contributions
        holds = await paid_session.list_holds()
        assert await verify(installation) == []
    assert [(row["purpose"], row["state"], row["attempt"]) for row in holds] == [
        ("embedding", "lost", 1),
        ("embedding", "posted", 2),
        ("embedding", "posted", 2),
        ("call", "posted", 2),
    ]
    assert holds[0]["charged_credits"] == 0 < holds[0]["cost_credits"]
    assert list_shortened(document) != []


# -- abstracts -------------------------------------------------------------------------------------


SHORTENING_PLACE = f"{STAGE_FOLDER}raw_responses/shortening_{{id}}_raw.json"


def write_process(folder: Path) -> Path:
    """The standard process, whose first stage wants abstracts."""
    process, slug = write_unrepaired(folder), 'slug = "thesis"\n'
    file = process / "process.toml"
    file.write_text(file.read_text().replace(slug, f'{slug}compressor = "abstract"\n', 1))
    return process


async def test_a_process_may_have_abstracts_written_once_for_all_its_models(
    server: embedded.Server, template: str, tmp_path: Path
) -> None:
    process = write_process(tmp_path)
    abstract = "Points about bread and ovens, 37 to 999 a month. " * 3
    asked = {"contains": "Write the shorter version that serves them best", "text": abstract}
    home, script = tmp_path / "home", {**SHORT, "rules": [asked]}
    async with open_small_shop(
        server, template, home, script, window=12_000, answer=800, embedder="builtin/static"
    ) as paid_session:
        resources = (
            ResourceRequest(
                kind=ResourceKind.REFERENCE_DOCUMENTS, name="notes.md", text=write_text(450)
            ),
            ResourceRequest(
                kind=ResourceKind.DOMAIN_STANDARDS, name="rules.md", text=write_text(450, "Rule")
            ),
        )
        session_id = await paid_session.installation.play(
            [WRITER] * 3, until="thesis", resources=resources, process=str(process)
        )
        record = await paid_session.installation.record(session_id)
        documents = record.contributions
        holds = await paid_session.list_holds()
        (made,) = await read_compressions(paid_session)
        assert await verify(paid_session.installation) == []
    assert len(documents) == 3
    (path,) = [path for path in record.files if "shortening" in path]
    assert list_patterns()[SHORTENING_PLACE].fullmatch(path)
    assert f"/shortening_{str(made['id'])[:8]}_raw.json" in path
    answer = read_call_record(record.files[path]).answer
    assert answer is not None
    assert answer.text == abstract
    assert Counter(row["purpose"] for row in holds) == {"call": 3, "compression": 1}
    (paid,) = [row for row in holds if row["purpose"] == "compression"]
    assert (paid["state"], paid["answer_id"]) == ("posted", made["id"])
    assert made["content"] == abstract.strip()
    assert made["cost_credits"] == paid["charged_credits"] > 0
    costs = sorted(row["manifest"]["cost_credits"] for row in documents)
    assert costs == [0, 0, paid["charged_credits"]]
    for row in documents:
        (item,) = list_shortened(row)
        assert item["compressor"] == f"abstract/1 {WRITER}"
    sent = [call.body["messages"][-1]["content"] for call in list_calls(paid_session, "chat")]
    assert sum(abstract.strip() in text for text in sent) == 3


async def test_where_its_writer_has_no_room_for_a_text_an_extract_takes_the_place_of_an_abstract(
    server: embedded.Server, template: str, tmp_path: Path
) -> None:
    process, home = write_process(tmp_path), tmp_path / "home"
    refused = {"contains": "Write the shorter version", "fault": "400_context_length"}
    script = {**SHORT, "rules": [refused]}
    async with open_small_shop(
        server, template, home, script, window=6_000, answer=500, embedder="builtin/static"
    ) as paid_session:
        installation = paid_session.installation
        session_id = await installation.play(
            [WRITER], until="thesis", resources=LONG_RESOURCES, process=str(process)
        )
        (document,) = (await installation.record(session_id)).contributions
        holds = await paid_session.list_holds()
        # A writer whose window does not even hold what the text is for is not asked at all.
        other = await installation.create([WRITER], until="thesis", process=str(process))
        await Tenant(installation.engine, installation.account).run(sessions.generate, other)
        job, asked = await claim_alone(paid_session, other), paid_session.calls
        engine, payload = installation.worker_engine, parse_payload(job.payload_json)
        assert isinstance(payload, PlanPayload)
        scene, card = await load_job_context(engine, job, payload), engine.catalog.load_card(WRITER)
        turn = Turn(engine, job, scene, gather(scene, job, payload), card)
        narrow = replace(card, context_window_tokens=900, max_input_tokens=900)
        writer = Abstractor(
            turn,
            Library(turn),
            write_text(60, "Task"),
            writer=narrow,
            template=load_shared_prompts()["abstract"],
        )
        made = await writer.shorten(Part(Kind.INPUT, 0, "Notes", write_text(90)), 200)
        assert paid_session.calls == asked
        assert await verify(installation) == []
    assert [(row["purpose"], row["state"]) for row in holds] == [
        ("compression", "voided"),
        ("call", "posted"),
    ]
    (item,) = list_shortened(document)
    assert item["compressor"] == f"abstract/1 {WRITER}"
    for text in (
        made.text,
        list_calls(paid_session, "chat")[1].body["messages"][-1]["content"],
    ):
        assert "passages left out" in text


# -- those who count otherwise ---------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["400_context_length", "413_too_large"])
async def test_a_prompt_that_is_turned_away_as_too_long_is_shortened_once_more(
    server: embedded.Server, template: str, tmp_path: Path, fault: str
) -> None:
    script = {**SHORT, "rules": [{"calls": "1", "fault": fault}]}
    home = tmp_path / "home"
    async with open_small_shop(
        server, template, home, script, window=20_000, answer=500, embedder="builtin/static"
    ) as paid_session:
        session_id = await paid_session.installation.play(
            [WRITER], until="thesis", resources=LONG_RESOURCES
        )
        (document,) = (await paid_session.installation.record(session_id)).contributions
        holds = await paid_session.list_holds()
        assert await verify(paid_session.installation) == []
    refused, answered = list_calls(paid_session, "chat")
    sizes = [sum(len(m["content"]) for m in call.body["messages"]) for call in (refused, answered)]
    assert sizes[1] <= 0.9 * sizes[0]
    assert [row["state"] for row in holds] == ["voided", "posted"]
    (item,) = list_shortened(document)
    assert (item["cost_credits"], item["compressor"]) == (0, "extract/2 builtin/static")


async def test_what_was_paid_to_shorten_a_prompt_that_is_turned_away_is_told_once(
    server: embedded.Server, template: str, tmp_path: Path
) -> None:
    script = {**SHORT, "rules": [{"calls": "1", "fault": "400_context_length"}]}
    home = tmp_path / "home"
    twice = ResourceRequest(
        kind=ResourceKind.CONSTRAINT_BOUNDARIES, name="rules.md", text=write_text(600)
    )
    async with open_small_shop(
        server, template, home, script, window=6_000, answer=500
    ) as paid_session:
        resources = (*LONG_RESOURCES, twice)
        session_id = await paid_session.installation.play(
            [WRITER], until="thesis", resources=resources
        )
        (document,) = (await paid_session.installation.record(session_id)).contributions
        holds = await paid_session.list_holds()
        assert await verify(paid_session.installation) == []
    paid = [row["charged_credits"] for row in holds if row["purpose"] == "embedding"]
    assert len(paid) == 2, "one text, although it stands there twice, and what it is for"
    assert document["manifest"]["cost_credits"] == sum(paid)


async def test_a_prompt_that_is_turned_away_twice_fails_and_costs_nothing(
    server: embedded.Server, template: str, tmp_path: Path
) -> None:
    script = {**SHORT, "default": {**SHORT["default"], "fault": "400_context_length"}}
    home = tmp_path / "home"
    async with open_small_shop(
        server, template, home, script, window=20_000, answer=500, embedder="builtin/static"
    ) as paid_session:
        session_id = await paid_session.installation.play(
            [WRITER], until="thesis", resources=LONG_RESOURCES
        )
        (job,) = (await paid_session.installation.record(session_id)).jobs
        assert [row["state"] for row in await paid_session.list_holds()] == ["voided", "voided"]
    assert (job["status"], job["status_reason"]) == ("failed", "context_window_exceeded")
    assert len(list_calls(paid_session, "chat")) == 2
