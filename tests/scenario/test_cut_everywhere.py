"""A document is the same wherever its answer was cut off: asked for and joined over real HTTP.

Each cut at the boundary of a token goes through adapter, wire, history and seams, as a worker takes
them; a few of every kind go through a whole worker with its chunks and commits.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dialectic.core.access import Secret
from dialectic.core.documents.front_matter import split_document
from dialectic.core.models.messages import Message, Request, Role
from dialectic.pipeline.assemble import build_history
from dialectic.pipeline.call import build_answer
from dialectic.pipeline.interpret import Continue, Finish, Limits, interpret
from dialectic.postgres import embedded
from dialectic.providers.catalog import open_provider
from dialectic.providers.exchange import HttpProvider
from dialectic_simulator import Simulator, open_simulator
from dialectic_simulator.text import count_tokens
from tests.scenario.simulated_endpoints import (
    KEY,
    WIRES,
    build_card,
    build_endpoint,
    open_remote_installation,
)
from tests.scenario.whole_session import Record

DOCUMENT = """# Leftover bread – a plan

Bakeries throw away what nobody bought by closing time; the naïve remedy, a lower price for all,
spoils the day before. 👩‍🌾 and 日本語 are no obstacle, “quotes” neither.

| hour | price | who pays |
|---|---|---|
| 17:00 | 2.40 € | the customer, in advance |
| 18:00 | 1.20 € | the customer, at the counter |

1. Count what is left.
   - by hand, on a slate
   - by the till, if it can
2. Offer it.

```python
def offer(loaves: dict[str, int]) -> list[str]:
    return [f"{name}\\t{count}" for name, count in loaves.items() if count > 0]
```

```json
{"offer": {"id": 7, "loaves": ["rye", "spelt"], "note": "until \\"seven\\"", "free": [1, 2, 3]}}
```

That is all.
"""
ENCODING = "o200k_base"
TOKENS = count_tokens(DOCUMENT, ENCODING)
ROOM_TOKENS = 2_000
LIMITS = Limits(continues=True, continuations_max=5)
CARD = build_card("bakery/m")
PROMPT = Message(Role.USER, "Write the plan.")
THE_FACTS = {"models": {"*": {"tokenizer": ENCODING}}}


@dataclass(frozen=True, slots=True)
class Author:
    """A model behind one wire, asked turn by turn until its document is there."""

    provider: HttpProvider
    simulator: Simulator

    async def write(self, *, first: int, later: int) -> tuple[Finish, list[str]]:
        """Write a document in turns of a number of tokens; give it, and what was said before."""
        said: list[str] = []
        while True:
            request = Request(
                model=CARD.name,
                system="Be brief.",
                messages=(PROMPT, *build_history(said)),
                max_output_tokens=later if said else first,
            )
            reply = await self.provider.complete(CARD, request, lambda _piece: None)
            answer = build_answer(request, reply, elapsed_ms=0)
            assert answer.notes == ()
            outcome = interpret(answer.reply, said, LIMITS)
            if isinstance(outcome, Finish):
                return outcome, said
            assert isinstance(outcome, Continue)
            said.append(answer.reply.text)


@asynccontextmanager
async def open_author(wire: str, **manner: Any) -> AsyncIterator[Author]:
    script = {**THE_FACTS, "endpoints": {"bakery": {"text": DOCUMENT, **manner}}}
    async with open_simulator(script) as simulator:
        provider = open_provider(build_endpoint(simulator, wire, "bakery"), Secret(KEY))
        try:
            yield Author(provider, simulator)
        finally:
            await provider.close()


# -- every boundary --------------------------------------------------------------------------------


@pytest.mark.parametrize("wire", WIRES)
async def test_a_document_cut_once_at_any_token_is_the_uncut_one(wire: str) -> None:
    async with open_author(wire) as author:
        for cut in range(1, TOKENS):
            outcome, said = await author.write(first=cut, later=ROOM_TOKENS)
            assert outcome == Finish(DOCUMENT, is_incomplete=False), cut
            assert len(said) == 1
            assert DOCUMENT.startswith(said[0])
        calls = author.simulator.log.calls
    assert [call.finish_reason for call in calls] == ["length", "stop"] * (TOKENS - 1)
    assert TOKENS > 200


@pytest.mark.parametrize("wire", WIRES)
async def test_a_document_of_six_turns_is_the_uncut_one(wire: str) -> None:
    # A little more than a sixth: a cut inside a character falls before it.
    later = TOKENS // 6 + 4
    async with open_author(wire) as author:
        for first in range(TOKENS - 5 * later + 10, TOKENS - 4 * later - 10):
            outcome, said = await author.write(first=first, later=later)
            assert outcome == Finish(DOCUMENT, is_incomplete=False), first
            assert len(said) == 5


@pytest.mark.parametrize("wire", WIRES)
async def test_an_answer_without_end_ends_at_the_limit(wire: str) -> None:
    async with open_author(wire, always_length=True) as author:
        outcome, said = await author.write(first=50, later=50)
    assert len(said) == 5
    assert outcome.is_incomplete
    assert outcome.flags == ("continuation_limit",)


# -- through a worker ------------------------------------------------------------------------------


def find_cut(words: str) -> int:
    """Find the cut that falls within or right behind these words."""
    place = DOCUMENT.index(words) + len(words)
    return count_tokens(DOCUMENT[:place], ENCODING)


CUTS = {
    "prose": find_cut("spoils the d"),
    "table": find_cut("| 18:00 | 1."),
    "list": find_cut("   - by the"),
    "fence": find_cut("    return [f"),
    "people": find_cut("👩‍"),
    "json": find_cut('"loaves": ["ry'),
}
CHAINED, ENDLESS = "six", "endless"


def build_manner(kind: str) -> dict[str, Any]:
    match kind:
        case "six":
            return {"cut_after_tokens": TOKENS // 6 + 4, "cut_each_turn": True}
        case "endless":
            return {"cut_after_tokens": 40, "cut_each_turn": True, "always_length": True}
        case _:
            return {"cut_after_tokens": CUTS[kind]}


KINDS = (*CUTS, CHAINED, ENDLESS)


@dataclass(frozen=True, slots=True)
class WrittenDocuments:
    """What each model left, by the name of its endpoint."""

    record: Record
    chunks: dict[str, list[str]]
    calls: dict[str, int]

    def find(self, endpoint: str) -> Any:
        (row,) = [r for r in self.record.contributions if r["model_name"] == f"{endpoint}/m"]
        return row


@pytest.fixture(scope="module", params=WIRES)
def written(
    request: pytest.FixtureRequest,
    server: embedded.Server,
    template: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> WrittenDocuments:
    script = {
        **THE_FACTS,
        "endpoints": {kind: {"text": DOCUMENT, **build_manner(kind)} for kind in KINDS},
    }
    home: Path = tmp_path_factory.mktemp("cuts") / "home"

    async def main() -> WrittenDocuments:
        wires = dict.fromkeys(KINDS, request.param)
        async with open_remote_installation(server, template, home, script, wires) as (
            stage,
            simulator,
        ):
            session_id = await stage.play([f"{kind}/m" for kind in KINDS], until="thesis")
            chunks: dict[str, list[str]] = {}
            for row in await stage.fetch(
                "select model_name, content from dialectic_chunks order by turn_index"
            ):
                chunks.setdefault(row["model_name"].split("/")[0], []).append(row["content"])
            calls = [call.endpoint for call in simulator.log.calls]
            record = await stage.record(session_id)
            return WrittenDocuments(record, chunks, {kind: calls.count(kind) for kind in KINDS})

    return asyncio.run(main())


@pytest.mark.parametrize("kind", CUTS)
def test_a_worker_joins_what_was_cut_in_two_to_the_uncut_document(
    written: WrittenDocuments, kind: str
) -> None:
    row = written.find(kind)
    assert (row["content"], row["is_incomplete"]) == (DOCUMENT, False)
    assert not [flag for flag in row["flags"] if not flag.startswith("missing:")]
    assert "".join(written.chunks[kind]) == DOCUMENT
    assert len(written.chunks[kind]) == written.calls[kind] == 2
    facts, body = split_document(written.record.files[row["storage_path"]].decode())
    assert (body, facts["turns"], facts["incomplete"]) == (DOCUMENT, 2, False)


def test_a_worker_joins_six_turns_to_the_uncut_document(written: WrittenDocuments) -> None:
    row = written.find(CHAINED)
    assert (row["content"], row["is_incomplete"]) == (DOCUMENT, False)
    assert len(written.chunks[CHAINED]) == written.calls[CHAINED] == 6


def test_a_worker_ends_an_answer_without_end_at_the_limit_and_marks_it(
    written: WrittenDocuments,
) -> None:
    row = written.find(ENDLESS)
    assert len(written.chunks[ENDLESS]) == written.calls[ENDLESS] == 6
    assert row["content"] == "".join(written.chunks[ENDLESS])
    assert row["is_incomplete"]
    assert "continuation_limit" in row["flags"]
    facts, _ = split_document(written.record.files[row["storage_path"]].decode())
    assert (facts["incomplete"], facts["finish_reason"]) == (True, "length")
    assert "continuation_limit" in str(facts["flags"])
    (told_of,) = [
        data
        for data in written.record.list_told("dialectic_contribution_received")
        if data["contribution"]["id"] == str(row["id"])
    ]
    assert told_of["contribution"]["is_incomplete"] is True
