"""What units, images and the page for operators name exists: commands, settings, figures."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from dialectic.api.health import Metrics
from dialectic.core.models.endpoint import KEY_VARIABLES
from dialectic.settings import KNOWN, PREFIX
from tests.tidy.test_docs import check_words

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = sorted(path for path in (ROOT / "deploy").iterdir() if path.is_file())
PAGE = ROOT / "docs/operations.md"
# Of those who run it; ours are taken from `x-dialectic`.
FOREIGN = {"POSTGRES_PASSWORD", "POSTGRES_DB", "MINIO_ROOT_USER", "MINIO_ROOT_PASSWORD"}

every_file = pytest.mark.parametrize("path", [*DEPLOY, PAGE], ids=lambda path: path.name)


@every_file
def test_every_setting_that_is_named_is_one(path: Path) -> None:
    named = set(re.findall(rf"\b{PREFIX}([A-Z_]*[A-Z])\b", path.read_text(encoding="utf-8")))
    assert {name.lower() for name in named} <= set(KNOWN)


@every_file
def test_every_command_that_is_named_is_one(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    spoken = re.findall(r"`dialectic ([^`]+)`", text)
    started = re.findall(r"^ExecStart=\S+/dialectic (.+)$", text, re.MULTILINE)
    typed = re.findall(r"docker compose run --rm serve (.+)$", text, re.MULTILINE)
    for words in [*spoken, *started, *typed]:
        check_words(words.replace("…", "").split())


def test_a_unit_waits_longer_than_what_it_starts_takes_to_leave() -> None:
    for path in DEPLOY:
        for seconds in re.findall(r"^TimeoutStopSec=(\d+)$", path.read_text(), re.MULTILINE):
            assert int(seconds) > 30
    assert [path.name for path in DEPLOY if path.suffix == ".service"] == [
        "dialectic-serve.service",
        "dialectic-worker@.service",
    ]


def test_the_image_runs_a_server_as_an_unprivileged_user_with_a_health_check() -> None:
    text = (ROOT / "deploy/Dockerfile").read_text(encoding="utf-8")
    assert len(re.findall(r"^FROM ", text, re.MULTILINE)) == 2
    assert re.search(r"^USER dialectic$", text, re.MULTILINE)
    assert "/healthz" in text
    (words,) = re.findall(r"^CMD (\[.+\])$", text, re.MULTILINE)
    check_words(yaml.safe_load(words))
    for source in re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE):
        for name in source.split():
            assert (ROOT / name).exists(), name


def test_the_composition_starts_what_there_is_with_settings_that_there_are() -> None:
    found: dict[str, Any] = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text())
    services = found["services"]
    assert {"serve", "worker", "database", "objects", "bucket"} == services.keys()
    check_words(services["worker"]["command"])
    variables = set(services["serve"]["environment"])
    ours = {name for name in variables if name.startswith(PREFIX)}
    assert variables - ours <= set(KEY_VARIABLES)
    assert (ROOT / services["serve"]["build"]["dockerfile"]).is_file()
    foreign = {
        name
        for service in ("database", "objects")
        for name in services[service].get("environment", {})
    }
    assert foreign <= FOREIGN


def test_the_figures_that_are_described_are_those_that_are_given() -> None:
    text = PAGE.read_text(encoding="utf-8").split("## Figures", 1)[1].split("\n## ", 1)[0]
    described = dict(re.findall(r"^\| `(dialectic_\w+)` \| (\w+) \|", text, re.MULTILINE))
    given = {
        metric.name + ("_total" if metric.type == "counter" else ""): metric.type
        for metric in Metrics().registry.collect()
    }
    assert described == given
    for named in re.findall(r"`[^`]*?(dialectic_\w+)[^`]*`", text):
        assert named in given


def test_every_fault_that_is_described_is_shown_by_tests_that_exist() -> None:
    text = PAGE.read_text(encoding="utf-8").split("## What goes wrong, and what happens", 1)[1]
    rows = [line for line in text.splitlines() if line.startswith("| ") and "shown by" not in line]
    for row in rows:
        shown = re.findall(r"`([\w/]+\.py)::(test_\w+)`", row)
        assert shown, row
        for file, test in shown:
            path = ROOT / file if "/" in file else ROOT / "tests/scenario" / file
            assert f"def {test}(" in path.read_text(encoding="utf-8"), test
