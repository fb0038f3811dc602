"""Children of one parent end at the same moment: the parent must wake once, not never, not twice.

Each child ends on a connection of its own. All of them stand at a lock in the server and are let
go together, so that their transactions overlap. No worker runs and nothing sweeps: what is lost
here stays lost, and is seen. A second part does the same to jobs that begin to wait for another
job at the moment at which that one ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from uuid import UUID

import asyncpg

from chaos.lab import Lab, Stuck, open_lab
from chaos.sabotage import NONE, Sabotage
from chaos.verdict import Report
from dialectic.domain.job import PlanPayload
from dialectic.store.database import COLLISIONS, WORKER_ROLE, connect
from dialectic.store.jobs import SQL
from dialectic.store.records import SQL as RECORDS

BARRIER_KEY = 0x6261727269657273
CHILDREN_MIN, CHILDREN_MAX = 2, 16
PARENTS_PER_SESSION = 50
PARENTS_PER_BATCH = 1000
WAITERS = 8
BATCH_PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How many parents, and how many jobs that others wait for."""

    parents: int
    prerequisites: int
    connections: int = 96


SMALL = Size(parents=40, prerequisites=8, connections=32)
SELECTION = Size(parents=300, prerequisites=40)
FULL = Size(parents=10_000, prerequisites=500)


@dataclass(slots=True)
class Parent:
    """A parent, the rule for its children, and how each child of each step will end."""

    id: UUID
    session_id: UUID
    rule: str
    quorum_min: int | None
    # For each step, whether each of its children ends well.
    steps: list[list[bool]]
    children: list[UUID] = field(default_factory=list)

    def decide_end(self, step: int) -> str:
        """Decide how the parent must stand once all children of a step have ended."""
        ends = self.steps[step - 1]
        needed = {"all": len(ends), "any": 1}.get(self.rule, self.quorum_min or 0)
        if sum(ends) < needed:
            return "failed"
        return "completed" if step == len(self.steps) else "pending_next_step"

    @property
    def steps_run(self) -> int:
        """How many steps are run: none after one that fails."""
        for step in range(1, len(self.steps) + 1):
            if self.decide_end(step) == "failed":
                return step
        return len(self.steps)


def draw_id(rng: Random) -> UUID:
    return UUID(int=rng.getrandbits(128), version=4)


def build_parent(rng: Random, session_id: UUID) -> Parent:
    """Draw a parent: most need all their children, and most children end well."""
    rule = rng.choices(("all", "quorum", "any"), (8, 1, 1))[0]
    failing = rng.choices((0.0, 0.1, 0.5), (7, 2, 1))[0]
    sizes = [rng.randint(CHILDREN_MIN, CHILDREN_MAX) for _ in range(rng.choice((1, 1, 1, 2)))]
    return Parent(
        id=draw_id(rng),
        session_id=session_id,
        rule=rule,
        quorum_min=rng.randint(1, min(sizes)) if rule == "quorum" else None,
        steps=[[rng.random() >= failing for _ in range(size)] for size in sizes],
    )


class Gate:
    """Lets statements of many connections go at the same moment."""

    def __init__(self, lab: Lab, width: int) -> None:
        self.lab = lab
        self.width = width
        self.connections: list[asyncpg.Connection[asyncpg.Record]] = []
        self.collisions = 0

    async def __aenter__(self) -> Gate:
        for _ in range(self.width + 1):
            self.connections.append(await connect(self.lab.address, WORKER_ROLE))
        return self

    async def __aexit__(self, *_: object) -> None:
        for connection in self.connections:
            connection.terminate()

    async def race(self, statements: Sequence[str]) -> None:
        """Run each statement in a transaction of its own, all of them at once."""
        keeper, *runners = self.connections
        await keeper.execute(f"select pg_advisory_lock({BARRIER_KEY})")
        running = [
            asyncio.create_task(self._run(runner, statement))
            for runner, statement in zip(runners, statements, strict=False)
        ]
        try:
            await self._wait_until_gathered(keeper, len(running))
        finally:
            await keeper.execute(f"select pg_advisory_unlock({BARRIER_KEY})")
        await asyncio.wait_for(asyncio.gather(*running), timeout=BATCH_PATIENCE_S)

    async def _wait_until_gathered(
        self, keeper: asyncpg.Connection[asyncpg.Record], count: int
    ) -> None:
        for _ in range(2000):
            standing = await keeper.fetchval(
                "select count(*) from pg_locks where locktype = 'advisory' and not granted"
            )
            if standing == count:
                return
            await asyncio.sleep(0.002)
        raise Stuck(f"{count} statements did not come to the gate")

    async def _run(self, connection: asyncpg.Connection[asyncpg.Record], statement: str) -> None:
        tenant = f"set_config('dialectic.tenant', '{self.lab.account.tenant_id}', true)"
        begin = f"begin; select {tenant}"
        gate = f"select pg_advisory_xact_lock_shared({BARRIER_KEY})"
        try:
            await connection.execute(f"{begin}; {gate}; {statement}; commit")
        except COLLISIONS:
            # As the product does: the whole transaction once more.
            self.collisions += 1
            await connection.execute("rollback")
            await connection.execute(f"{begin}; {statement}; commit")


def bind(statement: str, *values: object) -> str:
    """Put values into one of the product's statements, so that it can stand among others."""
    for number, value in reversed(list(enumerate(values, start=1))):
        literal = "null" if value is None else str(value)
        if not isinstance(value, int) and value is not None:
            literal = "'" + literal.replace("'", "''") + "'"
        statement = statement.replace(f"${number}", literal)
    return statement


def build_end(job_id: UUID, *, ends_well: bool) -> str:
    """Build the statements with which a worker ends its first attempt at a job."""
    hold = bind(SQL["hold_lease"], job_id, 1)
    if ends_well:
        return f"{hold}; {bind(SQL['complete'], job_id, 1, '{}', 0)}"
    return f"{hold}; {bind(SQL['fail'], job_id, 1, 'chaos', 'It was meant to fail.', 'failed')}"


async def run(report: Report, size: Size, sabotage: Sabotage = NONE) -> None:
    """Let children, then waiters, meet the end of what they belong to; check what became of it."""
    async with open_lab(report, sabotage=sabotage) as lab, Gate(lab, size.connections) as gate:
        parents: list[Parent] = []
        while len(parents) < size.parents:
            batch = await _make_parents(lab, min(PARENTS_PER_BATCH, size.parents - len(parents)))
            await _race_children(lab, gate, batch)
            parents += batch
            report.say(f"{len(parents)} parents, {count_children(parents)} children ended together")
        await _check_parents(lab, parents)
        await _race_waiters(lab, gate, size.prerequisites)
        report.expect("collisions of locks", gate.collisions, 0)


# -- parents and their children -------------------------------------------------------------------

INSERT_JOBS = """
  insert into dialectic.dialectic_generation_jobs
    (tenant_id, id, session_id, parent_job_id, stage_slug, iteration_number, payload, step_number,
     max_retries)
  select $1, made.id, made.session_id, made.parent_id, 'thesis', 1, $2::text::jsonb, $3, 0
  from unnest($4::uuid[], $5::uuid[], $6::uuid[]) as made (id, session_id, parent_id)
"""
CLAIM_JOBS = """
  select claimed.id from dialectic.claim_jobs(
    array_fill($1::uuid, array[cardinality($2::uuid[])]), $2,
    'barrier', interval '1 hour', interval '1 minute', 0) as claimed
"""
WAIT_FOR_CHILDREN = """
  update dialectic.dialectic_generation_jobs j
  set status = 'waiting_for_children', total_steps = made.steps, on_child_failure = made.rule,
      quorum_min = made.quorum_min
  from unnest($2::uuid[], $3::integer[], $4::text[], $5::integer[])
    as made (id, steps, rule, quorum_min)
  where j.tenant_id = $1 and j.id = made.id
"""


async def _make_parents(lab: Lab, count: int) -> list[Parent]:
    parents: list[Parent] = []
    for start in range(0, count, PARENTS_PER_SESSION):
        units = min(PARENTS_PER_SESSION, count - start)
        session_id = await _make_session(lab, units)
        parents += [build_parent(lab.rng, session_id) for _ in range(units)]
    session_ids = [parent.session_id for parent in parents]
    ids = [parent.id for parent in parents]
    await _insert(lab, 0, ids, session_ids, [None] * count)
    return parents


async def _make_session(lab: Lab, units: int) -> UUID:
    """Make a session whose stage has begun without jobs of its own."""
    session_id = await lab.order(starts=False)
    stage = ("thesis", 1, False, units, "generating")
    begin = bind(RECORDS["insert_stage_run"], lab.account.tenant_id, session_id, 1, *stage)
    await lab.execute(f"set search_path = dialectic; {begin}; reset search_path")
    return session_id


async def _insert(
    lab: Lab,
    step: int,
    ids: Sequence[UUID],
    session_ids: Sequence[UUID],
    parent_ids: Sequence[UUID | None],
) -> None:
    payload = build_payload()
    await lab.execute(
        INSERT_JOBS, lab.account.tenant_id, payload, step, ids, session_ids, parent_ids
    )
    # Rows come faster here than the server takes note of by itself, which it does once a minute.
    await lab.execute("analyze dialectic.dialectic_generation_jobs")


def build_payload() -> str:
    return PlanPayload(
        model_id=UUID(int=0),
        model_name="offline/architect",
        model_index=1,
        ordinal=1,
        slot=1,
        output_type="thesis",
    ).model_dump_json()


async def _claim(lab: Lab, ids: Sequence[UUID]) -> set[UUID]:
    rows = await lab.fetch(CLAIM_JOBS, lab.account.tenant_id, ids)
    return {row["id"] for row in rows}


async def _race_children(lab: Lab, gate: Gate, parents: Sequence[Parent]) -> None:
    """Run step after step of these parents, as long as they wake."""
    for step in range(1, max(len(parent.steps) for parent in parents) + 1):
        due = [parent for parent in parents if len(parent.steps) >= step]
        awake = await _claim(lab, [parent.id for parent in due])
        due = [parent for parent in due if parent.id in awake]
        for parent in due:
            ends = parent.steps[step - 1]
            parent.children = [draw_id(lab.rng) for _ in ends]
        children = [(child, parent) for parent in due for child in parent.children]
        await _insert(
            lab,
            step,
            [child for child, _ in children],
            [parent.session_id for _, parent in children],
            [parent.id for _, parent in children],
        )
        await _claim(lab, [child for child, _ in children])
        await lab.execute(
            WAIT_FOR_CHILDREN,
            lab.account.tenant_id,
            [parent.id for parent in due],
            [len(parent.steps) for parent in due],
            [parent.rule for parent in due],
            [parent.quorum_min for parent in due],
        )
        for group in split_by_width(due, gate.width):
            await gate.race([s for parent in group for s in build_ends(parent, step)])


def build_ends(parent: Parent, step: int) -> list[str]:
    pairs = zip(parent.children, parent.steps[step - 1], strict=True)
    return [build_end(child, ends_well=ends_well) for child, ends_well in pairs]


def split_by_width(parents: Sequence[Parent], width_max: int) -> Iterator[list[Parent]]:
    """Split parents into groups whose children all find a connection."""
    group: list[Parent] = []
    width = 0
    for parent in parents:
        if width + len(parent.children) > width_max:
            yield group
            group, width = [], 0
        group.append(parent)
        width += len(parent.children)
    if group:
        yield group


def count_children(parents: Sequence[Parent]) -> int:
    return sum(len(step) for parent in parents for step in parent.steps[: parent.steps_run])


PARENTS = """
  select j.id, j.status::text, j.current_step,
    (select count(*) from chaos.moves m
     where m.job_id = j.id and m.from_status = 'waiting_for_children'
       and m.to_status <> 'waiting_for_children') as wakes,
    (select count(*) from dialectic.dialectic_generation_jobs c
     where c.tenant_id = j.tenant_id and c.parent_job_id = j.id
       and not dialectic.is_ended(c.status)) as open_children
  from dialectic.dialectic_generation_jobs j where j.parent_job_id is null
"""
MESSAGES = """
  select split_part(convert_from(q.payload, 'UTF8'), ' ', 2)::uuid as job_id, count(*) as count
  from queue.pgqueuer q group by 1
"""
STAGES = """
  select r.session_id, r.status, (
    select count(*) from dialectic.notifications n
    where n.tenant_id = r.tenant_id and n.session_id = r.session_id
      and n.type = 'contribution_generation_complete') as told
  from dialectic.dialectic_stage_runs r
"""


async def _check_parents(lab: Lab, parents: Sequence[Parent]) -> None:
    report = lab.report
    rows = {row["id"]: row for row in await lab.fetch(PARENTS)}
    sent = {row["job_id"]: row["count"] for row in await lab.fetch(MESSAGES)}
    report.note("parents", len(parents))
    report.note("children", count_children(parents))
    report.expect_none(
        "lost wake-ups",
        [
            f"{parent.id} waits at step {rows[parent.id]['current_step']}"
            for parent in parents
            if rows[parent.id]["status"] == "waiting_for_children"
        ],
    )
    report.expect_none(
        "double wake-ups",
        [p.id for p in parents if rows[p.id]["wakes"] > p.steps_run],
    )
    report.expect_none(
        "parents that did not end as their children say",
        [
            f"{parent.id} is {rows[parent.id]['status']}, not {parent.decide_end(parent.steps_run)}"
            for parent in parents
            if rows[parent.id]["status"] != parent.decide_end(parent.steps_run)
        ],
    )
    # One message when it was made, one for each further step it was woken for.
    report.expect_none(
        "parents not sent exactly once per step",
        [f"{p.id}: {sent.get(p.id)} messages" for p in parents if sent.get(p.id) != p.steps_run],
    )
    report.expect_none("children left open", [i for i, row in rows.items() if row["open_children"]])
    await _check_stages(lab, parents)


async def _check_stages(lab: Lab, parents: Sequence[Parent]) -> None:
    failed = {p.session_id for p in parents if p.decide_end(p.steps_run) == "failed"}
    wrong = []
    for row in await lab.fetch(STAGES):
        wanted = ("failed" if row["session_id"] in failed else "complete", 1)
        if (row["status"], row["told"]) != wanted:
            wrong.append(f"{row['session_id']} is {row['status']}, told {row['told']} times")
    lab.report.expect_none("stages that did not end exactly once", wrong)


# -- jobs that wait for another job ---------------------------------------------------------------


async def _race_waiters(lab: Lab, gate: Gate, count: int) -> None:
    """Let jobs begin to wait for another one at the moment at which that one ends."""
    session_id = await _make_session(lab, count * WAITERS)
    ends = {draw_id(lab.rng): lab.rng.random() < 0.7 for _ in range(count)}
    await _insert(lab, 0, list(ends), [session_id] * count, [None] * count)
    await _claim(lab, list(ends))
    waiters: dict[UUID, bool] = {}
    group: list[str] = []
    for job_id, ends_well in ends.items():
        made = [draw_id(lab.rng) for _ in range(WAITERS)]
        waiters |= dict.fromkeys(made, ends_well)
        statements = [build_waiter(lab, session_id, job_id, waiter) for waiter in made]
        statements.insert(lab.rng.randrange(WAITERS), build_end(job_id, ends_well=ends_well))
        if len(group) + len(statements) > gate.width:
            await gate.race(group)
            group = []
        group += statements
    await gate.race(group)
    await _check_waiters(lab, waiters)


def build_waiter(lab: Lab, session_id: UUID, prerequisite_id: UUID, waiter_id: UUID) -> str:
    """Build the statement that makes a job which waits for another."""
    names = (lab.account.tenant_id, waiter_id, session_id, None, prerequisite_id, None)
    place = ("thesis", 1, build_payload(), "waiting_for_prerequisite", None)
    return bind(SQL["insert_job"], *names, *place, 0, 1, 0, 0, "{}")


async def _check_waiters(lab: Lab, waiters: dict[UUID, bool]) -> None:
    rows = await lab.fetch(
        "select j.id, j.status::text from dialectic.dialectic_generation_jobs j"
        " where j.prerequisite_job_id is not null"
    )
    status = {row["id"]: row["status"] for row in rows}
    sent = {row["job_id"]: row["count"] for row in await lab.fetch(MESSAGES)}
    lab.report.note("waiters", len(waiters))
    lab.report.expect_none(
        "waiters that were not told",
        [
            f"{waiter} is {status.get(waiter)}"
            for waiter, ends_well in waiters.items()
            if status.get(waiter) != ("pending" if ends_well else "failed")
        ],
    )
    lab.report.expect_none(
        "waiters not sent exactly once",
        [waiter for waiter, ends_well in waiters.items() if sent.get(waiter, 0) != int(ends_well)],
    )
