"""The product's command line under observation, run in a process of its own.

What is added is that a call takes a while and is written down before it is made, with the id of its
answer when that has come. The answers are the product's own, to the byte.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from chaos import sabotage
from chaos.patches import put
from chaos.worker import append_line
from dialectic.core.models.messages import Reply, Request
from dialectic.core.models.model import ModelCard
from dialectic.providers.base import OnText, Provider
from dialectic.providers.catalog import Catalog, build_catalog
from dialectic.providers.offline.provider import OfflineProvider, seeded_latency
from dialectic.settings import Settings

CALLED, ANSWERED = "called", "answered"
# Long enough to die in the middle of a call, short enough for many runs.
LATENCY_S = 0.03


@dataclass(frozen=True, slots=True)
class WitnessedProvider:
    """Answers as another provider does, and leaves a trace of every call on disk."""

    inner: Provider
    calls: Path

    async def complete(self, card: ModelCard, request: Request, on_text: OnText) -> Reply:
        key = sha256(repr((card.name, request)).encode()).hexdigest()[:16]
        append_line(self.calls, f"{CALLED} {key}")
        reply = await self.inner.complete(card, request, on_text)
        append_line(self.calls, f"{ANSWERED} {key} {reply.request_id}")
        return reply


def build_command(broken: sabotage.Sabotage, calls: Path, seed: int, *arguments: str) -> list[str]:
    """Build the command that runs the product under observation, broken as said."""
    own = [broken.name, str(calls), str(seed)]
    return [sys.executable, "-m", "chaos.witness", *own, *arguments]


def observe(calls: Path, seed: int) -> None:
    """Let this process write down its calls."""
    from dialectic.providers import catalog

    inner = OfflineProvider(latency_s=seeded_latency(LATENCY_S, seed=seed))

    def build_observed(settings: Settings) -> Catalog:
        return replace(
            build_catalog(settings), providers={"offline": WitnessedProvider(inner, calls)}
        )

    put(catalog, "build_catalog", build_observed)


def main() -> None:
    """Observe and break the product in this process, and run its command line."""
    from dialectic.cli.main import main as run_product

    name, calls, seed = sys.argv[1:4]
    del sys.argv[1:4]
    observe(Path(calls), int(seed))
    sabotage.load(name).patch()
    run_product()


if __name__ == "__main__":
    main()
