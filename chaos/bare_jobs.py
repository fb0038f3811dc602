"""Jobs made, claimed and ended by bare statements of the product, where no worker runs."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from uuid import UUID

from chaos.lab import Lab
from dialectic.core.job import PlanPayload
from dialectic.db.tables.jobs import SQL
from dialectic.db.tables.records import SQL as RECORDS

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
MESSAGES = """
  select split_part(convert_from(q.payload, 'UTF8'), ' ', 2)::uuid as job_id, count(*) as count
  from queue.pgqueuer q group by 1
"""


def draw_id(rng: Random) -> UUID:
    return UUID(int=rng.getrandbits(128), version=4)


def bind(statement: str, *values: object) -> str:
    """Put values into one of the product's statements, so that it can stand among others."""
    for number, value in reversed(list(enumerate(values, start=1))):
        literal = "null" if value is None else str(value)
        if not isinstance(value, int) and value is not None:
            literal = "'" + literal.replace("'", "''") + "'"
        statement = statement.replace(f"${number}", literal)
    return statement


def build_end(session_id: UUID, job_id: UUID, *, ends_well: bool) -> str:
    """Build the statements with which a worker ends its first attempt at a job."""
    hold = bind(SQL["hold_lease"], job_id, 1, session_id)
    if ends_well:
        return f"{hold}; {bind(SQL['complete'], job_id, 1, '{}', 0)}"
    failure = ("chaos", "It was meant to fail.", "failed", None, None)
    return f"{hold}; {bind(SQL['fail'], job_id, 1, *failure)}"


def build_payload() -> str:
    return PlanPayload(
        model_id=UUID(int=0),
        model_name="offline/architect",
        model_index=1,
        ordinal=1,
        slot=1,
        output_type="thesis",
    ).model_dump_json()


async def make_session(lab: Lab, units: int) -> UUID:
    """Make a session whose stage has begun without jobs of its own."""
    session_id = await lab.order(starts=False)
    stage = ("thesis", 1, False, units, None, "{1}")
    begin = bind(RECORDS["insert_stage_run"], lab.account.tenant_id, session_id, 1, *stage)
    await lab.execute(f"set search_path = dialectic; {begin}; reset search_path")
    return session_id


async def insert_jobs(
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


async def claim_jobs(lab: Lab, ids: Sequence[UUID]) -> set[UUID]:
    rows = await lab.fetch(CLAIM_JOBS, lab.account.tenant_id, ids)
    return {row["id"] for row in rows}


async def count_messages(lab: Lab) -> dict[UUID, int]:
    """Count the messages that each job was sent."""
    return {row["job_id"]: row["count"] for row in await lab.fetch(MESSAGES)}
