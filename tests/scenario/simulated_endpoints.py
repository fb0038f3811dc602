"""Models that answer over HTTP: endpoints that lead to a simulator, and time that passes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from dialectic.core.access import Secret
from dialectic.core.models.endpoint import Endpoint, WireFormat
from dialectic.core.models.model import ModelCard
from dialectic.postgres import embedded
from dialectic.providers.catalog import Catalog, Providers
from dialectic_simulator import Simulator, open_simulator
from tests.scenario.whole_session import Installation, open_installation

WIRES = ("openai", "anthropic", "google")
# Nothing needs a vocabulary that takes half a second to load.
PLAIN_TOKENS = {"*": {"tokenizer": "chars:4"}}
KEY = "sk-key-of-a-test"

_DATED = (
    "requests_until tokens_until line_until closed_until rate_cut_at opened_at probe_at "
    "key_refused_at"
).split()


def build_card(name: str, **changes: Any) -> ModelCard:
    """Build the facts about a model `endpoint/model`."""
    facts: dict[str, Any] = {
        "context_window_tokens": 64_000,
        "max_input_tokens": 60_000,
        "max_output_tokens": 2_000,
        "input_credits_per_token": Decimal(0),
        "output_credits_per_token": Decimal(0),
        "tokenizer": "chars:4",
    }
    return ModelCard(name=name, **facts | changes)


def build_endpoint(simulator: Simulator, wire: str, name: str, **options: Any) -> Endpoint:
    """Build an endpoint of the simulator's script, asked in the words of a wire."""
    given = {"base_url": simulator.base_url(wire, name), "api_key_env": "KEY_OF_A_TEST"}
    return Endpoint(name=name, kind=WireFormat(wire), **given | options)


def build_remote_catalog(endpoints: Iterable[Endpoint], **facts: Any) -> Catalog:
    """Build a catalogue in which each endpoint has one model, `m`."""
    named = {endpoint.name: endpoint for endpoint in endpoints}
    cards = {f"{name}/m": build_card(f"{name}/m", **facts) for name in named}
    providers = Providers({}, {name: (end, Secret(KEY)) for name, end in named.items()})
    return Catalog(cards=cards, providers=providers, endpoints=named)


@asynccontextmanager
async def open_remote_installation(
    server: embedded.Server,
    template: str,
    home: Path,
    script: Mapping[str, Any],
    wires: Mapping[str, str],
    **facts: Any,
) -> AsyncIterator[tuple[Installation, Simulator]]:
    """Open a place to play, whose endpoints (by name, with their wires) a simulator answers for."""
    async with open_simulator({"models": PLAIN_TOKENS, **script}) as simulator:
        ends = [build_endpoint(simulator, wire, name) for name, wire in wires.items()]
        catalog = build_remote_catalog(ends, **facts)
        async with open_installation(server, template, home, catalog) as installation:
            yield installation, simulator
            await catalog.close()


@contextmanager
def no_proxies(**proxies: str) -> Iterator[None]:
    """Let this process know no proxies but these."""
    with pytest.MonkeyPatch.context() as environment:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
            environment.delenv(name, raising=False)
            environment.delenv(name.lower(), raising=False)
        for name, value in proxies.items():
            environment.setenv(name, value)
        yield


async def pass_time(
    installation: Installation, job_id: UUID, endpoint: str, seconds: float
) -> None:
    """Let time pass for a job and its endpoint: all that is dated moves into the past."""
    shifted = ", ".join(f"{name} = {name} - make_interval(secs => $2)" for name in _DATED)
    async with installation.admin.transaction():
        await installation.admin.execute(
            f"update dialectic_endpoints set {shifted} where endpoint = $1", endpoint, seconds
        )
        await installation.admin.execute(
            "update dialectic_generation_jobs set run_at = run_at - make_interval(secs => $2),"
            " throttled_since = throttled_since - make_interval(secs => $2) where id = $1",
            job_id,
            seconds,
        )
        await installation.admin.execute(
            "update queue.pgqueuer set execute_after = execute_after - make_interval(secs => $2)"
            " where convert_from(payload, 'UTF8') like '% ' || $1::text",
            str(job_id),
            seconds,
        )
