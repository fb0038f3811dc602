"""Everyday commands, as they are typed: names, archives, deletions, editors, aliases, slips."""

from __future__ import annotations

import json
import os
import pty
import select
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.scenario.test_run import Home, copy_home
from tests.waiting import PATIENCE_S

MODEL = "offline/skeptic"
JAPANESE = "町の図書館を夜も開ける計画。予算は少ない。"
TITLE = "町の図書館を夜も開ける計画"


@pytest.fixture(scope="module")
def home(made_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    with copy_home(made_home, tmp_path_factory.mktemp("everyday") / "home") as opened:
        yield opened


def run(home: Home, *words: str, stdin: str = "") -> str:
    """Run a prompt up to its thesis; return the session."""
    result = home.tell("run", *words, "--models", MODEL, "--until", "Thesis", stdin=stdin)
    assert result.code in (0, 3), result.stderr
    return result.session


def list_ids(home: Home, session: str) -> list[str]:
    return [row["id"] for row in json.loads(home.tell("list", session, "--json").stdout)]


def type_at_terminal(
    home: Home, words: list[str], answers: dict[str, str], **more: str
) -> tuple[int, str]:
    """Run a command at a pseudo-terminal; give each answer when its question has come."""
    ours, theirs = pty.openpty()
    environment = home.build_environment({}) | more
    process = subprocess.Popen(
        [sys.executable, "-m", "dialectic", *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment,
        start_new_session=True,
    )
    os.close(theirs)
    shown, left, end = "", dict(answers), time.monotonic() + PATIENCE_S
    try:
        while time.monotonic() < end:
            if not select.select([ours], [], [], 0.2)[0]:
                continue
            try:
                data = os.read(ours, 65536)
            except OSError:  # the other side has closed it
                break
            shown += data.decode(errors="replace")
            for question in [one for one in left if one in shown]:
                os.write(ours, left.pop(question).encode())
        return process.wait(PATIENCE_S), shown
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def test_a_pipe_is_a_prompt_and_its_first_sentence_the_name_in_its_own_script(home: Home) -> None:
    session = run(home, stdin=JAPANESE)
    listed = home.tell("list").stdout
    (line,) = [line for line in listed.splitlines() if line.startswith(session[:8])]
    assert line.endswith(f"done up to thesis  {TITLE}")
    (row,) = [
        row
        for row in json.loads(home.tell("list", "--json").stdout)["sessions"]
        if row["id"] == session
    ]
    assert (row["status"], row["status_text"]) == (
        "thesis_generation_complete",
        "done up to thesis",
    )
    projects = json.loads(home.tell("project", "list", "--json").stdout)
    (slug,) = [one["slug"] for one in projects if one["name"] == TITLE]
    assert slug.isascii()


def test_an_empty_pipe_is_not_a_prompt(home: Home) -> None:
    result = home.tell("run", stdin="")
    assert (result.code, "The prompt is empty" in result.stderr) == (2, True)


def test_a_session_that_waits_says_so_in_words(home: Home) -> None:
    result = home.tell("run", "A bee hotel.", "--models", MODEL, "--pause")
    assert result.code == 3
    assert "Status    waiting for you after thesis\n" in home.tell("status", result.session).stdout
    assert "1 of 1 document," in home.tell("status", result.session).stdout


def test_a_project_is_renamed_archived_and_brought_back(home: Home) -> None:
    session = run(home, "A bakery in Lisbon.")
    assert home.tell("rename", session[:8], "Bread").code == 0
    assert "Bread" in home.tell("list").stdout
    archived = home.tell("archive", "Bread")
    assert "--restore" in archived.stderr
    assert "Bread" not in home.tell("list").stdout
    assert "Bread" not in home.tell("project", "list").stdout
    assert "Bread" in home.tell("status", "--archived").stdout
    assert home.tell("status", session).code == 0, "it is found by its id"
    assert home.tell("archive", "Bread", "--restore").code == 0
    assert "Bread" in home.tell("list").stdout


def test_a_project_is_deleted_only_after_a_yes(home: Home) -> None:
    session = run(home, "A kiosk for tea.", "--name", "Tea")
    asked = home.tell("delete", "Tea")
    assert (asked.code, "--yes" in asked.stderr) == (2, True)
    code, shown = type_at_terminal(home, ["delete", "Tea"], {"[y/N]": "n\n"})
    assert (code, "Nothing was deleted." in shown) == (0, True)
    assert home.tell("status", session).code == 0
    code, shown = type_at_terminal(home, ["delete", "Tea"], {"[y/N]": "y\n"})
    assert (code, "Tea is deleted." in shown) == (0, True)
    assert "'Tea' with 1 session" in shown
    assert home.tell("status", session).code == 2


def test_the_id_of_one_of_several_sessions_deletes_nothing_unasked(home: Home) -> None:
    session = run(home, "A ferry.", "--name", "Ferry")
    more = home.tell("run", "--project", "Ferry", "--models", MODEL, "--until", "thesis")
    assert more.code == 0, more.stderr
    refused = home.tell("delete", session[:8], "--yes", "--server", "")
    assert (refused.code, "which has 2" in refused.stderr) == (2, True)
    assert home.tell("delete", "Ferry", "--yes").code == 0


def test_an_editor_changes_a_document_and_the_stale_ones_are_written_again(home: Home) -> None:
    result = home.tell("run", "A pond.", "--models", f"{MODEL}*2", "--until", "antithesis")
    session = result.session
    (thesis, *_) = list_ids(home, session)
    editor = f"{shlex.quote(sys.executable)} -c " + shlex.quote(
        "import sys; open(sys.argv[1], 'a').write('\\nMore fish.\\n')"
    )
    code, shown = type_at_terminal(home, ["edit", thesis[:8]], {}, EDITOR=editor, VISUAL="")
    assert code == 0, shown
    assert f"regenerate --stale {session[:8]}" in shown
    assert "More fish." in home.tell("show", list_ids(home, session)[0]).stdout
    quoted = home.tell("regenerate", "--stale", session, "--dry-run")
    assert "2 documents to write again: 2 antithesis." in quoted.stderr
    assert home.tell("regenerate", "--stale", session).code == 0
    assert "stale" not in home.tell("list", session).stdout
    again = home.tell("regenerate", "--stale", session)
    assert (again.code, "No document rests on something newer." in again.stderr) == (0, True)


def test_an_editor_that_changes_nothing_saves_nothing(home: Home) -> None:
    session = run(home, "A well.")
    before = list_ids(home, session)
    code, shown = type_at_terminal(home, ["edit", before[0][:8]], {}, EDITOR="true", VISUAL="")
    assert (code, "Nothing was changed." in shown) == (0, True)
    assert list_ids(home, session) == before


def test_a_text_that_cannot_be_saved_is_kept_in_a_file(home: Home, tmp_path: Path) -> None:
    session = run(home, "A mill.")
    (thesis,) = list_ids(home, session)
    code, shown = type_at_terminal(
        home,
        ["edit", thesis[:8]],
        {},
        EDITOR="sh -c 'echo > \"$0\"'",
        VISUAL="",
        TMPDIR=str(tmp_path),
    )
    assert (code, "Your text was not saved." in shown) == (2, True)
    assert list(tmp_path.glob("dialectic-*.md"))


def test_short_ids_stay_unique_after_an_import_of_the_same_project(
    home: Home, tmp_path: Path
) -> None:
    result = home.tell("run", "A dam.", "--models", f"{MODEL}*2", "--until", "synthesis")
    session, file = result.session, str(tmp_path / "dam.zip")
    assert home.tell("export", session, "--out", file).code == 0
    imported = json.loads(home.tell("import", file, "--json").stdout)
    assert imported["is_copy"]
    ours = json.loads(home.tell("list", session, "--all", "--json").stdout)
    (copy,) = imported["sessions"]
    theirs = json.loads(home.tell("list", copy, "--all", "--json").stdout)
    assert len(ours) == len(theirs)
    assert not {row["id"][:8] for row in ours} & {row["id"][:8] for row in theirs}
    for row in (*ours[:2], *theirs[:2]):
        assert home.tell("show", row["id"][:8]).code == 0
    reduced = [row for row in theirs if "_reducing_" in row["storage_path"]]
    groups = {row["source_group"][:8] for row in reduced}
    assert {row["storage_path"].partition("_reducing_")[2][:8] for row in reduced} == groups


def test_an_alias_stands_for_models(home: Home) -> None:
    assert home.tell("models", "alias", "pair", f"{MODEL},offline/architect").code == 0
    result = home.tell("run", "A lock.", "--models", "pair", "--until", "thesis")
    assert "(2 models)" in result.stderr
    slip = home.tell("run", "A lock.", "--models", "piar")
    assert (slip.code, "Did you mean `pair`?" in slip.stderr) == (2, True)


def test_a_process_of_ones_own_begins_as_a_copy_that_runs(home: Home) -> None:
    made = home.tell("process", "new", "my-own")
    assert made.code == 0, made.stderr
    assert Path(made.stdout.strip()).is_file()
    assert home.tell("process", "check", "my-own").code == 0
    again = home.tell("process", "new", "my-own")
    assert (again.code, "exists already" in again.stderr) == (2, True)
    result = home.tell("run", "A gate.", "--process", "my-own", "--models", MODEL)
    assert result.code == 0, result.stderr
    slip = home.tell("run", "A gate.", "--process", "my_onw", "--models", MODEL)
    assert "Did you mean `my-own`?" in slip.stderr


SLIPS = {
    ("--models", "gpt-4o-mni"): "Did you mean `openai/gpt-",
    ("--models", "Offline/Sceptic"): "Did you mean `offline/skeptic`?",
    ("--models", MODEL, "--until", "Theses"): "Did you mean `thesis`?",
    ("--models", MODEL, "--domain", "SOFTWARE-DEVELOPMNT"): "Did you mean `Software Development`?",
}


@pytest.mark.parametrize("words", SLIPS, ids=lambda words: words[-1])
def test_a_misspelt_name_is_answered_with_the_right_one(home: Home, words: tuple[str, ...]) -> None:
    result = home.tell("run", "A gate.", "--dry-run", *words)
    assert result.code == 2
    assert SLIPS[words] in result.stderr, result.stderr


def test_an_unfinished_iteration_is_left_only_after_a_yes(home: Home) -> None:
    session = home.tell("run", "A barn.", "--models", MODEL, "--pause").session
    refused = home.tell("iterate", session)
    assert (refused.code, "only reached thesis" in refused.stderr) == (2, True)
    assert "--yes" in refused.stderr
    assert home.tell("iterate", session, "--yes").code == 3


def test_a_detached_resume_says_what_it_did_and_watchers_see_it(home: Home) -> None:
    session = home.tell("run", "A shed.", "--models", MODEL, "--detach").stdout.strip()
    assert home.tell("pause", session).code == 0
    resumed = home.tell("resume", session, "--detach")
    assert (resumed.code, "is resumed" in resumed.stderr) == (0, True)
    seen = home.tell("resume", session, "--json")
    kinds = [json.loads(line)["type"] for line in seen.stdout.splitlines()]
    assert kinds.index("session_paused") < kinds.index("session_resumed")


def test_completion_knows_ids_names_and_models(home: Home) -> None:
    session = run(home, "A tower.", "--name", "Tower")

    def complete(*words: str) -> list[str]:
        environment = home.build_environment({}) | {
            "_DIALECTIC_COMPLETE": "bash_complete",
            "COMP_WORDS": " ".join(("dialectic", *words)),
            "COMP_CWORD": str(len(words)),
        }
        done = subprocess.run(
            [sys.executable, "-m", "dialectic"],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
        return [line.partition(",")[2] for line in done.stdout.splitlines()]

    assert "regenerate" in complete("reg")
    assert complete("status", session[:6]) == [session[:8]]
    assert "tower" in complete("export", "tow")
    assert complete("run", "--models", "offline/ske") == ["offline/skeptic"]
    assert complete("show", list_ids(home, session)[0][:7]) == [list_ids(home, session)[0][:8]]
    assert "thesis" in complete("feedback", session[:8], "th")
    script = home.tell("completion", "zsh")
    assert (script.code, "_DIALECTIC_COMPLETE" in script.stdout) == (0, True)


def test_a_reader_that_takes_one_line_does_not_interrupt_a_run(home: Home) -> None:
    process = home.start("run", "A hut.", "--models", f"{MODEL}*2", "--until", "antithesis")
    assert process.stdout is not None
    assert process.stderr is not None
    with process:
        try:
            assert process.stdout.readline().endswith(".md\n")
            process.stdout.close()
            said = process.stderr.read()
            assert process.wait(PATIENCE_S) == 0, said
        finally:
            process.kill()
    assert "Interrupted" not in said


def test_stages_end_in_their_order(home: Home) -> None:
    result = home.tell("run", "A bridge.", "--models", f"{MODEL}*2")
    assert result.code == 0, result.stderr
    ended = [
        line.split(":")[0].strip() for line in result.stderr.splitlines() if ": complete" in line
    ]
    assert ended == ["thesis", "antithesis", "synthesis", "parenthesis", "paralysis"]


def test_an_address_without_a_server_is_named_with_its_port(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    (tmp_path / "config.toml").write_text(
        f"""
[endpoints.gone]
kind = "openai"
base_url = "http://127.0.0.1:{port}/v1"

[endpoints.gone.models.m]
context_window_tokens = 8000
max_output_tokens = 1000
input_usd_per_million = 1
output_usd_per_million = 2
tokenizer = "chars:4"
"""
    )
    result = Home(tmp_path).tell("models", "test", "gone/m")
    assert result.code != 0
    assert f"could not connect to 127.0.0.1:{port}" in result.stderr
