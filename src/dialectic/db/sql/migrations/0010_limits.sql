-- The limits of endpoints, and counters. They belong to no tenant; only functions touch them.

-- How each endpoint is doing, for all workers and tenants together. functions/limits.sql admits
-- calls and takes reports of them.
create table dialectic_endpoints (
  endpoint text primary key check (length(endpoint) between 1 and 200),
  -- Pace: up to when the calls let through so far use up what a minute allows.
  requests_until timestamptz,
  tokens_until timestamptz,
  -- The end of the line of those who were told to come back.
  line_until timestamptz,
  -- No call before this time: the endpoint asked for it.
  closed_until timestamptz,
  -- The requests a minute it seemed to bear when it last asked to slow down; it grows from then on.
  rate_per_minute double precision check (rate_per_minute > 0),
  rate_cut_at timestamptz,
  -- The circuit: closed while calls pass, open while none may, probing while one finds out.
  circuit text not null default 'closed' check (circuit in ('closed', 'open', 'probing')),
  reason text,
  message text,
  opened_at timestamptz,
  probe_at timestamptz,
  -- How often it was opened since a call last succeeded.
  opened_count integer not null default 0 check (opened_count >= 0),
  probe_tenant_id uuid,
  probe_job_id uuid,
  probe_attempt integer,
  -- Calls that ended in the last minute and those of them that failed: ten seconds each, newest
  -- first.
  window_number bigint not null default 0,
  calls integer[] not null default '{0,0,0,0,0,0}',
  failures integer[] not null default '{0,0,0,0,0,0}',
  -- Since when its key is refused, and in which words.
  key_refused_at timestamptz,
  key_message text,
  constraint a_rate_has_its_time check ((rate_per_minute is null) = (rate_cut_at is null)),
  constraint an_open_circuit_has_its_reason
    check ((circuit = 'closed') = (reason is null) and (circuit = 'closed') = (probe_at is null)),
  constraint a_probe_has_its_job
    check ((circuit = 'probing') = (probe_job_id is not null))
) with (fillfactor = 20);  -- every call updates the one row of its endpoint

-- The places taken at endpoints that limit concurrent calls. A place is held for as long as its job
-- is processed by the attempt that took it, so that a dead worker's places come back.
create table dialectic_endpoint_calls (
  endpoint text not null,
  holder_tenant_id uuid not null,
  job_id uuid not null,
  attempt integer not null,
  begun_at timestamptz not null,
  primary key (endpoint, holder_tenant_id, job_id)
);

-- What happens in any process and leaves no row of its own, counted for operators.
create table dialectic_tallies (
  name text primary key check (length(name) between 1 and 100),
  count bigint not null check (count >= 0)
);
