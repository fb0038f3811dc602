"""Ask models one short question each, to see that they answer before a run depends on them.

The calls are made at the same time, and are not charged to a wallet. A model that has answered is
remembered in HOME for some minutes, by a hash of its address, name and key.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from dialectic.atomic_write import PRIVATE_MODE, replacing
from dialectic.core.models.messages import Message, Request, Role
from dialectic.core.models.model import ModelCard
from dialectic.errors import (
    ConfigurationError,
    DialecticError,
    ProviderAuth,
    ProviderMalformed,
    ProviderQuota,
    ProviderRejected,
    ProviderTransient,
    ProviderUnreachable,
    UnknownModel,
)
from dialectic.providers.base import Provider
from dialectic.providers.catalog import Catalog
from dialectic.settings import Settings

FILE = "answered.json"
REMEMBERED_S = 600.0
# A model that has not answered by then may only be slow: the run has its own limits.
PATIENCE_S = 30.0

PROMPT = "Reply with the single word OK."
SYSTEM = "Answer in a few words."
OUTPUT_TOKENS = 16
# A reasoning model would use up fewer tokens before its first word.
THOUGHT_TOKENS = 1_000

# Errors that a retry does not cure. Others are left to the run, which retries.
LASTING = (
    *(ConfigurationError, UnknownModel),
    *(ProviderAuth, ProviderMalformed, ProviderQuota, ProviderRejected, ProviderUnreachable),
)


@dataclass(frozen=True, slots=True)
class Finding:
    """What a short question to a model showed."""

    model: str
    elapsed_s: float
    # None: it answered.
    error: DialecticError | None = None
    # False: it is offline, or answered a short time ago.
    was_asked: bool = True

    @property
    def is_unusable(self) -> bool:
        return isinstance(self.error, LASTING)


def build_question(card: ModelCard) -> Request:
    """Build a request whose answer costs next to nothing."""
    cap = THOUGHT_TOKENS if card.is_reasoning else OUTPUT_TOKENS
    return Request(
        model=card.name,
        # Real calls have one; without it a server's chat template may add its own.
        system=SYSTEM,
        messages=(Message(Role.USER, PROMPT),),
        max_output_tokens=min(cap, card.max_output_tokens),
    )


async def probe_models(
    catalog: Catalog, settings: Settings, names: Iterable[str], *, patience_s: float = PATIENCE_S
) -> list[Finding]:
    """Ask each model once, all at the same time; offline models need no question."""
    now = time.time()
    remembered = _load(settings.home, now)

    async def probe(name: str) -> Finding:
        started = time.monotonic()
        try:
            card = catalog.load_card(name)
            if catalog.find_endpoint(card) is None:
                return Finding(name, 0.0, was_asked=False)
            # The system's keyring may ask for a password first.
            if await asyncio.to_thread(_identify, catalog, settings, card) in remembered:
                return Finding(name, 0.0, was_asked=False)
            await ask_shortly(catalog.load_provider(card), card, patience_s=patience_s)
        except DialecticError as error:
            return Finding(name, time.monotonic() - started, error)
        return Finding(name, time.monotonic() - started)

    found = await asyncio.gather(*(probe(name) for name in dict.fromkeys(names)))
    answered = [one.model for one in found if one.error is None and one.was_asked]
    if answered:
        cards = map(catalog.load_card, answered)
        new = {_identify(catalog, settings, card): now for card in cards}
        _save(settings.home, remembered | new)
    return found


async def ask_shortly(
    provider: Provider, card: ModelCard, *, patience_s: float = PATIENCE_S
) -> None:
    """Ask a model the short question; raise if it does not answer."""
    pieces: list[str] = []
    try:
        async with asyncio.timeout(patience_s):
            await provider.complete(card, build_question(card), pieces.append)
    except TimeoutError:
        if not pieces:
            raise ProviderTransient(
                f"{card.name} has not answered a short question within {patience_s:.0f} s.",
                reason="slow",
                subject=card.name,
            ) from None


def _identify(catalog: Catalog, settings: Settings, card: ModelCard) -> str:
    """Compute what must be the same for an earlier answer to count."""
    endpoint = catalog.find_endpoint(card)
    assert endpoint is not None, "an offline model is not asked"
    key = settings.find_key(endpoint)
    parts = (endpoint.base_url, card.sent_name, "" if key is None else key.reveal())
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _load(home: Path, now: float) -> dict[str, float]:
    """Load what was remembered; an unreadable file counts as empty."""
    try:
        table = json.loads((home / FILE).read_bytes())
        return {name: at for name, at in table.items() if 0 <= now - at < REMEMBERED_S}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return {}


def _save(home: Path, remembered: dict[str, float]) -> None:
    """Remember the answers; if that fails, the models are asked again next time."""
    try:
        home.mkdir(parents=True, exist_ok=True)
        with replacing(home / FILE, mode=PRIVATE_MODE) as file:
            file.write(json.dumps(remembered).encode())
    except OSError:
        return
