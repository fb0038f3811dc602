"""docs/processes.md describes every key, and its picture is the one that is drawn."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from dialectic.cli.display.process_graph import build_plain_pen, draw_process
from dialectic.core.process.check import VARIABLES
from dialectic.core.process.definition import (
    Compressor,
    ExpectedDocument,
    InputRule,
    OnChildFailure,
    Overflow,
    Overlay,
    ProcessFile,
    Shrink,
    Stage,
    Step,
    Strategy,
    Transition,
)
from dialectic.pipeline.outline import build_outline
from dialectic.processes.loader import load_process

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "processes.md").read_text(encoding="utf-8")


def read_section(heading: str) -> str:
    """The text below a heading, up to the next one of any level."""
    return re.split(r"^#+ ", TEXT.split(f"\n{heading}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]


def first_column(heading: str) -> list[str]:
    return re.findall(r"^\| `([^`]+)`", read_section(heading), re.MULTILINE)


def test_the_picture_of_the_standard_process_is_what_show_draws() -> None:
    process = load_process("standard")
    drawn = draw_process(process, build_outline(process, models=3), build_plain_pen())
    (picture,) = re.findall(r"```\n(.*?)\n```", read_section("## The standard process"), re.DOTALL)
    assert picture.splitlines() == drawn, "put in what `dialectic process show` prints"


@pytest.mark.parametrize(
    ("heading", "form"),
    [
        ("### The process", ProcessFile),
        ("### `[[stages]]`", Stage),
        ("### `[[stages.steps]]`", Step),
        ("### `inputs_required`", InputRule),
        ("### `[[stages.expected_output_artifacts]]`", ExpectedDocument),
        ("### `[[transitions]]`", Transition),
        ("### `[[shrink]]`", Shrink),
        ("## Overlays", Overlay),
    ],
)
def test_every_key_is_described_in_the_order_of_the_form(
    heading: str, form: type[BaseModel]
) -> None:
    assert first_column(heading) == list(form.model_fields)


def test_every_strategy_has_its_picture() -> None:
    for strategy in Strategy:
        assert "──► job 1" in read_section(f"### `{strategy}`"), strategy


def test_every_variable_is_described() -> None:
    assert set(first_column("## Prompts")) == VARIABLES


def test_what_happens_on_failure_and_overflow_is_described() -> None:
    failure, overflow = (
        first_column(heading) for heading in ("## When a job fails", "## When inputs do not fit")
    )
    assert failure == ["on_child_failure", *OnChildFailure]
    assert overflow == ["overflow", *Overflow]
    assert first_column("## How a text is made shorter") == ["compressor", *Compressor]


def test_the_tables_named_for_pinning_are_made_by_the_migrations() -> None:
    folder = ROOT / "src" / "dialectic" / "db" / "sql" / "migrations"
    made = "".join(path.read_text(encoding="utf-8") for path in folder.glob("*.sql"))
    for table in first_column("## Pinning"):
        assert f"create table {table} (" in made, table
