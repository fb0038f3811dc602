"""Documents that a reader has no room for are merged first, level by level, and paid for once."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from dialectic.app import contributions, quotes, sessions, transfer
from dialectic.app.transaction import Tenant
from dialectic.contract.sessions import RunRequest
from dialectic.core.documents.file_paths import Intermediate, parse_path
from dialectic.core.money.quote import Quote
from dialectic.postgres import embedded
from dialectic.processes.loader import load_process
from tests.scenario.documented_layout import STAGE_FOLDER, list_patterns
from tests.scenario.paid_models import SHORT_LEASE_S, PaidSession, open_paid_session, verify
from tests.scenario.whole_session import Record, Row
from tests.waiting import PATIENCE_S

WINDOW_TOKENS = 2_000
ANSWER_TOKENS = 500
MODEL = f"""
[endpoints.{{name}}]
kind = "openai"
base_url = "{{url}}"

[endpoints.{{name}}.models.writer]
context_window_tokens = {WINDOW_TOKENS}
max_output_tokens = {ANSWER_TOKENS}
input_usd_per_million = 1
output_usd_per_million = 2
tokenizer = "chars:4"
"""
FACTS = {
    "*": {
        "tokenizer": "chars:4",
        "context_window_tokens": WINDOW_TOKENS,
        "max_output_tokens": ANSWER_TOKENS,
    }
}
WRITER = "sim/writer"
COMBINED_PLACE = f"{STAGE_FOLDER}_work/{{model}}_combining_{{id}}_{{n}}_combined.md"
PLENTY = 50_000_000

PROCESS = """
name = "heap"
title = "A heap"
starting_stage = "idea"

[[stages]]
slug = "idea"
display_name = "Idea"
system_prompt_name = "role"
prompt_template_name = "idea"
output_type = "idea"

[[stages]]
slug = "verdict"
display_name = "Verdict"
system_prompt_name = "role"
prompt_template_name = "seed"
output_type = "verdict"
inputs_required = [{ type = "idea", stage_slug = "idea", header = "Idea" }]

[[stages.steps]]
name = "judge"
prompt_template_name = "judge"
granularity_strategy = "all_to_one"
output_type = "verdict"
overflow = "combine"
inputs_required = [{ type = "idea", stage_slug = "idea", header = "Idea" }]

[[transitions]]
source = "idea"
target = "verdict"
"""
PROMPTS = {
    "role": "You write.",
    "idea": "{{ request }}",
    "seed": "{{ request }} {{ listing }}",
    "judge": "JUDGE {{ request }} {% for input in inputs %}{{ input }}\n{% endfor %}",
}


def fill(word: str, tokens: int) -> str:
    """A text of this number of tokens, made of one word."""
    return (f"{word} " * (4 * tokens))[: 4 * tokens - 1] + "."


IDEA, FIRST, SECOND, VERDICT = (
    fill("idea", 440),
    fill("merged", 220),
    fill("again", 120),
    "The verdict.",
)
# What is said first of all decides: readers, then merges of what was merged, then merges.
RULES: list[dict[str, Any]] = [
    {"contains": "JUDGE", "text": VERDICT},
    {"contains": "Combined documents, part", "text": SECOND},
    {"contains": "Merge the documents", "text": FIRST},
]
SCRIPT = {"models": FACTS, "keep_bodies": True, "default": {"text": IDEA}, "rules": RULES}
SMALL_REQUEST = "Which of these?"
LARGE_REQUEST = fill("request", 800)


@pytest.fixture
def heap(tmp_path: Path) -> Path:
    """A process whose last step reads everything."""
    folder = tmp_path / "heap"
    (folder / "prompts").mkdir(parents=True)
    (folder / "process.toml").write_text(PROCESS)
    for name, text in PROMPTS.items():
        (folder / "prompts" / f"{name}.md").write_text(text)
    return folder


@pytest.fixture
async def paid_session(
    server: embedded.Server, template: str, tmp_path: Path, heap: Path
) -> AsyncIterator[PaidSession]:
    """A model that reads little."""
    async with open_paid_session(
        server, template, tmp_path / "home", SCRIPT, model=MODEL
    ) as opened:
        await opened.put_in(PLENTY)
        yield opened


def build_idea(subject: str) -> str:
    """An idea of several parts, one of which is about the subject."""
    asides = ("tables", "chairs", "lamps", "curtains", "spoons")
    parts = [
        f"## On {aside}\n\n" + f"We keep the {aside} in the {subject} room and count them. " * 5
        for aside in asides
    ]
    parts.insert(3, f"## On money\n\nThe {subject} costs 4,200 euros and is paid in May.")
    return f"# The {subject}\n\n" + "\n\n".join(parts)


def wish(tmp_path: Path, request: str) -> dict[str, Any]:
    return {"process": str(tmp_path / "heap"), "prompt": request, "max_output_tokens": 500}


def select_jobs(record: Record, kind: str) -> list[Row]:
    return [job for job in record.jobs if job["job_type"] == kind]


def check_windows(paid_session: PaidSession) -> None:
    """No prompt that was sent leaves less room than its answer may take."""
    assert paid_session.simulator.log.calls
    for call in paid_session.simulator.log.calls:
        assert call.status == 200
        assert call.input_tokens + ANSWER_TOKENS <= WINDOW_TOKENS


async def quote_all(paid_session: PaidSession, tmp_path: Path, models: int) -> Quote:
    ask = RunRequest(
        prompt=SMALL_REQUEST,
        models=[WRITER] * models,
        process=load_process(str(tmp_path / "heap")),
        max_output_tokens=ANSWER_TOKENS,
    )
    tenant = Tenant(paid_session.installation.engine, paid_session.installation.account)
    return (await quotes.quote_run(tenant, ask, with_lines=True)).work


async def test_a_heap_becomes_one_level_and_the_reader_sees_what_was_merged_and_no_original(
    paid_session: PaidSession, tmp_path: Path
) -> None:
    quoted = await quote_all(paid_session, tmp_path, 4)
    session_id = await paid_session.installation.play([WRITER] * 4, **wish(tmp_path, SMALL_REQUEST))
    record = await paid_session.installation.record(session_id)
    assert record.session["status"] == "iteration_complete"
    check_windows(paid_session)
    (combine,) = select_jobs(record, "combine")
    merges = select_jobs(record, "merge")
    assert {job["parent_job_id"] for job in merges} == {combine["id"]}
    assert {job["step_number"] for job in merges} == {1}
    ideas = {row["id"] for row in record.select("idea")}
    combined = record.select("combined")
    assert Counter(i for row in combined for i in row["source_contribution_ids"]) == Counter(ideas)
    for row in record.select("verdict"):
        blocks = record.read_blocks(row)
        inputs = [text for label, text in blocks.items() if label.startswith("Combined")]
        assert inputs == [FIRST] * len(combined)
        assert IDEA not in record.read_prompt(row)
        read = row["source_contribution_ids"][: -len(ideas)]
        assert list(map(str, read)) == combine["results"]["documents"]
        assert set(row["source_contribution_ids"][-len(ideas) :]) == ideas
    patterns = list_patterns()
    for path in record.files:
        assert len([name for name, pattern in patterns.items() if pattern.fullmatch(path)]) == 1
    for row in combined:
        assert patterns[COMBINED_PLACE].fullmatch(row["storage_path"])
        assert row["is_intermediate"]
        place = parse_path(row["storage_path"])
        assert isinstance(place, Intermediate)
        assert place.contribution.relation.kind == "combining"
        labels = re.findall(r"BEGIN (Idea [A-D]) ", record.read_prompt(row))
        assert len(labels) == len(row["source_contribution_ids"])
    # Four readers, all of one model: one heap for all of them, and each answer paid for once.
    assert len(record.select("verdict")) == 4
    paid = await paid_session.check_books(session_id)
    merged = {row["id"] for row in combined}
    assert sum(row["answer_id"] in merged for row in paid) == len(merges)
    spent = sum(row["charged_credits"] for row in paid)
    assert spent <= quoted.figures.worst.credits
    assert len(paid) <= quoted.figures.worst.calls
    assert sum(line.too_long for line in quoted.lines) == 0
    assert [(run["planned_units"], run["finished_units"]) for run in record.stages] == [
        (4, 4),
        (4, 4),
    ]


async def test_more_than_a_level_can_hold_becomes_a_tree(
    paid_session: PaidSession, tmp_path: Path
) -> None:
    session_id = await paid_session.installation.play([WRITER] * 6, **wish(tmp_path, LARGE_REQUEST))
    record = await paid_session.installation.record(session_id)
    assert record.session["status"] == "iteration_complete"
    check_windows(paid_session)
    merges = select_jobs(record, "merge")
    levels = Counter(job["step_number"] for job in merges)
    assert set(levels) == {1, 2}
    assert levels[2] < levels[1]
    by_id = {row["id"]: row for row in record.select("combined")}
    (combine,) = select_jobs(record, "combine")
    left = [by_id[UUID(made)] for made in combine["results"]["documents"]]
    assert {row["content"] for row in left} == {SECOND}
    under = [by_id[source] for row in left for source in row["source_contribution_ids"]]
    ideas = Counter(row["id"] for row in record.select("idea"))
    assert Counter(i for row in under for i in row["source_contribution_ids"]) == ideas
    for row in record.select("verdict"):
        assert SECOND in record.read_prompt(row)
        assert FIRST not in record.read_prompt(row)
    await paid_session.check_books(session_id)


async def test_what_was_combined_is_read_again_until_one_of_its_documents_is_another(
    paid_session: PaidSession, tmp_path: Path
) -> None:
    installation = paid_session.installation
    engine, account = installation.engine, installation.account
    session_id = await installation.play([WRITER] * 4, **wish(tmp_path, SMALL_REQUEST))
    record = await installation.record(session_id)
    verdict, *_ = record.select("verdict")
    merges = len(select_jobs(record, "merge"))

    await Tenant(engine, account).run(contributions.regenerate, verdict["id"])
    await installation.work(session_id)
    record = await installation.record(session_id)
    assert len(select_jobs(record, "merge")) == merges, "nothing is merged twice"
    assert len(record.select("verdict")) == 5
    await paid_session.check_books(session_id)

    idea, *_ = record.select("idea")
    edited = await Tenant(engine, account).run(contributions.edit, idea["id"], fill("better", 440))
    record = await installation.record(session_id)
    stale = {row["contribution_type"] for row in record.contributions if row["is_stale"]}
    assert stale == {"combined", "verdict"}
    assert edited.stale == sum(row["is_stale"] for row in record.contributions)
    await Tenant(engine, account).run(contributions.regenerate, verdict["id"])
    await installation.work(session_id)
    record = await installation.record(session_id)
    assert len(select_jobs(record, "combine")) == 2
    newest = [row for row in record.select("combined") if not row["is_stale"]]
    assert any("better" in record.read_prompt(row) for row in newest)
    check_windows(paid_session)
    assert await verify(installation) == []

    # All of it can be taken away and taken in again.
    here, there = tmp_path / "here.zip", tmp_path / "there.zip"
    project_id = record.project["id"]
    await transfer.export_project(engine, account, project_id, here)
    copy = await transfer.import_project(engine, account, here)
    assert copy.is_copy
    await transfer.export_project(engine, account, copy.project_id, there)
    rows = await installation.fetch(
        "select content, storage_path from dialectic_contributions"
        " where session_id = $1 and contribution_type = 'combined'",
        copy.session_ids[0],
    )
    combined = record.select("combined")
    assert sorted(row["content"] for row in rows) == sorted(row["content"] for row in combined)
    assert {parse_path(row["storage_path"]) for row in rows}.isdisjoint(
        parse_path(row["storage_path"]) for row in combined
    )


async def test_a_merge_that_fails_fails_everyone_who_waits_and_a_retry_merges_only_what_is_missing(
    server: embedded.Server, template: str, heap: Path, tmp_path: Path
) -> None:
    refused = {
        "contains": "Merge the",
        "wire": "openai",
        "fault": "filtered",
        "calls": "1",
        "gate": "merging",
    }
    script = {**SCRIPT, "rules": [RULES[0], refused, *RULES[1:]]}
    async with open_paid_session(
        server, template, tmp_path / "home", script, model=MODEL
    ) as paid_session:
        await paid_session.put_in(PLENTY)
        installation = paid_session.installation
        paid_session.simulator.hold("merging")
        session_id = await installation.create([WRITER] * 4, **wish(tmp_path, SMALL_REQUEST))
        await Tenant(installation.engine, installation.account).run(sessions.generate, session_id)

        async def all_wait() -> bool:
            jobs = select_jobs(await installation.record(session_id), "execute")
            return [job["status"] for job in jobs] == ["waiting_for_prerequisite"] * 4

        async with installation.working():
            await installation.until(all_wait)
            paid_session.simulator.release("merging")
        await installation.work(session_id)
        record = await installation.record(session_id)
        assert record.session["status"] == "verdict_generation_failed"
        (combine,) = select_jobs(record, "combine")
        assert combine["status"] == "failed"
        for job in select_jobs(record, "execute"):
            assert job["status"] in ("failed", "cancelled")
        assert "failed" in {job["status"] for job in select_jobs(record, "merge")}
        done = {job["id"] for job in select_jobs(record, "merge") if job["status"] == "completed"}

        await Tenant(installation.engine, installation.account).run(sessions.retry, session_id)
        await installation.work(session_id)
        record = await installation.record(session_id)
        assert record.session["status"] == "iteration_complete"
        assert len(record.select("verdict")) == 4
        for job in select_jobs(record, "merge"):
            assert job["status"] == "completed"
            assert job["attempt_count"] == (1 if job["id"] in done else 2)
        await paid_session.check_books(session_id)


async def test_a_worker_that_dies_between_the_merges_and_their_reader_merges_nothing_twice(
    paid_session: PaidSession, tmp_path: Path
) -> None:
    installation = paid_session.allow(lease_s=SHORT_LEASE_S).installation
    session_id = await installation.create([WRITER] * 4, **wish(tmp_path, SMALL_REQUEST))
    await Tenant(installation.engine, installation.account).run(sessions.generate, session_id)
    # Four ideas, two merges: the seventh call that is about to leave is the first reader's.
    worker = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "dialectic", "worker", "--concurrency", "2"),
        env={
            **os.environ,
            "DIALECTIC_HOME": str(installation.engine.settings.home),
            "DIALECTIC_DATABASE_URL": installation.engine.address.url,
            "DIALECTIC_LEASE_S": str(SHORT_LEASE_S),
            "DIALECTIC_FAILPOINTS": "before_send=kill@7",
        },
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert await asyncio.wait_for(worker.wait(), PATIENCE_S) == -signal.SIGKILL
    record = await installation.record(session_id)
    (combine,) = select_jobs(record, "combine")
    assert combine["status"] == "completed"
    assert record.select("verdict") == []
    await installation.work(session_id)
    record = await installation.record(session_id)
    assert record.session["status"] == "iteration_complete"
    assert len(record.select("verdict")) == 4
    sent = Counter(
        "Merge the documents" in json.dumps(call.body) for call in paid_session.simulator.log.calls
    )
    assert sent[True] == len(select_jobs(record, "merge")) == 2
    check_windows(paid_session)
    await paid_session.check_books(session_id)


async def test_a_step_that_retrieves_reads_what_matters_of_all_documents_together(
    server: embedded.Server, template: str, heap: Path, tmp_path: Path
) -> None:
    file = heap / "process.toml"
    file.write_text(file.read_text().replace('"combine"', '"retrieve"'))
    subjects = ("roof", "floor", "door", "stove")
    ideas = [
        {"contains": "What does each cost", "calls": str(number), "text": build_idea(subject)}
        for number, subject in enumerate(subjects, start=1)
    ]
    script = {**SCRIPT, "rules": [RULES[0], *ideas]}
    async with open_paid_session(
        server, template, tmp_path / "home", script, model=MODEL
    ) as paid_session:
        await paid_session.put_in(PLENTY)
        installation = paid_session.installation
        request = "What does each cost in euros, and when is it paid?"
        session_id = await installation.play([WRITER] * 4, **wish(tmp_path, request))
        record = await installation.record(session_id)
        assert record.session["status"] == "iteration_complete"
        check_windows(paid_session)
        assert {job["job_type"] for job in record.jobs} == {"plan", "execute"}
        wholes = {row["id"]: row["content"] for row in record.select("idea")}
        for row in record.select("verdict"):
            prompt = record.read_prompt(row)
            for subject in subjects:
                assert f"The {subject} costs 4,200 euros and is paid in May." in prompt
            assert set(row["source_contribution_ids"]) == set(wholes)
            blocks = record.read_blocks(row)
            read = {label: text for label, text in blocks.items() if label.startswith("Idea")}
            assert len(read) == 4
            assert sum(map(len, read.values())) < sum(map(len, wholes.values()))
            shorter = {label: text for label, text in read.items() if "passages" in label}
            assert shorter
            for label, text in shorter.items():
                assert re.fullmatch(r"Idea [A-D], passages", label)
                last = text.removesuffix("\n\n[…]").splitlines()[-1]
                (whole,) = [whole for whole in wholes.values() if last in whole]
                kept = [part for part in text.split("\n\n") if part in whole]
                assert kept == sorted(kept, key=whole.index), "in the order of the document"
                assert len(text) < len(whole)
            assert row["flags"] == ["retrieved: passages of 4 of 4 documents"]
            manifest = row["manifest"]
            labels = [label.removesuffix(", passages") for label in read]
            assert sorted(item["label"] for item in manifest["items"]) == sorted(labels)
            told = [item for item in manifest["items"] if item["status"] == "compressed"]
            assert {f"{item['label']}, passages" for item in told} == shorter.keys()
            assert {item["compressor"] for item in told} == {"retrieve/1 builtin/static"}
            spared = sum(i["tokens_before"] - i["tokens_after"] for i in manifest["items"])
            assert manifest["tokens_before"] == manifest["tokens_after"] + spared
            assert manifest["tokens_after"] <= manifest["tokens_max"] < manifest["tokens_before"]

        verdict, *_ = record.select("verdict")
        await Tenant(installation.engine, installation.account).run(
            contributions.regenerate, verdict["id"]
        )
        await installation.work(session_id)
        again = await installation.record(session_id)
        (anew,) = [row for row in again.select("verdict") if row["edit_version"] == 2]
        assert sorted(again.read_blocks(anew).values()) == sorted(
            record.read_blocks(verdict).values()
        )
        assert await verify(installation) == []
