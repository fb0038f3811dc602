"""A project moves between two homes on the command line, and home again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dialectic.app import transfer
from dialectic.db.tables.records import Account
from dialectic.engine import Engine
from tests.database.full_project import NAME, SLUG, make_project
from tests.scenario.test_run import PROMPT, Home, copy_home, read_project


@pytest.fixture
async def exported(engine: Engine, admin: Any, account: Account, tmp_path: Path) -> Path:
    """The export of a project of someone else's, from another database."""
    made = await make_project(engine, admin, account)
    await transfer.export_project(engine, account, made.id, tmp_path / "theirs.zip")
    return tmp_path / "theirs.zip"


@pytest.fixture
def home(made_home: Path, tmp_path: Path) -> Iterator[Home]:
    with copy_home(made_home, tmp_path / "their-home") as opened:
        yield opened


def test_a_project_is_taken_in_looked_at_and_taken_away_again(
    home: Home, exported: Path, tmp_path: Path
) -> None:
    result = home.tell("import", str(exported))
    assert result.code == 0, result.stderr
    assert Path(result.stdout.strip()).name == SLUG
    assert f"Imported {NAME} as {SLUG}: 20 files." in result.stderr
    assert len(read_project(home, SLUG)) == 20 + 2, "its files, its readme and its settings"

    status = home.read_status(result.session)
    assert status["session"]["status"] == "synthesis_generation_complete"
    assert status["contributions"]
    stored = read_project(home, SLUG)
    assert all(row["storage_path"] in stored for row in status["contributions"])

    again = tmp_path / "again.zip"
    result = home.tell("export", result.session[:8], "--out", str(again), "--json")
    assert result.code == 0, result.stderr
    assert json.loads(result.stdout)["files"] == 22
    assert again.read_bytes() == exported.read_bytes()

    copied = home.tell("import", str(again), "--json")
    assert copied.code == 0, copied.stderr
    taken = json.loads(copied.stdout)
    assert taken["is_copy"]
    assert taken["project"].startswith(f"{SLUG}-")
    assert len(taken["sessions"]) == 2

    kept = home.tell("export", SLUG)
    assert kept.code == 0, kept.stderr
    assert Path(kept.stdout.strip()).read_bytes() == exported.read_bytes()

    done = home.tell("export", SLUG, "--finished", "--out", str(tmp_path / "done.zip"))
    assert done.code == 0, done.stderr
    refused = home.tell("import", str(tmp_path / "done.zip"))
    assert (refused.code, refused.stdout) == (2, "")
    assert "Export the whole project" in refused.stderr


def test_what_a_run_left_moves_to_another_home_and_is_the_same_there(
    home: Home, made_home: Path, tmp_path: Path
) -> None:
    models = "offline/skeptic*2"
    run = home.tell("run", "--until", "thesis", "--models", models, "--name", "hall", PROMPT)
    assert run.code == 0, run.stderr
    here, there = tmp_path / "here.zip", tmp_path / "there.zip"
    result = home.tell("export", run.session, "--out", str(here))
    assert result.code == 0, result.stderr
    with copy_home(made_home, tmp_path / "other-home") as other:
        taken = other.tell("import", str(here))
        assert taken.code == 0, taken.stderr
        assert taken.session == run.session
        assert read_project(other, "hall") == read_project(home, "hall")
        assert other.tell("export", "hall", "--out", str(there)).code == 0
    assert there.read_bytes() == here.read_bytes()


def test_a_session_that_was_taken_in_goes_on_with_its_next_stage(
    home: Home, tmp_path: Path
) -> None:
    run = home.tell("run", "--pause", "--models", "offline/skeptic", "--name", "hall", PROMPT)
    assert run.code in (0, 3), run.stderr
    file = str(tmp_path / "hall.zip")
    assert home.tell("export", "hall", "--out", file).code == 0
    copy = home.tell("import", file)
    assert copy.code == 0, copy.stderr
    assert copy.session != run.session
    result = home.tell("next", copy.session)
    assert result.code in (0, 3), result.stderr
    status = home.read_status(copy.session)["session"]["status"]
    assert status == "antithesis_generation_complete"
    assert home.read_status(run.session)["session"]["status"] == "thesis_generation_complete"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("export", "nothing", "--out", "{out}/a.zip"), "Project 'nothing' not found"),
        (("export", "nothing", "--out", "{out}"), "is a directory"),
        (("import", "{out}/none.zip"), "cannot be read: No such file"),
        (("import", "{out}/text.zip"), "is not a zip file"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(
    home: Home, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    (tmp_path / "text.zip").write_text("Dear reader")
    result = home.tell(*(word.format(out=tmp_path) for word in words))
    assert (result.code, result.stdout) == (2, "")
    assert said in result.stderr
    assert "Traceback" not in result.stderr
