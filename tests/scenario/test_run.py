"""Whole stories on the command line: real processes, one home, documents on disk."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dialectic.cli.copies import MANIFEST_NAME
from dialectic.engine import POINTS
from dialectic.postgres import embedded
from tests.command_pool import CommandResult, command_pool
from tests.problems import list_codes
from tests.servers import copy_server, join_copy
from tests.waiting import PATIENCE_S, until_said, until_stopped

# One stage is enough for what a command does; whole dialectics are played elsewhere.
RUN = ("run", "--until", "thesis")
PROMPT = "A web service that lets small bakeries sell what is left over at closing time."
NAMES = ("offline-architect", "offline-pragmatist", "offline-skeptic")
DOCUMENTS = ("business-case", "feature-spec", "technical-approach", "success-metrics")
# Made from the rows when a command ends: hashes of what holds ids, too.
DESCRIPTIONS = ("project_readme.md", "project_settings.json")
# In quotes, where it would otherwise be read as a number.
ID = re.compile(rb"'?[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}'?")


@dataclass(frozen=True, slots=True)
class Home:
    """A place where state lives, and the commands that are given there."""

    path: Path

    def start(self, *words: str, **settings: str) -> subprocess.Popen[str]:
        """Start a command as a shell does, and do not wait for it."""
        return subprocess.Popen(
            [sys.executable, "-m", "dialectic", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.build_environment(settings),
        )

    def tell(self, *words: str, stdin: str = "", **settings: str) -> CommandResult:
        """Run a command to its end."""
        environment = self.build_environment(settings)
        return command_pool.run(words, environment, stdin, patience_s=PATIENCE_S)

    def build_environment(self, settings: dict[str, str]) -> dict[str, str]:
        return {
            **os.environ,
            # Short, so that the next process need not wait long for one that was killed.
            "DIALECTIC_LEASE_S": "0.9",
            "DIALECTIC_HOME": str(self.path),
            # Stories about providers count their calls.
            "DIALECTIC_PREFLIGHT": "false",
            **{f"DIALECTIC_{name.upper()}": text for name, text in settings.items()},
        }

    def read_status(self, session: str) -> dict[str, Any]:
        result = self.tell("status", session, "--json")
        assert result.code == 0, result.stderr
        found: dict[str, Any] = json.loads(result.stdout)
        return found


def wait_for(process: subprocess.Popen[str], stdin: str = "") -> CommandResult:
    with process:
        try:
            stdout, stderr = process.communicate(stdin, timeout=PATIENCE_S)
        finally:
            process.kill()
        return CommandResult(process.returncode, stdout, stderr)


def unique_name() -> str:
    return f"story-{uuid.uuid4().hex[:8]}"


@contextmanager
def open_home(path: Path) -> Iterator[Home]:
    """A home that its first command makes, and whose server runs while a command does."""
    try:
        yield Home(path)
    finally:
        embedded.stop_server(path)


@contextmanager
def copy_home(made: Path, path: Path) -> Iterator[Home]:
    """A home that is there already, and whose server no command has to start."""
    with join_copy(made, path), open_home(path) as opened:
        yield opened


@pytest.fixture(scope="module")
def home(made_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """One home for the stories that do not mind each other."""
    with copy_home(made_home, tmp_path_factory.mktemp("scenario") / "home") as opened:
        yield opened


def read_tree(folder: Path) -> dict[str, bytes]:
    """All files below a folder, without what a copy keeps for itself."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != MANIFEST_NAME
    }


def expected_files(slug: str, session: str) -> set[str]:
    folder = f"{slug}/session_{session[:8]}/iteration_1/1_thesis"
    return {
        f"{slug}/{slug}.md",
        *(f"{slug}/{name}" for name in DESCRIPTIONS),
        f"{folder}/seed_prompt.md",
        *(f"{folder}/{name}_1_thesis.md" for name in NAMES),
        *(f"{folder}/raw_responses/{name}_1_thesis_raw.json" for name in NAMES),
        *(f"{folder}/documents/{name}_1_thesis_{key}.md" for name in NAMES for key in DOCUMENTS),
    }


def read_project(home: Home, slug: str) -> dict[str, bytes]:
    """A project's files in storage; there is one tenant in a home of one person."""
    (tenant,) = (path for path in (home.path / "storage").iterdir() if path.is_dir())
    return {path: data for path, data in read_tree(tenant).items() if path.startswith(f"{slug}/")}


def without_ids(files: dict[str, bytes], slug: str, session: str) -> dict[str, bytes]:
    """The same documents under names and with ids that every run shares."""
    return {
        path.replace(slug, "project").replace(session[:8], "session"): ID.sub(b"id", data)
        for path, data in files.items()
        if not path.endswith(DESCRIPTIONS)
    }


# -- a run ----------------------------------------------------------------------------------------


def test_a_first_run_leaves_three_theses_and_names_nothing_else_on_stdout(home: Home) -> None:
    slug = unique_name()
    result = home.tell(*RUN, "--name", slug, PROMPT)
    assert result.code == 0, result.stderr
    files = read_project(home, slug)
    assert set(files) == expected_files(slug, result.session)
    named = result.stdout.splitlines()
    assert len(named) == 3
    assert {Path(line).name for line in named} == {f"{name}_1_thesis.md" for name in NAMES}
    for line in named:
        assert Path(line).read_text().startswith("---\n")
    assert "thesis: Writing theses: 3 of 3" in result.stderr
    assert "unread notification" not in result.stderr, "it has told its end itself"
    assert re.search(r"3 documents, .* written, play 0\.\d{4}, ", result.stderr)
    assert "$" not in result.stderr, "offline models cost play money"
    assert files[f"{slug}/{slug}.md"].decode() == PROMPT


def test_documents_are_copied_out_in_the_same_layout(home: Home, tmp_path: Path) -> None:
    slug, out = unique_name(), tmp_path / "out" / "deep"
    result = home.tell(*RUN, "--name", slug, "--out", str(out), "-", stdin=PROMPT)
    assert result.code == 0, result.stderr
    assert read_tree(out) == read_project(home, slug)
    assert set(read_tree(out)) == expected_files(slug, result.session)
    assert all(Path(line).is_relative_to(out) for line in result.stdout.splitlines())


def test_a_worker_that_does_one_job_at_a_time_comes_to_the_end(home: Home) -> None:
    result = home.tell(*RUN, PROMPT, worker_concurrency="1")
    assert result.code == 0, result.stderr
    assert len(result.stdout.splitlines()) == len(NAMES)


def test_every_line_of_the_json_output_is_an_event(home: Home, tmp_path: Path) -> None:
    file = tmp_path / "prompt.txt"
    file.write_bytes(b"\xef\xbb\xbf" + PROMPT.encode())
    result = home.tell(*RUN, "--name", unique_name(), "--json", "--file", str(file))
    assert result.code == 0, result.stderr
    events = [json.loads(line) for line in result.stdout.splitlines()]
    assert [event["id"] for event in events] == sorted({event["id"] for event in events})
    kinds = [event["type"] for event in events]
    assert kinds.count("dialectic_contribution_received") == 3
    assert kinds[-2:] == ["contribution_generation_complete", "session_done"]
    assert all(event["data"]["sessionId"] == result.session for event in events)
    steps = [
        event["data"]["current_step"]
        for event in events
        if event["type"] == "dialectic_progress_update"
    ]
    assert steps == [0, 1, 2, 3]


def test_two_first_runs_at_once_in_one_home_each_leave_their_own_theses(tmp_path: Path) -> None:
    with open_home(tmp_path / "home") as home:
        both = [home.start(*RUN, PROMPT) for _ in range(2)]
        result = [wait_for(process) for process in both]
        assert [each.code for each in result] == [0, 0], [each.stderr for each in result]
        assert result[0].session != result[1].session
        named = [set(each.stdout.splitlines()) for each in result]
        assert [len(lines) for lines in named] == [3, 3]
        assert not named[0] & named[1], "each has a folder of its own"
        assert all(Path(line).is_file() for lines in named for line in lines)


# -- interruptions --------------------------------------------------------------------------------


def test_an_interrupted_run_finishes_its_calls_and_resuming_repeats_none(home: Home) -> None:
    slug = unique_name()
    process = home.start(
        *RUN,
        "--name",
        slug,
        "--models",
        "offline/skeptic*8",
        PROMPT,
        worker_concurrency="2",
        failpoints="before_send=stop@3",
        lease_s="6",
    )
    until_stopped(process, patience_s=PATIENCE_S)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGCONT)
    result = wait_for(process)
    assert result.code == 130, result.stderr
    assert f"dialectic resume {result.session[:8]}" in result.stderr

    before = home.read_status(result.session)
    saved = {row["id"]: row for row in before["contributions"]}
    assert 3 <= len(saved) < 8
    assert all(job["status"] in ("completed", "paused") for job in before["jobs"])
    files = read_project(home, slug)

    resumed = home.tell("resume", result.session[:8], lease_s="6")
    assert resumed.code == 0, resumed.stderr
    assert len(resumed.stdout.splitlines()) == 8
    after = home.read_status(result.session)
    assert {row["id"]: row for row in after["contributions"] if row["id"] in saved} == saved
    assert {job["attempt_count"] for job in after["jobs"]} == {1}
    now = read_project(home, slug)
    documents = {path: data for path, data in files.items() if not path.endswith(DESCRIPTIONS)}
    assert {path: data for path, data in now.items() if path in documents} == documents
    assert sum(path.endswith("_raw.json") for path in now) == 8


@pytest.fixture(scope="module")
def undisturbed(home: Home) -> dict[str, bytes]:
    """What a run leaves when nothing happens to it."""
    slug = unique_name()
    result = home.tell(*RUN, "--name", slug, PROMPT)
    assert result.code == 0, result.stderr
    return without_ids(read_project(home, slug), slug, result.session)


TOLD_ONCE = (
    "contribution_generation_started",
    "contribution_generation_complete",
    "session_done",
)


@pytest.mark.parametrize("point", [*(f"{point}=kill@2" for point in POINTS), "after_files=kill"])
def test_a_run_that_is_killed_anywhere_is_resumed_to_the_same_bytes(
    home: Home, undisturbed: dict[str, bytes], point: str
) -> None:
    slug = unique_name()
    killed = home.tell(*RUN, "--name", slug, PROMPT, failpoints=point)
    assert killed.code == -signal.SIGKILL
    session = killed.session if "Session " in killed.stderr else find_session(home, slug)
    resumed = home.tell("resume", session, "--json")
    assert resumed.code == 0, resumed.stderr
    assert without_ids(read_project(home, slug), slug, session) == undisturbed
    # The events of both processes: each document was written once, and progress never fell.
    events = [json.loads(line) for line in resumed.stdout.splitlines()]
    result = [(event["type"], event["data"]) for event in events]
    written = [data["job_id"] for kind, data in result if kind == "dialectic_contribution_received"]
    assert len(written) == len(set(written)) == 3
    steps = [data["current_step"] for kind, data in result if kind == "dialectic_progress_update"]
    assert steps == [0, 1, 2, 3]
    kinds = [kind for kind, _ in result]
    assert [kinds.count(kind) for kind in TOLD_ONCE] == [1, 1, 1]


def find_session(home: Home, name: str) -> str:
    listed = json.loads(home.tell("status", "--json").stdout)["sessions"]
    (found,) = [row["id"] for row in listed if row["project_name"] == name]
    return str(found)


# -- sessions -------------------------------------------------------------------------------------


def detach(home: Home, name: str) -> str:
    """Start a session without a worker."""
    result = home.tell(*RUN, "--detach", "--name", name, PROMPT)
    assert result.code == 0, result.stderr
    return result.stdout.strip()


@contextmanager
def worker(home: Home, **settings: str) -> Iterator[subprocess.Popen[str]]:
    """A worker that is ready; it is told to stop at the end, and must leave in peace."""
    process = home.start("worker", "--concurrency", "4", **settings)
    try:
        until_said(process, "is ready for 4 jobs at a time", patience_s=PATIENCE_S)
        yield process
        process.send_signal(signal.SIGTERM)
        result = wait_for(process)
        assert result.code == 0, result.stderr
        assert "Worker stopped." in result.stderr
    finally:
        process.kill()


def test_a_session_is_paused_resumed_and_carried_out_by_a_worker_elsewhere(home: Home) -> None:
    name = unique_name()
    session = detach(home, name)
    paused = home.tell("pause", session[:8])
    assert paused.code == 0, paused.stderr
    assert f"dialectic resume {session[:8]}" in paused.stderr
    with worker(home):
        watched = home.tell("watch", session)
        assert watched.code == 3, "it waits for somebody"
        assert "session paused" in watched.stderr
        assert home.tell("resume", "--detach", session).code == 0
        watched = home.tell("watch", session, "--json")
        assert watched.code == 0, watched.stderr
    kinds = [json.loads(line)["type"] for line in watched.stdout.splitlines()]
    assert kinds.count("dialectic_contribution_received") == 3
    shown = home.tell("status", session[:8])
    assert shown.code == 0
    assert f"Project   {name}" in shown.stdout
    assert "Stage     thesis: 3 of 3 documents, complete" in shown.stdout
    assert shown.stdout.count("Document  ") == 3
    assert f"{session[:8]}  " in home.tell("status").stdout


def test_a_project_that_only_a_worker_carried_out_is_described_too(home: Home) -> None:
    name = unique_name()
    session = detach(home, name)
    project_id = home.read_status(session)["session"]["project_id"]
    with worker(home, log_level="INFO") as process:
        until_said(process, f"described project {project_id}", patience_s=PATIENCE_S)
    files = read_project(home, name)
    assert set(files) == expected_files(name, session)
    readme, settings = (files[f"{name}/{kind}"].decode() for kind in DESCRIPTIONS)
    assert all(f"{author}_1_thesis.md" in readme for author in NAMES)
    (described,) = json.loads(settings)["dialectic_sessions"]
    assert (described["id"], described["status"]) == (session, "thesis_generation_complete")


def test_a_cancelled_session_stays_cancelled(home: Home) -> None:
    session = detach(home, unique_name())
    cancelled = home.tell("cancel", session)
    assert cancelled.code == 0, cancelled.stderr
    assert home.tell("watch", session).code == 1
    resumed = home.tell("resume", session)
    assert resumed.code == 2
    assert "cancelled and cannot be continued" in resumed.stderr


def test_a_worker_outlives_the_server_that_is_stopped_under_it(
    made_home: Path, tmp_path: Path
) -> None:
    copy_server(made_home, tmp_path / "home")
    with open_home(tmp_path / "home") as home:
        with worker(home):
            stopped = home.tell("db", "stop")
            assert stopped.code == 0, stopped.stderr
            assert "The server has stopped." in stopped.stderr
            session = detach(home, unique_name())
            assert home.tell("watch", session).code == 0
        assert "No server was running." in home.tell("db", "stop").stderr


# -- the operator's commands ----------------------------------------------------------------------


def test_the_doctor_finds_everything_in_order(home: Home) -> None:
    result = home.tell("doctor")
    assert result.code == 0, result.stdout
    assert all(line.startswith("ok") for line in result.stdout.splitlines())
    for word in ("settings", "server", "database", "storage", "models", "embedder"):
        assert re.search(rf"^ok +{word} ", result.stdout, re.MULTILINE)


def test_the_doctor_writes_where_documents_are_written(made_home: Path, tmp_path: Path) -> None:
    with copy_home(made_home, tmp_path / "home") as home:
        assert home.tell("run", "--until", "thesis", PROMPT).code == 0
        (tenant,) = (path for path in (home.path / "storage").iterdir() if path.is_dir())
        tenant.rename(tmp_path / "aside")
        tenant.write_text("a file in the place of the folder")
        told = home.tell("doctor")
        assert told.code == 4
        assert re.search(r"^FAIL +storage .*Not a directory", told.stdout, re.MULTILINE)
        run = home.tell("run", "--until", "thesis", PROMPT)
        assert run.code == 4
        assert list_codes(run.stderr)[-1] == "storage_unavailable"
        assert "Not a directory" in run.stderr
        assert "free some space" not in run.stderr
        tenant.unlink()
        (tmp_path / "aside").rename(tenant)
        assert home.tell("doctor").code == 0
        assert home.tell("resume", run.session).code == 0


def test_the_doctor_says_what_is_not_in_order(home: Home) -> None:
    result = home.tell("doctor", storage_url="file:///dev/null/storage")
    assert result.code == 4
    assert re.search(r"^FAIL +storage .*/dev/null", result.stdout, re.MULTILINE)
    for name in ("builtin/statik", "openai/text-embedding-3-small"):
        result = home.tell("doctor", embedder=name)
        assert result.code == 4
        assert re.search(rf"^FAIL +embedder .*{name}", result.stdout, re.MULTILINE)


def test_the_database_says_where_it_is_and_that_it_is_up_to_date(home: Home) -> None:
    result = home.tell("db", "url")
    assert result.code == 0, result.stderr
    assert result.stdout.startswith("postgresql://")
    migrated = home.tell("db", "migrate")
    assert migrated.code == 0
    assert "up to date" in migrated.stderr


# -- wrong input ----------------------------------------------------------------------------------

# Words, settings, exit code, and what the message must speak of.
WRONG_INPUT: dict[str, tuple[list[str], dict[str, str], int, list[str]]] = {
    "unknown model": (
        ["run", "--models", "offline/sceptic", "x"],
        {},
        2,
        ["'offline/sceptic'", "Did you mean `offline/skeptic`"],
    ),
    "a model that is no name": (
        ["run", "--models", "abacus", "x"],
        {},
        2,
        ["'abacus'", "`provider/model`"],
    ),
    "empty prompt": (["run", ""], {}, 2, ["prompt is empty", "--file"]),
    "no prompt": (["run"], {}, 2, ["argument", "--file"]),
    "two prompts": (["run", "x", "--file", "y"], {}, 2, ["either"]),
    "prompt too long": (
        ["run", "x" * 11],
        {"max_prompt_bytes": "10"},
        2,
        ["11 bytes", "MAX_PROMPT_BYTES", "10", "Shorten"],
    ),
    "prompt file that is not there": (
        ["run", "--file", "{folder}/nothing.md"],
        {},
        2,
        ["nothing.md", "No such file"],
    ),
    "prompt file that is a folder": (
        ["run", "--file", "{folder}"],
        {},
        2,
        ["{folder}", "directory"],
    ),
    "prompt file that is no text": (
        ["run", "--file", "{folder}/binary.md"],
        {},
        2,
        ["binary.md", "not UTF-8", "byte 4", "Convert"],
    ),
    "prompt file in another encoding": (
        ["run", "--file", "{folder}/utf-16.md"],
        {},
        2,
        ["utf-16.md", "is binary", "byte order mark"],
    ),
    "unknown stage": (
        ["run", "--until", "paralysys", "x"],
        {},
        2,
        ["'paralysys'", "'standard'", "thesis"],
    ),
    "unknown process": (
        ["run", "--process", "standart", "x"],
        {},
        2,
        ["'standart'", "standard", "process.toml"],
    ),
    "unknown session": (["status", "deadbeef"], {}, 2, ["'deadbeef'", "dialectic status"]),
    "no session": (["watch", "what?"], {}, 2, ["'what?'", "dialectic status"]),
    "unknown option": (["run", "--modles", "x"], {}, 2, ["--modles", "--models"]),
    "unknown command": (["rum"], {}, 2, ["'rum'", "Did you mean", "'run'"]),
    "models that are none": (["run", "--models", "", "x"], {}, 2, ["--models", "empty"]),
    "a budget of nothing": (["run", "--budget", "0", "x"], {}, 2, ["above 0"]),
    "unknown setting": (
        ["status"],
        {"max_retrys": "1"},
        4,
        ["DIALECTIC_MAX_RETRYS", "DIALECTIC_MAX_RETRIES"],
    ),
    "setting out of range": (
        ["status"],
        {"max_retries": "many"},
        4,
        ["DIALECTIC_MAX_RETRIES", "'many'", "0 to 20"],
    ),
    "unreachable database": (
        ["status"],
        {"database_url": "postgresql://me:sesame@127.0.0.1:1/x"},
        4,
        ["127.0.0.1:1", "DIALECTIC_DATABASE_URL"],
    ),
    "unknown embedder": (
        ["run", "x"],
        {"embedder": "builtin/statik"},
        4,
        ["`embedder`", "'builtin/statik'", "builtin/static"],
    ),
    "broken failpoint": (["status"], {"failpoints": "nowhere=kill"}, 4, ["nowhere=kill"]),
    "unknown storage": (
        ["status"],
        {"storage_url": "ftp://x"},
        4,
        ["DIALECTIC_STORAGE_URL", "ftp"],
    ),
}


@pytest.fixture(scope="module")
def prompts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of files that are not prompts."""
    folder = tmp_path_factory.mktemp("prompts")
    (folder / "binary.md").write_bytes(b"\x7fELF\xff\x00\x80")
    (folder / "utf-16.md").write_bytes(PROMPT.encode("utf-16-le"))
    return folder


@pytest.mark.parametrize("case", WRONG_INPUT)
def test_wrong_input_is_refused_with_the_thing_the_place_and_the_remedy(
    home: Home, prompts: Path, case: str
) -> None:
    words, settings, code, keys = WRONG_INPUT[case]
    result = home.tell(*(word.format(folder=prompts) for word in words), **settings)
    assert result.code == code, result.stderr
    assert result.stdout == ""
    for key in keys:
        assert key.format(folder=prompts) in result.stderr
    assert "Traceback" not in result.stderr
    assert "sesame" not in result.stderr, "a password is never shown"


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("max_retries = \n", ["config.toml", "line 1"]),
        ("max_retrys = 1\n", ["`max_retrys`", "config.toml", "`max_retries`"]),
    ],
)
def test_a_broken_configuration_file_is_refused_with_its_place(
    tmp_path: Path, text: str, keys: list[str]
) -> None:
    (tmp_path / "config.toml").write_text(text)
    result = Home(tmp_path).tell("status")
    assert result.code == 4, result.stderr
    for key in keys:
        assert key in result.stderr
    assert not (tmp_path / "postgres").exists(), "no server is started for words that are wrong"
