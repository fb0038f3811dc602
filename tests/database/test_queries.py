"""Every statement fits the schema and the rights of who runs it, and finds its rows by an index."""

from __future__ import annotations

import ast
import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import pytest

import dialectic
from dialectic.db.pool import APP_ROLE, WORKER_ROLE, Address, Connection, Database, read_rule
from dialectic.db.queries import list_areas, load_queries
from dialectic.postgres import embedded
from tests.cases import naming
from tests.database.connections import connected
from tests.database.tenant_rows import STAGE, Tenant, create_database, insert_tenant

SOURCES = Path(dialectic.__file__).parent
STATEMENTS = [(area, name) for area in list_areas() for name in load_queries(area)]
# The rest is run by either.
ONLY_APP = {
    *(
        ("accounts", name)
        for name in load_queries("accounts")
        if name not in ("sweep", "find_wallet", "list_members", "find_role", "load_profile")
    ),
    *(("idempotency", name) for name in load_queries("idempotency")),
    *(("shares", name) for name in load_queries("shares")),
    ("records", "open_account"),
    ("ledger", "open_wallet"),
    ("ledger", "fund_wallet"),
    ("ledger", "set_count_only"),
    ("ledger", "limit_wallet"),
    ("ledger", "set_budget"),
    ("figures", "load_figures"),
    ("records", "drop_seat"),
    ("records", "settle_stages"),
    ("drafts", "watch"),
    ("drafts", "read"),
    *(("endpoints", f"{verb}_endpoint") for verb in ("insert", "replace", "delete")),
}
ONLY_WORKER = {
    ("jobs", "claim"),
    ("jobs", "turn_away"),
    ("jobs", "hold_lease"),
    ("jobs", "hold_plan"),
    ("jobs", "rerun_job"),
    ("jobs", "extend_leases"),
    ("jobs", "find_due"),
    ("jobs", "take_messages"),
    ("jobs", "find_session_due"),
    ("jobs", "list_lanes"),
    ("jobs", "list_taken"),
    ("jobs", "sweep"),
    ("records", "save_document"),
    ("files", "take_waiting_files"),
    ("files", "take_files"),
    ("ledger", "sweep"),
    ("ledger", "send"),
    ("ledger", "watch_funds"),
    ("accounts", "sweep"),
    ("notifications", "prune"),
    ("drafts", "write"),
    ("drafts", "sweep"),
    ("provenance", "list_unjudged"),
    ("provenance", "has_unjudged"),
    ("provenance", "wait_after_stage"),
}
JOBS = "dialectic_generation_jobs"
CONTRIBUTIONS = "dialectic_contributions"
OURS = Tenant("ours")
JOB_COUNT = 20_000
PARENT_ID, PENDING_ID = (f"00000000-0000-0000-0000-{n:012}" for n in (400, 401))


# -- what stands where -----------------------------------------------------------------------------


def parse_sources() -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(SOURCES.rglob("*.py")):
        yield path.relative_to(SOURCES), ast.parse(path.read_text(encoding="utf-8"))


def find_area(module: ast.Module) -> str | None:
    """The area that a module means when it says SQL."""
    for node in ast.walk(module):
        match node:
            case ast.Call(func=ast.Name("load_queries"), args=[ast.Constant(str(area))]):
                return area
            case ast.ImportFrom(module=str(origin), names=names):
                if any(alias.name == "SQL" for alias in names):
                    return origin.rpartition(".")[2]
            case _:
                pass
    return None


def find_used(module: ast.Module) -> set[str]:
    """The names of the statements a module runs."""
    used = set()
    for node in ast.walk(module):
        match node:
            case ast.Subscript(value=ast.Name("SQL"), slice=ast.Constant(str(name))):
                used.add(name)
            case ast.Call(
                func=ast.Name("_fenced" | "_write_files"), args=[_, ast.Constant(str(name)), *_]
            ):
                used.add(name)
            case _:
                pass
    return used


def test_every_statement_is_used_and_every_statement_used_exists() -> None:
    used: dict[str, set[str]] = {area: set() for area in list_areas()}
    for _, module in parse_sources():
        if (area := find_area(module)) is not None:
            used[area] |= find_used(module)
    assert used == {area: set(load_queries(area)) for area in list_areas()}


def test_no_name_is_given_twice_in_an_area() -> None:
    for area in list_areas():
        text = (SOURCES / "db/sql/queries" / f"{area}.sql").read_text(encoding="utf-8")
        assert text.count("-- name:") == len(load_queries(area)), area


def test_statements_about_our_tables_are_in_sql_files_only() -> None:
    touches = re.compile(r"\b(from|join|update|into)\s+(dialectic\.)?dialectic_", re.IGNORECASE)
    found = [
        f"{path}:{node.lineno}"
        for path, module in parse_sources()
        if path != Path("db/migrate.py")
        for node in ast.walk(module)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and touches.search(node.value)
    ]
    assert found == []


# -- schema and rights -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def busy(server: embedded.Server, template: str) -> Address:
    """A database with many jobs and much news, most of it long over."""
    return asyncio.run(fill_database(server, template))


@pytest.fixture(scope="module")
def resting(server: embedded.Server, template: str) -> Address:
    """The same when nothing is alive any more, as far as the server knows."""
    end_all = f"update {JOBS} set status = 'completed', completed_at = now()"
    return asyncio.run(fill_database(server, template, end_all))


async def fill_database(server: embedded.Server, template: str, last: str = "select") -> Address:
    address = await create_database(server, template)
    connection = await asyncpg.connect(
        address.url, server_settings={"search_path": "dialectic,public"}
    )
    for tenant in (OURS, Tenant("theirs")):
        await insert_tenant(connection, tenant)
    # Written as if by many days of work, past the triggers.
    await connection.execute("set session_replication_role = replica")
    await connection.execute(FILL_JOBS, OURS.id, OURS.row_id("dialectic_sessions"), STAGE)
    await connection.execute(FILL_NEWS, OURS.id, OURS.row_id("dialectic_sessions"))
    await connection.execute(
        f"update notification_counters set last_seq = {JOB_COUNT} where tenant_id = $1", OURS.id
    )
    await connection.execute(FILL_QUEUE)
    await connection.execute(FILL_FILES, OURS.id)
    await connection.execute(FILL_HOLDS, OURS.id)
    await connection.execute(last)
    await connection.execute("vacuum analyze")
    await connection.close()
    return address


# Families of a parent and nineteen children; of every twentieth family the first child still waits
# for its turn, and of every twentieth of the others one waits for the child before it.
FILL_JOBS = f"""
    with numbered as (
      select n, ('00000000-0000-0000-0000-' || lpad(n::text, 12, '0'))::uuid as id,
        n / 20 * 20 as family, n % 20 as place
      from generate_series(20, {JOB_COUNT} + 19) n
    )
    insert into {JOBS} (tenant_id, id, session_id, parent_job_id, prerequisite_job_id, stage_slug,
      iteration_number, payload, max_retries, step_number, dispatch_count, awaits, status,
      completed_at)
    select $1, id, $2::text::uuid,
      case when place > 0
        then ('00000000-0000-0000-0000-' || lpad(family::text, 12, '0'))::uuid end,
      case when place = 3 and family % 400 = 20
        then ('00000000-0000-0000-0000-' || lpad((n - 1)::text, 12, '0'))::uuid end,
      $3, 1, '{{"job_type": "plan"}}', 3, (place > 0)::integer, 1,
      case when place = 0 then '{{thesis}}'::text[] else '{{}}' end, status,
      case when status = 'completed' then now() end
    from numbered, lateral (
      select case
        when place = 1 and family % 400 = 0 then 'pending'
        when place = 0 and family % 400 = 0 then 'waiting_for_children'
        when place = 3 and family % 400 = 20 then 'waiting_for_prerequisite'
        else 'completed'
      end::dialectic_job_status as status
    ) as chosen
"""
FILL_NEWS = f"""
    insert into notifications (tenant_id, session_id, type, seq)
    select $1, $2::text::uuid, 'news', case when n <= {JOB_COUNT} then n end
    from generate_series(1, {JOB_COUNT} + 10) n
"""
FILL_QUEUE = f"""
    insert into queue.pgqueuer (priority, entrypoint, status, dedupe_key, execute_after)
    select 0, 'job', 'queued', 'other ' || n, now() from generate_series(1, {JOB_COUNT}) n
"""
# All of them written long ago, as far as the server knows.
FILL_FILES = f"""
    insert into dialectic_files
      (tenant_id, path, project_id, mime_type, size_bytes, sha256, written_at)
    select $1, 'project/' || n, gen_random_uuid(), 'text/markdown', 1, repeat('0', 64), now()
    from generate_series(1, {JOB_COUNT}) n
"""
# All of them paid.
FILL_HOLDS = f"""
    insert into token_wallet_holds
      (tenant_id, hold_key, wallet_id, is_play, purpose, model_name, amount_credits,
       input_credits_per_token, output_credits_per_token, counted_input_tokens, output_cap_tokens,
       state, cost_credits, charged_credits, input_tokens, output_tokens, usage_source, resolved_at)
    select $1, 'job:' || n, $1, true, 'call', 'a/b', 2, 1, 1, 1, 1,
      'posted', 1, 1, 1, 1, 'reported', now()
    from generate_series(1, {JOB_COUNT}) n
"""


async def explain(connection: Connection, statement: str) -> dict[str, Any]:
    """The plan for whatever values come; making it asks for every right that running it would."""
    # By way of a function, because the driver would want the values.
    await connection.execute(
        """
        create or replace function pg_temp.explain(p_statement text) returns json
          language plpgsql as $$
        declare
          v_plan json;
        begin
          execute 'explain (generic_plan, format json) ' || p_statement into v_plan;
          return v_plan;
        end
        $$
        """
    )
    plan: dict[str, Any] = (await connection.fetchval("select pg_temp.explain($1)", statement))[0]
    return plan["Plan"]  # type: ignore[no-any-return]


async def may_explain(connection: Connection, statement: str) -> bool:
    try:
        await explain(connection, statement)
    except asyncpg.InsufficientPrivilegeError:
        return False
    return True


def find_seq_scans(plan: dict[str, Any]) -> set[str]:
    """The tables that a plan reads from end to end."""
    found = {plan["Relation Name"]} if plan["Node Type"] == "Seq Scan" else set()
    return found.union(*(find_seq_scans(part) for part in plan.get("Plans", [])))


def find_indexes(plan: dict[str, Any]) -> set[str]:
    """The indexes that a plan goes by."""
    found = {plan["Index Name"]} if "Index Name" in plan else set()
    return found.union(*(find_indexes(part) for part in plan.get("Plans", [])))


async def test_a_statement_can_be_run_only_by_the_roles_that_use_it(busy: Address) -> None:
    for role, others in ((APP_ROLE, ONLY_WORKER), (WORKER_ROLE, ONLY_APP)):
        async with connected(busy, role) as connection:
            for area, name in STATEMENTS:
                with naming(f"{area}: {name} as {role}"):
                    await connection.prepare(load_queries(area)[name])
                    can_plan = await may_explain(connection, load_queries(area)[name])
                    assert can_plan == ((area, name) not in others)


async def test_a_value_no_column_holds_is_refused_at_once_and_not_waited_out(
    address: Address,
) -> None:
    tries = []

    async def work(connection: Connection) -> None:
        tries.append(connection)
        await connection.execute("select $1::text", "half of a letter: \ud83d")

    async with Database.open(address, APP_ROLE, size=1) as db:
        with pytest.raises(asyncpg.DataError, match="surrogates not allowed"):
            await db.transact(OURS.id, work)
        assert len(tries) == 1
        assert [row[0] for row in await db.fetch("select true")] == [True]


# -- plans -----------------------------------------------------------------------------------------


async def test_a_statement_about_jobs_finds_them_by_an_index(busy: Address) -> None:
    async with connected(busy, WORKER_ROLE) as connection:
        for name, statement in load_queries("jobs").items():
            scanned = find_seq_scans(await explain(connection, statement))
            # Sessions are few, and a top-up looks through those of its owner.
            assert scanned - {"dialectic_sessions", CONTRIBUTIONS} == set(), name
            if CONTRIBUTIONS in scanned:
                # The table is empty here, so reading all of it is cheapest: is there an index?
                await connection.execute("set enable_seqscan = off")
                scanned = find_seq_scans(await explain(connection, statement))
                await connection.execute("reset enable_seqscan")
                assert CONTRIBUTIONS not in scanned, name


FENCED = [
    name for name, text in load_queries("jobs").items() if "id = $1 and attempt_count = $2" in text
]


async def test_what_ends_an_attempt_finds_its_job_by_the_key_however_many_are_alive(
    resting: Address,
) -> None:
    async with connected(resting, WORKER_ROLE) as connection:
        for name in FENCED:
            found = find_indexes(await explain(connection, load_queries("jobs")[name]))
            assert found == {f"{JOBS}_pkey"}, name
    async with watched(resting, "force_generic_plan") as (connection, plans):
        await connection.execute(load_queries("jobs")["hold_lease"], PENDING_ID, 1, OURS.id)
    assert set().union(*(find_indexes(plan) for _, plan in plans)) == {f"{JOBS}_pkey"}


@asynccontextmanager
async def watched(
    address: Address, plan_cache_mode: str
) -> AsyncIterator[tuple[Connection, Plans]]:
    """A session that notes the plan of every statement, those inside functions as well."""
    connection = await asyncpg.connect(address.url)
    plans: Plans = []

    def note(_connection: object, message: asyncpg.PostgresLogMessage) -> None:
        _, _, text = str(message.message).partition("plan:\n")
        if text:
            plan = json.loads(text)
            plans.append((plan["Query Text"], plan["Plan"]))

    connection.add_log_listener(note)
    transaction = connection.transaction()
    await connection.execute("load 'auto_explain'")
    await transaction.start()
    await connection.execute(
        f"""
        set local auto_explain.log_min_duration = 0;
        set local auto_explain.log_nested_statements = on;
        set local auto_explain.log_format = json;
        set local auto_explain.log_level = notice;
        set local plan_cache_mode = {plan_cache_mode};
        select set_config('dialectic.tenant', '{OURS.id}', true);
        """
    )
    try:
        yield connection, plans
    finally:
        await transaction.rollback()
        await connection.close()


Plans = list[tuple[str, dict[str, Any]]]


@pytest.mark.parametrize("plan_cache_mode", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize(
    ("call", "statements"),
    [
        (
            f"select from dialectic.claim_jobs(array['{OURS.id}']::uuid[],"
            f" array['{PENDING_ID}']::uuid[], 'me', '6 s', '1 s', 10)",
            ["update .* j set status = 'processing', .* for no key update of d skip locked"],
        ),
        (
            "select dialectic.sweep_jobs(interval '1 s', 500)",
            [
                "set suspect_at = ",
                "select j.* .* and not exists .* for no key update skip locked",
                "where p.status = 'waiting_for_children'",
                "and w.status = 'waiting_for_prerequisite'",
                "with busy as materialized .* j.status = 'paused'",
            ],
        ),
        (
            "select from dialectic.list_lanes()",
            ["with recursive lanes as"],
        ),
        (
            f"select dialectic.wake_parent('{OURS.id}', '{PARENT_ID}')",
            ["select j.* .* for no key update", r"select count\(\*\) filter"],
        ),
        (
            f"select from dialectic.read_events({JOB_COUNT} - 5, null, 100)",
            ["exists .* n.seq is null", "n.seq is null .* for update", "m.seq > p_after_seq"],
        ),
        (
            "select dialectic.prune_notifications(interval '1 day', 1000, 5000)",
            ["select n.id, n.seq, n.created_at .* limit"],
        ),
        ("select from dialectic.load_figures()", ["n.seq is null"]),
    ],
    ids=["claim", "sweep", "list_lanes", "wake_parent", "read_events", "prune", "load_figures"],
)
async def test_a_function_finds_its_rows_by_indexes_among_many(
    busy: Address, call: str, statements: list[str], plan_cache_mode: str
) -> None:
    async with watched(busy, plan_cache_mode) as (connection, plans):
        await connection.execute(call)
        assert find_unplanned(statements, plans) == []
        read_whole = set().union(*(find_seq_scans(plan) for _, plan in plans))
        assert read_whole & {JOBS, "notifications", "pgqueuer"} == set()


RESERVE = (
    f"select dialectic.reserve_funds(null, null, 'job:1:0', '{OURS.id}', true, 'call', 'a/b',"
    f" null, null, '{PENDING_ID}', 1, 1, 1, 1, 1, 1)"
)
SETTLE = "select dialectic.settle_hold('job:1:0', 1, 1, 'reported', false, null, '{}', null, null)"


@pytest.mark.parametrize(
    ("call", "refusal", "index"),
    [
        (RESERVE, "attempt_is_under_way", f"{JOBS}_pkey"),
        (SETTLE, "hold_exists", "token_wallet_holds_pkey"),
    ],
    ids=["reserve", "settle"],
)
async def test_money_for_a_call_is_set_aside_and_paid_by_keys_alone(
    resting: Address, call: str, refusal: str, index: str
) -> None:
    async with watched(resting, "force_generic_plan") as (connection, plans):
        with pytest.raises(asyncpg.PostgresError) as caught:
            await connection.execute(call)
        assert read_rule(caught.value) == refusal
    assert set().union(*(find_indexes(plan) for _, plan in plans)) == {index}


@pytest.mark.parametrize("sha256", ["0" * 64, "1" * 64], ids=["as-written", "replaced"])
async def test_files_that_are_written_are_found_by_their_paths_however_many_wait(
    busy: Address, sha256: str
) -> None:
    async with watched(busy, "force_generic_plan") as (connection, plans):
        mark = "select from dialectic.mark_files_written($1, $2, $3)"
        await connection.execute(mark, OURS.id, ["project/7", "project/8"], [sha256] * 2)
    found = set().union(*(find_indexes(plan) for _, plan in plans))
    assert "dialectic_files_pkey" in found
    assert found & {"files_waiting", "files_of_a_project", "resources_of_a_project"} == set()
    assert find_unplanned(["content is not null", "f.sha256 <> p_hashes"], plans) == []


FILL_TEXTS = """
    insert into dialectic.dialectic_project_resources
      (tenant_id, id, project_id, user_id, resource_type, content, storage_path, mime_type,
       size_bytes)
    select $1, gen_random_uuid(), $2, $3, 'document', 'a text', 'project/' || n, 'text/markdown', 1
    from generate_series(1, 2000) n
"""


async def test_texts_of_a_project_are_put_by_their_paths_however_many_there_are(
    busy: Address,
) -> None:
    texts = [
        {
            "id": PARENT_ID,
            "resource_type": "document",
            "text": "another text",
            "path": f"project/{number}",
            "mime_type": "text/markdown",
            "notes": [],
        }
        for number in (7, 8)
    ]
    async with watched(busy, "force_generic_plan") as (connection, plans):
        # The rows that others refer to are not the point here.
        await connection.execute("set local session_replication_role = replica")
        await connection.execute(FILL_TEXTS, OURS.id, OURS.id, OURS.id)
        await connection.execute("analyze dialectic.dialectic_project_resources")
        plans.clear()
        put = "select from dialectic.put_resources($1, $1, $1, $2::text::jsonb)"
        await connection.execute(put, OURS.id, json.dumps(texts))
    assert find_unplanned(["with given as"], plans) == []
    found = set().union(*(find_indexes(plan) for _, plan in plans))
    assert "dialectic_project_resources_tenant_id_storage_path_key" in found
    assert found & {"resources_of_a_project", "files_of_a_project", "files_waiting"} == set()


SAVE = """
    select dialectic.save_document(gen_random_uuid(), 1, $1, $1, $1, $2::text::jsonb, '',
      '{}', '{}', '{}', '{}', '[]')
"""


async def test_a_document_is_saved_behind_the_action_that_holds_its_session(busy: Address) -> None:
    begin = f"begin; select set_config('dialectic.tenant', '{OURS.id}', true)"
    record = json.dumps({"session_id": PARENT_ID})
    async with connected(busy, APP_ROLE) as acting, connected(busy, WORKER_ROLE) as saving:
        await acting.execute(begin)
        await acting.execute("select dialectic.hold_session($1::text::uuid)", PARENT_ID)
        await saving.execute(f"{begin}; set local lock_timeout = '20ms'")
        with pytest.raises(asyncpg.LockNotAvailableError):
            await saving.execute(SAVE, OURS.id, record)
        await acting.execute("rollback")
        await saving.execute(f"rollback; {begin}")
        assert await saving.fetchval(SAVE, OURS.id, record) is False
        await saving.execute("rollback")


def find_unplanned(statements: list[str], plans: Plans) -> list[str]:
    """The statements whose plan was not seen, as the others' plans prove nothing about them."""
    seen = [" ".join(text.split()) for text, _ in plans]
    return [s for s in statements if not any(re.search(s, text) for text in seen)]


async def test_the_busy_database_is_as_it_should_be(busy: Address) -> None:
    connection = await asyncpg.connect(busy.url)
    rows = await connection.fetch(f"select status::text, count(*) from dialectic.{JOBS} group by 1")
    parent = await connection.fetchval(
        f"select status::text from dialectic.{JOBS} where id = $1", UUID(PARENT_ID)
    )
    await connection.close()
    counts = {row["status"]: row["count"] for row in rows}
    assert parent == "waiting_for_children"
    assert sum(counts.values()) == JOB_COUNT + 4
    assert counts["waiting_for_children"] == 50
    assert counts["waiting_for_prerequisite"] == 50
