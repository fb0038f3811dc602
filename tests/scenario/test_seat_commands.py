"""A dead model as people meet it: warnings, exit codes, and the commands that help."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command_pool import CommandResult
from tests.problems import list_codes
from tests.scenario.test_run import PROMPT, Home, copy_home, read_project, unique_name

ARCHITECT, PRAGMATIST, SKEPTIC = "offline/architect", "offline/pragmatist", "offline/skeptic"
DEAD = "dead/m"
# Nothing listens on port 9.
CONFIG = """
[endpoints.dead]
kind = "openai"
base_url = "http://127.0.0.1:9/v1"

[endpoints.dead.models.m]
context_window_tokens = 64000
max_output_tokens = 2000
input_usd_per_million = 0
output_usd_per_million = 0
tokenizer = "chars:4"
"""


@pytest.fixture(scope="module")
def home(made_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    with copy_home(made_home, tmp_path_factory.mktemp("seats") / "home") as opened:
        (opened.path / "config.toml").write_text(CONFIG)
        yield opened


def run(home: Home, models: str, *options: str, until: str = "antithesis") -> CommandResult:
    words = ("run", "--models", models, "--until", until, *options, PROMPT)
    return home.tell(*words, retry_unreachable_s="0")


def test_a_run_with_one_dead_model_of_three_ends_well_and_says_what_is_missing(home: Home) -> None:
    slug = unique_name()
    result = run(home, f"{ARCHITECT},{SKEPTIC},{DEAD}", "--name", slug)
    assert result.code == 0, result.stderr
    assert f"Warning: seat 3 ({DEAD})" in result.stderr
    assert "provider_unreachable" in list_codes(result.stderr)
    assert " so far" not in result.stderr, "what the dead model would have cost is not to come"
    status = home.tell("status", result.session)
    assert status.stdout.count(f"without seat 3 ({DEAD})") == 2
    shown = home.read_status(result.session)
    assert [stage["lost_seats"] for stage in shown["stages"]] == [[3], [3]]
    assert [stage["planned_units"] for stage in shown["stages"]] == [2, 4]
    files = read_project(home, slug)
    assert f"Without seat 3 ({DEAD})" in files[f"{slug}/project_readme.md"].decode()
    seats = json.loads(home.tell("seat", "list", result.session, "--json").stdout)["seats"]
    assert [seat["has_left"] for seat in seats] == [False, False, True]


def test_a_run_whose_models_are_all_dead_speaks_of_no_other_seats(home: Home) -> None:
    result = run(home, f"{DEAD}*3", until="thesis")
    assert result.code == 1
    assert set(list_codes(result.stderr)) == {"provider_unreachable"}
    assert "Warning: seat" not in result.stderr


def test_the_same_run_fails_if_it_is_strict_or_waits_for_all(home: Home) -> None:
    models = f"{ARCHITECT},{SKEPTIC},{DEAD}"
    strict = run(home, models, "--strict", until="thesis")
    assert strict.code == 1
    assert home.read_status(strict.session)["session"]["status"] == "thesis_generation_complete"
    waiting = run(home, models, "--wait-for-all", until="thesis")
    assert waiting.code == 1
    assert home.read_status(waiting.session)["session"]["status"] == "thesis_generation_failed"


def test_a_failed_run_goes_on_with_another_model(home: Home) -> None:
    failed = run(home, f"{ARCHITECT},{DEAD}")
    assert failed.code == 1
    advice = home.tell("status", failed.session).stdout
    assert f"seat replace {failed.session[:8]} 2 MODEL" in advice
    result = home.tell("seat", "replace", failed.session, "2", SKEPTIC)
    assert result.code == 0, result.stderr
    listed = home.tell("seat", "list", failed.session).stdout
    assert SKEPTIC in listed
    assert DEAD not in listed


def test_a_failed_run_goes_on_without_the_model(home: Home) -> None:
    failed = run(home, f"{ARCHITECT},{DEAD}")
    result = home.tell("seat", "drop", failed.session, "2")
    assert result.code == 0, result.stderr
    assert f"Warning: seat 2 ({DEAD})" in result.stderr


def test_other_models_take_part_from_the_next_stage_on(home: Home) -> None:
    first = home.tell("run", "--pause", "--models", f"{ARCHITECT},{SKEPTIC}", PROMPT)
    assert first.code == 3, first.stderr
    result = home.tell("next", first.session, "--models", f"{SKEPTIC},{PRAGMATIST}*2")
    assert result.code == 3, result.stderr
    listed = json.loads(home.tell("list", first.session, "--json").stdout)
    critics = {row["model_index"] for row in listed if row["stage"] == "antithesis"}
    assert critics == {2, 3, 4}
    costs = home.tell("wallet", "costs", first.session).stdout
    assert f"{PRAGMATIST} (seat 3)" in costs
    assert f"{ARCHITECT} (seat" not in costs
