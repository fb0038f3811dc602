"""One whole run in a home of its own, which any other run repeats under the same ids.

All ids of a session follow from its own, and what models are shown follows from them: under which
letter, in which order. So two runs write the same words only if their sessions have the same id.
"""

from __future__ import annotations

import asyncio
import json
import signal
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import httpx2

from tests.golden.normal import read_frame
from tests.scenario.test_run import Home, copy_home, read_tree, wait_for
from tests.waiting import PATIENCE_S

PROMPT = "A booking service for a village hall that volunteers can run in an hour a week."
NAME = "Village hall"

# The first command would make the account with random ids. A request takes its id from the server
# that begins it; here each finds that a server began it under a known id and died, and goes on
# under that id.
PREPARE = """
insert into dialectic.users (id, name) values ('00000000-0000-4000-8000-000000000001', 'local');
insert into dialectic.tenants (id, name, kind)
values ('00000000-0000-4000-8000-000000000002', 'local', 'personal');
insert into dialectic.memberships (tenant_id, user_id, role)
select t.id, u.id, 'owner' from dialectic.tenants t, dialectic.users u;
select dialectic.make_wallet(m.tenant_id, m.user_id) from dialectic.memberships m;

create function public.begin_before() returns trigger language plpgsql as $$
begin
  new.effect_id := '00000000-0000-4000-8000-000000000003';
  insert into dialectic.idempotency_keys select new.*;
  return null;
end
$$;
create trigger begun_before before insert on dialectic.idempotency_keys
for each row when (pg_trigger_depth() = 0) execute function public.begin_before();
"""


@dataclass(frozen=True, slots=True)
class Played:
    """What a run left: files by path, entries of its export by name, frames of its events."""

    files: dict[str, bytes]
    entries: dict[str, bytes]
    frames: list[str]


def play(made_home: Path, folder: Path, models: str) -> Played:
    """Run all stages at a server that does one job at a time, and record what they left."""
    out, archive = folder / "out", folder / "export.zip"
    with copy_home(made_home, folder / "home") as home:
        asyncio.run(prepare(home))
        with serve(home) as url:
            wish = ("run", "--yes", "--json", "--models", models, "--name", NAME)
            told = home.tell("--server", url, *wish, "--out", str(out), "--", PROMPT)
            assert told.code == 0, told.stderr
            events = [json.loads(line) for line in told.stdout.splitlines()]
            frames = read_frames(f"{url}/api/v1/events?after=0", last_id=events[-1]["id"])
            exported = home.tell("export", NAME, "--out", str(archive))
            assert exported.code == 0, exported.stderr
    return Played(read_tree(out), read_entries(archive), frames)


async def prepare(home: Home) -> None:
    connection = await asyncpg.connect(home.tell("db", "url").stdout.strip())
    try:
        await connection.execute(PREPARE)
    finally:
        await connection.close()


@contextmanager
def serve(home: Home) -> Iterator[str]:
    """Serve the API at the address that is given, with a worker that does one job at a time."""
    process = home.start("serve", "--port", "0", worker_concurrency="1", lease_s="30")
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.send_signal(signal.SIGTERM)
        told = wait_for(process)
        assert told.code == 0, told.stderr
    finally:
        process.kill()


def read_frames(url: str, *, last_id: int) -> list[str]:
    """Read the frames of an event stream from its beginning until the event of a number."""
    frames = [""]
    with httpx2.stream("GET", url, timeout=PATIENCE_S) as answer:
        for line in answer.iter_lines():
            if line:
                frames[-1] += f"{line}\n"
            elif read_frame(frames[-1]).get("data", {}).get("id") == last_id:
                return frames
            else:
                frames.append("")
    raise AssertionError(f"the stream ended before event {last_id}: {frames[-1]}")


def read_entries(archive: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(archive) as opened:
        return {name: opened.read(name) for name in opened.namelist()}
