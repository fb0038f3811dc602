"""A command at its edges: signals, streams that are closed or full, input that is out of range."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dialectic.postgres import embedded
from tests.command_pool import CommandResult
from tests.conftest import execute_as_superuser
from tests.problems import list_codes, list_commands
from tests.scenario.test_run import PROMPT, Home, copy_home, open_home, unique_name, wait_for
from tests.servers import copy_server
from tests.waiting import PATIENCE_S, hearing_server_log

RUN = ("run", "--until", "thesis", "--models", "offline/skeptic")


@pytest.fixture(scope="module")
def home(made_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """One home for the stories that do not mind each other."""
    with copy_home(made_home, tmp_path_factory.mktemp("edges") / "home") as opened:
        yield opened


def detach(home: Home) -> str:
    result = home.tell(*RUN, "--detach", "--name", unique_name(), PROMPT)
    assert result.code == 0, result.stderr
    return result.stdout.strip()


# -- signals --------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_whatever_ends_a_command_leaves_no_server_behind(
    made_home: Path, tmp_path: Path, number: signal.Signals
) -> None:
    with open_home(tmp_path / "new") as home:
        with hearing_server_log(home.path) as wait_for_words:
            first = home.start(*RUN, PROMPT)  # it is still starting when it is told to leave
            wait_for_words("The files belonging to this database system")
            first.send_signal(number)
            assert wait_for(first).code == 130
        assert not embedded.describe_server(home.path).running

    copy_server(made_home, tmp_path / "home")
    with open_home(tmp_path / "home") as home:
        session = detach(home)
        watching = home.start("watch", session)
        assert watching.stderr is not None
        assert "thesis" in watching.stderr.readline()
        watching.send_signal(number)
        assert wait_for(watching).code == 130
        assert not embedded.describe_server(home.path).running


def test_a_command_that_is_to_outlive_its_terminal_does(home: Home) -> None:
    ignored = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as `nohup` leaves it
    try:
        worker = home.start("worker")
    finally:
        signal.signal(signal.SIGHUP, ignored)
    assert worker.stderr is not None
    assert "is ready" in worker.stderr.readline()
    worker.send_signal(signal.SIGHUP)
    watched = home.tell("watch", detach(home))
    assert watched.code == 0, watched.stderr
    worker.send_signal(signal.SIGTERM)
    assert wait_for(worker).code == 0


# -- streams --------------------------------------------------------------------------------------


def tell_in_shell(home: Home, words: str, shell: str = "sh") -> CommandResult:
    """Give a command as a shell does, which can close or redirect streams."""
    done = subprocess.run(
        f"{shlex.quote(sys.executable)} -m dialectic {words}",
        shell=True,
        executable=shutil.which(shell),
        capture_output=True,
        text=True,
        errors="surrogateescape",
        timeout=PATIENCE_S,
        check=False,
        env={**os.environ, "DIALECTIC_HOME": str(home.path)},
    )
    return CommandResult(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_is_like_one_that_leads_nowhere(home: Home, closed: str) -> None:
    for words in ("status", f"{shlex.join(RUN)} 'A bakery.'"):
        result = tell_in_shell(home, f"{words} {closed}")
        assert result.code == 0, result.stderr


def test_a_prompt_from_a_closed_input_is_empty(home: Home) -> None:
    result = tell_in_shell(home, f"{shlex.join(RUN)} - <&-")
    assert result.code == 2
    assert list_codes(result.stderr) == ["invalid_request"]
    assert "--file" in result.stderr


def test_output_that_has_no_room_is_said_in_one_line(home: Home) -> None:
    for words in (
        "--help",
        f"{shlex.join(RUN)} 'A bakery.'",
        f"{shlex.join(RUN)} --json 'A shop.'",
    ):
        result = tell_in_shell(home, f"{words} > /dev/full")
        assert result.code == 1, result.stderr
        assert list_codes(result.stderr) == ["output"]
        assert "No space left on device" in result.stderr
        assert "Traceback" not in result.stderr
        assert "Exception ignored" not in result.stderr


def test_a_reader_that_wants_one_line_does_not_interrupt_the_session(home: Home) -> None:
    result = tell_in_shell(home, f"{shlex.join(RUN)} --models offline/skeptic*3 'A pipe.' | true")
    assert "Interrupted" not in result.stderr
    assert "Traceback" not in result.stderr
    assert "Exception ignored" not in result.stderr
    status = json.loads(home.tell("status", "--json").stdout)["sessions"][0]
    assert status["status"].endswith("complete")
    code = tell_in_shell(
        home, f"{shlex.join(RUN)} 'A pipe.' 2>&- | true; exit ${{PIPESTATUS[0]}}", shell="bash"
    ).code
    assert code == 0


def test_messages_that_have_no_room_do_not_stop_the_work(home: Home) -> None:
    result = tell_in_shell(home, f"{shlex.join(RUN)} 'A bakery.' 2> /dev/full")
    assert result.code == 0
    assert Path(result.stdout.strip()).is_file()


# -- where a session stands -----------------------------------------------------------------------


def test_pausing_or_cancelling_twice_is_not_an_error(home: Home) -> None:
    session = detach(home)
    for word, done in (("pause", "is paused"), ("cancel", "is cancelled")):
        first, second = (home.tell(word, session[:8]) for _ in range(2))
        assert (first.code, second.code) == (0, 0), second.stderr
        assert f"{done}." in first.stderr
        assert f"{done} already." in second.stderr
    refused = home.tell("pause", session)
    assert (refused.code, list_codes(refused.stderr)) == (2, ["conflict"])
    assert list_commands(refused.stderr) == ['dialectic run "…"']


def test_one_job_is_paused_resumed_and_cancelled_by_the_beginning_of_its_id(home: Home) -> None:
    session = detach(home)
    jobs = json.loads(home.tell("status", session, "--json").stdout)["jobs"]
    only = ("--job", next(job["id"] for job in jobs if job["status"] == "pending")[:12])
    assert "is paused" in home.tell("pause", session, *only).stderr
    watched = home.tell("watch", session)
    assert (watched.code, f"resume {session[:8]}" in watched.stderr) == (3, True)
    assert "is complete" not in watched.stderr, "its stage is in the middle"
    assert f"`dialectic resume {session[:8]}` continues" in home.tell("status", session).stdout
    assert home.tell("resume", session, *only, "--detach").code == 0
    assert "is cancelled" in home.tell("cancel", session, *only).stderr
    result = home.tell("pause", session, *only)
    assert (result.code, list_codes(result.stderr)) == (2, ["conflict"])
    assert "cancelled" in result.stderr


def test_a_finished_session_stays_finished(home: Home) -> None:
    result = home.tell(*RUN, PROMPT)
    assert result.code == 0, result.stderr
    for word in ("pause", "cancel"):
        refused = home.tell(word, result.session)
        assert (refused.code, list_codes(refused.stderr)) == (2, ["conflict"])
    assert home.tell("watch", result.session).code == 0
    again = home.tell("resume", result.session)
    assert (again.code, again.stdout) == (0, result.stdout)


def test_a_session_is_found_by_its_id_with_and_without_hyphens(home: Home) -> None:
    session = detach(home)
    for text in (session, session.upper(), session.replace("-", ""), session.replace("-", "")[:13]):
        shown = home.tell("status", text, "--json")
        assert shown.code == 0, shown.stderr
        assert json.loads(shown.stdout)["session"]["id"] == session
    assert home.tell("status", "-", "--json").code == 2


def test_one_model_is_one_model(home: Home) -> None:
    result = home.tell(*RUN, "--detach", PROMPT)
    assert "(1 model)" in result.stderr
    assert "1 model  " in home.tell("status").stdout


def test_a_list_that_leaves_something_out_says_so(made_home: Path, tmp_path: Path) -> None:
    with copy_home(made_home, tmp_path / "home") as home:
        detach(home)
        assert "Only the latest" not in home.tell("status").stderr
        with embedded.join_server(home.path) as server:
            asyncio.run(execute_as_superuser(server, COPY_SESSION, "dialectic"))
        shown = home.tell("status")
        assert len(shown.stdout.splitlines()) == 50
        assert "Only the latest 50" in shown.stderr
        assert json.loads(home.tell("status", "--json").stdout)["has_more"] is True


COPY_SESSION = """
    create temporary table copies as
      select s.* from dialectic.dialectic_sessions s, generate_series(1, 50);
    update copies set id = gen_random_uuid(), phase = 'pending';
    insert into dialectic.dialectic_sessions select * from copies;
"""


# -- what is given --------------------------------------------------------------------------------

# Words, and what the message must speak of.
OUT_OF_RANGE: dict[str, tuple[list[str | bytes], list[str]]] = {
    "long name": (["--name", "x" * 501], ["501 characters", "500", "name"]),
    "no domain": (["--domain", " "], ["' '", "domain"]),
    "long domain": (["--domain", "x" * 201], ["xxx", "domain"]),
    "domain that is no text": (["--domain", b"\xff"], ["domain"]),
    "process that is no text": (["--process", b"\xff"], ["process"]),
    "stage that is no text": (["--until", b"\xff"], ["stage"]),
    "model that is no text": (["--models", b"\xff/\xff"], ["model"]),
    "lead that is no text": (["--lead", b"\xff"], ["lead"]),
    "too many tokens": (["--max-output-tokens", "3000000000"], ["--max-output-tokens"]),
    "no tokens": (["--max-output-tokens", "0"], ["--max-output-tokens"]),
    "out below a file": (["--out", "{folder}/file/below"], ["--out", "{folder}/file"]),
    "out in no folder": (["--out", "/proc/nope"], ["--out /proc/nope", "another folder"]),
    "out for nobody": (["--out", "{folder}/x", "--detach"], ["--out", "--detach", "export"]),
}


@pytest.mark.parametrize("case", OUT_OF_RANGE)
def test_what_cannot_be_is_refused_before_a_session_is_made(
    home: Home, tmp_path: Path, case: str
) -> None:
    (tmp_path / "file").touch()
    words, keys = OUT_OF_RANGE[case]
    given = [w if isinstance(w, bytes) else w.format(folder=tmp_path) for w in words]
    before = home.tell("status").stdout
    result = home.tell("run", *map(os.fsdecode, given), PROMPT)
    assert result.code == 2, result.stderr
    assert result.stdout == ""
    for key in keys:
        assert key.format(folder=tmp_path) in result.stderr
    assert "Traceback" not in result.stderr
    assert "internal" not in list_codes(result.stderr)
    assert home.tell("status").stdout == before


def test_a_name_and_a_folder_that_are_not_text_are_used_as_they_are(
    home: Home, tmp_path: Path
) -> None:
    out = Path(os.fsdecode(bytes(tmp_path) + b"/\xff"))
    folder = f"{shlex.quote(str(tmp_path))}/$(printf '\\377')"
    result = tell_in_shell(home, f"{shlex.join(RUN)} --name $(printf '\\377') --out {folder} x")
    assert result.code == 0, result.stderr
    assert list(out.rglob("*_1_thesis.md")) == [Path(result.stdout.strip())]


def test_a_message_that_is_not_text_is_refused_as_a_prompt_is(home: Home, tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"caf\xe9")
    for command in ("run -", "chat"):
        result = tell_in_shell(home, f"{command} < {shlex.quote(str(tmp_path))}/latin")
        assert result.code == 2, result.stderr
        assert all(name in result.stderr for name in ("UTF-8", "byte 3"))


def test_a_request_for_json_gets_json(home: Home) -> None:
    result = home.tell(*RUN, "--detach", "--json", PROMPT)
    session = json.loads(result.stdout)["session_id"]
    assert session in result.stderr
    assert home.tell("resume", session).code == 0
    document = home.tell("list", session).stdout.split()[0]
    request = json.loads(home.tell("show", document, "--prompt", "--json").stdout)
    assert PROMPT in request["messages"][0]["content"]


def test_a_user_who_stops_reading_is_told_what_continues(home: Home) -> None:
    result = tell_in_shell(home, f"{shlex.join(RUN)} --json {shlex.quote(PROMPT)} | head -c 1")
    session = result.stderr.split("Session ")[1][:8]
    # Its last calls may have completed it before the closed pipe was noticed.
    assert re.search(rf"`dialectic (resume|status) {session}`", result.stderr), result.stderr
    assert home.tell("resume", session).code == 0


@pytest.mark.parametrize("words", [["--file", "/dev/zero"], ["-"]])
def test_a_prompt_without_end_is_not_read_to_its_end(home: Home, words: list[str]) -> None:
    result = tell_in_shell(home, f"run {shlex.join(words)} < /dev/zero")
    assert result.code == 2, result.stderr
    assert "10,000,000" in result.stderr
    assert "DIALECTIC_MAX_PROMPT_BYTES" in result.stderr


def test_a_file_that_is_just_short_enough_is_read_with_its_mark(home: Home, tmp_path: Path) -> None:
    file = tmp_path / "prompt.md"
    for text, code in ((b"0123456789", 0), (b"0123456789+", 2)):
        file.write_bytes(b"\xef\xbb\xbf" + text)
        result = home.tell(*RUN, "--detach", "--file", str(file), max_prompt_bytes="10")
        assert result.code == code, result.stderr


def test_a_copy_replaces_a_document_as_a_whole(home: Home, tmp_path: Path) -> None:
    result = home.tell(*RUN, "--out", str(tmp_path / "out"), PROMPT)
    assert result.code == 0, result.stderr
    (readme,) = (tmp_path / "out").glob("*/project_readme.md")
    text, before = readme.read_text(), readme.stat().st_ino
    document = home.tell("list", result.session).stdout.split()[0]
    again = home.tell("edit", document, "--file", "-", stdin="# Mine\n\nAll of it is mine.\n")
    assert again.code == 0, again.stderr
    assert Path(again.stdout.strip()).is_relative_to(tmp_path / "out")
    assert readme.read_text() != text
    assert readme.stat().st_ino != before
    assert not list((tmp_path / "out").rglob(".draft-*"))


def test_storage_that_takes_nothing_is_named_before_anything_is_called(
    made_home: Path, tmp_path: Path
) -> None:
    with copy_home(made_home, tmp_path / "home") as home:
        result = home.tell(*RUN, PROMPT, storage_url="file:///proc/nope")
        assert result.code == 4, result.stderr
        assert list_codes(result.stderr) == ["storage_unavailable"]
        assert "/proc" in result.stderr
        assert "DIALECTIC_STORAGE_URL" in result.stderr
        assert "Session" not in result.stderr


@pytest.mark.parametrize(
    "url",
    ["postgresql://127.0.0.1:1/x?user=u&password=sesame", "host=127.0.0.1 password=sesame"],
)
def test_no_command_shows_a_password(home: Home, url: str) -> None:
    for word in ("status", "doctor"):
        result = home.tell(word, database_url=url)
        assert result.code == 4
        assert "DIALECTIC_DATABASE_URL" in result.stdout + result.stderr
        assert "sesame" not in result.stdout + result.stderr


def test_a_home_whose_name_is_not_text_works(tmp_path: Path) -> None:
    with open_home(Path(os.fsdecode(bytes(tmp_path) + b"/\xff"))) as home:
        result = home.tell("status")
        assert result.code == 0, result.stderr
        assert home.tell("status").code == 0


def test_a_bundle_is_a_plain_file(home: Home, tmp_path: Path) -> None:
    detach(home)
    session = json.loads(home.tell("status", "--json").stdout)["sessions"][0]["id"]
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for words in (["export", session, "--out", str(pipe)], ["import", str(pipe)]):
        result = home.tell(*words)
        assert result.code == 2, result.stderr
        assert str(pipe) in result.stderr
    assert pipe.is_fifo()
    assert home.tell("export", os.fsdecode(b"no such project \xff")).code == 2


def test_an_unexpected_error_is_one_line_and_more_only_on_request(
    made_home: Path, tmp_path: Path
) -> None:
    with copy_home(made_home, tmp_path / "home") as home:
        assert home.tell("status").code == 0
        with embedded.join_server(home.path) as server:
            broken = "alter table dialectic.dialectic_projects rename to lost"
            asyncio.run(execute_as_superuser(server, broken, "dialectic"))
        result = home.tell("status")
        assert result.code == 1
        assert "Traceback" not in result.stderr
        (line,) = result.stderr.splitlines()
        assert list_codes(line) == ["internal"]
        assert "UndefinedTableError" in line
        assert "DIALECTIC_LOG_LEVEL=DEBUG" in line
        more = home.tell("status", log_level="DEBUG")
        assert more.code == 1
        assert "Traceback" in more.stderr
