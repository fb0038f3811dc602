"""The records of calls, on every wire: each rebuilds its call, and all stay small."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from dialectic.contract.projects import ResourceRequest
from dialectic.core.documents.file_paths import ResourceKind
from dialectic.core.models.call_record import CallRecord, read_call_record
from dialectic.core.models.messages import Reply, Request
from dialectic.core.models.model import ModelCard
from dialectic.postgres import embedded
from dialectic.providers.base import OnText
from dialectic.providers.catalog import Catalog
from dialectic_simulator import open_simulator
from tests.scenario.simulated_endpoints import (
    PLAIN_TOKENS,
    WIRES,
    build_endpoint,
    build_remote_catalog,
)
from tests.scenario.whole_session import Record, open_installation

# What cleaning takes out, and what JSON must escape: it stays in the record.
TEXT = '\ufeffBread\u200b is “warm”\r\nor\u202e not: 2.40 € 🥖 \\u0041 "quoted".\x07 ' * 30
NOTES = "Each baker counts what is left over at closing time, and says so at the counter. " * 80
SIZE_FACTOR_MAX = 1.5


@dataclass(frozen=True, slots=True)
class RecordingProvider:
    """Answers as another provider does, and keeps what it returned."""

    inner: Any
    said: list[tuple[Request, Reply]] = field(default_factory=list)

    async def complete(self, card: ModelCard, request: Request, on_text: OnText) -> Reply:
        reply: Reply = await self.inner.complete(card, request, on_text)
        self.said.append((request, reply))
        return reply


@dataclass(frozen=True, slots=True)
class Story:
    """What a session left behind, and what its adapters had returned."""

    record: Record
    chunks: int
    said: list[tuple[Request, Reply]]

    @property
    def files(self) -> dict[str, bytes]:
        return {path: data for path, data in self.record.files.items() if "raw_responses" in path}

    def read_records(self) -> list[CallRecord]:
        return [read_call_record(data) for data in self.files.values()]


async def play(
    server: embedded.Server, template: str, home: Path, script: dict[str, Any], **wishes: Any
) -> Story:
    """Play a session of one model on each wire."""
    endpoints: dict[str, Any] = {"endpoints": {wire: {} for wire in WIRES}}
    async with open_simulator({"models": PLAIN_TOKENS, **endpoints, **script}) as simulator:
        ends = [build_endpoint(simulator, wire, wire) for wire in WIRES]
        plain = build_remote_catalog(ends)
        said: list[tuple[Request, Reply]] = []
        providers = {name: RecordingProvider(plain.providers[name], said) for name in WIRES}
        catalog: Catalog = replace(plain, providers=providers)
        async with open_installation(server, template, home, catalog) as installation:
            session_id = await installation.play([f"{wire}/m" for wire in WIRES], **wishes)
            record = await installation.record(session_id)
            chunks = len(await installation.fetch("select id from dialectic_chunks"))
        await plain.close()
    return Story(record, chunks, said)


@pytest.fixture(scope="module")
def cut_story(
    server: embedded.Server, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Story:
    """Every answer is cut off, and each model refuses its first prompt as too long."""
    script = {
        "endpoints": {wire: {"text": TEXT, "cut_after_tokens": 200} for wire in WIRES},
        "rules": [{"endpoint": wire, "calls": 1, "fault": "400_context_length"} for wire in WIRES],
    }
    notes = ResourceRequest(kind=ResourceKind.REFERENCE_DOCUMENTS, name="notes.md", text=NOTES)
    home = tmp_path_factory.mktemp("records") / "home"
    story = play(server, template, home, script, until="antithesis", resources=[notes])
    return asyncio.run(story)


def test_every_answer_of_every_wire_is_rebuilt_from_its_record_field_by_field(
    cut_story: Story,
) -> None:
    records = cut_story.read_records()
    assert len(cut_story.record.contributions) == 12
    assert cut_story.chunks > 12, "answers took several turns"
    assert len(records) == len(cut_story.said)
    told = [(one.request, replace(one.answer, raw={})) for one in records if one.answer]
    said = [(request, replace(reply, raw={})) for request, reply in cut_story.said]
    assert all(call in said for call in told)
    assert all(call in told for call in said)
    assert {request.model for request, _ in told} == {f"{wire}/m" for wire in WIRES}


def test_the_text_of_a_record_is_the_one_before_cleaning(cut_story: Story) -> None:
    texts = [one.answer.text for one in cut_story.read_records() if one.answer]
    assert any("\u200b" in text and "\u202e" in text for text in texts)
    assert not any("\u200b" in row["content"] for row in cut_story.record.contributions)


def test_a_prompt_that_was_refused_as_too_long_is_in_the_record_of_the_next_one(
    cut_story: Story,
) -> None:
    refused = [one for one in cut_story.read_records() if one.refused]
    assert sorted(one.request.model for one in refused) == sorted(f"{wire}/m" for wire in WIRES)
    for one in refused:
        (refusal,) = one.refused
        assert refusal.had_tokens is None or refusal.had_tokens > 0


async def test_the_records_of_three_models_are_at_most_half_as_large_again_as_without_answers(
    server: embedded.Server, template: str, tmp_path: Path
) -> None:
    story = await play(server, template, tmp_path / "home", {})
    assert len(story.record.contributions) == 57
    before = 0
    for request, reply in story.said:
        sent = {name: value for name, value in asdict(request).items() if name != "variant"}
        first = {"request": sent, "response": reply.raw}
        before += len(json.dumps(first, ensure_ascii=False, indent=2, sort_keys=True).encode())
    after = sum(map(len, story.files.values()))
    assert before < after <= SIZE_FACTOR_MAX * before
