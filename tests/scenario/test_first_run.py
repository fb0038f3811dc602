"""From a key to a plan: a new home, one key, and the simulator in the place of the provider."""

from __future__ import annotations

import asyncio
import json
import re
import stat
import subprocess
import sys
import venv
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest

from dialectic.config_file import read_config
from dialectic.web import pages
from dialectic_simulator import Simulator, open_simulator
from tests.command_pool import CommandResult
from tests.problems import list_codes, list_commands
from tests.scenario.pseudo_terminal import Screen, sit_at_terminal
from tests.scenario.test_run import Home, copy_home

KEY = "sk-canary-first-run"
LUNA = "openai/gpt-6-luna"
# The facts of the shipped models, so that the simulator accepts what is asked of them.
MODELS = {
    "*": {
        "tokenizer": "o200k_base",
        "context_window_tokens": 1_050_000,
        "max_output_tokens": 128_000,
    }
}
SCRIPT = {"models": MODELS, "endpoints": {"bad": {}}}
PROMPT = "A booking service for a village hall."
CONFIG = '[endpoints.openai]\nbase_url = "{url}"\n'


@dataclass(frozen=True, slots=True)
class Newcomer:
    """A person with a home that no command has used, and a folder to work in."""

    home: Home
    folder: Path
    simulator: Simulator

    @property
    def calls(self) -> int:
        return len(self.simulator.log.calls)

    def build_environment(self, **variables: str) -> dict[str, str]:
        return {
            **self.home.build_environment({"preflight": "true"}),
            "TERM": "xterm-256color",
            **variables,
        }

    async def sit(
        self,
        *words: str,
        answers: Sequence[tuple[str, str]] = (),
        columns: int = 80,
        **variables: str,
    ) -> Screen:
        return await asyncio.to_thread(
            lambda: sit_at_terminal(
                words,
                self.build_environment(**variables),
                answers,
                columns=columns,
                folder=self.folder,
            )
        )

    async def type(self, *words: str, stdin: str = "", **variables: str) -> CommandResult:
        """Give a command without a terminal."""
        result = await asyncio.to_thread(
            lambda: subprocess.run(
                [sys.executable, "-m", "dialectic", *words],
                input=stdin,
                capture_output=True,
                text=True,
                check=False,
                cwd=self.folder,
                env=self.build_environment(**variables),
            )
        )
        assert "Traceback" not in result.stderr
        assert KEY not in result.stdout + result.stderr
        return CommandResult(result.returncode, result.stdout, result.stderr)


@pytest.fixture
async def newcomer(made_home: Path, tmp_path: Path) -> AsyncIterator[Newcomer]:
    async with open_simulator(SCRIPT) as simulator:
        with copy_home(made_home, tmp_path / "home") as home:
            url = simulator.base_url("openai")
            (home.path / "config.toml").write_text(CONFIG.format(url=url))
            folder = tmp_path / "work"
            folder.mkdir()
            yield Newcomer(home, folder, simulator)


def add_endpoint(newcomer: Newcomer) -> None:
    """Declare one more endpoint, with its own key and one model."""
    url = newcomer.simulator.base_url("openai", "bad")
    model = (
        "context_window_tokens = 128000\nmax_output_tokens = 4000\ninput_usd_per_million = 1\n"
        'output_usd_per_million = 2\ntokenizer = "chars:4"\n'
    )
    path = newcomer.home.path / "config.toml"
    path.write_text(
        path.read_text()
        + f'\n[endpoints.bad]\nkind = "openai"\nbase_url = "{url}"\napi_key_env = "BAD_KEY"\n'
        + f"[endpoints.bad.models.m]\n{model}"
    )


# -- the first run ---------------------------------------------------------------------------------


async def test_one_key_one_command_and_one_question_lead_to_a_plan(newcomer: Newcomer) -> None:
    question = (("Models of your runs", "\n"),)
    screen = await newcomer.sit(
        "run", PROMPT, "--out", "plans", answers=question, OPENAI_API_KEY=KEY
    )
    assert screen.code == 0, screen.text
    assert screen.unasked == ()
    assert screen.text.count("]: ") == 1, "one question, about models"
    assert "Which one" not in screen.text
    assert KEY not in screen.text
    (plan,) = (newcomer.folder / "plans").glob("*/Pending")
    assert list(plan.iterdir())
    stored = read_config(newcomer.home.path / "config.toml")
    assert stored["default_models"] == f"{LUNA}*3"
    assert "default_process" not in stored
    theses = {path.name for path in (newcomer.folder / "plans").rglob("1_thesis/*_1_thesis.md")}
    assert len(theses) == 3
    balance = await newcomer.type("wallet", "balance", "--json")
    found = json.loads(balance.stdout)
    assert found["is_count_only"]
    assert found["balance_credits"] < 0, "what was spent is counted"


async def test_the_second_run_asks_once_which_process_runs_use_with_both_prices(
    newcomer: Newcomer,
) -> None:
    init = await newcomer.type("init", "--models", f"{LUNA}*3", OPENAI_API_KEY=KEY)
    assert init.code == 0, init.stderr
    question = (("Which one do your runs use", "quick\n"),)
    screen = await newcomer.sit("run", PROMPT, "--detach", answers=question, OPENAI_API_KEY=KEY)
    assert screen.code == 0, screen.text
    assert screen.unasked == ()
    assert [price in screen.text for price in ("57 calls", "11 calls")] == [True, True]
    assert read_config(newcomer.home.path / "config.toml")["default_process"] == "quick"

    again = await newcomer.sit("run", PROMPT, "--detach", OPENAI_API_KEY=KEY)
    assert again.code == 0, again.text
    assert ("]: " in again.text, "Which one" in again.text) == (False, False)
    dry = await newcomer.type("run", PROMPT, "--dry-run", "--json", OPENAI_API_KEY=KEY)
    quoted = json.loads(dry.stdout)
    assert quoted["process"] == "quick"
    assert [one["process"] for one in quoted["others"]] == ["standard"]


async def test_without_a_terminal_nothing_is_called_and_three_commands_help(
    newcomer: Newcomer,
) -> None:
    result = await newcomer.type("run", PROMPT, OPENAI_API_KEY=KEY)
    assert result.code == 2
    assert list_codes(result.stderr) == ["invalid_request"]
    assert list_commands(result.stderr) == [
        f'dialectic init --models "{LUNA}*3"',
        f'dialectic run "…" --models "{LUNA}*3"',
        "dialectic models list",
    ]
    assert newcomer.calls == 0
    assert (await newcomer.type("status")).stdout == ""

    init = await newcomer.type("init", "--models", f"{LUNA}*3", OPENAI_API_KEY=KEY)
    assert init.code == 0, init.stderr
    result = await newcomer.type("run", PROMPT, "--until", "thesis", OPENAI_API_KEY=KEY)
    assert result.code == 0, result.stderr


async def test_without_a_key_a_run_asks_nothing_and_uses_the_offline_models(
    newcomer: Newcomer,
) -> None:
    screen = await newcomer.sit("run", PROMPT, "--until", "thesis")
    assert screen.code == 0, screen.text
    assert "offline/architect" in screen.text
    assert newcomer.calls == 0


@pytest.mark.parametrize("columns", [40, 200])
async def test_the_question_fits_any_terminal_and_a_wrong_answer_is_asked_again(
    newcomer: Newcomer, columns: int
) -> None:
    answers = (("Models of your runs", "openai/gpt-6-lunar\n"), ("Models of your", f"{LUNA}*2\n"))
    screen = await newcomer.sit("init", answers=answers, columns=columns, OPENAI_API_KEY=KEY)
    assert screen.code == 0, screen.text
    assert "unknown_model" in screen.text
    # A word that is longer than the terminal, such as a path, is not broken.
    for line in screen.text.splitlines():
        assert len(line) <= columns or max(map(len, line.split())) > columns // 2, line
    assert read_config(newcomer.home.path / "config.toml")["default_models"] == f"{LUNA}*2"


async def test_a_question_that_is_interrupted_stores_and_spends_nothing(newcomer: Newcomer) -> None:
    answers = (("Models of your runs", "\x03"),)
    screen = await newcomer.sit("run", PROMPT, answers=answers, OPENAI_API_KEY=KEY)
    assert screen.code == 130
    assert "Traceback" not in screen.text
    assert newcomer.calls == 0
    assert "default_models" not in read_config(newcomer.home.path / "config.toml")


# -- keys ------------------------------------------------------------------------------------------


async def test_init_without_a_key_asks_for_one_and_keeps_it_only_with_consent(
    newcomer: Newcomer,
) -> None:
    answers = (
        ("Provider whose key", "openai\n"),
        ("not shown", f"{KEY}\n"),
        ("which only you can read?", "y\n"),
        ("Models of your runs", "\n"),
    )
    screen = await newcomer.sit("init", answers=answers)
    assert screen.code == 0, screen.text
    assert KEY not in screen.text
    path = newcomer.home.path / "keys.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    result = await newcomer.type("run", PROMPT, "--until", "thesis")
    assert result.code == 0, result.stderr

    listed = json.loads((await newcomer.type("keys", "list", "--json")).stdout)["keys"]
    assert listed[0] == {"endpoint": "openai", "variable": "OPENAI_API_KEY", "place": "file"}
    assert (await newcomer.type("keys", "remove", "openai")).code == 0
    assert KEY not in path.read_text()
    assert (await newcomer.type("keys", "remove", "openai")).code == 2


async def test_a_key_from_a_pipe_is_kept_as_plain_text_only_if_that_is_said(
    newcomer: Newcomer,
) -> None:
    refused = await newcomer.type("keys", "set", "openai", stdin=f"{KEY}\n")
    assert refused.code == 2
    assert not (newcomer.home.path / "keys.json").exists()
    stored = await newcomer.type("keys", "set", "openai", "--in-file", stdin=f"{KEY}\n")
    assert stored.code == 0, stored.stderr
    assert str(newcomer.home.path / "keys.json") in (await newcomer.type("keys", "list")).stdout


async def test_a_key_in_dotenv_is_found_in_its_folder(newcomer: Newcomer) -> None:
    (newcomer.folder / ".env").write_text(f"export OPENAI_API_KEY='{KEY}'\n")
    result = await newcomer.type("run", PROMPT, "--until", "thesis", "--yes")
    assert result.code == 0, result.stderr
    assert LUNA in result.stderr


# -- before money is spent -------------------------------------------------------------------------


@pytest.fixture
async def misled(made_home: Path, tmp_path: Path) -> AsyncIterator[Newcomer]:
    """A newcomer with one more endpoint that rejects every key."""
    rule = {"endpoint": "bad", "wire": "openai", "fault": "401_key"}
    async with open_simulator({**SCRIPT, "rules": [rule]}) as simulator:
        with copy_home(made_home, tmp_path / "home") as home:
            url = simulator.base_url("openai")
            (home.path / "config.toml").write_text(CONFIG.format(url=url))
            (tmp_path / "work").mkdir()
            newcomer = Newcomer(home, tmp_path / "work", simulator)
            add_endpoint(newcomer)
            yield newcomer


THREE = f"{LUNA}*2,bad/m"


async def test_a_bad_key_is_told_before_a_run_and_without_a_terminal_nothing_starts(
    misled: Newcomer,
) -> None:
    result = await misled.type("run", PROMPT, "--models", THREE, BAD_KEY=KEY, OPENAI_API_KEY=KEY)
    assert result.code == 4
    assert list_codes(result.stderr) == ["model_unusable"]
    assert list_commands(result.stderr) == ["export BAD_KEY=…"]
    assert misled.calls == 2, "one question to each model"
    assert (await misled.type("status")).stdout == ""


async def test_a_person_goes_on_without_a_model_that_does_not_answer(misled: Newcomer) -> None:
    answers = (("Enter to stop: ", "w\n"),)
    screen = await misled.sit(
        "run",
        PROMPT,
        "--until",
        "thesis",
        "--models",
        THREE,
        answers=answers,
        BAD_KEY=KEY,
        OPENAI_API_KEY=KEY,
    )
    assert screen.code == 0, screen.text
    assert "(2 models)" in screen.text


async def test_a_person_takes_another_model_or_stops(misled: Newcomer) -> None:
    run = ("run", PROMPT, "--until", "thesis", "--models", f"{LUNA},bad/m")
    stopped = await misled.sit(
        *run, answers=(("Enter to stop: ", "\n"),), BAD_KEY=KEY, OPENAI_API_KEY=KEY
    )
    assert stopped.code == 5
    assert "w to go on" not in stopped.text, "two seats are the least that the process needs"
    answers = (("Enter to stop: ", "offline/skeptic\n"),)
    screen = await misled.sit(*run, answers=answers, BAD_KEY=KEY, OPENAI_API_KEY=KEY)
    assert screen.code == 0, screen.text
    assert f"{LUNA},offline/skeptic" in screen.text


async def test_the_check_is_skipped_on_request(misled: Newcomer) -> None:
    run = ("run", PROMPT, "--until", "thesis", "--models", THREE, "--no-preflight", "--detach")
    result = await misled.type(*run, BAD_KEY=KEY, OPENAI_API_KEY=KEY)
    assert result.code == 0, result.stderr
    assert misled.calls == 0


# -- the wheel -------------------------------------------------------------------------------------


def list_static(source: Path) -> dict[str, int]:
    """List the files that browsers get, with their sizes."""
    folder = source / "dialectic" / "web" / "static"
    found = {
        str(path.relative_to(folder)): path.stat().st_size
        for path in folder.rglob("*")
        if path.is_file()
    }
    assert "shell.html" in found
    return found


# Loaded by every Python of the environment: it reaches this machine alone.
WITHOUT_NETWORK = """
import socket
connect = socket.socket.connect
def connect_here(self, address):
    if self.family != socket.AF_UNIX and address[0] not in ("127.0.0.1", "::1", "localhost"):
        raise OSError(f"no network: {address}")
    return connect(self, address)
socket.socket.connect = connect_here
"""


def list_served(program: Path, environment: dict[str, str]) -> dict[str, bytes]:
    """Serve with a program, without any other on the path; ask for all that its shells name."""
    tools = program.parent / "nothing"
    tools.mkdir()
    command = [str(program), "serve", "--port", "0", "--no-worker"]
    with subprocess.Popen(
        command, env={**environment, "PATH": str(tools)}, stdout=subprocess.PIPE, text=True
    ) as serving:
        try:
            assert serving.stdout is not None
            url = next(line.strip() for line in serving.stdout if line.startswith("http://"))
            found: dict[str, bytes] = {}
            for page in pages.PAGES:
                shell = httpx2.get(f"{url}{page.replace('{', '').replace('}', '')}").text
                for path in set(re.findall(r'"(/assets/\w+/[^"]+)"', shell)) - found.keys():
                    answer = httpx2.get(f"{url}{path}")
                    assert answer.is_success, path
                    found[path] = answer.content
            return {path.split("/", 3)[3]: body for path, body in found.items()}
        finally:
            serving.terminate()


@pytest.mark.sentence(71)
async def test_the_installed_wheel_leads_from_a_key_to_a_plan_and_serves_every_asset(
    newcomer: Newcomer, tmp_path: Path
) -> None:
    """The program is installed from its wheel; what it depends on is there already."""
    root = Path(__file__).parents[2]
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    quietly = {"--no-deps", "--no-build-isolation"}
    build = [*pip, "wheel", *quietly, "-w", str(tmp_path / "wheel"), str(root)]
    await asyncio.to_thread(lambda: subprocess.run(build, check=True, capture_output=True))
    (wheel,) = (tmp_path / "wheel").glob("*.whl")
    await asyncio.to_thread(venv.create, tmp_path / "venv", with_pip=False, symlinks=True)
    python = tmp_path / "venv" / "bin" / "python"
    install = [*pip, "--python", str(python), "install", "--no-deps", str(wheel)]
    await asyncio.to_thread(lambda: subprocess.run(install, check=True, capture_output=True))
    (site,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    others = next(path for path in map(Path, sys.path) if path.name == "site-packages")
    (site / "others.pth").write_text(f"{others}\n")
    (site / "sitecustomize.py").write_text(WITHOUT_NETWORK)
    # Every file of the web app came along: what runs is what is in the repository.
    assert list_static(site) == list_static(root / "src")
    screen = await asyncio.to_thread(
        lambda: sit_at_terminal(
            ("run", PROMPT, "--out", "plans"),
            newcomer.build_environment(OPENAI_API_KEY=KEY),
            (("Models of your runs", "\n"),),
            folder=newcomer.folder,
            program=(str(tmp_path / "venv" / "bin" / "dialectic"),),
        )
    )
    assert screen.code == 0, screen.text
    assert list((newcomer.folder / "plans").glob("*/Pending/*"))
    program, environment = tmp_path / "venv" / "bin" / "dialectic", newcomer.build_environment()
    served = await asyncio.to_thread(lambda: list_served(program, environment))
    assert {"app.css", "js/app.js", "js/views/session.js", "css/session.css"} <= served.keys()
    static = root / "src" / "dialectic" / "web" / "static"
    assert served == {path: (static / path).read_bytes() for path in served}
