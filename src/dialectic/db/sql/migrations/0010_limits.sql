-- Tenants' own endpoints; rate limits of all endpoints, and counters. All but the first belong to no
-- tenant; only functions access them.

-- The endpoints that tenants added; the operator's are in config.toml. The definition has the format
-- of config.toml, without a key. The key is encrypted by the program and bound to the tenant and the
-- name: a copy in another row does not decrypt. It is null if the endpoint needs none.
create table tenant_endpoints (
  tenant_id uuid not null references tenants (id) on delete cascade,
  name text not null check (length(name) between 1 and 40),
  definition jsonb not null,
  key_ciphertext bytea,
  created_at timestamptz not null default dialectic.now(),
  primary key (tenant_id, name)
);

-- The state of each endpoint, for all workers and tenants. functions/limits.sql admits calls and
-- records their outcomes.
create table dialectic_endpoints (
  endpoint text primary key check (length(endpoint) between 1 and 200),
  -- Pacing: the time up to which the admitted calls use up the rate.
  requests_until timestamptz,
  tokens_until timestamptz,
  -- The end of the queue of callers that were told to ask again.
  line_until timestamptz,
  -- No calls before this time: the endpoint asked for it.
  closed_until timestamptz,
  -- The requests per minute that were assumed when it last throttled a call; grows from then on.
  rate_per_minute double precision check (rate_per_minute > 0),
  rate_cut_at timestamptz,
  -- The circuit: closed (calls pass), open (no calls), probing (one call tests the endpoint).
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
  -- Since when the provider rejects its key, and with which message.
  key_refused_at timestamptz,
  key_message text,
  constraint a_rate_has_its_time check ((rate_per_minute is null) = (rate_cut_at is null)),
  constraint an_open_circuit_has_its_reason
    check ((circuit = 'closed') = (reason is null) and (circuit = 'closed') = (probe_at is null)),
  constraint a_probe_has_its_job
    check ((circuit = 'probing') = (probe_job_id is not null))
) with (fillfactor = 20);  -- every call updates the one row of its endpoint

-- The slots in use at endpoints that limit concurrent calls. A slot is held while the attempt that
-- took it processes its job, so a dead worker's slots are freed.
create table dialectic_endpoint_calls (
  endpoint text not null,
  holder_tenant_id uuid not null,
  job_id uuid not null,
  attempt integer not null,
  begun_at timestamptz not null,
  primary key (endpoint, holder_tenant_id, job_id)
);

-- Counters of events that have no row, from all processes, for operators.
create table dialectic_tallies (
  name text primary key check (length(name) between 1 and 100),
  count bigint not null check (count >= 0)
);
