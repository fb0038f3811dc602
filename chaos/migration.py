"""`dialectic db migrate` is killed in the middle: the first of a cluster, or a later version's.

The next one must complete, whether it starts afterwards or runs at the same time and waits for the
first, and the schema it leaves must be the same to the last grant as an undisturbed one. A later
version is this one with migrations added, and upgrades the database of this one.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import subprocess
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from random import Random

import asyncpg

from chaos.lab import ROOT, Stuck, build_environment, temporary_home
from chaos.later import make_later_version
from chaos.sabotage import NONE, Sabotage, build_command
from chaos.verdict import Report
from dialectic.db.pool import APP_ROLE, OWNER_ROLE, WORKER_ROLE
from dialectic.engine import DATABASE, SUPERUSER
from dialectic.errors import EmbeddedServerError
from dialectic.postgres import embedded

PATIENCE_S = 60.0
# What a later version adds: tables that take long enough to fill for a kill to meet them.
LATER = {
    f"{number}_later.sql": f"""
create table later_{number} (tenant_id uuid references tenants (id), number integer primary key);
insert into later_{number} select null, n from generate_series(1, 40000) n;
alter table later_{number} add column is_even boolean generated always as (number % 2 = 0) stored;
create index even_{number} on later_{number} (number) where is_even;
"""
    for number in range(9001, 9007)
}
# A migration that is at work holds the one advisory lock of the database.
IS_AT_WORK = """
select exists (select from pg_locks l join pg_database d on d.oid = l.database
  where l.locktype = 'advisory' and l.granted and d.datname = $1)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How many migrations are killed."""

    kills: int


SMALL = Size(kills=1)
SABOTAGED = Size(kills=6)
SELECTION = Size(kills=6)
FULL = Size(kills=20)


@dataclass(slots=True)
class Place:
    """A home with a running server, seen by its superuser, and a later version of the product."""

    report: Report
    home: Path
    later: Path
    server: embedded.Server
    sabotage: Sabotage
    rng: Random
    half_done: Counter[str]

    def start(self, *, is_later: bool) -> subprocess.Popen[str]:
        """Start one migration, of this version or of a later one."""
        environment = build_environment(self.home)
        if is_later:
            environment["PYTHONPATH"] = str(self.later)
        return subprocess.Popen(
            build_command(self.sabotage, "db", "migrate"),
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    async def connect(self, database: str) -> asyncpg.Connection[asyncpg.Record]:
        connection: asyncpg.Connection[asyncpg.Record] = await asyncpg.connect(
            self.server.url(user=SUPERUSER, database=database), timeout=5.0
        )
        return connection

    async def prepare(self, *, is_later: bool) -> None:
        """Leave a cluster on which no version has run, or only this one if a later one is next."""
        await self._clear()
        if is_later:
            code, text = await _finish(self.start(is_later=False))
            if code != 0:
                raise Stuck(text)

    async def _clear(self) -> None:
        admin = await self.connect("postgres")
        try:
            await admin.execute(f"drop database if exists {DATABASE} with (force)")
            for role in (APP_ROLE, WORKER_ROLE, OWNER_ROLE):
                await admin.execute(f"drop role if exists {role}")
        finally:
            await admin.close()

    async def wait_for_migration(self) -> None:
        admin = await self.connect("postgres")
        try:
            give_up_at = time.monotonic() + PATIENCE_S
            while not await admin.fetchval(IS_AT_WORK, DATABASE):
                if time.monotonic() > give_up_at:
                    raise Stuck("the migration did not begin")
                await asyncio.sleep(0.002)
        finally:
            await admin.close()

    async def describe(self) -> tuple[str, str]:
        """Describe the schema: how far it has come, and a hash over all of it."""
        connection = await self.connect(DATABASE)
        try:
            rows = await connection.fetch(EVERYTHING)
            digest = hashlib.sha256("\n".join(str(row[0]) for row in rows).encode()).hexdigest()
            try:
                applied = await connection.fetchval(
                    "select count(*) from dialectic.schema_migrations"
                )
            except asyncpg.PostgresError:
                return "nothing", digest
            return f"{applied} recorded", digest
        finally:
            await connection.close()


# Every object of the two schemas in words, with who may do what to it.
EVERYTHING = """
  with ours as (
    select n.oid, n.nspname from pg_namespace n where n.nspname in ('dialectic', 'queue')
  )
  select 'schema ' || o.nspname || ' ' || (
    select string_agg(a::text, ',' order by a::text) from unnest(n.nspacl) a)
  from ours o join pg_namespace n on n.oid = o.oid
  union all
  select concat_ws(' ', 'column', c.oid::regclass, c.relrowsecurity, a.attname,
    format_type(a.atttypid, a.atttypmod), a.attnotnull, pg_get_expr(d.adbin, d.adrelid))
  from pg_class c join ours o on o.oid = c.relnamespace
  join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
  left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
  where c.relkind in ('r', 'v', 'S')
  union all
  select concat_ws(' ', 'rights', c.oid::regclass, (
    select string_agg(x::text, ',' order by x::text) from unnest(c.relacl) x))
  from pg_class c join ours o on o.oid = c.relnamespace
  union all
  select concat_ws(' ', 'constraint', k.conrelid::regclass, k.conname, pg_get_constraintdef(k.oid))
  from pg_constraint k join ours o on o.oid = k.connamespace
  union all
  select 'index ' || i.indexdef from pg_indexes i join ours o on o.nspname = i.schemaname
  union all
  select concat_ws(' ', 'function', md5(pg_get_functiondef(p.oid)), p.oid::regprocedure, (
    select string_agg(x::text, ',' order by x::text) from unnest(p.proacl) x))
  from pg_proc p join ours o on o.oid = p.pronamespace where p.prokind = 'f'
  union all
  select 'trigger ' || pg_get_triggerdef(t.oid)
  from pg_trigger t join pg_class c on c.oid = t.tgrelid join ours o on o.oid = c.relnamespace
  where not t.tgisinternal
  union all
  select concat_ws(' ', 'policy', p.tablename, p.policyname, p.cmd, p.qual, p.with_check)
  from pg_policies p join ours o on o.nspname = p.schemaname
  union all
  select concat_ws(' ', 'value', e.enumtypid::regtype, e.enumlabel, e.enumsortorder)
  from pg_enum e join pg_type t on t.oid = e.enumtypid join ours o on o.oid = t.typnamespace
  union all
  select concat_ws(' ', 'role', r.rolname, r.rolcanlogin, r.rolbypassrls, r.rolinherit)
  from pg_roles r where starts_with(r.rolname, 'dialectic_')
  union all
  select concat_ws(' ', 'move', m.from_status, m.to_status) from dialectic.dialectic_job_moves m
  where to_regclass('dialectic.dialectic_job_moves') is not null
  order by 1
"""


async def run(report: Report, size: Size, sabotage: Sabotage = NONE) -> None:
    async with temporary_home(report) as home:
        later = await asyncio.to_thread(make_later_version, home / "later", LATER)
        membership = embedded.join_server(home)
        server = await asyncio.to_thread(membership.__enter__)
        try:
            place = Place(report, home, later, server, sabotage, Random(report.seed), Counter())
            await _kill_migrations(place, size)
        finally:
            with contextlib.suppress(EmbeddedServerError):
                await asyncio.to_thread(membership.__exit__, None, None, None)


async def _kill_migrations(place: Place, size: Size) -> None:
    report = place.report
    # The first migrations of a cluster, and those of a later version.
    undisturbed = [await _migrate_undisturbed(place, is_later=later) for later in (False, True)]
    failures, differences, repeats, killed = [], [], [], 0
    for number in range(size.kills):
        is_later, at_once = number % 2 == 1, number % 4 >= 2
        duration_s, wanted = undisturbed[is_later]
        await place.prepare(is_later=is_later)
        moment_s = place.rng.uniform(0.0, duration_s * 0.9)
        first, second, progress = await _kill_one(
            place, moment_s, is_later=is_later, at_once=at_once
        )
        killed += first == -9
        place.half_done[progress] += 1
        what = f"{'an upgrade' if is_later else 'a first one'} killed {moment_s * 1000:.0f} ms in"
        report.say(
            f"{what}, {progress}; the next one, {'at the same time' if at_once else 'afterwards'}, "
            f"ended with {second[0]}"
        )
        if second[0] != 0:
            failures.append(second[1].strip()[-300:])
            continue
        if (await place.describe())[1] != wanted:
            differences.append(f"{what}, {progress}")
        code, text = await _finish(place.start(is_later=is_later))
        if code != 0 or "applied" in text:
            repeats.append(text)
    report.note("schemas found after kills", dict(place.half_done))
    report.expect_coverage("migrations that died in the middle", killed, max(1, size.kills // 2))
    report.expect_none("next migrations that did not complete", failures)
    report.expect_none("schemas that differ from an undisturbed one", differences)
    report.expect_none("migrations applied a second time", repeats)


async def _migrate_undisturbed(place: Place, *, is_later: bool) -> tuple[float, str]:
    """Measure how long a migration works once it has begun, and describe what it leaves."""
    what = "an undisturbed upgrade" if is_later else "an undisturbed migration"
    await place.prepare(is_later=is_later)
    process = place.start(is_later=is_later)
    await place.wait_for_migration()
    started = time.monotonic()
    code, text = await _finish(process)
    place.report.expect(what, code, 0)
    if code != 0:
        raise Stuck(text)
    duration_s = time.monotonic() - started
    place.report.note(f"{what} takes", f"{duration_s * 1000:.0f} ms")
    return duration_s, (await place.describe())[1]


async def _kill_one(
    place: Place, moment_s: float, *, is_later: bool, at_once: bool
) -> tuple[int, tuple[int, str], str]:
    """Kill a migration; return how it ended, how the next one ended, and how far the first came."""
    first = place.start(is_later=is_later)
    try:
        await place.wait_for_migration()
        second = place.start(is_later=is_later) if at_once else None
        await asyncio.sleep(moment_s)
        first.kill()
        code = await asyncio.to_thread(first.wait)
        progress = "with another at work" if second else await _look(place)
        return code, await _finish(second or place.start(is_later=is_later)), progress
    finally:
        first.kill()
        first.communicate()


async def _look(place: Place) -> str:
    try:
        return (await place.describe())[0]
    except asyncpg.PostgresError:
        return "nothing"


async def _finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    try:
        text, _ = await asyncio.to_thread(process.communicate, None, PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        text, _ = await asyncio.to_thread(process.communicate)
        return -1, f"not within {PATIENCE_S:g} s: {text}"
    return process.returncode, text
