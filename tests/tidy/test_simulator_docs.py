"""docs/simulator.md describes every key, fault and field, and its example runs."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from dialectic_simulator import TABLE, Simulator, load_script, open_simulator
from dialectic_simulator.faults import EVERY_WIRE
from dialectic_simulator.log import LoggedCall
from dialectic_simulator.script import Facts, Manner, Rule, Script, Section
from tests.conformance.raw_client import CONTINUE, OPENAI, connect

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "simulator.md").read_text(encoding="utf-8")
EXAMPLE = ROOT / "examples" / "simulator"


def read_section(heading: str) -> str:
    """The text below a heading, up to the next one of any level."""
    return re.split(r"^#+ ", TEXT.split(f"\n{heading}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]


@pytest.mark.parametrize(
    ("heading", "form", "without"),
    [
        ("## The script", Script, None),
        ("### `[models.NAME]`", Facts, None),
        ("### The manner of an answer", Manner, None),
        ("### `[default]` and `[endpoints.NAME]`", Section, Manner),
        ("### `[[rules]]`", Rule, Manner),
    ],
)
def test_every_key_is_described_in_the_order_of_the_form_with_its_default(
    heading: str, form: type[BaseModel], without: type[BaseModel] | None
) -> None:
    rows = re.findall(r"^\| `(\w+)` \|([^|]*)\|", read_section(heading), re.MULTILINE)
    fields = {
        name: field
        for name, field in form.model_fields.items()
        if without is None or name not in without.model_fields
    }
    assert [name for name, _ in rows] == list(fields)
    for name, shown in rows:
        default = fields[name].default
        if isinstance(default, int | float) or (isinstance(default, str) and default):
            wanted = str(default).lower().removesuffix(".0")
            assert shown.strip().strip('`"') == wanted or shown.strip() == "any", name


def test_every_fault_is_described_as_the_table_has_it() -> None:
    rows = re.findall(
        r"^\| `(\w+)` \| (\d+) \| ([^|]+) \| ([^|]+) \|$", read_section("## Faults"), re.MULTILINE
    )
    assert [(name, int(number), what) for name, number, _, what in rows] == [
        (fault.name, fault.number, fault.what) for fault in TABLE
    ]
    for (_, _, wires, _), fault in zip(rows, TABLE, strict=True):
        named = "all" if fault.wires == EVERY_WIRE else ", ".join(sorted(fault.wires))
        assert wires.partition(";")[0] == named
        assert wires.endswith("; streams") == fault.streams_only
        assert wires.endswith("; vectors") == fault.vectors_only


def test_every_field_of_the_log_is_described() -> None:
    named = re.findall(r"^\| `(\w+)`", read_section("## The log"), re.MULTILINE)
    assert named == [field.name for field in dataclasses.fields(LoggedCall)]


def test_what_a_simulator_is_said_to_offer_exists() -> None:
    table = read_section("## In tests")
    for name in re.findall(r"`(\w+)\(", "\n".join(re.findall(r"^\| (.+) \|", table, re.MULTILINE))):
        assert callable(getattr(Simulator, name)), name


async def test_the_example_runs() -> None:
    script = load_script(EXAMPLE / "script.toml")
    async with open_simulator(script) as simulator:
        async with connect(simulator, OPENAI) as client:
            said, pieces = ["Write the rules of the hall."], []
            for _ in range(9):
                heard = await client.ask(*said, model="tiny", max_tokens=512)
                pieces.append(heard.text)
                said += [heard.text, CONTINUE]
                if heard.finish == "stop":
                    break
            assert "".join(pieces) == (EXAMPLE / "hall.md").read_text(encoding="utf-8")
            assert len(pieces) > 2
            told = [(await client.ask(model="skeptic")).status for _ in range(4)]
        async with connect(simulator, OPENAI, "flaky") as client:
            assert (await client.ask()).headers["x-ratelimit-limit-requests"] == "120"
    assert told == [200, 429, 429, 200]
    assert simulator.log.calls[0].body is not None
