"""Several servers and workers on one PostgreSQL and one S3 endpoint; one of each is killed.

Sessions are begun over HTTP, once. Their database and their bucket are copied, so that a run that
nobody disturbs and one whose servers and workers die do the same work under the same ids. What can
be exported at the end must be the same, path by path and byte by byte, and the books must be right.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import asyncpg

from chaos import checks
from chaos.fleet_caller import Caller, Export, Follower
from chaos.fleet_site import Site
from chaos.lab import Stuck, prepare_home, temporary_home
from chaos.resume import MODELS, differ
from chaos.sabotage import NONE, Sabotage
from chaos.verdict import Report
from dialectic.engine import DATABASE, SUPERUSER
from dialectic.pipeline.outline import list_calls
from dialectic.postgres import embedded
from dialectic.processes.loader import load_process
from tests.s3_server import serving_objects

MADE, UNDISTURBED, DISTURBED = "made", "undisturbed", "disturbed"
# What must be true of a database in which all work has ended.
SOUND = (
    checks.UNFINISHED,
    checks.STAGES_OPEN,
    checks.NOT_ONE_CONTRIBUTION,
    checks.NOT_THE_SAME_DOCUMENT,
    checks.HALF_A_TURN,
    checks.NOT_TOLD_ONCE,
    checks.LOST_WITHOUT_RECORD,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How many sessions of how many models, how far they go, how often one of each is killed."""

    sessions: int
    models: int
    until: str = ""
    kills: int = 1
    servers: int = 2
    workers: int = 3
    patience_s: float = 150.0


SMALL = Size(sessions=3, models=1, until="thesis", workers=2)
SABOTAGED = Size(sessions=2, models=1, until="thesis", workers=2, patience_s=25.0)
SELECTION = Size(sessions=20, models=2, until="antithesis", kills=2)
FULL = Size(sessions=20, models=3, kills=6, patience_s=600.0)


@dataclass(slots=True)
class Ending:
    """What a run has left."""

    exports: dict[str, Export] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    audit: int | None = None
    kills: int = 0


@dataclass(slots=True)
class Fleet:
    """The database server all sites are on, and what is done there."""

    report: Report
    size: Size
    sabotage: Sabotage
    folder: Path
    server: embedded.Server
    rng: Random
    token: str = ""
    # Each project with its only session.
    sessions: dict[str, str] = field(default_factory=dict)

    @property
    def last_stage(self) -> str:
        return self.size.until or load_process("standard").order[-1].slug

    @property
    def calls(self) -> int:
        """How many calls all sessions together make."""
        process = load_process("standard")
        each = list_calls(process, models=self.size.models, until=self.last_stage)
        return len(each) * self.size.sessions

    @asynccontextmanager
    async def open_site(self, name: str) -> AsyncIterator[Site]:
        """Serve a site's bucket; leave none of its processes behind."""
        with serving_objects(self.folder / name) as objects:
            url = self.server.url(user=SUPERUSER, database=name)
            site = Site(name, self.folder, url, objects, self.sabotage, self.report.seed)
            try:
                yield site
            finally:
                await site.end()

    async def make_sessions(self) -> None:
        """Make a user, and sessions over HTTP that have not begun."""
        await self._create(MADE, "template0" if self.report.made_home is None else DATABASE)
        async with self.open_site(MADE) as site:
            code, said = await site.command("user", "add", "anna", "--token")
            self.token = said.split()[-1] if code == 0 else ""
            if not self.token:
                raise Stuck(f"no user was made: {said[-500:]}")
            await site.start_servers(1)
            async with Caller(site, self.token, self.rng) as caller:
                made = [self._make_session(caller, n) for n in range(self.size.sessions)]
                self.sessions = dict(await asyncio.gather(*made))
        self.report.say(f"{len(self.sessions)} sessions are made")

    async def _make_session(self, caller: Caller, number: int) -> tuple[str, str]:
        prompt = f"Order {number + 1}: a small library lends tools to its neighbours."
        project = await caller.post("/projects", {"prompt": prompt})
        wish: dict[str, Any] = {"models": MODELS[: self.size.models]}
        if self.size.until:
            wish["until"] = self.size.until
        session = await caller.post(f"/projects/{project['id']}/sessions", wish)
        return project["id"], session["id"]

    async def copy(self, name: str) -> None:
        """Copy the database and the bucket of what was made; nobody uses either."""
        await self._create(name, MADE)
        await asyncio.to_thread(shutil.copytree, self.folder / MADE, self.folder / name)

    async def _create(self, name: str, template: str) -> None:
        connection = await asyncpg.connect(self.server.url(user=SUPERUSER, database="postgres"))
        try:
            await connection.execute(f"create database {name} template {template}")
        finally:
            await connection.close()

    # -- one run ----------------------------------------------------------------------------------

    async def run(self, site: Site, kills: int) -> Ending:
        """Let all sessions come to their end, kill on the way, and look at what is left."""
        ending = Ending()
        async with Caller(site, self.token, self.rng) as caller:
            follower = Follower(caller, set(self.sessions.values()), self.last_stage)
            following = asyncio.create_task(follower.follow())
            killing = asyncio.create_task(self._kill(site, follower, kills, ending))
            try:
                async with asyncio.timeout(self.size.patience_s):
                    asked = [
                        caller.post(f"/sessions/{session_id}/generate", {})
                        for session_id in self.sessions.values()
                    ]
                    await asyncio.gather(*asked)
                    await asyncio.wait({following})
            except TimeoutError:
                left = len(follower.open)
                ending.faults.append(f"{left} sessions came to no end: {site.read_logs()[-300:]}")
            finally:
                for task in (following, killing):
                    task.cancel()
                await asyncio.wait({following, killing})
            ending.told = follower.faults
            ending.faults += caller.unanswered
            if not ending.faults:
                await self._collect(site, caller, ending)
        self.report.say(
            f"{site.name}: {follower.count} events over {follower.lines} lines, "
            f"{caller.lost} requests lost their server"
        )
        return ending

    async def _kill(self, site: Site, follower: Follower, kills: int, ending: Ending) -> None:
        """Kill one server and one worker, the first time when the first document has come.

        All but the last are replaced.
        """
        total = self.calls
        moments = [1, *sorted(self.rng.randint(total // 10, total * 7 // 10) for _ in range(kills))]
        for number, moment in enumerate(moments[:kills], start=1):
            await follower.wait_for(moment)
            dead = [self.rng.choice(site.servers), self.rng.choice(site.workers)]
            for process in dead:
                process.kill()
            ending.kills += 1
            self.report.say(f"killed {' and '.join(p.name for p in dead)} at event {moment}")
            if number < kills:
                await site.replace(*dead)

    async def _collect(self, site: Site, caller: Caller, ending: Ending) -> None:
        exports = [caller.export(project_id) for project_id in self.sessions]
        for project_id, export in zip(self.sessions, await asyncio.gather(*exports), strict=True):
            ending.exports[project_id] = export
        ending.audit, said = await site.command("wallet", "verify")
        if ending.audit:
            ending.faults.append(f"`wallet verify`: {said[-300:]}")
        connection = await asyncpg.connect(site.database_url)
        try:
            for query in SOUND:
                ending.faults += [row[0] for row in await connection.fetch(query)]
        finally:
            await connection.close()
        ending.faults += site.find_faults()


async def run(report: Report, size: Size, sabotage: Sabotage = NONE) -> None:
    async with temporary_home(report) as folder:
        await prepare_home(report, folder / "home")
        membership = embedded.join_server(folder / "home")
        server = await asyncio.to_thread(membership.__enter__)
        try:
            fleet = Fleet(report, size, sabotage, folder, server, Random(report.seed))
            await fleet.make_sessions()
            for name in (UNDISTURBED, DISTURBED):
                await fleet.copy(name)
            async with fleet.open_site(UNDISTURBED) as site:
                await asyncio.gather(site.start_servers(1), site.start_workers(1))
                undisturbed = await fleet.run(site, 0)
            async with fleet.open_site(DISTURBED) as site:
                await asyncio.gather(
                    site.start_servers(size.servers), site.start_workers(size.workers)
                )
                disturbed = await fleet.run(site, size.kills)
        finally:
            await asyncio.to_thread(membership.__exit__, None, None, None)
    _report(report, fleet, undisturbed, disturbed)


def _report(report: Report, fleet: Fleet, undisturbed: Ending, disturbed: Ending) -> None:
    size = fleet.size
    report.note("sessions", f"{size.sessions} of {size.models} models, {fleet.calls} calls")
    report.note("processes", f"{size.servers} servers, {size.workers} workers")
    report.note("files of an export", _count(undisturbed.exports.values()))
    report.expect_coverage("times one of each was killed", disturbed.kills, size.kills)
    report.expect("sessions exported", len(disturbed.exports), size.sessions)
    report.expect_none("faults of the undisturbed run", [*undisturbed.faults, *undisturbed.told])
    report.expect_none("faults at the end", disturbed.faults)
    report.expect_none("events missed, repeated or out of order", disturbed.told)
    report.expect_none(
        "files that differ from their manifest",
        [fault for export in disturbed.exports.values() for fault in export.faults],
    )
    report.expect_none(
        "manifests that differ from an undisturbed run",
        [
            f"{project_id}: {thing}"
            for project_id, wanted in undisturbed.exports.items()
            if project_id in disturbed.exports
            for thing in differ(wanted.files, disturbed.exports[project_id].files)
        ],
    )
    report.expect("exit code of `wallet verify`", disturbed.audit, 0)


def _count(exports: Sequence[Export] | Any) -> str:
    counts = [len(export.files) for export in exports]
    return f"{min(counts, default=0)} to {max(counts, default=0)}"
