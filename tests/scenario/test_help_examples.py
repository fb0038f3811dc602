"""Every example in the help of every command runs, with ids and files that exist."""

from __future__ import annotations

import asyncio
import base64
import json
import shlex
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dialectic.cli.main import EXAMPLES
from dialectic_simulator import open_simulator
from tests.command_pool import CommandResult
from tests.scenario.test_everyday import type_at_terminal
from tests.scenario.test_run import PROMPT, Home, copy_home
from tests.waiting import PATIENCE_S

MODEL = "offline/skeptic"
ENCRYPTION_KEY = base64.b64encode(bytes(32)).decode()
FILES = {
    "brief.md": PROMPT,
    "rules.md": "No music after ten.",
    "notes.md": "The second risk matters most.",
    "better.md": "# Mine\n\nA market stall with a telephone.",
    "ticked.md": "# Rooms\n\n- [x] 1. Ask who has keys.\n",
    "key.txt": "sk-made-up",
    "faults.toml": '[[rules]]\nmodel = "*"\nfault = "500_server"\n',
}
# What other examples need comes first; what ends things comes last.
FIRST = (
    *("user add", "org create", "org add", "export", "process new", "models alias", "chat"),
    *("resource add", "resource list", "feedback", "rate", "edit", "regenerate", "plan list"),
)
LAST = (
    *("keys set", "keys list", "keys remove"),
    *("iterate", "rename", "archive", "seat drop", "next", "cancel", "delete", "org remove"),
    *("user revoke", "import", "db stop"),
)
# These run until they are stopped; the port must be free.
SERVERS = {
    "serve": ("--port", "0"),
    "worker": (),
    "simulate": ("--port", "0"),
}
# Here there is no keyring, and a key that is made up must not be sent to anyone.
MORE = {"keys set": ("--in-file", "--no-check")}
# What is typed at a terminal: the question, and the answer.
TYPED = {"endpoint add": {"ey": "sk-of-acme\n"}}
# Examples that are right, but not in this home.
REFUSED = {
    "dialectic init": 2,  # no terminal to ask at
    "dialectic keys set openai": 2,  # no terminal to type it
    "dialectic retry 41ac": 2,  # nothing failed
    "dialectic models sync openai": 4,  # no key
    "dialectic edit 7f94": 2,  # no terminal, so no editor
    'dialectic delete "Village hall"': 2,  # no terminal to ask at
    "dialectic notifications read 12 13": 2,  # no such notifications
    "dialectic rule 41ac 9c1e --for 07d2": 2,  # one model contradicts no other
    'dialectic rule 41ac 9c1e "The deposit is 30 euros."': 2,
    "dialectic rule 41ac 9c1e --withdraw": 2,
}
WAITS = 3


@dataclass(slots=True)
class World:
    """A home with sessions in several states, and what the ids of the examples mean in it."""

    home: Home
    done: str
    waiting: dict[str, str]
    contributions: list[str]
    # The address of an endpoint, and the settings that allow it.
    url: str = ""
    settings: dict[str, str] = field(default_factory=dict)

    def tell(self, *words: str, stdin: str = "") -> CommandResult:
        result = self.home.tell(*words, stdin=stdin, **self.settings)
        assert result.code in (0, WAITS), (words, result.stderr)
        return result

    def translate(self, name: str, word: str) -> str:
        """Put an id that exists in the place of one that does not."""
        session = self.waiting.get(name, self.done)
        if word == "7f94" and name == "resource remove":
            return self.tell("resource", "list", "Village hall").stdout.split()[0]
        if word == "9d02":
            return self.tell("chat", "--list").stdout.split()[0]
        return {
            "41ac": session[:8],
            "7f94": self.contributions[0],
            "a3c0": self.contributions[1],
            "URL": self.url,
        }.get(word, word)


def list_ids(home: Home, session: str) -> list[str]:
    rows = json.loads(home.tell("list", session, "--json").stdout)
    return [row["id"][:8] for row in rows]


@pytest.fixture
def world(made_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    folder = tmp_path / "folder"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for name, text in FILES.items():
        (folder / name).write_text(text)
    (tmp_path / "gitconfig").write_text("[user]\n\tname = Anna\n\temail = anna@example.org\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    subprocess.run(["git", "init", "--quiet", "--bare", "plans.git"], check=True)
    with copy_home(made_home, tmp_path / "home") as home:
        run = ("run", PROMPT, "--models", MODEL)
        done = home.tell(*run, "--name", "Village hall").session
        waiting = {
            name: home.tell(*run, "--pause", "--name", name, "--models", f"{MODEL}*2").session
            for name in ("next", "cancel", "seat drop")
        }
        home.tell("user", "add", "bob")
        waiting |= {"pause": waiting["cancel"], "resume": waiting["cancel"]}
        waiting |= {"seat replace": waiting["seat drop"], "delete": waiting["cancel"]}
        yield World(home, done, waiting, list_ids(home, done))


def list_lines() -> Iterator[tuple[str, str]]:
    rest = [name for name in EXAMPLES if name not in (*FIRST, *LAST)]
    for name in (*FIRST, *rest, *LAST):
        for line in EXAMPLES[name]:
            yield name, line


async def test_every_example_of_a_help_runs(world: World) -> None:
    lines = list(list_lines())
    assert {name for name, _ in lines} == EXAMPLES.keys()
    async with open_simulator() as simulator:
        world.url = simulator.base_url("openai")
        world.settings = {
            "encryption_key": ENCRYPTION_KEY,
            "tenant_origins": simulator.url(""),
        }
        failed = await asyncio.to_thread(run_all, world, lines)
    assert failed == {}


def run_all(world: World, lines: list[tuple[str, str]]) -> dict[str, str]:
    return {line: said for name, line in lines if (said := run_example(world, name, line))}


def run_example(world: World, name: str, line: str) -> str:
    """Run an example; return what is wrong with it."""
    command, _, rest = line.partition(" < ")
    words = shlex.split(command.partition(" | ")[0].partition(" > ")[0])[1:]
    given = [*(world.translate(name, word) for word in words), *MORE.get(name, ())]
    if name in SERVERS and "--faults" not in given:
        return run_server(world.home, *given, *SERVERS[name])
    if name in TYPED:
        more = {f"DIALECTIC_{key.upper()}": text for key, text in world.settings.items()}
        code, shown = type_at_terminal(world.home, given, TYPED[name], **more)
        return "" if code == 0 else f"{code}: {shown}"
    stdin = Path(rest).read_text() if rest else ""
    result = world.home.tell(*given, stdin=stdin, **world.settings)
    expected = (REFUSED[line],) if line in REFUSED else (0, WAITS)
    is_well = result.code in expected and "Traceback" not in result.stderr
    return "" if is_well else f"{result.code}: {result.stdout}\n{result.stderr}"


def run_server(home: Home, *words: str) -> str:
    """Start a command that has no end, and stop it when it has said that it runs."""
    process = home.start(*words)
    assert process.stdout is not None
    assert process.stderr is not None
    with process:
        try:
            said = process.stderr.readline() if words[0] == "worker" else process.stdout.readline()
            process.send_signal(signal.SIGTERM)
            code = process.wait(PATIENCE_S)
            rest = process.stderr.read()
        finally:
            process.kill()
    return "" if said and code in (0, 130) else f"{code}: {said}\n{rest}"
