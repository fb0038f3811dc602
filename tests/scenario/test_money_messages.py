"""What a person at the command line is told of money: before a run, when it stops, and to go on."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from dialectic_simulator import Simulator, open_simulator
from tests.command_pool import CommandResult
from tests.problems import list_codes, list_commands
from tests.scenario.paid_models import MODELS, TEXT, WRITER, configure
from tests.scenario.test_run import Home, copy_home
from tests.scenario.whole_session import write_unrepaired

RUN = ("run", "A booking service.", "--until", "antithesis", "--max-output-tokens", "1000")


@dataclass(frozen=True, slots=True)
class PaidHome:
    """A home whose models are asked at a simulator, and one who types there."""

    home: Home
    simulator: Simulator
    process: Path

    @property
    def calls(self) -> int:
        return len(self.simulator.log.calls)

    async def type(self, *words: str, **settings: str) -> CommandResult:
        result = await asyncio.to_thread(lambda: self.home.tell(*words, **settings))
        assert "Traceback" not in result.stderr
        return result


@pytest.fixture
async def paid_home(made_home: Path, tmp_path: Path) -> AsyncIterator[PaidHome]:
    async with open_simulator({"models": MODELS, "default": {"text": TEXT}}) as simulator:
        with copy_home(made_home, tmp_path / "home") as home:
            configure(home.path, simulator, {"sim": None})
            # A home of one's own only counts.
            home.tell("wallet", "unlimited", "--off")
            yield PaidHome(home, simulator, write_unrepaired(tmp_path))


async def test_a_run_stops_for_money_with_what_to_do_and_goes_on_when_that_is_done(
    paid_home: PaidHome,
) -> None:
    run = (*RUN, "--process", str(paid_home.process), "--models", WRITER)
    result = await paid_home.type(*run)
    assert result.code == 5
    assert re.search(r"\$0\.0\d+.*\$0\.00", result.stderr)
    assert list_codes(result.stderr) == ["insufficient_funds"]
    assert list_commands(result.stderr) == ["dialectic wallet topup 20"]
    assert (await paid_home.type("status")).stdout == ""

    await paid_home.type("wallet", "topup", "0.002")
    result = await paid_home.type(*run)
    assert result.code == 5
    assert list_codes(result.stderr) == ["insufficient_funds"] * 2, "when it paused, and in the end"
    assert "thesis: paused: " in result.stderr
    assert list_commands(result.stderr) == ["dialectic wallet topup 20"]
    short = result.session[:8]
    assert f"`dialectic resume {short}`" in result.stderr.splitlines()[-1]
    shown = (await paid_home.type("status", short)).stdout
    assert list_codes(shown) == ["insufficient_funds"]
    assert list_commands(shown) == ["dialectic wallet topup 20"]
    assert paid_home.calls == 0

    result = await paid_home.type("wallet", "topup", "0.004")
    assert f"`dialectic resume {short}`" in result.stderr
    result = await paid_home.type("resume", short)
    assert result.code == 5
    assert list_codes(result.stderr)[-1] == "spend_needs_approval"
    assert list_commands(result.stderr) == [f"dialectic resume {short} --approve-spend"]
    assert paid_home.calls == 0

    result = await paid_home.type("resume", short, "--approve-spend")
    assert result.code == 5, "the critique is another call, and asks for itself"
    result = await paid_home.type("resume", short, "--approve-spend")
    assert (result.code, paid_home.calls) == (0, 2), result.stderr
    assert (await paid_home.type("wallet", "verify")).code == 0


async def test_a_run_stops_at_its_budget_and_goes_on_with_a_higher_one(paid_home: PaidHome) -> None:
    await paid_home.type("wallet", "topup", "20")
    process = str(paid_home.process)
    run = (*RUN, "--process", process, "--models", f"{WRITER}*2", "--budget", "0.005")
    result = await paid_home.type(*run)
    assert result.code == 5
    assert list_codes(result.stderr) == ["insufficient_funds"]
    assert "$0.0050" in result.stderr
    assert paid_home.calls == 0

    result = await paid_home.type(*run, "--yes", max_spend_fraction="1")
    short = result.session[:8]
    assert result.code == 5
    assert "$0.0050" in result.stderr
    assert list_commands(result.stderr) == [f"dialectic resume {short} --budget USD"]
    before = paid_home.calls
    assert 0 < before < 6

    result = await paid_home.type("resume", short, "--budget", "1")
    assert (result.code, paid_home.calls) == (0, 6), result.stderr
    assert (await paid_home.type("wallet", "verify")).code == 0


LIMITED = re.compile(
    r"^Answers of sim/writer will be limited to ([\d,]+) of 4,000 tokens by the available money, "
    r"from (\w+) on\. `(dialectic resume \w+ --full-answers)` pauses instead\.$",
    re.MULTILINE,
)


async def test_commands_that_go_on_say_before_they_start_how_far_money_limits_answers(
    paid_home: PaidHome,
) -> None:
    await paid_home.type("wallet", "topup", "20")
    run = ("run", "A booking service.", "--until", "synthesis", "--pause", "--models", WRITER)
    wanted = ("--process", str(paid_home.process), "--budget", "0.0125", "--yes")
    result = await paid_home.type(*run, *wanted, max_spend_fraction="1")
    assert result.code == 3, result.stderr
    short = result.session[:8]
    for command in ("next", "resume", "iterate"):
        words = (command, short, "--yes") if command == "iterate" else (command, short)
        result = await paid_home.type(*words, max_spend_fraction="1")
        (limited,) = LIMITED.findall(result.stderr)
        assert limited[2] == f"dialectic resume {short} --full-answers", command
        if ": complete" in result.stderr:
            assert result.stderr.index("limited to") < result.stderr.index(": complete")
    assert paid_home.calls > 1


async def test_yes_approves_every_call_of_the_run_and_a_budget_every_call_inside_it(
    paid_home: PaidHome,
) -> None:
    await paid_home.type("wallet", "limit", "0.014")
    asked = await paid_home.type(*RUN, "--models", WRITER, "--full-answers")
    assert asked.code == 5
    assert list_codes(asked.stderr)[-1] == "spend_needs_approval"
    for words in (("--yes",), ("--budget", "0.01")):
        await paid_home.type("wallet", "limit", "0.014")
        result = await paid_home.type(*RUN, "--models", WRITER, "--full-answers", *words)
        assert result.code == 0, result.stderr
        assert "spend_needs_approval" not in result.stderr
    assert (await paid_home.type("wallet", "verify")).code == 0
