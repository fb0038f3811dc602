"""`dialectic models` as a person calls it, against an endpoint of the test's own."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.command_pool import CommandResult, command_pool
from tests.waiting import PATIENCE_S

KEY = "sk-canary-77aa"
TINY = """
[endpoints.local.models.tiny]
context_window_tokens = 8192
max_output_tokens = 1024
input_usd_per_million = 1.0
output_usd_per_million = 2.0
tokenizer = "o200k_base"
"""


@dataclass(slots=True)
class ModelEndpoint:
    """What the endpoint says, and what it was asked."""

    models: list[dict[str, Any]] = field(default_factory=lambda: [{"id": "tiny"}])
    status: int = 200
    asked: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    port: int = 0


@pytest.fixture
def model_endpoint() -> Iterator[ModelEndpoint]:
    """An endpoint on this machine that speaks as OpenAI does."""
    model_endpoint = ModelEndpoint()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.answer({"object": "list", "data": model_endpoint.models}, {})

        def do_POST(self) -> None:
            sent = json.loads(self.rfile.read(int(self.headers["content-length"])))
            message = {"role": "assistant", "content": "OK"}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            usage = {"prompt_tokens": 14, "completion_tokens": 1, "total_tokens": 15}
            self.answer({"id": "r1", "choices": [choice], "usage": usage}, sent)

        def answer(self, body: dict[str, Any], sent: dict[str, Any]) -> None:
            model_endpoint.asked.append((self.path, self.headers.get("authorization", ""), sent))
            failure = {"error": {"message": "no such key", "type": "invalid_request_error"}}
            data = json.dumps(body if model_endpoint.status == 200 else failure).encode()
            self.send_response(model_endpoint.status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    model_endpoint.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield model_endpoint
    server.shutdown()
    thread.join()
    server.server_close()


@dataclass(frozen=True, slots=True)
class Home:
    """A home in which only `dialectic models` is called."""

    path: Path

    def tell(self, *words: str, **environ: str) -> CommandResult:
        environment = {**os.environ, "DIALECTIC_HOME": str(self.path), **environ}
        result = command_pool.run(("models", *words), environment, "", patience_s=PATIENCE_S)
        assert not (self.path / "postgres").exists(), "no server is needed to ask a model"
        assert "Traceback" not in result.stderr
        assert KEY not in result.stdout + result.stderr
        return result

    def configure(self, model_endpoint: ModelEndpoint, more: str = "") -> None:
        self.path.mkdir(exist_ok=True)
        (self.path / "config.toml").write_text(
            '[endpoints.local]\nkind = "openai"\napi_key_env = "LOCAL_KEY"\n'
            f'base_url = "http://127.0.0.1:{model_endpoint.port}/v1"\n{more}{TINY}'
        )


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def list_states(result: CommandResult) -> dict[str, tuple[str, str]]:
    rows = json.loads(result.stdout)["models"]
    return {row["name"]: (row["state"], row["note"]) for row in rows}


# -- list ------------------------------------------------------------------------------------------


def test_without_keys_the_list_says_what_to_set(home: Home) -> None:
    result = home.tell("list")
    assert result.code == 0
    lines = result.stdout.splitlines()
    assert lines[0].split() == "model window answer in out tokens facts state".split()
    assert [line.split()[-1] for line in lines if line.startswith("offline/")] == ["usable"] * 3
    assert any(line.startswith("openai/") and "set OPENAI_API_KEY" in line for line in lines)
    assert "US dollars per million tokens" in result.stderr


def test_a_declared_model_is_listed_as_config_has_it(
    home: Home, model_endpoint: ModelEndpoint
) -> None:
    home.configure(model_endpoint)
    (line,) = [x for x in home.tell("list").stdout.splitlines() if x.startswith("local/tiny")]
    assert " ".join(line.split()) == (
        "local/tiny 8,192 1,024 1.00 2.00 exact config.toml key missing: set LOCAL_KEY"
    )
    assert list_states(home.tell("list", "--json", LOCAL_KEY=KEY))["local/tiny"] == ("usable", "")


def test_a_broken_declaration_ends_with_its_place_and_code_4(
    home: Home, model_endpoint: ModelEndpoint
) -> None:
    home.configure(model_endpoint, "timeout = 3\n")
    result = home.tell("list")
    assert result.code == 4
    path = home.path / "config.toml"
    assert f"Unknown key `endpoints.local.timeout` in {path}. Did you mean `timeout_s`?" in (
        result.stderr
    )


# -- sync ------------------------------------------------------------------------------------------


def test_what_an_endpoint_lists_is_kept_and_compared_with_the_catalogue(
    home: Home, model_endpoint: ModelEndpoint
) -> None:
    home.configure(model_endpoint)
    model_endpoint.models = [{"id": "tiny"}, {"id": "huge", "max_model_len": 65536}]
    result = home.tell("sync", LOCAL_KEY=KEY)
    assert (result.code, result.stdout) == (0, "")
    assert result.stderr.strip() == (
        "local: 2 models listed, 1 of them not configured; 0 of those known here no longer listed"
    )
    assert model_endpoint.asked == [("/v1/models", f"Bearer {KEY}", {})]

    listed = home.tell("list", LOCAL_KEY=KEY)
    assert "local/huge" in listed.stdout
    assert '[endpoints.local.models."huge"]\ncontext_window_tokens = 65536' in listed.stderr
    assert list_states(home.tell("list", "--json", LOCAL_KEY=KEY))["local/huge"][0] == (
        "unconfigured"
    )

    model_endpoint.models = []
    assert "1 of those known here no longer listed" in home.tell("sync", LOCAL_KEY=KEY).stderr
    states = list_states(home.tell("list", "--json", LOCAL_KEY=KEY))
    assert states["local/tiny"][0] == "no_longer_listed"
    assert "local/huge" not in states


def test_an_endpoint_that_fails_is_named_and_what_was_known_of_it_stays(
    home: Home, model_endpoint: ModelEndpoint
) -> None:
    home.configure(model_endpoint)
    home.tell("sync", "local", LOCAL_KEY=KEY)
    before = (home.path / "models.json").read_bytes()
    model_endpoint.status = 401
    result = home.tell("sync", "local", LOCAL_KEY=KEY)
    assert result.code == 1
    assert result.stderr.startswith("local: ")
    assert (home.path / "models.json").read_bytes() == before


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], 4, "Set one of: OPENAI_API_KEY (openai), ANTHROPIC_API_KEY (anthropic), GEMINI_API"),
        (["openai"], 4, "Set one of: OPENAI_API_KEY (openai)."),
        (["nobody"], 2, "Endpoint 'nobody' does not exist. Known: openai, anthropic, google."),
        (["offline"], 2, "Endpoint 'offline' does not exist."),
    ],
)
def test_whom_one_cannot_ask_is_said_with_the_remedy(
    home: Home, words: list[str], code: int, said: str
) -> None:
    result = home.tell("sync", *words)
    assert result.code == code
    assert said in result.stderr


# -- test ------------------------------------------------------------------------------------------


def test_a_model_is_tried_with_one_small_call(home: Home, model_endpoint: ModelEndpoint) -> None:
    home.configure(model_endpoint)
    result = home.tell("test", "local/tiny", LOCAL_KEY=KEY)
    assert result.code == 0
    lines = dict(line.split(maxsplit=1) for line in result.stdout.splitlines())
    assert lines["answer"] == "OK"
    assert lines["finish"] == "stop (stop)"
    assert lines["usage"] == "14 in, 1 out, reported"
    assert lines["counted"].startswith("22 in, exact")
    assert lines["cost"] == "$0.000016, not booked"
    ((path, key, sent),) = model_endpoint.asked
    assert (path, key) == ("/v1/chat/completions", f"Bearer {KEY}")
    assert sent["max_tokens"] == 16
    assert sent["model"] == "tiny"


def test_a_model_that_refuses_is_told_with_code_1(
    home: Home, model_endpoint: ModelEndpoint
) -> None:
    home.configure(model_endpoint)
    model_endpoint.status = 401
    result = home.tell("test", "local/tiny", LOCAL_KEY=KEY)
    assert (result.code, result.stdout) == (1, "")


@pytest.mark.parametrize(
    ("model", "code", "said"),
    [
        ("local/tiny", 4, "the environment variable LOCAL_KEY is not set"),
        ("local/huge", 2, '`[endpoints.local.models."huge"]`'),
        ("nobody/tiny", 2, "'nobody/tiny'"),
    ],
)
def test_a_model_that_cannot_be_asked_is_not_called(
    home: Home, model_endpoint: ModelEndpoint, model: str, code: int, said: str
) -> None:
    home.configure(model_endpoint)
    result = home.tell("test", model)
    assert result.code == code
    assert said in result.stderr
    assert model_endpoint.asked == []


def test_an_offline_model_can_be_tried_without_anything(home: Home) -> None:
    result = home.tell("test", "offline/skeptic")
    assert result.code == 0
    assert "usage     23 in, 16 out, reported" in result.stdout
