"""What a person at a terminal sees of a run and of a chat, and how ^C ends any command."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.scenario.simulated_endpoints import PLAIN_TOKENS
from tests.scenario.test_interrupts import RUN, open_desk, read_text
from tests.scenario.test_run import PROMPT, Home, copy_home
from tests.terminal import INTERRUPT, open_terminal_command
from tests.waiting import PATIENCE_S

# The answer has begun when it is held back.
HELD = {"models": PLAIN_TOKENS, "default": {"gate": "late", "gate_after_tokens": 64}}


@pytest.fixture(scope="module")
def home(made_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    with copy_home(made_home, tmp_path_factory.mktemp("live") / "home") as opened:
        assert opened.tell("wallet", "unlimited").code == 0
        yield opened


@pytest.mark.parametrize("columns", [40, 80, 200])
async def test_calls_in_flight_are_shown_with_their_tokens_and_the_end_is_five_lines(
    home: Home, columns: int
) -> None:
    async with open_desk(home, HELD) as desk:
        desk.simulator.hold("late")
        words = (*RUN, "--budget", "50", "--name", "Village hall", PROMPT)
        async with desk.start(*words, columns=columns) as command:
            await asyncio.to_thread(
                command.read_until,
                lambda said: re.search(r"play/m.*\d:\d\d  ~\d\d", said) is not None,
            )
            # What was learnt from quick answers is too short for one that is held back.
            await asyncio.to_thread(
                command.read_until, lambda said: " left" in said or "longer" in said
            )
            await asyncio.to_thread(command.wait_for, "budget $50.00")
            desk.simulator.release("late")
            assert await asyncio.to_thread(command.finish) == 0, command.said
        lines = command.said[command.said.index("Done: ") :].splitlines()
        # A path longer than the terminal is broken by the terminal alone, so it is copied whole.
        assert any(re.fullmatch(r"(Plan|Read): /.*/village-hall.*\.md", line) for line in lines)
        if columns >= 80:
            assert len(lines) == (5 if columns == 80 else 4), lines
            assert re.match(r"3 documents, .* written, \$", lines[1])
        assert read_text(command).count("dialectic next") == 1


async def test_a_quiet_run_at_a_terminal_says_nothing_of_its_progress(home: Home) -> None:
    async with open_desk(home, {"models": PLAIN_TOKENS}) as desk:
        async with desk.start(*RUN, "--quiet", "--bell", PROMPT) as command:
            assert await asyncio.to_thread(command.finish) == 0, command.said
        assert re.fullmatch(r"Session \S+ \(3 models\)\r\n\x07", command.said), command.said


def test_an_interrupt_at_the_prompt_of_a_chat_ends_it_at_once(home: Home) -> None:
    words = ("chat", "--model", "offline/skeptic")
    with open_terminal_command(words, home.build_environment({})) as command:
        command.wait_for("> ")
        command.press(INTERRUPT)
        assert command.finish() == 130
    assert "Traceback" not in command.said


async def test_an_interrupted_reply_is_said_not_to_be_saved(home: Home) -> None:
    async with open_desk(home, HELD) as desk:
        desk.simulator.hold("late")
        async with desk.start("chat", "--model", "play/m") as command:
            await asyncio.to_thread(command.wait_for, "> ")
            command.press(b"Name a bakery.\n")
            await desk.wait_arrived(1)
            command.press(INTERRUPT)
            assert await asyncio.to_thread(command.finish) == 130
        assert "The reply is not saved; your provider may bill for it." in read_text(command)
        assert "Traceback" not in command.said
        await desk.wait_ended(1)


# Ends itself by ^C when it imports a module, from the first to the last of its start.
INTERRUPTED = """
import builtins, os, signal, sys
import dialectic.__main__
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background
imported, wanted = builtins.__import__, sys.argv.pop(1)
def interrupt(name, *rest):
    if name == wanted:
        builtins.__import__ = imported
        os.kill(os.getpid(), signal.SIGINT)
    return imported(name, *rest)
builtins.__import__ = interrupt
dialectic.__main__.main()
"""


@pytest.mark.parametrize("module", ["dialectic.cli.main", "uvloop", "dialectic.cli.local"])
def test_a_command_that_is_interrupted_while_it_starts_prints_no_traceback(
    home: Home, module: str
) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, module, "status"],
        env=home.build_environment({}),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ended.returncode in (130, -signal.SIGINT), ended.stderr
    assert (ended.stdout, ended.stderr.strip()) == ("", "")
