"""Interrupting stops: real commands at a real terminal, and calls counted at the provider."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import re
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from dialectic.core.money.price import format_roughly
from dialectic_simulator import Simulator, open_simulator
from tests.command_pool import CommandResult
from tests.properties import examples
from tests.scenario.simulated_endpoints import PLAIN_TOKENS
from tests.scenario.test_run import PROMPT, Home, copy_home, wait_for
from tests.terminal import INTERRUPT, TerminalCommand, open_terminal_command
from tests.waiting import PATIENCE_S, until_said

# The answers are whole documents: no part of them is asked for again.
HELD = {"models": PLAIN_TOKENS, "default": {"gate_after_tokens": 4}}
QUICK = {"models": PLAIN_TOKENS}
MODEL = """
[endpoints.play]
kind = "openai"
base_url = "{base_url}"

[endpoints.play.models.m]
context_window_tokens = 64000
max_output_tokens = 2000
input_usd_per_million = 1000
output_usd_per_million = 1000
tokenizer = "chars:4"
"""
RUN = ("run", "--yes", "--models", "play/m*3", "--until", "thesis")


@pytest.fixture(scope="module")
def home(made_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    with copy_home(made_home, tmp_path_factory.mktemp("interrupts") / "home") as opened:
        assert opened.tell("wallet", "unlimited").code == 0
        yield opened


@dataclass(frozen=True, slots=True)
class Desk:
    """A person's home and the provider that counts what it is asked."""

    home: Home
    simulator: Simulator

    @property
    def calls(self) -> int:
        return len(self.simulator.log.calls)

    async def tell(self, *words: str) -> CommandResult:
        return await asyncio.to_thread(self.home.tell, *words)

    async def read_session(self, session: str) -> tuple[str, list[str]]:
        """The status of a session and those of its jobs."""
        found = await asyncio.to_thread(self.home.read_status, session)
        return found["session"]["status"], [job["status"] for job in found["jobs"]]

    @asynccontextmanager
    async def start(self, *words: str, columns: int = 80) -> AsyncIterator[TerminalCommand]:
        environment = self.home.build_environment({"lease_s": "6"})
        with open_terminal_command(words, environment, columns=columns) as command:
            yield command

    async def wait_arrived(self, count: int) -> None:
        await asyncio.wait_for(self.simulator.wait_arrived(count), PATIENCE_S)

    async def wait_ended(self, count: int) -> None:
        await asyncio.wait_for(self.simulator.wait_ended(count), PATIENCE_S)


@asynccontextmanager
async def open_desk(home: Home, script: object) -> AsyncIterator[Desk]:
    async with open_simulator(script) as simulator:  # type: ignore[arg-type]
        base_url = simulator.base_url("openai")
        (home.path / "config.toml").write_text(MODEL.format(base_url=base_url))
        yield Desk(home, simulator)


def find_session(said: str) -> str:
    found = re.search(r"[0-9a-f]{8}-[0-9a-f-]{27}", said)
    assert found is not None, said
    return found[0]


def read_text(command: TerminalCommand) -> str:
    """What the screen says, however its lines were broken."""
    return " ".join(" ".join(command.read_screen()).split())


async def test_the_first_interrupt_answers_at_once_finishes_the_calls_and_pauses(
    home: Home,
) -> None:
    async with open_desk(home, HELD) as desk, desk.start(*RUN, PROMPT) as command:
        desk.simulator.hold()
        await desk.wait_arrived(3)
        await asyncio.to_thread(command.wait_for, "3 calls in flight")
        command.press(INTERRUPT)
        await asyncio.to_thread(command.wait_for, "Stopping after 3 running calls, about $")
        assert command.process.poll() is None, "it waits for what is paid for"
        assert desk.simulator.log.open_calls, "and says so before they have ended"
        desk.simulator.release()
        # They were the last calls: nothing is left to be paused.
        assert await asyncio.to_thread(command.finish) == 0, command.said
        status, jobs = await desk.read_session(find_session(command.said))
        assert (status, jobs) == ("thesis_generation_complete", ["completed"] * 3)


async def test_an_interrupted_session_is_paused_and_only_resume_takes_it_up(home: Home) -> None:
    words = ("run", "--yes", "--models", "play/m*2", "--until", "antithesis")
    async with open_desk(home, HELD) as desk:
        desk.simulator.hold()
        async with desk.start(*words, PROMPT) as command:
            await desk.wait_arrived(2)
            command.press(INTERRUPT)
            await asyncio.to_thread(command.wait_for, "Stopping after 2 running calls")
            desk.simulator.release()
            assert await asyncio.to_thread(command.finish) == 130, command.said
            session = find_session(command.said)
            assert f"`dialectic resume {session[:8]}` resumes it." in read_text(command)
            assert "Traceback" not in command.said
        status, jobs = await desk.read_session(session)
        assert status == "paused"
        assert "processing" not in jobs
        before = desk.calls

        free = ("run", "--models", "offline/skeptic", "--until", "thesis", "A free one.")
        for other in (free, ("status",), ("list", session), ("wallet", "costs", session)):
            assert (await desk.tell(*other)).code == 0
        everything = await desk.tell(*free[:-1], "--all", "Another free one.")
        assert everything.code == 0, everything.stderr
        assert desk.calls == before

        resumed = await desk.tell("resume", session)
        assert resumed.code == 0, resumed.stderr
        assert desk.calls > before


async def test_a_run_that_is_paused_from_elsewhere_sums_up_all_that_was_written_and_paid(
    home: Home,
) -> None:
    words = ("run", "--yes", "--models", "play/m*3", "--until", "antithesis", PROMPT)
    async with open_desk(home, HELD) as desk:
        desk.simulator.hold()
        process = home.start(*words)
        try:
            await desk.wait_arrived(3)
            ((session, *_),) = [
                line.split() for line in (await desk.tell("status")).stdout.splitlines()[:1]
            ]
            paused = await desk.tell("pause", session)
            assert paused.code == 0, paused.stderr
            desk.simulator.release()
            result = await asyncio.to_thread(wait_for, process)
        finally:
            process.kill()
        found = await asyncio.to_thread(home.read_status, session)
    assert result.code == 3, result.stderr
    (total,) = re.findall(r"(\d+) documents, .* written, (\$[\d.]+)", result.stderr)
    assert total == (
        str(len(found["contributions"])),
        format_roughly(found["session"]["spent_credits"]),
    )
    assert found["contributions"]


async def test_the_second_interrupt_drops_the_calls_and_says_then_and_there_what_that_costs(
    home: Home,
) -> None:
    async with open_desk(home, HELD) as desk:
        desk.simulator.hold()
        async with desk.start(*RUN, PROMPT) as command:
            await desk.wait_arrived(3)
            await asyncio.to_thread(command.wait_for, "3 calls in flight")
            command.press(INTERRUPT)
            await asyncio.to_thread(command.wait_for, "^C again drops them")
            command.press(INTERRUPT)
            assert await asyncio.to_thread(command.finish) == 130, command.said
        await desk.wait_ended(3)
        session = find_session(command.said)
        said = read_text(command)
        assert f"Session {session[:8]}: 3 calls dropped by the second ^C." in said
        assert re.search(r"Your provider may bill about \$\d+\.\d+", said)
        assert (await desk.read_session(session))[0] == "paused"
        desk.simulator.release()
        told = await desk.tell("run", "--models", "offline/skeptic", "--until", "thesis", "Free.")
        assert "answers were lost" not in told.stderr
        assert desk.calls == 3


async def test_a_killed_command_is_not_continued_by_other_commands_but_by_resume(
    home: Home,
) -> None:
    async with open_desk(home, HELD) as desk:
        desk.simulator.hold()
        async with desk.start(*RUN, PROMPT) as command:
            await desk.wait_arrived(3)
            await asyncio.to_thread(command.wait_for, "Session ")
            session = find_session(command.said)
            os.kill(command.process.pid, signal.SIGKILL)
            await asyncio.to_thread(command.finish)
        await desk.wait_ended(3)
        desk.simulator.release()
        for _ in range(3):
            await desk.tell("run", "--models", "offline/skeptic*3", "--until", "thesis", "Free.")
        assert desk.calls == 3
        assert (await desk.tell("resume", session)).code == 0
        assert desk.calls == 6


async def test_with_all_a_command_helps_other_sessions_too(home: Home) -> None:
    async with open_desk(home, QUICK) as desk:
        detached = await desk.tell(*RUN, "--detach", PROMPT)
        session = detached.stdout.strip()
        free = ("run", "--models", "offline/skeptic", "--until", "thesis")
        await desk.tell(*free, "A free one.")
        assert desk.calls == 0
        helped = await desk.tell(*free, "--all", "Another free one.")
        assert helped.code == 0, helped.stderr
        assert desk.calls > 0
        await desk.tell("resume", session)
        assert desk.calls == 3


@pytest.mark.parametrize("columns", [40, 80, 200])
async def test_the_display_stays_whole_while_it_is_interrupted(home: Home, columns: int) -> None:
    async with open_desk(home, HELD) as desk:
        desk.simulator.hold()
        async with desk.start(*RUN, PROMPT, columns=columns) as command:
            await desk.wait_arrived(3)
            await asyncio.to_thread(command.wait_for, "3 calls")
            command.press(INTERRUPT)
            await asyncio.to_thread(command.wait_for, "Stopping after")
            # The view is drawn again below what was said.
            seen = len(command.said)
            await asyncio.to_thread(
                command.read_until, lambda said: said.count("3 calls", seen) >= 3
            )
            desk.simulator.release()
            await asyncio.to_thread(command.finish)
        screen = command.read_screen()
        bars = [line for line in screen if re.match(r"thesis +[━─]", line)]
        assert len(bars) == 1, "\n".join(screen)
        assert not any("calls in flight" in line for line in screen), "\n".join(screen)
        assert max(map(len, screen)) <= columns


async def interrupt_at(desk: Desk, words: tuple[str, ...], letters: int) -> TerminalCommand:
    """Interrupt a command after a number of letters; return it at its end."""
    async with desk.start(*words) as command:
        await asyncio.to_thread(command.read_letters, letters)
        with contextlib.suppress(OSError):  # it has ended
            command.press(INTERRUPT)
        await asyncio.to_thread(command.finish)
    return command


async def test_a_session_that_is_interrupted_at_any_moment_makes_no_call_until_it_is_resumed(
    home: Home,
) -> None:
    """Whatever other commands run, a worker for all sessions among them."""
    slow = {"models": PLAIN_TOKENS, "default": {"first_byte_s": 0.05}}
    words = ("run", "--yes", "--models", "play/m*2", "--until", "antithesis", PROMPT)
    free = ("run", "--models", "offline/skeptic", "--until", "thesis", "A free one.")
    async with open_desk(home, slow) as desk:
        async with desk.start(*words) as whole:
            assert await asyncio.to_thread(whole.finish) == 0, whole.said
        chance, paused, moments = random.Random(18), set[str](), examples(50).max_examples
        for moment in range(moments):
            # One moment in each part of the command's life.
            letters = int(len(whole.said) * (moment + chance.random()) / moments)
            command = await interrupt_at(desk, words, letters)
            assert "Traceback" not in command.said
            if "is paused; `dialectic resume" in read_text(command):
                paused.add(find_session(command.said))
            if moment % 5 == 4:  # of all sessions before it, none goes on
                before = desk.calls
                assert (await desk.tell(*free)).code == 0
                assert desk.calls == before, command.said
        states = [(await desk.read_session(session))[0] for session in sorted(paused)]
        assert states == ["paused"] * len(paused)
        assert paused

        before = desk.calls
        worker = home.start("worker")
        assert await asyncio.to_thread(until_said, worker, "is ready for")
        detached = (await desk.tell(*free[:-1], "--detach", "One for the worker.")).stdout.strip()
        assert (await desk.tell("watch", detached)).code == 0
        worker.send_signal(signal.SIGTERM)
        await asyncio.to_thread(wait_for, worker)
        assert desk.calls == before
