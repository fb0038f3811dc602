-- Enqueue a message with the job's tenant and id, in its lane: the only writer of the queue.
-- The queue uses the real clock and tests may set ours, so the time is corrected by the difference.
-- Our clock is fixed at the start of the statement, so a message is late by at most the statement's
-- duration. A message that came early would find its job not yet due and be lost.
create or replace function dialectic.dispatch(p_job dialectic.dialectic_generation_jobs) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  insert into queue.pgqueuer (priority, entrypoint, payload, status, dedupe_key, execute_after)
  values (
    p_job.priority,
    dialectic.lane_of(p_job),
    convert_to(p_job.tenant_id || ' ' || p_job.id, 'UTF8'),
    'queued',
    p_job.tenant_id || ' ' || p_job.id || ':' || p_job.dispatch_count,
    p_job.run_at - (dialectic.now() - pg_catalog.clock_timestamp())
  )
  on conflict (dedupe_key) where status in ('queued', 'picked') and dedupe_key is not null
  do nothing;
end
$$;

-- The key of a model's endpoint: its name, or for a tenant's own endpoint, whose name begins with
-- `@`, the tenant and the name. Python: Endpoint.state_key.
create or replace function dialectic.endpoint_of(p_tenant_id uuid, p_model_name text) returns text
language sql immutable parallel safe
as $$
  select case when starts_with(p_model_name, '@') then p_tenant_id::text || '/' else '' end
    || split_part(p_model_name, '/', 1)
$$;

-- The lane of a job's message: plans, calls of one endpoint, or everything else. Workers skip lanes
-- without capacity. A stage without steps is one call, although its job is a plan job.
create or replace function dialectic.lane_of(p_job dialectic.dialectic_generation_jobs) returns text
language sql stable
as $$
  select case
    when p_job.payload ->> 'model_name' is null then 'job'
    when p_job.payload ->> 'job_type' = 'combine' then 'plan'
    when p_job.payload ->> 'job_type' = 'plan' and exists (
      select from dialectic.dialectic_sessions s
      join dialectic.dialectic_stages t
        on t.tenant_id = s.tenant_id and t.process_template_id = s.process_template_id
      where s.tenant_id = p_job.tenant_id and s.id = p_job.session_id
        and t.slug = p_job.stage_slug and t.input_artifact_rules ? 'steps'
    ) then 'plan'
    else 'call:' || dialectic.endpoint_of(p_job.tenant_id, p_job.payload ->> 'model_name')
  end
$$;

-- The lanes with waiting messages, by one index lookup each (a loose index scan).
create or replace function dialectic.list_lanes() returns table (lane text)
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
  with recursive lanes as (
    (select q.entrypoint from queue.pgqueuer q
      where q.status = 'queued' order by q.entrypoint limit 1)
    union all
    select (
      select q.entrypoint from queue.pgqueuer q
      where q.status = 'queued' and q.entrypoint > l.entrypoint
      order by q.entrypoint limit 1)
    from lanes l where l.entrypoint is not null
  )
  select l.entrypoint from lanes l where l.entrypoint is not null
$$;

-- The time until the next message of these lanes is due: zero if one is overdue, null if none
-- waits.
create or replace function dialectic.find_due(p_lanes text[]) returns interval
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
  select case
    when exists (
      select from queue.pgqueuer q
      where q.status = 'queued' and q.entrypoint = any (p_lanes) and q.execute_after <= now()
    ) then interval '0'
    else (
      select q.execute_after - now() from queue.pgqueuer q
      where q.status = 'queued' and q.entrypoint = any (p_lanes) and q.execute_after > now()
      order by q.execute_after
      limit 1
    )
  end
$$;

-- Take the due messages of one session's jobs from the queue, from each lane as many as it has room
-- for. They are deleted: if the worker dies before it claims a job, the sweeper sends another
-- message. A message whose holder has been silent for longer than p_silence counts as queued.
create or replace function dialectic.take_messages(
  p_tenant_id uuid, p_session_id uuid, p_lanes text[], p_room integer[], p_silence interval
) returns table (job_id uuid, lane text)
language sql security definer set search_path = pg_catalog, pg_temp
as $$
  with due as (
    select q.id, q.priority, q.entrypoint, j.id as job_id
    from dialectic.dialectic_generation_jobs j
    join queue.pgqueuer q
      on q.dedupe_key = j.tenant_id || ' ' || j.id || ':' || j.dispatch_count
      and q.status in ('queued', 'picked') and q.dedupe_key is not null
    where j.tenant_id = p_tenant_id and j.session_id = p_session_id
      and (dialectic.is_runnable(j.status) or j.status = 'processing')
      and q.entrypoint = any (p_lanes) and q.execute_after <= now()
      and (q.status = 'queued' or q.heartbeat < now() - p_silence)
    for update of q skip locked
  ), ranked as (
    select d.*, row_number() over (partition by d.entrypoint order by d.priority desc, d.id) as nth
    from due d
  )
  delete from queue.pgqueuer q
  using ranked r
  join unnest(p_lanes, p_room) as open (lane, room) on open.lane = r.entrypoint
  where q.id = r.id and r.nth <= open.room
  returning r.job_id, r.entrypoint
$$;

-- The time until the next message of one session in these lanes is due; null if none waits.
create or replace function dialectic.find_session_due(
  p_tenant_id uuid, p_session_id uuid, p_lanes text[]
) returns interval
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
  select greatest(min(q.execute_after) - now(), interval '0')
  from dialectic.dialectic_generation_jobs j
  join queue.pgqueuer q
    on q.dedupe_key = j.tenant_id || ' ' || j.id || ':' || j.dispatch_count
    and q.status = 'queued' and q.dedupe_key is not null
  where j.tenant_id = p_tenant_id and j.session_id = p_session_id
    and dialectic.is_runnable(j.status) and q.entrypoint = any (p_lanes)
$$;
