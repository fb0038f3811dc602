-- What migrations stand on: the schema, the clock, the tenant and the record of what was applied.
-- Run by the owner before every migration; each statement is harmless to run again.

create table if not exists dialectic.schema_migrations (
  name text primary key,
  sha256 text not null,
  applied_at timestamptz not null default clock_timestamp()
);

-- All time in SQL comes from here. A test sets dialectic.fake_now and owns the clock. This is the
-- time at which the statement began: all rows it writes agree, and a statement that waited for a
-- lock speaks of the past. Names are qualified instead of the search path being set, so that the
-- planner can dissolve the call.
create or replace function dialectic.now() returns timestamptz
language sql stable parallel safe
as $$
  select coalesce(
    nullif(pg_catalog.current_setting('dialectic.fake_now', true), '')::pg_catalog.timestamptz,
    pg_catalog.statement_timestamp()
  )
$$;

-- The time at this very moment, for what begins to run now whatever was waited for: leases.
create or replace function dialectic.clock() returns timestamptz
language sql volatile parallel safe
as $$
  select coalesce(
    nullif(pg_catalog.current_setting('dialectic.fake_now', true), '')::pg_catalog.timestamptz,
    pg_catalog.clock_timestamp()
  )
$$;

-- The tenant of this transaction; null when none is set, and then no row is seen.
create or replace function dialectic.current_tenant() returns uuid
language sql stable parallel safe
as $$
  select nullif(pg_catalog.current_setting('dialectic.tenant', true), '')::pg_catalog.uuid
$$;
