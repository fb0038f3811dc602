-- The base of all migrations: the clock, the current tenant, and the record of applied migrations.
-- The owner runs it before every migration; each statement is idempotent.

create table if not exists dialectic.schema_migrations (
  name text primary key,
  sha256 text not null,
  applied_at timestamptz not null default clock_timestamp()
);

-- The clock of all SQL. Tests set it through dialectic.fake_now. It returns the start of the
-- statement: all rows of a statement agree, but after a wait for a lock the time is in the past.
-- Names are qualified, and no search path is set, so that the planner can inline the call.
create or replace function dialectic.now() returns timestamptz
language sql stable parallel safe
as $$
  select coalesce(
    nullif(pg_catalog.current_setting('dialectic.fake_now', true), '')::pg_catalog.timestamptz,
    pg_catalog.statement_timestamp()
  )
$$;

-- The actual time, for leases: they start now, even if the statement waited for a lock.
create or replace function dialectic.clock() returns timestamptz
language sql volatile parallel safe
as $$
  select coalesce(
    nullif(pg_catalog.current_setting('dialectic.fake_now', true), '')::pg_catalog.timestamptz,
    pg_catalog.clock_timestamp()
  )
$$;

-- The tenant of this transaction. Null when none is set; row-level security then hides all rows.
create or replace function dialectic.current_tenant() returns uuid
language sql stable parallel safe
as $$
  select nullif(pg_catalog.current_setting('dialectic.tenant', true), '')::pg_catalog.uuid
$$;
