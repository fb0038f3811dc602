"""What becomes of a job whose provider fails, through worker, adapter and HTTP: one row at a time.

Every case has an endpoint, a session and a model of its own. All are played at once by one worker,
and each test looks at what one of them left: in the job's row, in the documents, in the log of the
simulator. No test waits for a retry: the delay is read from the row, and then time passes.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from dialectic.app import sessions
from dialectic.app.transaction import Tenant
from dialectic.core.documents.front_matter import split_document
from dialectic.core.job import ENDED
from dialectic.core.models.endpoint import Endpoint, WireFormat
from dialectic.core.models.model import MODELS_PER_SESSION_MAX
from dialectic.limits import admission
from dialectic.postgres import embedded
from dialectic.worker.failures import RAW_MAX_CHARS
from dialectic_simulator import Simulator, open_simulator
from dialectic_simulator.faults import TABLE
from dialectic_simulator.log import LoggedCall
from tests.ports import find_free_port
from tests.scenario.simulated_endpoints import (
    PLAIN_TOKENS,
    WIRES,
    build_endpoint,
    build_remote_catalog,
    no_proxies,
    open_remote_installation,
    pass_time,
)
from tests.scenario.whole_session import Installation, Row, open_installation

TEXT = """# A plan

Bread that is left over at closing time is sold at half its price, “warm” or not.

| hour | price |
|---|---|
| 17 | 2.40 € |
| 18 | 1.20 € |

- the baker counts what is left
- the customer pays in advance and collects

What nobody collects by seven goes to the shelter in the old station, whose van comes past anyhow.
The baker sees each evening how much was saved, in loaves and in money, and may turn the offer off
for a day with one switch on the counter.
"""
RESTS = {*ENDED, "paused"}


@dataclass(frozen=True, slots=True)
class Case:
    """A fault on a wire, and how many of the tries of its call it strikes; None: all of them."""

    row: int
    wire: str
    fault: str
    times: int | None = None
    # Further manners of the answer, and limits of the endpoint.
    manner: dict[str, Any] = field(default_factory=dict)
    limits: dict[str, Any] = field(default_factory=dict)
    # Manners of some of its calls only.
    rules: tuple[dict[str, Any], ...] = ()

    @property
    def name(self) -> str:
        often = "always" if self.times is None else f"{self.times}x"
        return f"row {self.row}: {self.fault} {often} on {self.wire}"

    @property
    def endpoint(self) -> str:
        return f"{self.wire}-{CASES.index(self)}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a case left behind."""

    job: Row
    # The waits of its retries in seconds, each from the error to when the job was due again.
    waits_s: list[float]
    calls: list[LoggedCall]
    contributions: list[Row]
    chunks: list[Row]
    # The front matter of the document, as it stands in storage.
    facts: dict[str, Any]
    # What an operator is told of the endpoint.
    standing: Row

    @property
    def ended_as(self) -> tuple[str, str | None]:
        return self.job["status"], self.job["status_reason"]

    @property
    def codes(self) -> list[str]:
        return [entry["code"] for entry in self.job["error_details"]]

    @property
    def document(self) -> Row:
        (row,) = self.contributions
        return row


def build_cases(
    row: int, *faults: str, times: int | None = None, wires: tuple[str, ...] = WIRES, **more: Any
) -> list[Case]:
    spoken = {fault.name: fault.wires for fault in TABLE}
    return [
        Case(row, wire, fault, times, **more)
        for fault in faults
        for wire in wires
        if wire in spoken.get(fault, WIRES)
    ]


SILENT = {"idle_s": 3.0, "first_byte_s": 3.0}
CUT = {"cut_after_tokens": 12}
# A model that begins anew with every turn, and each time comes further than before.
TWICE = (
    {"turns": 0, "cut_after_tokens": 40},
    {"turns": 1, "restart": True, "cut_after_tokens": 80, "cut_each_turn": True},
    {"turns": "2-", "restart": True},
)
CASES = [
    *build_cases(1, "429_retry_after", "429_retry_after_date", "429_without_retry_after", times=1),
    *build_cases(
        2, "429_retry_after_past", "429_retry_after_negative", "429_retry_after_nan", times=1
    ),
    *build_cases(2, "429_retry_after_ten_years", times=1),
    *build_cases(3, "429_spend_limit", "402_payment"),
    *build_cases(4, "401_key", "403_forbidden", "400_key"),
    *build_cases(5, "400_context_length"),
    *build_cases(6, "404_model"),
    *build_cases(7, "413_too_large"),
    *build_cases(
        8,
        "500_server",
        "502_gateway",
        "503_unavailable",
        "529_overloaded",
        "408_timeout",
        times=3,
        wires=("openai",),
    ),
    *build_cases(8, "503_unavailable", times=3, wires=("anthropic", "google")),
    *build_cases(8, "500_server"),
    *build_cases(9, "200_error_rate", "200_error_server", times=1),
    *build_cases(9, "200_error_context_length"),
    *build_cases(10, "200_html"),
    *build_cases(11, "empty_choices", "prompt_blocked", "filtered", "refusal"),
    *build_cases(12, "null_content", "empty_content"),
    *build_cases(13, "parts_list", "tool_call"),
    *build_cases(14, "invalid_json", "cut_json", "nan_json", "duplicate_keys"),
    *build_cases(14, "huge_line", times=1),
    *build_cases(15, "invalid_utf8", "lone_surrogate", "nul"),
    *build_cases(16, "stream_without_finish", "close_mid_stream", "reset_mid_stream", times=1),
    *build_cases(16, "stream_without_finish"),
    *build_cases(17, "idle_stream", "silence", times=1, limits=SILENT),
    *build_cases(18, "trickle", times=1, limits={"timeout_s": 3.0}),
    *build_cases(19, "error_event", times=1),
    *build_cases(20, "split_utf8", "crlf", "comments", "no_space", "done_missing"),
    *build_cases(21, "duplicated_events", "duplicated_end", "reordered_events"),
    *build_cases(22, "reset_before_first_byte", times=1),
    *build_cases(23, "no_such_name", "no_certificate", "no_proxy", wires=("openai", "google")),
    *build_cases(24, "finish_unknown", "finish_null", "finish_number", "finish_other_case"),
    *build_cases(25, "always_length", manner=CUT),
    *build_cases(26, "length_no_text"),
    *build_cases(27, "continuation_restarts", manner={"cut_after_tokens": 50}),
    *build_cases(27, "restarts_twice", rules=TWICE),
    *build_cases(28, "usage_missing"),
    *build_cases(29, "usage_negative", "usage_zero", "usage_tenfold", "usage_string"),
    *build_cases(30, "usage_above_hold"),
]
# Writes down how long a job waits after each error, whenever that is.
WAITS = """
    create table dialectic.waits (
      id bigint generated always as identity, model text, wait_s float8);
    create function dialectic.note_wait() returns trigger language plpgsql security definer as $$
    begin
      insert into dialectic.waits (model, wait_s) values (new.payload ->> 'model_name',
        extract(epoch from new.run_at - (new.error_details -> -1 ->> 'at')::timestamptz));
      return null;
    end $$;
    create trigger a_wait_is_noted after update on dialectic.dialectic_generation_jobs
      for each row when (new.status = 'retrying' and new.error_details <> old.error_details)
      execute function dialectic.note_wait();
"""


def row(number: int, *faults: str) -> pytest.MarkDecorator:
    """Name a test by its row in the table of faults, and give it the cases of that row."""
    chosen = [c for c in CASES if c.row == number and (not faults or c.fault in faults)]
    assert {case.fault for case in chosen} >= set(faults)
    return pytest.mark.parametrize("case", chosen, ids=[case.name for case in chosen])


def build_script() -> dict[str, Any]:
    known = {fault.name for fault in TABLE}
    rules = [
        {"endpoint": case.endpoint, "wire": case.wire, **manner}
        for case in CASES
        for manner in (
            *case.rules,
            *([{"fault": case.fault, **build_tries(case)}] if case.fault in known else []),
        )
    ]
    ends = {case.endpoint: {"text": TEXT, **case.manner} for case in CASES}
    return {"models": PLAIN_TOKENS, "endpoints": ends, "rules": rules}


def build_tries(case: Case) -> dict[str, str]:
    return {} if case.times is None else {"tries": f"1-{case.times}"}


def find_endpoint(simulator: Simulator, case: Case) -> Endpoint:
    leads_to = {
        "no_such_name": "http://nowhere.invalid/v1",
        "no_certificate": simulator.base_url(case.wire, case.endpoint).replace("http:", "https:"),
        "no_proxy": "http://behind-a-proxy.invalid/v1",
    }
    end = build_endpoint(simulator, case.wire, case.endpoint, **case.limits)
    return replace(end, base_url=leads_to.get(case.fault, end.base_url))


# -- all of them, played once ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Play:
    """Sessions of many models under way."""

    installation: Installation
    sessions: list[UUID] = field(default_factory=list)

    async def begin(self, cases: list[Case]) -> None:
        models = [f"{case.endpoint}/m" for case in cases]
        session_id = await self.installation.create(models, until="thesis")
        self.sessions.append(session_id)
        await Tenant(self.installation.engine, self.installation.account).run(
            sessions.generate, session_id
        )

    async def has_ended(self) -> bool:
        """Let the time of every retry pass, until there is none left."""
        rows = await self.installation.fetch(
            "select id, status, payload ->> 'model_name' as model,"
            " extract(epoch from run_at - dialectic.now())::float8 as left_s"
            " from dialectic_generation_jobs where status <> all ($1)",
            sorted(RESTS),
        )
        for job in rows:
            if job["status"] == "retrying" and job["left_s"] > 0:
                endpoint = job["model"].split("/")[0]
                await pass_time(self.installation, job["id"], endpoint, job["left_s"])
        return not rows


async def play_all(installation: Installation, simulator: Simulator) -> dict[str, Outcome]:
    play = Play(installation)
    await installation.admin.execute(WAITS)
    # What measures time is not played beside what takes much of it.
    timed = [case for case in CASES if case.limits]
    async with installation.working():
        for cases in ([case for case in CASES if case not in timed], timed):
            for batch in batched(cases, MODELS_PER_SESSION_MAX):
                await play.begin(batch)
            await installation.until(play.has_ended)
    return await look(play, simulator)


def batched(cases: list[Case], size: int) -> Iterator[list[Case]]:
    for start in range(0, len(cases), size):
        yield cases[start : start + size]


async def look(play: Play, simulator: Simulator) -> dict[str, Outcome]:
    """Collect what every case has left."""
    installation = play.installation
    standings = {
        row.endpoint: asdict(row) for row in await admission.list_endpoints(installation.engine.db)
    }
    chunks = await installation.fetch("select * from dialectic_chunks order by turn_index")
    waits = await installation.fetch("select * from waits order by id")
    outcomes: dict[str, Outcome] = {}
    for record in [await installation.record(session_id) for session_id in play.sessions]:
        for job in record.jobs:
            endpoint = job["payload"]["model_name"].split("/")[0]
            (case,) = [case for case in CASES if case.endpoint == endpoint]
            written = [row for row in record.contributions if row["job_id"] == job["id"]]
            files = [record.files[row["storage_path"]].decode() for row in written]
            outcomes[case.name] = Outcome(
                job,
                [row["wait_s"] for row in waits if row["model"] == f"{endpoint}/m"],
                [call for call in simulator.log.calls if call.endpoint == endpoint],
                written,
                [row for row in chunks if row["job_id"] == job["id"]],
                split_document(files[0])[0] if files else {},
                standings.get(endpoint, {}),
            )
    return outcomes


@pytest.fixture(scope="module")
def outcomes(
    server: embedded.Server, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Outcome]]:
    home = tmp_path_factory.mktemp("faults") / "home"

    async def main() -> dict[str, Outcome]:
        async with open_simulator(build_script()) as simulator:
            catalog = build_remote_catalog(find_endpoint(simulator, case) for case in CASES)
            async with open_installation(server, template, home, catalog) as installation:
                outcomes = await play_all(installation, simulator)
                await catalog.close()
                return outcomes

    exempt = "127.0.0.1,nowhere.invalid"
    with no_proxies(HTTP_PROXY=f"http://127.0.0.1:{find_free_port()}", NO_PROXY=exempt):
        yield asyncio.run(main())


@pytest.fixture
def outcome(outcomes: dict[str, Outcome], case: Case) -> Outcome:
    return outcomes[case.name]


def test_every_fault_from_1_to_30_is_played_on_every_wire_that_knows_it() -> None:
    known = {
        (fault.number, fault.name, wire)
        for fault in TABLE
        for wire in WIRES
        if fault.number <= 30 and wire in fault.wires
    }
    played = {(case.row, case.fault, case.wire) for case in CASES}
    by_one_wire = {entry for entry in known - played if entry[0] == 8}
    assert known - played == by_one_wire
    assert {number for number, _, _ in played} == set(range(1, 31))


# -- what all have in common -----------------------------------------------------------------------


def expect_document(outcome: Outcome, *, calls: int, text: str = TEXT) -> None:
    assert outcome.ended_as[0] == "completed", outcome.job["error_details"]
    assert len(outcome.calls) == outcome.job["attempt_count"] == calls
    assert outcome.document["content"] == text
    assert not outcome.document["is_incomplete"]
    assert outcome.chunks == []


def expect_none(outcome: Outcome, status: str, code: str, *, calls: int) -> None:
    assert outcome.ended_as == (status, code), outcome.job["error_details"]
    assert len(outcome.calls) == outcome.job["attempt_count"] == calls
    assert outcome.codes == [code] * calls
    assert (outcome.contributions, outcome.chunks) == ([], [])


def expect_tried_again(outcome: Outcome, *codes: str) -> None:
    """A number of errors, each followed by a delay of our own choosing, and then the document."""
    expect_document(outcome, calls=len(codes) + 1)
    assert outcome.codes == list(codes)
    ceilings_s = [2.0, 4.0, 8.0][: len(codes)]
    for wait_s, ceiling_s in zip(outcome.waits_s, ceilings_s, strict=True):
        assert 1.0 <= wait_s <= ceiling_s + 0.1


# -- patience --------------------------------------------------------------------------------------


@row(1)
def test_a_wait_that_is_named_is_kept_and_uses_up_no_try(case: Case, outcome: Outcome) -> None:
    expect_document(outcome, calls=2)
    assert outcome.codes == ["provider_throttled"]
    assert outcome.job["retry_count"] == 0
    (wait_s,) = outcome.waits_s
    named = {"429_retry_after": (7.0, 7.5), "429_retry_after_date": (5.9, 7.5)}
    low_s, high_s = named.get(case.fault, (1.0, 2.1))
    assert low_s <= wait_s <= high_s


@row(2)
def test_a_wait_that_makes_no_sense_is_ours_to_choose_and_one_of_years_an_hour(
    case: Case, outcome: Outcome
) -> None:
    expect_document(outcome, calls=2)
    assert (outcome.codes, outcome.job["retry_count"]) == (["provider_throttled"], 0)
    (wait_s,) = outcome.waits_s
    low_s, high_s = (3600, 3781) if case.fault.endswith("ten_years") else (1.0, 2.1)
    assert low_s <= wait_s <= high_s


@row(3)
def test_an_account_without_credit_pauses_the_job_and_the_endpoint(
    case: Case, outcome: Outcome
) -> None:
    expect_none(outcome, "paused", "provider_quota", calls=1)
    standing = outcome.standing
    assert (standing["circuit"], standing["reason"]) == ("open", "provider_quota")


@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: f"row 3: {wire}")
async def test_an_empty_account_gets_no_call_until_a_person_resumes(
    server: embedded.Server, template: str, tmp_path: Path, wire: str
) -> None:
    script = {
        "endpoints": {"poor": {"text": TEXT}},
        "rules": [{"endpoint": "poor", "wire": wire, "fault": "429_spend_limit", "calls": 1}],
    }
    async with open_remote_installation(
        server, template, tmp_path, script, {"poor": wire}
    ) as opened:
        installation, simulator = opened
        both = [await installation.play(["poor/m"], until="thesis") for _ in range(2)]
        jobs = [(await installation.record(session_id)).jobs[0] for session_id in both]
        for job in jobs:
            assert (job["status"], job["status_reason"]) == ("paused", "provider_quota")
        assert len(simulator.log.calls) == 1

        for session_id in both:
            await Tenant(installation.engine, installation.account).run(sessions.resume, session_id)
            await installation.work(session_id)
            (row,) = (await installation.record(session_id)).contributions
            assert row["content"] == TEXT
        assert len(simulator.log.calls) == 3


@row(4)
def test_a_refused_key_fails_the_job_at_once_and_is_flagged(case: Case, outcome: Outcome) -> None:
    expect_none(outcome, "failed", "provider_auth", calls=1)
    assert "KEY_OF_A_TEST" in outcome.job["error_details"][0]["message"]
    assert outcome.standing["key_refused_at"] is not None


# -- requests that are not accepted ----------------------------------------------------------------


@row(5)
def test_a_prompt_that_is_too_long_for_the_model_fails_at_once(
    case: Case, outcome: Outcome
) -> None:
    expect_none(outcome, "failed", "context_window_exceeded", calls=1)


@row(6)
def test_a_model_that_is_not_there_is_named(case: Case, outcome: Outcome) -> None:
    expect_none(outcome, "failed", "provider_rejected", calls=1)
    assert "the model 'm'" in outcome.job["error_details"][0]["message"]


@row(7)
def test_a_request_that_is_too_large_is_a_prompt_that_is_too_long(
    case: Case, outcome: Outcome
) -> None:
    expect_none(outcome, "failed", "context_window_exceeded", calls=1)


# -- servers in trouble ----------------------------------------------------------------------------


@row(8)
def test_three_failures_and_an_answer_are_four_attempts_and_one_document(
    case: Case, outcome: Outcome
) -> None:
    if case.times is None:
        expect_none(outcome, "retry_loop_failed", "provider_transient", calls=4)
    else:
        expect_tried_again(outcome, *["provider_transient"] * 3)
        assert [entry["attempt"] for entry in outcome.job["error_details"]] == [1, 2, 3]


@row(9, "200_error_rate", "200_error_server")
def test_an_error_that_comes_as_success_is_treated_by_what_it_says(
    case: Case, outcome: Outcome
) -> None:
    is_rate = case.fault == "200_error_rate"
    if is_rate and case.wire == "google":  # it names a wait in the body
        expect_document(outcome, calls=2)
        assert 7.0 <= outcome.waits_s[0] <= 7.5
    else:
        expect_tried_again(outcome, "provider_throttled" if is_rate else "provider_transient")
    assert outcome.job["retry_count"] == (0 if is_rate else 1)


@row(9, "200_error_context_length")
def test_an_error_that_comes_as_success_may_be_final(case: Case, outcome: Outcome) -> None:
    expect_none(outcome, "failed", "context_window_exceeded", calls=1)


# -- answers that make no sense --------------------------------------------------------------------


@row(10)
def test_the_page_of_a_login_is_kept_and_asked_for_twice_more(case: Case, outcome: Outcome) -> None:
    expect_none(outcome, "retry_loop_failed", "provider_malformed", calls=3)
    for entry in outcome.job["error_details"]:
        assert "Sign in to continue" in entry["raw"]["body"]


@row(11)
def test_no_answer_or_a_refused_one_is_not_a_document(case: Case, outcome: Outcome) -> None:
    if case.fault != "empty_choices":
        expect_none(outcome, "failed", "provider_filtered", calls=1)
    elif case.wire == "anthropic":  # it says why it ended, although it said nothing else
        expect_none(outcome, "retry_loop_failed", "provider_malformed", calls=2)
    else:
        expect_none(outcome, "retry_loop_failed", "stream_truncated", calls=4)


@row(12)
def test_an_empty_answer_is_asked_for_once_more(case: Case, outcome: Outcome) -> None:
    expect_none(outcome, "retry_loop_failed", "provider_malformed", calls=2)
    assert "empty answer" in outcome.job["error_details"][0]["message"]


@row(13)
def test_parts_are_joined_and_a_tool_that_was_not_offered_is_an_error(
    case: Case, outcome: Outcome
) -> None:
    if case.fault == "parts_list":
        expect_document(outcome, calls=1)
    else:
        expect_none(outcome, "retry_loop_failed", "provider_malformed", calls=3)


@row(14, "invalid_json", "cut_json", "nan_json", "duplicate_keys")
def test_json_that_is_none_is_malformed(case: Case, outcome: Outcome) -> None:
    expect_none(outcome, "retry_loop_failed", "provider_malformed", calls=3)
    assert len(json.dumps(outcome.job["error_details"])) < 3 * RAW_MAX_CHARS


@row(14, "huge_line")
def test_a_line_without_end_is_given_up(case: Case, outcome: Outcome) -> None:
    expect_tried_again(outcome, "provider_malformed")
    assert len(json.dumps(outcome.job["error_details"])) < RAW_MAX_CHARS


@row(15)
def test_broken_characters_are_repaired_and_flagged(case: Case, outcome: Outcome) -> None:
    assert outcome.ended_as[0] == "completed"
    assert len(outcome.calls) == 1
    content = outcome.document["content"]
    (flag,) = [one for one in outcome.document["flags"] if one.startswith("cleaned: ")]
    assert flag.startswith("cleaned: removed" if case.fault == "nul" else "cleaned: repaired")
    assert flag in outcome.facts["flags"]
    assert content.replace("\ufffd", "") == TEXT
    assert "\x00" not in content


# -- streams ---------------------------------------------------------------------------------------


@row(16)
def test_a_stream_that_never_says_why_it_ends_leaves_no_chunk_and_is_asked_again(
    case: Case, outcome: Outcome
) -> None:
    if case.times is None:
        expect_none(outcome, "retry_loop_failed", "stream_truncated", calls=4)
    else:
        expect_tried_again(outcome, "stream_truncated")
    expect_kept(outcome)


def expect_kept(outcome: Outcome) -> None:
    """What was said before it broke off is kept with the error."""
    said = outcome.job["error_details"][0]["raw"]["text"]
    assert said
    assert TEXT.startswith(said)


@row(17)
def test_silence_is_not_waited_for_without_end(case: Case, outcome: Outcome) -> None:
    silent = case.fault == "silence"
    expect_tried_again(outcome, "provider_transient" if silent else "stream_truncated")
    assert outcome.calls[0].client_closed


def test_who_sets_no_limits_has_those_of_the_table_of_faults() -> None:
    """Rows 17 and 18: cases here set shorter ones, so that no test waits that long."""
    plain = Endpoint(name="plain", kind=WireFormat.OPENAI, base_url="http://127.0.0.1/v1")
    assert (plain.idle_s, plain.first_byte_s, plain.timeout_s) == (60.0, 120.0, 1800.0)


@row(18)
def test_a_trickle_ends_with_the_time_of_the_whole_call(case: Case, outcome: Outcome) -> None:
    expect_tried_again(outcome, "stream_truncated")
    assert "3 s" in outcome.job["error_details"][0]["message"]
    assert outcome.calls[0].client_closed


@row(19)
def test_an_error_after_some_text_is_treated_by_what_it_says(case: Case, outcome: Outcome) -> None:
    expect_tried_again(outcome, "provider_transient")
    expect_kept(outcome)


@row(20)
def test_a_stream_is_read_alike_however_it_is_written(case: Case, outcome: Outcome) -> None:
    expect_document(outcome, calls=1)
    assert outcome.codes == []


@row(21)
def test_events_that_come_twice_count_once_and_disorder_is_malformed(
    case: Case, outcome: Outcome
) -> None:
    if case.fault == "reordered_events":
        expect_none(outcome, "retry_loop_failed", "provider_malformed", calls=3)
    else:
        expect_document(outcome, calls=1)


# -- between here and there ------------------------------------------------------------------------


@row(22)
def test_a_connection_that_is_reset_at_once_is_tried_again(case: Case, outcome: Outcome) -> None:
    expect_tried_again(outcome, "provider_transient")


@row(23)
def test_who_cannot_be_reached_is_tried_again_but_one_without_a_certificate_only_once(
    case: Case, outcome: Outcome
) -> None:
    is_refused = case.fault == "no_certificate"
    code = "provider_transient" if is_refused else "provider_unreachable"
    assert outcome.ended_as == ("retry_loop_failed", code)
    assert set(outcome.codes) == {code}
    attempts = outcome.job["attempt_count"]
    assert attempts == 2 if is_refused else attempts >= 4
    names = {"no_such_name": "'nowhere.invalid'", "no_certificate": "SSL"}
    assert names.get(case.fault, "") in outcome.job["error_details"][0]["message"]
    assert (outcome.calls, outcome.contributions) == ([], [])


# -- why an answer ended ---------------------------------------------------------------------------


@row(24)
def test_an_unknown_finish_reason_is_an_error_and_never_the_end_of_a_document(
    case: Case, outcome: Outcome
) -> None:
    if case.fault == "finish_other_case":
        expect_document(outcome, calls=1)
        return
    if case.fault == "finish_null":
        expect_none(outcome, "retry_loop_failed", "stream_truncated", calls=4)
    else:
        expect_none(outcome, "retry_loop_failed", "provider_malformed", calls=3)


@row(25)
def test_an_answer_without_end_ends_at_the_limit_visibly_incomplete(
    case: Case, outcome: Outcome
) -> None:
    assert outcome.ended_as[0] == "completed"
    assert len(outcome.calls) == len(outcome.chunks) == 6
    assert outcome.document["is_incomplete"]
    assert outcome.document["flags"][0] == "continuation_limit"
    assert outcome.facts["incomplete"] is True
    assert "continuation_limit" in outcome.facts["flags"]
    assert outcome.facts["finish_reason"] == "length"


@row(26)
def test_an_answer_that_is_cut_off_before_its_first_word_is_not_a_document(
    case: Case, outcome: Outcome
) -> None:
    expect_none(outcome, "retry_loop_failed", "provider_malformed", calls=2)
    message = outcome.job["error_details"][0]["message"]
    assert "length" in message or "max_tokens" in message.lower()


@row(27)
def test_a_model_that_starts_over_is_trimmed_once_and_then_fails(
    case: Case, outcome: Outcome
) -> None:
    if case.fault == "continuation_restarts":
        assert outcome.ended_as[0] == "completed", outcome.job["error_details"]
        assert (outcome.document["content"], len(outcome.calls)) == (TEXT, 2)
        assert "restart_trimmed" in outcome.document["flags"]
        assert not outcome.document["is_incomplete"]
    else:
        assert outcome.ended_as == ("retry_loop_failed", "provider_malformed")
        assert "repeats itself" in outcome.job["error_details"][0]["message"]
        assert (outcome.contributions, len(outcome.chunks)) == ([], 2), "what is paid for is kept"


# -- usage -----------------------------------------------------------------------------------------


@row(28)
def test_usage_that_is_missing_is_counted_and_marked(case: Case, outcome: Outcome) -> None:
    expect_document(outcome, calls=1)
    assert outcome.document["usage_source"] == "counted"
    assert outcome.document["tokens_used_output"] == -(-len(TEXT) // 4)


@row(29)
def test_usage_that_makes_no_sense_costs_no_document(case: Case, outcome: Outcome) -> None:
    expect_document(outcome, calls=1)
    row = outcome.document
    assert row["tokens_used_input"] >= 0
    assert row["tokens_used_output"] >= 0
    if case.fault in ("usage_negative", "usage_string"):
        assert row["usage_source"] == "counted"


@row(30)
def test_usage_beyond_what_was_asked_for_costs_no_document(case: Case, outcome: Outcome) -> None:
    expect_document(outcome, calls=1)
