"""Before a run each model is asked one short question, all at once."""

from __future__ import annotations

import stat
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dialectic.providers.catalog import build_catalog
from dialectic.providers.probe import FILE, Finding, probe_models
from dialectic.settings import Settings
from dialectic_simulator import Simulator, open_simulator

MODELS = {"*": {"tokenizer": "chars:4"}}
ENDPOINT = """
[endpoints.{name}]
kind = "openai"
base_url = "{url}"
api_key_env = "KEY_OF_A_TEST"

[endpoints.{name}.models.m]
context_window_tokens = 8000
max_output_tokens = 1000
input_usd_per_million = 1
output_usd_per_million = 2
tokenizer = "chars:4"
"""


@asynccontextmanager
async def serve(script: Mapping[str, Any]) -> AsyncIterator[Simulator]:
    async with open_simulator({"models": MODELS, **script}) as simulator:
        yield simulator


def configure(home: Path, urls: Mapping[str, str], key: str = "k") -> Settings:
    home.mkdir(exist_ok=True)
    text = "".join(ENDPOINT.format(name=name, url=url) for name, url in urls.items())
    (home / "config.toml").write_text(text)
    return Settings.load({"DIALECTIC_HOME": str(home), "KEY_OF_A_TEST": key})


async def probe(settings: Settings, *names: str, patience_s: float = 30.0) -> list[Finding]:
    catalog = build_catalog(settings)
    try:
        return await probe_models(catalog, settings, names, patience_s=patience_s)
    finally:
        await catalog.close()


async def test_each_model_is_asked_once_however_many_seats_it_has(tmp_path: Path) -> None:
    async with serve({}) as simulator:
        settings = configure(tmp_path, {"a": simulator.base_url("openai")})
        found = await probe(settings, "a/m", "a/m", "offline/skeptic", "a/m")
        assert [(one.model, one.error, one.was_asked) for one in found] == [
            ("a/m", None, True),
            ("offline/skeptic", None, False),
        ]
        assert len(simulator.log.calls) == 1


async def test_an_answer_is_remembered_for_the_same_address_and_key_only(tmp_path: Path) -> None:
    async with serve({}) as simulator:
        urls = {"a": simulator.base_url("openai")}
        await probe(configure(tmp_path, urls), "a/m")
        (again,) = await probe(configure(tmp_path, urls), "a/m")
        assert not again.was_asked
        (other,) = await probe(configure(tmp_path, urls, key="another"), "a/m")
        assert other.was_asked
        assert len(simulator.log.calls) == 2
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("fault", "code", "is_unusable"),
    [
        ("401_key", "provider_auth", True),
        ("402_payment", "provider_quota", True),
        ("404_model", "provider_rejected", True),
        ("500_server", "provider_transient", False),
        ("429_retry_after", "provider_throttled", False),
    ],
)
async def test_what_a_retry_does_not_cure_makes_a_model_unusable(
    tmp_path: Path, fault: str, code: str, is_unusable: bool
) -> None:
    rule = {"endpoint": "bad", "wire": "openai", "fault": fault}
    async with serve({"endpoints": {"bad": {}}, "rules": [rule]}) as simulator:
        urls = {"a": simulator.base_url("openai"), "b": simulator.base_url("openai", "bad")}
        settings = configure(tmp_path, urls)
        good, bad = await probe(settings, "a/m", "b/m")
        assert good.error is None
        assert bad.error is not None
        assert (bad.error.code, bad.is_unusable) == (code, is_unusable)
        _, again = await probe(settings, "a/m", "b/m")
        assert again.was_asked, "only answers are remembered"


async def test_a_server_that_is_not_there_and_a_name_that_nothing_has_are_unusable(
    tmp_path: Path,
) -> None:
    settings = configure(tmp_path, {"a": "http://127.0.0.1:1/v1"})
    found = await probe(settings, "a/m", "a/other")
    assert [(one.is_unusable, one.error and one.error.code) for one in found] == [
        (True, "provider_unreachable"),
        (True, "unknown_model"),
    ]


async def test_a_slow_model_is_left_to_the_run(tmp_path: Path) -> None:
    async with serve({"default": {"fault": "silence"}}) as simulator:
        settings = configure(tmp_path, {"a": simulator.base_url("openai")})
        (found,) = await probe(settings, "a/m", patience_s=0.1)
        assert found.error is not None
        assert (found.error.reason, found.is_unusable) == ("slow", False)
