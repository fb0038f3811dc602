"""Truncated answers are continued, turn by turn, until the document is complete."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from dialectic.app import contributions, feedback, sessions
from dialectic.app.transaction import Tenant
from dialectic.core.documents.front_matter import split_document
from dialectic.core.models.messages import (
    FinishReason,
    Message,
    Reply,
    Request,
    Role,
    Usage,
    UsageSource,
)
from dialectic.core.models.model import ModelCard
from dialectic.engine import Failpoints
from dialectic.errors import ContextWindowError, DialecticError, ProviderTransient
from dialectic.postgres import embedded
from dialectic.providers.base import OnText
from dialectic.providers.catalog import Catalog
from dialectic.providers.offline.provider import CARDS, OfflineProvider
from tests.scenario.test_run import PROMPT, Home, copy_home, read_project, without_ids
from tests.scenario.whole_session import (
    ARCHITECT,
    SKEPTIC,
    Installation,
    Record,
    Row,
    open_installation,
    told_once,
)

MODELS = [ARCHITECT, SKEPTIC]
CAP_TOKENS = 450
CONTINUED = "contribution_generation_continued"


def let_go_on(installation: Installation, *, failpoints: str = "", **changes: Any) -> Installation:
    """The same place with other settings, and perhaps something that fails."""
    settings = replace(installation.engine.settings, **{"max_continuations": 100, **changes})
    return replace(
        installation,
        engine=replace(installation.engine, settings=settings),
        worker_engine=replace(
            installation.worker_engine, settings=settings, failpoints=Failpoints.parse(failpoints)
        ),
    )


async def read_chunks(installation: Installation, session_id: UUID) -> list[Row]:
    return await installation.fetch(
        "select * from dialectic_chunks where session_id = $1"
        " order by root_contribution_id, turn_index",
        session_id,
    )


def read_requests(record: Record, rows: list[Row]) -> list[Request]:
    """What was sent, as the raw answers have it."""
    sent = [record.read_request(row) for row in rows]
    return [
        Request(
            model=one["model"],
            system=one["system"],
            messages=tuple(Message(Role(m["role"]), m["content"]) for m in one["messages"]),
            max_output_tokens=one["max_output_tokens"],
        )
        for one in sent
    ]


# -- a whole dialectic ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CutDialectic:
    """A whole dialectic of answers that are cut off, and what each would have been uncut."""

    record: Record
    chunks: list[Row]
    uncut: dict[UUID, str]

    def list_chains(self) -> dict[UUID, list[Row]]:
        chains: dict[UUID, list[Row]] = {}
        for row in self.chunks:
            chains.setdefault(row["root_contribution_id"], []).append(row)
        return chains


async def answer_uncut(record: Record, row: Row, chain: list[Row]) -> str:
    """Ask the model once more for a document, with room for all of it."""
    (sent,) = read_requests(record, [chain[0] if chain else row])
    payload = record.find_job(row["job_id"])["payload"]
    request = replace(sent, max_output_tokens=8_000, variant=payload["ordinal"])
    card = next(card for card in CARDS if card.name == request.model)
    reply = await OfflineProvider().complete(card, request, lambda _: None)
    assert reply.finish_reason is FinishReason.STOP
    return reply.text


@pytest.fixture(scope="module")
def cut_dialectic(
    server: embedded.Server, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[CutDialectic]:
    found: list[CutDialectic] = []

    async def tell(installation: Installation) -> Record:
        installation = let_go_on(installation)
        session_id = await installation.play(MODELS, name="Cut", max_output_tokens=CAP_TOKENS)
        record = await installation.record(session_id)
        chunks = await read_chunks(installation, session_id)
        cut_dialectic = CutDialectic(record, chunks, {})
        chains = cut_dialectic.list_chains()
        for row in record.contributions:
            cut_dialectic.uncut[row["id"]] = await answer_uncut(
                record, row, chains.get(row["id"], [])
            )
        found.append(cut_dialectic)
        return record

    with told_once(server, template, tmp_path_factory.mktemp("cut") / "home", tell):
        yield found[0]


def test_every_document_is_the_one_that_an_uncut_answer_would_have_been(
    cut_dialectic: CutDialectic,
) -> None:
    record = cut_dialectic.record
    assert record.session["status"] == "iteration_complete"
    assert len(record.contributions) == 24
    for row in record.contributions:
        assert row["content"] == cut_dialectic.uncut[row["id"]]
        assert (row["is_incomplete"], row["finish_reason"]) == (False, "stop")
        _, body = split_document(record.files[row["storage_path"]].decode())
        assert body == row["content"]
    assert len(cut_dialectic.list_chains()) > 20, "nearly all of them are longer than one answer"


def test_every_turn_is_one_claim_and_one_chunk_and_none_is_made_twice(
    cut_dialectic: CutDialectic,
) -> None:
    chains = cut_dialectic.list_chains()
    for row in cut_dialectic.record.contributions:
        chain = chains.get(row["id"], [])
        assert [chunk["turn_index"] for chunk in chain] == list(range(len(chain)))
        assert [chunk["finish_reason"] for chunk in chain] == ["length"] * (len(chain) - 1) + (
            ["stop"] if chain else []
        )
        job = cut_dialectic.record.find_job(row["job_id"])
        if job["parent_job_id"] is not None:
            assert job["attempt_count"] == max(1, len(chain))
        assert (job["retry_count"], job["error_details"]) == (0, [])
    assert {chunk["root_contribution_id"] for chunk in cut_dialectic.chunks} <= {
        row["id"] for row in cut_dialectic.record.contributions
    }


def test_the_document_sums_up_its_turns(cut_dialectic: CutDialectic) -> None:
    chains = cut_dialectic.list_chains()
    for row in cut_dialectic.record.contributions:
        chain = chains.get(row["id"])
        if chain is None:
            continue
        fields, _ = split_document(cut_dialectic.record.files[row["storage_path"]].decode())
        for column in ("tokens_used_input", "tokens_used_output", "processing_time_ms"):
            assert row[column] == sum(chunk[column] for chunk in chain)
        assert fields["turns"] == len(chain)
        assert fields["tokens_output"] == row["tokens_used_output"]
        assert row["raw_response_storage_path"] == chain[-1]["raw_response_storage_path"]
        assert "incomplete" in fields
        assert not fields["incomplete"]


def test_a_chunk_has_a_file_of_its_own_under_its_documents_name(
    cut_dialectic: CutDialectic,
) -> None:
    files = cut_dialectic.record.files
    for root, chain in cut_dialectic.list_chains().items():
        folder, name = cut_dialectic.record.find(root)["storage_path"].rsplit("/", 1)
        folder, base = folder.removesuffix("/_work"), name.removesuffix(".md")
        for chunk in chain:
            stem = f"{base}_continuation_{chunk['turn_index']}"
            assert chunk["storage_path"] == f"{folder}/_work/{stem}.md"
            assert chunk["raw_response_storage_path"] == f"{folder}/raw_responses/{stem}_raw.json"
            fields, body = split_document(files[chunk["storage_path"]].decode())
            assert body == chunk["content"]
            assert (fields["turn"], fields["contribution_id"]) == (chunk["turn_index"], str(root))
        assert f"{folder}/raw_responses/{base}_raw.json" not in files


def test_every_turn_sees_what_the_first_was_asked_and_all_that_was_said(
    cut_dialectic: CutDialectic,
) -> None:
    for chain in cut_dialectic.list_chains().values():
        requests = read_requests(cut_dialectic.record, chain)
        for before, after in pairwise(requests):
            assert after.messages[: len(before.messages)] == before.messages
        last = requests[-1].messages
        assert [m.content for m in last if m.role is Role.ASSISTANT] == [
            chunk["content"] for chunk in chain[:-1]
        ]
        for message in last[2::2]:
            assert message.content.startswith("Continue your answer exactly where it stopped")
        said = "".join(chunk["content"] for chunk in chain[:-1])
        assert said[-200:].rstrip() in last[-1].content


def test_every_further_turn_is_told_and_counts_as_no_document(cut_dialectic: CutDialectic) -> None:
    continued = cut_dialectic.record.list_told(CONTINUED)
    expected = Counter(
        (str(chunk["root_contribution_id"]), chunk["turn_index"] + 1)
        for chain in cut_dialectic.list_chains().values()
        for chunk in chain[:-1]
    )
    assert expected == Counter(
        (data["chunk"]["root_contribution_id"], data["continuationNumber"]) for data in continued
    )
    assert {data["projectId"] for data in continued} == {str(cut_dialectic.record.project["id"])}
    received = cut_dialectic.record.list_told("dialectic_contribution_received")
    assert len(received) == len(cut_dialectic.record.contributions)
    assert {
        run["finished_units"] == run["planned_units"] for run in cut_dialectic.record.stages
    } == {True}


# -- models that do not go on as they should ------------------------------------------------------


@dataclass
class Scripted:
    """Answers from a list, texts and errors; all but the last are cut off. Keeps what was asked."""

    answers: list[Any]
    ends: bool = True
    asked: list[Request] = field(default_factory=list)
    before: Callable[[Request], Any] | None = None

    async def complete(self, card: ModelCard, request: Request, on_text: OnText) -> Reply:
        self.asked.append(request)
        if self.before is not None:
            await self.before(request)
        answer = self.answers.pop(0)
        if isinstance(answer, DialecticError):
            raise answer
        is_last = self.ends and not self.answers
        return Reply(
            text=answer,
            finish_reason=FinishReason.STOP if is_last else FinishReason.LENGTH,
            raw_finish_reason="end" if is_last else "max_tokens",
            usage=Usage(100, max(1, len(answer) // 4), UsageSource.REPORTED),
            request_id=f"request {len(self.asked)}",
            raw={"text": answer},
        )


def build_texts(count: int) -> list[str]:
    """Turns of a text in which nothing is said twice."""
    return [
        f"{number}. Chapter {number} tells what happened in the year {1800 + number}, when the "
        f"hall had {number * 17} chairs and nobody counted th"
        for number in range(count)
    ]


@pytest.fixture
def script() -> Scripted:
    return Scripted([])


@pytest.fixture
async def installation(
    server: embedded.Server, template: str, tmp_path: Path, script: Scripted
) -> AsyncIterator[Installation]:
    catalog = Catalog(cards={card.name: card for card in CARDS}, providers={"offline": script})
    async with open_installation(server, template, tmp_path / "home", catalog) as opened:
        yield let_go_on(opened, max_continuations=5, max_retries=0)


async def play(installation: Installation, **wishes: Any) -> tuple[Record, list[Row]]:
    session_id = await installation.play([SKEPTIC], until="thesis", **wishes)
    return await installation.record(session_id), await read_chunks(installation, session_id)


async def test_an_answer_without_end_is_a_document_of_a_limited_number_of_turns(
    installation: Installation, script: Scripted
) -> None:
    script.answers, script.ends = build_texts(20), False
    record, chunks = await play(installation)
    (row,) = record.contributions
    assert len(script.asked) == len(chunks) == 1 + 5
    assert row["content"] == "".join(build_texts(6))
    assert (row["is_incomplete"], row["flags"][0]) == (True, "continuation_limit")
    assert record.jobs[0]["status"] == "completed"


async def test_a_turn_without_words_is_asked_for_once_more_and_then_ends_the_document(
    installation: Installation, script: Scripted
) -> None:
    first, *_ = build_texts(1)
    script.answers, script.ends = [first, "\n", "\n"], False
    record, chunks = await play(installation)
    (row,) = record.contributions
    assert (row["content"], row["flags"][0]) == (f"{first}\n", "no_progress")
    texts = [chunk["content"] for chunk in chunks]
    assert texts == [first, "\n", "\n"], "what was paid for is kept"
    assert "repeated_turn" in row["flags"]


async def test_a_model_that_starts_over_is_forgiven_once_and_then_fails_with_what_is_saved(
    installation: Installation, script: Scripted
) -> None:
    texts = build_texts(4)
    begun = "".join(texts[:2])
    script.answers = [begun, begun + texts[2], begun + texts[2] + texts[3]]
    record, chunks = await play(installation)
    assert record.contributions == []
    (job,) = record.jobs
    assert (job["status"], job["status_reason"]) == ("retry_loop_failed", "provider_malformed")
    assert "repeats itself" in job["error_details"][0]["message"]
    assert len(chunks) == 2

    # Run again, it is asked for the turn that failed and for no other.
    script.answers, before = [texts[3]], len(script.asked)
    await Tenant(installation.engine, installation.account).run(
        sessions.retry, record.session["id"]
    )
    await installation.work(record.session["id"])
    again = await installation.record(record.session["id"])
    (row,) = again.contributions
    assert row["content"] == "".join(texts)
    assert row["flags"][0] == "restart_trimmed"
    assert len(script.asked) == before + 1


async def test_every_turn_has_tries_of_its_own(
    installation: Installation, script: Scripted
) -> None:
    texts = build_texts(3)

    def busy() -> ProviderTransient:
        return ProviderTransient("Busy.", retry_after_s=0.0)

    script.answers = [busy(), texts[0], busy(), texts[1], busy(), texts[2]]
    record, chunks = await play(let_go_on(installation, max_retries=1))
    (row,), (job,) = record.contributions, record.jobs
    assert row["content"] == "".join(texts)
    assert (job["status"], job["retry_count"], len(job["error_details"])) == ("completed", 1, 3)
    assert [chunk["turn_index"] for chunk in chunks] == [0, 1, 2]


@pytest.mark.parametrize("who", ["we", "the provider"])
async def test_what_fills_the_window_is_the_document(
    installation: Installation, script: Scripted, who: str
) -> None:
    texts = build_texts(3)
    script.answers = [*texts[:2], ContextWindowError("Too long.")]
    if who == "we":
        card = installation.engine.catalog.load_card(SKEPTIC)
        # Room for the prompt and two answers; the third one would be cut too short.
        small = replace(card, context_window_tokens=1_900, max_input_tokens=1_700)
        catalog = Catalog(cards={SKEPTIC: small}, providers={"offline": script})
        installation = replace(
            installation,
            engine=replace(installation.engine, catalog=catalog),
            worker_engine=replace(installation.worker_engine, catalog=catalog),
        )
    record, chunks = await play(installation, max_output_tokens=300)
    (row,) = record.contributions
    assert row["content"] == "".join(texts[: len(chunks)])
    assert (row["is_incomplete"], row["flags"][0]) == (True, "window_full")
    assert row["raw_response_storage_path"] == chunks[-1]["raw_response_storage_path"]
    assert record.jobs[0]["status"] == "completed"


async def test_what_a_person_says_in_between_does_not_change_what_was_asked(
    installation: Installation, script: Scripted
) -> None:
    """The first stage of a second iteration reads feedback, so its prompt would change."""
    texts = build_texts(3)
    script.answers = ["Done.\n"]
    session_id = await installation.play([SKEPTIC], until="thesis")
    script.answers, script.asked = list(texts), []

    async def speak(request: Request) -> None:
        said = f"Said while turn {len(request.messages) // 2} was written."
        await Tenant(installation.engine, installation.account).run(
            feedback.give_feedback, session_id, "thesis", said
        )

    script.before = speak
    await Tenant(installation.engine, installation.account).run(sessions.iterate, session_id)
    await installation.work(session_id)
    assert len(script.asked) == 3
    assert len({request.messages[0] for request in script.asked}) == 1
    record = await installation.record(session_id)
    assert record.contributions[-1]["content"] == "".join(texts)


async def test_a_session_that_stands_still_between_two_turns_goes_on_with_the_next(
    installation: Installation, script: Scripted
) -> None:
    texts = build_texts(3)
    script.answers = list(texts)
    session_id = await installation.create([SKEPTIC], until="thesis")

    async def pause(request: Request) -> None:
        if len(script.asked) == 2:
            await Tenant(installation.engine, installation.account).run(sessions.pause, session_id)

    script.before = pause
    await Tenant(installation.engine, installation.account).run(sessions.generate, session_id)
    await installation.work(session_id)
    assert len(await read_chunks(installation, session_id)) == 2, "what runs finishes its turn"
    record = await installation.record(session_id)
    assert [job["status"] for job in record.jobs] == ["paused"]

    await Tenant(installation.engine, installation.account).run(sessions.resume, session_id)
    await installation.work(session_id)
    (row,) = (await installation.record(session_id)).contributions
    assert row["content"] == "".join(texts)
    assert len(script.asked) == 3


async def test_a_session_that_is_cancelled_keeps_what_was_said(
    installation: Installation, script: Scripted
) -> None:
    script.answers, script.ends = build_texts(3), False
    session_id = await installation.create([SKEPTIC], until="thesis")

    async def cancel(request: Request) -> None:
        if len(script.asked) == 2:
            await Tenant(installation.engine, installation.account).run(sessions.cancel, session_id)

    script.before = cancel
    await Tenant(installation.engine, installation.account).run(sessions.generate, session_id)
    await installation.work(session_id)
    chunks, record = (
        await read_chunks(installation, session_id),
        await installation.record(session_id),
    )
    assert [chunk["content"] for chunk in chunks] == build_texts(1)
    (file,) = await installation.fetch(
        "select * from dialectic_files where path = $1", chunks[0]["storage_path"]
    )
    assert file["content"] is not None or file["path"] in record.files
    assert record.contributions == []


async def test_a_regenerated_document_has_turns_of_its_own(
    installation: Installation, script: Scripted
) -> None:
    texts = build_texts(4)
    script.answers = texts[:2]
    record, chunks = await play(installation)
    (row,) = record.contributions
    script.answers = texts[2:]
    await Tenant(installation.engine, installation.account).run(contributions.regenerate, row["id"])
    await installation.work(record.session["id"])
    record = await installation.record(record.session["id"])
    first, second = sorted(record.contributions, key=lambda one: int(one["edit_version"]))
    assert (first["content"], second["content"]) == ("".join(texts[:2]), "".join(texts[2:]))
    after = await read_chunks(installation, record.session["id"])
    assert [chunk for chunk in after if chunk["root_contribution_id"] == row["id"]] == chunks
    names = [
        chunk["storage_path"].rsplit("/", 1)[-1]
        for chunk in after
        if chunk["root_contribution_id"] == second["id"]
    ]
    assert names == [f"offline-skeptic_1_thesis_edit_2_continuation_{turn}.md" for turn in (0, 1)]


# -- deaths ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("point", "asked"),
    [("after_reply", 4), ("before_commit", 4), ("after_commit", 3)],
)
async def test_a_turn_is_asked_for_again_only_if_it_was_not_saved(
    installation: Installation, script: Scripted, point: str, asked: int
) -> None:
    texts = build_texts(3)
    script.answers = list(texts) if asked == 3 else [texts[0], texts[1], texts[1], texts[2]]
    armed = let_go_on(installation, failpoints=f"{point}=error@2", max_retries=1)
    record, chunks = await play(armed)
    (row,) = record.contributions
    assert row["content"] == "".join(texts)
    assert [chunk["content"] for chunk in chunks] == texts
    assert len(script.asked) == asked


@pytest.fixture(scope="module")
def home(made_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    with copy_home(made_home, tmp_path_factory.mktemp("continuation") / "home") as opened:
        yield opened


LIMITED = ("--max-output-tokens", "500", "--models", SKEPTIC, "--until", "thesis")


@dataclass(frozen=True, slots=True)
class Run:
    """A run of one document that takes several turns, to which nothing happened."""

    session: str
    said: str
    files: dict[str, bytes]

    @property
    def turns(self) -> int:
        return sum("/_work/" in path for path in self.files)


@pytest.fixture(scope="module")
def undisturbed(home: Home) -> Run:
    result = home.tell("run", *LIMITED, "--name", "undisturbed", PROMPT)
    assert result.code == 0, result.stderr
    files = without_ids(read_project(home, "undisturbed"), "undisturbed", result.session)
    return Run(result.session, result.stderr, files)


def read_costs(home: Home, session: str) -> dict[str, Any]:
    result = home.tell("wallet", "costs", session, "--json")
    assert result.code == 0, result.stderr
    (costs,) = json.loads(result.stdout)["costs"]
    return dict(costs)


@pytest.mark.parametrize(
    ("point", "lost"),
    # Once a turn is committed its job may have its next claim, and that may have been made.
    [("after_reply", {1}), ("before_commit", {1}), ("after_commit", {0, 1})],
)
def test_a_process_that_is_killed_within_a_chain_repeats_no_turn_that_is_saved(
    home: Home, undisturbed: Run, point: str, lost: set[int]
) -> None:
    assert undisturbed.turns > 2
    name = f"killed-{point.replace('_', '-')}"
    killed = home.tell("run", *LIMITED, "--name", name, PROMPT, failpoints=f"{point}=kill@2")
    assert killed.code == -signal.SIGKILL
    resumed = home.tell("resume", killed.session)
    assert resumed.code == 0, resumed.stderr
    assert without_ids(read_project(home, name), name, killed.session) == undisturbed.files
    (job,) = home.read_status(killed.session)["jobs"]
    assert job["attempt_count"] - undisturbed.turns in lost
    costs, expected = read_costs(home, killed.session), read_costs(home, undisturbed.session)
    assert costs["calls"] == expected["calls"] == undisturbed.turns
    assert costs["charged_credits"] == expected["charged_credits"]
    assert costs["lost_calls"] <= max(lost)


# -- what people see ------------------------------------------------------------------------------


def test_a_document_shows_its_turns_and_each_of_them_can_be_shown(
    home: Home, undisturbed: Run
) -> None:
    (row,) = home.read_status(undisturbed.session)["contributions"]
    shown = home.tell("show", row["id"])
    turns = [line.split()[2] for line in shown.stderr.splitlines() if line.startswith("  turn ")]
    assert len(turns) == undisturbed.turns
    first = home.tell("show", turns[0][:8])
    assert shown.stdout.startswith(first.stdout.removesuffix("\n"))
    assert f"of contribution {row['id']}" in first.stderr
    assert "# Assistant" in home.tell("show", "--prompt", turns[1]).stdout
    chunks = json.loads(home.tell("show", "--json", row["id"]).stdout)["chunks"]
    assert [chunk["id"] for chunk in chunks] == turns


def test_a_run_that_is_not_to_go_on_leaves_what_it_got(home: Home) -> None:
    result = home.tell("run", *LIMITED, "--no-continue", "--name", "not-on", PROMPT)
    assert result.code == 0, result.stderr
    assert "(incomplete)" in result.stderr
    (turn,) = [path for path in read_project(home, "not-on") if "/_work/" in path]
    assert turn.endswith("_continuation_0.md"), "a person may let it go on later"
    shown = home.tell("status", result.session)
    assert "Cut off   " in shown.stdout
    assert home.read_status(result.session)["session"]["continue_until_complete"] is False


def test_a_run_says_when_an_answer_goes_on(undisturbed: Run) -> None:
    said = undisturbed.said
    assert f"thesis: {SKEPTIC} was cut off and continues, turn 1: " in said
    assert said.count(" continues, turn ") == undisturbed.turns - 1
    assert said.count("Writing theses: 1 of 1") == 1
