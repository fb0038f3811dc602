"""The shipped processes with more text than their models can read at once, in whole runs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from dialectic.app import quotes
from dialectic.app.transaction import Tenant
from dialectic.contract.projects import ResourceRequest
from dialectic.contract.sessions import RunRequest
from dialectic.core.documents.file_paths import ResourceKind
from dialectic.postgres import embedded
from dialectic.processes.loader import load_process
from tests.scenario.paid_models import WRITER, PaidSession, verify
from tests.scenario.test_compression import (
    list_calls,
    list_shortened,
    open_small_shop,
    read_compressions,
    write_text,
)

READERS = 6
MATERIAL = [
    ResourceRequest(kind=ResourceKind.REFERENCE_DOCUMENTS, name="notes.md", text=write_text(600)),
]
ABSTRACT = "The notes list what bread, ovens and drivers cost, from 1 to 1008 a month. " * 4
MERGED = "Merged: all readers list prices; they differ about ovens. " * 20
DIGEST = "## Digest\n\nPrices.\n\n## Disagreements\n\nOvens.\n\n## Open questions\n\nWhen?"


def build_reading(number: int) -> str:
    """What a reader notes under the promised headings: some 2,000 tokens in two turns."""
    claims = write_text(60, f"Claim of reader {number}:")
    return f"## Subject\n\nBakeries.\n\n## Claims\n\n{claims}\n\n## Gaps\n\nNone is known."


DIGEST_RULES: list[dict[str, Any]] = [
    {"contains": "Write the shorter version", "text": ABSTRACT},
    {"contains": "Merge the documents below", "text": MERGED},
    {"contains": "Unite the readings below", "text": DIGEST},
]


def check_windows(paid_session: PaidSession, window_tokens: int) -> None:
    """No prompt that was sent leaves less room than its answer may take."""
    calls = list_calls(paid_session, "chat")
    assert calls
    for call in calls:
        assert call.status == 200
        assert call.input_tokens + call.body["max_tokens"] <= window_tokens


async def test_a_digest_of_long_material_has_it_abstracted_once_and_the_readings_combined(
    server: embedded.Server, template: str, tmp_path: Path
) -> None:
    window, process = 6_000, load_process("digest")
    script = {"rules": DIGEST_RULES, "default": {"text": build_reading(1)}}
    async with open_small_shop(
        server,
        template,
        tmp_path / "home",
        script,
        window=window,
        answer=1_200,
        embedder="builtin/static",
    ) as paid_session:
        installation = paid_session.installation
        ask = RunRequest(
            prompt="What does it cost?",
            models=[WRITER] * READERS,
            process=process,
            resources=MATERIAL,
        )
        tenant = Tenant(installation.engine, installation.account)
        quoted = (await quotes.quote_run(tenant, ask, with_lines=True)).work
        session_id = await installation.play(
            [WRITER] * READERS, process=process, resources=MATERIAL
        )
        record = await installation.record(session_id)
        abstracts = await read_compressions(paid_session)
        holds = await paid_session.list_holds()
        assert await verify(installation) == []
        check_windows(paid_session, window)

    assert record.session["status"] == "iteration_complete"
    readings, digests = record.select("reading"), record.select("digest")
    assert len(readings) == len(digests) == READERS
    # One abstract serves all readers, and each of its figures says who wrote it.
    for row in (*readings, *digests):
        (item,) = list_shortened(row)
        assert item["label"].startswith("Reference documents")
        assert item["compressor"] == f"abstract/1 {WRITER}"
    assert {row["content"] for row in abstracts} == {ABSTRACT.strip()}
    assert len(abstracts) == sum(row["purpose"] == "compression" for row in holds) < READERS
    # One heap of readings for all digests.
    (combine,) = [job for job in record.jobs if job["job_type"] == "combine"]
    merges = [job for job in record.jobs if job["job_type"] == "merge"]
    assert {job["parent_job_id"] for job in merges} == {combine["id"]}
    combined = record.select("combined")
    sources = Counter(source for row in combined for source in row["source_contribution_ids"])
    assert sources == Counter(row["id"] for row in readings)
    for row in digests:
        read = [label for label in record.read_blocks(row) if label.startswith("Combined")]
        assert len(read) == len(combined)
        assert MERGED.strip() in record.read_prompt(row)
    # What was spent was foreseen.
    spent = sum(row["charged_credits"] for row in holds if row["purpose"] == "call")
    assert spent <= quoted.figures.ceiling.credits


async def test_resources_that_are_too_long_by_themselves_leave_short_readings_as_they_are(
    server: embedded.Server, template: str, tmp_path: Path
) -> None:
    short = "## Subject\n\nBakeries.\n\n## Claims\n\nC1. Bread costs 37.\n\n## Gaps\n\nNone."
    script = {"rules": DIGEST_RULES, "default": {"text": short}}
    async with open_small_shop(
        server,
        template,
        tmp_path / "home",
        script,
        window=6_000,
        answer=1_200,
        embedder="builtin/static",
    ) as paid_session:
        installation = paid_session.installation
        session_id = await installation.play(
            [WRITER] * 2, process=load_process("digest"), resources=MATERIAL
        )
        record = await installation.record(session_id)
    assert record.session["status"] == "iteration_complete"
    assert {job["job_type"] for job in record.jobs} == {"plan", "execute"}
    for row in record.select("digest"):
        assert [item["label"] for item in list_shortened(row)] == ["Reference documents"]
        assert short in record.read_prompt(row)


async def test_the_final_synthesis_reads_the_passages_that_matter_of_all_reduced_proposals(
    server: embedded.Server, template: str, tmp_path: Path
) -> None:
    window = 14_000
    long = f"# A proposal\n\n{write_text(120)}\n"
    script = {
        "rules": [{"contains": "improved versions of one and the same proposal", "text": long}],
        "default": {"text": "Done, and well."},
    }
    async with open_small_shop(
        server,
        template,
        tmp_path / "home",
        script,
        window=window,
        answer=2_000,
        embedder="builtin/static",
    ) as paid_session:
        installation = paid_session.installation
        session_id = await installation.play([WRITER] * 3, until="synthesis")
        record = await installation.record(session_id)
        (memory,) = await installation.fetch("select count(*) as pieces from dialectic_memory")
        assert await verify(installation) == []
        check_windows(paid_session, window)
    assert record.session["status"] == "synthesis_generation_complete"
    reduced = {row["id"] for row in record.select("reduced_synthesis")}
    finals = record.select("synthesis")
    assert (len(reduced), len(finals)) == (9, 3)
    for row in finals:
        assert "retrieved: passages of 9 of 9 documents" in row["flags"]
        assert {item["compressor"] for item in list_shortened(row)} == {"retrieve/1 builtin/static"}
        assert set(row["source_contribution_ids"]) == reduced
    assert memory["pieces"] > 0
