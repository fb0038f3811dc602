"""Every command that has a form for a server, given to one; all of them to the same one."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from dialectic.postgres import embedded
from tests.command_pool import CommandResult
from tests.database.job_table import database_of_a_module
from tests.scenario.server_thread import RemoteServer, open_remote_server
from tests.scenario.test_run import Home, read_tree, wait_for
from tests.waiting import PATIENCE_S, until_said

PROMPT = "A booking service for a village hall that volunteers can run in an hour a week."
MODEL = "offline/skeptic"
SHORT = ("run", PROMPT, "--models", MODEL, "--until", "thesis")


@dataclass(frozen=True, slots=True)
class Terminal:
    """Someone who drives a server, and has nothing at home."""

    home: Home
    remote_server: RemoteServer

    @property
    def settings(self) -> dict[str, str]:
        return {"token": self.remote_server.anna}

    def tell(self, *words: str, code: int = 0) -> CommandResult:
        result = self.home.tell("--server", self.remote_server.url, *words, **self.settings)
        assert result.code == code, (words, result.stderr)
        return result

    def begin(self, *words: str) -> tuple[str, str]:
        """Run one stage; give the ids of its session and of its document."""
        result = self.tell(*(words or SHORT))
        listed = self.tell("list", result.session).stdout
        return result.session, listed.split()[0]


@pytest.fixture(scope="module")
def terminal(
    server: embedded.Server, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Terminal]:
    folder = tmp_path_factory.mktemp("remote")
    with (
        database_of_a_module(server, template) as address,
        open_remote_server(address, folder / "home") as remote_server,
    ):
        yield Terminal(Home(folder / "nothing"), remote_server)
    kept = {path.name for path in (folder / "nothing").iterdir()}
    assert kept <= {"copies"}, "only where the copies are is remembered here"


def test_a_user_who_leaves_a_run_is_told_that_it_continues_and_it_does(terminal: Terminal) -> None:
    words = ("--server", terminal.remote_server.url, "run", PROMPT, "--models", f"{MODEL}*2")
    process = terminal.home.start(*words, **terminal.settings)
    said = until_said(process, "Session ", patience_s=PATIENCE_S)
    session = CommandResult(0, "", said).session
    process.send_signal(signal.SIGINT)
    left = wait_for(process)
    command = f"dialectic --server {terminal.remote_server.url}"

    assert (left.code, "the server continues" in left.stderr) == (130, True), left.stderr
    assert f"{command} watch {session[:8]}" in left.stderr
    assert "paralysis: complete" in terminal.tell("watch", session).stderr


def test_a_session_that_waits_says_for_what_and_is_ended_for_good(terminal: Terminal) -> None:
    words = ("run", PROMPT, "--models", MODEL, "--pause", "--detach")
    session = terminal.tell(*words).stdout.strip()
    waits = terminal.tell("watch", session, code=3)

    assert f"next {session[:8]}" in waits.stderr
    assert f"next {session[:8]}` continues" in terminal.tell("status", session).stdout
    assert "cancelled." in terminal.tell("cancel", session).stderr
    assert "cancelled already" in terminal.tell("cancel", session[:13]).stderr
    assert "cancelled" in terminal.tell("watch", session, code=1).stderr


def test_the_plan_and_the_report_of_a_finished_session_are_read_from_the_server(
    terminal: Terminal, tmp_path: Path
) -> None:
    run = terminal.tell("run", PROMPT, "--models", MODEL, "--out", str(tmp_path / "copy"))
    (page,) = (tmp_path / "copy").glob("*/PLAN.md")
    assert f"Plan: {page}" in run.stderr
    assert terminal.tell("show", run.session).stdout == page.read_text()
    out = tmp_path / "report.html"
    terminal.tell("report", run.session, "--out", str(out))
    assert out.read_text().startswith("<!doctype html>")
    assert "Agreed requirements" in out.read_text()
    unfinished, _ = terminal.begin()
    assert "has no plan yet" in terminal.tell("show", unfinished).stderr


def test_who_watches_may_leave_at_any_time(terminal: Terminal) -> None:
    session, _ = terminal.begin(*SHORT)
    again = terminal.tell("iterate", session, "--detach")
    words = ("--server", terminal.remote_server.url, "watch", session, "--json")
    watching = terminal.home.start(*words, **terminal.settings)
    assert watching.stdout is not None
    first = json.loads(watching.stdout.readline())
    watching.send_signal(signal.SIGINT)
    left = wait_for(watching)

    assert "starts iteration 2" in again.stderr
    assert first["session_id"] == session
    # It may have come to its end before it was told to leave.
    assert left.code in (130, 0), left.stderr
    assert terminal.tell("watch", session).code == 0
    assert "2/thesis" in terminal.tell("status", session).stdout


def test_a_document_is_traced_and_the_points_of_its_session_are_counted(
    terminal: Terminal,
) -> None:
    session = terminal.tell("run", PROMPT, "--models", MODEL).session
    last = terminal.tell("list", session).stdout.splitlines()[-1].split()[0]
    found = json.loads(terminal.tell("trace", last, "--json").stdout)
    some = json.loads(terminal.tell("trace", last, "VOLUNTEERS", "--json").stdout)
    covered = json.loads(terminal.tell("coverage", session, "--json").stdout)
    dropped = json.loads(terminal.tell("coverage", session, "--status", "dropped", "--json").stdout)
    is_lossy = any(one["status"] == "dropped" for one in covered["points"])

    assert 0 < len(some["passages"]) < len(found["passages"])
    sources = [source for passage in found["passages"] for source in passage["sources"]]
    assert "thesis" in {source["stage"] for source in sources}
    assert [one["status"] for one in dropped["points"]] == ["dropped"] * len(dropped["points"])
    assert is_lossy
    assert "# Coverage" in terminal.tell("coverage", session, "--strict", code=1).stdout
    assert "Passages that say the same:" in terminal.tell("show", last, "--sources").stdout
    assert "'lost'" in terminal.tell("coverage", session, "--status", "lost", code=2).stderr
    assert (
        "[invalid_value]" in terminal.tell("coverage", session, "--iteration", "7", code=2).stderr
    )


def test_a_document_is_regenerated_compared_and_its_stage_retried(terminal: Terminal) -> None:
    session, document = terminal.begin()
    terminal.tell("regenerate", document)
    newer = terminal.tell("list", session).stdout.split()[0]
    edited = terminal.home.tell(
        *("--server", terminal.remote_server.url, "edit", newer, "--file", "-"),
        stdin="# Mine\n",
        **terminal.settings,
    )
    latest = terminal.tell("list", session).stdout.split()[0]
    differs = terminal.tell("diff", newer, latest).stdout

    assert newer != document
    assert "version 2" in terminal.tell("show", newer).stderr
    assert edited.code == 0
    assert "{+# Mine+}" in differs.splitlines()
    assert "failed" in terminal.tell("retry", session, code=2).stderr
    assert terminal.tell("regenerate", latest, "--detach").stdout.count("-") == 4


def test_a_run_that_is_left_to_the_server_takes_what_it_is_given(
    terminal: Terminal, tmp_path: Path
) -> None:
    (tmp_path / "rules.md").write_text("The hall has forty chairs.\n")
    begun = terminal.tell(
        *SHORT,
        *("--detach", "--pause", "--budget", "5", "--name", "Given"),
        *("--resource", f"constraint_boundaries={tmp_path / 'rules.md'}"),
    )
    session = begun.stdout.strip()
    terminal.tell("watch", session)
    resumed = terminal.tell("resume", session, "--out", str(tmp_path / "out"), "--budget", "6")
    document = terminal.tell("list", session).stdout.split()[0]

    assert begun.session == session
    assert "forty chairs" in terminal.tell("show", document, "--prompt").stdout
    assert resumed.stdout.startswith(str(tmp_path / "out" / "given"))
    assert any("general_resource" in path for path in read_tree(tmp_path / "out"))
    assert not list(tmp_path.rglob(".draft-*"))


def test_money_and_processes_are_those_of_the_server(terminal: Terminal) -> None:
    session, _ = terminal.begin()
    history = terminal.tell("wallet", "history", "--limit", "3").stdout.splitlines()
    result = json.loads(terminal.tell("wallet", "history", "--limit", "1", "--json").stdout)
    costs = terminal.tell("wallet", "costs", session[:8]).stdout

    assert len(history) == 3
    assert session[:8] in history[0]
    assert result["transfers"][0]["is_play"] is True
    assert re.search(r"^total +1 call, play 0\.\d+$", costs, re.MULTILINE), costs
    assert "standard:" in terminal.tell("process", "list").stdout
    drawn = terminal.tell("process", "show", "standard", "--models", "2").stdout
    assert drawn == terminal.home.tell("process", "show", "standard", "--models", "2").stdout
    terminal.tell("wallet", "balance", "--as", "anna", code=2)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("show", "ffffffff"), 2, "[not_found]"),
        (("diff", "ffffffff", "eeeeeeee"), 2, "[not_found]"),
        (("resume", "ffffffff"), 2, "[not_found]"),
        (("cancel", "tea"), 2, "is not the id of a session"),
        (("iterate", "ffffffff"), 2, "[not_found]"),
        (("regenerate", "ffffffff"), 2, "[not_found]"),
        (("process", "show", "not-there"), 2, "not-there"),
        (("wallet", "history", "--limit", "0"), 2, "--limit"),
        (("wallet", "costs", "ffffffff"), 2, "[not_found]"),
        (("run", PROMPT, "--budget", "much"), 2, "much"),
        (("run", PROMPT, "--until", "lunch"), 2, "lunch"),
        (("run", PROMPT, "--resource", "tea=x"), 2, "KIND=FILE"),
        (("import", __file__), 2, "The archive is not a zip file"),
        (("import", "/dev/zero"), 2, "not a plain file"),
        (("import", "/nowhere.zip"), 2, "cannot be read"),
    ],
)
def test_wrong_words_are_answered_in_words(
    terminal: Terminal, words: tuple[str, ...], code: int, said: str
) -> None:
    assert said in terminal.tell(*words, code=code).stderr


def test_a_project_of_a_server_gets_resources_a_domain_an_overlay_and_another_session(
    terminal: Terminal, tmp_path: Path
) -> None:
    rules = tmp_path / "rules.md"
    rules.write_text("No music after ten.")
    terminal.begin("run", PROMPT, "--models", MODEL, "--until", "thesis", "--name", "Second tries")
    given = f"domain_standards={rules}"
    added = json.loads(terminal.tell("resource", "add", "Second tries", given, "--json").stdout)
    listed = json.loads(terminal.tell("resource", "list", "Second tries", "--json").stdout)
    assert [one["id"] for one in listed] == [one["id"] for one in added]
    overlay = tmp_path / "overlay.md"
    overlay.write_text("Never by mail.\nAlways by phone.\n")
    change = ("project", "change", "Second tries", "--domain", "software development", "--json")
    changed = json.loads(terminal.tell(*change, "--overlay", str(overlay)).stdout)
    assert changed["domain"] == "Software Development"
    assert changed["overlay"] == "Never by mail.\nAlways by phone."
    too_long = ("project", "change", "Second tries", "--overlay", "word " * 2_000)
    assert "8,000" in terminal.tell(*too_long, code=2).stderr
    more = ("run", "--project", "Second tries", "For the winter.", "--models", MODEL)
    _, document = terminal.begin(*more, "--until", "thesis")
    prompt = terminal.tell("show", document, "--prompt").stdout
    assert f"{PROMPT}\n\nFor the winter." in prompt
    assert "No music after ten." in prompt
    assert "- For this project: Never by mail.\n  Always by phone.\n" in prompt
    terminal.tell("resource", "remove", "Second tries", listed[0]["id"])
    assert json.loads(terminal.tell("resource", "list", "Second tries", "--json").stdout) == []
    names = [row["name"] for row in json.loads(terminal.tell("project", "list", "--json").stdout)]
    assert "Second tries" in names
    prompts = json.loads(terminal.tell("chat", "--system-prompts", "--json").stdout)
    assert "thesis_role" in {one["name"] for one in prompts}


def test_a_dissent_is_listed_ruled_and_the_ruling_is_withdrawn(terminal: Terminal) -> None:
    models = "offline/architect,offline/skeptic"
    session = terminal.tell("run", PROMPT, "--models", models, "--until", "synthesis").session
    found = json.loads(terminal.tell("dissent", session, "--json").stdout)
    (one, *_) = found["dissents"]
    position = one["positions"][0]
    assert one["id"][:8] in terminal.tell("dissent", session).stdout

    terminal.tell("rule", session, one["id"][:8], "--for", position["id"][:8])
    listed = json.loads(terminal.tell("dissent", session, "--json").stdout)["dissents"]
    ruled = {each["id"]: each["ruling"] for each in listed if each["ruling"] is not None}
    assert {each: ruling["position_id"] for each, ruling in ruled.items()} == {
        one["id"]: position["id"]
    }
    assert "Ruled: " in terminal.tell("dissent", session).stdout
    terminal.tell("rule", session, one["id"][:8], "--withdraw")
    listed = json.loads(terminal.tell("dissent", session, "--json").stdout)["dissents"]
    assert {each["ruling"] for each in listed} == {None}
    for words in ((), ("--withdraw", "No."), ("--for", "zz")):
        terminal.tell("rule", session, one["id"][:8], *words, code=2)
    terminal.tell("rule", session, "zz", "Fifty.", code=2)
