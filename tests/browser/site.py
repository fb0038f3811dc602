"""A server with a worker and a simulator, in a thread of its own, that browser tests share."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Coroutine, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID, uuid4

import httpx2

from dialectic.api.server import Running, open_server
from dialectic.core.access import Scope, Secret
from dialectic.db.pool import Address
from dialectic.providers.catalog import Catalog, Entry, Origin, Providers, build_catalog
from dialectic.providers.offline.provider import OfflineProvider
from dialectic.settings import Settings
from dialectic.worker.worker import Worker
from dialectic_simulator import Simulator, open_simulator
from tests.browser import planted
from tests.scenario.api_in_process import Api, ApiUser, open_api
from tests.scenario.simulated_endpoints import (
    KEY,
    PLAIN_TOKENS,
    build_card,
    build_endpoint,
)
from tests.waiting import PATIENCE_S

T = TypeVar("T")
# Endpoints of the simulator: `simulator.hold("alpha")` keeps the answers of `alpha/m` back.
NAMES = ("alpha", "beta", "gamma")
# Endpoints with a manner of their own: one stops in the middle while its gate is held, one rejects
# every key, one has no credit left, one rejects each request once, and the first calls of two fail.
# An endpoint that asks for patience is called less for minutes, so those two have one test alone.
SPECIAL: dict[str, dict[str, Any]] = {
    "halfway": {"gate": "middle", "gate_after_tokens": 120, "chunk_tokens": 10},
    "broken": {"fault": "401_key"},
    "unpaid": {},
    "fickle": {},
    "gusty": {},
    "rainy": {},
}
# Two more write texts whose claims, critics and fates are known (`tests.browser.planted`).
SPECIAL |= planted.build_endpoints()
RULES: list[dict[str, Any]] = [
    {"endpoint": "fickle", "tries": "1", "fault": "401_key"},
    {"endpoint": "unpaid", "wire": "openai", "fault": "402_payment"},
    {"endpoint": "gusty", "calls": "1", "fault": "429_retry_after", "retry_after": "1"},
    {"endpoint": "gusty", "calls": "2", "fault": "close_mid_stream"},
    {"endpoint": "rainy", "calls": "1", "fault": "500_server"},
    {"endpoint": "rainy", "calls": "2", "cut_after_tokens": 60},
    *planted.list_rules(),
]
PROMPT = "A booking service for a village hall that volunteers can run in an hour a week."


@dataclass(slots=True)
class Site:
    """A server that answers and works."""

    url: str
    api: Api
    simulator: Simulator
    loop: asyncio.AbstractEventLoop
    # Replaced when the server is started again.
    running: Running

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine where the server lives, and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(PATIENCE_S)

    def add_colleagues(self) -> tuple[Person, Person]:
        """Add two users who work in one organisation."""
        first, second = self.add_user(), self.add_user()
        place = UUID(first.ask("POST", "/organizations", {"name": f"Hall {uuid4().hex[:8]}"})["id"])
        inside = Person(self, self.call(self.api.enter(first.user, place)))
        member = {"name": second.ask("GET", "/me")["name"], "role": "member"}
        inside.ask("PUT", "/members", member)
        return inside, Person(self, self.call(self.api.enter(second.user, place)))

    def add_user(
        self, name: str = "", scopes: set[Scope] | None = None, *, is_funded: bool = True
    ) -> Person:
        """Add a user with a token, a tenant of their own and a dollar."""
        found: ApiUser = self.call(self.api.let_in(name or f"Person {uuid4().hex[:8]}", scopes))
        if is_funded:
            self.call(self.api.fund(found))
        return Person(self, found)


@dataclass(frozen=True, slots=True)
class Person:
    """A user of the site, who also acts through the API, like a program or another device."""

    site: Site
    user: ApiUser

    @property
    def token(self) -> str:
        return self.user.token

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request; return what it answers."""
        headers = {"Authorization": f"Bearer {self.token}"}
        url = f"{self.site.url}/api/v1{path}"
        answer = httpx2.request(method, url, json=body, headers=headers, timeout=PATIENCE_S)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    def sign_in(self) -> dict[str, Any]:
        """Open a browser session; return its cookie as a browser takes it."""
        headers = {"Authorization": f"Bearer {self.token}"}
        answer = httpx2.post(f"{self.site.url}/api/v1/browser-session", headers=headers)
        name, _, rest = answer.headers["set-cookie"].partition("=")
        value = rest.partition(";")[0]
        return {"name": name, "value": value, "url": self.site.url, "httpOnly": True}

    def make_session(
        self, name: str = "Village hall", prompt: str = PROMPT, **wishes: Any
    ) -> dict[str, Any]:
        """Make a project with a session of simulated models; another prompt is another call."""
        project = self.ask("POST", "/projects", {"prompt": prompt, "name": name})
        wish = {"models": ["alpha/m", "beta/m"], "until": "thesis", **wishes}
        found: dict[str, Any] = self.ask("POST", f"/projects/{project['id']}/sessions", wish)
        return found

    def start(self, session: dict[str, Any]) -> None:
        self.ask("POST", f"/sessions/{session['id']}/generate")


def build_site_catalog(home: Path, simulator: Simulator) -> Catalog:
    """Build a catalogue with the offline models and those that the simulator answers for."""
    offline = build_catalog(Settings(home=home))
    names = (*NAMES, *SPECIAL)
    ends = {name: build_endpoint(simulator, "openai", name) for name in names}
    prices = {
        "input_credits_per_token": Decimal(1),
        "output_credits_per_token": Decimal(2),
    }
    cards = {f"{name}/m": build_card(f"{name}/m", **prices) for name in names}
    providers = Providers(
        {"offline": OfflineProvider()}, {name: (end, Secret(KEY)) for name, end in ends.items()}
    )
    return replace(
        offline,
        cards={**offline.cards, **cards},
        entries=(*offline.entries, *(Entry(card, Origin.CONFIG) for card in cards.values())),
        providers=providers,
        endpoints=ends,
    )


@contextmanager
def open_site(address: Address, home: Path, **settings: Any) -> Iterator[Site]:
    """Open a server on a database, for tests outside its event loop."""
    told: queue.Queue[Any] = queue.Queue()

    async def stand() -> None:
        leave = asyncio.Event()
        async with AsyncExitStack() as stack:
            endpoints: dict[str, Any] = {**{name: {} for name in NAMES}, **SPECIAL}
            script: dict[str, Any] = {
                "models": PLAIN_TOKENS,
                "endpoints": endpoints,
                "rules": RULES,
            }
            script |= {"keep_bodies": True}
            simulator = await stack.enter_async_context(open_simulator(script))
            catalog = build_site_catalog(home, simulator)
            stack.push_async_callback(catalog.close)
            api = await stack.enter_async_context(open_api(address, home, catalog, **settings))
            worker = Worker(api.worker_engine, concurrency=8)
            working = asyncio.create_task(worker.run())
            running = await stack.enter_async_context(
                open_server(api.app, api.hub, host="127.0.0.1", port=0)
            )
            loop = asyncio.get_running_loop()
            told.put((Site(running.url, api, simulator, loop, running), leave))
            await leave.wait()
            for name in (*NAMES, "middle"):
                simulator.release(name)
            worker.stop()
            await working

    def run() -> None:
        try:
            asyncio.run(stand())
        except BaseException as error:
            told.put(error)
            raise

    thread = threading.Thread(target=run)
    thread.start()
    found = told.get(timeout=PATIENCE_S)
    if isinstance(found, BaseException):
        raise found
    site, leave = found
    try:
        yield site
    finally:
        site.loop.call_soon_threadsafe(leave.set)
        thread.join(PATIENCE_S)
