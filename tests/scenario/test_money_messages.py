"""What a person at the command line is told of money: before a run, when it stops, and to go on."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from dialectic_simulator import Simulator, open_simulator
from tests.command_pool import Told
from tests.problems import list_codes, list_commands
from tests.scenario.paid_models import MODELS, TEXT, WRITER, configure
from tests.scenario.test_run import Home, copy_home

RUN = ("run", "A booking service.", "--until", "antithesis", "--max-output-tokens", "1000")


@dataclass(frozen=True, slots=True)
class Desk:
    """A home whose models are asked at a simulator, and one who types there."""

    home: Home
    simulator: Simulator

    @property
    def calls(self) -> int:
        return len(self.simulator.log.calls)

    async def type(self, *words: str, **settings: str) -> Told:
        told = await asyncio.to_thread(lambda: self.home.tell(*words, **settings))
        assert "Traceback" not in told.stderr
        return told


@pytest.fixture
async def desk(made_home: Path, tmp_path: Path) -> AsyncIterator[Desk]:
    async with open_simulator({"models": MODELS, "default": {"text": TEXT}}) as simulator:
        with copy_home(made_home, tmp_path / "home") as home:
            configure(home.path, simulator, {"sim": None})
            yield Desk(home, simulator)


async def test_a_run_stops_for_money_with_what_to_do_and_goes_on_when_that_is_done(
    desk: Desk,
) -> None:
    run = (*RUN, "--models", WRITER)
    told = await desk.type(*run)
    assert told.code == 5
    assert re.search(r"\$0\.0\d+.*\$0\.00", told.stderr)
    assert list_codes(told.stderr) == ["insufficient_funds"]
    assert list_commands(told.stderr) == ["dialectic wallet topup 20"]
    assert (await desk.type("status")).stdout == ""

    await desk.type("wallet", "topup", "0.002")
    told = await desk.type(*run)
    assert told.code == 5
    assert list_codes(told.stderr) == ["insufficient_funds"] * 2, "when it paused, and in the end"
    assert "thesis: paused: " in told.stderr
    assert list_commands(told.stderr) == ["dialectic wallet topup 20"]
    short = told.session[:8]
    assert f"`dialectic resume {short}`" in told.stderr.splitlines()[-1]
    shown = (await desk.type("status", short)).stdout
    assert list_codes(shown) == ["insufficient_funds"]
    assert list_commands(shown) == ["dialectic wallet topup 20"]
    assert desk.calls == 0

    told = await desk.type("wallet", "topup", "0.004")
    assert f"`dialectic resume {short}`" in told.stderr
    told = await desk.type("resume", short)
    assert told.code == 5
    assert list_codes(told.stderr)[-1] == "spend_needs_approval"
    assert list_commands(told.stderr) == [f"dialectic resume {short} --approve-spend"]
    assert desk.calls == 0

    told = await desk.type("resume", short, "--approve-spend")
    assert told.code == 5, "the critique is another call, and asks for itself"
    told = await desk.type("resume", short, "--approve-spend")
    assert (told.code, desk.calls) == (0, 2), told.stderr
    assert (await desk.type("wallet", "verify")).code == 0


async def test_a_run_stops_at_its_budget_and_goes_on_with_a_higher_one(desk: Desk) -> None:
    await desk.type("wallet", "topup", "20")
    run = (*RUN, "--models", f"{WRITER}*2", "--budget", "0.005")
    told = await desk.type(*run)
    assert told.code == 5
    assert list_codes(told.stderr) == ["insufficient_funds"]
    assert "$0.0050" in told.stderr
    assert desk.calls == 0

    told = await desk.type(*run, "--yes", max_spend_fraction="1")
    short = told.session[:8]
    assert told.code == 5
    assert "$0.0050" in told.stderr
    assert list_commands(told.stderr) == [f"dialectic resume {short} --budget USD"]
    before = desk.calls
    assert 0 < before < 6

    told = await desk.type("resume", short, "--budget", "1")
    assert (told.code, desk.calls) == (0, 6), told.stderr
    assert (await desk.type("wallet", "verify")).code == 0
