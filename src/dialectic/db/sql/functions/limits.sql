-- Rate limits of endpoints, shared by all workers: one query before a call and one report after it.
-- Each locks only the row of its endpoint, so endpoints do not wait for each other. Commits are
-- asynchronous unless a circuit changes: losing the last half second in a server crash is harmless.
-- Internal functions run with the rights of the function that calls them.

-- The interval between calls: calls may use 95 % of each minute.
create or replace function dialectic.seconds_between(p_per_minute double precision)
returns double precision
language sql immutable parallel safe
as $$
  select 60.0 / (0.95 * p_per_minute)
$$;

-- The burst after an idle period: 3 % of a minute's calls. The rest of the 5 % absorbs calls that
-- arrive closer together than they were sent.
create or replace function dialectic.burst_of(p_per_minute double precision)
returns double precision
language sql immutable parallel safe
as $$
  select greatest(1.0, floor(0.03 * p_per_minute))
$$;

-- The current requests per minute of an endpoint: the configured rate, or a lower one for a while
-- after a throttling response. The lower rate doubles every minute and is dropped after ten.
create or replace function dialectic.rate_of(
  p_row dialectic.dialectic_endpoints, p_requests_per_minute integer, p_now timestamptz
) returns double precision
language sql immutable parallel safe
as $$
  select least(
    p_requests_per_minute::double precision,
    case when p_row.rate_cut_at > p_now - interval '10 minutes' then
      p_row.rate_per_minute * power(2.0, extract(epoch from p_now - p_row.rate_cut_at) / 60.0)
    end)
$$;

-- Whether the endpoint is calm: a worker that asked a moment ago need not ask again.
create or replace function dialectic.is_calm(
  p_row dialectic.dialectic_endpoints, p_now timestamptz
) returns boolean
language sql immutable parallel safe
as $$
  select p_row.circuit = 'closed'
    and coalesce(p_row.closed_until <= p_now, true)
    and coalesce(p_row.rate_cut_at <= p_now - interval '10 minutes', true)
    and p_row.key_refused_at is null
$$;

create or replace function dialectic.lock_endpoint(p_endpoint text)
returns dialectic.dialectic_endpoints
language plpgsql
as $$
declare
  v_row dialectic.dialectic_endpoints;
begin
  loop
    select e.* into v_row from dialectic.dialectic_endpoints e
    where e.endpoint = p_endpoint for no key update;
    exit when found;
    insert into dialectic.dialectic_endpoints (endpoint) values (p_endpoint) on conflict do nothing;
  end loop;
  return v_row;
end
$$;

-- Request a permit for one call. The verdict is
--   go     call in wait_s seconds, never more than the patience
--   wait   the wait would exceed the patience: ask again in wait_s
--   open   the circuit is open, or another call probes: ask again in wait_s
--   quota  the provider account has no credit: a user must act
-- closed_s is how long the endpoint accepts no calls at all. An attempt that asks again gets its
-- own slot again.
create or replace function dialectic.admit_call(
  p_endpoint text, p_tenant_id uuid, p_job_id uuid, p_attempt integer,
  p_requests_per_minute integer, p_tokens_per_minute integer, p_max_concurrency integer,
  p_tokens bigint, p_patience interval, p_answered integer,
  out verdict text, out wait_s double precision, out closed_s double precision,
  out is_calm boolean, out failing_since timestamptz, out failure text
)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_row dialectic.dialectic_endpoints;
  v_now timestamptz := dialectic.clock();
  v_go timestamptz;
  v_is_limited boolean :=
    coalesce(p_requests_per_minute, p_tokens_per_minute, p_max_concurrency) is not null;
begin
  verdict := 'go';
  wait_s := 0;
  closed_s := 0;
  is_calm := true;
  if not v_is_limited and p_answered = 0 then
    select e.* into v_row from dialectic.dialectic_endpoints e where e.endpoint = p_endpoint;
    if not found or dialectic.is_calm(v_row, v_now) then
      return;
    end if;
  end if;

  perform set_config('synchronous_commit', 'off', true);
  v_row := dialectic.lock_endpoint(p_endpoint);
  v_now := dialectic.clock();
  v_row := dialectic.count_calls(v_row, v_now, p_answered, 0);
  is_calm := dialectic.is_calm(v_row, v_now);
  if v_row.circuit <> 'closed' then
    failing_since := v_row.opened_at;
    failure := v_row.message;
    closed_s := dialectic.find_circuit_wait(v_row, v_now, p_tenant_id, p_job_id, p_attempt);
    if closed_s > 0 then
      verdict := case when v_row.circuit = 'open' and v_row.reason = 'provider_quota'
        then 'quota' else 'open' end;
      wait_s := closed_s;
      return;
    end if;
  end if;
  if not dialectic.has_place(p_endpoint, p_tenant_id, p_job_id, p_max_concurrency) then
    verdict := 'wait';
    wait_s := 1;
    return;
  end if;

  v_go := dialectic.find_turn(v_row, v_now, p_requests_per_minute, p_tokens_per_minute);
  closed_s := extract(epoch from v_go - v_now);
  if v_go > v_now + p_patience then
    -- Callers that must wait get consecutive times, at most a minute ahead unless the endpoint
    -- itself asks for more: calls may use fewer tokens than they reserved.
    verdict := 'wait';
    v_row.line_until := greatest(dialectic.used_until(v_row.line_until, v_now), v_go);
    wait_s := greatest(closed_s, least(60.0, extract(epoch from v_row.line_until - v_now)));
    v_row.line_until := v_row.line_until + make_interval(secs =>
      coalesce(dialectic.seconds_between(
        dialectic.rate_of(v_row, p_requests_per_minute, v_now)), 0.0));
  else
    wait_s := closed_s;
    v_row := dialectic.spend(
      v_row, v_go, v_now, p_requests_per_minute, p_tokens_per_minute, p_tokens);
    if p_max_concurrency is not null then
      insert into dialectic.dialectic_endpoint_calls as c
        (endpoint, holder_tenant_id, job_id, attempt, begun_at)
      values (p_endpoint, p_tenant_id, p_job_id, p_attempt, v_now)
      on conflict (endpoint, holder_tenant_id, job_id)
        do update set attempt = excluded.attempt, begun_at = excluded.begun_at;
    end if;
    if v_row.circuit <> 'closed' then
      v_row.circuit := 'probing';
      v_row.probe_tenant_id := p_tenant_id;
      v_row.probe_job_id := p_job_id;
      v_row.probe_attempt := p_attempt;
      v_row.probe_at := v_now;
    end if;
  end if;
  perform dialectic.put_endpoint(v_row);
end
$$;

-- For how many seconds the circuit blocks this attempt; 0 when it may call, as a probe. The
-- duration of a probe is unknown, so other callers ask again after a while. A chat's probe has no
-- job whose end could be seen, so it expires after a minute.
create or replace function dialectic.find_circuit_wait(
  p_row dialectic.dialectic_endpoints, p_now timestamptz,
  p_tenant_id uuid, p_job_id uuid, p_attempt integer
) returns double precision
language sql stable
as $$
  select case
    when p_row.circuit = 'open' then greatest(0.0, extract(epoch from p_row.probe_at - p_now))
    when (p_row.probe_tenant_id, p_row.probe_job_id, p_row.probe_attempt)
      = (p_tenant_id, p_job_id, p_attempt) then 0.0
    when dialectic.is_under_way(p_row.probe_tenant_id, p_row.probe_job_id, p_row.probe_attempt)
      then 5.0
    when p_row.probe_at > p_now - interval '1 minute' and not exists (
      select from dialectic.dialectic_generation_jobs j
      where j.tenant_id = p_row.probe_tenant_id and j.id = p_row.probe_job_id
    ) then 5.0
    else 0.0
  end
$$;

-- Whether one more concurrent call is allowed. A slot belongs to an attempt for as long as it is
-- under way: slots of dead workers are freed when none is left.
create or replace function dialectic.has_place(
  p_endpoint text, p_tenant_id uuid, p_job_id uuid, p_max_concurrency integer
) returns boolean
language plpgsql
as $$
begin
  if p_max_concurrency is null or dialectic.count_others(p_endpoint, p_tenant_id, p_job_id)
      < p_max_concurrency then
    return true;
  end if;
  delete from dialectic.dialectic_endpoint_calls c
  where c.endpoint = p_endpoint
    and not dialectic.is_under_way(c.holder_tenant_id, c.job_id, c.attempt);
  return dialectic.count_others(p_endpoint, p_tenant_id, p_job_id) < p_max_concurrency;
end
$$;

create or replace function dialectic.count_others(p_endpoint text, p_tenant_id uuid, p_job_id uuid)
returns bigint
language sql stable
as $$
  select count(*) from dialectic.dialectic_endpoint_calls c
  where c.endpoint = p_endpoint and (c.holder_tenant_id, c.job_id) <> (p_tenant_id, p_job_id)
$$;

-- The time up to which the rate is used up. A value beyond any limit is ignored: the clock was set
-- back.
create or replace function dialectic.used_until(
  p_until timestamptz, p_now timestamptz
) returns timestamptz
language sql immutable parallel safe
as $$
  select case when p_until < p_now + interval '10 minutes' then p_until end
$$;

-- When the next call may go (GCRA, virtual scheduling): each admitted call uses up its share of
-- future time, and a call may go when that time is reached, or one burst earlier.
create or replace function dialectic.find_turn(
  p_row dialectic.dialectic_endpoints, p_now timestamptz,
  p_requests_per_minute integer, p_tokens_per_minute integer
) returns timestamptz
language sql stable
as $$
  select greatest(
    p_now,
    p_row.closed_until,
    dialectic.used_until(p_row.requests_until, p_now) - make_interval(secs =>
      (dialectic.burst_of(rate) - 1.0) * dialectic.seconds_between(rate)),
    dialectic.used_until(p_row.tokens_until, p_now) - make_interval(secs =>
      dialectic.burst_of(p_tokens_per_minute) * dialectic.seconds_between(p_tokens_per_minute)))
  from dialectic.rate_of(p_row, p_requests_per_minute, p_now) rate
$$;

-- Book a call at p_go: one request, and the maximum tokens it may use.
create or replace function dialectic.spend(
  p_row dialectic.dialectic_endpoints, p_go timestamptz, p_now timestamptz,
  p_requests_per_minute integer, p_tokens_per_minute integer, p_tokens bigint
) returns dialectic.dialectic_endpoints
language plpgsql stable
as $$
declare
  v_rate double precision := dialectic.rate_of(p_row, p_requests_per_minute, p_now);
begin
  if v_rate is not null then
    p_row.requests_until := greatest(dialectic.used_until(p_row.requests_until, p_now), p_go)
      + make_interval(secs => dialectic.seconds_between(v_rate));
  end if;
  if p_tokens_per_minute is not null then
    p_row.tokens_until := greatest(dialectic.used_until(p_row.tokens_until, p_now), p_go)
      + make_interval(secs =>
        least(500.0, p_tokens * dialectic.seconds_between(p_tokens_per_minute)));
  end if;
  return p_row;
end
$$;

-- Count ended calls, in buckets of ten seconds.
create or replace function dialectic.count_calls(
  p_row dialectic.dialectic_endpoints, p_now timestamptz, p_calls integer, p_failures integer
) returns dialectic.dialectic_endpoints
language plpgsql immutable
as $$
declare
  v_number bigint := floor(extract(epoch from p_now) / 10);
  v_passed integer := least(6, greatest(0, v_number - p_row.window_number));
begin
  if v_passed > 0 then
    p_row.calls := (array_fill(0, array[v_passed]) || p_row.calls)[1:6];
    p_row.failures := (array_fill(0, array[v_passed]) || p_row.failures)[1:6];
    p_row.window_number := v_number;
  end if;
  p_row.calls[1] := p_row.calls[1] + p_calls;
  p_row.failures[1] := p_row.failures[1] + p_failures;
  return p_row;
end
$$;

create or replace function dialectic.total(p_counts integer[]) returns integer
language sql immutable parallel safe
as $$
  select coalesce(sum(n), 0)::integer from unnest(p_counts) n
$$;

-- Report the outcome of a call, and return whether the endpoint is calm. The outcome is
--   answered   a response came, whatever it says about the request
--   failed     no response, or an invalid one
--   throttled  the endpoint asked to slow down, for p_retry_after if it said so
--   quota      the provider account has no credit
--   key        the provider rejected the API key
--   unused     the call was not made: its permit is returned, and its probe is undecided
create or replace function dialectic.report_call(
  p_endpoint text, p_tenant_id uuid, p_job_id uuid, p_attempt integer,
  p_outcome text, p_message text, p_retry_after interval,
  p_requests_per_minute integer, p_tokens_per_minute integer, p_unused_tokens bigint,
  p_answered integer
) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_row dialectic.dialectic_endpoints := dialectic.lock_endpoint(p_endpoint);
  v_now timestamptz := dialectic.clock();
  v_before text := v_row.circuit;
  v_is_probe boolean := v_row.circuit = 'probing'
    and (v_row.probe_tenant_id, v_row.probe_job_id, v_row.probe_attempt)
      = (p_tenant_id, p_job_id, p_attempt);
begin
  delete from dialectic.dialectic_endpoint_calls c
  where c.endpoint = p_endpoint and c.holder_tenant_id = p_tenant_id and c.job_id = p_job_id
    and c.attempt = p_attempt;
  if p_tokens_per_minute is not null then
    v_row.tokens_until := v_row.tokens_until - make_interval(secs =>
      p_unused_tokens * dialectic.seconds_between(p_tokens_per_minute));
  end if;
  if p_outcome = 'unused' then
    v_row.requests_until := v_row.requests_until - make_interval(secs =>
      coalesce(dialectic.seconds_between(
        dialectic.rate_of(v_row, p_requests_per_minute, v_now)), 0.0));
  end if;
  v_row := dialectic.count_calls(v_row, v_now,
    p_answered + (p_outcome in ('answered', 'failed'))::integer, (p_outcome = 'failed')::integer);

  if p_outcome = 'answered' then
    v_row.key_refused_at := null;
    v_row.key_message := null;
  elsif p_outcome = 'throttled' then
    v_row := dialectic.slow_down(v_row, v_now, p_retry_after, p_requests_per_minute);
  elsif p_outcome = 'key' then
    v_row.key_refused_at := coalesce(v_row.key_refused_at, v_now);
    v_row.key_message := p_message;
  end if;

  if p_outcome = 'quota' then
    v_row := dialectic.open_circuit(v_row, v_now, 'provider_quota', p_message);
  elsif p_outcome = 'failed' and (v_is_probe or v_before = 'closed'
      and dialectic.total(v_row.calls) >= 10
      and dialectic.total(v_row.failures) * 2 >= dialectic.total(v_row.calls)) then
    v_row := dialectic.open_circuit(v_row, v_now, 'provider_failing', p_message);
  elsif v_is_probe and p_outcome = 'unused' then
    -- The probe was not sent: the next call may probe.
    v_row.circuit := 'open';
    v_row.probe_at := v_now;
    v_row := dialectic.forget_probe(v_row);
  elsif v_is_probe then
    v_row := dialectic.close_circuit(v_row);
  end if;
  if v_row.circuit = v_before then
    perform set_config('synchronous_commit', 'off', true);
  end if;
  perform dialectic.put_endpoint(v_row);
  return dialectic.is_calm(v_row, v_now);
end
$$;

-- The endpoint throttled a call: block all calls until the time it gave, then use a lower rate.
-- Concurrent calls are throttled together: that lowers the rate once, not once per call. Of an
-- endpoint without limits, the last minute's calls are known, and a run has just begun with few: it
-- is taken to allow 30. One that allows less says so again, and is called less each time.
create or replace function dialectic.slow_down(
  p_row dialectic.dialectic_endpoints, p_now timestamptz, p_retry_after interval,
  p_requests_per_minute integer
) returns dialectic.dialectic_endpoints
language plpgsql stable
as $$
begin
  if p_retry_after is not null then
    p_row.closed_until := greatest(
      p_row.closed_until, p_now + least(p_retry_after, interval '1 hour'));
  end if;
  if p_row.rate_cut_at is null or p_row.rate_cut_at <= p_now - interval '5 seconds' then
    p_row.rate_per_minute := greatest(1.0, 0.7 * coalesce(
      dialectic.rate_of(p_row, p_requests_per_minute, p_now),
      greatest(dialectic.total(p_row.calls), 30)));
    p_row.rate_cut_at := p_now;
  end if;
  return p_row;
end
$$;

-- Open the circuit. The first probe goes after 15 s, each later one after twice as long, up to 5
-- minutes. For an account without credit it goes after an hour, or when a user resumes waiting
-- work.
create or replace function dialectic.open_circuit(
  p_row dialectic.dialectic_endpoints, p_now timestamptz, p_reason text, p_message text
) returns dialectic.dialectic_endpoints
language plpgsql immutable
as $$
begin
  if p_row.circuit = 'closed' or p_row.reason <> p_reason then
    p_row.opened_at := p_now;
  end if;
  p_row.circuit := 'open';
  p_row.reason := p_reason;
  p_row.message := p_message;
  p_row.probe_at := p_now + case p_reason
    when 'provider_quota' then interval '1 hour'
    else least(interval '5 minutes', interval '15 seconds' * power(2, least(p_row.opened_count, 8)))
  end;
  p_row.opened_count := p_row.opened_count + 1;
  return dialectic.forget_calls(dialectic.forget_probe(p_row));
end
$$;

create or replace function dialectic.close_circuit(p_row dialectic.dialectic_endpoints)
returns dialectic.dialectic_endpoints
language plpgsql immutable
as $$
begin
  p_row.circuit := 'closed';
  p_row.reason := null;
  p_row.message := null;
  p_row.opened_at := null;
  p_row.probe_at := null;
  p_row.opened_count := 0;
  return dialectic.forget_calls(dialectic.forget_probe(p_row));
end
$$;

-- Clear the probe: no call probes the endpoint at present.
create or replace function dialectic.forget_probe(p_row dialectic.dialectic_endpoints)
returns dialectic.dialectic_endpoints
language plpgsql immutable
as $$
begin
  p_row.probe_tenant_id := null;
  p_row.probe_job_id := null;
  p_row.probe_attempt := null;
  return p_row;
end
$$;

create or replace function dialectic.forget_calls(p_row dialectic.dialectic_endpoints)
returns dialectic.dialectic_endpoints
language plpgsql immutable
as $$
begin
  p_row.calls := array_fill(0, array[6]);
  p_row.failures := array_fill(0, array[6]);
  return p_row;
end
$$;

create or replace function dialectic.put_endpoint(p_row dialectic.dialectic_endpoints) returns void
language sql
as $$
  update dialectic.dialectic_endpoints e
  set requests_until = p_row.requests_until, tokens_until = p_row.tokens_until,
      line_until = p_row.line_until, closed_until = p_row.closed_until,
      rate_per_minute = p_row.rate_per_minute, rate_cut_at = p_row.rate_cut_at,
      circuit = p_row.circuit, reason = p_row.reason, message = p_row.message,
      opened_at = p_row.opened_at, probe_at = p_row.probe_at, opened_count = p_row.opened_count,
      probe_tenant_id = p_row.probe_tenant_id, probe_job_id = p_row.probe_job_id,
      probe_attempt = p_row.probe_attempt, window_number = p_row.window_number,
      calls = p_row.calls, failures = p_row.failures, key_refused_at = p_row.key_refused_at,
      key_message = p_row.key_message
  where e.endpoint = p_row.endpoint
$$;

-- Trigger: a tenant has removed or replaced its endpoint, so what was known of it holds no longer.
create or replace function dialectic.forget_endpoint() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_endpoint text := dialectic.endpoint_of(old.tenant_id, '@' || old.name);
begin
  delete from dialectic.dialectic_endpoints e where e.endpoint = v_endpoint;
  delete from dialectic.dialectic_endpoint_calls c where c.endpoint = v_endpoint;
  return null;
end
$$;

-- A user has resumed a session: allow one probe at each endpoint whose account had no credit.
create or replace function dialectic.allow_probes(p_session_id uuid) returns void
language sql security definer set search_path = pg_catalog, pg_temp
as $$
  update dialectic.dialectic_endpoints e
  set probe_at = dialectic.now()
  where e.circuit = 'open' and e.reason = 'provider_quota' and e.endpoint in (
    select dialectic.endpoint_of(j.tenant_id, j.payload ->> 'model_name')
    from dialectic.dialectic_generation_jobs j
    where j.tenant_id = dialectic.current_tenant() and j.session_id = p_session_id
      and j.status = 'paused')
$$;

-- The state of all endpoints, for display.
create or replace function dialectic.list_endpoints()
returns table (
  endpoint text, circuit text, reason text, message text, opened_at timestamptz,
  probe_in_s double precision, probe_at timestamptz, closed_s double precision,
  closed_until timestamptz, rate_per_minute double precision,
  key_refused_at timestamptz, key_message text
)
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
  select e.endpoint, e.circuit, e.reason, e.message, e.opened_at,
    extract(epoch from e.probe_at - dialectic.now()), e.probe_at,
    extract(epoch from greatest(e.closed_until - dialectic.now(), interval '0')),
    case when e.closed_until > dialectic.now() then e.closed_until end,
    dialectic.rate_of(e, null, dialectic.now()),
    e.key_refused_at, e.key_message
  from dialectic.dialectic_endpoints e
  order by e.endpoint
$$;
