"""The last lines of a session: five for one that is done, whatever the terminal's width."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast
from uuid import UUID

import pytest

from dialectic.cli.display import notice
from dialectic.cli.display.ending import list_next, pack_commands, say_done
from dialectic.cli.options import FollowOptions
from dialectic.contract.sessions import SessionRecord
from tests.cases import each_case

if TYPE_CHECKING:
    from dialectic.cli.backend import Backend

SESSION = UUID("0123abcd-0000-4000-8000-000000000000")


class Place:
    """A backend that knows where its files are."""

    is_local = True

    def locate(self, path: str) -> str:
        return f"/store/{path}"


def build_session(status: str = "iteration_complete", stage: str = "paralysis") -> SessionRecord:
    return SessionRecord.model_construct(
        id=SESSION,
        project_name="Village hall",
        project_slug="village-hall",
        status=status,
        current_stage_slug=stage,
        iteration_count=1,
        model_names=["a/b"],
    )


@each_case(
    ("copy", "plan", "third"),
    [
        (None, "village-hall/PLAN.md", "Plan: /store/village-hall/PLAN.md"),
        (None, None, "Read: /store/village-hall/project_readme.md"),
        (Path("plans"), "village-hall/PLAN.md", "Plan: plans/village-hall/PLAN.md"),
    ],
)
def test_the_end_is_five_lines(
    capsys: pytest.CaptureFixture[str], copy: Path | None, plan: str | None, third: str
) -> None:
    backend = cast("Backend", Place())
    say_done(backend, build_session(), "57 documents, $0.12.", copy, plan)
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "Done: Village hall is complete.",
        "57 documents, $0.12.",
        third,
        "Next: dialectic show 0123abcd  ·  dialectic iterate 0123abcd",
        "      dialectic export 0123abcd",
    ]


def test_a_run_that_ends_with_a_stage_says_how_to_start_the_next() -> None:
    session = build_session("thesis_generation_complete", "thesis")
    assert list_next(session) == [
        "dialectic show 0123abcd",
        "dialectic next 0123abcd",
        'dialectic feedback 0123abcd thesis "…"',
    ]


@pytest.mark.parametrize(("width", "lines"), [(40, 3), (80, 2), (200, 1)])
def test_commands_are_never_broken(width: int, lines: int) -> None:
    commands = list_next(build_session())
    packed = list(pack_commands(commands, width))
    assert len(packed) == lines
    assert "  ·  ".join(packed) == "  ·  ".join(commands)


# -- a notice -------------------------------------------------------------------------------------


def install(folder: Path, code: int) -> None:
    program = folder / "notify-send"
    program.write_text(f'#!/bin/sh\nprintf "%s|" "$@" > {folder}/said\nexit {code}\n')
    program.chmod(0o755)


def test_a_notice_is_shown_by_the_desktops_own_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, 0)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    notice.tell_end(FollowOptions(notify=True), "Hall: done\x1b[31m --icon")
    assert (tmp_path / "said").read_text() == "--|Dialectic|Hall: done [31m --icon|"


def test_nothing_is_shown_unasked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, 0)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    notice.tell_end(FollowOptions(), "Hall: done")
    assert not (tmp_path / "said").exists()


def test_without_a_desktop_nothing_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    notice.tell_end(FollowOptions(notify=True, bell=True), "Hall: done")
    install(tmp_path, 1)
    notice.tell_end(FollowOptions(notify=True), "Hall: done")
